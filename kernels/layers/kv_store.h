// KV store: the carries of some layers (of attention keys and values), and their gradients, from the first chunk
// that writes them to the last that reads them. Resident ones are used in place; offloaded ones are copied into
// one of two buffers before their layer is used, the next layer's during the present one's use; a single layer has
// one buffer.
#pragma once
#include "kernels/layers/cell.h"
#include "kernels/offload/double_buffer.h"

struct kv_store {
    struct model *model;
    size_t first, end;       // layers
    enum place place;        // of carries
    struct carry *kv, *grad; // [layers], where they lie
    struct double_buffer buffers;
    struct carry staged[2], staged_grad[2]; // [buffers], wide enough for each layer
};

// Prefetched part of a layer, in rows of tokens: those before the chunk, of whose states the last is read; and keys
// and values, and gradients, from the first on.
struct kv_prefix {
    size_t start, kv, grad;
    bool fresh;    // the gradients have not been written yet, and are 0
    bool projects; // a chunk's own carry is made, and no cell runs: keys and values to the left are not read
};

// A layer in use: tensors on the device.
struct kv_layer {
    struct carry kv, grad;
};

// The carries of layers [first, end). Release with kv_store_close.
void kv_store_open(struct kv_store *store, struct model *model, size_t first, size_t end, enum place place,
                   struct carry_size size);
// And their gradients; on the device, where those of states are in any case, they are 0. Sliding ones follow the
// chunk for which a layer is acquired.
void kv_store_open_gradients(struct kv_store *store, enum place place, struct carry_size size);
// A layer is acquired next: while the one before it, which has been acquired, is used; nothing is read or offloaded
// any more of the one before that.
void kv_store_prefetch(struct kv_store *store, size_t layer, struct kv_prefix prefix);
struct kv_layer kv_store_acquire(struct kv_store *store, size_t layer, struct kv_prefix prefix);
// Rows [row, row + rows) of tokens of the layer acquired last have been written; and the gradients of its first
// rows, of sliding ones those that are alive.
void kv_store_offload(struct kv_store *store, size_t layer, size_t row, size_t rows);
void kv_store_offload_gradients(struct kv_store *store, size_t layer, size_t rows);
void kv_store_close(struct kv_store *store);
