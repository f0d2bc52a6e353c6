// Tape: what PyTorch's autograd keeps and frees, without data. Each operation makes storages, and a node that saves
// what its backward reads; the engine runs the nodes from the last to the first. Storages, which the device counts,
// go with their last reference, as in PyTorch: the order of allocations and releases is that of a real step.
#pragma once
#include "kernels/device/tensor.h"

struct device;
struct tape;
struct frame;
struct node;

// The caching allocator counts each block in multiples of this many bytes.
#define TAPE_ALIGNMENT 512
// 64-bit integers, such as token ids and positions: only their size matters.
#define DTYPE_I64 DTYPE_F64
// Bytes, such as states of 8 bits.
#define DTYPE_U8 DTYPE_COUNT

// Bytes of the device with as many references as names, nodes and gradients hold.
struct storage {
    void *data; // NULL: it did not fit
    size_t bytes, references;
    enum category category;
    const char *made_by;       // the operation
    size_t rows, cols, serial; // of the first tensor in it; serial: unique
    enum dtype dtype;
    enum place place;
    struct storage *before, *after; // in the tape's list of live storages
};

// A tensor as a name in Python holds it; views share the storage. No storage: no tensor.
struct value {
    struct storage *storage;
    struct node *node; // that passes its gradient on; NULL: it needs none
    size_t rows, cols;
    enum dtype dtype;
};

// The function that a checkpoint runs, and runs again: from one value to another. It keeps the values that it reads
// besides.
#define CHECKPOINT_READS 4
struct checkpoint_call {
    struct value (*forward)(void *context, size_t index, struct value x);
    void *context;
    size_t index;
    struct value reads[CHECKPOINT_READS];
};

#define NODE_INPUTS 3
#define NODE_SAVED  8

// Gradients of a node's inputs, from that of its output; no value: the input needs none.
typedef void node_backward(struct tape *tape, struct node *node, struct value grad,
                           struct value given[NODE_INPUTS]);

struct node {
    const char *name;
    node_backward *backward;          // NULL: a leaf, which keeps its gradient
    struct value inputs[NODE_INPUTS]; // shapes and nodes alone: no storage
    struct saved {
        struct storage *storage;
        struct frame *frame; // that rebuilds it; NULL: it is saved itself
        size_t slot;
    } saved[NODE_SAVED];
    size_t saved_count;
    struct value grad;           // of the output, as far as it is summed
    struct value kept;           // of a leaf: its gradient, kept by name
    size_t awaited;              // of a leaf: gradients on their way
    size_t ranks;                // of a leaf: cards that have a share each of its gradient; 0: it keeps the whole
    double flops;                // of one product of its forward
    size_t workspace;            // bytes that its backward asks for within the operation
    struct checkpoint_call call; // of a checkpoint
    struct value *parts;         // [part_count], the gradients of the views that a split made
    size_t part_count;
};

// Called with each allocation and release, in order; size: rounded bytes.
typedef void tape_observer(void *observer, const struct storage *storage, bool allocated);

#define TAPE_FOUND 8

struct tape {
    struct device *device;
    struct node **nodes; // that backward is yet to run, in order
    size_t count, capacity;
    bool no_grad;                     // operations record no nodes
    bool offloads;                    // checkpoints keep their input on the host
    struct frame *frame, *rebuilding; // a checkpoint whose forward runs, or whose rebuild does
    bool stopped;                     // a rebuild has all it needs, and the rest does not run
    struct node inner;                // stands for the nodes of a rebuild, which are dropped
    struct storage *live;             // all storages
    size_t serial;
    tape_observer *observe; // NULL: none
    void *observer;
    const char *moment; // "forward", "backward"
    // The moment and the operation of the most live bytes.
    size_t peak_bytes;
    const char *peak_moment, *peak_operation;
    // If asked for: the largest storages at the first moment of this many live bytes, made after `after`.
    size_t wanted_bytes, wanted_after, found_count;
    struct storage found[TAPE_FOUND];
};

// --- storages and values

// A new storage by the operation `name`; no value while a stopped rebuild unwinds.
struct value tape_new(struct tape *tape, const char *name, size_t rows, size_t cols, enum dtype dtype,
                      enum category category);
// The same in the host's memory.
struct value tape_new_on_host(struct tape *tape, const char *name, size_t rows, size_t cols, enum dtype dtype,
                              enum category category);
// Another reference to the same tensor.
struct value tape_share(struct value value);
// The same without its node, as `detach` has it.
struct value tape_detach(struct value value);
// Ends a name's reference, if it is one.
void tape_drop(struct tape *tape, struct value *value);
// name = value, in Python: the old tensor goes once the new one is there.
void tape_rebind(struct tape *tape, struct value *name, struct value value);
// Bytes that live within one operation alone.
void tape_within(struct tape *tape, const char *name, size_t bytes);

// Elements of one card's share, of which the last may have fewer.
static inline size_t tape_divided(size_t elements, size_t ranks)
{
    return elements / ranks + (elements % ranks != 0);
}

// --- nodes

// The node of an operation on these inputs; NULL: none of them needs a gradient.
struct node *tape_record(struct tape *tape, const char *name, node_backward *backward, size_t count,
                         const struct value *inputs);
// The node saves a tensor until it has run. Inputs are saved before the operation makes its output, as in PyTorch:
// a rebuild ends with the last one that it needs.
void tape_save(struct tape *tape, struct node *node, struct value value);
// Makes the value a leaf, whose gradient is kept.
void tape_leaf(struct value *value);
void tape_leaf_close(struct tape *tape, struct value *value);
static inline bool tape_is_leaf(const struct tape *tape, struct value value)
{
    return value.node && !value.node->backward && value.node != &tape->inner;
}
// Tells whether backward is to compute the gradient of input i.
static inline bool node_needs(const struct node *node, size_t i)
{
    return node->inputs[i].node;
}

// Runs all nodes above the first `from`, the last one of which receives `grad`.
void tape_backward(struct tape *tape, struct value *grad, size_t from);
void tape_close(struct tape *tape);

// --- checkpoints

// torch.utils.checkpoint without reentrance: saves x and rebuilds, at the first need, what the nodes saved.
struct value tape_checkpoint(struct tape *tape, struct checkpoint_call call, struct value x);
// The same by a function of its own, whose backward runs forward and backward again.
struct value tape_checkpoint_reentrant(struct tape *tape, struct checkpoint_call call, struct value x);
