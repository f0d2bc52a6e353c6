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

static struct parameter *add_factor(struct model *model, size_t rows, size_t cols, size_t layer, const char *name,
                                    enum factor factor)
{
    struct parameter *p = add(model, rows, cols, "base_model.model.model.layers.");
    append(append(append(append_number(p->name + strlen(p->name), layer), "."), name),
           factor == FACTOR_A ? ".lora_A.weight" : ".lora_B.weight");
    p->factor = factor;
    return p;
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
    if (model->lora.rank && (model->lora.targets & target)) {
        p.lora_a = add_factor(model, model->lora.rank, in, layer, name, FACTOR_A);
        p.lora_b = add_factor(model, out, model->lora.rank, layer, name, FACTOR_B);
    }
    return p;
}

void model_list(struct model *model, const struct config *config, const struct lora *lora)
{
    const struct config *c = config;
    *model = (struct model){.config = *config, .lora = *lora, .ranks = ranks_alone(config)};
    // Per layer at most: six norms, and seven projections of weight, bias and two factors.
    model->parameters = calloc(3 + c->layers * (6 + 7 * 4), sizeof *model->parameters);
    model->layers = calloc(c->layers, sizeof *model->layers);
    model->transits = calloc(c->layers + 2, sizeof *model->transits);
    CHECK(model->parameters && model->layers && model->transits);
    size_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    bool before = c->norms != NORMS_AFTER, after = c->norms != NORMS_BEFORE;
    model->embedding = add(model, c->vocab, c->width, "model.embed_tokens.weight");
    for (size_t l = 0; l < c->layers; l++) {
        struct layer *layer = &model->layers[l];
        layer->first = &model->parameters[model->parameter_count];
        if (before) {
            layer->attention_norm = add_gain(model, c->width, l, "input_layernorm");
        }
        layer->q = add_projection(model, l, "self_attn.q_proj", q, c->width, c->qkv_bias, LORA_Q);
        layer->k = add_projection(model, l, "self_attn.k_proj", kv, c->width, c->qkv_bias, LORA_K);
        layer->v = add_projection(model, l, "self_attn.v_proj", kv, c->width, c->qkv_bias, LORA_V);
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
        layer->down = add_projection(model, l, "mlp.down_proj", c->width, c->ffn, false, LORA_DOWN);
        if (after) {
            layer->mlp_out_norm = add_gain(model, c->width, l, "post_feedforward_layernorm");
        }
    }
    model->final_norm = gain(model, add(model, 1, c->width, "model.norm.weight"));
    model->head = c->tied ? model->embedding : add(model, c->vocab, c->width, "lm_head.weight");
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
    const struct parameter *first = model->layers[ranks->first_layer].first;
    const struct parameter *end =
        ranks->end_layer < model->config.layers ? model->layers[ranks->end_layer].first : above;
    return parameter >= first && parameter < end;
}

bool model_can_train(const struct model *model, const struct parameter *parameter)
{
    return !model->lora.rank || model->lora_beside || parameter_is_factor(parameter);
}

void model_open(struct model *model, const struct config *config, const struct model_options *options,
                struct device *device)
{
    model_list(model, config, &options->lora);
    model->device = device;
    model->kv_gradient_dtype = options->kv_gradient_dtype;
    model->gradient_dtype = options->gradient_dtype;
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
    const char *name = parameter->name;
    struct distribution d = {
        .random = random_named(seed, name), .mean = parameter->mean, .deviation = 1 / sqrt(parameter->value.cols)};
    if (strstr(name, "norm.weight")) {
        d.deviation = 0.1;
    } else if (strstr(name, ".bias") || strstr(name, "lora_B")) {
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
    model->lowest_trained = 0;
    while (model->turn.taken && !unit_training(model, unit_of_layer(model->lowest_trained))) {
        model->lowest_trained++;
    }
}

bool model_descends(const struct model *model, size_t layer)
{
    return !model->turn.taken || layer > model->lowest_trained;
}

void model_zero_gradients(struct model *model)
{
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

// of_*: how often a weight, a factor of LoRA and a pair of attention are multiplied, in those of a forward.
static double flops(const struct config *c, const struct lora *lora, const struct batch *batch, double of_weight,
                    double of_factor, double of_attention)
{
    size_t context = batch->context, windows = 0; // layers with one
    for (size_t l = 0; c->sliding_window && l < c->layers; l++) {
        windows += config_window(c, l) > 0;
    }
    double q = (double)c->heads * c->head_dim, kv = (double)c->kv_heads * c->head_dim;
    double in_out[LORA_TARGETS][2] = {{c->width, q},      {c->width, kv},     {c->width, kv},    {q, c->width},
                                      {c->width, c->ffn}, {c->width, c->ffn}, {c->ffn, c->width}};
    double weights = (double)c->vocab * c->width, factors = 0; // per token: the head; LoRA
    for (int i = 0; i < LORA_TARGETS; i++) {
        weights += c->layers * in_out[i][0] * in_out[i][1];
        if (lora->rank && (lora->targets >> i & 1)) {
            factors += c->layers * lora->rank * (in_out[i][0] + in_out[i][1]);
        }
    }
    double attention = of_attention * 4 * pairs_seen(batch, 0) * q * (c->layers - windows);
    if (windows) {
        attention += of_attention * 4 * pairs_seen(batch, c->sliding_window) * q * windows;
    }
    return batch->batch * (context * (2 * of_weight * weights + 2 * of_factor * factors) + attention);
}

double model_forward_flops(const struct config *c, const struct lora *lora, const struct batch *batch)
{
    return flops(c, lora, batch, 1, 1, 1);
}

double model_flops(const struct config *c, const struct lora *lora, const struct batch *batch)
{
    return flops(c, lora, batch, lora->rank ? 2 : 3, 3, 3); // a frozen weight has no gradient of its own
}
