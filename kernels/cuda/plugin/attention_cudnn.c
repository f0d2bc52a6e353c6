// Attention by cuDNN, a graph per shape; none of the intermediate [heads, queries, keys] is ever stored.
//
// Forward: one graph, queries against all keys, bottom-right causal, where query i sees keys 0 .. keys - queries +
// i, or without a mask. O = softmax(S) V, with the logsumexp as second output.
//
// Backward: queries in blocks (cuda_attention_block_queries); per block the keys that its last query sees, in
// blocks: rectangles without a mask, of at most CUDA_ATTENTION_KEYS, and last a bottom-right causal one, or what
// the last whole tile leaves of keys that all queries see (cuda_attention_next_block). The saved logsumexp is over
// all keys, so P = exp(S - logsumexp) of a block of keys is exact on its own, and so is delta = rowsum(dO * O).
// Each block's dQ, dK and dV come out in bf16, are added in f32:
//     dQ sum += dQ block;    grad_k[keys of a segment] += dK block[those rows], likewise grad_v
// and dQ sum is rounded once, at the end. Keys outside every segment: their dK and dV are computed, for cuDNN has
// no engine without them, and dropped; they cost time (10/6 of what dQ alone would), no memory.
//
// A deterministic backward's graph has no accumulator of dQ, which many blocks of threads add to in no order: an
// engine then keeps dS of the block in its workspace, and multiplies it by K in a kernel of its own (cudnn-frontend
// asks for it like this on sm_90, where it calls it deterministic). Its blocks have no more keys than
// CUDA_ATTENTION_QUERIES, so that dS is of bounded size. An engine whose notes say that it is nondeterministic is
// passed over; cuDNN 9.19 says so of none, not of those with an accumulator either. Where there is no other, and on
// other cards, our own kernels serve.
//
// Where query heads share key heads, cuDNN writes dK and dV of every query head and then adds them up. In a
// rectangle, where no row differs from another, the heads that share one are rows of it instead: q, o, dO and the
// logsumexp are folded once for all rectangles of a block of queries, and dQ sum is unfolded when it is rounded. A
// causal block's rows have different masks: its heads stay heads, and it comes last, when the folded copies are
// spent and their memory is free.
//
// A backward's rectangles have a whole number of tiles of keys, and what remains is the causal block's, whose mask
// hides what lies after the last key, or our own kernels'. For cuDNN before 9.26 reads beyond a rectangle's last
// key on sm_90 and makes NaN of it where a logsumexp is below -88 (cudnn-frontend, pull request 628), and takes the
// backward's logsumexp as packed on sm_80 whatever its strides say (pull request 304); the forward writes it as its
// strides say since 9.12 (pull request 1023). The accumulator of dQ it clears by itself since 9.6: cudnn-frontend
// does before that, in collect_tensors_in_workspace_node of node/scaled_dot_product_flash_attention.h.
//
// Compiling an engine for a shape takes cuDNN time: a forward's some 0.05 s beside an H200. A forward's shapes are
// as many as there are chunks, which a first step waits for. They could share what was compiled for one of them (a
// cache of kernels for graphs of dynamic shape), but do not: cuDNN 9.19 on an H200 then ran all of them with the
// sizes of the first, without an error. Of backwards few shapes come up: rectangles are cut to CUDA_ATTENTION_TILE
// times a power of two, and causal blocks are square where queries and their start are whole tiles. And all devices
// of a process on one card share them.
#include "kernels/cuda/plugin/attention_cudnn.h"
#include "kernels/base/observer.h"
#include "kernels/cuda/plugin/attention_blocks.h"
#include "kernels/cuda/plugin/attention_engines.h"
#include "kernels/cuda/plugin/backend.h"
#include "kernels/cuda/plugin/check.h"
#include "kernels/cuda/workspace.h"
#include <float.h>
#include <math.h>
#include <string.h>

// ---- running a graph

// Pointers by identifier; NULL: not in this graph.
struct binding {
    void *tensors[BOUND];
};

static bool run(struct device *device, struct attention_graph *graph, const struct binding *binding, void *engine)
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
    cudnnHandle_t handle = attention_engines_handle(backend(device)->engines, cuda_stream(device));
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
        status_set(&device->status, STATUS_FAILED, "cuDNN could not run attention: %s", detail);
    }
    if (pack) {
        cudnnBackendDestroyDescriptor(pack);
    }
    return done;
}

// ---- the operations

static struct attention_graph_shape forward_shape(struct attention_shape s)
{
    return (struct attention_graph_shape){.causal = attention_is_causal(s),
                                          .queries = (int64_t)s.queries,
                                          .keys = (int64_t)attention_keys(s),
                                          .batch = (int64_t)s.batch,
                                          .heads = (int64_t)s.heads,
                                          .kv_heads = (int64_t)s.kv_heads,
                                          .head_dim = (int64_t)s.head_dim};
}

void attention_cudnn_forward(struct device *device, struct attention_shape shape, struct tensor o,
                             struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v)
{
    struct attention_graph *graph = attention_engines_graph(backend(device)->engines, forward_shape(shape),
                                                            CUDA_WORKSPACE_BYTES, &device->status);
    struct binding binding = {
        .tensors = {[Q] = q.data, [K] = k.data, [V] = v.data, [O] = o.data, [STATS] = logsumexp.data}};
    if (graph) {
        run(device, graph, &binding, cuda_workspace(device, cuda_stream(device)));
    }
}

// ---- the backward's blocks

struct backward {
    struct attention_shape shape;
    const struct key_segment *segments;
    size_t segment_count;
    struct tensor grad_q, grad_o, o, logsumexp, q, k, v, workspace;
    bool accumulate;                    // into grad_q
    struct cuda_attention_workspace at; // offsets in the workspace
    struct device *device;
};

// Of one block: what its graph reads of the queries, what it writes, and the sum over the rectangles.
struct block_tensors {
    struct tensor q, o, grad_o, logsumexp, grad_q, grad_k, grad_v, grad_q_sum;
};

static struct attention_graph_shape block_graph_shape(struct attention_shape shape,
                                                      const struct cuda_attention_block *b)
{
    struct attention_graph_shape graph = forward_shape(cuda_attention_block_shape(shape, b));
    graph.backward = true;
    graph.deterministic = b->deterministic;
    return graph;
}

// No more workspace than the block needs: its graph serves other shapes, too.
static struct attention_graph *block_graph(struct attention_engines *engines, struct attention_shape shape,
                                           const struct cuda_attention_block *b, struct status *status)
{
    return attention_engines_graph(engines, block_graph_shape(shape, b), cuda_attention_engine_bytes(shape, b),
                                   status);
}

static struct tensor part(const struct backward *a, size_t offset, enum dtype dtype, size_t rows, size_t cols)
{
    return (struct tensor){.data = (char *)a->workspace.data + offset,
                           .dtype = dtype,
                           .category = CATEGORY_WORKSPACE,
                           .rows = rows,
                           .cols = cols};
}

static struct tensor rows_of(const struct backward *a, struct tensor queries, const struct cuda_attention_block *b)
{
    return tensor_rows(queries, b->query * a->shape.batch, b->queries * a->shape.batch);
}

static bool is_folded(const struct backward *a, const struct cuda_attention_block *b)
{
    return b->kind == ATTENTION_RECTANGLE && a->shape.heads > a->shape.kv_heads;
}

static struct block_tensors tensors_of(const struct backward *a, const struct cuda_attention_block *b)
{
    const struct cuda_attention_part *own = b->kind == ATTENTION_CAUSAL ? &a->at.causal : &a->at.rectangle;
    struct attention_shape s = cuda_attention_block_shape(a->shape, b);
    size_t rows = s.queries * s.batch, cols = s.heads * s.head_dim, keys = b->keys * s.batch;
    bool folded = is_folded(a, b);
    return (struct block_tensors){
        .q = folded ? part(a, a->at.q, DTYPE_BF16, rows, cols) : rows_of(a, a->q, b),
        .o = folded ? part(a, a->at.o, DTYPE_BF16, rows, cols) : rows_of(a, a->o, b),
        .grad_o = folded ? part(a, a->at.grad_o, DTYPE_BF16, rows, cols) : rows_of(a, a->grad_o, b),
        .logsumexp = part(a, a->at.logsumexp, DTYPE_F32, rows, s.heads),
        .grad_q = part(a, a->at.grad_q, DTYPE_BF16, rows, cols),
        .grad_k = part(a, own->grad_k, DTYPE_BF16, keys, a->k.cols),
        .grad_v = part(a, own->grad_v, DTYPE_BF16, keys, a->k.cols),
        .grad_q_sum = part(a, a->at.grad_q_sum, DTYPE_F32, rows, cols),
    };
}

// Makes what the graph of the block reads, once for all rectangles of the same queries.
static void prepare(const struct backward *a, const struct cuda_attention_block *b, const struct block_tensors *t)
{
    struct attention_shape s = a->shape;
    bool causal = b->kind == ATTENTION_CAUSAL;
    s.queries = b->queries;
    if (b->first && is_folded(a, b)) {
        cuda_fold(a->device, (struct tensor[]){t->q, t->o, t->grad_o},
                  (struct tensor[]){rows_of(a, a->q, b), rows_of(a, a->o, b), rows_of(a, a->grad_o, b)}, s);
    }
    if (b->first || (causal && s.heads > s.kv_heads)) {
        s.kv_heads = causal ? s.heads : s.kv_heads;
        cuda_fold_logsumexp(a->device, t->logsumexp, rows_of(a, a->logsumexp, b), s);
    }
}

// dK and dV go to the segments' rows within the block.
static void add_key_gradients(const struct backward *a, const struct cuda_attention_block *b,
                              const struct block_tensors *t)
{
    size_t batch = a->shape.batch;
    for (size_t i = 0; i < a->segment_count; i++) {
        const struct key_segment *segment = &a->segments[i];
        struct cuda_key_rows within = cuda_attention_rows_within(segment, b);
        if (within.count > 0) {
            size_t to = (within.first - segment->start) * batch, from = (within.first - b->key) * batch;
            size_t rows = within.count * batch;
            const struct tensor sums[2] = {tensor_rows(segment->grad_k, to, rows),
                                           tensor_rows(segment->grad_v, to, rows)};
            const struct tensor added[2] = {tensor_rows(t->grad_k, from, rows), tensor_rows(t->grad_v, from, rows)};
            const struct key_rounding *how = &segment->rounding;
            if (how->stochastic) {
                size_t query = a->shape.start + b->query;
                uint64_t first = (how->origin + within.first) * batch * key_rounding_groups(a->k.cols);
                cuda_accumulate_rounded(a->device, sums, added,
                                        (struct bf16_rounding[2]){key_rounding_of(how, how->grad_k, query, first),
                                                                  key_rounding_of(how, how->grad_v, query, first)});
            } else {
                cuda_accumulate_each(a->device, sums, added, 2);
            }
        }
    }
}

static void add_query_gradients(const struct backward *a, const struct cuda_attention_block *b,
                                const struct block_tensors *t)
{
    struct attention_shape s = a->shape;
    s.queries = b->queries;
    struct tensor grad_q = rows_of(a, a->grad_q, b); // of grad_o, which grad_q may be, these rows are spent at last
    bool rectangle = b->kind == ATTENTION_RECTANGLE;
    if (rectangle && b->first) {
        cuda_copy(a->device, t->grad_q_sum, t->grad_q);
    } else if (rectangle) {
        cuda_accumulate_each(a->device, &t->grad_q_sum, &t->grad_q, 1);
    }
    if (rectangle && !b->last) {
        return;
    }
    if (rectangle || !b->first) {
        cuda_unfold(a->device, grad_q, a->accumulate, t->grad_q_sum, rectangle ? tensor_none() : t->grad_q, s);
    } else if (a->accumulate) {
        cuda_accumulate(a->device, grad_q, t->grad_q);
    } else {
        cuda_copy(a->device, grad_q, t->grad_q);
    }
}

static void range_of_block(struct device *device)
{
    range_push(device,
               (struct range){.level = RANGE_PART, .work = WORK_ATTENTION_BACKWARD, .name = "attention_backward"});
}

static bool run_graph(const struct backward *a, const struct cuda_attention_block *b, const struct block_tensors *t)
{
    struct device *device = a->device;
    struct attention_graph *graph = block_graph(backend(device)->engines, a->shape, b, &device->status);
    if (!graph) {
        return false;
    }
    size_t key = b->key * a->shape.batch, keys = b->keys * a->shape.batch;
    char *workspace = a->workspace.data;
    struct binding binding = {.tensors = {[Q] = t->q.data,
                                          [K] = tensor_rows(a->k, key, keys).data,
                                          [V] = tensor_rows(a->v, key, keys).data,
                                          [O] = t->o.data,
                                          [STATS] = t->logsumexp.data,
                                          [GRAD_O] = t->grad_o.data,
                                          [GRAD_Q] = t->grad_q.data,
                                          [GRAD_K] = t->grad_k.data,
                                          [GRAD_V] = t->grad_v.data,
                                          [DELTA] = workspace + a->at.delta,
                                          [ACCUMULATOR] = b->deterministic ? NULL : workspace + a->at.accumulator}};
    size_t engine = b->kind == ATTENTION_CAUSAL ? a->at.causal.engine : a->at.rectangle.engine;
    prepare(a, b, t);
    range_of_block(device);
    bool ran = run(device, graph, &binding, workspace + engine);
    range_pop(device);
    if (ran) {
        add_key_gradients(a, b, t);
    }
    return ran;
}

// What the last whole tile leaves, by our own kernels, which add dK and dV to the segments themselves.
static bool run_rest(const struct backward *a, const struct cuda_attention_block *b, const struct block_tensors *t)
{
    struct key_segment *segments = calloc(a->segment_count + 1, sizeof *segments);
    size_t count = 0, batch = a->shape.batch, key = b->key * batch, keys = b->keys * batch;
    CHECK(segments);
    for (size_t i = 0; i < a->segment_count; i++) {
        const struct key_segment *from = &a->segments[i];
        struct cuda_key_rows within = cuda_attention_rows_within(from, b);
        size_t row = (within.first - from->start) * batch, rows = within.count * batch;
        if (rows > 0) {
            struct key_rounding rounding = from->rounding;
            rounding.origin += b->key;
            segments[count++] =
                (struct key_segment){within.first - b->key, within.count, tensor_rows(from->grad_k, row, rows),
                                     tensor_rows(from->grad_v, row, rows), rounding};
        }
    }
    range_of_block(a->device);
    attention_own_backward(a->device, cuda_attention_block_shape(a->shape, b), t->grad_q, false, segments, count,
                           t->grad_o, t->o, rows_of(a, a->logsumexp, b), t->q, tensor_rows(a->k, key, keys),
                           tensor_rows(a->v, key, keys), tensor_none());
    range_pop(a->device);
    free(segments);
    return a->device->status.code == STATUS_OK;
}

// One block after another, until one cannot be run.
static void run_blocks(const struct backward *a)
{
    size_t most = cuda_attention_block_queries(a->device);
    for (struct cuda_attention_block b = {.deterministic = a->device->deterministic};
         cuda_attention_next_block(a->shape, most, &b);) {
        struct block_tensors t = tensors_of(a, &b);
        if (!(b.kind == ATTENTION_REST ? run_rest(a, &b, &t) : run_graph(a, &b, &t))) {
            return;
        }
        add_query_gradients(a, &b, &t);
    }
}

void attention_cudnn_backward(struct device *device, struct attention_shape shape, struct tensor grad_q,
                              bool accumulate, const struct key_segment *segments, size_t segment_count,
                              struct tensor grad_o, struct tensor o, struct tensor logsumexp, struct tensor q,
                              struct tensor k, struct tensor v, struct tensor workspace)
{
    struct backward a = {
        shape,
        segments,
        segment_count,
        grad_q,
        grad_o,
        o,
        tensor_reshape(logsumexp, q.rows, shape.heads),
        q,
        k,
        v,
        workspace,
        accumulate,
        .at = cuda_attention_layout(shape, cuda_attention_block_queries(device), device->deterministic),
        .device = device};
    CHECK(a.at.bytes <= tensor_bytes(workspace));
    // All of it but the parts that are the engines'.
    range_push(device, (struct range){.level = RANGE_PART, .work = WORK_ATTENTION_GLUE, .name = "attention_glue"});
    // An engine that reads on to the end of its tile finds numbers there.
    CUDA_CHECK(cudaMemsetAsync((char *)workspace.data + a.at.logsumexp + a.at.logsumexp_bytes, 0,
                               CUDA_ATTENTION_TILE * sizeof(float), cuda_stream(device)));
    run_blocks(&a);
    range_pop(device);
}

bool attention_cudnn_build(struct attention_engines *engines, const struct device *device,
                           struct attention_shape shape, struct status *status)
{
    bool done = !cuda_attention_forward_by_cudnn(device, shape) ||
                attention_engines_graph(engines, forward_shape(shape), CUDA_WORKSPACE_BYTES, status);
    if (!cuda_attention_backward_by_cudnn(device, shape)) {
        return done;
    }
    size_t most = cuda_attention_block_queries(device);
    for (struct cuda_attention_block b = {.deterministic = device->deterministic};
         done && cuda_attention_next_block(shape, most, &b);) {
        done = b.kind == ATTENTION_REST || block_graph(engines, shape, &b, status);
    }
    return done;
}

bool attention_cudnn_is_deterministic(const struct attention_engines *engines)
{
    const struct attention_graph_shape shape = {.backward = true,
                                                .deterministic = true,
                                                .queries = CUDA_ATTENTION_QUERIES,
                                                .keys = CUDA_ATTENTION_QUERIES,
                                                .batch = 1,
                                                .heads = 1,
                                                .kv_heads = 1,
                                                .head_dim = 128};
    struct attention_graph_target target = engines->target;
    struct status status = {0};
    target.heuristic_only = true;
    struct attention_graph *graph = attention_graph_build(shape, &target, INT64_MAX, &status);
    if (graph) {
        attention_graph_free(graph);
    }
    return graph;
}

size_t attention_cudnn_library_version(void)
{
    return cudnnGetVersion();
}
