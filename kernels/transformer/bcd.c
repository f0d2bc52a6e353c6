// BCD: block coordinate descent, AdamW on one layer at a time, the active one, for so many updates, and then on the
// next with a state that is zero. Embedding, head and the norm before it are frozen. Gradients and state are those
// of one layer, and a backward pass ends with it. Luo, Yu & Li 2024 (BAdam), arXiv 2404.02827, algorithm 1.
// Deviation: the published code gives the first block one update less.
#include "kernels/transformer/adamw.h"
#include "kernels/transformer/unit.h"

struct bcd_options {
    struct adamw_options adamw;
    size_t interval, lowest;
    int order;
};
enum { ORDER_ASCENDING, ORDER_DESCENDING, ORDER_RANDOM };

static const struct option rows[] = {
    OPTIONS_ADAMW(1e-5, 0.01, MASTER_KEPT),
    {.name = "interval",
     .type = OPTION_COUNT,
     .offset = offsetof(struct bcd_options, interval),
     .minimum = 1,
     .maximum = OPTION_COUNT_MAX,
     .initial = 100,
     .help = "updates of a layer before the next one's turn"},
    {.name = "order",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct bcd_options, order),
     .choices = OPTION_CHOICES("ascending", "descending", "random"),
     .help = "of the layers' turns; random: anew in every round, each layer once; a plan is of the first turn"},
    {.name = "lowest",
     .type = OPTION_COUNT,
     .offset = offsetof(struct bcd_options, lowest),
     .maximum = OPTION_COUNT_MAX,
     .help = "layer, from 0, below which none has a turn"},
    {0}};

static bool check(const void *options, const struct config *config, enum dtype dtype, struct status *status)
{
    const struct bcd_options *bcd = options;
    if (bcd->lowest >= config->layers) {
        return status_set(status, STATUS_BAD_INPUT, "there is no layer %zu, they are 0 to %zu; lower \"lowest\"",
                          bcd->lowest, config->layers - 1);
    }
    return state_check(bcd->adamw.state, dtype, status);
}

// Number `turn` of the round, of `count`, at random: the end of a Fisher-Yates shuffle, drawn by the round alone.
static size_t drawn(const struct bcd_options *options, size_t round, size_t turn, size_t count)
{
    struct random random = random_named(options->adamw.weights.seed, "turns");
    struct index_list order = index_list_range(count);
    for (size_t i = 0; i < count; i++) {
        size_t other = i + random_below(&random, round * count + i, count - i);
        uint32_t kept = order.items[i];
        order.items[i] = order.items[other];
        order.items[other] = kept;
    }
    size_t found = order.items[turn];
    index_list_free(&order);
    return found;
}

static void begin(struct model *model)
{
    const struct bcd_options *options = model->optimizer_options;
    size_t count = model->config.layers - options->lowest, turn = (model->update.t - 1) / options->interval;
    size_t place = turn % count;
    if (options->order == ORDER_DESCENDING) {
        place = count - 1 - place;
    } else if (options->order == ORDER_RANDOM) {
        place = drawn(options, turn / count, place, count);
    }
    model->update.age = (model->update.t - 1) % options->interval + 1;
    if (model->turn != turn + 1) {
        model->turn = turn + 1;
        model_train(model, unit_of_layer(options->lowest + place));
    }
}

const struct optimizer optimizer_bcd = {
    .name = "bcd",
    .summary = "block coordinate descent: AdamW on one layer at a time",
    .source = "Luo, Yu & Li 2024 (BAdam), arXiv 2404.02827",
    .options = {rows, sizeof(struct bcd_options)},
    .check = check,
    .begin = begin,
    .state = adamw_state,
    .update = adamw_update,
};
