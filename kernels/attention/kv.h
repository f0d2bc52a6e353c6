// KV: keys and values of one layer, or their gradients.
#pragma once
#include "kernels/model/model.h"

// Keys after RoPE, and values: [T * B, kv_heads * head_dim] each.
struct kv {
    struct tensor k, v;
};
// Not zeroed; out of memory is in the device's status. Release with kv_free.
struct kv kv_new(struct model *model, size_t rows, enum dtype dtype, enum category category);
void kv_free(struct model *model, struct kv *kv);
// Rows [start, start + count), borrowed.
struct kv kv_rows(struct kv kv, size_t start, size_t count);
