#include "methods/schedule/layer_stream.h"
#include "kernels/device/ops.h"
#include "kernels/layers/choices.h"
#include "methods/schedule/cost.h"

// State of a schedule.
struct state {
    struct step *step;
    const struct layer_schedule *schedule;
    struct chunks chunks;
    struct segments segments;
    struct tensor *host;    // [layers] on the host: [T B, d], inputs of layers except layer 0
    struct tensor x;        // [T B, d], the current layer's input and output, in place
    struct event *in, *out; // [chunks] of x: written; copied to the host
    struct tensor grad;     // [T B, d], on the device or on the host
    struct event grad_out;  // its last part is complete
};

static struct tensor hidden(struct state *state, enum place place)
{
    struct model *model = state->step->model;
    return tensor_new_in(model->device, place, state->step->batch->context * state->step->batch->batch,
                         model->config.width, model->device->ops->dtype, CATEGORY_HIDDEN_CHECKPOINTS);
}

static struct tensor rows_of(const struct state *state, struct tensor t, size_t c)
{
    return chunk_rows(t, chunk_span(state->chunks, c), state->step->batch->batch);
}

// Runs layers [first, end). The inputs of layers `keep` are copied to the host as they are written.
static void climb(struct state *state, size_t first, size_t end, struct segment keep)
{
    struct model *model = state->step->model;
    struct device *device = model->device;
    bool shared = batch_is_shared(state->step->batch); // then all keys and values come first
    struct carry_size size = carry_size_of(state->step->batch, state->chunks.context, state->chunks.chunk);
    for (size_t l = first; l < end; l++) {
        bool kept = l + 1 >= keep.first && l + 1 < keep.end;
        struct carry kv = carry_new(model, l, PLACE_DEVICE, size);
        if (kept)
            state->host[l + 1] = hidden(state, PLACE_HOST);
        unit_acquire(model, unit_of_layer(l));
        for (size_t c = 0; shared && c < state->chunks.count; c++) {
            event_wait(device, QUEUE_COMPUTE, state->in[c]);
            kv_project(model, state->step->batch, l, chunk_span(state->chunks, c), rows_of(state, state->x, c), kv,
                       NULL, KEEP_NOTHING);
        }
        kv = carry_gather_take(model, state->step->batch, l, kv);
        unit_prefetch(model, unit_of_layer(l + 1)); // after the last layer: the head
        for (size_t c = 0; c < state->chunks.count; c++) {
            struct span chunk = chunk_span(state->chunks, c);
            struct tensor x = rows_of(state, state->x, c);
            struct activations cell = {0};
            if (!shared) {
                event_wait(device, QUEUE_COMPUTE, state->in[c]);
                kv_project(model, state->step->batch, l, chunk, x, kv, &cell, KEEP_NOTHING);
            }
            event_wait(device, QUEUE_COMPUTE, state->out[c]);
            cell_forward(model, state->step->batch, l, chunk, x, kv, x, &cell, KEEP_NOTHING);
            state->in[c] = state->out[c] = (struct event){0};
            if (kept)
                state->out[c] = copy_out_written(device, rows_of(state, state->host[l + 1], c), x);
        }
        unit_release(model, unit_of_layer(l));
        carry_free(model, &kv);
    }
}

// Makes the input of the segment's lowest layer the current one.
static void begin(struct state *state, struct segment segment)
{
    struct device *device = state->step->model->device;
    state->x = hidden(state, PLACE_DEVICE);
    if (segment.first == 0) {
        embed_forward(state->step->model, state->step->batch, state->x, 0);
        return;
    }
    event_wait(device, QUEUE_IN, event_record(device, QUEUE_COMPUTE));
    for (size_t c = 0; c < state->chunks.count; c++) {
        copy_in(device, rows_of(state, state->x, c), rows_of(state, state->host[segment.first], c));
        state->in[c] = event_record(device, QUEUE_IN);
    }
}

// Recomputes the inputs of the layers above a segment's lowest.
static void rebuild(struct state *state, struct segment segment)
{
    if (segment.end - segment.first == 1)
        return;
    begin(state, segment);
    climb(state, segment.first, segment.end - 1, (struct segment){segment.first + 1, segment.end});
    for (size_t c = 0; c < state->chunks.count; c++) {
        event_wait(state->step->model->device, QUEUE_COMPUTE, state->out[c]);
        state->out[c] = (struct event){0};
    }
    tensor_free(state->step->model->device, &state->x);
}

static void look_up(void *step, struct tensor part, size_t row)
{
    const struct step *of = step;
    embed_rows(of->model, of->batch, part, row);
}

static void descend(struct state *state, size_t s)
{
    struct segment segment = state->segments.items[s];
    struct model *model = state->step->model;
    bool embeds = embedding_trains(model);
    for (size_t l = segment.end; l-- > segment.first;) {
        struct stream x = {.device = model->device, .whole = state->host[l]};
        struct stream grad = {.device = model->device, .whole = state->grad, .out = state->grad_out};
        grad.read_only = l == state->segments.items[0].first && !embeds;
        if (l == 0) {
            x.whole = state->grad; // for its shape
            x.whole.place = PLACE_DEVICE;
            x.whole.data = NULL;
            x.make = look_up;
            x.maker = state->step;
            unit_acquire(model, UNIT_EMBEDDING); // once for all parts
        }
        state->schedule->backward(state->step, l, &x, (struct kept_outputs){0}, &grad,
                                  layer_next(&state->segments, s, l));
        if (l == 0)
            unit_release(model, UNIT_EMBEDDING);
        state->grad_out = grad.out;
        tensor_free(model->device, &state->host[l]);
        unit_done(model, unit_of_layer(l));
    }
}

// Offloads the gradient of the highest layer's output.
static void send_gradient(struct state *state)
{
    struct device *device = state->step->model->device;
    state->grad = hidden(state, PLACE_HOST);
    for (size_t c = 0; c < state->chunks.count; c++)
        state->grad_out = copy_out_written(device, rows_of(state, state->grad, c), rows_of(state, state->x, c));
    event_wait(device, QUEUE_COMPUTE, state->grad_out);
    tensor_free(device, &state->x);
}

// Adds the embedding's gradient in token order, as if at once.
static void embed_gradient(struct state *state)
{
    struct model *model = state->step->model;
    size_t B = state->step->batch->batch, count = state->chunks.count;
    struct stream grad = {.device = model->device, .whole = state->grad, .out = state->grad_out, .read_only = true};
    stream_open(&grad, state->chunks.chunk * B);
    for (size_t c = 0; c < count; c++) {
        if (c == 0)
            stream_prefetch(&grad, 0, chunk_span(state->chunks, 0).count * B);
        if (c + 1 < count) {
            struct span next = chunk_span(state->chunks, c + 1);
            stream_prefetch(&grad, next.start * B, next.count * B);
        }
        embed_backward(model, state->step->batch, stream_acquire(&grad), chunk_span(state->chunks, c).start);
    }
    stream_close(&grad);
}

void layer_stream_run(struct step *step, const struct layer_schedule *schedule, bool gradient)
{
    struct model *model = step->model;
    size_t layers = model->config.layers;
    struct state state = {.step = step,
                          .schedule = schedule,
                          .chunks = chunks_of(step->batch->context, schedule->chunk),
                          .segments = layer_segments(model, schedule->segments, LAYER_ATTENTION_REBUILT)};
    state.host = calloc(layers, sizeof *state.host);
    state.in = calloc(state.chunks.count, sizeof *state.in);
    state.out = calloc(state.chunks.count, sizeof *state.out);
    CHECK(state.host && state.in && state.out);
    size_t lowest = state.segments.items[0].first;
    begin(&state, (struct segment){0});
    climb(&state, 0, lowest, (struct segment){lowest, lowest + 1});
    for (size_t s = 0; s < state.segments.count; s++) {
        struct segment segment = state.segments.items[s];
        bool highest = s + 1 == state.segments.count;
        climb(&state, segment.first, segment.end,
              highest ? (struct segment){segment.first + 1, segment.end}
                      : (struct segment){segment.end, segment.end + 1});
    }
    choices_settle(model);
    head_first_pass(model, step->batch, state.x, schedule->head_chunk, step->loss);
    head_backward(model, step->batch, state.x, 0, schedule->head_chunk, (struct loss_weights){.loss = 1, .grad = 1},
                  step->loss);
    unit_done(model, unit_of_head(model));
    if (gradient)
        send_gradient(&state);
    else
        state.grad = state.x;
    for (size_t s = state.segments.count; s-- > 0;) {
        if (s + 1 < state.segments.count)
            rebuild(&state, state.segments.items[s]);
        descend(&state, s);
    }
    unit_done_below(model, lowest);
    if (embedding_trains(model))
        embed_gradient(&state);
    unit_done(model, UNIT_EMBEDDING);
    tensor_free(model->device, &state.grad);
    free(state.out);
    free(state.in);
    free(state.host);
    segments_free(&state.segments);
}

double layer_stream_kept(const struct model *model, bool gradient)
{
    return gradient ? 0 : cost_hidden(model);
}
