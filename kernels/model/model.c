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
    *p = (struct parameter){.value = {.rows = rows, .cols = cols}, .size = rows * cols};
    append(p->name, name);
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
// one below the other. Those of experts are as their weights, [experts rank, in] and [experts out, rank].
static void add_factors(struct model *model, size_t layer, enum lora_target target, const char *name, size_t out,
                        size_t in, size_t count, struct projection *const *projections)
{
    struct lora_factors factors = lora_factors_of(&model->lora, layer == NO_LAYER ? 0 : layer, target);
    if (!factors.rank)
        return;
    size_t experts = projections[0]->weight->experts, rows = factors.rank * (experts ? experts : 1);
    struct parameter *a = add_factor(model, rows, in, layer, name, ".lora_A.weight", FACTOR_A);
    struct parameter *b = add_factor(model, out, factors.rank, layer, name, ".lora_B.weight", FACTOR_B);
    a->experts = b->experts = experts;
    b->in_turn = target == LORA_EXPERTS_GATE_UP && model->config.experts.bias;
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

static struct parameter *add_weight(struct model *model, size_t layer, const struct block_parameter *row,
                                    struct block_shape shape)
{
    if (row->form == FORM_MODULE && shape.in == 0)
        return add_gain(model, shape.out, layer, row->name);
    bool vector = row->form == FORM_GAIN || row->form == FORM_VECTOR;
    bool alone = row->form == FORM_VECTOR || row->form == FORM_EXPERTS;
    struct parameter *p = add_to_layer(model, vector ? 1 : shape.out, vector ? shape.out : shape.in, layer,
                                       row->name, alone ? "" : ".weight");
    p->vector = vector;
    p->experts = row->form == FORM_EXPERTS ? model->config.experts.routing.experts : 0;
    p->filter = row->form == FORM_FILTER;
    p->mean = row->form == FORM_GAIN ? 1 : row->mean;
    p->deviation = row->deviation;
    p->constant = row->constant;
    p->wide = row->wide;
    return p;
}

// PEFT wraps the module that has the experts' parameters, once for each that has factors, gate_up_proj's first.
static const char *factors_name(const struct model *model, size_t layer, const struct block_parameter *row)
{
    if (row->form != FORM_EXPERTS)
        return row->name;
    bool inner =
        row->target == LORA_EXPERTS_GATE_UP && lora_factors_of(&model->lora, layer, LORA_EXPERTS_DOWN).rank;
    return inner ? "mlp.experts.base_layer" : "mlp.experts";
}

// A module of a block under its Hugging Face name, with its LoRA factors under PEFT's.
static void add_module(struct model *model, size_t layer, const struct block_kind *kind, size_t index,
                       struct block *block)
{
    const struct block_parameter *row = &kind->parameters[index];
    struct block_shape shape = kind->shape(&model->config, layer, index);
    struct projection *p = &block->parameters[index], *parts[BLOCK_PARAMETERS] = {p};
    size_t out = row->joins ? 0 : shape.out, count = row->joins ? 0 : 1;
    for (size_t i = index - row->joins; i < index; i++)
        if (block->parameters[i].weight) {
            parts[count++] = &block->parameters[i];
            out += block->parameters[i].weight->value.rows;
        }
    for (size_t i = 0, first = 0; row->joins && i < count; first += parts[i++]->weight->value.rows) {
        struct parameter *of_part[] = {parts[i]->weight, parts[i]->lora_a, parts[i]->lora_b};
        for (size_t j = 0; j < 3; j++)
            if (of_part[j]) {
                of_part[j]->module = kind->parameters[parts[i] - block->parameters].name;
                of_part[j]->joined = row->name;
                of_part[j]->joined_row = first;
                of_part[j]->joined_rows = out;
            }
    }
    if (!row->joins && shape.out > 0)
        p->weight = add_weight(model, layer, row, shape);
    if (shape.bias) {
        p->bias =
            add_to_layer(model, 1, shape.out, layer, row->name, row->form == FORM_EXPERTS ? "_bias" : ".bias");
        p->bias->vector = true;
    }
    if (row->target && parts[0]->weight)
        add_factors(model, layer, row->target, factors_name(model, layer, row), out, parts[0]->weight->value.cols,
                    count, parts);
}

// norm NULL: the block's is another's.
static void add_block(struct model *model, size_t layer, const struct block_kind *kind, const char *norm,
                      const char *out_norm, struct block *block)
{
    const struct config *c = &model->config;
    enum norms norms = config_norms(c, layer);
    if (norm && norms != NORMS_AFTER)
        block->norm = add_gain(model, c->width, layer, norm);
    for (size_t i = 0; kind->parameters[i].name; i++) {
        add_module(model, layer, kind, i, block);
        block->out = &block->parameters[i];
    }
    block->parameters[block->out - block->parameters].scale = c->residual_scale;
    if (norms != NORMS_BEFORE)
        block->out_norm = add_gain(model, c->width, layer, out_norm);
}

static bool is_alike(const struct config *c, const struct lora *lora, size_t layer, size_t other)
{
    bool alike = config_kind(c, layer) == config_kind(c, other);
    for (size_t i = 0; lora->table && i < LORA_TARGETS; i++) {
        bool outside = 1u << i & (LORA_EMBEDDING | LORA_HEAD);
        alike &=
            outside || lora->table[other * LORA_TARGETS + i].rank == lora->table[layer * LORA_TARGETS + i].rank;
    }
    return alike;
}

static size_t module_count(const struct block_kind *kind)
{
    size_t count = 0;
    while (kind->parameters[count].name)
        count++;
    CHECK(count <= BLOCK_PARAMETERS);
    return count;
}

void model_list(struct model *model, const struct config *config, const struct lora *lora)
{
    const struct config *c = config;
    *model = (struct model){.config = *config, .lora = *lora, .ranks = ranks_alone(config)};
    model->config.tied = config->tied && !lora->untied;
    // The embedding, the head, their factors and a norm; each layer's four norms and scalar, and its modules with
    // weight, bias and two factors.
    size_t count = 7;
    for (size_t l = 0; l < c->layers; l++)
        count += 5 + 4 * (module_count(&config_mixer(c, l)->kind) + module_count(&config_mlp(c, l)->kind));
    model->parameters = malloc(count * sizeof *model->parameters); // most models have a third of them
    model->layers = calloc(c->layers, sizeof *model->layers);
    CHECK(model->parameters && model->layers);
    bool glm = c->glm_norms;
    model->input.weight = model->embedding = add(model, c->vocab, c->width, "model.embed_tokens.weight");
    add_input_factors(model);
    for (size_t l = 0; l < c->layers; l++) {
        struct layer *layer = &model->layers[l];
        const char *mlp_norm =
            config_norms(c, l) == NORMS_BEFORE || glm ? "post_attention_layernorm" : "pre_feedforward_layernorm";
        layer->first = &model->parameters[model->parameter_count];
        while (!is_alike(c, lora, l, layer->alike))
            layer->alike++;
        add_block(model, l, &config_mixer(c, l)->kind, "input_layernorm",
                  glm ? "post_self_attn_layernorm" : "post_attention_layernorm", &layer->mixer);
        layer->mlp.norm = c->parallel ? layer->mixer.norm : NULL;
        add_block(model, l, &config_mlp(c, l)->kind, c->parallel ? NULL : mlp_norm,
                  glm ? "post_mlp_layernorm" : "post_feedforward_layernorm", &layer->mlp);
        if (c->layer_scalars) {
            layer->scalar = add_to_layer(model, 1, 1, l, "layer_scalar", "");
            layer->scalar->vector = layer->scalar->constant = true;
            layer->scalar->mean = 1;
            layer->scalar->deviation = 0.1;
        }
    }
    model->final_norm = gain(model, add(model, 1, c->width, "model.norm.weight"));
    model->head = model->config.tied ? model->embedding : add(model, c->vocab, c->width, "lm_head.weight");
    model->head->copy_of = lora->untied && c->tied ? model->embedding->name : NULL;
    model->output.weight = model->head;
    model->output.scale = c->logits_scale;
    add_factors(model, NO_LAYER, LORA_HEAD, "lm_head", c->vocab, c->width, 1,
                (struct projection *[]){&model->output});
    for (size_t i = 0; lora->saved && i < model->parameter_count; i++) {
        struct parameter *p = &model->parameters[i];
        p->saved = !parameter_is_factor(p) && lora_saves(lora, p->name);
    }
}

// Leaves a parameter of experts those of this rank. Biases are one row.
static void take_part(const struct comm *ranks, struct parameter *p)
{
    if (!p)
        return;
    size_t *size = p->vector ? &p->value.cols : &p->value.rows;
    CHECK(*size % ranks->size == 0);
    *size /= ranks->size;
    p->experts /= ranks->size;
    p->first = ranks->rank * tensor_count(p->value);
}

static void share_experts(struct model *model)
{
    const struct comm *ranks = &model->ranks.experts;
    for (size_t l = 0; ranks->size > 1 && l < model->config.layers; l++) {
        for (size_t i = 0; i < BLOCK_PARAMETERS; i++) {
            struct projection *p = &model->layers[l].mlp.parameters[i];
            if (p->weight && p->weight->experts) {
                take_part(ranks, p->bias);
                take_part(ranks, p->lora_a);
                take_part(ranks, p->lora_b);
                take_part(ranks, p->weight);
            }
        }
    }
}

struct parameter parameter_whole(const struct parameter *parameter)
{
    struct parameter whole = *parameter;
    if (parameter_is_part(parameter)) {
        size_t ranks = parameter->size / tensor_count(parameter->value);
        *(whole.vector ? &whole.value.cols : &whole.value.rows) *= ranks;
        whole.experts *= ranks;
        whole.first = 0;
    }
    return whole;
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
    return !parameter->constant &&
           (!model->lora.rank || model->lora_beside || parameter_is_factor(parameter) || parameter->saved);
}

// Kinds of the same frequencies share a tensor, that of the first.
static size_t frequencies_of(const struct model *model, size_t kind)
{
    const struct config *c = &model->config;
    size_t first = 0;
    while (first < kind &&
           !(model->rope_frequencies[first].data && rope_is_same(&c->kinds[first], &c->kinds[kind])))
        first++;
    return first;
}

// Rows for longest documents of `longest` tokens, one more, and so on.
static void write_frequencies(struct model *model, size_t kind, size_t longest)
{
    struct tensor to = model->rope_frequencies[kind];
    double *frequencies = malloc(tensor_count(to) * sizeof *frequencies);
    CHECK(frequencies);
    for (size_t row = 0; row < to.rows; row++)
        rope_frequencies(&model->config, &model->config.kinds[kind], longest + row, frequencies + row * to.cols);
    tensor_write(model->device, to, frequencies);
    free(frequencies);
}

static void set_frequencies(struct model *model, size_t kind)
{
    struct tensor *to = &model->rope_frequencies[kind];
    size_t first = frequencies_of(model, kind), pairs = rope_rotary(&model->config.kinds[kind]) / 2;
    if (pairs == 0)
        return;
    if (first < kind) {
        *to = model->rope_frequencies[first];
        return;
    }
    const struct rope_scaling *scaling = &model->config.kinds[kind].rope_scaling;
    *to = tensor_new(model->device, scaling->longrope ? 2 : 1, pairs, DTYPE_F64, CATEGORY_WEIGHTS);
    write_frequencies(model, kind, scaling->original_context);
}

size_t model_latent_block(const struct model *model)
{
    bool rings = model->ranks.sequence.size > 1 && model->ranks.exchange == EXCHANGE_RING, latent = false;
    for (size_t l = 0; l < model->config.layers; l++)
        latent |= config_kind(&model->config, l)->mixer == MIXER_LATENT;
    return !latent || rings ? 0 : model->latent_block ? model->latent_block : LATENT_BLOCK;
}

void model_set_longest(struct model *model, size_t longest)
{
    for (size_t k = 0; k < CONFIG_KINDS && longest != model->rope_longest; k++)
        if (model->config.kinds[k].rope_scaling.dynamic && model->rope_frequencies[k].data &&
            frequencies_of(model, k) == k)
            write_frequencies(model, k, longest);
    model->rope_longest = longest;
}

static void set_ones(struct model *model)
{
    size_t rows = model->device->ops->rules->expert_rows;
    double *ones = malloc(rows * sizeof *ones);
    CHECK(ones);
    for (size_t i = 0; i < rows; i++)
        ones[i] = 1;
    model->ones = tensor_new(model->device, rows, 1, model->device->ops->dtype, CATEGORY_WEIGHTS);
    tensor_write(model->device, model->ones, ones);
    free(ones);
}

void model_open(struct model *model, const struct config *config, const struct lora *lora,
                const struct ranks *ranks, struct device *device)
{
    model_list(model, config, lora);
    model->device = device;
    if (ranks)
        model->ranks = *ranks;
    share_experts(model);
    for (size_t k = 0; k < CONFIG_KINDS; k++) {
        if (!config_has_kind(config, k))
            continue;
        const struct layer_kind *kind = &config->kinds[k];
        attention_holds_heads(device, kind->head_dim > kind->value_dim ? kind->head_dim : kind->value_dim);
        if (kind->rope_theta > 0)
            set_frequencies(model, k);
    }
    if (config->experts.bias || config->experts.router_bias)
        set_ones(model);
}

void model_close(struct model *model)
{
    if (model->device)
        tensor_free(model->device, &model->ones);
    for (size_t k = CONFIG_KINDS; model->device && k-- > 0;)
        if (frequencies_of(model, k) == k)
            tensor_free(model->device, &model->rope_frequencies[k]);
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
    return layer > model->lowest_trained || (model->lowest_trained == 0 && !model->block_coordinate);
}
