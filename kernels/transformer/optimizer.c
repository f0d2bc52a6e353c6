#include "kernels/transformer/optimizer.h"
#include "kernels/transformer/training.h"
#include "kernels/transformer/weight_options.h"
#include <string.h>

// Every optimizer, once: optimizer_sgd and so on, in the order of lists; the first is that of an entry without a
// name.
#define OPTIMIZERS(X)                                                                                              \
    X(adamw)                                                                                                       \
    X(sgd)                                                                                                         \
    X(adam8bit)                                                                                                    \
    X(bcd)

#define DECLARED(name) extern const struct optimizer optimizer_##name;
#define LISTED(name)   &optimizer_##name,
OPTIMIZERS(DECLARED)
const struct optimizer *const optimizers[] = {OPTIMIZERS(LISTED) NULL};

const struct optimizer *optimizer_find(const char *name)
{
    for (const struct optimizer *const *o = optimizers; *o; o++) {
        if (strcmp((*o)->name, name) == 0) {
            return *o;
        }
    }
    return NULL;
}

bool optimizer_updates_in_walk(const struct optimizer *optimizer, const void *options)
{
    return options_choice(&optimizer->options, options, "when", UPDATE_AT_END) == UPDATE_IN_WALK;
}

void optimizer_begin(struct model *model, size_t t, double rate_factor)
{
    model->update = (struct update){.t = t, .age = t, .rate_factor = rate_factor};
    if (model->optimizer->begin) {
        model->optimizer->begin(model);
    }
}

void optimizer_step(struct model *model)
{
    if (!model->updates_in_walk) {
        training_update(model);
    }
    model->update = (struct update){0};
}
