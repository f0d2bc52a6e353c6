// Trial: the complete description of one measurement, decoded and checked.
#pragma once
#include "harness/data/tokens.h"
#include "harness/profile/profile.h"
#include "kernels/trainer/optimizer.h"
#include "methods/method.h"

struct record_search;

enum routing_check { ROUTING_NONE, ROUTING_AS_IS, ROUTING_REVERSED };
enum gradient_check { GRADIENT_NONE, GRADIENT_FULL_F64 };

struct measure {
    size_t warmup, samples; // steps, each with its own draw of chunks
    double max_seconds;     // of the trial's process; 0: no limit
    enum gradient_check gradient;
    bool timeline;     // record the live bytes over one step
    bool gemm;         // record the device's GEMM rate with the samples
    bool categories;   // record how a step's time divides
    bool bias;         // expectation and spread of a gradient estimate over all draws
    bool pair_sums;    // error of a pair's difference of log-probs due to the accumulator dtype
    bool lost_updates; // share of updates that rounding weights to bf16 loses
    // Change that rebuilds which choose experts anew would make, with sums in the first pass's order or in another.
    enum routing_check routing;
};

// Documents packed into each sequence until it is full: with the given lengths in turn, or random ones, uniform
// from 1 to 2 mean - 1. Neither: each sequence is one document.
struct packing {
    size_t count, *lengths;
    size_t mean;
};

// Ranks that share a step, one process each.
struct parallel {
    size_t data;     // ranks that divide the sequences
    size_t sequence; // ranks that divide each sequence's tokens
    size_t stage;    // ranks that divide the layers, as a pipeline
    size_t zero;     // state sharded over data and sequence ranks (enum zero)
    int exchange;    // how sequence ranks attend to each other's tokens (enum exchange)
    int sum;         // reduction of gradients over data and sequence ranks (enum sum)
    bool overlap;    // overlap their communication with computation
    size_t node;     // consecutive ranks per node, which communicate before nodes do
    size_t experts;  // consecutive data ranks that divide the experts
};

enum schedule { SCHEDULE_CONSTANT, SCHEDULE_LINEAR, SCHEDULE_COSINE, SCHEDULE_WSD };
// Shape of wsd's warm-up and decay.
enum ramp { RAMP_LINEAR, RAMP_COSINE, RAMP_ONE_MINUS_SQRT };

// A training run: steps that update the weights.
struct training {
    size_t steps;      // 0: none, a trial repeats one step
    size_t accumulate; // micro-batches per step
    enum schedule schedule;
    size_t warmup;       // steps until the full rate
    double min_lr_ratio; // final rate of decaying schedules, relative to the full rate
    // For wsd: steps at the full rate (0: until the decay ends with the run); steps of the decay; waves of a
    // cosine.
    size_t stable_steps, decay_steps;
    enum ramp warmup_type, decay_type;
    double cycles;
    double clip;                 // maximum gradient norm; 0: no clipping
    size_t window;               // tokens of a window, of which a step takes the first `context`; 0: as many
    size_t shuffle;              // seed of the order of windows or sequences; 0: the data's order
    double held_out;             // share of windows or sequences, the last ones, held out for evaluation
    struct data_source evaluate; // separate evaluation data, of the data's kind; no path: none
    size_t evaluate_every;       // steps between evaluations; 0: only before the first and after the last
    size_t evaluate_windows;     // maximum; 0: all
};

// Source of the reference log-probs of an objective.
struct reference_source {
    enum {
        REFERENCE_NONE,        // the objective reads none
        REFERENCE_FILE,        // the batch file
        REFERENCE_RANDOM,      // the model before the first step, with noise
        REFERENCE_ADAPTER_OFF, // the model without its LoRA factors
        REFERENCE_FOLDER       // a second model
    } kind;
    char *folder; // for REFERENCE_FOLDER; else NULL
};

#define TRIAL_ID_BYTES 33 // includes the zero

// Name of a bf16 accumulator with stochastic rounding.
#define BF16_STOCHASTIC "bf16-stochastic"

#define TRIAL_DEVICE_BYTES 24 // "plan-transformers"

struct trial {
    char id[TRIAL_ID_BYTES]; // hash of values that differ from the defaults
    char *canonical;         // compact JSON with sorted keys and all defaults
    const struct method *method;
    void *options; // the method's own struct
    bool chosen;   // the requested method was auto
    // Recorded beside the trial; borrowed, NULL: "".
    const char *experiment, *command;
    const struct record_search *search; // likewise; NULL: no search found it
    const json_t *unchecked;            // likewise, of another framework's step: texts; NULL: none
    size_t round;                       // from 1; 0: none
    char *shares;                       // JSON of options given as shares, {"budget": "25%"}; NULL: none
    struct framework *framework;        // whose step the device plans; NULL: this program's
    struct config config;
    char *model_folder; // NULL: a preset or an inline config, with random weights
    char device[TRIAL_DEVICE_BYTES];
    bool suited;                       // a card's defaults apply (option_on_card)
    bool planned;                      // the device has no data: it only counts
    struct profile *profile;           // NULL: no time estimate
    struct interconnect *interconnect; // between ranks; NULL: the profile's
    enum dtype dtype, kv_gradient_dtype, gradient_dtype;
    bool kv_gradient_stochastic; // these sums, in bf16, use stochastic rounding
    size_t context, batch;
    size_t seed;
    struct data_source data;
    char *labels; // NULL: the next token
    struct packing packing;
    size_t group;      // consecutive sequences that share a prompt; 0 and 1: none do
    size_t row_tokens; // of a batch file's groups, if the method draws chunks and nothing trains; 0: not read
    size_t prompt;     // tokens of a sequence's prompt, which have no target; 0: as in the data
    const struct objective *objective;
    void *objective_options; // the objective's own struct
    struct reference_source reference;
    struct lora lora;
    char *adapter_folder;           // of the initial factors; NULL: random ones
    enum quantisation quantisation; // of the layers' projections, which are then frozen
    bool deterministic;             // equal bits in every run, at any cost
    bool tf32;                      // f32 GEMM may round its factors to TF32
    bool whole_attention;           // attention's backward may run at once instead of in blocks
    size_t attention_queries;       // maximum per block of attention's backward
    size_t latent_block;            // maximum of keys that latent attention projects at once
    bool whole_keys;                // attention's forward runs over all keys at once instead of in ranges
    bool unfused;                   // keeps memory passes that fused kernels avoid
    char *gemm_algorithms;          // a file of a card's fastest ones; NULL: the library's first choice
    struct router_losses router_losses;
    bool pad_gradient;                 // the embedding's padding row has a gradient: config.padded is false
    const struct optimizer *optimizer; // NULL: none
    void *optimizer_options;           // the optimizer's own struct
    struct parallel parallel;
    struct training train;
    struct measure measure;
    size_t memory_limit_bytes, host_memory_limit_bytes; // 0: free memory of the machine
    char *unsupported;                                  // in a spec, why it cannot run; NULL: it can
    const char *unsupported_at;                         // the key that this is about; NULL: the method
    char *host_folder; // offloaded data are in files of this folder; NULL: in host memory
};

// Decodes and checks one trial's JSON (a record's "trial" object; defaults may be left out). origin: its source in
// messages. Returns false and a status on any error. Release with trial_free, also after a failure.
bool trial_decode(struct trial *trial, const char *json, const char *origin, struct status *status);
void trial_free(struct trial *trial);
// The same for a user's request: on a card, absent keys have the card's defaults, which the trial then holds.
bool trial_decode_asked(struct trial *trial, const char *json, const char *origin, struct status *status);
// Tells whether the method computes the gradient of the loss exactly: with router_aux_counts "cell" none does.
bool trial_is_exact(const struct trial *trial);
// Tells whether steps report the metric; evaluations leave out those of routers.
bool trial_has_metric(const struct trial *trial, enum objective_metric metric, bool of_evaluation);
// Tells whether the device is a card or a plan of one.
bool trial_is_of_card(const struct trial *trial);
// Tokens of a row: for a group, those of all its sequences. For a batch file's groups an upper bound, unless
// row_tokens is set.
size_t trial_row_tokens(const struct trial *trial);
// Tokens of a training run's windows, of which evaluations take all.
size_t trial_window(const struct trial *trial);
// The number by which a method draws for step `index`: of a training run, whose `index` counts micro-batches, each
// seed has its own. Seed 1, the default, has the numbers of other trials.
size_t trial_draw(const struct trial *trial, size_t index);
// Number of ranks.
#define TRIAL_RANKS_MAX (1 << 20)
size_t trial_ranks(const struct trial *trial);
struct split trial_split(const struct trial *trial);
// Tells whether time is estimated. In ring attention each of P ranks communicates at each stop of each layer, so
// the estimate's work grows with P squared.
#define RING_RANKS_TIMED 128
bool trial_times_ranks(const struct trial *trial);
// The interconnect of the ranks; NULL: unknown, or not for this many.
const struct interconnect *trial_interconnect(const struct trial *trial);
// Maximum sequences per replica, which replica 0 has. Pairs and groups stay together.
size_t trial_together(const struct trial *trial);
struct row_range trial_sequences(const struct trial *trial, size_t replica);
// The share of a replica among `sequences` sequences; may be empty.
struct row_range trial_share(const struct trial *trial, size_t sequences, size_t replica);
// Tells whether a device of this name has no data: "plan", "plan-cpu", "plan-cuda".
bool trial_plans_on(const char *device);
// The host if the method's option offload has one of these targets.
enum place trial_place(const struct trial *trial, enum offload_target target);
// Sets the method's option offload; returns false if it has none and there are targets.
bool trial_offload(struct trial *trial, unsigned targets);
// The method that auto chose, with every option. A new reference; NULL: the method was given.
json_t *trial_chosen(const struct trial *trial);
