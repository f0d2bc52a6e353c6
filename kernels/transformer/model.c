#include "kernels/transformer/model.h"
#include "kernels/transformer/batch.h"
#include "kernels/transformer/bucket.h"
#include "kernels/transformer/optimizer_step.h"
#include "kernels/transformer/training.h"
#include "kernels/transformer/unit_parameters.h"
#include "kernels/transformer/weights.h"
#include <math.h>
#include <string.h>

// Appends to a name, whose end it returns.
static char *append(char *end, const char *text)
{
    size_t bytes = strlen(text);
    return (char *)memcpy(end, text, bytes + 1) + bytes;
}

static char *append_number(char *end, size_t number)
{
    char digits[24], *at = digits + sizeof digits - 1;
    *at = 0;
    do {
        *--at = (char)('0' + number % 10);
    } while (number /= 10);
    return append(end, at);
}

static struct parameter *add(struct model *model, size_t rows, size_t cols, const char *name)
{
    struct parameter *p = &model->parameters[model->parameter_count++];
    append(p->name, name);
    p->value.rows = rows;
    p->value.cols = cols;
    p->size = rows * cols;
    return p;
}

// Names are not printed: a search for what fits makes thousands of models, and printf is slow where libquadmath,
// which OpenBLAS brings, is loaded.
static struct parameter *add_to_layer(struct model *model, size_t rows, size_t cols, size_t layer, const char *name,
                                      const char *rest)
{
    struct parameter *p = add(model, rows, cols, "model.layers.");
    append(append(append(append_number(p->name + strlen(p->name), layer), "."), name), rest);
    return p;
}

static struct parameter *gain(const struct model *model, struct parameter *p)
{
    p->vector = true;
    p->mean = model->config.unit_offset ? 0 : 1;
    return p;
}

static struct parameter *add_gain(struct model *model, size_t cols, size_t layer, const char *name)
{
    return gain(model, add_to_layer(model, 1, cols, layer, name, ".weight"));
}

// Of a layer's module; of another where there is no number.
#define NO_LAYER SIZE_MAX

static struct parameter *add_factor(struct model *model, size_t rows, size_t cols, size_t layer, const char *name,
                                    const char *rest, enum factor factor)
{
    struct parameter *p = add(model, rows, cols, "base_model.model.");
    char *end = p->name + strlen(p->name);
    if (layer != NO_LAYER) {
        end = append(append_number(append(end, "model.layers."), layer), ".");
    }
    append(append(end, name), rest);
    p->factor = factor;
    return p;
}

// The factors of a module of `out` outputs under PEFT's names, if it has any, for the projections that they are of,
// one below the other.
static void add_factors(struct model *model, size_t layer, enum lora_target target, const char *name, size_t out,
                        size_t in, size_t count, struct projection *const *projections)
{
    struct lora_factors factors = lora_factors_of(&model->lora, layer == NO_LAYER ? 0 : layer, target);
    if (!factors.rank) {
        return;
    }
    struct parameter *a = add_factor(model, factors.rank, in, layer, name, ".lora_A.weight", FACTOR_A);
    struct parameter *b = add_factor(model, out, factors.rank, layer, name, ".lora_B.weight", FACTOR_B);
    for (size_t i = 0, row = 0; i < count; row += projections[i++]->weight->value.rows) {
        projections[i]->lora_a = a;
        projections[i]->lora_b = b;
        projections[i]->lora_row = row;
        projections[i]->lora_scale = lora_scale(&model->lora, factors);
    }
}

// y = table[ids] + scale * A^T[ids] B^T.  A: [rank, vocab], kept as its rows are read, B: [width, rank]
static void add_input_factors(struct model *model)
{
    const struct config *c = &model->config;
    const char *name = "model.embed_tokens";
    struct lora_factors factors = lora_factors_of(&model->lora, 0, LORA_EMBEDDING);
    if (factors.rank) {
        struct projection *p = &model->input;
        p->lora_a = add_factor(model, c->vocab, factors.rank, NO_LAYER, name, ".lora_embedding_A", FACTOR_A);
        p->lora_b = add_factor(model, c->width, factors.rank, NO_LAYER, name, ".lora_embedding_B", FACTOR_B);
        p->lora_a->transposed = true;
        p->lora_scale = lora_scale(&model->lora, factors);
    }
}

// A projection under its Hugging Face name "self_attn.q_proj"; its LoRA factors under PEFT's.
static struct projection add_projection(struct model *model, size_t layer, const char *name, size_t out, size_t in,
                                        bool bias, enum lora_target target)
{
    struct projection p = {.weight = add_to_layer(model, out, in, layer, name, ".weight")};
    if (bias) {
        p.bias = add_to_layer(model, 1, out, layer, name, ".bias");
        p.bias->vector = true;
    }
    add_factors(model, layer, target, name, out, in, 1, (struct projection *[]){&p});
    return p;
}

// The lowest layer whose projections have factors of the same ranks.
static size_t alike(const struct lora *lora, size_t layer)
{
    size_t other = lora->table ? 0 : layer;
    for (size_t i = 0; other < layer && i < LORA_TARGETS; i++) {
        bool outside = 1u << i & (LORA_EMBEDDING | LORA_HEAD);
        if (!outside && lora->table[other * LORA_TARGETS + i].rank != lora->table[layer * LORA_TARGETS + i].rank) {
            other++;
            i = SIZE_MAX; // from the first on
        }
    }
    return other;
}

void model_list(struct model *model, const struct config *config, const struct lora *lora)
{
    const struct config *c = config;
    *model = (struct model){.config = *config, .lora = *lora, .ranks = ranks_alone(config)};
    model->config.tied = config->tied && !lora->untied;
    // Embedding, head and their factors, and a norm; per layer at most six norms, and seven projections of weight,
    // bias and two factors.
    model->parameters = calloc(7 + c->layers * (6 + 7 * 4), sizeof *model->parameters);
    model->layers = calloc(c->layers, sizeof *model->layers);
    model->transits = calloc(c->layers + 2, sizeof *model->transits);
    CHECK(model->parameters && model->layers && model->transits);
    size_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    bool before = c->norms != NORMS_AFTER, after = c->norms != NORMS_BEFORE;
    model->input.weight = model->embedding = add(model, c->vocab, c->width, "model.embed_tokens.weight");
    add_input_factors(model);
    for (size_t l = 0; l < c->layers; l++) {
        struct layer *layer = &model->layers[l];
        layer->first = &model->parameters[model->parameter_count];
        layer->alike = alike(lora, l);
        if (before) {
            layer->attention_norm = add_gain(model, c->width, l, "input_layernorm");
        }
        layer->q = add_projection(model, l, "self_attn.q_proj", q, c->width, c->qkv_bias, LORA_Q);
        layer->k = add_projection(model, l, "self_attn.k_proj", kv, c->width, c->qkv_bias, LORA_K);
        layer->v = add_projection(model, l, "self_attn.v_proj", kv, c->width, c->qkv_bias, LORA_V);
        add_factors(model, l, LORA_QKV, "self_attn.qkv_proj", q + 2 * kv, c->width, 3,
                    (struct projection *[]){&layer->q, &layer->k, &layer->v});
        if (c->qk_norm) {
            size_t whole = c->whole_qk_norm;
            layer->q_norm = add_gain(model, whole ? q : c->head_dim, l, "self_attn.q_norm");
            layer->k_norm = add_gain(model, whole ? kv : c->head_dim, l, "self_attn.k_norm");
        }
        layer->o = add_projection(model, l, "self_attn.o_proj", c->width, q, false, LORA_O);
        if (after) {
            layer->attention_out_norm = add_gain(model, c->width, l, "post_attention_layernorm");
        }
        if (before) {
            layer->mlp_norm =
                add_gain(model, c->width, l, after ? "pre_feedforward_layernorm" : "post_attention_layernorm");
        }
        layer->gate = add_projection(model, l, "mlp.gate_proj", c->ffn, c->width, false, LORA_GATE);
        layer->up = add_projection(model, l, "mlp.up_proj", c->ffn, c->width, false, LORA_UP);
        add_factors(model, l, LORA_GATE_UP, "mlp.gate_up_proj", 2 * c->ffn, c->width, 2,
                    (struct projection *[]){&layer->gate, &layer->up});
        layer->down = add_projection(model, l, "mlp.down_proj", c->width, c->ffn, false, LORA_DOWN);
        if (after) {
            layer->mlp_out_norm = add_gain(model, c->width, l, "post_feedforward_layernorm");
        }
    }
    model->final_norm = gain(model, add(model, 1, c->width, "model.norm.weight"));
    model->head = model->config.tied ? model->embedding : add(model, c->vocab, c->width, "lm_head.weight");
    model->head->copy_of = lora->untied && c->tied ? model->embedding->name : NULL;
    model->output.weight = model->head;
    add_factors(model, NO_LAYER, LORA_HEAD, "lm_head", c->vocab, c->width, 1,
                (struct projection *[]){&model->output});
    for (size_t i = 0; lora->saved && i < model->parameter_count; i++) {
        struct parameter *p = &model->parameters[i];
        p->saved = !parameter_is_factor(p) && lora_saves(lora, p->name);
    }
}

bool model_has(const struct model *model, const struct parameter *parameter)
{
    const struct ranks *ranks = &model->ranks;
    const struct parameter *above = model->final_norm; // the layers' are before it, and after the embedding
    bool bottom = ranks_lowest(ranks), top = ranks_highest(ranks);
    if (parameter == model->embedding) {
        return bottom || (top && model->head == model->embedding);
    }
    if (parameter >= above) {
        return top;
    }
    if (parameter < model->layers[0].first) { // the embedding's factors
        return bottom;
    }
    const struct parameter *first = model->layers[ranks->first_layer].first;
    const struct parameter *end =
        ranks->end_layer < model->config.layers ? model->layers[ranks->end_layer].first : above;
    return parameter >= first && parameter < end;
}

bool model_can_train(const struct model *model, const struct parameter *parameter)
{
    return !model->lora.rank || model->lora_beside || parameter_is_factor(parameter) || parameter->saved;
}

void model_open(struct model *model, const struct config *config, const struct model_options *options,
                struct device *device)
{
    model_list(model, config, &options->lora);
    model->device = device;
    model->kv_gradient_dtype = options->kv_gradient_dtype;
    model->gradient_dtype = options->gradient_dtype;
    model->kv_gradient_stochastic = options->kv_gradient_stochastic && options->kv_gradient_dtype == DTYPE_BF16;
    model->seed = options->seed;
    model->quantisation = options->quantisation;
    model->dequantised = options->dequantised;
    model->weights_place = options->weights_place;
    model->gradients_place = options->gradients_place;
    model->optimizer_place = options->optimizer_place;
    model->optimizer = options->optimizer;
    model->optimizer_options = options->optimizer_options;
    model->updates_in_walk =
        options->optimizer && optimizer_updates_in_walk(options->optimizer, options->optimizer_options);
    model->keeps_gradients =
        !options->optimizer || optimizer_keeps_gradients(options->optimizer, options->optimizer_options);
    if (options->ranks) {
        model->ranks = *options->ranks;
    }
    model->lora_beside = options->lora_beside || (options->optimizer && options->optimizer->lora == LORA_BESIDE);
    CHECK(!model->quantisation || (model->lora.rank && !model->lora_beside));
    buckets_open(model);
    for (size_t unit = 0; unit < unit_count(model); unit++) {
        weights_new(model, unit);
    }
    if (model->optimizer && model->optimizer->turn) {
        optimizer_give_turn(model, model->optimizer->turn(model->optimizer_options, config, 0));
    } else {
        model_train(model);
    }
    size_t pairs = config->head_dim / 2;
    double *frequencies = malloc(pairs * sizeof *frequencies);
    CHECK(frequencies);
    for (int local = 0, last = config->local_rope_theta > 0 ? 1 : 0; local <= last; local++) {
        config_rope_frequencies(config, local, frequencies);
        model->rope_frequencies[local] = tensor_new(device, 1, pairs, DTYPE_F64, CATEGORY_WEIGHTS);
        tensor_write(device, model->rope_frequencies[local], frequencies);
    }
    free(frequencies);
}

void model_close(struct model *model)
{
    for (size_t unit = 0; model->device && unit < unit_count(model); unit++) {
        training_free(model, unit, false);
        weights_free(model, unit);
    }
    if (model->device) {
        buckets_close(model);
        tensor_free(model->device, &model->rope_frequencies[0]);
        tensor_free(model->device, &model->rope_frequencies[1]);
    }
    free(model->parameters);
    free(model->layers);
    free(model->transits);
    *model = (struct model){0};
}

// What a parameter's values are drawn from.
struct distribution {
    struct random random;
    double mean, deviation;
};

static struct distribution distribution_of(const struct parameter *parameter, uint64_t seed)
{
    const char *name = parameter->copy_of ? parameter->copy_of : parameter->name;
    struct distribution d = {
        .random = random_named(seed, name), .mean = parameter->mean, .deviation = 1 / sqrt(parameter->value.cols)};
    if (strstr(name, "norm.weight")) {
        d.deviation = 0.1;
    } else if (strstr(name, "lora_embedding_B")) {
        d.deviation = 1; // as PEFT draws it, for its A is what begins as 0
    } else if (strstr(name, ".bias") || parameter->factor == FACTOR_B || parameter->transposed) {
        d.deviation = 0.02;
    }
    return d;
}

void model_random_values(const struct parameter *parameter, uint64_t seed, enum dtype rounding, size_t first,
                         size_t count, double *values)
{
    enum { TOGETHER = 1024 };
    struct distribution d = distribution_of(parameter, seed);
#pragma omp parallel for schedule(static)
    for (size_t begin = 0; begin < count; begin += TOGETHER) {
        size_t end = count - begin < TOGETHER ? count : begin + TOGETHER;
        random_normals(&d.random, first + begin, end - begin, d.mean, d.deviation, values + begin);
        for (size_t i = begin; i < end; i++) {
            values[i] = dtype_round(values[i], rounding);
        }
    }
}

void model_randomize_parameter(struct model *model, struct parameter *parameter, uint64_t seed, enum dtype rounding)
{
    enum { TOGETHER = 1 << 19 }; // a few MiB
    struct distribution d = distribution_of(parameter, seed);
    if (parameter->value.data && !is_quantised(model, parameter)) {
        op_random_normal(model->device, parameter->value, d.random, d.mean, d.deviation, rounding);
        return;
    }
    size_t all = tensor_count(parameter->value);
    double *values = malloc(TOGETHER * sizeof *values);
    CHECK(values);
    for (size_t first = 0; first < all; first += TOGETHER) {
        size_t count = all - first < TOGETHER ? all - first : TOGETHER;
        model_random_values(parameter, seed, rounding, first, count, values);
        weights_write(model, parameter, first, count, values, rounding);
    }
    free(values);
}

void model_randomize(struct model *model, uint64_t seed, enum dtype rounding)
{
    for (size_t i = 0; i < model->parameter_count; i++) {
        if (model_has(model, &model->parameters[i])) {
            model_randomize_parameter(model, &model->parameters[i], seed, rounding);
        }
    }
}

struct parameter *model_parameter(const struct model *model, const char *name)
{
    for (size_t i = 0; i < model->parameter_count; i++) {
        if (strcmp(model->parameters[i].name, name) == 0) {
            return &model->parameters[i];
        }
    }
    return NULL;
}

struct role model_role(const struct model *model, const struct parameter *p)
{
    const struct turn *turn = &model->turn;
    if (!model_has(model, p) || !model_can_train(model, p)) {
        return (struct role){0};
    }
    if (turn->taken && model->optimizer && model->optimizer->role) {
        return model->optimizer->role(model, p);
    }
    return (struct role){.trains = !turn->taken || unit_of(model, p) == unit_of_layer(turn->layer)};
}

void model_train(struct model *model)
{
    for (size_t unit = 0; unit < unit_count(model); unit++) { // what one turn has goes before the next one's comes
        training_free(model, unit, true);
    }
    for (size_t unit = 0; unit < unit_count(model); unit++) {
        training_new(model, unit);
    }
    // A pipeline's ranks have each their own layers, and pass on what those above give them.
    bool all = ranks_lowest(&model->ranks) && ranks_highest(&model->ranks);
    bool passes = !model->turn.taken && (!all || unit_training(model, UNIT_EMBEDDING));
    model->lowest_trained = 0;
    while (!passes && model->lowest_trained + 1 < model->config.layers &&
           !unit_training(model, unit_of_layer(model->lowest_trained))) {
        model->lowest_trained++;
    }
}

bool model_descends(const struct model *model, size_t layer)
{
    return (!model->turn.taken && model->lowest_trained == 0) || layer > model->lowest_trained;
}

void model_zero_gradients(struct model *model)
{
    model->walk = 0;
    gradients_shape(model);
    if (model->updates_in_walk) {
        gradients_drop(model);
        return;
    }
    for (size_t unit = 0; unit < unit_count(model); unit++) {
        struct parameters parameters = unit_parameters(model, unit);
        model->transits[unit].zero = model->gradients_place == PLACE_HOST;
        bucket_zero_gradients(model, unit);
        for (size_t i = 0; i < parameters.count; i++) {
            struct parameter *p = &parameters.items[i];
            if (p->grad.data && !p->bucket && !model->transits[unit].zero) {
                op_zero(model->device, p->grad);
            }
        }
    }
}

// Pairs of a query and a key that it sees, per sequence. window 0: none.
static double pairs_seen(const struct batch *batch, size_t window)
{
    size_t T = batch->context, most = window && window < T ? window : T;
    double pairs = (double)most * (most + 1) / 2 + (double)(T - most) * most;
    for (size_t row = 0; batch->starts && row < T * batch->batch; row++) {
        size_t start = (size_t)batch->starts[row], seen = row / batch->batch + 1 - start; // of the document
        seen += batch->prefixes && start > 0 ? (size_t)batch->prefixes[row % batch->batch] : 0;
        pairs = (row ? pairs : 0) + (double)(seen < most ? seen : most);
    }
    return batch->starts ? pairs / (double)batch->batch : pairs;
}

// What LoRA adds to a token's work, in weights that multiply: those of the factors, and those of modules that are
// saved whole, whose gradients are taken.
struct lora_work {
    double factors, saved;
    size_t lowest; // layers below have nothing that trains, and a backward pass ends with this one
};

static struct lora_work lora_work(const struct config *c, const struct lora *lora)
{
    struct model model;
    struct lora_work work = {0};
    if (!lora->rank) {
        return work;
    }
    model_list(&model, c, lora);
    size_t highest = unit_of_layer(c->layers - 1), lowest = highest;
    for (size_t i = 0; i < model.parameter_count; i++) {
        const struct parameter *p = &model.parameters[i];
        if (!model_can_train(&model, p)) {
            continue;
        }
        size_t unit = unit_of(&model, p);
        lowest = unit < lowest ? unit : lowest;
        bool looked_up = p == model.embedding ? model.head != p : p->transposed; // no product
        if (!p->vector && !looked_up) {
            *(p->saved ? &work.saved : &work.factors) += (double)p->size;
        }
    }
    model_close(&model);
    work.lowest = lowest ? lowest - unit_of_layer(0) : 0;
    return work;
}

// of_*: how often a weight, a factor of LoRA and a pair of attention are multiplied, in those of a forward.
static double flops(const struct config *c, const struct lora_work *lora, const struct batch *batch,
                    double of_weight, double of_factor, double of_attention)
{
    size_t context = batch->context;
    double q = (double)c->heads * c->head_dim, kv = (double)c->kv_heads * c->head_dim;
    double layer = 2 * c->width * q + 2 * c->width * kv + 3.0 * c->width * c->ffn;
    double weights = (double)c->vocab * c->width + c->layers * layer; // per token
    double whole = 0, windows = 0;                                    // layers without a window and with one
    for (size_t l = 0; l < c->layers; l++) {
        *(config_window(c, l) ? &windows : &whole) += l < lora->lowest ? 1 / of_attention : 1;
    }
    weights -= (double)lora->lowest * layer * (1 - 1 / of_weight);
    double attention = of_attention * 4 * pairs_seen(batch, 0) * q * whole;
    if (windows > 0) {
        attention += of_attention * 4 * pairs_seen(batch, c->sliding_window) * q * windows;
    }
    double factors = of_factor * lora->factors + (of_factor > 1 ? lora->saved : 0);
    return batch->batch * (context * (2 * of_weight * weights + 2 * factors) + attention);
}

double model_forward_flops(const struct config *c, const struct lora *lora, const struct batch *batch)
{
    struct lora_work work = lora_work(c, lora);
    work.lowest = 0;
    return flops(c, &work, batch, 1, 1, 1);
}

double model_flops(const struct config *c, const struct lora *lora, const struct batch *batch)
{
    struct lora_work work = lora_work(c, lora);
    return flops(c, &work, batch, lora->rank ? 2 : 3, 3, 3); // a frozen weight has no gradient of its own
}
