// Attention written out: which keys a query sees, a softmax over them, and its gradients, in f64.
#pragma once
#include "tests/cases/cases.h"

enum { SEGMENTS_MAX = 40 };

struct keys {
    size_t start, count;
};

// Masks beyond causality: a window, and documents. All documents have this length, except the first of a sequence,
// which is shorter with every sequence, or, if the others continue it, as long as the prefix. The last has no
// effect.
struct masking {
    size_t window, document, prefix; // 0: none
};

// One attention: its operands, and the reference's results in f64.
struct attention {
    struct attention_shape s;
    struct masking mask;
    size_t rows, keys, q_cols, o_cols, k_cols, v_cols, segment_count;
    struct keys segments[SEGMENTS_MAX];
    struct operand *q, *k, *v, *o, *logsumexp, *grad_o, *grad_q;
    struct operand *grad_k[SEGMENTS_MAX], *grad_v[SEGMENTS_MAX];
    int32_t *starts, *prefixes;
};

// The first token of the document of a sequence's token, and what of a sequence is a prefix.
size_t masking_prefix(struct masking m, size_t sequence);
size_t masking_start(struct masking m, size_t token, size_t sequence);
// Whether every query sees a key: where one does not, the others' gradients alone are defined.
bool masking_is_seeing(struct attention_shape s, struct masking m);
// o and logsumexp, [rows, o_cols] and [rows, heads].
void attention_forward_reference(const struct attention *a, double *o, double *logsumexp);
// The gradients of all: grad_q of [rows, q_cols], grad_k of [keys, k_cols], grad_v of [keys, v_cols], which are 0
// before.
void attention_backward_reference(const struct attention *a, double *grad_q, double *grad_k, double *grad_v);
