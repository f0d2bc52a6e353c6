#include "methods/column_walk.h"

// A walk and what it keeps.
struct state {
    struct step *step;
    const struct column_walk *walk;
    bool gathers;                 // the objective wants every column's log-probs first
    bool all;                     // the first pass goes to the end
    size_t needed;                // columns of the first pass
    size_t tokens;                // of them
    size_t sampled;               // tokens of the drawn columns
    struct kv *kv, *grad_kv;      // [layers], [tokens B, G D] and [sampled B, G D] each
    struct key_segment *segments; // [layers][drawn.count], or one if the walk is whole
};

static void state_open(struct state *state, struct step *step, const struct column_walk *walk)
{
    size_t layers = step->model->config.layers, count = walk->drawn.count;
    bool gathers = objective_gathers(step->batch);
    *state = (struct state){.step = step, .walk = walk, .gathers = gathers, .all = walk->all_losses || gathers};
    state->needed = state->all ? walk->columns.count : count ? walk->drawn.items[count - 1] + 1 : 0;
    if (state->needed) {
        struct span last = column_span(walk->columns, state->needed - 1);
        state->tokens = last.start + last.count;
    }
    for (size_t j = 0; j < count; j++) {
        state->sampled += column_span(walk->columns, walk->drawn.items[j]).count;
    }
    state->kv = calloc(layers, sizeof *state->kv);
    state->grad_kv = calloc(layers, sizeof *state->grad_kv);
    state->segments = calloc(layers * (walk->whole ? 1 : count + 1), sizeof *state->segments);
    CHECK(state->kv && state->grad_kv && state->segments);
}

static void state_close(struct state *state)
{
    free(state->segments);
    free(state->grad_kv);
    free(state->kv);
}

// First pass: whatever the drawn columns attend to, and with all losses everything; with an objective that gathers
// all columns to the head, the drawn ones too.
static void fill_cache(struct state *state, struct stage stage)
{
    const struct column_walk *walk = state->walk;
    struct tensor none = tensor_none();
    for (size_t c = 0, j = 0; c < state->needed; c++) {
        bool drawn = j < walk->drawn.count && walk->drawn.items[j] == c;
        bool loss = state->gathers || (state->all && !drawn);
        j += drawn;
        if (drawn && c + 1 == state->needed && !state->gathers) {
            return; // no column to its right reads its keys before its own second pass writes them
        }
        column_forward(state->step, stage, column_span(walk->columns, c), state->kv, none, none,
                       loss ? COLUMN_LOSS : COLUMN_KV);
    }
}

// The drawn columns' keys alone have gradients: per layer one buffer, in which they lie side by side. Those that
// column j reads; their number.
static size_t list_segments(struct state *state, struct stage stage, size_t j)
{
    const struct column_walk *walk = state->walk;
    size_t B = state->step->batch->batch, count = walk->whole ? 1 : j + 1;
    struct span last = column_span(walk->columns, walk->drawn.items[j]);
    for (size_t l = stage.first; l < stage.end; l++) {
        size_t row = 0;
        for (size_t i = 0; i < count; i++) {
            struct span span = walk->whole ? (struct span){0, last.start + last.count}
                                           : column_span(walk->columns, walk->drawn.items[i]);
            struct kv own = kv_rows(state->grad_kv[l], row, span.count * B);
            state->segments[l * count + i] = (struct key_segment){span.start, span.count, own.k, own.v};
            row += span.count * B;
        }
    }
    return count;
}

static void walk_back(struct state *state, struct stage stage)
{
    const struct column_walk *walk = state->walk;
    struct device *device = state->step->model->device;
    for (size_t j = walk->drawn.count; j-- > 0;) {
        size_t c = walk->drawn.items[j], segment_count = list_segments(state, stage, j);
        double factor = walk->loss_factor ? walk->loss_factor[j] : 1;
        for (size_t l = stage.first; walk->kv_factor && j + 1 < walk->drawn.count && l < stage.end; l++) {
            // What the columns to the right sent, before the column adds its own.
            op_scale(device, state->segments[l * segment_count + j].grad_k, walk->kv_factor[j]);
            op_scale(device, state->segments[l * segment_count + j].grad_v, walk->kv_factor[j]);
        }
        struct column column = {.stage = stage,
                                .chunk = column_span(walk->columns, c),
                                .kv = state->kv,
                                .cached = state->gathers || c + 1 < state->needed,
                                .last = j == 0,
                                .segments = state->segments,
                                .segment_count = segment_count,
                                .weights = {.loss = state->all ? 1 : factor, .grad = factor}};
        column_backward(state->step, &column);
    }
}

void column_walk(struct step *step, const struct column_walk *walk)
{
    struct model *model = step->model;
    struct device *device = model->device;
    size_t B = step->batch->batch;
    struct stage stage = {0, model->config.layers};
    struct state state;
    state_open(&state, step, walk);
    for (size_t l = stage.first; state.needed && l < stage.end; l++) {
        state.kv[l] = kv_new(model, state.tokens * B, device->ops->dtype, CATEGORY_KV_CACHE);
    }
    fill_cache(&state, stage);
    objective_settle(device, step->batch, step->loss);
    for (size_t l = stage.first; state.sampled && l < stage.end; l++) {
        state.grad_kv[l] = kv_new(model, state.sampled * B, model->kv_gradient_dtype, CATEGORY_KV_GRADIENTS);
        op_zero(device, state.grad_kv[l].k);
        op_zero(device, state.grad_kv[l].v);
    }
    if (walk->drawn.count == 0) {
        unit_done_all(model);
    }
    walk_back(&state, stage);
    for (size_t l = stage.first; l < stage.end; l++) {
        kv_free(model, &state.grad_kv[l]);
        kv_free(model, &state.kv[l]);
    }
    state_close(&state);
}
