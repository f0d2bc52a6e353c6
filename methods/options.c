#include "methods/options.h"
#include <string.h>

#define AT(member) offsetof(struct method_options, member)
#define CHOICES(...)                                                                                               \
    (const char *const[])                                                                                          \
    {                                                                                                              \
        __VA_ARGS__, NULL                                                                                          \
    }

// Whole numbers above this have no exact double, and no use.
#define MOST 9007199254740992.0

const struct option method_option_table[] = {
    {"chunk", OPTION_COUNT, AT(chunk), 1, MOST, 512, NULL, "tokens per column of the context"},
    {"head_chunk", OPTION_COUNT, AT(head_chunk), 0, MOST, 256, NULL,
     "tokens per block of logits; 0: all of a column at once"},
    {"keep", OPTION_CHOICE, AT(keep), 0, 0, KEEP_LEAN, CHOICES("lean", "all"),
     "what a cell keeps: lean rebuilds norms and SwiGLU's product, all keeps them as autograd does"},
    {"inner", OPTION_CHOICE, AT(inner), 0, 0, INNER_NONE, CHOICES("none", "checkpoint"),
     "inside a column: keep every cell's activations, or its input alone"},
    {"budget", OPTION_COUNT, AT(budget), 0, MOST, 0, NULL, "columns to backpropagate through, t of K"},
    {"sampler", OPTION_CHOICE, AT(sampler), 0, 0, SAMPLER_UNIFORM,
     CHOICES("uniform", "bernoulli", "sequential", "fixed"), "how the columns are drawn"},
    {"compensation", OPTION_CHOICE, AT(compensation), 0, 0, COMPENSATION_PAPER,
     CHOICES("none", "paper", "capped", "sequential"),
     "factor of the gradient that comes in through keys and values: 1, the loss's own, that with a cap; "
     "sequential gives a fixed set the factors of that sampler"},
    {"cap", OPTION_NUMBER, AT(cap), 0, 1e6, 2, NULL, "largest factor under compensation capped"},
    {"minimum", OPTION_NUMBER, AT(minimum), 0, 1, 0, NULL,
     "least probability of a column under sampler sequential; 0: half of budget / K"},
    {"loss", OPTION_CHOICE, AT(loss), 0, 0, LOSS_SAMPLED, CHOICES("all", "sampled"),
     "report the loss of every column, or an estimate from the sampled ones"},
    {"sampler_seed", OPTION_COUNT, AT(sampler_seed), 0, MOST, 1, NULL,
     "seed of the draw; a run makes those of its later steps from it"},
    {"columns", OPTION_LIST, AT(columns), 0, COLUMNS_MAX - 1, 0, NULL, "the columns of sampler fixed, from 0"},
    {"behaviour", OPTION_CHOICE, AT(behaviour), 0, 0, BEHAVIOUR_OK, CHOICES("ok", "fail", "hang", "oom", "crash"),
     "what the step of method null does"},
    {"seconds", OPTION_NUMBER, AT(seconds), 0, 1e6, 0, NULL, "how long the step of method null takes"},
    {.name = NULL},
};

const struct option *option_find(const char *name)
{
    for (const struct option *option = method_option_table; option->name; option++) {
        if (strcmp(option->name, name) == 0) {
            return option;
        }
    }
    return NULL;
}

void options_init(struct method_options *options)
{
    memset(options, 0, sizeof *options);
    for (const struct option *option = method_option_table; option->name; option++) {
        void *value = (char *)options + option->offset;
        switch (option->type) {
        case OPTION_COUNT:
            *(size_t *)value = (size_t)option->initial;
            break;
        case OPTION_NUMBER:
            *(double *)value = option->initial;
            break;
        case OPTION_CHOICE:
            *(int *)value = (int)option->initial;
            break;
        case OPTION_LIST:
            break; // empty
        }
    }
}

struct method_options options_copy(const struct method_options *options)
{
    struct method_options copy = *options;
    for (const struct option *option = method_option_table; option->name; option++) {
        if (option->type == OPTION_LIST) {
            const void *list = (const char *)options + option->offset;
            *(struct index_list *)((char *)&copy + option->offset) = index_list_copy(list);
        }
    }
    return copy;
}

void options_free(struct method_options *options)
{
    for (const struct option *option = method_option_table; option->name; option++) {
        if (option->type == OPTION_LIST) {
            index_list_free((struct index_list *)((char *)options + option->offset));
        }
    }
}
