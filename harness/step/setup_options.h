// Setup options: the device, dtypes, offload targets and limits with which a trial's model is opened.
#pragma once
#include "harness/spec/trial.h"

struct setup_options {
    const char *device;
    enum dtype dtype, kv_gradient_dtype, gradient_dtype;
    bool kv_gradient_stochastic;
    bool dequantised;                                           // quantised weights are stored dequantised
    bool lora_beside;                                           // weights train beside LoRA's factors
    enum place weights_place, gradients_place, optimizer_place; // while unused
    const struct optimizer *optimizer;
    const void *optimizer_options;
    bool deterministic, tf32, whole_attention, whole_keys, unfused;
    size_t attention_queries, latent_block;
    const char *gemm_algorithms; // borrowed
    unsigned reverse_sums;       // of struct device, from the first pass on
    bool apart;                  // each sequence of a group runs with its own copy of the prompt
    size_t memory_limit_bytes, host_memory_limit_bytes; // 0: free memory of the machine
    const char *host_folder;                            // borrowed; NULL: the host's memory
    const struct comm *ranks;                           // ranks that share the step; NULL: one
    struct row_range sequences; // the step's sequences of this rank; count 0: the trial's assignment
};

// The options of the trial itself.
struct setup_options setup_options_of(const struct trial *trial);
// The same on the device without data that describes the trial's.
struct setup_options setup_options_planned(const struct trial *trial);
// For the reference gradient: f64 on the CPU.
struct setup_options setup_options_reference(void);
