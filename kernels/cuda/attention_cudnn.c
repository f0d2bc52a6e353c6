// Attention by cuDNN's backend API. cuDNN knows attention as a graph of matrix products, reductions and pointwise
// operations that its engines recognise as a whole; none of the intermediate [heads, queries, keys] is ever stored.
//
// Forward: one graph, queries against all keys, bottom-right causal: query i sees keys 0 .. keys - queries + i.
// O = softmax(S) V, with the logsumexp as second output.
//
// Backward: queries in blocks of CUDA_ATTENTION_QUERIES; per block the keys that its last query sees, in blocks of
// CUDA_ATTENTION_KEYS counted from the right, so that the last block is bottom-right causal and all others are
// rectangles without a mask. The saved logsumexp is over all keys, so P = exp(S - logsumexp) of a block of keys is
// exact on its own, and so is delta = rowsum(dO * O). Each block's dQ, dK and dV come out in bf16, are added in
// f32:
//     dQ sum += dQ block;    grad_k[keys of a segment] += dK block[those rows], likewise grad_v
// and dQ sum is rounded once, at the end. Keys outside every segment: their dK and dV are computed, for cuDNN has
// no engine without them, and dropped; they cost time (10/6 of what dQ alone would), no memory.
//
// Few shapes come up: with start and queries multiples of a chunk, one graph per distinct remainder of the keys.
#include "kernels/cuda/attention_cudnn.h"
#include "kernels/cuda/accumulate.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/workspace.h"
#include <cudnn.h>
#include <float.h>
#include <math.h>
#include <string.h>

typedef cudnnBackendDescriptor_t descriptor;

// What a caller binds: tensors, and scalars by value. Intermediates are numbered from INTERMEDIATE on.
enum { Q = 1, K, V, O, STATS, GRAD_O, GRAD_Q, GRAD_K, GRAD_V, DELTA, ACCUMULATOR, BOUND, INTERMEDIATE = 100 };
enum { SCALE = BOUND, ONE, MASKED, KEYS, QUERIES };

// One graph's shape: queries against keys, with or without the causal mask. All of one type: compared as bytes.
struct shape {
    int64_t backward, causal, queries, keys, batch, heads, kv_heads, head_dim;
};

enum { DESCRIPTORS_MAX = 256, OPERATIONS_MAX = 32 };
struct graph {
    struct shape shape;
    descriptor owned[DESCRIPTORS_MAX], operations[OPERATIONS_MAX], plan;
    size_t owned_count, operation_count;
    int64_t next_intermediate, engine_bytes;
    struct status status;
};

struct attention_cudnn {
    cudnnHandle_t handle; // NULL: described, not there
    descriptor properties;
    cudaStream_t stream;
    struct graph **graphs;
    size_t graph_count;
};

// ---- descriptors

static bool good(struct graph *graph, cudnnStatus_t status, const char *what)
{
    char detail[512] = "";
    if (status == CUDNN_STATUS_SUCCESS) {
        return true;
    }
    cudnnGetLastErrorString(detail, sizeof detail);
    return status_set(&graph->status, STATUS_UNSUPPORTED, "cuDNN: %s: %s: %s", what, cudnnGetErrorString(status),
                      detail);
}

static descriptor make(struct graph *graph, cudnnBackendDescriptorType_t type)
{
    CHECK(graph->owned_count < DESCRIPTORS_MAX);
    descriptor *made = &graph->owned[graph->owned_count];
    if (good(graph, cudnnBackendCreateDescriptor(type, made), "create")) {
        graph->owned_count++;
    }
    return *made;
}

static void set(struct graph *graph, descriptor to, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    if (graph->status.code == STATUS_OK) {
        good(graph, cudnnBackendSetAttribute(to, name, type, count, values), "set an attribute");
    }
}

static void set_descriptor(struct graph *graph, descriptor to, cudnnBackendAttributeName_t name, descriptor value)
{
    set(graph, to, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void set_dtype(struct graph *graph, descriptor to, cudnnBackendAttributeName_t name, cudnnDataType_t dtype)
{
    set(graph, to, name, CUDNN_TYPE_DATA_TYPE, 1, &dtype);
}

static bool finalize(struct graph *graph, descriptor d, const char *what)
{
    return graph->status.code == STATUS_OK && good(graph, cudnnBackendFinalize(d), what);
}

// ---- nodes of a graph

struct node {
    descriptor d;
    int64_t dims[4], strides[4];
};

static struct node node(struct graph *graph, int64_t id, const int64_t dims[4], const int64_t strides[4],
                        cudnnDataType_t dtype)
{
    int64_t alignment = 16;
    bool by_value = id >= SCALE && id < INTERMEDIATE, is_virtual = id >= INTERMEDIATE;
    struct node n = {.d = make(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR)};
    memcpy(n.dims, dims, sizeof n.dims);
    memcpy(n.strides, strides, sizeof n.strides);
    set_dtype(graph, n.d, CUDNN_ATTR_TENSOR_DATA_TYPE, dtype);
    set(graph, n.d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    set(graph, n.d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    set(graph, n.d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(graph, n.d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(graph, n.d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    set(graph, n.d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    finalize(graph, n.d, "tensor");
    return n;
}

static struct node packed(struct graph *graph, int64_t id, const int64_t dims[4], cudnnDataType_t dtype)
{
    int64_t strides[4] = {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
    return node(graph, id, dims, strides, dtype);
}

static struct node scalar(struct graph *graph, int64_t id, cudnnDataType_t dtype)
{
    return packed(graph, id, (const int64_t[4]){1, 1, 1, 1}, dtype);
}

static struct node like(struct graph *graph, struct node x, cudnnDataType_t dtype)
{
    return node(graph, graph->next_intermediate++, x.dims, x.strides, dtype);
}

// A time-major tensor [rows * batch, heads * width], as cuDNN's [batch, heads, rows, width].
static struct node time_major(struct graph *graph, int64_t id, int64_t rows, int64_t heads, int64_t width,
                              cudnnDataType_t dtype)
{
    int64_t batch = graph->shape.batch;
    return node(graph, id, (const int64_t[4]){batch, heads, rows, width},
                (const int64_t[4]){heads * width, width, batch * heads * width, 1}, dtype);
}

// Keys or values as [batch, kv_heads, head_dim, keys].
static struct node keys_transposed(struct graph *graph, int64_t id)
{
    const struct shape *s = &graph->shape;
    int64_t row = s->kv_heads * s->head_dim;
    return node(graph, id, (const int64_t[4]){s->batch, s->kv_heads, s->head_dim, s->keys},
                (const int64_t[4]){row, s->head_dim, 1, s->batch * row}, CUDNN_DATA_BFLOAT16);
}

static descriptor operation(struct graph *graph, cudnnBackendDescriptorType_t type)
{
    CHECK(graph->operation_count < OPERATIONS_MAX);
    return graph->operations[graph->operation_count++] = make(graph, type);
}

// y = mode(x, b) or, with t, mode(x, b, t).  axis < 0: none.
static void pointwise_to(struct graph *graph, cudnnPointwiseMode_t mode, struct node x, const struct node *b,
                         const struct node *t, struct node y, cudnnDataType_t dtype, int64_t axis)
{
    descriptor how = make(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(graph, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set_dtype(graph, how, CUDNN_ATTR_POINTWISE_MATH_PREC, dtype);
    if (axis >= 0) {
        set(graph, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    }
    finalize(graph, how, "pointwise");
    descriptor op = operation(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(graph, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_descriptor(graph, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.d);
    if (b) {
        set_descriptor(graph, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b->d);
    }
    if (t) {
        set_descriptor(graph, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t->d);
    }
    set_descriptor(graph, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.d);
    finalize(graph, op, "pointwise operation");
}

static struct node pointwise(struct graph *graph, cudnnPointwiseMode_t mode, struct node x, const struct node *b)
{
    struct node y = like(graph, x, CUDNN_DATA_FLOAT);
    pointwise_to(graph, mode, x, b, NULL, y, CUDNN_DATA_FLOAT, -1);
    return y;
}

static void matmul(struct graph *graph, struct node a, struct node b, struct node c)
{
    descriptor how = make(graph, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set_dtype(graph, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    finalize(graph, how, "matmul");
    descriptor op = operation(graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_descriptor(graph, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    set_descriptor(graph, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.d);
    set_descriptor(graph, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.d);
    set_descriptor(graph, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.d);
    finalize(graph, op, "matmul operation");
}

static void reduce(struct graph *graph, cudnnReduceTensorOp_t how_to, struct node x, struct node y)
{
    descriptor how = make(graph, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(graph, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how_to);
    set_dtype(graph, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    finalize(graph, how, "reduction");
    descriptor op = operation(graph, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_descriptor(graph, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    set_descriptor(graph, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.d);
    set_descriptor(graph, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.d);
    finalize(graph, op, "reduction operation");
}

// The last two dimensions exchanged.
static struct node transpose(struct graph *graph, struct node x)
{
    struct node y =
        node(graph, graph->next_intermediate++, (const int64_t[4]){x.dims[0], x.dims[1], x.dims[3], x.dims[2]},
             (const int64_t[4]){x.strides[0], x.strides[1], x.strides[3], x.strides[2]}, CUDNN_DATA_BFLOAT16);
    descriptor op = operation(graph, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_descriptor(graph, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.d);
    set_descriptor(graph, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.d);
    finalize(graph, op, "transpose");
    return y;
}

// s where row + keys - queries >= column, else far below any score.
static struct node causal(struct graph *graph, struct node s)
{
    const cudnnDataType_t integer = CUDNN_DATA_INT32;
    struct node keys = scalar(graph, KEYS, integer), queries = scalar(graph, QUERIES, integer);
    struct node masked = scalar(graph, MASKED, CUDNN_DATA_FLOAT);
    struct node row = like(graph, s, integer), column = like(graph, s, integer);
    struct node moved = like(graph, s, integer), position = like(graph, s, integer);
    struct node seen = like(graph, s, CUDNN_DATA_BOOLEAN), y = like(graph, s, CUDNN_DATA_FLOAT);
    pointwise_to(graph, CUDNN_POINTWISE_GEN_INDEX, s, NULL, NULL, row, integer, 2);
    pointwise_to(graph, CUDNN_POINTWISE_GEN_INDEX, s, NULL, NULL, column, integer, 3);
    pointwise_to(graph, CUDNN_POINTWISE_ADD, row, &keys, NULL, moved, integer, -1);
    pointwise_to(graph, CUDNN_POINTWISE_SUB, moved, &queries, NULL, position, integer, -1);
    pointwise_to(graph, CUDNN_POINTWISE_CMP_GE, position, &column, NULL, seen, CUDNN_DATA_BOOLEAN, -1);
    pointwise_to(graph, CUDNN_POINTWISE_BINARY_SELECT, s, &masked, &seen, y, CUDNN_DATA_FLOAT, -1);
    return y;
}

// ---- the two graphs

// S = scale * q k^T [batch, heads, queries, keys]; less `minus` [batch, heads, queries, 1]; masked.
static struct node scores(struct graph *graph, struct node q, struct node k, struct node scale,
                          const struct node *minus)
{
    const struct shape *h = &graph->shape;
    struct node s = packed(graph, graph->next_intermediate++,
                           (const int64_t[4]){h->batch, h->heads, h->queries, h->keys}, CUDNN_DATA_FLOAT);
    matmul(graph, q, k, s);
    s = pointwise(graph, CUDNN_POINTWISE_MUL, s, &scale);
    if (minus) {
        s = pointwise(graph, CUDNN_POINTWISE_SUB, s, minus);
    }
    return h->causal ? causal(graph, s) : s;
}

static void build_forward(struct graph *graph)
{
    const struct shape *h = &graph->shape;
    const int64_t rows[4] = {h->batch, h->heads, h->queries, 1};
    const cudnnDataType_t bf16 = CUDNN_DATA_BFLOAT16, f32 = CUDNN_DATA_FLOAT;
    struct node q = time_major(graph, Q, h->queries, h->heads, h->head_dim, bf16), k = keys_transposed(graph, K);
    struct node v = time_major(graph, V, h->keys, h->kv_heads, h->head_dim, bf16);
    struct node o = time_major(graph, O, h->queries, h->heads, h->head_dim, bf16);
    struct node stats = time_major(graph, STATS, h->queries, h->heads, 1, f32), scale = scalar(graph, SCALE, f32);
    struct node s = scores(graph, q, k, scale, NULL);
    struct node largest = packed(graph, graph->next_intermediate++, rows, f32);
    struct node sum = packed(graph, graph->next_intermediate++, rows, f32);
    reduce(graph, CUDNN_REDUCE_TENSOR_MAX, s, largest);
    struct node e = pointwise(graph, CUDNN_POINTWISE_SUB, s, &largest);
    e = pointwise(graph, CUDNN_POINTWISE_EXP, e, NULL);
    reduce(graph, CUDNN_REDUCE_TENSOR_ADD, e, sum);
    struct node logarithm = pointwise(graph, CUDNN_POINTWISE_LOG, sum, NULL), p = like(graph, e, bf16);
    pointwise_to(graph, CUDNN_POINTWISE_ADD, largest, &logarithm, NULL, stats, f32, -1);
    pointwise_to(graph, CUDNN_POINTWISE_DIV, e, &sum, NULL, p, f32, -1);
    matmul(graph, p, v, o);
}

// out = a^T b, summed over the query heads that share a key head.  a: [batch, heads, queries, keys]
static void key_gradient(struct graph *graph, struct node a, struct node b, struct node out)
{
    const struct shape *h = &graph->shape;
    struct node transposed = transpose(graph, a);
    if (h->heads == h->kv_heads) {
        matmul(graph, transposed, b, out);
        return;
    }
    struct node every = packed(graph, graph->next_intermediate++,
                               (const int64_t[4]){h->batch, h->heads, h->keys, h->head_dim}, CUDNN_DATA_BFLOAT16);
    matmul(graph, transposed, b, every);
    reduce(graph, CUDNN_REDUCE_TENSOR_ADD, every, out);
}

static void build_backward(struct graph *graph)
{
    const struct shape *h = &graph->shape;
    const int64_t rows[4] = {h->batch, h->heads, h->queries, 1};
    const cudnnDataType_t bf16 = CUDNN_DATA_BFLOAT16, f32 = CUDNN_DATA_FLOAT;
    struct node q = time_major(graph, Q, h->queries, h->heads, h->head_dim, bf16), k = keys_transposed(graph, K);
    struct node v = keys_transposed(graph, V), scale = scalar(graph, SCALE, f32), one = scalar(graph, ONE, f32);
    struct node o = time_major(graph, O, h->queries, h->heads, h->head_dim, bf16);
    struct node stats = time_major(graph, STATS, h->queries, h->heads, 1, f32);
    struct node grad_o = time_major(graph, GRAD_O, h->queries, h->heads, h->head_dim, bf16);
    struct node grad_q = time_major(graph, GRAD_Q, h->queries, h->heads, h->head_dim, bf16);
    struct node grad_k = time_major(graph, GRAD_K, h->keys, h->kv_heads, h->head_dim, bf16);
    struct node grad_v = time_major(graph, GRAD_V, h->keys, h->kv_heads, h->head_dim, bf16);
    struct node delta = packed(graph, DELTA, rows, f32);
    struct node accumulator = packed(
        graph, ACCUMULATOR, (const int64_t[4]){h->batch, h->heads, h->queries, h->head_dim}, CUDNN_DATA_FLOAT);

    struct node product = pointwise(graph, CUDNN_POINTWISE_MUL, grad_o, &o);
    struct node sum = packed(graph, graph->next_intermediate++, rows, f32);
    reduce(graph, CUDNN_REDUCE_TENSOR_ADD, product, sum);
    pointwise_to(graph, CUDNN_POINTWISE_MUL, sum, &one, NULL, delta, f32, -1);

    struct node p = pointwise(graph, CUDNN_POINTWISE_EXP, scores(graph, q, k, scale, &stats), NULL);
    key_gradient(graph, p, grad_o, grad_v);

    struct node grad_p =
        packed(graph, graph->next_intermediate++, (const int64_t[4]){h->batch, h->heads, h->queries, h->keys}, f32);
    matmul(graph, grad_o, v, grad_p);
    struct node grad_s = pointwise(graph, CUDNN_POINTWISE_SUB, grad_p, &delta);
    grad_s = pointwise(graph, CUDNN_POINTWISE_MUL, grad_s, &p);
    struct node scaled = like(graph, grad_s, bf16);
    pointwise_to(graph, CUDNN_POINTWISE_MUL, grad_s, &scale, NULL, scaled, f32, -1);
    key_gradient(graph, scaled, q, grad_k);
    matmul(graph, scaled, transpose(graph, k), accumulator);
    pointwise_to(graph, CUDNN_POINTWISE_IDENTITY, accumulator, NULL, NULL, grad_q, f32, -1);
}

// ---- engines

static int64_t number_of(descriptor from, cudnnBackendAttributeName_t name)
{
    int64_t count = 0, value = -1;
    return cudnnBackendGetAttribute(from, name, CUDNN_TYPE_INT64, 1, &count, &value) == CUDNN_STATUS_SUCCESS ? value
                                                                                                             : -1;
}

// The first engine of the heuristic's list that takes no more workspace than `most`, made ready to run.
static bool choose_engine(const struct attention_cudnn *attention, struct graph *graph, int64_t most)
{
    enum { CONFIGS = 8 };
    descriptor all = make(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    descriptor heuristic = make(graph, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), configs[CONFIGS];
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t count = 0;
    set(graph, all, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, (int64_t)graph->operation_count,
        graph->operations);
    if (attention->handle) {
        set(graph, all, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &attention->handle);
    }
    if (!finalize(graph, all, "attention's graph")) {
        return false;
    }
    set_descriptor(graph, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, all);
    set(graph, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (!attention->handle) {
        set_descriptor(graph, heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, attention->properties);
    }
    if (!finalize(graph, heuristic, "attention's engines")) {
        return false;
    }
    for (int i = 0; i < CONFIGS; i++) {
        configs[i] = make(graph, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    }
    if (graph->status.code != STATUS_OK ||
        !good(graph,
              cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                       CONFIGS, &count, configs),
              "attention's engines")) {
        return false;
    }
    int64_t least = INT64_MAX;
    for (int64_t i = 0; i < count && i < CONFIGS; i++) {
        int64_t bytes = number_of(configs[i], CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE);
        if (bytes >= 0) {
            least = bytes < least ? bytes : least;
        }
        if (bytes < 0 || bytes > most) {
            continue;
        }
        graph->engine_bytes = bytes;
        if (!attention->handle) {
            return true;
        }
        descriptor plan = make(graph, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        set(graph, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &attention->handle);
        set_descriptor(graph, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[i]);
        if (graph->status.code != STATUS_OK) {
            return false;
        }
        if (cudnnBackendFinalize(plan) == CUDNN_STATUS_SUCCESS &&
            number_of(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) <= most) {
            graph->plan = plan;
            return true;
        }
    }
    return status_set(
        &graph->status, STATUS_UNSUPPORTED,
        "cuDNN has no engine for this attention within %lld bytes of workspace; %lld engines, the least "
        "%lld bytes",
        (long long)most, (long long)count, (long long)(least == INT64_MAX ? -1 : least));
}

static void graph_free(struct graph *graph)
{
    while (graph->owned_count > 0) {
        cudnnBackendDestroyDescriptor(graph->owned[--graph->owned_count]);
    }
    free(graph);
}

// The graph of that shape, built when it is first asked for. NULL and a status if there is no engine for it.
static struct graph *graph_for(struct attention_cudnn *attention, struct shape shape, int64_t most,
                               struct status *status)
{
    for (size_t i = 0; i < attention->graph_count; i++) {
        if (memcmp(&attention->graphs[i]->shape, &shape, sizeof shape) == 0) {
            return attention->graphs[i];
        }
    }
    struct graph *graph = calloc(1, sizeof *graph);
    CHECK(graph);
    graph->shape = shape;
    graph->next_intermediate = INTERMEDIATE;
    if (shape.backward) {
        build_backward(graph);
    } else {
        build_forward(graph);
    }
    if (graph->status.code != STATUS_OK || !choose_engine(attention, graph, most)) {
        status_set(status, graph->status.code,
                   "%s; %s, %lld queries, %lld keys%s, batch %lld, %lld heads, %lld key heads of %lld",
                   graph->status.message, shape.backward ? "backward" : "forward", (long long)shape.queries,
                   (long long)shape.keys, shape.causal ? ", causal" : "", (long long)shape.batch,
                   (long long)shape.heads, (long long)shape.kv_heads, (long long)shape.head_dim);
        graph_free(graph);
        return NULL;
    }
    attention->graphs = realloc(attention->graphs, (attention->graph_count + 1) * sizeof(struct graph *));
    CHECK(attention->graphs);
    return attention->graphs[attention->graph_count++] = graph;
}

// ---- running a graph

// Pointers by identifier; NULL: not in this graph.
struct binding {
    void *tensors[BOUND];
};

static bool run(struct attention_cudnn *attention, struct graph *graph, const struct binding *binding, void *engine,
                struct status *status)
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
    descriptor pack = NULL;
    bool done =
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids) ==
            CUDNN_STATUS_SUCCESS &&
        cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
                                 pointers) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &engine) ==
            CUDNN_STATUS_SUCCESS &&
        cudnnBackendFinalize(pack) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendExecute(attention->handle, graph->plan, pack) == CUDNN_STATUS_SUCCESS;
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

static struct shape forward_shape(struct attention_shape s)
{
    return (struct shape){.causal = true,
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
    struct graph *graph = graph_for(attention, forward_shape(shape), 0, status);
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

// The next block in order, from the last one; false after all. An empty block comes before the first.
static bool next_block(struct attention_shape s, struct block *b)
{
    size_t end = s.start + b->query + b->queries; // behind the last key that these queries see
    bool fresh = b->queries == 0 || b->key + b->keys == end;
    if (fresh) {
        b->query += b->queries;
        if (b->query == s.queries) {
            return false;
        }
        size_t left = s.queries - b->query;
        b->queries = left < CUDA_ATTENTION_QUERIES ? left : CUDA_ATTENTION_QUERIES;
        end = s.start + b->query + b->queries;
        b->key = 0;
        b->keys = end % CUDA_ATTENTION_KEYS;
        if (b->keys == 0) {
            b->keys = CUDA_ATTENTION_KEYS;
        }
    } else {
        b->key += b->keys;
        b->keys = CUDA_ATTENTION_KEYS;
    }
    b->first = fresh;
    b->last = b->causal = b->key + b->keys == end;
    return true;
}

static struct shape block_shape(struct attention_shape s, const struct block *b)
{
    struct shape shape = forward_shape(s);
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
    for (struct block b = {0}; next_block(s, &b);) {
        struct graph *graph = graph_for(attention, block_shape(s, &b), (int64_t)w.engine_bytes, status);
        if (!graph) {
            return false;
        }
        struct tensor sum = part(workspace, w.grad_q_sum, DTYPE_F32, b.queries * B, q.cols);
        struct tensor block_q = part(workspace, w.grad_q, DTYPE_BF16, b.queries * B, q.cols);
        struct tensor block_k = part(workspace, w.grad_k, DTYPE_BF16, b.keys * B, k.cols);
        struct tensor block_v = part(workspace, w.grad_v, DTYPE_BF16, b.keys * B, k.cols);
        struct tensor accumulator = part(workspace, w.accumulator, DTYPE_F32, b.queries * B, q.cols);
        size_t row = b.query * B, rows = b.queries * B;
        struct binding binding = {
            .tensors = {[Q] = tensor_rows(q, row, rows).data,
                        [K] = tensor_rows(k, b.key * B, b.keys * B).data,
                        [V] = tensor_rows(v, b.key * B, b.keys * B).data,
                        [O] = tensor_rows(o, row, rows).data,
                        [STATS] = tensor_rows(tensor_reshape(logsumexp, q.rows, s.heads), row, rows).data,
                        [GRAD_O] = tensor_rows(grad_o, row, rows).data,
                        [GRAD_Q] = block_q.data,
                        [GRAD_K] = block_k.data,
                        [GRAD_V] = block_v.data,
                        [DELTA] = (char *)workspace.data + w.delta,
                        [ACCUMULATOR] = accumulator.data}};
        // The engines add to the accumulator, from many blocks at once.
        CUDA_CHECK(cudaMemsetAsync(accumulator.data, 0, tensor_bytes(accumulator), attention->stream));
        if (b.first) {
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
    struct attention_cudnn_totals totals = {.graphs = attention->graph_count};
    for (size_t i = 0; i < attention->graph_count; i++) {
        const struct graph *graph = attention->graphs[i];
        totals.backward_graphs += (size_t)graph->shape.backward;
        if ((size_t)graph->engine_bytes > totals.engine_bytes) {
            totals.engine_bytes = (size_t)graph->engine_bytes;
        }
    }
    return totals;
}

// ---- opening

struct attention_cudnn *attention_cudnn_open(cudaStream_t stream, struct status *status)
{
    struct attention_cudnn *attention = calloc(1, sizeof *attention);
    CHECK(attention);
    attention->stream = stream;
    cudnnStatus_t created = cudnnCreate(&attention->handle);
    if (created == CUDNN_STATUS_SUCCESS) {
        created = cudnnSetStream(attention->handle, stream);
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
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &attention->properties) !=
            CUDNN_STATUS_SUCCESS ||
        cudnnBackendSetAttribute(attention->properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                 (int64_t)strlen(properties), properties) != CUDNN_STATUS_SUCCESS ||
        cudnnBackendFinalize(attention->properties) != CUDNN_STATUS_SUCCESS) {
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
    for (size_t i = 0; i < attention->graph_count; i++) {
        graph_free(attention->graphs[i]);
    }
    free(attention->graphs);
    if (attention->properties) {
        cudnnBackendDestroyDescriptor(attention->properties);
    }
    if (attention->handle) {
        cudnnDestroy(attention->handle);
    }
    free(attention);
}

size_t attention_cudnn_library_version(void)
{
    return cudnnGetVersion();
}
