#include "kernels/framework/tape.h"
#include "kernels/device/device.h"
#include <stdlib.h>
#include <string.h>

// ---- storages

static size_t rounded(size_t bytes)
{
    return bytes > SIZE_MAX - TAPE_ALIGNMENT ? SIZE_MAX
                                             : (bytes + TAPE_ALIGNMENT - 1) / TAPE_ALIGNMENT * TAPE_ALIGNMENT;
}

static void note_peak(struct tape *tape, const char *name)
{
    size_t live = tape->device->arena.live_bytes;
    if (live > tape->peak_bytes) {
        tape->peak_bytes = live;
        tape->peak_moment = tape->moment;
        tape->peak_operation = name;
    }
}

// Keeps the largest, from the first on.
static void find(struct tape *tape, const struct storage *storage)
{
    size_t place = tape->found_count < TAPE_FOUND ? tape->found_count++ : TAPE_FOUND;
    while (place > 0 && tape->found[place - 1].bytes < storage->bytes) {
        if (place < TAPE_FOUND)
            tape->found[place] = tape->found[place - 1];
        place--;
    }
    if (place < TAPE_FOUND)
        tape->found[place] = *storage;
}

static void find_largest(struct tape *tape)
{
    if (tape->device->arena.live_bytes != tape->wanted_bytes)
        return;
    tape->wanted_bytes = 0;
    for (const struct storage *storage = tape->live; storage; storage = storage->after)
        if (storage->serial > tape->wanted_after && storage->place == PLACE_DEVICE)
            find(tape, storage);
}

// shape: of the first tensor in it.
static struct storage *storage_new(struct tape *tape, const char *name, size_t bytes, enum category category,
                                   struct value shape, enum place place)
{
    struct device *device = tape->device;
    struct storage *storage = calloc(1, sizeof *storage);
    CHECK(storage);
    *storage = (struct storage){.bytes = rounded(bytes ? bytes : 1),
                                .references = 1,
                                .category = category,
                                .made_by = name,
                                .rows = shape.rows,
                                .cols = shape.cols,
                                .dtype = shape.dtype,
                                .serial = ++tape->serial,
                                .place = place,
                                .after = tape->live};
    if (device->status.code == STATUS_OK)
        storage->data = arena_allocate(device_arena(device, place), storage->bytes, category,
                                       device->counters.flops, &device->status);
    if (tape->live)
        tape->live->before = storage;
    tape->live = storage;
    note_peak(tape, name);
    if (tape->wanted_bytes)
        find_largest(tape);
    if (tape->observe)
        tape->observe(tape->observer, storage, true);
    return storage;
}

static void storage_drop(struct tape *tape, struct storage *storage)
{
    if (!storage || --storage->references)
        return;
    struct device *device = tape->device;
    if (tape->observe)
        tape->observe(tape->observer, storage, false);
    if (storage->data)
        arena_release(device_arena(device, storage->place), storage->data, storage->bytes, storage->category,
                      device->counters.flops);
    *(storage->before ? &storage->before->after : &tape->live) = storage->after;
    if (storage->after)
        storage->after->before = storage->before;
    free(storage);
}

static struct storage *storage_share(struct storage *storage)
{
    if (storage)
        storage->references++;
    return storage;
}

static struct value value_new(struct tape *tape, const char *name, struct value shape, enum category category,
                              enum place place)
{
    size_t elements, bytes, each = shape.dtype == DTYPE_U8 ? 1 : dtype_bytes(shape.dtype);
    if (tape->stopped)
        return shape;
    if (__builtin_mul_overflow(shape.rows, shape.cols, &elements) || __builtin_mul_overflow(elements, each, &bytes))
        bytes = SIZE_MAX; // the arena says that it is too much
    shape.storage = storage_new(tape, name, bytes, category, shape, place);
    return shape;
}

struct value tape_new(struct tape *tape, const char *name, size_t rows, size_t cols, enum dtype dtype,
                      enum category category)
{
    return value_new(tape, name, (struct value){.rows = rows, .cols = cols, .dtype = dtype}, category,
                     PLACE_DEVICE);
}

struct value tape_new_on_host(struct tape *tape, const char *name, size_t rows, size_t cols, enum dtype dtype,
                              enum category category)
{
    return value_new(tape, name, (struct value){.rows = rows, .cols = cols, .dtype = dtype}, category, PLACE_HOST);
}

struct value tape_share(struct value value)
{
    storage_share(value.storage);
    return value;
}

struct value tape_detach(struct value value)
{
    value.node = NULL;
    return tape_share(value);
}

void tape_drop(struct tape *tape, struct value *value)
{
    storage_drop(tape, value->storage);
    *value = (struct value){0};
}

void tape_rebind(struct tape *tape, struct value *name, struct value value)
{
    tape_drop(tape, name);
    *name = value;
}

void tape_within(struct tape *tape, const char *name, size_t bytes)
{
    if (bytes && !tape->stopped)
        storage_drop(tape, storage_new(tape, name, bytes, CATEGORY_WORKSPACE, (struct value){0}, PLACE_DEVICE));
}

// ---- nodes

struct node *tape_record(struct tape *tape, const char *name, node_backward *backward, size_t count,
                         const struct value *inputs)
{
    bool needed = false;
    for (size_t i = 0; i < count; i++)
        needed |= inputs[i].node != NULL;
    if (!needed || tape->no_grad || tape->stopped)
        return NULL;
    if (tape->rebuilding)
        return &tape->inner;
    struct node *node = calloc(1, sizeof *node);
    CHECK(node && count <= NODE_INPUTS);
    node->name = name;
    node->backward = backward;
    for (size_t i = 0; i < count; i++) {
        node->inputs[i] = inputs[i];
        node->inputs[i].storage = NULL;
        if (inputs[i].node && !inputs[i].node->backward)
            inputs[i].node->awaited++;
    }
    if (tape->count == tape->capacity) {
        tape->capacity = tape->capacity ? 2 * tape->capacity : 256;
        tape->nodes = realloc(tape->nodes, tape->capacity * sizeof *tape->nodes);
        CHECK(tape->nodes);
    }
    return tape->nodes[tape->count++] = node;
}

void tape_leaf(struct value *value)
{
    value->node = calloc(1, sizeof *value->node);
    CHECK(value->node);
    value->node->name = "leaf";
}

void tape_leaf_close(struct tape *tape, struct value *value)
{
    if (value->node) {
        tape_drop(tape, &value->node->kept);
        tape_drop(tape, &value->node->grad);
        free(value->node);
    }
    value->node = NULL;
}

// ---- checkpoints without reentrance

// The input of a checkpoint as it is kept, and as its forward reads it again.
static struct value kept_input(struct tape *tape, struct value x)
{
    struct value kept = x;
    if (!tape->offloads)
        return tape_share(x);
    kept.storage = NULL;
    kept = value_new(tape, "save_on_cpu", kept, CATEGORY_HIDDEN_CHECKPOINTS, PLACE_HOST);
    if (kept.storage)
        tape->device->counters.link_bytes[QUEUE_OUT] += (double)kept.storage->bytes;
    return kept;
}

static struct value read_again(struct tape *tape, struct value kept)
{
    if (!kept.storage || kept.storage->place == PLACE_DEVICE)
        return tape_share(kept);
    tape->device->counters.link_bytes[QUEUE_IN] += (double)kept.storage->bytes;
    kept.storage = NULL;
    return value_new(tape, "to", kept, CATEGORY_HIDDEN_CHECKPOINTS, PLACE_DEVICE);
}

// A checkpoint between its forward and the backward of its last node.
struct frame {
    struct checkpoint_call call;
    struct value x;
    size_t slots, filled;     // tensors that its nodes saved, and of those rebuilt
    struct storage **rebuilt; // [slots]; NULL: not rebuilt yet
    size_t references;        // by saved tensors
};

static void frame_drop(struct tape *tape, struct frame *frame)
{
    if (--frame->references)
        return;
    for (size_t i = 0; frame->rebuilt && i < frame->slots; i++)
        storage_drop(tape, frame->rebuilt[i]);
    free(frame->rebuilt);
    for (size_t i = 0; i < CHECKPOINT_READS; i++)
        tape_drop(tape, &frame->call.reads[i]);
    tape_drop(tape, &frame->x);
    free(frame);
}

void tape_save(struct tape *tape, struct node *node, struct value value)
{
    struct frame *rebuilding = tape->rebuilding;
    if (!node || tape->stopped)
        return;
    if (rebuilding) {
        rebuilding->rebuilt[rebuilding->filled++] = storage_share(value.storage);
        tape->stopped = rebuilding->filled == rebuilding->slots;
        return;
    }
    CHECK(node->saved_count < NODE_SAVED);
    struct saved *saved = &node->saved[node->saved_count++];
    if (tape->frame) {
        tape->frame->references++;
        *saved = (struct saved){.frame = tape->frame, .slot = tape->frame->slots++};
    } else {
        *saved = (struct saved){.storage = storage_share(value.storage)};
    }
}

struct value tape_checkpoint(struct tape *tape, struct checkpoint_call call, struct value x)
{
    struct frame *frame = calloc(1, sizeof *frame);
    CHECK(frame && !tape->frame && !tape->rebuilding);
    *frame = (struct frame){.call = call, .x = kept_input(tape, x), .references = 1};
    for (size_t i = 0; i < CHECKPOINT_READS; i++)
        storage_share(call.reads[i].storage);
    tape->frame = frame;
    struct value y = call.forward(call.context, call.index, x);
    tape->frame = NULL;
    frame_drop(tape, frame);
    return y;
}

static void frame_rebuild(struct tape *tape, struct frame *frame)
{
    frame->rebuilt = calloc(frame->slots, sizeof *frame->rebuilt);
    CHECK(frame->rebuilt);
    struct value x = read_again(tape, frame->x);
    tape->rebuilding = frame;
    struct value y = frame->call.forward(frame->call.context, frame->call.index, x);
    tape_drop(tape, &y);
    tape_drop(tape, &x);
    CHECK(frame->filled == frame->slots);
    tape->rebuilding = NULL;
    tape->stopped = false;
}

static void unpack(struct tape *tape, struct node *node)
{
    for (size_t i = 0; i < node->saved_count; i++) {
        struct saved *saved = &node->saved[i];
        if (!saved->frame)
            continue;
        if (!saved->frame->rebuilt)
            frame_rebuild(tape, saved->frame);
        saved->storage = saved->frame->rebuilt[saved->slot];
        saved->frame->rebuilt[saved->slot] = NULL;
    }
}

static void release(struct tape *tape, struct node *node)
{
    for (size_t i = 0; i < node->saved_count; i++) {
        storage_drop(tape, node->saved[i].storage);
        if (node->saved[i].frame)
            frame_drop(tape, node->saved[i].frame);
    }
    node->saved_count = 0;
}

static void node_free(struct tape *tape, struct node *node)
{
    release(tape, node);
    for (size_t i = 0; i < node->part_count; i++)
        tape_drop(tape, &node->parts[i]);
    free(node->parts);
    free(node);
}

// ---- the engine

static struct value like(struct tape *tape, const char *name, struct value value)
{
    return tape_new(tape, name, value.rows, value.cols, value.dtype, value.storage->category);
}

// A parameter's gradient: added to the one that is there, else kept itself, or a copy if others refer to it, or
// this card's share.
static void leaf_finish(struct tape *tape, struct node *leaf)
{
    struct value grad = leaf->grad;
    leaf->grad = (struct value){0};
    if (leaf->kept.storage) {
        tape_drop(tape, &grad);
    } else if (leaf->ranks) {
        leaf->kept = tape_new(tape, "reduce_scatter", tape_divided(grad.rows * grad.cols, leaf->ranks), 1,
                              grad.dtype, grad.storage->category);
        tape_drop(tape, &grad);
    } else if (grad.storage->references > 1) {
        leaf->kept = like(tape, "clone", grad);
        tape_drop(tape, &grad);
    } else {
        leaf->kept = grad;
    }
}

static void accumulate(struct tape *tape, struct node *node, struct value grad)
{
    if (!node->grad.storage) {
        node->grad = grad;
    } else {
        struct value sum = like(tape, "add", grad);
        tape_rebind(tape, &node->grad, sum);
        tape_drop(tape, &grad);
    }
    if (!node->backward && --node->awaited == 0)
        leaf_finish(tape, node);
}

static void run_node(struct tape *tape, struct node *node)
{
    struct value given[NODE_INPUTS] = {{0}};
    unpack(tape, node);
    node->backward(tape, node, node->grad, given);
    tape_drop(tape, &node->grad);
    release(tape, node);
    for (size_t i = 0; i < NODE_INPUTS; i++)
        if (given[i].storage)
            accumulate(tape, node->inputs[i].node, given[i]);
}

void tape_backward(struct tape *tape, struct value *grad, size_t from)
{
    CHECK(tape->count > from);
    tape->nodes[tape->count - 1]->grad = *grad;
    *grad = (struct value){0};
    while (tape->count > from) {
        struct node *node = tape->nodes[--tape->count];
        if (node->grad.storage || node->part_count)
            run_node(tape, node);
        node_free(tape, node);
    }
}

void tape_close(struct tape *tape)
{
    while (tape->count) {
        struct node *node = tape->nodes[--tape->count];
        tape_drop(tape, &node->grad);
        node_free(tape, node);
    }
    free(tape->nodes);
    CHECK(!tape->live);
}

// ---- checkpoints with reentrance

// Runs forward again from a leaf with x's storage, then that graph's backward. The new output lives until both are
// done, and so does the gradient, which the caller holds.
static void checkpoint_backward(struct tape *tape, struct node *node, struct value grad,
                                struct value given[NODE_INPUTS])
{
    struct checkpoint_call call = node->call;
    struct value x = node->inputs[0];
    size_t from = tape->count;
    x.storage = node->saved[0].storage;
    x.node = NULL;
    x = read_again(tape, x);
    tape_leaf(&x);
    struct value y = call.forward(call.context, call.index, x);
    struct value own = tape_detach(grad);
    tape_backward(tape, &own, from);
    given[0] = x.node->kept;
    x.node->kept = (struct value){0};
    tape_drop(tape, &y);
    tape_leaf_close(tape, &x);
    tape_drop(tape, &x);
}

struct value tape_checkpoint_reentrant(struct tape *tape, struct checkpoint_call call, struct value x)
{
    struct node *node = tape_record(tape, "checkpoint", checkpoint_backward, 1, &x);
    bool before = tape->no_grad;
    if (node)
        node->call = call;
    tape->no_grad = true;
    struct value y = call.forward(call.context, call.index, x);
    tape->no_grad = before;
    struct value kept = kept_input(tape, x);
    tape_save(tape, node, kept);
    tape_drop(tape, &kept);
    y.node = node;
    return y;
}
