#include "methods/schedule/row.h"
#include "kernels/offload/spill.h"
#include "methods/schedule/cost.h"

static struct tensor hidden(struct step *step)
{
    struct model *model = step->model;
    return tensor_new(model->device, step->batch->context * step->batch->batch, model->config.width,
                      model->device->ops->dtype, CATEGORY_HIDDEN_CHECKPOINTS);
}

struct activations row_cell(struct kept_attention attention, struct span chunk, size_t B,
                            enum attention_output output)
{
    struct activations own = {0}, kept = {.attention = output,
                                          .o = column_rows(attention.o, chunk, B),
                                          .logsumexp = column_rows(attention.logsumexp, chunk, B)};
    return attention.kept ? kept : own;
}

// The output of row l: [T B, d], chunk by chunk.
static struct tensor forward(struct step *step, size_t l, struct columns columns, struct tensor x,
                             struct kept_attention attention)
{
    struct model *model = step->model;
    size_t B = step->batch->batch;
    struct kv kv = kv_new(model, x.rows, x.dtype, CATEGORY_KV_CACHE);
    struct tensor y = hidden(step);
    bool shared = batch_is_shared(step->batch); // then all keys and values come first
    unit_acquire(model, unit_of_layer(l));
    for (size_t c = 0; shared && c < columns.count; c++) {
        struct span chunk = column_span(columns, c);
        kv_project(model, step->batch, l, chunk, column_rows(x, chunk, B), kv, NULL, KEEP_NOTHING);
    }
    kv = kv_gather_take(model, step->batch, kv);
    unit_prefetch(model, unit_of_layer(l + 1)); // above the last layer: the head
    for (size_t c = 0; c < columns.count; c++) {
        struct span chunk = column_span(columns, c);
        struct activations cell = row_cell(attention, chunk, B, ATTENTION_WRITE);
        struct tensor part = column_rows(x, chunk, B);
        if (!shared) {
            kv_project(model, step->batch, l, chunk, part, kv, &cell, KEEP_NOTHING);
        }
        cell_forward(model, step->batch, l, chunk, part, kv, column_rows(y, chunk, B), &cell, KEEP_NOTHING);
    }
    unit_release(model, unit_of_layer(l));
    kv_free(model, &kv);
    return y;
}

// A walk and what it keeps.
struct state {
    struct step *step;
    const struct row_walk *walk;
    struct columns columns;
    struct stages stages;
    struct spill inputs;       // number l: [T B, d], input of layer l
    struct spill o, logsumexp; // number l: what attention gave there
};

// A row's input costs what a stage's does; that of a stage's lowest row is its own. Attention of a lower stage's
// highest row is rebuilt.
static struct stage_cost cost_of(const struct model *model, enum row_attention attention)
{
    double input = cost_hidden(model), kept = attention == ROW_ATTENTION_KEPT ? cost_attention(model) : 0;
    return (struct stage_cost){.input = input, .row = input + kept, .top = -input, .below = -input - kept};
}

// With several stages the embedding is looked up again.
static bool is_kept(const struct state *state, size_t l)
{
    return l > 0 || state->stages.count == 1;
}

static struct tensor embedding(const struct state *state)
{
    struct tensor x = hidden(state->step);
    embed_forward(state->step->model, state->step->batch, x, 0);
    return x;
}

// What attention gives in row l is put by: before the row's forward, which writes it, and behind it.
static struct kept_attention attention_new(struct state *state, bool kept)
{
    const struct step *step = state->step;
    const struct config *c = &step->model->config;
    struct device *device = step->model->device;
    size_t rows = step->batch->context * step->batch->batch;
    struct kept_attention attention = {.kept = kept};
    if (kept) {
        attention.o =
            tensor_new(device, rows, c->heads * c->head_dim, device->ops->dtype, CATEGORY_HIDDEN_CHECKPOINTS);
        attention.logsumexp =
            tensor_new(device, rows, c->heads, dtype_statistic(device->ops->dtype), CATEGORY_HIDDEN_CHECKPOINTS);
    }
    return attention;
}
static void attention_offload(struct state *state, size_t l, struct kept_attention attention)
{
    if (attention.kept) {
        spill_offload(&state->o, l, attention.o);
        spill_offload(&state->logsumexp, l, attention.logsumexp);
    }
}
static void attention_release(struct state *state, size_t l)
{
    spill_release(&state->o, l);
    spill_release(&state->logsumexp, l);
}

// Whether a forward of row l comes right before its stage is walked, and keeps what attention gives.
static bool keeps_attention(const struct state *state, size_t stage, size_t l)
{
    return state->walk->attention == ROW_ATTENTION_KEPT &&
           (stage + 1 == state->stages.count || l + 1 < state->stages.items[stage].end);
}
static void attention_prefetch(struct state *state, size_t stage, size_t l)
{
    if (keeps_attention(state, stage, l)) {
        spill_prefetch(&state->o, l);
        spill_prefetch(&state->logsumexp, l);
    }
}
static struct kept_attention attention_acquire(struct state *state, size_t stage, size_t l)
{
    struct kept_attention attention = {.kept = keeps_attention(state, stage, l)};
    if (attention.kept) {
        attention.o = spill_acquire(&state->o, l);
        attention.logsumexp = spill_acquire(&state->logsumexp, l);
    }
    return attention;
}
static void attention_free(struct state *state, size_t l)
{
    spill_free(&state->o, l);
    spill_free(&state->logsumexp, l);
}

// Up through rows [first, end) from the lowest one's input x. Those of rows `keep` are put by on the way, and what
// attention gives in all of them if they are walked next.
static struct tensor climb(struct state *state, size_t first, size_t end, struct tensor x, struct stage keep,
                           bool walked)
{
    bool keeps = walked && state->walk->attention == ROW_ATTENTION_KEPT;
    for (size_t l = first; l < end; l++) {
        struct kept_attention of_row = attention_new(state, keeps);
        if (l >= keep.first && l < keep.end && is_kept(state, l)) {
            spill_offload(&state->inputs, l, x);
        }
        struct tensor y = forward(state->step, l, state->columns, x, of_row);
        attention_offload(state, l, of_row);
        if (keeps && l > first) {
            attention_release(state, l - 1); // its copy had this row's time
        }
        if (spill_has(&state->inputs, l)) {
            spill_release(&state->inputs, l);
        } else {
            tensor_free(state->step->model->device, &x);
        }
        x = y;
    }
    if (keeps && end > first) {
        attention_release(state, end - 1);
    }
    return x;
}

static struct tensor input_of(struct state *state, size_t l)
{
    return is_kept(state, l) || spill_has(&state->inputs, l) ? spill_acquire(&state->inputs, l) : embedding(state);
}

static void prefetch(struct state *state, size_t l)
{
    if (is_kept(state, l)) {
        spill_prefetch(&state->inputs, l);
    }
}

// The inputs of the rows above a stage's lowest, once more. That of the highest is read at once.
static void rebuild(struct state *state, struct stage stage)
{
    size_t highest = stage.end - 1;
    if (highest > stage.first) {
        struct tensor x = input_of(state, stage.first);
        x = climb(state, stage.first, highest, x, (struct stage){stage.first + 1, highest}, true);
        spill_hold(&state->inputs, highest, x);
    }
}

// Rows downward. grad: [T B, d], that of the output of the highest, becomes that of the input of the lowest.
static void descend(struct state *state, size_t s, struct tensor grad)
{
    struct stage stage = state->stages.items[s];
    struct model *model = state->step->model;
    for (size_t l = stage.end; l-- > stage.first;) {
        struct tensor x = input_of(state, l);
        struct kept_attention attention = attention_acquire(state, s, l);
        if (l > state->stages.items[0].first) {
            prefetch(state, l > stage.first ? l - 1 : state->stages.items[s - 1].first);
        }
        if (l > stage.first) {
            attention_prefetch(state, s, l - 1);
        }
        struct stream of_x = {.device = model->device, .whole = x};
        struct stream of_grad = {.device = model->device, .whole = grad};
        state->walk->backward(state->step, l, &of_x, attention, &of_grad, row_next(&state->stages, s, l));
        if (spill_has(&state->inputs, l)) {
            spill_free(&state->inputs, l);
        } else {
            tensor_free(model->device, &x);
        }
        attention_free(state, l);
        unit_done(model, unit_of_layer(l));
    }
}

size_t row_next(const struct stages *stages, size_t s, size_t l)
{
    return l > stages->items[s].first ? unit_of_layer(l - 1)
           : s > 0                    ? unit_of_layer(stages->items[s - 1].first)
                                      : UNIT_NONE;
}

struct stages row_stages(const struct model *model, const struct stage_options *options,
                         enum row_attention attention)
{
    struct stages stages = stages_of(options, model->config.layers, cost_of(model, attention));
    stages_raise(&stages, model->lowest_trained);
    return stages;
}

void row_walk(struct step *step, const struct row_walk *walk)
{
    struct model *model = step->model;
    size_t layers = model->config.layers;
    struct state state = {.step = step,
                          .walk = walk,
                          .columns = columns_of(step->batch->context, walk->chunk),
                          .stages = row_stages(model, walk->stages, walk->attention)};
    spill_open(&state.inputs, model->device, walk->kept, layers);
    spill_open(&state.o, model->device, walk->kept, layers);
    spill_open(&state.logsumexp, model->device, walk->kept, layers);
    size_t lowest = state.stages.items[0].first;
    struct tensor x = climb(&state, 0, lowest, embedding(&state), (struct stage){0}, false);
    for (size_t s = 0; s < state.stages.count; s++) {
        struct stage stage = state.stages.items[s];
        bool highest = s + 1 == state.stages.count;
        x = climb(&state, stage.first, stage.end, x,
                  (struct stage){stage.first, highest ? stage.end : stage.first + 1}, highest);
    }

    // The gradient of the row above; it becomes that of the row's input in its place.
    struct tensor grad = x;
    head_first_pass(model, step->batch, grad, walk->head_chunk, step->loss);
    prefetch(&state, layers - 1);
    attention_prefetch(&state, state.stages.count - 1, layers - 1);
    head_backward(model, step->batch, grad, 0, walk->head_chunk, (struct loss_weights){.loss = 1, .grad = 1},
                  step->loss);
    unit_done(model, unit_of_head(model));
    for (size_t s = state.stages.count; s-- > 0;) {
        if (s + 1 < state.stages.count) {
            rebuild(&state, state.stages.items[s]);
        }
        descend(&state, s, grad);
    }
    unit_done_below(model, lowest);
    embed_backward(model, step->batch, grad, 0);
    unit_done(model, UNIT_EMBEDDING);
    tensor_free(model->device, &grad);
    spill_close(&state.logsumexp);
    spill_close(&state.o);
    spill_close(&state.inputs);
    stages_free(&state.stages);
}

double row_walk_kept(const struct model *model, const struct stage_options *options, enum row_attention attention)
{
    struct stage_cost cost = cost_of(model, attention);
    struct stages stages = row_stages(model, options, attention);
    double kept = stages_kept(&stages, cost);
    bool embedding = stages.count == 1 || model->lowest_trained > 0; // then the lowest row's is kept, too
    stages_free(&stages);
    return kept + (embedding ? 2 : 1) * cost_hidden(model);
}
