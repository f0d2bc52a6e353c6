// Setup options: how a trial's model is opened: on which device, in which dtypes, what is kept where, and within
// which limits.
#pragma once
#include "harness/spec/trial.h"

struct setup_options {
    const char *device;
    enum dtype dtype, kv_gradient_dtype, gradient_dtype;
    bool kv_gradient_stochastic;
    bool dequantised;                                           // quantised weights are kept as what they stand for
    bool lora_beside;                                           // weights train beside LoRA's factors
    enum place weights_place, gradients_place, optimizer_place; // while they are not used
    const struct optimizer *optimizer;
    const void *optimizer_options;
    bool deterministic, tf32, whole_attention, whole_keys, unfused;
    size_t attention_queries;
    const char *gemm_algorithms;                        // borrowed
    unsigned reverse_sums;                              // struct device, from the first pass on
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
