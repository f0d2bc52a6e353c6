// Optimizer: updates weights along their gradients, with a state per parameter. To add one: a file that ends in one
// `const struct optimizer`, and its name in optimizer.c.
#pragma once
#include "kernels/base/options.h"
#include "kernels/model/model.h"

struct trainer;

// A parameter's role for the active block. keeps: its state persists while it does not train and when the block
// changes.
struct role {
    bool trains, keeps;
};

// Trainable parameters of a model with LoRA: ALONE: only the factors. NEVER: refused. BESIDE: weights beside the
// factors, for which LoRA is required.
enum optimizer_lora { LORA_ALONE, LORA_NEVER, LORA_BESIDE };

struct optimizer {
    const char *name;
    const char *summary; // one line
    const char *source;
    struct option_table options;
    enum optimizer_lora lora;
    bool uneven; // some updates do more work than others
    // State and update work on any whole blocks of 256 elements: ranks may own shares.
    bool by_element;
    // Hooks take the optimizer's own options.
    // Checks the options against a model and dtype; NULL: any. Returns false and sets the status.
    bool (*check)(const void *options, const struct config *config, enum dtype dtype, struct status *status);
    // The active layer of block number `number`, from 0 on, for optimizers of active blocks, each of "interval"
    // updates. The first blocks, as many as the model has layers, include every layer that is ever active. NULL:
    // all weights train together.
    size_t (*active_layer)(const void *options, const struct config *config, size_t number);
    // The role, in the current block, of a parameter that trains in some block (model_can_train). NULL: only the
    // active layer's train.
    struct role (*role)(const struct trainer *trainer, const struct parameter *parameter);
    // Prepares state that depends on earlier blocks, whatever the previous block was. NULL: nothing.
    void (*activated)(struct trainer *trainer);
    // Shapes and dtypes of a parameter's state tensors; unused ones are no tensors. NULL: no state.
    void (*state)(const struct trainer *trainer, const struct parameter *parameter,
                  struct tensor state[PARAMETER_STATES]);
    // Shape and dtype of the parameter's projector, which is always on the device; or no tensor. NULL: no parameter
    // has one.
    struct tensor (*projector)(const struct trainer *trainer, const struct parameter *parameter);
    // Tells whether update t, from 1 on, uses gradient sums projected by the parameter's projector, to which
    // schedules then add. NULL: never.
    bool (*projects)(const struct trainer *trainer, const struct parameter *parameter, size_t t);
    // Initialises a new state and projector beyond zero. NULL: all zero.
    void (*start)(struct trainer *trainer, struct parameter *parameter);
    // Updates a trainable parameter, by the trainer's optimizer_options and update.
    void (*update)(struct trainer *trainer, struct parameter *parameter);
};

// All optimizers, ending in NULL.
extern const struct optimizer *const optimizers[];
const struct optimizer *optimizer_find(const char *name);

// Checks that the optimizer can train a model in the dtype: its own check, and "round", which all have. Returns
// false and sets the status.
bool optimizer_check(const struct optimizer *optimizer, const void *options, const struct config *config,
                     enum dtype dtype, struct status *status);

// Tells whether units are updated within the backward pass, as soon as their gradients are complete, which are then
// freed: by the option "when". Then there is one micro-batch, and no operation over all gradients.
bool optimizer_updates_in_backward(const struct optimizer *optimizer, const void *options);

// Tells whether all gradients exist, whole, after the micro-batches of an update: they are neither updated within
// the backward pass nor projected (option "sums").
bool optimizer_keeps_gradients(const struct optimizer *optimizer, const void *options);

// Updates per active block.
size_t optimizer_interval(const struct optimizer *optimizer, const void *options);
// The lowest layers, in order and at most `max`, that are active within the first `updates` updates (0: any
// number). Returns their number; 0 if all weights train together.
size_t optimizer_lowest_active(const struct optimizer *optimizer, const void *options, const struct config *config,
                               size_t updates, size_t layers[], size_t max);
