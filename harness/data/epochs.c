#include "harness/data/epochs.h"
#include "kernels/base/random.h"
#include <float.h>
#include <stdlib.h>

// Fisher-Yates shuffle with the epoch's own random numbers.
static void set_order(struct epochs *epochs, size_t epoch)
{
    size_t count = epochs->count;
    if (!epochs->order)
        epochs->order = malloc(count * sizeof *epochs->order);
    struct random random = random_named(epochs->shuffle, "windows");
    for (size_t i = 0; i < count; i++)
        epochs->order[i] = i;
    for (size_t i = count; i-- > 1;) {
        size_t other = (size_t)random_below(&random, epoch * count + i, i + 1), swapped = epochs->order[i];
        epochs->order[i] = epochs->order[other];
        epochs->order[other] = swapped;
    }
    epochs->epoch = epoch;
}

size_t epochs_item(struct epochs *epochs, size_t index)
{
    size_t epoch = index / epochs->count, item = index % epochs->count;
    if (epochs->shuffle && (!epochs->order || epochs->epoch != epoch))
        set_order(epochs, epoch);
    return epochs->first + (epochs->shuffle ? epochs->order[item] : item);
}

size_t epochs_share(double share, size_t count)
{
    return (size_t)(share * (double)count * (1 + DBL_EPSILON));
}

struct epochs epochs_split(struct epochs *epochs, size_t count)
{
    free(epochs->order); // the order covers all items
    epochs->order = NULL;
    epochs->count -= count;
    return (struct epochs){.first = epochs->first + epochs->count, .count = count};
}

void epochs_close(struct epochs *epochs)
{
    free(epochs->order);
    *epochs = (struct epochs){0};
}
