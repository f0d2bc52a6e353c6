#include "kernels/cuda/plugin/attention_graph.h"
#include <stdlib.h>
#include <string.h>

typedef cudnnBackendDescriptor_t descriptor;

// ---- descriptors

static bool good(struct attention_graph *graph, cudnnStatus_t status, const char *what)
{
    char detail[512] = "";
    if (status == CUDNN_STATUS_SUCCESS)
        return true;
    cudnnGetLastErrorString(detail, sizeof detail);
    return status_set(&graph->status, STATUS_UNSUPPORTED, "cuDNN: %s: %s: %s", what, cudnnGetErrorString(status),
                      detail);
}

static descriptor make(struct attention_graph *graph, cudnnBackendDescriptorType_t type)
{
    CHECK(graph->owned_count < DESCRIPTORS_MAX);
    descriptor *made = &graph->owned[graph->owned_count];
    if (good(graph, cudnnBackendCreateDescriptor(type, made), "create"))
        graph->owned_count++;
    return *made;
}

static void set(struct attention_graph *graph, descriptor to, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    if (graph->status.code == STATUS_OK)
        good(graph, cudnnBackendSetAttribute(to, name, type, count, values), "set an attribute");
}

static void set_descriptor(struct attention_graph *graph, descriptor to, cudnnBackendAttributeName_t name,
                           descriptor value)
{
    set(graph, to, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void set_dtype(struct attention_graph *graph, descriptor to, cudnnBackendAttributeName_t name,
                      cudnnDataType_t dtype)
{
    set(graph, to, name, CUDNN_TYPE_DATA_TYPE, 1, &dtype);
}

static bool finalize(struct attention_graph *graph, descriptor d, const char *what)
{
    return graph->status.code == STATUS_OK && good(graph, cudnnBackendFinalize(d), what);
}

// ---- nodes of a graph

struct node {
    descriptor d;
    int64_t dims[4], strides[4];
};

// Guaranteed alignment in bytes of a tensor that may begin at any token of any sequence: statistics of a number of
// heads that is no multiple of four have rows of fewer than 16 bytes.
static int64_t alignment_of(const int64_t strides[4], cudnnDataType_t dtype)
{
    int64_t token = strides[2] > strides[3] ? strides[2] : strides[3]; // K may be transposed
    int64_t row = (token < strides[0] ? token : strides[0]) * (dtype == CUDNN_DATA_FLOAT ? 4 : 2), alignment = 16;
    while (row % alignment != 0)
        alignment /= 2;
    return alignment;
}

static struct node node(struct attention_graph *graph, int64_t id, const int64_t dims[4], const int64_t strides[4],
                        cudnnDataType_t dtype)
{
    bool by_value = id >= SCALE && id < SCALARS_END, is_virtual = id >= INTERMEDIATE;
    int64_t alignment = by_value || is_virtual ? 16 : alignment_of(strides, dtype);
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

static struct node packed(struct attention_graph *graph, int64_t id, const int64_t dims[4], cudnnDataType_t dtype)
{
    int64_t strides[4] = {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
    return node(graph, id, dims, strides, dtype);
}

static struct node scalar(struct attention_graph *graph, int64_t id, cudnnDataType_t dtype)
{
    return packed(graph, id, (const int64_t[4]){1, 1, 1, 1}, dtype);
}

static struct node like(struct attention_graph *graph, struct node x, cudnnDataType_t dtype)
{
    return node(graph, graph->next_intermediate++, x.dims, x.strides, dtype);
}

// A time-major tensor of rows of heads * width, `stride` of them per token, in cuDNN's order [batch, heads, tokens,
// width].
static struct node time_major(struct attention_graph *graph, int64_t id, int64_t tokens, int64_t stride,
                              int64_t heads, int64_t width, cudnnDataType_t dtype)
{
    return node(graph, id, (const int64_t[4]){graph->shape.batch, heads, tokens, width},
                (const int64_t[4]){heads * width, width, stride * heads * width, 1}, dtype);
}

// Q, O and their gradients; K, V and theirs.
static struct node of_queries(struct attention_graph *graph, int64_t id, int64_t stride)
{
    const struct attention_graph_shape *s = &graph->shape;
    return time_major(graph, id, s->queries, stride, s->heads, s->head_dim, CUDNN_DATA_BFLOAT16);
}
static struct node of_keys(struct attention_graph *graph, int64_t id, int64_t stride)
{
    const struct attention_graph_shape *s = &graph->shape;
    return time_major(graph, id, s->keys, stride, s->kv_heads, s->head_dim, CUDNN_DATA_BFLOAT16);
}

// Gradients of K or V.
static struct node gradient_of_keys(struct attention_graph *graph, int64_t id)
{
    const struct attention_graph_shape *s = &graph->shape;
    return time_major(graph, id, s->keys, s->batch, s->every_head ? s->heads : s->kv_heads, s->head_dim,
                      CUDNN_DATA_BFLOAT16);
}

// Keys or values as [batch, kv_heads, head_dim, keys].
static struct node keys_transposed(struct attention_graph *graph, int64_t id)
{
    const struct attention_graph_shape *s = &graph->shape;
    int64_t row = s->kv_heads * s->head_dim;
    return node(graph, id, (const int64_t[4]){s->batch, s->kv_heads, s->head_dim, s->keys},
                (const int64_t[4]){row, s->head_dim, 1, s->k_stride * row}, CUDNN_DATA_BFLOAT16);
}

static descriptor operation(struct attention_graph *graph, cudnnBackendDescriptorType_t type)
{
    CHECK(graph->operation_count < OPERATIONS_MAX);
    return graph->operations[graph->operation_count++] = make(graph, type);
}

// y = mode(x, b) or, with t, mode(x, b, t).  axis < 0: none.
static void pointwise_to(struct attention_graph *graph, cudnnPointwiseMode_t mode, struct node x,
                         const struct node *b, const struct node *t, struct node y, cudnnDataType_t dtype,
                         int64_t axis)
{
    descriptor how = make(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(graph, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set_dtype(graph, how, CUDNN_ATTR_POINTWISE_MATH_PREC, dtype);
    if (axis >= 0)
        set(graph, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    finalize(graph, how, "pointwise");
    descriptor op = operation(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(graph, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_descriptor(graph, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.d);
    if (b)
        set_descriptor(graph, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b->d);
    if (t)
        set_descriptor(graph, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t->d);
    set_descriptor(graph, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.d);
    finalize(graph, op, "pointwise operation");
}

static struct node pointwise(struct attention_graph *graph, cudnnPointwiseMode_t mode, struct node x,
                             const struct node *b)
{
    struct node y = like(graph, x, CUDNN_DATA_FLOAT);
    pointwise_to(graph, mode, x, b, NULL, y, CUDNN_DATA_FLOAT, -1);
    return y;
}

static void matmul(struct attention_graph *graph, struct node a, struct node b, struct node c)
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

static void reduce(struct attention_graph *graph, cudnnReduceTensorOp_t how_to, struct node x, struct node y)
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

// Exchanges the last two dimensions.
static struct node transpose(struct attention_graph *graph, struct node x)
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
static struct node causal(struct attention_graph *graph, struct node s)
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

// s where column + LEFT > row, else far below any score, as cudnn-frontend builds it: in f32, with its constant.
static struct node left_bounded(struct attention_graph *graph, struct node s)
{
    const cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
    struct node left = scalar(graph, LEFT, f32), masked = scalar(graph, LEFT_MASKED, f32);
    struct node row = like(graph, s, f32), column = like(graph, s, f32), moved = like(graph, s, f32);
    struct node seen = like(graph, s, CUDNN_DATA_BOOLEAN), y = like(graph, s, f32);
    pointwise_to(graph, CUDNN_POINTWISE_GEN_INDEX, s, NULL, NULL, row, f32, 2);
    pointwise_to(graph, CUDNN_POINTWISE_GEN_INDEX, s, NULL, NULL, column, f32, 3);
    pointwise_to(graph, CUDNN_POINTWISE_ADD, column, &left, NULL, moved, f32, 3);
    pointwise_to(graph, CUDNN_POINTWISE_CMP_GT, moved, &row, NULL, seen, CUDNN_DATA_BOOLEAN, -1);
    pointwise_to(graph, CUDNN_POINTWISE_BINARY_SELECT, s, &masked, &seen, y, f32, -1);
    return y;
}

// ---- the two graphs

// S = scale * q k^T [batch, heads, queries, keys]; capped, with tangent = S / cap; less `minus` [batch, heads,
// queries, 1]; masked.
static struct node scores(struct attention_graph *graph, struct node q, struct node k, struct node scale,
                          const struct node *minus, struct node *tangent)
{
    const struct attention_graph_shape *h = &graph->shape;
    struct node s = packed(graph, graph->next_intermediate++,
                           (const int64_t[4]){h->batch, h->heads, h->queries, h->keys}, CUDNN_DATA_FLOAT);
    matmul(graph, q, k, s);
    s = pointwise(graph, CUDNN_POINTWISE_MUL, s, &scale);
    if (h->capped) {
        struct node cap = scalar(graph, CAP, CUDNN_DATA_FLOAT),
                    inverse = scalar(graph, INVERSE_CAP, CUDNN_DATA_FLOAT);
        s = pointwise(graph, CUDNN_POINTWISE_MUL, s, &inverse);
        *tangent = pointwise(graph, CUDNN_POINTWISE_TANH_FWD, s, NULL);
        s = pointwise(graph, CUDNN_POINTWISE_MUL, *tangent, &cap);
    }
    if (minus)
        s = pointwise(graph, CUDNN_POINTWISE_SUB, s, minus);
    s = h->causal ? causal(graph, s) : s;
    return h->windowed ? left_bounded(graph, s) : s;
}

static void build_forward(struct attention_graph *graph)
{
    const struct attention_graph_shape *h = &graph->shape;
    const int64_t rows[4] = {h->batch, h->heads, h->queries, 1};
    const cudnnDataType_t bf16 = CUDNN_DATA_BFLOAT16, f32 = CUDNN_DATA_FLOAT;
    struct node q = of_queries(graph, Q, h->q_stride), k = keys_transposed(graph, K);
    struct node v = of_keys(graph, V, h->k_stride), o = of_queries(graph, O, h->o_stride);
    struct node stats = time_major(graph, STATS, h->queries, h->o_stride, h->heads, 1, f32);
    struct node scale = scalar(graph, SCALE, f32), tangent;
    struct node s = scores(graph, q, k, scale, NULL, &tangent);
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

// out = a^T b, summed over the query heads that share a head of out.  a: [batch, heads, queries, keys]
static void key_gradient(struct attention_graph *graph, struct node a, struct node b, struct node out)
{
    const struct attention_graph_shape *h = &graph->shape;
    struct node transposed = transpose(graph, a);
    if (out.dims[1] == h->heads) {
        matmul(graph, transposed, b, out);
        return;
    }
    struct node every = packed(graph, graph->next_intermediate++,
                               (const int64_t[4]){h->batch, h->heads, h->keys, h->head_dim}, CUDNN_DATA_BFLOAT16);
    matmul(graph, transposed, b, every);
    reduce(graph, CUDNN_REDUCE_TENSOR_ADD, every, out);
}

static void build_backward(struct attention_graph *graph)
{
    const struct attention_graph_shape *h = &graph->shape;
    const int64_t rows[4] = {h->batch, h->heads, h->queries, 1};
    const cudnnDataType_t bf16 = CUDNN_DATA_BFLOAT16, f32 = CUDNN_DATA_FLOAT;
    struct node q = of_queries(graph, Q, h->q_stride), k = keys_transposed(graph, K);
    struct node v = keys_transposed(graph, V), scale = scalar(graph, SCALE, f32), one = scalar(graph, ONE, f32);
    struct node o = of_queries(graph, O, h->q_stride), stats = packed(graph, STATS, rows, f32);
    struct node grad_o = of_queries(graph, GRAD_O, h->q_stride), grad_q = of_queries(graph, GRAD_Q, h->q_stride);
    struct node grad_k = gradient_of_keys(graph, GRAD_K), grad_v = gradient_of_keys(graph, GRAD_V);
    struct node delta = packed(graph, DELTA, rows, f32);

    struct node product = pointwise(graph, CUDNN_POINTWISE_MUL, grad_o, &o);
    struct node sum = packed(graph, graph->next_intermediate++, rows, f32);
    reduce(graph, CUDNN_REDUCE_TENSOR_ADD, product, sum);
    pointwise_to(graph, CUDNN_POINTWISE_MUL, sum, &one, NULL, delta, f32, -1);

    struct node tangent, p = scores(graph, q, k, scale, &stats, &tangent);
    p = pointwise(graph, CUDNN_POINTWISE_EXP, p, NULL);
    key_gradient(graph, p, grad_o, grad_v);

    struct node grad_p =
        packed(graph, graph->next_intermediate++, (const int64_t[4]){h->batch, h->heads, h->queries, h->keys}, f32);
    matmul(graph, grad_o, v, grad_p);
    struct node grad_s = pointwise(graph, CUDNN_POINTWISE_SUB, grad_p, &delta);
    grad_s = pointwise(graph, CUDNN_POINTWISE_MUL, grad_s, &p);
    if (h->capped) { // times 1 - tangent^2, as a difference: engines want the first operand virtual
        struct node square = pointwise(graph, CUDNN_POINTWISE_MUL, tangent, &tangent);
        struct node lost = pointwise(graph, CUDNN_POINTWISE_MUL, grad_s, &square);
        grad_s = pointwise(graph, CUDNN_POINTWISE_SUB, grad_s, &lost);
    }
    struct node scaled = like(graph, grad_s, bf16);
    pointwise_to(graph, CUDNN_POINTWISE_MUL, grad_s, &scale, NULL, scaled, f32, -1);
    key_gradient(graph, scaled, q, grad_k);
    struct node keys = transpose(graph, k);
    if (h->deterministic) { // as in cudnn-frontend: dS in the workspace, and a separate product
        matmul(graph, scaled, keys, grad_q);
    } else {
        const int64_t dims[4] = {h->batch, h->heads, h->queries, h->head_dim};
        struct node accumulator = packed(graph, ACCUMULATOR, dims, f32);
        matmul(graph, scaled, keys, accumulator);
        pointwise_to(graph, CUDNN_POINTWISE_IDENTITY, accumulator, NULL, NULL, grad_q, f32, -1);
    }
}

// ---- engines

static int64_t number_of(descriptor from, cudnnBackendAttributeName_t name)
{
    int64_t count = 0, value = -1;
    return cudnnBackendGetAttribute(from, name, CUDNN_TYPE_INT64, 1, &count, &value) == CUDNN_STATUS_SUCCESS ? value
                                                                                                             : -1;
}

// The finalized graph.
static descriptor whole(struct attention_graph *graph, const struct attention_graph_target *target)
{
    descriptor all = make(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(graph, all, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, (int64_t)graph->operation_count,
        graph->operations);
    if (target->handle)
        set(graph, all, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &target->handle);
    finalize(graph, all, "attention's graph");
    return all;
}

// Prepares an engine for execution; returns false without a status if that fails.
static bool plan(struct attention_graph *graph, const struct attention_graph_target *target, int64_t max,
                 descriptor config)
{
    descriptor made = make(graph, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (target->handle)
        set(graph, made, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &target->handle);
    else
        set_descriptor(graph, made, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, target->properties);
    set_descriptor(graph, made, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (graph->status.code == STATUS_OK && cudnnBackendFinalize(made) == CUDNN_STATUS_SUCCESS &&
        number_of(made, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) <= max)
        graph->plan = made;
    return graph->plan;
}

// Tells whether an engine has numerical notes, and none says nondeterministic.
static bool is_deterministic(struct attention_graph *graph, descriptor config)
{
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    descriptor engine = make(graph, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int64_t count = 0;
    bool known = cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                          &count, &engine) == CUDNN_STATUS_SUCCESS &&
                 cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                          CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes) == CUDNN_STATUS_SUCCESS;
    for (int64_t i = 0; known && i < count; i++)
        known = notes[i] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    return known;
}

// Prepares the first suitable engine of the heuristic's list with a workspace of at most `max`.
static bool choose_engine(struct attention_graph *graph, const struct attention_graph_target *target, int64_t max)
{
    enum { CONFIGS = 8 };
    descriptor all = whole(graph, target);
    descriptor heuristic = make(graph, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), configs[CONFIGS];
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t count = 0;
    set_descriptor(graph, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, all);
    set(graph, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (!target->handle)
        set_descriptor(graph, heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, target->properties);
    if (!finalize(graph, heuristic, "attention's engines"))
        return false;
    for (int i = 0; i < CONFIGS; i++)
        configs[i] = make(graph, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (graph->status.code != STATUS_OK ||
        !good(graph,
              cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                       CONFIGS, &count, configs),
              "attention's engines"))
        return false;
    int64_t min = INT64_MAX, allowed = 0;
    char failure[512] = "";
    for (int64_t i = 0; i < count && i < CONFIGS; i++) {
        if (graph->shape.deterministic && !is_deterministic(graph, configs[i]))
            continue;
        allowed++;
        int64_t bytes = number_of(configs[i], CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE);
        if (bytes >= 0)
            min = bytes < min ? bytes : min;
        if (bytes < 0 || bytes > max)
            continue;
        graph->engine = i;
        graph->engine_bytes = bytes;
        if (target->heuristic_only || (!target->handle && !target->planned) || plan(graph, target, max, configs[i]))
            return true;
        cudnnGetLastErrorString(failure, sizeof failure);
    }
    if (*failure)
        return status_set(&graph->status, STATUS_FAILED, "cuDNN cannot make attention ready to run: %s", failure);
    return status_set(
        &graph->status, STATUS_UNSUPPORTED,
        "cuDNN has no%s engine for this attention within %lld bytes of workspace; %lld engines, the least "
        "%lld bytes",
        graph->shape.deterministic ? " deterministic" : "", (long long)max, (long long)allowed,
        (long long)(min == INT64_MAX ? -1 : min));
}

// ---- a graph's life

struct attention_graph *attention_graph_build(struct attention_graph_shape shape,
                                              const struct attention_graph_target *target, int64_t max,
                                              struct status *status)
{
    struct attention_graph *graph = calloc(1, sizeof *graph);
    CHECK(graph);
    graph->shape = shape;
    graph->next_intermediate = INTERMEDIATE;
    if (shape.backward)
        build_backward(graph);
    else
        build_forward(graph);
    if (graph->status.code == STATUS_OK && choose_engine(graph, target, max))
        return graph;
    status_set(status, graph->status.code,
               "%s; %s, %lld queries, %lld keys%s%s%s, batch %lld, %lld heads, %lld key heads of %lld",
               graph->status.message, shape.backward ? "backward" : "forward", (long long)shape.queries,
               (long long)shape.keys, shape.causal ? ", causal" : "", shape.windowed ? ", windowed" : "",
               shape.capped ? ", capped" : "", (long long)shape.batch, (long long)shape.heads,
               (long long)shape.kv_heads, (long long)shape.head_dim);
    attention_graph_free(graph);
    return NULL;
}

void attention_graph_free(struct attention_graph *graph)
{
    while (graph->owned_count > 0)
        cudnnBackendDestroyDescriptor(graph->owned[--graph->owned_count]);
    free(graph);
}
