// StreamBP: checkpoints as in methods/checkpoint.c, but recomputes a layer and runs it backward chunk by chunk,
// right to left; its keys and values are recomputed once. Luo et al. 2025, arXiv 2506.03077. Cost: at most 4 F + A
// / 2; a recomputed cell stops before its down-projection. Memory per token: L d e, plus one layer's keys, values
// and their gradients, and one gradient of width d. In S segments, the highest of m layers: L - S - (m - 1) more
// layer forwards, and fewer inputs (methods/schedule/layer_schedule.h). With offload = inputs the device holds none
// of them, with input_gradients too no gradient either (methods/schedule/layer_stream.h). attention = kept is as in
// methods/checkpoint.c. Deviations: the published code projects K and V again for [0, end of chunk) at every chunk
// and repeats them for all query heads; its loss counts labels before shifting. Here as in the paper's equations,
// with the exact loss. The forward is streamed too; otherwise its scratch would set the peak. With ring attention
// or exchanged heads (parallel.exchange), the mixer runs over the whole layer, forward and backward, and only the
// wider part after it is recomputed and run chunk by chunk. Further memory then: one layer's q, o and the gradient
// of o.
#include "methods/method.h"
#include "methods/schedule/cost.h"
#include "methods/schedule/layer_stream.h"
#include <math.h>

struct streambp_options {
    size_t chunk, head_chunk;
    enum keep keep;
    struct segment_options segments;
    unsigned offload;
    enum layer_attention attention;
};

static const struct option option_rows[] = {OPTION_CHUNK(struct streambp_options, true),
                                            OPTION_HEAD_CHUNK(struct streambp_options),
                                            OPTION_KEEP(struct streambp_options),
                                            OPTION_SEGMENTS(struct streambp_options),
                                            OPTION_SEGMENT_STARTS(struct streambp_options),
                                            OPTION_OFFLOAD(struct streambp_options, "inputs", "input_gradients"),
                                            OPTION_ATTENTION(struct streambp_options),
                                            {0}};

// Projects a layer's carry: keys and values.
static void project(struct step *step, size_t l, struct stream *x, struct carry kv, size_t chunk)
{
    struct model *model = step->model;
    size_t n = x->whole.rows, max = kv_block_rows(model, l, n, chunk * step->batch->batch);
    stream_open(x, max);
    for (size_t row = 0; row < n && model->device->status.code == STATUS_OK; row += max) {
        size_t next = row + max;
        if (row == 0)
            stream_prefetch(x, 0, max);
        if (next < n)
            stream_prefetch(x, next, n - next < max ? n - next : max);
        kv_project_block(model, step->batch, l, row, stream_acquire(x), kv);
    }
    stream_close(x);
    kv_finish(model, step->batch, l, kv);
}

static void prefetch(struct stream *x, struct stream *grad, struct span chunk, size_t B)
{
    stream_prefetch(x, chunk.start * B, chunk.count * B);
    stream_prefetch(grad, chunk.start * B, chunk.count * B);
}

// Backward of the projections after the chunks, if ranks share the tokens.
static void project_backward(struct step *step, size_t l, struct stream *x, struct stream *grad,
                             struct carry grad_kv, struct chunks chunks)
{
    size_t B = step->batch->batch;
    stream_open(x, chunks.chunk * B);
    stream_open(grad, chunks.chunk * B);
    for (size_t c = 0; c < chunks.count; c++) {
        struct span chunk = chunk_span(chunks, c);
        if (c == 0)
            prefetch(x, grad, chunk, B);
        if (c + 1 < chunks.count)
            prefetch(x, grad, chunk_span(chunks, c + 1), B);
        kv_project_backward(step->model, step->batch, l, chunk, stream_acquire(x), grad_kv, stream_acquire(grad));
        stream_offload(grad);
    }
    stream_close(grad);
    stream_close(x);
}

// Chunks from the right: a chunk's output gradient is not needed once its input's is complete, which replaces it.
static void backward(struct step *step, size_t l, struct stream *x, struct kept_outputs attention,
                     struct stream *grad, size_t next)
{
    const struct streambp_options *options = step->options;
    struct model *model = step->model;
    size_t B = step->batch->batch;
    struct chunks chunks = chunks_of(step->batch->context, options->chunk);
    struct carry kv =
        carry_new(model, l, PLACE_DEVICE, carry_size_of(step->batch, step->batch->context, chunks.chunk));
    struct carry grad_kv = carry_gradients_new(model, step->batch, l, chunks.chunk);
    unit_acquire(model, unit_of_layer(l));
    project(step, l, x, kv, chunks.chunk);
    kv = carry_gather_take(model, step->batch, l, kv);
    stream_open(x, chunks.chunk * B);
    stream_open(grad, chunks.chunk * B);
    for (size_t c = chunks.count; c-- > 0;) {
        struct span chunk = chunk_span(chunks, c);
        struct activations rebuilt = layer_cell(attention, chunk, B, OUTPUT_WRITTEN);
        if (c + 1 == chunks.count)
            prefetch(x, grad, chunk, B);
        if (c > 0)
            prefetch(x, grad, chunk_span(chunks, c - 1), B);
        cell_forward(model, step->batch, l, chunk, stream_acquire(x), kv, tensor_none(), &rebuilt, options->keep);
        unit_prefetch(model, next);
        if (c + 1 < chunks.count)
            carry_slide(model, grad_kv, chunk.start * B);
        struct carry_segment keys = carry_segment_of(grad_kv, chunk);
        cell_backward(model, step->batch, l, chunk, &rebuilt, kv, &keys, 1, stream_acquire(grad));
        stream_offload(grad);
    }
    stream_close(grad);
    stream_close(x);
    carry_free(model, &kv);
    if (carry_gradients_sum(model, step->batch, l, &grad_kv))
        project_backward(step, l, x, grad, grad_kv, chunks);
    unit_release(model, unit_of_layer(l));
    carry_free(model, &grad_kv);
}

static void backward_whole(struct step *step, size_t l, struct stream *of_x, struct kept_outputs attention,
                           struct stream *of_grad, size_t next)
{
    const struct streambp_options *options = step->options;
    struct model *model = step->model;
    struct tensor x = of_x->whole, grad = of_grad->whole;
    struct span all = {0, step->batch->context};
    struct chunks chunks = chunks_of(step->batch->context, options->chunk);
    size_t B = step->batch->batch;
    struct activations row = layer_cell(attention, all, B, OUTPUT_WRITTEN);
    struct carry kv = carry_new(model, l, PLACE_DEVICE, carry_size_of(step->batch, all.count, all.count));
    unit_acquire(model, unit_of_layer(l));
    project(step, l, of_x, kv, all.count);
    kv = carry_gather_take(model, step->batch, l, kv);
    cell_mix_forward(model, step->batch, l, x, kv, &row, options->keep);
    size_t cols = config_mixer(&model->config, l)->outputs(model, l).cols[0];
    struct tensor grad_o = tensor_new(model->device, x.rows, cols, x.dtype, CATEGORY_WORKSPACE);
    for (size_t c = chunks.count; c-- > 0;) {
        struct span chunk = chunk_span(chunks, c);
        struct activations output = cell_output_part(model, l, &row, chunk, B);
        cell_output_forward(model, step->batch, l, chunk, chunk_rows(x, chunk, B), &output, options->keep);
        unit_prefetch(model, next);
        cell_output_backward(model, step->batch, l, chunk, &output, chunk_rows(grad_o, chunk, B),
                             chunk_rows(grad, chunk, B));
    }
    struct carry grad_kv = carry_gradients_new(model, step->batch, l, all.count);
    cell_mix_backward(model, step->batch, l, &row, kv, carry_segment_of(grad_kv, all), grad_o, grad);
    tensor_free(model->device, &grad_o);
    carry_free(model, &kv);
    if (carry_gradients_sum(model, step->batch, l, &grad_kv))
        kv_project_backward(model, step->batch, l, all, x, grad_kv, grad);
    unit_release(model, unit_of_layer(l));
    carry_free(model, &grad_kv);
}

// Ranks that communicate within a layer's cells run its mixer over all of their tokens.
static void backward_layer(struct step *step, size_t l, struct stream *x, struct kept_outputs attention,
                           struct stream *grad, size_t next)
{
    bool whole = cell_is_whole(step->model, l);
    if (whole && !x->whole.data) // requests with ranks are refused earlier (harness/step/ranks_possible.h)
        status_set(&step->model->device->status, STATUS_UNSUPPORTED, "layers on the host come by chunks");
    else
        (whole ? backward_whole : backward)(step, l, x, attention, grad, next);
}

static void run(struct step *step)
{
    const struct streambp_options *options = step->options;
    struct layer_schedule schedule = {.chunk = options->chunk,
                                      .head_chunk = options->head_chunk,
                                      .kept = options->offload & OFFLOAD_INPUTS ? PLACE_HOST : PLACE_DEVICE,
                                      .attention = options->attention,
                                      .segments = &options->segments,
                                      .backward = backward_layer};
    if (options->offload & OFFLOAD_INPUTS)
        layer_stream_run(step, &schedule, options->offload & OFFLOAD_INPUT_GRADIENTS);
    else
        layer_schedule_run(step, &schedule);
}

static bool check(const void *of_method, const struct config *config, size_t context, struct status *status)
{
    const struct streambp_options *options = of_method;
    (void)context;
    if (options->offload & OFFLOAD_INPUT_GRADIENTS && !(options->offload & OFFLOAD_INPUTS))
        return status_set(status, STATUS_BAD_INPUT, "offload=input_gradients requires inputs; add inputs");
    if (options->offload & OFFLOAD_INPUTS && options->attention == LAYER_ATTENTION_KEPT)
        return status_set(status, STATUS_BAD_INPUT,
                          "attention=kept cannot be combined with offload=inputs; drop one, or use checkpoint");
    return segments_check(&options->segments, config->layers, status);
}

static double lower_bound_bytes(const struct model *model, const void *of_method, size_t context)
{
    const struct streambp_options *options = of_method;
    double row = options->offload & OFFLOAD_INPUTS
                     ? layer_stream_kept(model, options->offload & OFFLOAD_INPUT_GRADIENTS)
                     : layer_schedule_kept(model, &options->segments, options->attention);
    double whole = INFINITY; // of the layer with the least: q and the gradient of o, and what is not kept already
    for (size_t l = 0; l < model->config.layers; l++) {
        struct pair_shape shape = config_mixer(&model->config, l)->outputs(model, l);
        double wide = 2 * (double)shape.cols[0] * dtype_bytes(shape.dtype[0]);
        double outputs = options->attention == LAYER_ATTENTION_KEPT ? 0 : cost_outputs(model, l);
        whole = fmin(whole, cell_is_whole(model, l) ? wide + outputs : 0);
    }
    return row + cost_choices(model) + whole + cost_layer_carry(model, options->chunk, context);
}

const struct method method_streambp = {
    .name = "streambp",
    .summary = "keep each layer's input, recompute a layer chunk by chunk from the right",
    .source = "Luo et al. 2025, arXiv 2506.03077",
    .options = {option_rows, sizeof(struct streambp_options)},
    .exact = true,
    .by_layer = true,
    .parallel = PARALLEL_DATA | PARALLEL_SEQUENCE,
    .check = check,
    .run = run,
    .lower_bound_bytes_per_token = lower_bound_bytes,
};
