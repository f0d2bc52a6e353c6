#include "kernels/model/model.h"
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

// The layer of a module that is no layer's.
#define NO_LAYER SIZE_MAX

static struct parameter *add_factor(struct model *model, size_t rows, size_t cols, size_t layer, const char *name,
                                    const char *rest, enum factor factor)
{
    struct parameter *p = add(model, rows, cols, "base_model.model.");
    char *end = p->name + strlen(p->name);
    if (layer != NO_LAYER)
        end = append(append_number(append(end, "model.layers."), layer), ".");
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
    if (!factors.rank)
        return;
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
    CHECK(model->parameters && model->layers);
    size_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    bool before = c->norms != NORMS_AFTER, after = c->norms != NORMS_BEFORE;
    model->input.weight = model->embedding = add(model, c->vocab, c->width, "model.embed_tokens.weight");
    add_input_factors(model);
    for (size_t l = 0; l < c->layers; l++) {
        struct layer *layer = &model->layers[l];
        layer->first = &model->parameters[model->parameter_count];
        layer->alike = alike(lora, l);
        if (before)
            layer->attention_norm = add_gain(model, c->width, l, "input_layernorm");
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
        if (after)
            layer->attention_out_norm = add_gain(model, c->width, l, "post_attention_layernorm");
        if (before) {
            layer->mlp_norm =
                add_gain(model, c->width, l, after ? "pre_feedforward_layernorm" : "post_attention_layernorm");
        }
        layer->gate = add_projection(model, l, "mlp.gate_proj", c->ffn, c->width, false, LORA_GATE);
        layer->up = add_projection(model, l, "mlp.up_proj", c->ffn, c->width, false, LORA_UP);
        add_factors(model, l, LORA_GATE_UP, "mlp.gate_up_proj", 2 * c->ffn, c->width, 2,
                    (struct projection *[]){&layer->gate, &layer->up});
        layer->down = add_projection(model, l, "mlp.down_proj", c->width, c->ffn, false, LORA_DOWN);
        if (after)
            layer->mlp_out_norm = add_gain(model, c->width, l, "post_feedforward_layernorm");
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
    if (parameter == model->embedding)
        return bottom || (top && model->head == model->embedding);
    if (parameter >= above)
        return top;
    if (parameter < model->layers[0].first) // the embedding's factors
        return bottom;
    const struct parameter *first = model->layers[ranks->first_layer].first;
    const struct parameter *end =
        ranks->end_layer < model->config.layers ? model->layers[ranks->end_layer].first : above;
    return parameter >= first && parameter < end;
}

bool model_can_train(const struct model *model, const struct parameter *parameter)
{
    return !model->lora.rank || model->lora_beside || parameter_is_factor(parameter) || parameter->saved;
}

void model_open(struct model *model, const struct config *config, const struct lora *lora,
                const struct ranks *ranks, struct device *device)
{
    model_list(model, config, lora);
    model->device = device;
    if (ranks)
        model->ranks = *ranks;
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
    if (model->device) {
        tensor_free(model->device, &model->rope_frequencies[0]);
        tensor_free(model->device, &model->rope_frequencies[1]);
    }
    free(model->parameters);
    free(model->layers);
    *model = (struct model){0};
}

struct parameter *model_parameter(const struct model *model, const char *name)
{
    for (size_t i = 0; i < model->parameter_count; i++)
        if (strcmp(model->parameters[i].name, name) == 0)
            return &model->parameters[i];
    return NULL;
}

bool model_descends(const struct model *model, size_t layer)
{
    return layer > model->lowest_trained || (model->lowest_trained == 0 && !model->by_turns);
}
