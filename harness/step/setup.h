// Setup: a trial's model (loaded_model.h) and tokens on a device, before any step. Of ranks that share the step
// each has its own part.
#pragma once
#include "harness/data/batch_file.h"
#include "harness/step/setup_options.h"
#include "methods/training_step.h"

struct setup {
    struct device *device;
    struct model model;
    struct trainer trainer; // of the model
    struct memo *memo;      // of what the device asks again and again; NULL: none
    struct batch batch;
    struct row_range sequences; // of the trial's those that are this rank's
    double model_flops;         // of all the step's sequences, also another rank's
    double forward_flops;       // of this rank's sequences, all their tokens
    uint64_t data_hash;         // of all the step's data (step_data_hash); 0: random, or none were read
};

// On a device without data no weights and no tokens are read. Release with setup_close, also after a failure. False
// and a status (oom, unsupported, bad input).
bool setup_open(struct setup *setup, const struct trial *trial, const struct setup_options *options,
                struct status *status);
// Whether any of the step's tokens, on any rank, has a target: a mean over none is no loss. False and a status
// (unsupported) if not.
bool setup_check_targets(const struct setup *setup, const struct trial *trial, struct status *status);
// A device without data asks from here on once what comes again and again, as the cells of all layers.
void setup_remember(struct setup *setup);
void setup_close(struct setup *setup);
// The step that the trial's method takes of the setup's batch: of its gradients alone; or one that is taken again
// and again, as update number `update`, where the trial has an optimizer and the number is not 0.
struct training_step setup_step(struct setup *setup, const struct trial *trial);
struct training_step setup_update(struct setup *setup, const struct trial *trial, size_t update);
// Whether any so many sequences of the step are like any others: of a device without data, unless something is
// known of each.
bool setup_sequences_alike(const struct trial *trial, const char *device);

// What a training run gives its steps, in place of the setup's own batch.
// The setup's batch, with all that its own model says of it; the normaliser is of these sequences alone.
void setup_open_batch(struct setup *setup, const struct trial *trial, struct batch_data *data);
// Leaves of the setup's batch the tokens that are this rank's, where ranks have some of each sequence's.
void setup_share_batch(struct setup *setup);
void setup_close_batch(struct setup *setup);
