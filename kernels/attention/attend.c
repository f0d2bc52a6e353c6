#include "kernels/attention/attend.h"
#include "kernels/attention/all_to_all.h"
#include "kernels/attention/attention_shape.h"
#include "kernels/attention/ring.h"

// How ranks that share the tokens attend; EXCHANGE_GATHER, for itself, also where none do.
static enum exchange exchange_of(const struct model *model, const struct batch *batch)
{
    return batch_is_shared(batch) ? model->ranks.exchange : EXCHANGE_GATHER;
}

bool attend_sends(enum exchange exchange)
{
    return exchange != EXCHANGE_GATHER;
}

// Each run of the chunk's queries over the keys up to its end.
void attend(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
            const struct kept *kept, struct tensor q, struct carry kv)
{
    enum exchange exchange = exchange_of(model, batch);
    if (exchange != EXCHANGE_GATHER) {
        CHECK(chunk.count == batch->context);
        (exchange == EXCHANGE_RING ? ring_attend : all_to_all_attend)(model, batch, layer, kept, q, kv);
        return;
    }
    struct token_run runs[PIECES];
    size_t count = pieces_runs(&batch->pieces, chunk, runs);
    for (size_t i = 0; i < count; i++) {
        size_t B = q.rows / chunk.count, row = (runs[i].first - chunk.start) * B, rows = runs[i].count * B;
        op_attention_forward(model->device, attention_shape_of(&model->config, batch, layer, runs[i], B),
                             tensor_rows(kept->own[ATTENTION_O], row, rows),
                             tensor_rows(kept->own[ATTENTION_LOGSUMEXP], row, rows), tensor_rows(q, row, rows),
                             kv.k, kv.v);
    }
}

// The segment as far as the keys before `end` go.
static struct key_segment segment_before(struct key_segment segment, size_t end, size_t B)
{
    size_t count = end > segment.start ? end - segment.start : 0;
    segment.count = segment.count < count ? segment.count : count;
    segment.grad_k = tensor_rows(segment.grad_k, 0, segment.count * B);
    segment.grad_v = tensor_rows(segment.grad_v, 0, segment.count * B);
    return segment;
}

// The name has the layer, the micro-batch and the replica: no two sums share random bits.
static struct key_rounding rounding_of(const struct model *model, size_t layer)
{
    struct key_rounding rounding = {.stochastic = model->kv_gradient_stochastic};
    const struct ranks *ranks = &model->ranks;
    for (int value = 0; rounding.stochastic && value < 2; value++) {
        char name[160];
        snprintf(name, sizeof name, "grad_%c of layer %zu, update %zu, walk %zu, replica %zu", value ? 'v' : 'k',
                 layer, model->update, model->micro_batch, ranks->replicas.size > 1 ? ranks->replicas.rank : 0);
        *(value ? &rounding.grad_v : &rounding.grad_k) = random_named(model->seed, name);
    }
    return rounding;
}

static struct key_segment *rounded_segments(const struct model *model, size_t layer,
                                            const struct carry_segment *segments, size_t count)
{
    struct key_segment *rounded = malloc(count * sizeof *rounded);
    struct key_rounding rounding = rounding_of(model, layer);
    CHECK(rounded);
    for (size_t i = 0; i < count; i++) {
        const struct carry_segment *segment = &segments[i];
        rounded[i] =
            (struct key_segment){segment->start, segment->count, segment->grad.k, segment->grad.v, rounding};
    }
    return rounded;
}

void attend_backward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                     const struct kept *kept, struct tensor q, struct carry kv,
                     const struct carry_segment *segments, size_t segment_count, struct tensor grad_q)
{
    enum exchange exchange = exchange_of(model, batch);
    if (exchange != EXCHANGE_GATHER) {
        CHECK(chunk.count == batch->context && segment_count == 1);
        (exchange == EXCHANGE_RING ? ring_attend_backward : all_to_all_attend_backward)(
            model, batch, layer, kept, q, kv, segments->grad, grad_q);
        return;
    }
    struct token_run runs[PIECES];
    struct key_segment *rounded = rounded_segments(model, layer, segments, segment_count);
    size_t count = pieces_runs(&batch->pieces, chunk, runs);
    for (size_t i = count; i-- > 0;) {
        size_t B = q.rows / chunk.count, row = (runs[i].first - chunk.start) * B, rows = runs[i].count * B;
        struct tensor of_run = tensor_rows(grad_q, row, rows); // in place
        struct key_segment alone = segment_before(rounded[0], runs[i].start + runs[i].count, B);
        op_attention_backward(model->device, attention_shape_of(&model->config, batch, layer, runs[i], B), of_run,
                              false, segment_count == 1 ? &alone : rounded, segment_count, of_run,
                              tensor_rows(kept->own[ATTENTION_O], row, rows),
                              tensor_rows(kept->own[ATTENTION_LOGSUMEXP], row, rows), tensor_rows(q, row, rows),
                              kv.k, kv.v);
    }
    free(rounded);
}
