// Trainer: keeps a model's values and gradients (unit.h) and updates them with an optimizer. Intended usage:
//
//   1. trainer_open     lists the model and allocates weights, gradients and optimizer state
//   2. set the weights  weights_write, random_weights_set, or a file's
//   then for each step, as methods/training_step.h does:
//   3. trainer_begin    starts update number t with its learning rate, and activates the block of a block optimizer
//   4. trainer_zero     zeroes the gradients
//   5. method_step      forward and backward of a micro-batch, which add to the gradients; before each of several,
//                       trainer_expect_more, because ranks sum gradients during the last
//   6. trainer_update   updates the weights
//   finally:
//   7. trainer_close
//
// A gradient alone takes steps 4 and 5; a forward pass alone (methods/schedule/forward_pass.h) takes neither.
#pragma once
#include "kernels/model/unit.h"
#include "kernels/trainer/gradients.h"
#include "kernels/trainer/optimizer.h"
#include "kernels/trainer/weights.h"

struct lost_updates;

// An update: its number within the active block (or the run), which is the age of the state, and a schedule's
// factor of the rate.
struct update {
    size_t age;
    double rate_factor;
};

// The active block of an optimizer that trains layers one after another.
struct active_block {
    size_t number, layer; // both from 0 on
};

// Events of a unit's weights, gradients and state while they are copied for an update.
struct crossing {
    struct event in, out;
};

struct trainer {
    struct model *model;
    struct buckets buckets;
    struct weights weights;
    struct gradients gradients;
    struct unit_keeper keeper;
    enum place optimizer_place;
    const struct optimizer *optimizer; // NULL: none
    const void *optimizer_options;     // the optimizer's own struct
    bool keeps_gradients;              // after a step with an update all gradients exist, whole
    struct update update;              // valid while model->update is not 0
    struct active_block active;        // valid while model->block_coordinate
    size_t *seen;                      // by layer: updates that persistent state has seen in earlier active blocks
    struct lost_updates *lost_updates; // of the current update; NULL: not measured
    struct crossing *crossings;        // by unit
};

struct trainer_options {
    struct lora lora;
    enum dtype kv_gradient_dtype, gradient_dtype; // the accumulators
    bool kv_gradient_stochastic; // bf16 sums are rounded stochastically, with `seed`, instead of to nearest
    size_t latent_block;         // keys that latent attention projects at once; 0: LATENT_BLOCK
    struct router_losses router_losses;
    uint64_t seed;
    enum quantisation quantisation; // of the layers' projections, which are then frozen
    bool dequantised;               // quantised weights are stored dequantised, for references
    bool lora_beside;               // weights train beside LoRA's factors; also implied by the optimizer
    enum place weights_place, gradients_place, optimizer_place; // offload targets while unused
    const struct optimizer *optimizer;                          // NULL: no optimizer state
    const void *optimizer_options;                              // the optimizer's own struct, owned by the caller
    const struct ranks *ranks;                                  // NULL: a single rank
};

// Opens trainer and model; the model must not move. Allocates the rank's weights, uninitialised, gradients of
// trainable parameters, and zeroed optimizer state. Tied embeddings exist at both ends of a pipeline. Out of memory
// is in device->status. Release with trainer_close, which also closes the model, even after a failure.
void trainer_open(struct trainer *trainer, struct model *model, const struct config *config,
                  const struct trainer_options *options, struct device *device);
void trainer_close(struct trainer *trainer);

// Begins update number t, from 1 on, at the optimizer's rate times rate_factor. To resume from a state saved after
// update t, call trainer_begin with t, then restore the state.
void trainer_begin(struct trainer *trainer, size_t t, double rate_factor);
// The same for a step that is repeated: the active block stays.
void trainer_begin_again(struct trainer *trainer, size_t t, double rate_factor);
// Zeroes the gradients of all trainable parameters, projected if the current update uses projected sums.
void trainer_zero(struct trainer *trainer);
// Tells whether further micro-batches of the same update follow the next one.
void trainer_expect_more(struct trainer *trainer, bool more);
// Updates every trainable parameter, unless the backward pass did, and ends the update.
void trainer_update(struct trainer *trainer);
// Ends the update without applying it.
void trainer_cancel(struct trainer *trainer);
// Makes a layer the first active block, if the optimizer has blocks.
void trainer_activate_block(struct trainer *trainer, size_t layer);
