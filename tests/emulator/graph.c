#include "tests/emulator/graph.h"
#include "kernels/base/dtype.h"
#include "kernels/cuda/workspace.h"
#include "tests/emulator/stream.h"
#include <math.h>
#include <string.h>

// ---- tensors

static struct execution *running;

static int64_t dim(const struct descriptor *t, size_t i)
{
    return int64_at(t, CUDNN_ATTR_TENSOR_DIMENSIONS, i);
}

static size_t elements(const struct descriptor *t)
{
    return (size_t)(dim(t, 0) * dim(t, 1) * dim(t, 2) * dim(t, 3));
}

static void *bound(const struct descriptor *t)
{
    int64_t id = int64_at(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
    const struct descriptor *pack = &running->pack;
    for (int64_t i = 0; i < find_attribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)->count; i++) {
        if (int64_at(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, (size_t)i) == id) {
            return bool_at(t, CUDNN_ATTR_TENSOR_IS_BY_VALUE)
                       ? running->scalars[i]
                       : (void *)descriptor_at(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, (size_t)i);
        }
    }
    CHECK(!"every tensor that is not virtual is bound");
    return NULL;
}

// Calls for every element, in packed order, with its place in memory.
static void each(const struct descriptor *t, void (*visit)(double *value, char *memory, int dtype))
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

static struct descriptor *operand(const struct descriptor *operation, int name)
{
    struct descriptor *t = descriptor_at(operation, name, 0);
    if (t && !t->values) {
        CHECK(!bool_at(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL)); // else it is read before it is computed
        t->values = malloc(elements(t) * sizeof *t->values);
        CHECK(t->values);
        each(t, load);
    }
    return t;
}

static struct descriptor *result(const struct descriptor *operation, int name)
{
    struct descriptor *t = descriptor_at(operation, name, 0);
    free(t->values);
    t->values = calloc(elements(t), sizeof *t->values);
    CHECK(t->values);
    return t;
}

static void finish(struct descriptor *t)
{
    if (int_at(t, CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_BFLOAT16)
        for (size_t i = 0; i < elements(t); i++)
            t->values[i] = dtype_round(t->values[i], DTYPE_BF16);
    if (!bool_at(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL))
        each(t, store);
}

// ---- operations

static size_t offset(const struct descriptor *t, const int64_t at[4])
{
    size_t o = 0;
    for (size_t i = 0; i < 4; i++)
        o = o * (size_t)dim(t, i) + (size_t)(dim(t, i) == 1 ? 0 : at[i]); // broadcast
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
    case CUDNN_POINTWISE_TANH_FWD:
        return tanh(x);
    case CUDNN_POINTWISE_IDENTITY:
        return x;
    case CUDNN_POINTWISE_GEN_INDEX:
        return (double)index;
    case CUDNN_POINTWISE_CMP_GE:
        return x >= b;
    case CUDNN_POINTWISE_CMP_GT:
        return x > b;
    default:
        CHECK(mode == CUDNN_POINTWISE_BINARY_SELECT);
        return t != 0 ? x : b;
    }
}

static void pointwise(const struct descriptor *operation)
{
    const struct descriptor *how = descriptor_at(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
    struct descriptor *x = operand(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    struct descriptor *b = operand(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    struct descriptor *t = operand(operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    struct descriptor *y = result(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
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

// A sum as an engine holds it, of 15 bits and not f32's 24: then its order shows in bf16 after few terms, as there
// after many.
static double partial_sum(double x)
{
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits = (bits + 0x100) & ~(uint32_t)0x1ff;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static bool is_reshaped(const struct descriptor *graph, const struct descriptor *t)
{
    const struct descriptor *operation;
    for (size_t i = 0; (operation = descriptor_at(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i)); i++)
        if (operation->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR &&
            descriptor_at(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, 0) == t)
            return true;
    return false;
}

// dQ = dS K, K of which was turned for the scores.
static bool is_query_gradient(const struct descriptor *graph, const struct descriptor *operation)
{
    return operation->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR &&
           is_reshaped(graph, descriptor_at(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, 0));
}

// Heads of b are shared by as many heads of a as there are for each. A result in f32 that is no intermediate is
// cleared, as engines do since cuDNN 9.6 (cudnn-frontend does it before that), and added to in f32: from many
// blocks at once, in an engine, and so in no fixed order; here the order changes from run to run. So does that of
// any dQ, unless the engine is deterministic.
static void matmul(const struct descriptor *operation)
{
    struct descriptor *a = operand(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
    struct descriptor *b = operand(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    struct descriptor *c = result(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    int64_t batch = dim(c, 0), heads = dim(c, 1), rows = dim(c, 2), cols = dim(c, 3), inner = dim(a, 3);
    static uint64_t runs;
    bool added = is_query_gradient(running->graph, operation) && !running->deterministic;
    bool reversed = added && (++runs * 0x9e3779b97f4a7c15u) >> 63; // no period that a step could have
    CHECK(dim(a, 1) == heads && heads % dim(b, 1) == 0 && dim(a, 2) == rows && dim(b, 2) == inner &&
          dim(b, 3) == cols && dim(a, 0) == batch && dim(b, 0) == batch);
    for (int64_t z = 0; z < batch * heads; z++) {
        int64_t shared = z / heads * dim(b, 1) + z % heads / (heads / dim(b, 1));
        const double *pa = a->values + z * rows * inner, *pb = b->values + shared * inner * cols;
        double *pc = c->values + z * rows * cols;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t step = 0; step < inner; step++) {
                int64_t k = reversed ? inner - 1 - step : step;
                for (int64_t j = 0; j < cols; j++) {
                    double sum = pc[i * cols + j] + pa[i * inner + k] * pb[k * cols + j];
                    pc[i * cols + j] = added ? partial_sum(sum) : sum;
                }
            }
    }
    finish(c);
}

// Over the last dimension, or over the heads that share one.
static void reduction(const struct descriptor *operation)
{
    const struct descriptor *how = descriptor_at(operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, 0);
    struct descriptor *x = operand(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    struct descriptor *y = result(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    bool largest = int_at(how, CUDNN_ATTR_REDUCTION_OPERATOR) == CUDNN_REDUCE_TENSOR_MAX;
    CHECK(largest || int_at(how, CUDNN_ATTR_REDUCTION_OPERATOR) == CUDNN_REDUCE_TENSOR_ADD);
    int64_t group = dim(x, 1) / dim(y, 1), at[4];
    size_t next = 0;
    for (size_t i = 0; largest && i < elements(y); i++)
        y->values[i] = -INFINITY;
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

static void transpose(const struct descriptor *operation)
{
    struct descriptor *x = operand(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    struct descriptor *y = result(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    int64_t rows = dim(x, 2), cols = dim(x, 3);
    CHECK(dim(y, 2) == cols && dim(y, 3) == rows);
    for (int64_t z = 0; z < dim(x, 0) * dim(x, 1); z++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++)
                y->values[(z * cols + j) * rows + i] = x->values[(z * rows + i) * cols + j];
    finish(y);
}

// ---- what is stored

// The tensors of an operation.
static const struct {
    int name;
    bool written;
} sides[] = {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, false}, {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, false},
             {CUDNN_ATTR_OPERATION_POINTWISE_TDESC, false}, {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, true},
             {CUDNN_ATTR_OPERATION_MATMUL_ADESC, false},    {CUDNN_ATTR_OPERATION_MATMUL_BDESC, false},
             {CUDNN_ATTR_OPERATION_MATMUL_CDESC, true},     {CUDNN_ATTR_OPERATION_REDUCTION_XDESC, false},
             {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, true},  {CUDNN_ATTR_OPERATION_RESHAPE_XDESC, false},
             {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, true}};
enum { SIDES = sizeof sides / sizeof *sides };

static bool is_result(const struct descriptor *graph, const struct descriptor *t)
{
    const struct descriptor *operation;
    for (size_t i = 0; (operation = descriptor_at(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i)); i++) {
        for (size_t j = 0; j < SIDES; j++)
            if (sides[j].written && descriptor_at(operation, sides[j].name, 0) == t)
                return true;
    }
    return false;
}

// Bytes that an engine of several kernels writes and reads again: results that the next kernel reads, products to
// be summed over heads, and a deterministic engine's dS; other virtual tensors live in registers. Operands do not
// count.
static size_t stored_bytes(const struct descriptor *graph, bool deterministic)
{
    size_t bytes = 0;
    const struct descriptor *operation;
    for (size_t i = 0; (operation = descriptor_at(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i)); i++) {
        bool sums_heads = operation->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR &&
                          dim(descriptor_at(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, 0), 1) !=
                              dim(descriptor_at(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, 0), 1);
        bool kept = deterministic && is_query_gradient(graph, operation);
        for (size_t j = 0; j < SIDES; j++) {
            const struct descriptor *t = descriptor_at(operation, sides[j].name, 0);
            if (!t || !is_result(graph, t))
                continue;
            bool is_virtual = bool_at(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
            size_t times = sides[j].written ? !is_virtual : !is_virtual ? 1 : sums_heads ? 2 : 0;
            times += kept && sides[j].name == CUDNN_ATTR_OPERATION_MATMUL_ADESC ? 2 : 0;
            bytes += times * elements(t) * (int_at(t, CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_BFLOAT16 ? 2 : 4);
        }
    }
    return bytes;
}

// ---- what is bound

static bool is_backward(const struct descriptor *graph)
{
    const struct descriptor *operation;
    bool backward = false;
    for (size_t i = 0; (operation = descriptor_at(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i)); i++)
        backward |= operation->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
    return backward;
}

// NULL: the graph is no backward, or has an accumulator of dQ.
static const struct descriptor *kept_scores(const struct descriptor *graph)
{
    const struct descriptor *operation;
    for (size_t i = 0; (operation = descriptor_at(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i)); i++) {
        if (is_query_gradient(graph, operation)) {
            const struct descriptor *c = descriptor_at(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, 0);
            return int_at(c, CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_BFLOAT16
                       ? descriptor_at(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, 0)
                       : NULL;
        }
    }
    return NULL;
}

bool graph_keeps_scores(const struct descriptor *graph)
{
    return kept_scores(graph);
}

static size_t whole_tiles(int64_t rows)
{
    return (size_t)(rows + CUDA_ATTENTION_TILE - 1) / CUDA_ATTENTION_TILE * CUDA_ATTENTION_TILE;
}

size_t graph_workspace(const struct descriptor *graph, bool deterministic)
{
    const struct descriptor *kept = deterministic ? kept_scores(graph) : NULL;
    size_t bytes = is_backward(graph) ? BACKWARD_WORKSPACE_BYTES : FORWARD_WORKSPACE_BYTES;
    return kept ? bytes + 2 * (size_t)(dim(kept, 0) * dim(kept, 1)) * whole_tiles(dim(kept, 2)) *
                              whole_tiles(dim(kept, 3))
                : bytes;
}

// Engines take heads of whole 16 bytes, up to 256 numbers, but backward only on 9.0, elsewhere 128; no number by
// value as a first operand; a backward's read beyond the last query unless it ends a tile, and without a mask
// beyond the last key.
static void check_engine(const struct descriptor *graph)
{
    bool masked = false;
    int64_t keys = 0, queries = 0, longest = !is_backward(graph) || emulator_capability() == 90 ? 256 : 128;
    const struct descriptor *operation;
    for (size_t i = 0; (operation = descriptor_at(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i)); i++) {
        if (operation->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR && keys == 0) {
            int64_t head_dim = dim(descriptor_at(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, 0), 3);
            CHECK(head_dim % 8 == 0 && head_dim <= longest);
            queries = dim(descriptor_at(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, 0), 2);
            keys = dim(descriptor_at(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, 0), 3);
        }
        if (operation->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) {
            const struct descriptor *how =
                descriptor_at(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
            masked |= int_at(how, CUDNN_ATTR_POINTWISE_MODE) == CUDNN_POINTWISE_GEN_INDEX;
            CHECK(!bool_at(descriptor_at(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, 0),
                           CUDNN_ATTR_TENSOR_IS_BY_VALUE));
        }
    }
    CHECK(!is_backward(graph) || queries % CUDA_ATTENTION_TILE == 0);
    CHECK(!is_backward(graph) || masked || keys % CUDA_ATTENTION_TILE == 0);
}

// The memory of a tensor that is bound, [first, last).
struct range {
    const struct descriptor *tensor; // NULL: the engine's workspace
    const char *first, *last;
    bool written;
};

static struct range range_of(const struct descriptor *t, bool written)
{
    int64_t last = 0, element = int_at(t, CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_BFLOAT16 ? 2 : 4;
    for (size_t i = 0; i < 4; i++)
        last += (dim(t, i) - 1) * int64_at(t, CUDNN_ATTR_TENSOR_STRIDES, i);
    struct range range = {t, bound(t), NULL, written};
    range.last = range.first + (last + 1) * element;
    CHECK((uintptr_t)range.first % (uintptr_t)int64_at(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0) == 0);
    return range;
}

static void read_scalar(const struct descriptor *t)
{
    int64_t id = int64_at(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
    for (size_t i = 0; i < (size_t)find_attribute(&running->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)->count; i++) {
        if (int64_at(&running->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, i) == id) {
            memcpy(running->scalars[i], descriptor_at(&running->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, i),
                   sizeof running->scalars[i]);
        }
    }
}

static void check_ranges(const struct range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        CHECK((size_t)(ranges[i].last - ranges[i].first) <= emulator_room(ranges[i].first));
        for (size_t j = 0; j < i; j++) {
            CHECK(ranges[i].tensor == ranges[j].tensor || !(ranges[i].written || ranges[j].written) ||
                  ranges[i].last <= ranges[j].first || ranges[j].last <= ranges[i].first);
        }
    }
}

struct execution *graph_ask(struct descriptor *graph, const struct descriptor *pack, bool deterministic)
{
    struct range ranges[256];
    size_t count = 0;
    const struct descriptor *operation;
    check_engine(graph);
    running = calloc(1, sizeof *running);
    CHECK(running);
    running->graph = graph;
    running->deterministic = deterministic;
    running->pack = *pack;
    for (size_t i = 0; (operation = descriptor_at(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i)); i++) {
        for (size_t j = 0; j < SIDES; j++) {
            const struct descriptor *t = descriptor_at(operation, sides[j].name, 0);
            if (t && bool_at(t, CUDNN_ATTR_TENSOR_IS_BY_VALUE)) {
                read_scalar(t);
            } else if (t && !bool_at(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL)) {
                CHECK(count < sizeof ranges / sizeof *ranges);
                ranges[count++] = range_of(t, sides[j].written);
            }
        }
    }
    const char *engine = (const char *)descriptor_at(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 0);
    CHECK(count < sizeof ranges / sizeof *ranges);
    ranges[count++] = (struct range){NULL, engine, engine + graph_workspace(graph, deterministic), true};
    check_ranges(ranges, count);
    graph->pending++;
    struct execution *asked = running;
    running = NULL;
    return asked;
}

void graph_run(void *execution)
{
    const struct descriptor *operation;
    running = execution;
    for (size_t i = 0; (operation = descriptor_at(running->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i)); i++) {
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
    for (size_t i = 0; (operation = descriptor_at(running->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i)); i++) {
        for (size_t j = 0; j < SIDES; j++) {
            struct descriptor *t = descriptor_at(operation, sides[j].name, 0);
            if (t) {
                free(t->values);
                t->values = NULL;
            }
        }
    }
    emulator_count(stored_bytes(running->graph, running->deterministic));
    memset(descriptor_at(&running->pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 0), 0xff,
           graph_workspace(running->graph, running->deterministic));
    running->graph->pending--;
    free(running);
    running = NULL;
}
