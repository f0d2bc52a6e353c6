#include "kernels/layers/choices.h"
#include <string.h>

// Choices of a layer, and the runs of tokens that have some, from the left.
struct layer_choices {
    struct tensor t; // [rows, words] i32; no tensor: a layer without experts, or another rank's
    struct span *runs;
    size_t count;
};
// Totals of a layer are the rows of `totals` from its number among layers with experts on, one or one a sequence;
// behind them, in losses over all layers, comes their sum.
struct choices {
    struct layer_choices *layers;
    const struct batch *batch;
    struct tensor totals; // no tensor: there are no losses
    size_t sequences;     // rows of a layer
    double factor;
    bool settled;
    unsigned reverse_sums; // the device's, for the next step
};

void kept_choices_free(struct kept_choices *kept)
{
    for (size_t l = 0; l < kept->layers; l++)
        free(kept->of[l]);
    free(kept->of);
    *kept = (struct kept_choices){0};
}

struct choice_shares kept_choices_compare(const struct kept_choices *a, const struct kept_choices *b)
{
    struct choice_shares shares = {0};
    double differing = 0, pairs = 0;
    CHECK(a->layers == b->layers && a->rows == b->rows && a->numbers == b->numbers);
    for (size_t l = 0; l < a->layers; l++) {
        size_t words = a->rows ? a->numbers / a->rows : 0;
        double of_layer = 0;
        for (size_t row = 0; row < a->rows && a->of[l]; row++)
            of_layer += memcmp(a->of[l] + row * words, b->of[l] + row * words, words * sizeof(int32_t)) != 0;
        differing += of_layer;
        pairs += a->of[l] ? (double)a->rows : 0;
        if (a->of[l] && of_layer / (double)a->rows > shares.largest)
            shares.largest = of_layer / (double)a->rows;
    }
    shares.all = pairs > 0 ? differing / pairs : 0;
    return shares;
}

static bool has_experts(const struct model *model, size_t layer)
{
    return config_mlp(&model->config, layer)->chooses;
}

// Number of layers with experts below this one, on this rank.
static size_t number_of(const struct model *model, size_t layer)
{
    size_t number = 0;
    for (size_t l = model->ranks.first_layer; l < layer; l++)
        number += has_experts(model, l);
    return number;
}

static bool is_global(const struct model *model)
{
    return model->router_losses.form == ROUTER_LOSS_GLOBAL;
}

static void open_totals(struct model *model, const struct batch *batch)
{
    const struct router_losses *losses = &model->router_losses;
    struct choices *choices = model->choices;
    if (!router_losses_any(losses) && losses->bias_update == 0)
        return;
    choices->sequences = losses->form == ROUTER_LOSS_SEQUENCE ? batch->batch : 1;
    size_t rows = number_of(model, model->ranks.end_layer) * choices->sequences + is_global(model);
    choices->totals = tensor_new(model->device, rows, router_totals(&model->config.experts.routing), DTYPE_F64,
                                 CATEGORY_HIDDEN_CHECKPOINTS);
    op_zero(model->device, choices->totals);
}

// Writes the choices that a probe gives.
static void give(struct model *model)
{
    const struct kept_choices *given = model->probe ? model->probe->given : NULL;
    for (size_t l = 0; given && l < given->layers; l++) {
        struct tensor t = model->choices->layers[l].t;
        CHECK(!t.data || (given->of[l] && given->numbers == tensor_count(t)));
        if (t.data)
            op_upload(model->device, t, given->of[l]);
    }
}

// Zeroes what words have behind a row's choices, which nobody wrote.
static void clear_tails(int32_t *numbers, size_t rows, const struct routing *routing)
{
    size_t row_bytes = routing_words(routing) * sizeof *numbers;
    size_t used = routing->chosen * (routing_is_wide(routing) ? 2 : 1);
    for (size_t row = 0; row < rows; row++)
        memset((char *)numbers + row * row_bytes + used, 0, row_bytes - used);
}

// Reads the choices for a probe.
static void keep(struct model *model)
{
    const struct choices *choices = model->choices;
    struct kept_choices *taken = model->probe ? model->probe->taken : NULL;
    if (!taken)
        return;
    *taken = (struct kept_choices){.layers = model->config.layers, .whole = true};
    CHECK(taken->of = calloc(taken->layers, sizeof *taken->of));
    for (size_t l = 0; l < taken->layers; l++) {
        const struct layer_choices *layer = &choices->layers[l];
        if (!layer->t.data)
            continue;
        taken->rows = layer->t.rows;
        taken->numbers = tensor_count(layer->t);
        taken->whole &= layer->count == 1 && layer->runs[0].count == choices->batch->context;
        CHECK(taken->of[l] = calloc(taken->numbers, sizeof **taken->of));
        op_download(model->device, taken->of[l], layer->t);
        clear_tails(taken->of[l], taken->rows, &model->config.experts.routing);
    }
}

void choices_open(struct model *model, const struct batch *batch)
{
    const struct ranks *ranks = &model->ranks;
    size_t rows = batch->context * batch->batch;
    CHECK(!model->choices);
    for (size_t l = ranks->first_layer; l < ranks->end_layer && rows > 0; l++) {
        if (!has_experts(model, l))
            continue;
        if (!model->choices) {
            CHECK(model->choices = calloc(1, sizeof *model->choices));
            CHECK(model->choices->layers = calloc(model->config.layers, sizeof *model->choices->layers));
        }
        model->choices->layers[l].t = tensor_new(model->device, rows, routing_words(&model->config.experts.routing),
                                                 DTYPE_I32, CATEGORY_HIDDEN_CHECKPOINTS);
    }
    if (model->choices) {
        model->choices->batch = batch;
        model->choices->factor = 1;
        model->choices->reverse_sums = model->device->reverse_sums;
        give(model);
        open_totals(model, batch);
    }
}

bool choices_precede(const struct model *model, size_t layer)
{
    return has_experts(model, layer) && model->choices && model->choices->totals.data &&
           model->router_losses.aux > 0 && model->router_losses.counts == ROUTER_COUNTS_STEP;
}

// The rows of a layer's totals, by its number; of the number behind the last one, the sum over layers.
static struct tensor totals_of(const struct model *model, size_t number)
{
    size_t rows = model->choices->sequences;
    return tensor_rows(model->choices->totals, number * rows, rows);
}

// Sequences are those of ranks with other tokens of the same ones.
static const struct comm *counting_ranks(const struct model *model)
{
    return model->router_losses.form == ROUTER_LOSS_SEQUENCE ? &model->ranks.sequence : &model->ranks.replicas;
}

void choices_settle(struct model *model)
{
    struct choices *choices = model->choices;
    if (!choices || choices->settled)
        return;
    size_t layers = number_of(model, model->ranks.end_layer);
    choices->settled = true;
    if (model->probe && model->probe->reverse_sums)
        model->device->reverse_sums = model->probe->reverse_sums;
    if (!choices->totals.data)
        return;
    if (counting_ranks(model)->size > 1)
        comm_sum(counting_ranks(model), model->device,
                 tensor_rows(choices->totals, 0, layers * choices->sequences));
    for (size_t i = 0; i < layers && is_global(model); i++)
        op_accumulate(model->device, totals_of(model, layers), totals_of(model, i));
}

void choices_weigh(struct model *model, double factor)
{
    if (model->choices)
        model->choices->factor = factor;
}

// The factor of sums over the tokens of a layer, or of all layers with experts, that makes them means.
static double token_share(const struct model *model, const struct batch *batch, bool of_all)
{
    size_t layers = of_all ? 0 : 1;
    for (size_t l = 0; l < model->config.layers; l++)
        layers += of_all && has_experts(model, l);
    double tokens = (double)batch->normaliser.tokens * (double)layers;
    return tokens > 0 ? 1 / tokens : 0;
}

// The balancing loss's factor of sum_e counts_e P_e / tokens, over the scopes of its form.
static double balance_of(const struct model *model, const struct batch *batch)
{
    const struct routing *routing = &model->config.experts.routing;
    double experts = (double)routing->experts;
    return (is_global(model) ? experts : experts / (double)routing->chosen) *
           token_share(model, batch, is_global(model));
}

// The layers' counts, for biases.
static void note_counts(const struct model *model, const double *totals)
{
    const struct choices *choices = model->choices;
    size_t experts = model->config.experts.routing.experts, cols = choices->totals.cols;
    for (size_t l = model->ranks.first_layer; l < model->ranks.end_layer && model->router_counts; l++)
        for (size_t row = 0; row < choices->sequences && has_experts(model, l); row++)
            for (size_t e = 0; e < experts; e++)
                model->router_counts[l * experts + e] +=
                    totals[(number_of(model, l) * choices->sequences + row) * cols + e];
}

void choices_read_losses(struct model *model, const struct batch *batch, struct objective_sums *sums)
{
    struct choices *choices = model->choices;
    if (!choices || !choices->totals.data || model->device->ops->dataless)
        return;
    size_t experts = model->config.experts.routing.experts, rows = choices->totals.rows,
           cols = choices->totals.cols;
    double *all = calloc(rows * cols, sizeof *all), ranks = (double)counting_ranks(model)->size;
    CHECK(all);
    op_download(model->device, all, choices->totals);
    note_counts(model, all);
    for (size_t row = 0; row < rows; row++) {
        const double *totals = all + row * cols;
        bool of_all = is_global(model) && row + 1 == rows;
        for (size_t e = 0; e < experts && of_all == is_global(model) && totals[2 * experts] > 0; e++)
            sums->metrics[METRIC_AUX_LOSS] +=
                balance_of(model, batch) * totals[e] * totals[experts + e] / totals[2 * experts] / ranks;
        if (!of_all)
            sums->metrics[METRIC_ROUTER_Z_LOSS] +=
                token_share(model, batch, false) * totals[2 * experts + 1] / ranks;
    }
    free(all);
}

void choices_close(struct model *model)
{
    if (model->choices) {
        keep(model);
        model->device->reverse_sums = model->choices->reverse_sums;
        tensor_free(model->device, &model->choices->totals);
    }
    for (size_t l = model->config.layers; model->choices && l-- > 0;) {
        tensor_free(model->device, &model->choices->layers[l].t);
        free(model->choices->layers[l].runs);
    }
    if (model->choices)
        free(model->choices->layers);
    free(model->choices);
    model->choices = NULL;
}

static size_t end_of(struct span tokens)
{
    return tokens.start + tokens.count;
}

// Adds tokens to the runs; true: they are in one of them. Some of them alone never are.
static bool add(struct layer_choices *layer, struct span tokens)
{
    size_t i = 0;
    while (i < layer->count && end_of(layer->runs[i]) <= tokens.start)
        i++;
    struct span *left = i > 0 ? &layer->runs[i - 1] : NULL, *right = i < layer->count ? &layer->runs[i] : NULL;
    if (right && right->start < end_of(tokens)) {
        CHECK(right->start <= tokens.start && end_of(*right) >= end_of(tokens));
        return true;
    }
    if (left && end_of(*left) == tokens.start) {
        left->count += tokens.count;
    } else if (right && right->start == end_of(tokens)) {
        *right = (struct span){tokens.start, tokens.count + right->count};
    } else {
        CHECK(layer->runs = realloc(layer->runs, (layer->count + 1) * sizeof *layer->runs));
        memmove(layer->runs + i + 1, layer->runs + i, (layer->count++ - i) * sizeof *layer->runs);
        layer->runs[i] = tokens;
    }
    return false;
}

// Sets the totals that the cell adds to, or that its backward reads, and its terms.
static void add_losses(struct cell_at *at, size_t B, bool counts)
{
    const struct model *model = at->model;
    const struct choices *choices = model->choices;
    const struct router_losses *losses = &model->router_losses;
    bool sum = at->seen && is_global(model);
    CHECK(counts || choices->settled || losses->aux == 0 || losses->counts == ROUTER_COUNTS_CELL);
    at->totals = totals_of(model, number_of(model, sum ? model->ranks.end_layer : at->layer));
    at->repeats = tensor_rows(choices->batch->repeats, at->chunk.start * B, at->chunk.count * B);
    at->router_terms =
        (struct router_terms){.balance = choices->factor * losses->aux * balance_of(model, choices->batch),
                              .z = choices->factor * losses->z * token_share(model, choices->batch, false),
                              .softmax = is_global(model)};
}

struct cell_at choices_at(struct cell_at at, size_t B, bool claims)
{
    struct layer_choices *layer = at.model->choices ? &at.model->choices->layers[at.layer] : NULL;
    const struct choices_probe *probe = at.model->probe;
    if (!layer || !layer->t.data)
        return at;
    at.choices = tensor_rows(layer->t, at.chunk.start * B, at.chunk.count * B);
    at.seen = !claims || add(layer, at.chunk);
    at.chosen = !claims || (at.seen ? !(probe && probe->anew) : probe && probe->given);
    if (at.model->choices->totals.data)
        add_losses(&at, B, claims);
    return at;
}
