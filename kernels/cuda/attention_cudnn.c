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
// Few shapes come up: with start and queries multiples of a chunk, those of a few remainders of the keys.
#define _GNU_SOURCE // tdestroy
#include "kernels/cuda/attention_cudnn.h"
#include "kernels/cuda/attention_blocks.h"
#include "kernels/cuda/attention_graph.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/workspace.h"
#include <float.h>
#include <math.h>
#include <search.h>
#include <string.h>

#define CUDNN_LEAST 91200

struct attention_cudnn {
    struct attention_graph_target target;
    cudaStream_t stream;
    void *graphs; // a tree (tsearch) of struct attention_graph
    struct attention_cudnn_totals totals;
};

static int compare(const void *a, const void *b)
{
    return memcmp(&((const struct attention_graph *)a)->shape, &((const struct attention_graph *)b)->shape,
                  sizeof(struct attention_graph_shape));
}

static void graph_free(void *graph)
{
    attention_graph_free(graph);
}

// The graph of that shape, built when it is first asked for. NULL and a status if there is no engine for it.
static struct attention_graph *graph_for(struct attention_cudnn *attention, struct attention_graph_shape shape,
                                         int64_t most, struct status *status)
{
    const struct attention_graph wanted = {.shape = shape};
    void *found = tfind(&wanted, &attention->graphs, compare);
    if (found) {
        return *(struct attention_graph **)found;
    }
    struct attention_graph *graph = attention_graph_build(shape, &attention->target, most, status);
    if (!graph) {
        return NULL;
    }
    CHECK(tsearch(graph, &attention->graphs, compare));
    struct attention_cudnn_totals *totals = &attention->totals;
    totals->graphs++;
    totals->backward_graphs += shape.backward != 0;
    if ((size_t)graph->engine_bytes > totals->engine_bytes) {
        totals->engine_bytes = (size_t)graph->engine_bytes;
    }
    return graph;
}

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
    bool done =
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids) ==
            CUDNN_STATUS_SUCCESS &&
        cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
                                 pointers) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &engine) ==
            CUDNN_STATUS_SUCCESS &&
        cudnnBackendFinalize(pack) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendExecute(attention->target.handle, graph->plan, pack) == CUDNN_STATUS_SUCCESS;
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
                             struct status *status)
{
    struct attention_graph *graph = graph_for(attention, forward_shape(shape), 0, status);
    struct binding binding = {
        .tensors = {[Q] = q.data, [K] = k.data, [V] = v.data, [O] = o.data, [STATS] = logsumexp.data}};
    return graph && run(attention, graph, &binding, NULL, status);
}

// One run of the backward: a block of queries against a block of keys; `start`s count from the operands' first
// rows.
struct block {
    size_t query, queries, key, keys;
    bool causal, first, last; // of the keys of these queries
};

// Keys of the causal block, of the `seen` ones that the last of these queries sees.
static size_t causal_keys(size_t queries, size_t seen)
{
    return seen <= CUDA_ATTENTION_KEYS ? seen : queries + (seen - queries) % CUDA_ATTENTION_TILE;
}

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
        b->queries = left < CUDA_ATTENTION_QUERIES ? left : CUDA_ATTENTION_QUERIES;
        b->key = 0;
    }
    size_t seen = s.start + b->query + b->queries, causal = causal_keys(b->queries, seen);
    size_t rectangles = seen - causal - b->key; // keys that are left for them
    b->last = b->causal = rectangles == 0;
    if (b->causal) {
        b->keys = causal;
    } else {
        b->keys = rectangles % CUDA_ATTENTION_KEYS ? rectangles % CUDA_ATTENTION_KEYS : CUDA_ATTENTION_KEYS;
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
        struct attention_graph *graph = graph_for(attention, block_shape(s, &b), (int64_t)w.engine_bytes, status);
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
        if (!run(attention, graph, &binding, (char *)workspace.data + w.engine, status)) {
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

bool attention_cudnn_prepare(struct attention_cudnn *attention, struct attention_shape s, struct status *status)
{
    int64_t most = (int64_t)cuda_attention_layout(s).engine_bytes;
    bool done = graph_for(attention, forward_shape(s), 0, status);
    for (struct block b = {0}; done && next_block(s, &b);) {
        done = graph_for(attention, block_shape(s, &b), most, status);
    }
    return done;
}

struct attention_cudnn_totals attention_cudnn_totals(const struct attention_cudnn *attention)
{
    return attention->totals;
}

// ---- opening

struct attention_cudnn *attention_cudnn_open(cudaStream_t stream, struct status *status)
{
    struct attention_cudnn *attention = calloc(1, sizeof *attention);
    CHECK(attention);
    attention->stream = stream;
    if (cudnnGetVersion() < CUDNN_LEAST) {
        status_set(status, STATUS_UNSUPPORTED,
                   "device cuda needs cuDNN 9.12 or later, which writes the logsumexp where it should; found %zu",
                   cudnnGetVersion());
        attention_cudnn_close(attention);
        return NULL;
    }
    cudnnStatus_t created = cudnnCreate(&attention->target.handle);
    if (created == CUDNN_STATUS_SUCCESS) {
        created = cudnnSetStream(attention->target.handle, stream);
    }
    if (created != CUDNN_STATUS_SUCCESS) {
        status_set(status, STATUS_UNSUPPORTED, "device cuda cannot use cuDNN: %s (error %d)",
                   cudnnGetErrorString(created), (int)created);
        attention_cudnn_close(attention);
        return NULL;
    }
    return attention;
}

struct attention_cudnn *attention_cudnn_open_described(const char *properties, struct status *status)
{
    struct attention_cudnn *attention = calloc(1, sizeof *attention);
    CHECK(attention);
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &attention->target.properties) !=
            CUDNN_STATUS_SUCCESS ||
        cudnnBackendSetAttribute(attention->target.properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                 CUDNN_TYPE_CHAR, (int64_t)strlen(properties),
                                 properties) != CUDNN_STATUS_SUCCESS ||
        cudnnBackendFinalize(attention->target.properties) != CUDNN_STATUS_SUCCESS) {
        status_set(status, STATUS_UNSUPPORTED, "cuDNN does not take these device properties");
        attention_cudnn_close(attention);
        return NULL;
    }
    return attention;
}

void attention_cudnn_close(struct attention_cudnn *attention)
{
    if (!attention) {
        return;
    }
    tdestroy(attention->graphs, graph_free);
    if (attention->target.properties) {
        cudnnBackendDestroyDescriptor(attention->target.properties);
    }
    if (attention->target.handle) {
        cudnnDestroy(attention->target.handle);
    }
    free(attention);
}

size_t attention_cudnn_library_version(void)
{
    return cudnnGetVersion();
}
