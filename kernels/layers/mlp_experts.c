// Mixture of experts (Shazeer et al. 2017, arXiv 1701.06538): y = x + the sum over the experts e that a token takes
// of w_e down_e(act(gate_e h) * up_e h), h the norm of x, or x. All tokens may also take a shared expert, with
// weight 1 or the sigmoid of a projection. The tokens' choices make permuted rows, by expert; their products run in
// blocks of rows that cut experts where they end, so that scratch does not grow with the chunk and a block reads an
// expert once. What an expert gives is neither kept nor made again for the backward (SonicMoE, arXiv 2512.14080):
// with G the gradient of the sum and v = G down_e, that of w_e is <v, act>, and that of down_e is G^T (w_e act).
// Ranks that share the experts (expert_ranks.h) bring the rows of all of them to each, which computes those of its
// own experts. How many these are, data says: gate_up is not kept then, but made again block by block.
#include "kernels/layers/block_ends.h"
#include "kernels/layers/expert_ranks.h"
#include "kernels/layers/grouped_projection.h"
#include "kernels/model/carry.h"

enum { ROUTER, CORRECTION, SHARED_GATE, SHARED_UP, SHARED_DOWN, SHARED_WEIGHT, GATE_UP, DOWN };
// Logits, [n, E] and [n, 1], of the statistics' dtype; [n k, 2 f], rows in the experts' order, and [n, 2 f].
enum { KEPT_LOGITS, KEPT_GATE_UP, KEPT_SHARED_LOGITS, KEPT_SHARED };

// An expert's rows of gate_up_proj are those of its gate, then those of its up projection.
static const struct block_parameter parameters[] = {
    [ROUTER] = {"mlp.gate", LORA_ROUTER},
    [CORRECTION] = {"mlp.gate.e_score_correction_bias", 0, .form = FORM_VECTOR, .deviation = 0.1, .constant = true,
                    .wide = true},
    [SHARED_GATE] = {"mlp.shared_expert.gate_proj", LORA_GATE},
    [SHARED_UP] = {"mlp.shared_expert.up_proj", LORA_UP},
    [SHARED_DOWN] = {"mlp.shared_expert.down_proj", LORA_DOWN},
    [SHARED_WEIGHT] = {"mlp.shared_expert_gate", LORA_SHARED_EXPERT_GATE},
    [GATE_UP] = {"mlp.experts.gate_up_proj", LORA_EXPERTS_GATE_UP, .form = FORM_EXPERTS},
    [DOWN] = {"mlp.experts.down_proj", LORA_EXPERTS_DOWN, .form = FORM_EXPERTS},
    {0}};

static struct block_shape shape(const struct config *c, size_t layer, size_t parameter)
{
    (void)layer;
    const struct experts *e = &c->experts;
    const struct block_shape shapes[] = {
        [ROUTER] = {.out = e->routing.experts, .in = c->width, .bias = e->router_bias},
        [CORRECTION] = {.out = e->correction_bias ? e->routing.experts : 0},
        [SHARED_GATE] = {.out = e->shared_width, .in = c->width},
        [SHARED_UP] = {.out = e->shared_width, .in = c->width},
        [SHARED_DOWN] = {.out = e->shared_width ? c->width : 0, .in = e->shared_width},
        [SHARED_WEIGHT] = {.out = e->shared_gated ? 1 : 0, .in = c->width},
        [GATE_UP] = {.out = 2 * e->routing.experts * e->width, .in = c->width, .bias = e->bias},
        [DOWN] = {.out = e->routing.experts * c->width, .in = e->width, .bias = e->bias},
    };
    return shapes[parameter];
}

// The block's sum is multiplied by the model's factor as the weights are.
static struct routing routing_of(const struct model *model)
{
    struct routing routing = model->config.experts.routing;
    if (model->config.residual_scale > 0)
        routing.scale *= model->config.residual_scale;
    return routing;
}

// One expert, whose score is 1 or the sigmoid of its logit.
static struct routing shared_routing(const struct model *model)
{
    enum router_score score = model->config.experts.shared_gated ? ROUTER_SIGMOID : ROUTER_SOFTMAX;
    double scale = model->config.residual_scale;
    return (struct routing){.experts = 1, .chosen = 1, .score = score, .scale = scale > 0 ? scale : 1};
}

// The permuted rows of a cell: the tokens' choices and their weights, [n, k]; and operations' tables of them. Those
// of experts [first, end) are computed here.
struct permuted {
    struct routing routing;
    struct tensor choices, weights, rows, slots, starts;
    size_t first, end;
    bool owned; // the choices, which no step keeps
    size_t count, max;
};

static struct tensor numbers(struct model *model, size_t rows, size_t cols)
{
    return tensor_new(model->device, rows, cols, DTYPE_I32, CATEGORY_WORKSPACE);
}

static struct tensor statistics(struct model *model, size_t rows, size_t cols)
{
    return tensor_new(model->device, rows, cols, dtype_statistic(model->device->ops->dtype), CATEGORY_WORKSPACE);
}

static void permute(struct model *model, struct permuted *p)
{
    size_t n = p->choices.rows, rows = model->device->ops->rules->expert_rows;
    p->count = n * p->routing.chosen;
    p->max = p->count < rows ? p->count : rows;
    p->rows = numbers(model, n, p->routing.chosen);
    p->slots = numbers(model, p->count, 1);
    p->starts = numbers(model, p->routing.experts + 1, 1);
    op_permute_slots(model->device, p->routing, p->rows, p->slots, p->starts, p->choices);
}

// choices: made already, if `chosen`; no tensor: of this cell alone. weigh: also makes the weights. Release with
// permuted_close.
static struct permuted permuted_open(struct model *model, struct routing routing, struct tensor logits,
                                     const struct parameter *correction, struct tensor choices, bool chosen,
                                     bool weigh)
{
    struct device *device = model->device;
    size_t n = logits.rows;
    struct permuted p = {.routing = routing, .choices = choices, .end = routing.experts, .owned = !choices.data};
    if (p.owned)
        p.choices = numbers(model, n, routing_words(&routing));
    p.weights = weigh || !chosen ? statistics(model, n, routing.chosen) : tensor_none();
    if (p.weights.data) {
        struct tensor bias = correction && !chosen ? correction->value : tensor_none();
        op_route_forward(device, routing, p.choices, p.weights, logits, bias, chosen);
    }
    permute(model, &p);
    return p;
}

// The rows of all ranks that share the experts.
static struct permuted permuted_gather(struct model *model, const struct permuted *own)
{
    const struct comm *ranks = &model->ranks.experts;
    size_t each = own->routing.experts / ranks->size;
    struct permuted p = {.routing = own->routing,
                         .choices = expert_ranks_gather(model, own->choices),
                         .weights = expert_ranks_gather(model, own->weights),
                         .first = ranks->rank * each,
                         .end = (ranks->rank + 1) * each,
                         .owned = true};
    permute(model, &p);
    return p;
}

// Adds the cell's tokens to totals.
static void count_tokens(struct cell_at at, struct tensor logits, struct tensor choices, struct tensor totals)
{
    struct tensor sums = statistics(at.model, logits.rows, 2);
    op_route_count(at.model->device, routing_of(at.model), totals, choices, logits, at.router_terms.softmax,
                   at.repeats, sums);
    tensor_free(at.model->device, &sums);
}

static struct permuted experts_open(struct cell_at at, struct tensor logits, bool weigh)
{
    const struct parameter *correction = at.model->layers[at.layer].mlp.parameters[CORRECTION].weight;
    struct permuted p =
        permuted_open(at.model, routing_of(at.model), logits, correction, at.choices, at.chosen, weigh);
    if (at.totals.data && !at.seen)
        count_tokens(at, logits, p.choices, at.totals);
    return p;
}

static struct permuted shared_open(struct model *model, struct tensor logits)
{
    return permuted_open(model, shared_routing(model), logits, NULL, tensor_none(), false, true);
}

static void permuted_close(struct device *device, struct permuted *p)
{
    tensor_free(device, &p->starts);
    tensor_free(device, &p->slots);
    tensor_free(device, &p->rows);
    tensor_free(device, &p->weights);
    if (p->owned)
        tensor_free(device, &p->choices);
}

static struct blocks permuted_blocks(struct device *device, const struct permuted *p)
{
    return blocks_of(device, p->count, p->max);
}

static struct expert_rows rows_of(const struct permuted *p, struct blocks b)
{
    return (struct expert_rows){tensor_rows(p->starts, p->first, p->end - p->first + 1), p->count, b.row,
                                p->routing.experts};
}

static struct expert_act act_of(const struct model *model)
{
    const struct experts *e = &model->config.experts;
    return (struct expert_act){model->config.activation, e->alpha, e->limit};
}

// A bias of experts, or its gradient, as a column of numbers for each: [E out, 1].
static struct tensor columns_of(struct tensor bias)
{
    return tensor_reshape(bias, tensor_count(bias), 1);
}

// y += the bias of each row's expert.
static void add_biases(struct model *model, struct expert_rows rows, const struct parameter *bias, struct tensor y)
{
    struct tensor made = scratch(model, y.rows, y.cols);
    grouped_product(model, rows, made, tensor_rows(model->ones, 0, y.rows), columns_of(bias->value), TRANSPOSE);
    op_accumulate(model->device, y, made);
    tensor_free(model->device, &made);
}

// Gradient of the bias += that of rows times a factor of each, [R, 1].
static void add_bias_gradients(struct model *model, struct expert_rows rows, const struct parameter *bias,
                               struct tensor grad, struct tensor factors)
{
    if (bias->grad.data)
        op_grouped_gemm(model->device, rows, columns_of(bias->grad), grad, TRANSPOSE, factors, NO_TRANSPOSE, 1);
}

// The backward of a block's weights times down_proj's bias. grad: of the block's weighted sums.
static void weighted_biases_backward(struct model *model, const struct permuted *p, struct blocks b,
                                     const struct parameter *bias, struct tensor grad, struct tensor grad_weights)
{
    struct device *device = model->device;
    size_t slots = p->count;
    struct tensor weights = statistics(model, b.count, 1), factors = scratch(model, b.count, 1);
    op_gather_slots(device, weights, tensor_reshape(p->weights, slots, 1), p->slots, 1, b.row);
    op_copy(device, factors, weights);
    add_bias_gradients(model, rows_of(p, b), bias, grad, factors);
    grouped_product(model, rows_of(p, b), factors, grad, columns_of(bias->value), NO_TRANSPOSE);
    op_scatter_slots(device, tensor_reshape(grad_weights, slots, 1), factors, tensor_reshape(p->rows, slots, 1),
                     tensor_none(), b.row);
    tensor_free(device, &factors);
    tensor_free(device, &weights);
}

// gate_up of a block, in rows of the experts' order: u. in: scratch.
static void gate_up_forward(struct model *model, const struct projection *p, const struct permuted *permuted,
                            struct blocks b, struct tensor h, struct tensor in, struct tensor u)
{
    struct expert_rows rows = rows_of(permuted, b);
    op_gather_slots(model->device, in, h, permuted->slots, permuted->routing.chosen, b.row);
    grouped_projection_forward(model, rows, &p[GATE_UP], u, in);
    if (p[GATE_UP].bias)
        add_biases(model, rows, p[GATE_UP].bias, u);
}

// gate_up: [n k, 2 f], or scratch of a block. Adds the weighted sums of what the experts give to sum, if it is a
// tensor.
static void experts_forward(struct model *model, const struct projection *p, const struct permuted *permuted,
                            struct tensor h, struct tensor gate_up, struct tensor sum)
{
    struct device *device = model->device;
    size_t max = permuted->max, f = gate_up.cols / 2;
    struct tensor in = scratch(model, max, h.cols);
    struct tensor act = sum.data ? scratch(model, max, f) : tensor_none();
    for (struct blocks b = permuted_blocks(device, permuted); blocks_next(&b);) {
        struct expert_rows rows = rows_of(permuted, b);
        struct tensor in_block = tensor_rows(in, 0, b.count), act_block = tensor_rows(act, 0, b.count);
        struct tensor u = tensor_rows(gate_up, gate_up.rows == permuted->count ? b.row : 0, b.count);
        gate_up_forward(model, p, permuted, b, h, in_block, u);
        if (!sum.data)
            continue;
        op_expert_act_forward(device, act_block, u, act_of(model));
        // The results of a block take the place of its inputs.
        grouped_projection_forward(model, rows, &p[DOWN], in_block, act_block);
        if (p[DOWN].bias)
            add_biases(model, rows, p[DOWN].bias, in_block);
        op_scatter_slots(device, sum, in_block, permuted->rows, permuted->weights, b.row);
    }
    tensor_free(device, &act);
    tensor_free(device, &in);
}

// The same of the shared expert, whose rows are the tokens. logits, if it has some, and gate_up become what is
// kept.
static void shared_forward(struct model *model, const struct projection *p, struct tensor h, struct tensor logits,
                           struct tensor gate_up, struct tensor sum)
{
    struct device *device = model->device;
    size_t f = gate_up.cols / 2;
    if (p[SHARED_WEIGHT].weight)
        projection_forward(model, &p[SHARED_WEIGHT], logits, h, false);
    else
        op_zero(device, logits);
    struct permuted permuted = sum.data ? shared_open(model, logits) : (struct permuted){.count = h.rows};
    size_t most = device->ops->rules->expert_rows, max = h.rows < most ? h.rows : most;
    struct tensor half = scratch(model, max, f), out = sum.data ? scratch(model, max, h.cols) : tensor_none();
    for (struct blocks b = blocks_of(device, h.rows, max); blocks_next(&b);) {
        struct tensor h_block = tensor_rows(h, b.row, b.count), out_block = tensor_rows(out, 0, b.count);
        struct tensor u = tensor_rows(gate_up, gate_up.rows == h.rows ? b.row : 0, b.count);
        struct tensor half_block = tensor_rows(half, 0, b.count);
        for (size_t i = 0; i < 2; i++) {
            projection_forward(model, &p[i ? SHARED_UP : SHARED_GATE], half_block, h_block, false);
            op_copy_columns(device, u, i * f, half_block, 0, f);
        }
        if (!sum.data)
            continue;
        op_expert_act_forward(device, half_block, u, act_of(model));
        projection_forward(model, &p[SHARED_DOWN], out_block, half_block, false);
        op_scatter_slots(device, sum, out_block, permuted.rows, permuted.weights, b.row);
    }
    tensor_free(device, &out);
    tensor_free(device, &half);
    if (sum.data)
        permuted_close(device, &permuted);
}

// y = x + sum, or its norm; sum of the statistics' dtype. y may be no tensor: then kept alone.
static void add_sum(struct model *model, const struct block *block, struct tensor x, struct tensor y,
                    struct tensor sum, struct kept *kept)
{
    struct device *device = model->device;
    if (y.data && y.data != x.data)
        op_copy(device, y, x);
    if (block->out_norm) {
        struct tensor normed = scratch(model, x.rows, x.cols), made = kept->out.data ? kept->out : normed;
        op_copy(device, made, sum);
        norm_forward(model, block->out_norm, normed, kept->rstd_out, made);
        if (y.data)
            op_accumulate(device, y, normed);
        tensor_free(device, &normed);
    } else {
        op_accumulate(device, y, sum);
    }
}

// n rows of it, kept or of a block.
static struct tensor gate_up_new(struct model *model, size_t n, size_t f, bool keeping)
{
    size_t max = model->device->ops->rules->expert_rows;
    return keeping ? activation(model, n, 2 * f) : scratch(model, n < max ? n : max, 2 * f);
}

static struct tensor logits_new(struct model *model, size_t n, size_t experts, bool keeping)
{
    return keeping ? statistic(model, n, experts) : statistics(model, n, experts);
}

// A bias is of the model's dtype, and logits of the statistics'.
static void router_forward(struct model *model, const struct projection *router, struct tensor logits,
                           struct tensor h)
{
    struct projection product = *router;
    struct device *device = model->device;
    for (struct blocks b = blocks_of(device, h.rows, model->ones.rows); router->bias && blocks_next(&b);)
        op_gemm(device, tensor_rows(logits, b.row, b.count), tensor_rows(model->ones, 0, b.count), NO_TRANSPOSE,
                router->bias->value, NO_TRANSPOSE, 1, 0);
    product.bias = NULL;
    projection_forward(model, &product, logits, h, router->bias != NULL);
}

// Keeps a tensor or frees it.
static void keep_or_free(struct model *model, struct kept *kept, size_t number, struct tensor t, bool keeping)
{
    if (keeping)
        kept->own[number] = t;
    else
        tensor_free(model->device, &t);
}

// The router alone.
static void route(struct cell_at at, struct tensor h)
{
    struct model *model = at.model;
    struct tensor logits = logits_new(model, h.rows, model->config.experts.routing.experts, false);
    router_forward(model, &model->layers[at.layer].mlp.parameters[ROUTER], logits, h);
    struct permuted permuted = experts_open(at, logits, false);
    permuted_close(model->device, &permuted);
    tensor_free(model->device, &logits);
}

// The chosen experts' part of it, h the input: keeps what the backward reads, and adds to sum, if it is a tensor.
static void chosen_forward(struct cell_at at, struct tensor h, struct tensor sum, struct kept *kept, bool keeping)
{
    struct model *model = at.model;
    const struct projection *p = model->layers[at.layer].mlp.parameters;
    const struct experts *e = &model->config.experts;
    struct tensor logits = logits_new(model, h.rows, e->routing.experts, keeping);
    router_forward(model, &p[ROUTER], logits, h);
    struct permuted permuted = experts_open(at, logits, sum.data);
    if (!model_shares_experts(model)) {
        struct tensor gate_up = gate_up_new(model, permuted.count, e->width, keeping);
        experts_forward(model, p, &permuted, h, gate_up, sum);
        keep_or_free(model, kept, KEPT_GATE_UP, gate_up, keeping);
    } else if (sum.data) {
        struct permuted all = permuted_gather(model, &permuted);
        struct tensor all_h = expert_ranks_gather(model, h), part = statistics(model, all_h.rows, h.cols);
        struct tensor gate_up = gate_up_new(model, all.count, e->width, false);
        op_zero(model->device, part);
        experts_forward(model, p, &all, all_h, gate_up, part);
        tensor_free(model->device, &gate_up);
        expert_ranks_sum(model, sum, part, true);
        tensor_free(model->device, &part);
        tensor_free(model->device, &all_h);
        permuted_close(model->device, &all);
    }
    permuted_close(model->device, &permuted);
    keep_or_free(model, kept, KEPT_LOGITS, logits, keeping);
}

static void forward(struct cell_at at, struct tensor x, struct tensor y, struct kept *kept, enum keep how)
{
    struct model *model = at.model;
    struct device *device = model->device;
    const struct block *block = &model->layers[at.layer].mlp;
    const struct projection *p = block->parameters;
    const struct experts *e = &model->config.experts;
    size_t n = x.rows;
    bool keeping = how != KEEP_NOTHING, output = y.data || (keeping && block->out_norm);
    block_keep_input(model, block, kept, n, how);
    if (keeping)
        block_keep_output(model, block, kept, n);
    struct tensor normed = block->norm && !kept->h.data ? scratch(model, n, x.cols) : tensor_none();
    struct tensor h = block_input(model, block, kept->h, kept->rstd, normed, x, 0, n);
    if (!keeping && !output) {
        route(at, h);
        tensor_free(device, &normed);
        return;
    }
    struct tensor sum = output ? statistics(model, n, x.cols) : tensor_none();
    if (output)
        op_zero(device, sum);
    if (e->shared_width) {
        struct tensor logits = logits_new(model, n, 1, keeping);
        struct tensor gate_up = gate_up_new(model, n, e->shared_width, keeping);
        shared_forward(model, p, h, logits, gate_up, sum);
        keep_or_free(model, kept, KEPT_SHARED, gate_up, keeping);
        keep_or_free(model, kept, KEPT_SHARED_LOGITS, logits, keeping);
    }
    chosen_forward(at, h, sum, kept, keeping);
    tensor_free(device, &normed);
    if (output)
        add_sum(model, block, x, y, sum, kept);
    tensor_free(device, &sum);
}

// Gradients of the experts' weights and of the routing's; adds to grad_h, [n, d] of the statistics' dtype, that of
// h. grad: of the weighted sums. gate_up is spent; no tensor: it is made again.
static void experts_backward(struct model *model, const struct projection *p, const struct permuted *permuted,
                             struct tensor h, struct tensor gate_up, struct tensor grad, struct tensor grad_weights,
                             struct tensor grad_h)
{
    struct device *device = model->device;
    size_t max = permuted->max, chosen = permuted->routing.chosen, f = model->config.experts.width;
    bool again = !gate_up.data;
    struct tensor in = again || projection_trains(&p[GATE_UP]) ? scratch(model, max, h.cols) : tensor_none();
    struct tensor wide = scratch(model, max, h.cols), act = scratch(model, max, f);
    struct tensor block = again ? scratch(model, max, 2 * f) : tensor_none();
    for (struct blocks b = permuted_blocks(device, permuted); blocks_next(&b);) {
        struct expert_rows rows = rows_of(permuted, b);
        struct tensor wide_block = tensor_rows(wide, 0, b.count), act_block = tensor_rows(act, 0, b.count);
        struct tensor u = again ? tensor_rows(block, 0, b.count) : tensor_rows(gate_up, b.row, b.count);
        struct tensor in_block = tensor_rows(in, 0, b.count);
        struct tensor of_down = {0}, of_gate_up = {0};
        if (again)
            gate_up_forward(model, p, permuted, b, h, in_block, u);
        op_gather_slots(device, wide_block, grad, permuted->slots, chosen, b.row);
        grouped_projection_backward_input(model, rows, &p[DOWN], act_block, wide_block, &of_down);
        op_expert_act_backward(device, u, act_block, grad_weights, permuted->weights, permuted->slots, b.row,
                               act_of(model));
        if (p[DOWN].bias)
            weighted_biases_backward(model, permuted, b, p[DOWN].bias, wide_block, grad_weights);
        if (p[GATE_UP].bias)
            add_bias_gradients(model, rows, p[GATE_UP].bias, u, tensor_rows(model->ones, 0, b.count));
        grouped_projection_backward_weights(model, rows, &p[DOWN], wide_block, &of_down, act_block);
        tensor_free(device, &of_down);
        if (in.data && !again)
            op_gather_slots(device, in_block, h, permuted->slots, chosen, b.row);
        grouped_projection_backward_weights(model, rows, &p[GATE_UP], u, &of_gate_up, in_block);
        grouped_projection_backward_input(model, rows, &p[GATE_UP], wide_block, u, &of_gate_up);
        tensor_free(device, &of_gate_up);
        op_scatter_slots(device, grad_h, wide_block, permuted->rows, tensor_none(), b.row);
    }
    tensor_free(device, &block);
    tensor_free(device, &act);
    tensor_free(device, &wide);
    tensor_free(device, &in);
}

// The same of the rows of all ranks that share the experts, each with its own: brings h and grad to them, and what
// they make of the rows back. grad_weights becomes that of this rank's tokens.
static void shared_experts_backward(struct model *model, const struct projection *p, const struct permuted *own,
                                    struct tensor h, struct tensor grad, struct tensor grad_weights,
                                    struct tensor grad_h)
{
    struct device *device = model->device;
    struct permuted all = permuted_gather(model, own);
    struct tensor all_h = expert_ranks_gather(model, h), all_grad = expert_ranks_gather(model, grad);
    struct tensor part = statistics(model, all_h.rows, h.cols);
    struct tensor of_weights = statistics(model, all_h.rows, grad_weights.cols);
    op_zero(device, part);
    experts_backward(model, p, &all, all_h, tensor_none(), all_grad, of_weights, part);
    op_zero(device, grad_weights);
    expert_ranks_sum(model, grad_weights, of_weights, false);
    expert_ranks_sum(model, grad_h, part, true);
    tensor_free(device, &of_weights);
    tensor_free(device, &part);
    tensor_free(device, &all_grad);
    tensor_free(device, &all_h);
    permuted_close(device, &all);
}

// t in the device's dtype: itself, or in `other`.
static struct tensor rounded(struct device *device, struct tensor t, struct tensor other)
{
    if (!other.data)
        return t;
    op_copy(device, other, t);
    return other;
}

// From the gradient of the weights, adds those of the logits' projection to its weight and to grad_h, that of h.
static void logits_backward(struct model *model, const struct projection *p, const struct permuted *permuted,
                            struct tensor logits, struct tensor grad_weights, struct router_terms terms,
                            struct tensor totals, struct tensor repeats, struct tensor h, struct tensor grad_h)
{
    struct device *device = model->device;
    struct tensor grad_u = {0}, narrow = {0};
    op_route_backward(device, permuted->routing, logits, permuted->choices, grad_weights, terms, totals, repeats);
    if (device->ops->dtype != logits.dtype)
        narrow = scratch(model, logits.rows, logits.cols);
    struct tensor grad = rounded(device, logits, narrow);
    projection_backward_weights(model, p, grad, &grad_u, h);
    projection_backward_input(model, p, grad_h, grad, &grad_u, true);
    tensor_free(device, &grad_u);
    tensor_free(device, &narrow);
}

// The same of the router, with its losses.
static void router_backward(struct cell_at at, const struct permuted *permuted, struct tensor logits,
                            struct tensor grad_weights, struct tensor h, struct tensor grad_h)
{
    struct device *device = at.model->device;
    struct tensor own = {0}, totals = at.totals;
    if (totals.data && at.model->router_losses.counts == ROUTER_COUNTS_CELL) {
        totals = own = tensor_new(device, totals.rows, totals.cols, totals.dtype, CATEGORY_WORKSPACE);
        op_zero(device, own);
        count_tokens(at, logits, permuted->choices, own);
    }
    logits_backward(at.model, &at.model->layers[at.layer].mlp.parameters[ROUTER], permuted, logits, grad_weights,
                    at.router_terms, totals, at.repeats, h, grad_h);
    tensor_free(device, &own);
}

static void shared_backward(struct model *model, const struct projection *p, const struct kept *kept,
                            struct tensor h, struct tensor grad, struct tensor grad_h)
{
    struct device *device = model->device;
    struct tensor logits = kept->own[KEPT_SHARED_LOGITS], gate_up = kept->own[KEPT_SHARED];
    struct permuted permuted = shared_open(model, logits);
    size_t f = gate_up.cols / 2;
    struct tensor grad_weights = statistics(model, h.rows, 1), half = scratch(model, permuted.max, f);
    for (struct blocks b = permuted_blocks(device, &permuted); blocks_next(&b);) {
        struct tensor grad_block = tensor_rows(grad, b.row, b.count), half_block = tensor_rows(half, 0, b.count);
        struct tensor h_block = tensor_rows(h, b.row, b.count), u = tensor_rows(gate_up, b.row, b.count),
                      of_u = {0};
        projection_backward_input(model, &p[SHARED_DOWN], half_block, grad_block, &of_u, false);
        op_expert_act_backward(device, u, half_block, grad_weights, permuted.weights, permuted.slots, b.row,
                               act_of(model));
        projection_backward_weights(model, &p[SHARED_DOWN], grad_block, &of_u, half_block);
        tensor_free(device, &of_u);
        for (size_t i = 0; i < 2; i++) {
            const struct projection *half_p = &p[i ? SHARED_UP : SHARED_GATE];
            op_copy_columns(device, half_block, 0, u, i * f, f);
            projection_backward_weights(model, half_p, half_block, &of_u, h_block);
            projection_backward_input(model, half_p, tensor_rows(grad_h, b.row, b.count), half_block, &of_u, true);
            tensor_free(device, &of_u);
        }
    }
    tensor_free(device, &half);
    if (p[SHARED_WEIGHT].weight)
        logits_backward(model, &p[SHARED_WEIGHT], &permuted, logits, grad_weights, (struct router_terms){0},
                        tensor_none(), tensor_none(), h, grad_h);
    tensor_free(device, &grad_weights);
    permuted_close(device, &permuted);
}

static void backward(struct cell_at at, struct tensor x, struct kept *kept, struct tensor grad)
{
    struct model *model = at.model;
    struct device *device = model->device;
    const struct block *block = &model->layers[at.layer].mlp;
    const struct projection *p = block->parameters;
    size_t n = grad.rows;
    struct tensor logits = kept->own[KEPT_LOGITS];
    bool rounds = device->ops->dtype != logits.dtype;
    struct tensor normed = block->norm && !kept->h.data ? scratch(model, n, x.cols) : tensor_none();
    struct tensor h = block_input_again(model, block, kept, normed, x, 0, n);
    struct tensor grad_out = block->out_norm ? scratch(model, n, x.cols) : tensor_none();
    struct tensor grad_sum = block_output_gradient(model, block, kept, 0, grad_out, grad);
    struct tensor grad_h = statistics(model, n, x.cols);
    op_zero(device, grad_h);
    struct permuted permuted = experts_open(at, logits, true);
    struct tensor grad_weights = statistics(model, n, permuted.routing.chosen);
    if (model_shares_experts(model))
        shared_experts_backward(model, p, &permuted, h, grad_sum, grad_weights, grad_h);
    else
        experts_backward(model, p, &permuted, h, kept->own[KEPT_GATE_UP], grad_sum, grad_weights, grad_h);
    tensor_free(device, &kept->own[KEPT_GATE_UP]);
    router_backward(at, &permuted, logits, grad_weights, h, grad_h);
    tensor_free(device, &grad_weights);
    permuted_close(device, &permuted);
    if (kept->own[KEPT_SHARED].data)
        shared_backward(model, p, kept, h, grad_sum, grad_h);
    if (block->norm) // h is spent
        block_input_backward(model, block, kept, true, grad, rounded(device, grad_h, rounds ? h : tensor_none()), x,
                             0);
    else
        op_accumulate(device, grad, grad_h);
    tensor_free(device, &grad_h);
    tensor_free(device, &grad_out);
    tensor_free(device, &normed);
    for (size_t i = KEPT_LOGITS; i <= KEPT_SHARED; i++)
        tensor_free(device, &kept->own[i]);
    tensor_free(device, &kept->h);
    tensor_free(device, &kept->out);
}

static bool check(const struct config *config, struct status *status)
{
    return config_check_experts(&config->experts, status);
}

static double kept_bytes(const struct model *model, size_t layer)
{
    (void)layer;
    const struct experts *e = &model->config.experts;
    enum dtype dtype = model->device->ops->dtype;
    double logits = (double)e->routing.experts + (e->shared_width ? 1 : 0);
    size_t chosen = model_shares_experts(model) ? 0 : e->routing.chosen;
    return logits * dtype_bytes(dtype_statistic(dtype)) +
           2.0 * (double)(chosen * e->width + e->shared_width) * dtype_bytes(dtype);
}

static double weights(const struct config *c, size_t layer)
{
    (void)layer;
    const struct experts *e = &c->experts;
    double of_logits = (double)e->routing.experts + (e->shared_gated ? 1 : 0);
    return (of_logits + 3.0 * (double)(e->routing.chosen * e->width + e->shared_width)) * (double)c->width;
}

static size_t width(const struct config *config, size_t layer)
{
    (void)layer;
    return config->width;
}

const struct mlp mlp_experts = {
    .kind =
        {.name = "experts", .parameters = parameters, .shape = shape, .kept_bytes = kept_bytes, .weights = weights},
    .check = check,
    .chooses = true,
    .forward = forward,
    .backward = backward,
    .width = width,
};
