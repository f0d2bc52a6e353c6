// Setup: a trial's model and tokens on a device, before any step; the same weights on every device and in every
// dtype, for they are rounded to the trial's own dtype first. Of ranks that share the step each has its own part.
#pragma once
#include "harness/files/batch_file.h"
#include "harness/spec/trial.h"

struct setup {
    struct device *device;
    struct model model;
    struct batch batch;
    struct row_range sequences; // of the trial's those that are this rank's
    double model_flops;         // of all the step's sequences, also another rank's
    double forward_flops;       // of this rank's sequences, all their tokens
};

struct setup_options {
    const char *device;
    enum dtype dtype, kv_gradient_dtype, gradient_dtype;
    bool dequantised;                                           // quantised weights are kept as what they stand for
    bool lora_beside;                                           // weights train beside LoRA's factors
    enum place weights_place, gradients_place, optimizer_place; // while they are not used
    const struct optimizer *optimizer;
    const void *optimizer_options;
    bool deterministic, tf32, whole_attention;
    bool apart;                                         // sequences of a group are walked each with its own prompt
    size_t memory_limit_bytes, host_memory_limit_bytes; // 0: what the machine has free
    const char *host_folder;                            // borrowed; NULL: the host's memory
    const struct comm *ranks;                           // that share the step as the trial says; NULL: there is one
    struct row_range sequences; // of the step's this rank's; count 0: those that the trial gives it
};

// As the trial asks.
struct setup_options setup_options_of(const struct trial *trial);
// The same on a device without data, which stands for the trial's.
struct setup_options setup_options_planned(const struct trial *trial);
// For the reference gradient: f64 throughout, on the CPU.
struct setup_options setup_options_reference(void);
// On a device without data no weights and no tokens are read. Release with setup_close, also after a failure. False
// and a status (oom, unsupported, bad input).
bool setup_open(struct setup *setup, const struct trial *trial, const struct setup_options *options,
                struct status *status);
void setup_close(struct setup *setup);
// Whether any so many sequences of the step are like any others: of a device without data, unless something is
// known of each.
bool setup_sequences_alike(const struct trial *trial, const char *device);

// What a training run gives its steps, in place of the setup's own batch. Sequences of groups into a row each
// group, as the trial has them; false and a status.
bool setup_pack(struct batch_data *data, const struct trial *trial, struct status *status);
// As a batch of tokens on any device, and with what the trial's objective reads besides; what fails is in the
// device's status.
void setup_open_tokens(struct batch *batch, struct device *device, const struct batch_data *data);
void setup_set_objective(struct batch *batch, struct device *device, const struct trial *trial,
                         const struct batch_data *data);
// The setup's batch, with all that its own model says of it; the normaliser is of these sequences alone.
void setup_open_batch(struct setup *setup, const struct trial *trial, struct batch_data *data);
// Leaves of the setup's batch the tokens that are this rank's, where ranks have some of each sequence's.
void setup_share_batch(struct setup *setup);
void setup_close_batch(struct setup *setup);
