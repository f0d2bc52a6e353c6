// Attention by cuDNN, a graph per shape; none of the intermediate [heads, queries, keys] is ever stored.
//
// Forward, unmasked: queries against all keys, bottom-right causal, where query i sees keys 0 .. keys - queries +
// i, or without a mask: O = softmax(S) V, with the logsumexp as second output. Many keys are cut into ranges
// (cuda_attention_next_forward). The parts of a range are sequences of cuDNN's batch, each with a copy of the
// queries, because cuDNN assigns each head's tile of 128 queries to one multiprocessor, however many keys it sees.
// Part p has keys p, p + parts, ...: parts and sequences together are then a tensor of rows of K.
//
// Backward, and a masked forward: in blocks (cuda_attention_next_block) of up to CUDA_ATTENTION_QUERIES queries of
// one document, against the keys that the last query sees: unmasked rectangles of at most CUDA_ATTENTION_KEYS, then
// a bottom-right causal block; or, under a window, the window's keys with a left bound; or the keys that all
// queries see and that fill no tile. Documents that continue a prefix see it in rectangles of several documents'
// queries. The logsumexp is over all keys, so P = exp(S - logsumexp) of a block of keys is exact by itself, and so
// is delta = rowsum(dO * O). Each block's dQ, dK and dV are written in bf16 and added in f32: dQ sum += dQ block;
// grad_k[keys of a segment] += dK block[those rows], likewise grad_v. dQ sum is rounded once, at the end. dK and dV
// of keys outside every segment are computed and dropped, because cuDNN has no engine without them; they cost time
// (10/6 of dQ alone), but no memory. The forward's blocks are combined by their logsumexps, as in attention_merge.
//
// A deterministic backward's graph has no accumulator of dQ, to which thread blocks add in no order: an engine
// keeps the block's dS in its workspace and multiplies it by K in a separate kernel (cudnn-frontend builds it like
// this on sm_90 and calls it deterministic). Its blocks have at most CUDA_ATTENTION_QUERIES keys, which bounds dS.
// Engines whose notes say that they are nondeterministic are skipped; cuDNN 9.19 has no such notes, not even for
// engines with an accumulator. Without a suitable engine, and on other cards, our own kernels run.
//
// If query heads share key heads, an engine writes dK and dV of every query head; one pass adds them to the
// segments and sums over heads in f32. A graph that reduces them (`unfused`) writes, reads and rounds them once
// more. In a rectangle, whose rows have equal masks, the heads that share a key head become rows instead: q, o, dO
// and the logsumexp are folded once for all rectangles of a block of queries, and dQ sum is unfolded when it is
// rounded. In a causal block rows have different masks, so heads stay heads; it runs last, when the folded copies
// are no longer needed and their memory is free.
//
// A backward has whole tiles of queries. An engine reads to the end of its tile: the rows after the last query
// score 0 there, with the next head's logsumexp; one below -88 makes their P infinite and, times a dO of 0, NaN.
// The last tile is therefore filled with other queries, whose logsumexp is so large that P and all contributions
// are 0: the following tokens, of the next document, whose keys the block's own queries do not see, or preceding
// ones. The forward's results of such rows are discarded.
//
// A backward's rectangles have whole tiles of keys; the rest belongs to the causal block, whose mask hides what
// follows the last key, or to our own kernels. Before 9.26 cuDNN reads beyond a rectangle's last key on sm_90 and
// produces NaN if a logsumexp is below -88 (cudnn-frontend, pull request 628), and on sm_80 assumes that the
// backward's logsumexp is packed, whatever its strides (pull request 304); the forward honours its strides since
// 9.12 (pull request 1023). cuDNN clears the accumulator of dQ since 9.6; before that cudnn-frontend does, in
// collect_tensors_in_workspace_node of node/scaled_dot_product_flash_attention.h.
//
// Compiling an engine for a shape takes cuDNN time, for a forward some 0.05 s beside an H200, during the first
// step, and some 0.1 MiB of memory outside the arena. A cache of kernels for graphs of dynamic shape could share
// compiled engines, but cuDNN 9.19 on an H200 then ran all shapes with the sizes of the first, without an error. An
// unmasked forward has as many shapes as there are chunks, until keys are cut: then ranges are powers of two, and
// their remainders take eight values if the chunk is a power of two, and never more than the shortest range has
// tokens. Blocks have few shapes for any documents: whole tiles of queries, CUDA_ATTENTION_TILE times powers of two
// of a rectangle's keys, and square causal blocks, except the first of a document that began in an earlier chunk.
// All devices of a process on one card share the engines.
#include "kernels/cuda/plugin/attention_cudnn.h"
#include "kernels/cuda/kernels/attention_blocks.h"
#include "kernels/cuda/kernels/check.h"
#include "kernels/cuda/plugin/attention_engines.h"
#include "kernels/cuda/plugin/backend.h"
#include "kernels/cuda/workspace.h"
#include "kernels/device/observer.h"
#include <float.h>
#include <math.h>
#include <string.h>

// ---- running a graph

// Pointers by identifier; NULL: not in this graph.
struct binding {
    void *tensors[BOUND];
};

static bool run(struct device *device, struct attention_graph *graph, const struct binding *binding, size_t left,
                double soft_cap, void *engine)
{
    float scale = (float)(1 / sqrt((double)graph->shape.head_dim)), one = 1, masked = -FLT_MAX;
    float left_bound = (float)left, left_masked = -0x1p30f;
    float cap = (float)soft_cap, inverse_cap = (float)(1 / soft_cap);
    int32_t keys = (int32_t)graph->shape.keys, queries = (int32_t)graph->shape.queries;
    int64_t ids[SCALARS_END], count = 0;
    void *pointers[SCALARS_END];
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
                   {QUERIES, &queries, graph->shape.causal},
                   {LEFT, &left_bound, graph->shape.windowed},
                   {LEFT_MASKED, &left_masked, graph->shape.windowed},
                   {CAP, &cap, graph->shape.capped},
                   {INVERSE_CAP, &inverse_cap, graph->shape.capped}};
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
    if (pack)
        cudnnBackendDestroyDescriptor(pack);
    return done;
}

// ---- the forward

static struct attention_graph_shape graph_shape(struct attention_shape s, bool causal, size_t q_stride,
                                                size_t o_stride, size_t k_stride)
{
    return (struct attention_graph_shape){.causal = causal,
                                          .capped = s.cap > 0,
                                          .queries = (int64_t)s.queries,
                                          .keys = (int64_t)s.keys,
                                          .batch = (int64_t)s.batch,
                                          .heads = (int64_t)s.heads,
                                          .kv_heads = (int64_t)s.kv_heads,
                                          .head_dim = (int64_t)s.head_dim,
                                          .q_stride = (int64_t)q_stride,
                                          .o_stride = (int64_t)o_stride,
                                          .k_stride = (int64_t)k_stride};
}

// Rows of a block's first sequence from token `token` on, in an operand with `stride` rows per token.
static struct tensor tokens_of(struct tensor t, size_t token, size_t tokens, size_t stride, size_t sequence)
{
    struct tensor rows = tensor_rows(t, token * stride, tokens * stride);
    rows.data = (char *)rows.data + sequence * t.cols * dtype_bytes(t.dtype);
    return rows;
}

static bool is_causal(const struct cuda_attention_block *b)
{
    return b->kind == ATTENTION_CAUSAL || b->kind == ATTENTION_WINDOW;
}

struct forward {
    struct device *device;
    struct attention_shape shape;
    struct tensor o, logsumexp, q, k, v;
};

static size_t parts_of(const struct cuda_attention_block *b)
{
    return b->parts > 1 ? b->parts : 1;
}

// Part p has keys j * parts + p: its sequence b is sequence p * batch + b of a tensor with that many rows per
// token.
static struct attention_graph *forward_graph(struct attention_engines *engines, struct attention_shape shape,
                                             const struct cuda_attention_block *b, struct status *status)
{
    struct attention_shape s = shape;
    size_t parts = parts_of(b), stride = shape.batch * parts;
    s.queries = b->rows, s.keys = b->keys / parts, s.batch = b->sequences * parts;
    struct attention_graph_shape graph =
        graph_shape(s, is_causal(b), stride, cuda_attention_is_merged(b) ? s.batch : shape.batch, stride);
    graph.windowed = b->kind == ATTENTION_WINDOW;
    return attention_engines_graph(engines, graph, CUDA_ATTENTION_FORWARD_BYTES, status);
}

// Scratch after the engine's part of the workspace: outputs of a block that is merged, and the queries of each
// part.
struct scratch {
    struct tensor o, logsumexp, q;
};
static struct scratch scratch_of(const struct forward *f, const struct cuda_attention_block *b)
{
    size_t rows = b->rows * b->sequences * parts_of(b);
    struct scratch scratch = {.o = {.dtype = DTYPE_BF16, .rows = rows, .cols = f->q.cols},
                              .logsumexp = {.dtype = DTYPE_F32, .rows = rows, .cols = f->shape.heads},
                              .q = {.dtype = DTYPE_BF16, .rows = b->parts > 1 ? rows : 0, .cols = f->q.cols}};
    char *workspace = cuda_workspace(f->device, cuda_stream(f->device));
    scratch.o.data = workspace + CUDA_ATTENTION_FORWARD_BYTES;
    scratch.logsumexp.data = (char *)scratch.o.data + arena_rounded(tensor_bytes(scratch.o));
    scratch.q.data = (char *)scratch.logsumexp.data + arena_rounded(tensor_bytes(scratch.logsumexp));
    CHECK((char *)scratch.q.data + tensor_bytes(scratch.q) <= workspace + CUDA_WORKSPACE_BYTES);
    return scratch;
}

static bool forward_block(const struct forward *f, const struct cuda_attention_block *b)
{
    struct device *device = f->device;
    bool own = b->kind == ATTENTION_UNTILED, merged = cuda_attention_is_merged(b);
    size_t stride = f->shape.batch, skipped = own ? 0 : b->query - b->row;
    size_t row = own ? b->query : b->row, run_rows = own ? b->queries : b->rows;
    struct tensor o = tokens_of(f->o, row, run_rows, stride, b->sequence);
    struct tensor logsumexp = tokens_of(f->logsumexp, row, run_rows, stride, b->sequence);
    struct tensor q = tokens_of(f->q, row, run_rows, stride, b->sequence);
    struct tensor k = tokens_of(f->k, b->key, b->keys, stride, b->sequence);
    struct tensor v = tokens_of(f->v, b->key, b->keys, stride, b->sequence);
    struct scratch scratch = {.o = o, .logsumexp = logsumexp};
    struct attention_shape rows = f->shape;
    rows.queries = b->queries, rows.batch = b->sequences;
    if (merged)
        scratch = scratch_of(f, b);
    if (b->parts > 1) {
        if (!b->prepared)
            cuda_repeat_rows(device, scratch.q, q, rows, b->parts);
        q = scratch.q;
    }
    if (own) {
        attention_own_forward_rows(device, cuda_attention_block_shape(f->shape, b), stride,
                                   merged ? b->sequences : stride, scratch.o, scratch.logsumexp, q, k, v);
    } else {
        struct attention_graph *graph = forward_graph(backend(device)->engines, f->shape, b, &device->status);
        struct binding binding = {
            .tensors = {
                [Q] = q.data, [K] = k.data, [V] = v.data, [O] = scratch.o.data, [STATS] = scratch.logsumexp.data}};
        size_t left = b->kind == ATTENTION_WINDOW ? cuda_attention_left_bound(f->shape, b) : 0;
        if (!graph ||
            !run(device, graph, &binding, left, f->shape.cap, cuda_workspace(device, cuda_stream(device))))
            return false;
    }
    if (merged) {
        size_t token = b->sequences * parts_of(b);
        cuda_merge_rows(device, tensor_rows(o, skipped * stride, b->queries * stride),
                        tensor_rows(logsumexp, skipped * stride, b->queries * stride),
                        tensor_rows(scratch.o, skipped * token, b->queries * token),
                        tensor_rows(scratch.logsumexp, skipped * token, b->queries * token), rows, stride,
                        parts_of(b), b->first);
    }
    return device->status.code == STATUS_OK;
}

void attention_cudnn_forward(struct device *device, struct attention_shape shape, struct tensor o,
                             struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v)
{
    const struct forward f = {device, shape, o, tensor_reshape(logsumexp, q.rows, shape.heads), q, k, v};
    for (struct cuda_attention_block b = {0};
         cuda_attention_next_forward(device, shape, &b) && forward_block(&f, &b);) {
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

// Tensors of a block: inputs and outputs of its graph, and dQ summed over the rectangles.
struct block_tensors {
    struct tensor q, o, grad_o, logsumexp, grad_q, grad_k, grad_v, grad_q_sum;
};

// Limits the workspace to the block's need, although its graph serves other shapes too.
static struct attention_graph *block_graph(struct attention_engines *engines, struct attention_shape shape,
                                           const struct cuda_attention_block *b, struct status *status)
{
    size_t q_stride = cuda_attention_is_folded(shape, b) ? b->sequences : shape.batch;
    struct attention_graph_shape graph =
        graph_shape(cuda_attention_block_shape(shape, b), is_causal(b), q_stride, q_stride, shape.batch);
    graph.backward = true;
    graph.deterministic = b->deterministic;
    graph.every_head = cuda_attention_has_every_head(shape, b);
    graph.windowed = b->kind == ATTENTION_WINDOW;
    return attention_engines_graph(engines, graph, cuda_attention_engine_bytes(shape, b), status);
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
    return tokens_of(queries, b->row, b->rows, a->shape.batch, b->sequence);
}

// The rows whose results are used.
static struct tensor taken_of(const struct backward *a, struct tensor queries, const struct cuda_attention_block *b)
{
    return tokens_of(queries, b->query, b->queries, a->shape.batch, b->sequence);
}

static struct block_tensors tensors_of(const struct backward *a, const struct cuda_attention_block *b)
{
    const struct cuda_attention_part *own = b->kind == ATTENTION_RECTANGLE ? &a->at.rectangle : &a->at.masked;
    bool folded = cuda_attention_is_folded(a->shape, b), rectangle = b->kind == ATTENTION_RECTANGLE;
    size_t group = rectangle ? a->shape.heads / a->shape.kv_heads : 1, cols = a->q.cols / group;
    size_t rows = b->rows * group * b->sequences, keys = b->keys * b->sequences;
    size_t written = b->rows * group * (folded ? b->sequences : a->shape.batch); // rows of dQ
    size_t key_cols = cuda_attention_has_every_head(a->shape, b) ? a->q.cols : a->k.cols;
    size_t summed = (b->base_end > b->base ? b->base_end : b->query + b->queries) - b->base;
    group = a->shape.heads / a->shape.kv_heads;
    return (struct block_tensors){
        .q = folded ? part(a, a->at.q, DTYPE_BF16, rows, cols) : rows_of(a, a->q, b),
        .o = folded ? part(a, a->at.o, DTYPE_BF16, rows, cols) : rows_of(a, a->o, b),
        .grad_o = folded ? part(a, a->at.grad_o, DTYPE_BF16, rows, cols) : rows_of(a, a->grad_o, b),
        .logsumexp = part(a, a->at.logsumexp, DTYPE_F32, rows, a->shape.heads),
        .grad_q = part(a, a->at.grad_q, DTYPE_BF16, written, cols),
        .grad_k = part(a, own->grad_k, DTYPE_BF16, keys, key_cols),
        .grad_v = part(a, own->grad_v, DTYPE_BF16, keys, key_cols),
        .grad_q_sum =
            tensor_rows(part(a, a->at.grad_q_sum, DTYPE_F32, summed * group * b->sequences, a->q.cols / group),
                        (b->query - b->base) * group * b->sequences, b->queries * group * b->sequences),
    };
}

// Prepares the inputs of the block's graph, once for all rectangles of the same queries.
static void prepare(const struct backward *a, const struct cuda_attention_block *b, const struct block_tensors *t)
{
    struct attention_shape s = a->shape;
    size_t first = b->query - b->row;
    if (b->prepared)
        return;
    s.queries = b->rows, s.batch = b->sequences;
    if (cuda_attention_is_folded(a->shape, b)) {
        cuda_fold(a->device, (struct tensor[]){t->q, t->o, t->grad_o},
                  (struct tensor[]){rows_of(a, a->q, b), rows_of(a, a->o, b), rows_of(a, a->grad_o, b)}, s,
                  a->shape.batch);
    }
    s.kv_heads = b->kind == ATTENTION_RECTANGLE ? s.kv_heads : s.heads;
    cuda_fold_logsumexp(a->device, t->logsumexp, rows_of(a, a->logsumexp, b), s, a->shape.batch, first,
                        first + b->queries);
}

// Adds dK and dV to the segments' rows within the block.
static void add_key_gradients(const struct backward *a, const struct cuda_attention_block *b,
                              const struct block_tensors *t)
{
    size_t stride = a->shape.batch;
    for (size_t i = 0; i < a->segment_count; i++) {
        const struct key_segment *segment = &a->segments[i];
        struct cuda_key_rows within = cuda_attention_rows_within(segment, b);
        if (within.count > 0) {
            size_t to = within.first - segment->start, from = (within.first - b->key) * b->sequences;
            size_t rows = within.count * b->sequences;
            struct tensor sums[] = {tokens_of(segment->grad_k, to, within.count, stride, b->sequence),
                                    tokens_of(segment->grad_v, to, within.count, stride, b->sequence)};
            struct tensor gradients[] = {tensor_rows(t->grad_k, from, rows), tensor_rows(t->grad_v, from, rows)};
            const struct key_rounding *how = &segment->rounding;
            size_t query = a->shape.start + b->query, groups = key_rounding_groups(a->k.cols);
            uint64_t first = ((how->origin + within.first) * stride + b->sequence) * groups;
            struct bf16_rounding rounding[] = {key_rounding_of(how, how->grad_k, query, first),
                                               key_rounding_of(how, how->grad_v, query, first)};
            bool every_head = cuda_attention_has_every_head(a->shape, b);
            if (every_head || b->sequences < stride) {
                struct attention_shape s = a->shape;
                s.keys = within.count, s.batch = b->sequences;
                s.heads = every_head ? s.heads : s.kv_heads;
                cuda_add_keys(a->device, sums, gradients, rounding, s, stride);
            } else if (how->stochastic) {
                cuda_accumulate_rounded(a->device, sums, gradients, rounding);
            } else {
                cuda_accumulate_each(a->device, sums, gradients, 2);
            }
        }
    }
}

static void add_query_gradients(const struct backward *a, const struct cuda_attention_block *b,
                                const struct block_tensors *t)
{
    struct attention_shape s = a->shape;
    bool rectangle = b->kind == ATTENTION_RECTANGLE;
    size_t skipped = b->query - b->row;
    s.queries = b->queries, s.batch = b->sequences;
    if (rectangle) {
        size_t token = t->grad_q_sum.rows / b->queries;
        struct tensor grad_q = tensor_rows(t->grad_q, skipped * token, b->queries * token);
        if (b->first)
            cuda_copy(a->device, t->grad_q_sum, grad_q);
        else
            cuda_accumulate_each(a->device, &t->grad_q_sum, &grad_q, 1);
    }
    if (b->last) { // grad_q may be grad_o, whose rows are no longer needed
        size_t stride = a->shape.batch;
        struct tensor x = rectangle ? tensor_none() : tensor_rows(t->grad_q, skipped * stride, b->queries * stride);
        cuda_unfold(a->device, taken_of(a, a->grad_q, b), a->accumulate,
                    rectangle || b->summed ? t->grad_q_sum : tensor_none(), x, s, stride);
    }
}

static struct tensor keys_of(const struct backward *a, struct tensor keys, const struct cuda_attention_block *b)
{
    return tokens_of(keys, b->key, b->keys, a->shape.batch, b->sequence);
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
    if (!graph)
        return false;
    char *workspace = a->workspace.data;
    struct binding binding = {.tensors = {[Q] = t->q.data,
                                          [K] = keys_of(a, a->k, b).data,
                                          [V] = keys_of(a, a->v, b).data,
                                          [O] = t->o.data,
                                          [STATS] = t->logsumexp.data,
                                          [GRAD_O] = t->grad_o.data,
                                          [GRAD_Q] = t->grad_q.data,
                                          [GRAD_K] = t->grad_k.data,
                                          [GRAD_V] = t->grad_v.data,
                                          [DELTA] = workspace + a->at.delta,
                                          [ACCUMULATOR] = b->deterministic ? NULL : workspace + a->at.accumulator}};
    size_t engine = b->kind == ATTENTION_RECTANGLE ? a->at.rectangle.engine : a->at.masked.engine;
    size_t left = b->kind == ATTENTION_WINDOW ? cuda_attention_left_bound(a->shape, b) : 0;
    prepare(a, b, t);
    range_of_block(device);
    bool ran = run(device, graph, &binding, left, a->shape.cap, workspace + engine);
    range_pop(device);
    if (ran)
        add_key_gradients(a, b, t);
    return ran;
}

// Runs an untiled block with our own kernels. They add dK and dV to the segments directly and, if `accumulate`, dQ
// to the previous block's.
static bool run_own(const struct backward *a, const struct cuda_attention_block *b, const struct block_tensors *t,
                    bool accumulate)
{
    struct key_segment *segments = calloc(a->segment_count + 1, sizeof *segments);
    size_t count = 0, stride = a->shape.batch;
    CHECK(segments);
    for (size_t i = 0; i < a->segment_count; i++) {
        const struct key_segment *from = &a->segments[i];
        struct cuda_key_rows within = cuda_attention_rows_within(from, b);
        size_t token = within.first - from->start;
        if (within.count > 0) {
            struct key_rounding rounding = from->rounding;
            rounding.origin += b->key;
            segments[count++] =
                (struct key_segment){within.first - b->key, within.count,
                                     tokens_of(from->grad_k, token, within.count, stride, b->sequence),
                                     tokens_of(from->grad_v, token, within.count, stride, b->sequence), rounding};
        }
    }
    struct tensor grad_q = tensor_rows(t->grad_q, (b->query - b->row) * stride, b->queries * stride);
    range_of_block(a->device);
    attention_own_backward_rows(a->device, cuda_attention_block_shape(a->shape, b), stride, b->sequence, grad_q,
                                accumulate, segments, count, taken_of(a, a->grad_o, b), taken_of(a, a->o, b),
                                taken_of(a, a->logsumexp, b), taken_of(a, a->q, b), keys_of(a, a->k, b),
                                keys_of(a, a->v, b));
    range_pop(a->device);
    free(segments);
    return a->device->status.code == STATUS_OK;
}

// Runs the blocks in order until one fails.
static void run_blocks(const struct backward *a)
{
    size_t max = cuda_attention_block_queries(a->device);
    enum cuda_attention_kind before = ATTENTION_UNTILED;
    bool ended = true; // whether the previous block was the last of its queries
    for (struct cuda_attention_block b = cuda_attention_blocks(a->device);
         cuda_attention_next_block(a->shape, max, &b);) {
        struct block_tensors t = tensors_of(a, &b);
        bool accumulate = !ended && before != ATTENTION_RECTANGLE;
        if (!(b.kind == ATTENTION_UNTILED ? run_own(a, &b, &t, accumulate) : run_graph(a, &b, &t)))
            return;
        add_query_gradients(a, &b, &t);
        before = b.kind;
        ended = b.last;
    }
}

void attention_cudnn_backward(struct device *device, struct attention_shape shape, struct tensor grad_q,
                              bool accumulate, const struct key_segment *segments, size_t segment_count,
                              struct tensor grad_o, struct tensor o, struct tensor logsumexp, struct tensor q,
                              struct tensor k, struct tensor v, struct tensor workspace)
{
    struct backward a = {shape,
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
                         .at = cuda_attention_layout(device, shape),
                         .device = device};
    CHECK(a.at.bytes <= tensor_bytes(workspace));
    // All parts but the engines' own.
    range_push(device, (struct range){.level = RANGE_PART, .work = WORK_ATTENTION_GLUE, .name = "attention_glue"});
    run_blocks(&a);
    range_pop(device);
}

bool attention_cudnn_build(struct attention_engines *engines, const struct device *device,
                           struct attention_shape shape, struct status *status)
{
    bool done = true;
    if (cuda_attention_forward_by_cudnn(device, shape))
        for (struct cuda_attention_block b = {0}; done && cuda_attention_next_forward(device, shape, &b);)
            done = b.kind == ATTENTION_UNTILED || forward_graph(engines, shape, &b, status);
    if (cuda_attention_backward_by_cudnn(device, shape)) {
        size_t max = cuda_attention_block_queries(device);
        for (struct cuda_attention_block b = cuda_attention_blocks(device);
             done && cuda_attention_next_block(shape, max, &b);)
            done = b.kind == ATTENTION_UNTILED || block_graph(engines, shape, &b, status);
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
    if (graph)
        attention_graph_free(graph);
    return graph;
}

size_t attention_cudnn_library_version(void)
{
    return cudnnGetVersion();
}
