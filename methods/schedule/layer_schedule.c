#include "methods/schedule/layer_schedule.h"
#include "kernels/layers/choices.h"
#include "kernels/offload/offload.h"
#include "methods/schedule/cost.h"

static struct tensor hidden(struct step *step)
{
    struct model *model = step->model;
    return tensor_new(model->device, step->batch->context * step->batch->batch, model->config.width,
                      model->device->ops->dtype, CATEGORY_HIDDEN_CHECKPOINTS);
}

// State of a schedule.
struct state {
    struct step *step;
    const struct layer_schedule *schedule;
    struct segments segments;
    struct offload inputs;                 // number l: [T B, d], input of layer l
    struct offload outputs[MIXER_OUTPUTS]; // number l: attention's output there
};

// A layer's input costs as much as a segment's; that of a segment's lowest layer is the segment's. Attention of a
// lower segment's highest layer is recomputed.
static struct segment_cost cost_of(const struct model *model, enum layer_attention attention)
{
    size_t layers = model->config.layers;
    double input = cost_hidden(model), kept = 0;
    for (size_t l = 0; attention == LAYER_ATTENTION_KEPT && l < layers; l++)
        kept += cost_outputs(model, l) / (double)layers;
    return (struct segment_cost){.input = input, .layer = input + kept, .top = -input, .below = -input - kept};
}

// With several segments the embedding is looked up again.
static bool is_kept(const struct state *state, size_t l)
{
    return l > 0 || state->segments.count == 1;
}

static struct tensor embedding(const struct state *state)
{
    struct tensor x = hidden(state->step);
    embed_forward(state->step->model, state->step->batch, x, 0);
    return x;
}

static size_t outputs_of(const struct state *state, size_t l)
{
    struct model *model = state->step->model;
    struct pair_shape shape = config_mixer(&model->config, l)->outputs(model, l);
    return shape.cols[1] ? 2 : 1;
}

// Allocates attention's output of layer l before the layer's forward, which writes it; the next function stores it
// afterwards.
static struct kept_outputs attention_new(struct state *state, size_t l, bool kept)
{
    struct model *model = state->step->model;
    struct pair_shape shape = config_mixer(&model->config, l)->outputs(model, l);
    size_t rows = state->step->batch->context * state->step->batch->batch;
    struct kept_outputs attention = {.kept = kept};
    for (size_t i = 0; kept && i < outputs_of(state, l); i++)
        attention.t[i] =
            tensor_new(model->device, rows, shape.cols[i], shape.dtype[i], CATEGORY_HIDDEN_CHECKPOINTS);
    return attention;
}
static void attention_offload(struct state *state, size_t l, struct kept_outputs attention)
{
    for (size_t i = 0; attention.kept && i < outputs_of(state, l); i++)
        offload_put(&state->outputs[i], l, attention.t[i]);
}
static void attention_release(struct state *state, size_t l)
{
    for (size_t i = 0; i < outputs_of(state, l); i++)
        offload_release(&state->outputs[i], l);
}

// Tells whether the forward of layer l directly precedes its segment's backward and keeps attention's output.
static bool keeps_attention(const struct state *state, size_t segment, size_t l)
{
    return state->schedule->attention == LAYER_ATTENTION_KEPT &&
           (segment + 1 == state->segments.count || l + 1 < state->segments.items[segment].end);
}
static void attention_prefetch(struct state *state, size_t segment, size_t l)
{
    for (size_t i = 0; keeps_attention(state, segment, l) && i < outputs_of(state, l); i++)
        offload_prefetch(&state->outputs[i], l);
}
static struct kept_outputs attention_acquire(struct state *state, size_t segment, size_t l)
{
    struct kept_outputs attention = {.kept = keeps_attention(state, segment, l)};
    for (size_t i = 0; attention.kept && i < outputs_of(state, l); i++)
        attention.t[i] = offload_acquire(&state->outputs[i], l);
    return attention;
}
static void attention_free(struct state *state, size_t l)
{
    for (size_t i = 0; i < MIXER_OUTPUTS; i++)
        offload_free(&state->outputs[i], l);
}

// Runs layers [first, end) from the lowest one's input x. Stores the inputs of layers `keep`, and attention's
// output of all of them if their backward is next.
static struct tensor climb(struct state *state, size_t first, size_t end, struct tensor x, struct segment keep,
                           bool runs_next)
{
    bool keeps = runs_next && state->schedule->attention == LAYER_ATTENTION_KEPT;
    for (size_t l = first; l < end; l++) {
        struct kept_outputs of_layer = attention_new(state, l, keeps);
        if (l >= keep.first && l < keep.end && is_kept(state, l))
            offload_put(&state->inputs, l, x);
        struct tensor y = hidden(state->step);
        layer_forward(state->step->model, state->step->batch, l, state->schedule->chunk, x, y, of_layer);
        attention_offload(state, l, of_layer);
        if (keeps && l > first)
            attention_release(state, l - 1); // its copy has had this layer's time
        if (offload_has(&state->inputs, l))
            offload_release(&state->inputs, l);
        else
            tensor_free(state->step->model->device, &x);
        x = y;
    }
    if (keeps && end > first)
        attention_release(state, end - 1);
    return x;
}

static struct tensor input_of(struct state *state, size_t l)
{
    return is_kept(state, l) || offload_has(&state->inputs, l) ? offload_acquire(&state->inputs, l)
                                                               : embedding(state);
}

static void prefetch(struct state *state, size_t l)
{
    if (is_kept(state, l))
        offload_prefetch(&state->inputs, l);
}

// Recomputes the inputs of the layers above a segment's lowest. The highest's is read at once.
static void rebuild(struct state *state, struct segment segment)
{
    size_t highest = segment.end - 1;
    if (highest > segment.first) {
        struct tensor x = input_of(state, segment.first);
        x = climb(state, segment.first, highest, x, (struct segment){segment.first + 1, highest}, true);
        offload_hold(&state->inputs, highest, x);
    }
}

// Runs layers backward. grad: [T B, d], of the highest layer's output, becomes that of the lowest's input.
static void descend(struct state *state, size_t s, struct tensor grad)
{
    struct segment segment = state->segments.items[s];
    struct model *model = state->step->model;
    for (size_t l = segment.end; l-- > segment.first;) {
        struct tensor x = input_of(state, l);
        struct kept_outputs attention = attention_acquire(state, s, l);
        if (l > state->segments.items[0].first)
            prefetch(state, l > segment.first ? l - 1 : state->segments.items[s - 1].first);
        if (l > segment.first)
            attention_prefetch(state, s, l - 1);
        struct stream of_x = {.device = model->device, .whole = x};
        struct stream of_grad = {.device = model->device, .whole = grad};
        state->schedule->backward(state->step, l, &of_x, attention, &of_grad, layer_next(&state->segments, s, l));
        if (offload_has(&state->inputs, l))
            offload_free(&state->inputs, l);
        else
            tensor_free(model->device, &x);
        attention_free(state, l);
        unit_done(model, unit_of_layer(l));
    }
}

size_t layer_next(const struct segments *segments, size_t s, size_t l)
{
    return l > segments->items[s].first ? unit_of_layer(l - 1)
           : s > 0                      ? unit_of_layer(segments->items[s - 1].first)
                                        : UNIT_NONE;
}

struct segments layer_segments(const struct model *model, const struct segment_options *options,
                               enum layer_attention attention)
{
    struct segments segments = segments_of(options, model->config.layers, cost_of(model, attention));
    segments_raise(&segments, model->lowest_trained);
    return segments;
}

void layer_schedule_run(struct step *step, const struct layer_schedule *schedule)
{
    struct model *model = step->model;
    size_t layers = model->config.layers;
    struct state state = {.step = step,
                          .schedule = schedule,
                          .segments = layer_segments(model, schedule->segments, schedule->attention)};
    offload_open(&state.inputs, model->device, schedule->kept, layers);
    for (size_t i = 0; i < MIXER_OUTPUTS; i++)
        offload_open(&state.outputs[i], model->device, schedule->kept, layers);
    size_t lowest = state.segments.items[0].first;
    struct tensor x = climb(&state, 0, lowest, embedding(&state), (struct segment){0}, false);
    for (size_t s = 0; s < state.segments.count; s++) {
        struct segment segment = state.segments.items[s];
        bool highest = s + 1 == state.segments.count;
        x = climb(&state, segment.first, segment.end, x,
                  (struct segment){segment.first, highest ? segment.end : segment.first + 1}, highest);
    }

    // The gradient of the layer's output, which its backward replaces by its input's.
    struct tensor grad = x;
    choices_settle(model);
    head_first_pass(model, step->batch, grad, schedule->head_chunk, step->loss);
    prefetch(&state, layers - 1);
    attention_prefetch(&state, state.segments.count - 1, layers - 1);
    head_backward(model, step->batch, grad, 0, schedule->head_chunk, (struct loss_weights){.loss = 1, .grad = 1},
                  step->loss);
    unit_done(model, unit_of_head(model));
    for (size_t s = state.segments.count; s-- > 0;) {
        if (s + 1 < state.segments.count)
            rebuild(&state, state.segments.items[s]);
        descend(&state, s, grad);
    }
    unit_done_below(model, lowest);
    embed_backward(model, step->batch, grad, 0);
    unit_done(model, UNIT_EMBEDDING);
    tensor_free(model->device, &grad);
    for (size_t i = MIXER_OUTPUTS; i-- > 0;)
        offload_close(&state.outputs[i]);
    offload_close(&state.inputs);
    segments_free(&state.segments);
}

double layer_schedule_kept(const struct model *model, const struct segment_options *options,
                           enum layer_attention attention)
{
    struct segments segments = layer_segments(model, options, attention);
    double *layers = calloc(model->config.layers, sizeof *layers);
    CHECK(layers);
    for (size_t l = 0; l < model->config.layers; l++)
        layers[l] = cost_hidden(model) + (attention == LAYER_ATTENTION_KEPT ? cost_outputs(model, l) : 0);
    double kept = segments_kept(&segments, cost_of(model, attention), layers);
    free(layers);
    bool embedding = segments.count == 1 || model->lowest_trained > 0; // then the lowest layer's is kept too
    segments_free(&segments);
    return kept + (embedding ? 2 : 1) * cost_hidden(model);
}
