// Trial: everything that defines one measurement of a sweep, decoded and checked.
#pragma once
#include "harness/data/tokens.h"
#include "harness/profile/profile.h"
#include "kernels/trainer/optimizer.h"
#include "methods/method.h"

enum gradient_check { GRADIENT_NONE, GRADIENT_FULL_F64 };

struct measure {
    size_t warmup, samples; // steps; where chunks are drawn, of a draw each
    double max_seconds;     // of the trial's process; 0: no limit
    enum gradient_check gradient;
    bool timeline;     // record the live bytes over one step
    bool gemm;         // record the device's GEMM rate beside the samples
    bool categories;   // record where a step's time goes
    bool bias;         // expectation and spread of an estimate over every draw
    bool pair_sums;    // how far a pair's difference of log-probs is off by the dtype of its sums
    bool lost_updates; // how much of a training run's updates rounding weights to bf16 loses
};

// Documents that are packed into a sequence, one after another until it is full. Of the lengths in turn; or at
// random, uniform from 1 to 2 mean - 1. Neither: each sequence is one.
struct packing {
    size_t count, *lengths;
    size_t mean;
};

// Ranks that share a step, a process each.
struct parallel {
    size_t data;     // take some of the sequences each
    size_t sequence; // take some of the tokens of the same sequences each
    size_t stage;    // take some of the layers each, as a pipeline
    size_t zero;     // what those of data and sequence have in shares (enum zero)
    int exchange;    // how those of sequence attend to each other's tokens (enum exchange)
    int sum;         // who adds gradients over those of data and sequence (enum sum)
    bool overlap;    // what these send each other goes while they compute
    size_t node;     // so many of these, one after another, send each other before nodes do
};

enum schedule { SCHEDULE_CONSTANT, SCHEDULE_LINEAR, SCHEDULE_COSINE, SCHEDULE_WSD };
// How wsd's warm-up rises and its decay falls.
enum ramp { RAMP_LINEAR, RAMP_COSINE, RAMP_ONE_MINUS_SQRT };

// A run of steps, each of which updates the weights.
struct training {
    size_t steps;      // 0: none, a trial measures one step again and again
    size_t accumulate; // micro-batches of a step
    enum schedule schedule;
    size_t warmup;       // steps until the rate is whole
    double min_lr_ratio; // of the rate, at the end of a schedule that falls
    // wsd's: steps at the whole rate, 0: until the decay ends with the run; steps of the decay; waves of a cosine.
    size_t stable_steps, decay_steps;
    enum ramp warmup_type, decay_type;
    double cycles;
    double clip;                 // the gradient's norm is at most this; 0: it is not clipped
    size_t shuffle;              // seed of the order of windows or sequences; 0: the data's
    double held_out;             // share of these, the last ones, that are not trained on but evaluated
    struct data_source evaluate; // what is evaluated instead, of the data's kind; no path: nothing
    size_t evaluate_every;       // steps; 0: before the first and after the last alone
    size_t evaluate_windows;     // at most; 0: all
};

// Where the log-probs come from that an objective holds the model's against.
struct reference_source {
    enum {
        REFERENCE_NONE,        // the objective reads none
        REFERENCE_FILE,        // the batch file
        REFERENCE_RANDOM,      // the model's own before the first step, and noise
        REFERENCE_ADAPTER_OFF, // the model without its LoRA factors
        REFERENCE_FOLDER       // a second model
    } kind;
    char *folder; // of REFERENCE_FOLDER; else NULL
};

#define TRIAL_ID_BYTES 33 // with its zero

// A dtype of sums in bf16 that are rounded stochastically, and not to nearest.
#define BF16_STOCHASTIC "bf16-stochastic"

struct trial {
    char id[TRIAL_ID_BYTES]; // hash of what differs from the defaults
    char *canonical;         // compact JSON with sorted keys and every default spelled out
    const struct method *method;
    void *options; // the method's own struct
    bool chosen;   // in place of auto, which was asked for
    // The record names these beside the trial; borrowed, NULL: "".
    const char *experiment, *command;
    size_t round; // of several, from 1; 0: none
    char *shares; // JSON: the method's options that were given as shares, {"budget": "25%"}; NULL: none
    struct config config;
    char *model_folder; // NULL: a preset or an inline config, with random weights
    char device[16];
    bool suited;                       // a card's own defaults were taken (option_on_card)
    bool planned;                      // the device has no data: nothing is computed, only counted
    struct profile *profile;           // NULL: no time estimate
    struct interconnect *interconnect; // between ranks; NULL: the profile's
    enum dtype dtype, kv_gradient_dtype, gradient_dtype;
    bool kv_gradient_stochastic; // these sums, in bf16, are not rounded to nearest
    size_t context, batch;
    size_t seed;
    struct data_source data;
    char *labels; // NULL: the next token
    struct packing packing;
    size_t group;      // sequences, one after another, whose prompt is walked once; 0 and 1: each has its own
    size_t row_tokens; // of a batch file's groups, where the method draws chunks and nothing trains; 0: not read
    size_t prompt;     // tokens of a sequence that it begins with and does not predict; 0: as the data have it
    const struct objective *objective;
    void *objective_options; // the objective's own struct
    struct reference_source reference;
    struct lora lora;
    char *adapter_folder;           // of the factors to begin with; NULL: random ones
    enum quantisation quantisation; // of the layers' projections, which then must not train
    // Where they are kept while they are not used.
    enum place weights_place, gradients_place, optimizer_place;
    bool deterministic;                // the device has the same bits in every run, at whatever cost
    bool tf32;                         // the device may round factors of GEMM in f32 to TF32
    bool whole_attention;              // the device may run attention's backward at once instead of in blocks
    size_t attention_queries;          // of a block of attention's backward, at most
    bool whole_keys;                   // attention's forward takes all keys at once where a device would cut them
    bool unfused;                      // passes over memory that others could spare are made all the same
    char *gemm_algorithms;             // a file of a card's fastest; NULL: the library's first choice
    bool pad_gradient;                 // the embedding's row of padding takes a gradient: config.padded is false
    const struct optimizer *optimizer; // NULL: none
    void *optimizer_options;           // the optimizer's own struct
    struct parallel parallel;
    struct training train;
    struct measure measure;
    size_t memory_limit_bytes, host_memory_limit_bytes; // 0: what the machine has free
    char *unsupported;                                  // why it cannot be, in a spec; NULL: it can
    char *host_folder; // NULL: what is kept on the host is in its memory; else in files of this folder
};

// Decodes and checks one trial's JSON (the object that a record holds under "trial"; defaults may be left out).
// origin names where it came from in messages. False and a status if anything in it is wrong. Release with
// trial_free, also after a failure.
bool trial_decode(struct trial *trial, const char *json, const char *origin, struct status *status);
void trial_free(struct trial *trial);
// The same of what somebody asks for: where the device is a card, what is left out is as a card's own defaults have
// it, which the trial then says.
bool trial_decode_asked(struct trial *trial, const char *json, const char *origin, struct status *status);
// Whether the device is a card, or plans as one.
bool trial_is_of_card(const struct trial *trial);
// Tokens of a row that a step walks: of sequences of a group those of all of them. Of a batch file's groups at most
// so many, unless row_tokens says it.
size_t trial_row_tokens(const struct trial *trial);
// How many ranks it takes, and what they share.
#define TRIAL_RANKS_MAX (1 << 20)
size_t trial_ranks(const struct trial *trial);
struct split trial_split(const struct trial *trial);
// Whether a time is estimated: of ranks whose keys and values go round each says something at each stop of each
// layer, so that of P ranks P squared times as much is said.
#define RING_RANKS_TIMED 128
bool trial_times_ranks(const struct trial *trial);
// What joins them; NULL: not known, or not for so many.
const struct interconnect *trial_interconnect(const struct trial *trial);
// The sequences that a replica takes: replica 0 no fewer than any other. As many stay together as make pairs and
// groups.
size_t trial_together(const struct trial *trial);
struct row_range trial_sequences(const struct trial *trial, size_t replica);
// The same of so many sequences, of which a replica can get none.
struct row_range trial_share(const struct trial *trial, size_t sequences, size_t replica);
// Whether a device of this name has no data: "plan", "plan-cpu", "plan-cuda".
bool trial_plans_on(const char *device);
// The method that auto chose, with every option, and "place" where something is kept on the host. A new reference;
// NULL: the trial's method was given.
json_t *trial_chosen(const struct trial *trial);
