// Attention graph: one shape of attention's forward or backward as cuDNN's backend API wants it said: matrix
// products, reductions and pointwise operations that its engines recognise as a whole.
#pragma once
#include "kernels/base/status.h"
#include <cudnn.h>
#include <stdint.h>

// What a caller binds: tensors, and scalars by value. Q, O and their gradients, and the forward's STATS
// (logsumexp): time-major, row t * stride + b, of heads (* head_dim), is token t of sequence b; K, V and their
// gradients alike. What only the backward has, its STATS too, is packed [batch, heads, queries (, head_dim)]:
// engines take other strides of these and ignore them. Intermediates are numbered from INTERMEDIATE on.
enum { Q = 1, K, V, O, STATS, GRAD_O, GRAD_Q, GRAD_K, GRAD_V, DELTA, ACCUMULATOR, BOUND, INTERMEDIATE = 100 };
enum { SCALE = BOUND, ONE, MASKED, KEYS, QUERIES, LEFT, LEFT_MASKED, SCALARS_END };

// Queries against keys, with or without the causal mask, and with or without a left bound: query i sees no key
// below i + 1 - LEFT. deterministic: a backward whose engine has the same bits in every run. every_head: gradients
// of K and V have the heads of Q, and are not summed over those that share one of K. All of one type: compared as
// bytes.
struct attention_graph_shape {
    int64_t backward, causal, windowed, deterministic, every_head, queries, keys, batch, heads, kv_heads, head_dim;
    int64_t q_stride, o_stride, k_stride; // rows per token: of Q and of O (the backward's are one), of K and V
};

// Where it is to run. handle NULL: on a card that is only described, by properties; then it cannot run. planned: it
// is made ready all the same, which needs a driver, or what stands in for one.
struct attention_graph_target {
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t properties;
    bool planned;
    bool heuristic_only; // nor is it made ready where it could run
};

enum { DESCRIPTORS_MAX = 256, OPERATIONS_MAX = 40 };
struct attention_graph {
    struct attention_graph_shape shape;
    cudnnBackendDescriptor_t owned[DESCRIPTORS_MAX], operations[OPERATIONS_MAX], plan;
    size_t owned_count, operation_count;
    int64_t next_intermediate, engine_bytes, engine; // engine: its place in the heuristic's list
    struct status status;
};

// With the first engine of the heuristic's list that takes at most `most` bytes of workspace, and is deterministic
// where the shape is (its notes do not say CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC), compiled for this shape alone.
// NULL and a status (unsupported, or failed where an engine would fit but cannot be made ready) if there is none.
// Release with attention_graph_free.
struct attention_graph *attention_graph_build(struct attention_graph_shape shape,
                                              const struct attention_graph_target *target, int64_t max,
                                              struct status *status);
void attention_graph_free(struct attention_graph *graph);
