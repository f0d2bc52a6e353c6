// KV store: keys and values of some layers, and their gradients, from the first chunk that writes them to the last
// that reads them. On the device they lie as they are; what lies on the host comes into one of two buffers before
// its layer is used, the next layer's while one is; of one layer alone into one.
#pragma once
#include "kernels/layers/cell.h"
#include "kernels/offload/double_buffer.h"

struct kv_store {
    struct model *model;
    size_t first, end;            // layers
    enum place place, grad_place; // of keys and values; of their gradients
    struct kv *kv, *grad;         // [layers], where they lie: [rows, G D] each
    struct double_buffer buffers;
    struct kv near[2], near_grad[2]; // [buffers]
};

// What of a layer is prefetched: its first rows. fresh: the gradients have not been written yet, and are 0.
struct kv_prefix {
    size_t kv, grad;
    bool fresh;
};

// A layer in use: tensors on the device.
struct kv_layer {
    struct kv kv, grad;
};

// Of layers [first, end), so many rows of keys and values. Release with kv_store_close.
void kv_store_open(struct kv_store *store, struct model *model, size_t first, size_t end, enum place place,
                   size_t rows);
// And their gradients; on the device they are 0.
void kv_store_open_gradients(struct kv_store *store, enum place place, size_t rows);
// A layer is acquired next: while the one before it, which has been acquired, is used; nothing is read or offloaded
// any more of the one before that.
void kv_store_prefetch(struct kv_store *store, size_t layer, struct kv_prefix prefix);
struct kv_layer kv_store_acquire(struct kv_store *store, size_t layer, struct kv_prefix prefix);
// Of the layer acquired last, rows [row, row + rows) of the keys and values have been written; and the first rows
// of their gradients.
void kv_store_offload(struct kv_store *store, size_t layer, size_t row, size_t rows);
void kv_store_offload_gradients(struct kv_store *store, size_t layer, size_t rows);
void kv_store_close(struct kv_store *store);
