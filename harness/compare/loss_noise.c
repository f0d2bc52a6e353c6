#include "harness/compare/loss_noise.h"
#include <math.h>

// s^2.
static double scatter(const struct record *record, size_t steps)
{
    const struct number_list *loss = &record->curve->loss;
    double squares = 0;
    for (size_t i = loss->count - steps; i < loss->count; i++)
        squares += i ? pow(loss->items[i] - loss->items[i - 1], 2) : 0;
    return squares / (2 * (double)steps);
}

double loss_noise(const struct record *base, const struct record *new)
{
    size_t base_steps = record_last_steps(base), new_steps = record_last_steps(new);
    if (!base_steps || !new_steps)
        return 0;
    return 2 * sqrt(scatter(base, base_steps) * (1 / (double)base_steps + 1 / (double)new_steps));
}
