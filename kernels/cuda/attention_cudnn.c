// Attention by cuDNN, a graph per shape; none of the intermediate [heads, queries, keys] is ever stored.
//
// Forward: one graph, queries against all keys, bottom-right causal: query i sees keys 0 .. keys - queries + i.
// O = softmax(S) V, with the logsumexp as second output.
//
// Backward: queries in blocks of CUDA_ATTENTION_QUERIES; per block the keys that its last query sees, in blocks of
// at most CUDA_ATTENTION_KEYS: the last one is bottom-right causal, all others are rectangles without a mask. The
// saved logsumexp is over all keys, so P = exp(S - logsumexp) of a block of keys is exact on its own, and so is
// delta = rowsum(dO * O). Each block's dQ, dK and dV come out in bf16, are added in f32:
//     dQ sum += dQ block;    grad_k[keys of a segment] += dK block[those rows], likewise grad_v
// and dQ sum is rounded once, at the end. Keys outside every segment: their dK and dV are computed, for cuDNN has
// no engine without them, and dropped; they cost time (10/6 of what dQ alone would), no memory.
//
// Rectangles have a whole number of tiles of keys, and what remains is the causal block's, whose mask hides what
// lies behind the last key. For cuDNN before 9.26 reads beyond a rectangle's last key on sm_90 and makes NaN of it
// where a logsumexp is below -88 (cudnn-frontend, pull request 628), and takes the backward's logsumexp as packed
// on sm_80 whatever its strides say (pull request 304); the forward writes it as its strides say since 9.12 (pull
// request 1023).
//
// Compiling an engine for a shape takes cuDNN a second. All forwards of the same heads share what was compiled for
// one of them. Backwards cannot; of them few shapes come up: rectangles are cut to CUDA_ATTENTION_TILE times a
// power of two, and causal blocks are square where queries and their start are whole tiles. And all devices of a
// process share them.
#include "kernels/cuda/attention_cudnn.h"
#include "kernels/base/observer.h"
#include "kernels/cuda/attention_blocks.h"
#include "kernels/cuda/attention_engines.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/workspace.h"
#include <float.h>
#include <math.h>
#include <string.h>

struct attention_cudnn {
    struct attention_engines *engines;
    struct device *device;
    cudaStream_t stream;
};

// ---- running a graph

// Pointers by identifier; NULL: not in this graph.
struct binding {
    void *tensors[BOUND];
};

static bool run(struct attention_cudnn *attention, struct attention_graph *graph, const struct binding *binding,
                void *engine, struct status *status)
{
    float scale = (float)(1 / sqrt((double)graph->shape.head_dim)), one = 1, masked = -FLT_MAX;
    int32_t keys = (int32_t)graph->shape.keys, queries = (int32_t)graph->shape.queries;
    int64_t ids[BOUND + 5], count = 0;
    void *pointers[BOUND + 5];
    for (int64_t id = 0; id < BOUND; id++) {
        if (binding->tensors[id]) {
            ids[count] = id;
            pointers[count++] = binding->tensors[id];
        }
    }
    const struct {
        int64_t id;
        void *value;
        bool used;
    } scalars[] = {{SCALE, &scale, true},
                   {ONE, &one, graph->shape.backward},
                   {MASKED, &masked, graph->shape.causal},
                   {KEYS, &keys, graph->shape.causal},
                   {QUERIES, &queries, graph->shape.causal}};
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++) {
        if (scalars[i].used) {
            ids[count] = scalars[i].id;
            pointers[count++] = scalars[i].value;
        }
    }
    cudnnBackendDescriptor_t pack = NULL;
    cudnnHandle_t handle = attention_engines_handle(attention->engines, attention->stream);
    bool done =
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids) ==
            CUDNN_STATUS_SUCCESS &&
        cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
                                 pointers) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &engine) ==
            CUDNN_STATUS_SUCCESS &&
        cudnnBackendFinalize(pack) == CUDNN_STATUS_SUCCESS && handle &&
        cudnnBackendExecute(handle, graph->plan, pack) == CUDNN_STATUS_SUCCESS;
    if (!done) {
        char detail[512] = "";
        cudnnGetLastErrorString(detail, sizeof detail);
        status_set(status, STATUS_FAILED, "cuDNN could not run attention: %s", detail);
    }
    if (pack) {
        cudnnBackendDestroyDescriptor(pack);
    }
    return done;
}

// ---- the operations

static struct attention_graph_shape forward_shape(struct attention_shape s)
{
    return (struct attention_graph_shape){.causal = true,
                                          .queries = (int64_t)s.queries,
                                          .keys = (int64_t)(s.start + s.queries),
                                          .batch = (int64_t)s.batch,
                                          .heads = (int64_t)s.heads,
                                          .kv_heads = (int64_t)s.kv_heads,
                                          .head_dim = (int64_t)s.head_dim};
}

bool attention_cudnn_forward(struct attention_cudnn *attention, struct attention_shape shape, struct tensor o,
                             struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v,
                             void *workspace, struct status *status)
{
    struct attention_graph *graph =
        attention_engines_graph(attention->engines, forward_shape(shape), CUDA_WORKSPACE_BYTES, status);
    struct binding binding = {
        .tensors = {[Q] = q.data, [K] = k.data, [V] = v.data, [O] = o.data, [STATS] = logsumexp.data}};
    return graph && run(attention, graph, &binding, workspace, status);
}

_Static_assert((CUDA_ATTENTION_KEYS / CUDA_ATTENTION_TILE & (CUDA_ATTENTION_KEYS / CUDA_ATTENTION_TILE - 1)) == 0 &&
                   CUDA_ATTENTION_QUERIES + CUDA_ATTENTION_TILE <= CUDA_ATTENTION_KEYS,
               "rectangles are a power of two of tiles, and a causal block is no larger than one");

// One run of the backward: a block of queries against a block of keys; `start`s count from the operands' first
// rows.
struct block {
    size_t query, queries, key, keys;
    bool causal, first, last; // of the keys of these queries
};

// The next block in order, from the last one; false after all. An empty block comes before the first.
static bool next_block(struct attention_shape s, struct block *b)
{
    b->first = b->queries == 0 || b->last;
    b->key += b->keys;
    if (b->first) {
        b->query += b->queries;
        if (b->query == s.queries) {
            return false;
        }
        size_t left = s.queries - b->query;
        b->queries = left < CUDA_ATTENTION_QUERIES        ? left
                     : left == CUDA_ATTENTION_QUERIES + 1 ? left / 2 // no block of one query
                                                          : CUDA_ATTENTION_QUERIES;
        b->key = 0;
    }
    size_t before = s.start + b->query - b->key; // keys that are left of those that all queries see
    b->last = b->causal = before < CUDA_ATTENTION_TILE;
    if (b->causal) {
        b->keys = before + b->queries;
    } else {
        for (b->keys = CUDA_ATTENTION_KEYS; b->keys > before;) {
            b->keys /= 2;
        }
    }
    return true;
}

static struct attention_graph_shape block_shape(struct attention_shape s, const struct block *b)
{
    struct attention_graph_shape shape = forward_shape(s);
    shape.backward = true;
    shape.causal = b->causal;
    shape.queries = (int64_t)b->queries;
    shape.keys = (int64_t)b->keys;
    return shape;
}

// No more workspace than the block needs: its graph serves other shapes, too.
static struct attention_graph *block_graph(struct attention_engines *engines, struct attention_shape s,
                                           const struct block *b, struct status *status)
{
    return attention_engines_graph(engines, block_shape(s, b), cuda_attention_engine_bytes(s, b->queries, b->keys),
                                   status);
}

// grad_k and grad_v of the segments' rows within the block.
static void add_key_gradients(const struct attention_cudnn *attention, struct attention_shape s,
                              const struct key_segment *segments, size_t segment_count, const struct block *b,
                              struct tensor grad_k, struct tensor grad_v)
{
    for (size_t i = 0; i < segment_count; i++) {
        const struct key_segment *segment = &segments[i];
        size_t first = segment->start > b->key ? segment->start : b->key;
        size_t end = segment->start + segment->count;
        end = end < b->key + b->keys ? end : b->key + b->keys;
        if (first >= end) {
            continue;
        }
        size_t to = (first - segment->start) * s.batch, from = (first - b->key) * s.batch;
        size_t rows = (end - first) * s.batch;
        cuda_accumulate(tensor_rows(segment->grad_k, to, rows), tensor_rows(grad_k, from, rows), attention->stream);
        cuda_accumulate(tensor_rows(segment->grad_v, to, rows), tensor_rows(grad_v, from, rows), attention->stream);
    }
}

static struct tensor part(struct tensor workspace, size_t offset, enum dtype dtype, size_t rows, size_t cols)
{
    return (struct tensor){(char *)workspace.data + offset, dtype, CATEGORY_WORKSPACE, rows, cols};
}

bool attention_cudnn_backward(struct attention_cudnn *attention, struct attention_shape s, struct tensor grad_q,
                              const struct key_segment *segments, size_t segment_count, struct tensor grad_o,
                              struct tensor o, struct tensor logsumexp, struct tensor q, struct tensor k,
                              struct tensor v, struct tensor workspace, struct status *status)
{
    struct cuda_attention_workspace w = cuda_attention_layout(s);
    CHECK(w.bytes <= tensor_bytes(workspace));
    size_t B = s.batch;
    // An engine that reads on to the end of its tile finds numbers there.
    CUDA_CHECK(cudaMemsetAsync((char *)workspace.data + w.logsumexp + w.logsumexp_bytes, 0,
                               CUDA_ATTENTION_TILE * sizeof(float), attention->stream));
    for (struct block b = {0}; next_block(s, &b);) {
        struct attention_graph *graph = block_graph(attention->engines, s, &b, status);
        if (!graph) {
            return false;
        }
        struct tensor sum = part(workspace, w.grad_q_sum, DTYPE_F32, b.queries * B, q.cols);
        struct tensor block_q = part(workspace, w.grad_q, DTYPE_BF16, b.queries * B, q.cols);
        struct tensor block_k = part(workspace, w.grad_k, DTYPE_BF16, b.keys * B, k.cols);
        struct tensor block_v = part(workspace, w.grad_v, DTYPE_BF16, b.keys * B, k.cols);
        struct tensor accumulator = part(workspace, w.accumulator, DTYPE_F32, b.queries * B, q.cols);
        struct tensor stats = part(workspace, w.logsumexp, DTYPE_F32, B * s.heads, b.queries);
        size_t row = b.query * B, rows = b.queries * B;
        struct binding binding = {.tensors = {[Q] = tensor_rows(q, row, rows).data,
                                              [K] = tensor_rows(k, b.key * B, b.keys * B).data,
                                              [V] = tensor_rows(v, b.key * B, b.keys * B).data,
                                              [O] = tensor_rows(o, row, rows).data,
                                              [STATS] = stats.data,
                                              [GRAD_O] = tensor_rows(grad_o, row, rows).data,
                                              [GRAD_Q] = block_q.data,
                                              [GRAD_K] = block_k.data,
                                              [GRAD_V] = block_v.data,
                                              [DELTA] = (char *)workspace.data + w.delta,
                                              [ACCUMULATOR] = accumulator.data}};
        // The engines add to the accumulator, from many blocks at once.
        CUDA_CHECK(cudaMemsetAsync(accumulator.data, 0, tensor_bytes(accumulator), attention->stream));
        if (b.first) {
            struct tensor rows_of = tensor_rows(tensor_reshape(logsumexp, q.rows, s.heads), row, rows);
            cuda_transpose(stats, tensor_reshape(rows_of, b.queries, B * s.heads), attention->stream);
            CUDA_CHECK(cudaMemsetAsync(sum.data, 0, tensor_bytes(sum), attention->stream));
        }
        range_push(
            attention->device,
            (struct range){.level = RANGE_PART, .work = WORK_ATTENTION_BACKWARD, .name = "attention_backward"});
        bool ran = run(attention, graph, &binding, (char *)workspace.data + w.engine, status);
        range_pop(attention->device);
        if (!ran) {
            return false;
        }
        cuda_accumulate(sum, block_q, attention->stream);
        add_key_gradients(attention, s, segments, segment_count, &b, block_k, block_v);
        if (b.last) { // these rows of grad_o, which grad_q may be, are spent
            cuda_copy(tensor_rows(grad_q, row, rows), sum, attention->stream);
        }
    }
    return true;
}

bool attention_cudnn_build(struct attention_engines *engines, struct attention_shape s, struct status *status)
{
    bool done = attention_engines_graph(engines, forward_shape(s), CUDA_WORKSPACE_BYTES, status);
    for (struct block b = {0}; done && next_block(s, &b);) {
        done = block_graph(engines, s, &b, status);
    }
    return done;
}

// ---- opening

struct attention_cudnn *attention_cudnn_open(struct device *device, cudaStream_t stream, struct status *status)
{
    struct attention_engines *engines = attention_engines_of_card(status);
    if (!engines) {
        return NULL;
    }
    struct attention_cudnn *attention = calloc(1, sizeof *attention);
    CHECK(attention);
    attention->engines = engines;
    attention->device = device;
    attention->stream = stream;
    return attention;
}

void attention_cudnn_close(struct attention_cudnn *attention)
{
    free(attention);
}

size_t attention_cudnn_library_version(void)
{
    return cudnnGetVersion();
}
