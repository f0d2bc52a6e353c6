// cuDNN's backend API as an interpreter on the CPU, for the graphs of kernels/cuda/attention_graph.c: what a graph
// says is computed operation by operation, every intermediate stored, in f64, and rounded to bf16 where the graph
// says so. It shows what the graph means; whether cuDNN's engines agree only a GPU can tell.
#include "kernels/base/dtype.h"
#include "kernels/base/status.h"
#include "kernels/cuda/workspace.h"
#include "tests/emulator/stream.h"
#include <cudnn.h>
#include <math.h>
#include <string.h>

struct attribute {
    int name;
    int64_t count;
    char bytes[256];
};

struct thing {
    cudnnBackendDescriptorType_t type;
    size_t count;
    struct attribute attributes[10];
    double *values; // of a tensor, packed, while a graph runs
};

enum { BINDINGS_MAX = 256 / sizeof(void *), WORKSPACE_BYTES = 4096 };

static size_t size_of(cudnnBackendAttributeType_t type)
{
    return type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_BACKEND_DESCRIPTOR || type == CUDNN_TYPE_VOID_PTR ||
                   type == CUDNN_TYPE_HANDLE
               ? 8
           : type == CUDNN_TYPE_BOOLEAN ? 1
                                        : 4;
}

static const struct attribute *find(const struct thing *thing, int name)
{
    for (size_t i = 0; i < thing->count; i++) {
        if (thing->attributes[i].name == name) {
            return &thing->attributes[i];
        }
    }
    return NULL;
}

static int64_t int64_at(const struct thing *thing, int name, size_t index)
{
    const struct attribute *attribute = find(thing, name);
    int64_t value;
    CHECK(attribute && (int64_t)index < attribute->count);
    memcpy(&value, attribute->bytes + index * sizeof value, sizeof value);
    return value;
}

static int int_at(const struct thing *thing, int name)
{
    const struct attribute *attribute = find(thing, name);
    int value;
    CHECK(attribute);
    memcpy(&value, attribute->bytes, sizeof value);
    return value;
}

static bool bool_at(const struct thing *thing, int name)
{
    const struct attribute *attribute = find(thing, name);
    CHECK(attribute);
    return attribute->bytes[0];
}

static struct thing *thing_at(const struct thing *thing, int name, size_t index)
{
    const struct attribute *attribute = find(thing, name);
    struct thing *value = NULL;
    if (attribute && (int64_t)index < attribute->count) {
        memcpy(&value, attribute->bytes + index * sizeof value, sizeof value);
    }
    return value;
}

// ---- tensors

// A graph that was asked to run: what the variant pack binds, and of tensors by value what they were then.
struct execution {
    const struct thing *graph;
    struct thing pack;
    char scalars[BINDINGS_MAX][4];
};

static struct execution *running;

static int64_t dim(const struct thing *t, size_t i)
{
    return int64_at(t, CUDNN_ATTR_TENSOR_DIMENSIONS, i);
}

static size_t elements(const struct thing *t)
{
    return (size_t)(dim(t, 0) * dim(t, 1) * dim(t, 2) * dim(t, 3));
}

static void *bound(const struct thing *t)
{
    int64_t id = int64_at(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
    const struct thing *pack = &running->pack;
    for (int64_t i = 0; i < find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)->count; i++) {
        if (int64_at(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, (size_t)i) == id) {
            return bool_at(t, CUDNN_ATTR_TENSOR_IS_BY_VALUE)
                       ? running->scalars[i]
                       : (void *)thing_at(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, (size_t)i);
        }
    }
    CHECK(!"every tensor that is not virtual is bound");
    return NULL;
}

// Calls for every element, in packed order, with its place in memory.
static void each(const struct thing *t, void (*visit)(double *value, char *memory, int dtype))
{
    int dtype = int_at(t, CUDNN_ATTR_TENSOR_DATA_TYPE);
    size_t bytes = dtype == CUDNN_DATA_BFLOAT16 ? 2 : 4, next = 0;
    char *memory = bound(t);
    int64_t n[4], stride[4];
    for (size_t i = 0; i < 4; i++) {
        n[i] = dim(t, i);
        stride[i] = int64_at(t, CUDNN_ATTR_TENSOR_STRIDES, i);
    }
    for (int64_t a = 0; a < n[0]; a++)
        for (int64_t b = 0; b < n[1]; b++)
            for (int64_t c = 0; c < n[2]; c++)
                for (int64_t d = 0; d < n[3]; d++)
                    visit(&t->values[next++],
                          memory + (size_t)(a * stride[0] + b * stride[1] + c * stride[2] + d * stride[3]) * bytes,
                          dtype);
}

static void load(double *value, char *memory, int dtype)
{
    unsigned short bits;
    float f;
    int32_t i;
    switch (dtype) {
    case CUDNN_DATA_BFLOAT16:
        memcpy(&bits, memory, sizeof bits);
        *value = dtype_from_bf16(bits);
        break;
    case CUDNN_DATA_FLOAT:
        memcpy(&f, memory, sizeof f);
        *value = f;
        break;
    default:
        CHECK(dtype == CUDNN_DATA_INT32);
        memcpy(&i, memory, sizeof i);
        *value = i;
    }
}

static void store(double *value, char *memory, int dtype)
{
    unsigned short bits = dtype_bf16((float)*value);
    float f = (float)*value;
    CHECK(dtype == CUDNN_DATA_BFLOAT16 || dtype == CUDNN_DATA_FLOAT);
    memcpy(memory, dtype == CUDNN_DATA_BFLOAT16 ? (void *)&bits : (void *)&f, dtype == CUDNN_DATA_BFLOAT16 ? 2 : 4);
}

static struct thing *operand(const struct thing *operation, int name)
{
    struct thing *t = thing_at(operation, name, 0);
    if (t && !t->values) {
        CHECK(!bool_at(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL)); // else it is read before it is computed
        t->values = malloc(elements(t) * sizeof *t->values);
        CHECK(t->values);
        each(t, load);
    }
    return t;
}

static struct thing *result(const struct thing *operation, int name)
{
    struct thing *t = thing_at(operation, name, 0);
    free(t->values);
    t->values = calloc(elements(t), sizeof *t->values);
    CHECK(t->values);
    return t;
}

static void finish(struct thing *t)
{
    if (int_at(t, CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_BFLOAT16) {
        for (size_t i = 0; i < elements(t); i++) {
            t->values[i] = dtype_round(t->values[i], DTYPE_BF16);
        }
    }
    if (!bool_at(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL)) {
        each(t, store);
    }
}

// ---- operations

static size_t offset(const struct thing *t, const int64_t at[4])
{
    size_t o = 0;
    for (size_t i = 0; i < 4; i++) {
        o = o * (size_t)dim(t, i) + (size_t)(dim(t, i) == 1 ? 0 : at[i]); // broadcast
    }
    return o;
}

static double apply(int mode, double x, double b, double t, int64_t index)
{
    switch (mode) {
    case CUDNN_POINTWISE_MUL:
        return x * b;
    case CUDNN_POINTWISE_ADD:
        return x + b;
    case CUDNN_POINTWISE_SUB:
        return x - b;
    case CUDNN_POINTWISE_DIV:
        return x / b;
    case CUDNN_POINTWISE_EXP:
        return exp(x);
    case CUDNN_POINTWISE_LOG:
        return log(x);
    case CUDNN_POINTWISE_IDENTITY:
        return x;
    case CUDNN_POINTWISE_GEN_INDEX:
        return (double)index;
    case CUDNN_POINTWISE_CMP_GE:
        return x >= b;
    default:
        CHECK(mode == CUDNN_POINTWISE_BINARY_SELECT);
        return t != 0 ? x : b;
    }
}

static void pointwise(const struct thing *operation)
{
    const struct thing *how = thing_at(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
    struct thing *x = operand(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    struct thing *b = operand(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    struct thing *t = operand(operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    struct thing *y = result(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    int mode = int_at(how, CUDNN_ATTR_POINTWISE_MODE);
    size_t axis = mode == CUDNN_POINTWISE_GEN_INDEX ? (size_t)int64_at(how, CUDNN_ATTR_POINTWISE_AXIS, 0) : 0;
    int64_t n[4] = {dim(y, 0), dim(y, 1), dim(y, 2), dim(y, 3)}, at[4];
    size_t next = 0;
    for (at[0] = 0; at[0] < n[0]; at[0]++)
        for (at[1] = 0; at[1] < n[1]; at[1]++)
            for (at[2] = 0; at[2] < n[2]; at[2]++)
                for (at[3] = 0; at[3] < n[3]; at[3]++)
                    y->values[next++] = apply(mode, x->values[offset(x, at)], b ? b->values[offset(b, at)] : 0,
                                              t ? t->values[offset(t, at)] : 0, at[axis]);
    finish(y);
}

// Heads of b are shared by as many heads of a as there are for each. A result in f32 is added to what is there:
// from many blocks at once, in an engine.
static void matmul(const struct thing *operation)
{
    struct thing *a = operand(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
    struct thing *b = operand(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    struct thing *c = result(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    int64_t batch = dim(c, 0), heads = dim(c, 1), rows = dim(c, 2), cols = dim(c, 3), inner = dim(a, 3);
    if (!bool_at(c, CUDNN_ATTR_TENSOR_IS_VIRTUAL) && int_at(c, CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_FLOAT) {
        each(c, load);
    }
    CHECK(dim(a, 1) == heads && heads % dim(b, 1) == 0 && dim(a, 2) == rows && dim(b, 2) == inner &&
          dim(b, 3) == cols && dim(a, 0) == batch && dim(b, 0) == batch);
    for (int64_t z = 0; z < batch * heads; z++) {
        int64_t shared = z / heads * dim(b, 1) + z % heads / (heads / dim(b, 1));
        const double *pa = a->values + z * rows * inner, *pb = b->values + shared * inner * cols;
        double *pc = c->values + z * rows * cols;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = 0; k < inner; k++)
                for (int64_t j = 0; j < cols; j++)
                    pc[i * cols + j] += pa[i * inner + k] * pb[k * cols + j];
    }
    finish(c);
}

// Over the last dimension, or over the heads that share one.
static void reduction(const struct thing *operation)
{
    const struct thing *how = thing_at(operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, 0);
    struct thing *x = operand(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    struct thing *y = result(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    bool largest = int_at(how, CUDNN_ATTR_REDUCTION_OPERATOR) == CUDNN_REDUCE_TENSOR_MAX;
    CHECK(largest || int_at(how, CUDNN_ATTR_REDUCTION_OPERATOR) == CUDNN_REDUCE_TENSOR_ADD);
    int64_t group = dim(x, 1) / dim(y, 1), at[4];
    size_t next = 0;
    for (size_t i = 0; largest && i < elements(y); i++) {
        y->values[i] = -INFINITY;
    }
    for (at[0] = 0; at[0] < dim(x, 0); at[0]++)
        for (int64_t head = 0; head < dim(x, 1); head++)
            for (at[2] = 0; at[2] < dim(x, 2); at[2]++)
                for (at[3] = 0; at[3] < dim(x, 3); at[3]++) {
                    at[1] = head / group;
                    double *to = &y->values[offset(y, at)], value = x->values[next++];
                    *to = largest ? fmax(*to, value) : *to + value;
                }
    finish(y);
}

static void transpose(const struct thing *operation)
{
    struct thing *x = operand(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    struct thing *y = result(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    int64_t rows = dim(x, 2), cols = dim(x, 3);
    CHECK(dim(y, 2) == cols && dim(y, 3) == rows);
    for (int64_t z = 0; z < dim(x, 0) * dim(x, 1); z++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++)
                y->values[(z * cols + j) * rows + i] = x->values[(z * rows + i) * cols + j];
    finish(y);
}

// ---- the API

static bool is_backward(const struct thing *graph)
{
    const struct thing *operation;
    bool backward = false;
    for (size_t i = 0; (operation = thing_at(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i)); i++) {
        backward |= operation->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
    }
    return backward;
}

static struct thing *all[1 << 16]; // tensors, whose values a run leaves behind
static size_t all_count;

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor)
{
    struct thing *thing = calloc(1, sizeof *thing);
    CHECK(thing);
    thing->type = type;
    *descriptor = thing;
    if (type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
        CHECK(all_count < sizeof all / sizeof *all);
        all[all_count++] = thing;
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    for (size_t i = 0; i < all_count; i++) {
        if (all[i] == descriptor) {
            all[i] = all[--all_count];
        }
    }
    free(descriptor);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    struct thing *thing = descriptor;
    size_t bytes = (size_t)count * size_of(type);
    CHECK(thing->count < sizeof thing->attributes / sizeof *thing->attributes &&
          bytes <= sizeof thing->attributes->bytes);
    struct attribute *attribute = &thing->attributes[thing->count++];
    attribute->name = (int)name;
    attribute->count = count;
    memcpy(attribute->bytes, values, bytes);
    return CUDNN_STATUS_SUCCESS;
}

static const struct thing *graph_of(const struct thing *plan_or_configuration)
{
    const struct thing *configuration = thing_at(plan_or_configuration, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0);
    return thing_at(configuration ? configuration : plan_or_configuration, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                    0);
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted, int64_t *count,
                                       void *values)
{
    (void)type, (void)wanted;
    *count = 1;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) { // the one engine carries its graph
        struct thing *graph = thing_at(descriptor, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 0);
        return cudnnBackendSetAttribute(*(cudnnBackendDescriptor_t *)values, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    }
    const struct thing *graph = graph_of(descriptor); // a plan's or a configuration's workspace
    *(int64_t *)values = is_backward(graph) ? WORKSPACE_BYTES : 0;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    (void)descriptor;
    return CUDNN_STATUS_SUCCESS;
}

// Engines read beyond the last key of a backward without a mask unless it ends a tile.
static void check_keys(const struct thing *graph)
{
    bool masked = false;
    int64_t keys = 0;
    const struct thing *operation;
    for (size_t i = 0; (operation = thing_at(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i)); i++) {
        if (operation->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR && keys == 0) {
            keys = dim(thing_at(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, 0), 3);
        }
        if (operation->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) {
            const struct thing *how = thing_at(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
            masked |= int_at(how, CUDNN_ATTR_POINTWISE_MODE) == CUDNN_POINTWISE_GEN_INDEX;
        }
    }
    CHECK(!is_backward(graph) || masked || keys % CUDA_ATTENTION_TILE == 0);
}

static bool is_by_value(int64_t id)
{
    for (size_t i = 0; i < all_count; i++) {
        if (int64_at(all[i], CUDNN_ATTR_TENSOR_UNIQUE_ID, 0) == id) {
            return bool_at(all[i], CUDNN_ATTR_TENSOR_IS_BY_VALUE);
        }
    }
    CHECK(!"what is bound is a tensor of a graph");
    return false;
}

// The memory of a tensor that is bound, [first, last); nothing of others.
struct range {
    const struct thing *tensor;
    const char *first, *last;
    bool written;
};

static struct range range_of(const struct thing *t, bool written)
{
    struct range range = {.written = written};
    if (t && !bool_at(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL) && !bool_at(t, CUDNN_ATTR_TENSOR_IS_BY_VALUE)) {
        int64_t last = 0;
        for (size_t i = 0; i < 4; i++) {
            last += (dim(t, i) - 1) * int64_at(t, CUDNN_ATTR_TENSOR_STRIDES, i);
        }
        range.tensor = t;
        range.first = bound(t);
        range.last =
            range.first + (last + 1) * (int_at(t, CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_BFLOAT16 ? 2 : 4);
    }
    return range;
}

// What a graph writes is nothing else's memory, nor the engine's.
static void check_overlaps(const struct thing *graph)
{
    static const struct {
        int name;
        bool written;
    } sides[] = {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, false}, {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, false},
                 {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, true},  {CUDNN_ATTR_OPERATION_MATMUL_ADESC, false},
                 {CUDNN_ATTR_OPERATION_MATMUL_BDESC, false},    {CUDNN_ATTR_OPERATION_MATMUL_CDESC, true},
                 {CUDNN_ATTR_OPERATION_REDUCTION_XDESC, false}, {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, true}};
    struct range ranges[256];
    size_t count = 0;
    const struct thing *operation;
    for (size_t i = 0; (operation = thing_at(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i)); i++) {
        for (size_t j = 0; j < sizeof sides / sizeof *sides; j++) {
            CHECK(count < sizeof ranges / sizeof *ranges);
            ranges[count] = range_of(thing_at(operation, sides[j].name, 0), sides[j].written);
            count += ranges[count].tensor != NULL;
        }
    }
    if (is_backward(graph)) {
        const char *engine = (const char *)thing_at(&running->pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 0);
        ranges[count++] = (struct range){.first = engine, .last = engine + WORKSPACE_BYTES, .written = true};
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            CHECK(ranges[i].tensor == ranges[j].tensor || !(ranges[i].written || ranges[j].written) ||
                  ranges[i].last <= ranges[j].first || ranges[j].last <= ranges[i].first);
        }
    }
}

static void run(void *data)
{
    const struct thing *operation;
    running = data;
    check_overlaps(running->graph);
    for (size_t i = 0; (operation = thing_at(running->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i)); i++) {
        switch (operation->type) {
        case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
            pointwise(operation);
            break;
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
            matmul(operation);
            break;
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
            reduction(operation);
            break;
        default:
            CHECK(operation->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
            transpose(operation);
        }
    }
    for (size_t i = 0; i < all_count; i++) {
        free(all[i]->values);
        all[i]->values = NULL;
    }
    if (is_backward(running->graph)) {
        memset(thing_at(&running->pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 0), 0xff, WORKSPACE_BYTES);
    }
    free(running);
    running = NULL;
}

struct cudnnContext {
    cudaStream_t stream;
};

// The pack and the numbers by value are the caller's again when this returns; the plan must stay until the stream
// has come to it.
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variant_pack)
{
    struct execution *execution = calloc(1, sizeof *execution);
    CHECK(execution);
    execution->graph = graph_of(plan);
    execution->pack = *(const struct thing *)variant_pack;
    check_keys(execution->graph);
    const struct attribute *ids = find(&execution->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    CHECK(ids->count <= BINDINGS_MAX);
    for (int64_t i = 0; i < ids->count; i++) {
        int64_t id = int64_at(&execution->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, (size_t)i);
        const void *value = thing_at(&execution->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, (size_t)i);
        if (is_by_value(id)) {
            memcpy(execution->scalars[i], value, sizeof execution->scalars[i]);
        }
    }
    emulator_ask(handle->stream, run, execution);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    *handle = calloc(1, sizeof **handle);
    CHECK(*handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    (void)status;
    return "";
}

void cudnnGetLastErrorString(char *message, size_t size)
{
    (void)size;
    *message = 0;
}

size_t cudnnGetVersion(void)
{
    return 91200;
}
