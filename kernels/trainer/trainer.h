// Trainer: keeps a model's values and gradients (unit.h) and updates them with an optimizer. Intended usage:
//
//   1. trainer_open     lists the model and allocates weights, gradients and optimizer state where options say
//   2. set the weights  weights_write, random_weights_set, or a file's
//   then for each step, which methods/training_step.h spells:
//   3. trainer_begin    update number t, at its rate; where layers train by turns, whose turn it is
//   4. trainer_zero     zeroes the gradients
//   5. method_step      forward and backward of a micro-batch, which adds to the gradients; of several each after
//                       trainer_expect_more, for ranks sum their gradients within the last
//   6. trainer_update   moves the weights along the gradients
//   finally:
//   7. trainer_close
//
// A gradient alone is 4 and 5; a forward alone (methods/schedule/forward_pass.h) needs neither.
#pragma once
#include "kernels/model/unit.h"
#include "kernels/trainer/gradients.h"
#include "kernels/trainer/optimizer.h"
#include "kernels/trainer/weights.h"

struct lost_updates;

// An update: the number of updates that the state of what trains has seen with it, and a schedule's factor of the
// rate.
struct update {
    size_t age;
    double rate_factor;
};

// Whose turn it is, where an optimizer lets layers train by turns.
struct active_block {
    size_t number, layer; // both from 0 on
};

// A unit's weights, gradients and state, while they are brought to be updated.
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
    bool keeps_gradients;              // after a step with an update all gradients are there, and whole
    struct update update;              // while model->update is not 0
    struct active_block active;        // while model->by_turns
    size_t *seen;                      // by layer: updates that a state which is kept has seen in earlier turns
    struct lost_updates *lost_updates; // of the update under way; NULL: nobody asks
    struct crossing *crossings;        // by unit
};

struct trainer_options {
    struct lora lora;
    enum dtype kv_gradient_dtype, gradient_dtype; // the accumulators
    bool kv_gradient_stochastic;                  // in bf16: rounded by random bits of `seed`, not to nearest
    uint64_t seed;
    enum quantisation quantisation; // of the layers' projections, which then must not train
    bool dequantised;               // they are kept as what the codes stand for: a reference
    bool lora_beside;               // as of the model, which has it from its optimizer, too
    enum place weights_place, gradients_place, optimizer_place; // where they are kept while they are not used
    const struct optimizer *optimizer;                          // whose state is kept; NULL: none
    const void *optimizer_options; // the optimizer's own struct, which stays the caller's
    const struct ranks *ranks;     // NULL: one rank has all
};

// Opens both; the model, which the trainer points to, must stay where it is. Allocates the rank's weights, not yet
// set, gradients of what trains, and its optimizer state, zero. A tied table is both ends' of a pipeline. Release
// with trainer_close, also after a failure; it closes the model, too. Out of memory is in device->status.
void trainer_open(struct trainer *trainer, struct model *model, const struct config *config,
                  const struct trainer_options *options, struct device *device);
void trainer_close(struct trainer *trainer);

// Begins update number t, from 1 on, at the rate of the optimizer's options times rate_factor, which a schedule
// says. To go on from a state that was kept after update t: trainer_begin of t, and then the state is that.
void trainer_begin(struct trainer *trainer, size_t t, double rate_factor);
// The same of a step that is taken again and again: whose turn it is stays.
void trainer_begin_again(struct trainer *trainer, size_t t, double rate_factor);
// Zeroes the gradients of everything that trains, of the shape that the update under way sums them in; where there
// is none, of the parameter's.
void trainer_zero(struct trainer *trainer);
// Says whether micro-batches of the same update follow the next one.
void trainer_expect_more(struct trainer *trainer, bool more);
// Updates every parameter that trains, unless that was done within the walk, and ends the update.
void trainer_update(struct trainer *trainer);
// Ends the update without it.
void trainer_cancel(struct trainer *trainer);
// Gives the first turn to a layer, where layers train by turns.
void trainer_give_turn(struct trainer *trainer, size_t layer);
