// Attention graph: attention's forward or backward for one shape in cuDNN's backend API: matrix products,
// reductions and pointwise operations that its engines recognise as a whole.
#pragma once
#include "kernels/base/status.h"
#include <cudnn.h>
#include <stdint.h>

// Identifiers of bound tensors, and scalars by value. Q, O and their gradients, K, V and theirs, and the forward's
// STATS (logsumexp) are time-major: row t * stride + b, of heads (* head_dim), is token t of sequence b. Tensors of
// the backward alone, and its STATS, are packed [batch, heads, queries (, head_dim)]: engines accept other strides
// but ignore them. Intermediates are numbered from INTERMEDIATE on.
enum { Q = 1, K, V, O, STATS, GRAD_O, GRAD_Q, GRAD_K, GRAD_V, DELTA, ACCUMULATOR, BOUND, INTERMEDIATE = 100 };
enum { SCALE = BOUND, ONE, MASKED, KEYS, QUERIES, LEFT, LEFT_MASKED, CAP, INVERSE_CAP, SCALARS_END };

// Queries against keys, with or without the causal mask and a left bound: query i sees no key below i + 1 - LEFT.
// deterministic: a backward with the same bits in every run. every_head: gradients of K and V have Q's heads and
// are not summed over those that share one of K. capped: scores are CAP tanh(INVERSE_CAP s) before the masks. All
// members have one type, so that shapes compare as bytes.
struct attention_graph_shape {
    int64_t backward, causal, windowed, capped, deterministic, every_head, queries, keys, batch, heads, kv_heads,
        head_dim;
    int64_t q_stride, o_stride, k_stride; // rows per token: of Q and of O (the backward's are one), of K and V
};

// The card to run on. handle NULL: a card described by properties, which cannot run. planned: compiles anyway,
// which needs a driver or a stub.
struct attention_graph_target {
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t properties;
    bool planned;
    bool heuristic_only; // asks the heuristic only, and compiles nothing
};

enum { DESCRIPTORS_MAX = 256, OPERATIONS_MAX = 40 };
struct attention_graph {
    struct attention_graph_shape shape;
    cudnnBackendDescriptor_t owned[DESCRIPTORS_MAX], operations[OPERATIONS_MAX], plan;
    size_t owned_count, operation_count;
    int64_t next_intermediate, engine_bytes, engine; // engine: its index in the heuristic's list
    struct status status;
};

// Builds the graph with the first engine of the heuristic's list whose workspace is at most `max` bytes and which
// is deterministic if the shape is (no CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC), compiled for this shape. Returns
// NULL and a status if there is none (unsupported, or failed if a suitable engine cannot be prepared). Release with
// attention_graph_free.
struct attention_graph *attention_graph_build(struct attention_graph_shape shape,
                                              const struct attention_graph_target *target, int64_t max,
                                              struct status *status);
void attention_graph_free(struct attention_graph *graph);
