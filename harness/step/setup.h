// Setup: a trial's model (loaded_model.h) and tokens on a device, before any step. Each rank has its own part.
#pragma once
#include "harness/data/batch_file.h"
#include "harness/step/setup_options.h"
#include "methods/training_step.h"

struct setup {
    struct device *device;
    struct model model;
    struct trainer trainer; // of the model
    struct memo *memo;      // caches repeated cells of a plan; NULL: none
    struct batch batch;
    struct row_range sequences;      // the trial's sequences of this rank
    struct framework_run *framework; // another framework's step, in place of the trainer's; NULL: this program's
    double model_flops;              // over all the step's sequences and ranks
    double forward_flops;            // over this rank's sequences, all tokens
    size_t longest;     // tokens of the longest document that RoPE goes by in each batch; 0: the batch's own
    uint64_t data_hash; // of all the step's data (step_data_hash); 0: random or not read
};

// Reads no weights and tokens on a device without data. Returns false and a status (oom, unsupported, bad input).
// Release with setup_close, also after a failure.
bool setup_open(struct setup *setup, const struct trial *trial, const struct setup_options *options,
                struct status *status);
// Checks that some token of the step, on any rank, has a target, because a mean over none is undefined. Returns
// false and a status (unsupported) if not.
bool setup_check_targets(const struct setup *setup, const struct trial *trial, struct status *status);
// Caches repeated work, such as the cells of all layers, on a device without data.
void setup_remember(struct setup *setup);
void setup_close(struct setup *setup);
// The step of the trial's method on the setup's batch: gradients alone; or, with an optimizer and `update` > 0,
// update number `update` of repeated steps.
struct training_step setup_step(struct setup *setup, const struct trial *trial);
struct training_step setup_update(struct setup *setup, const struct trial *trial, size_t update);
// Tells whether all equally many sequences cost the same: on a device without data, unless something is known of
// each.
bool setup_sequences_alike(const struct trial *trial, const char *device);

// For training runs, which replace the setup's batch: opens a batch with all inputs from its own model. whole: the
// step's normaliser; NULL: the batch's own.
void setup_open_batch(struct setup *setup, const struct trial *trial, struct batch_data *data,
                      const struct normaliser *whole);
// Reduces the batch to this rank's tokens, if ranks divide each sequence.
void setup_share_batch(struct setup *setup);
void setup_close_batch(struct setup *setup);
