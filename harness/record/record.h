// Record: one line of JSON per trial of a sweep, appended and synced when the trial ends.
//
// record_fields.c has its fields, with units and the meaning of null; `longbp list fields` prints them. These
// structs hold a record in memory, member by member of that table.
//
// If chunks are drawn, everything but times is of draw 0, which sampler_seed names: plans and runs then have equal
// bytes and counts. Numbers that are not finite are null (also decimals of an exact gradient), and so are values
// that the trial did not reach. A planned trial ("device": "plan-cpu" or "plan-cuda") has no loss, samples or
// gradient; its bytes and counts are those of a step on the described device.
#pragma once
#include "kernels/device/arena.h"
#include "kernels/device/objective_sums.h"
#include <jansson.h>

#define RECORD_SCHEMA 2
// Whole numbers below this are exact doubles.
#define RECORD_EXACT_MAX  0x1p53
#define RECORD_ROUNDS_MAX 1000

struct interned_item;

enum record_status {
    RECORD_OK,
    RECORD_OOM,
    RECORD_TIMEOUT,
    RECORD_CRASH,
    RECORD_UNSUPPORTED,
    RECORD_FAILED,
    RECORD_STATUS_COUNT
};
const char *record_status_name(enum record_status status);
// RECORD_STATUS_COUNT for unknown names.
enum record_status record_status_from_name(const char *name);

struct number_list {
    size_t count;
    double *items; // [count]
};

struct record_parts {
    size_t count;
    void *items;              // [count] structs of the field's kind
    const char *const *names; // [count], for a map; NULL: rows
};

// A trial's key without a member of its own: a number, a text, JSON, true or false, or an object's struct.
union record_value {
    double number;
    const char *text;
    const json_t *json;
    int flag;
    const void *object;
};

// An object in a trial, with its keys in the table's order.
struct record_members {
    bool given;
    union record_value others[16];
};

struct record_limits {
    bool given;
    double memory, host_memory;
    union record_value others[4];
};

struct record_parallel {
    bool given;
    double data, sequence, stage, zero;
    const char *exchange;
    union record_value others[8];
};

struct record_trial {
    bool given;
    const json_t *json;         // the whole trial; NULL: see rest
    struct interned_item *rest; // the same with 0 for its counts, which vary within a sweep; NULL: see json
    // Keys with members (record_fields.c). Objects are never NULL, here and in a record: a null object has `given`
    // false and null members.
    const json_t *model, *lora, *objective, *optimizer, *method, *train;
    const char *dtype, *device, *profile, *interconnect, *kv_gradient_dtype, *gradient_dtype;
    double batch, context, prompt, group;
    int deterministic;
    const struct record_limits *limits;
    const struct record_parallel *parallel;
    union record_value others[24]; // all other keys, in their table's order
};

struct record_sm_clock {
    bool given;
    double min, median, max;
};

struct record_load {
    bool given;
    double before, cores, other_cores, stolen_cores, waited_cores;
};

struct record_tensor { // its name is the part's
    double relative_l2, max_abs;
    uint64_t hash;
};

struct record_gradient {
    bool given;
    double relative_l2, max_abs, cosine, decimals, mean_abs, mean_relative;
    double noise_floor, bound, bound_share, sums_relative_l2, worst_relative_l2;
    const char *verdict, *worst_tensor, *routing;
    uint64_t hash;
    struct record_parts tensors; // struct record_tensor
};

struct record_bias {
    bool given;
    double relative_l2, rms_error, subsets, flops;
};

struct record_routing {
    bool given;
    double flips, flips_max, relative_l2, kept_relative_l2, reference_flips, reference_relative_l2;
};

struct record_pair_sums {
    bool given;
    double difference, f64_error, f32_error, bf16_error, bf16_once_error;
};

// For training runs: values per step and per evaluation.
struct record_curve {
    bool given;
    struct number_list loss, gradient_norm, flops, evaluation_step, evaluation_loss, unchanged_weights,
        lost_updates;
    struct number_list metrics[OBJECTIVE_METRICS], evaluation_metrics[OBJECTIVE_METRICS];
};

// For several ranks: values per rank in order, or per group of equal ranks.
struct record_ranks {
    bool given;
    double count;
    const char *engine;
    int oversubscribed;
    struct number_list alike, peak_bytes, sent_bytes, received_bytes, messages, idle_share;
};

struct record_timeline {
    bool given;
    const json_t *category_order, *events;
};

// The framework whose step a plan is of.
struct record_framework {
    bool given;
    const char *name, *version, *torch, *checked, *peak_moment, *peak_operation;
    const json_t *unchecked;
    double reserved_low_bytes, reserved_high_bytes;
};

struct record_roofline {
    bool given;
    const char *source;
    double flops_per_s, bytes_per_s, launch_s, link_bytes_per_s;
};

struct record_row {
    const char *category, *operation;
    struct number_list shape;
    double launches, flops, bytes_moved, ms, estimate_ms;
};

struct record_categories {
    bool given;
    double step_ms;
    struct record_roofline roofline;
    struct record_parts rows; // struct record_row
};

// Why a search (advise, max-context, max-batch, frontier) has this trial.
struct record_search {
    bool given;
    const char *sought, *among, *beyond;
    const json_t *asked;
    double granularity, forward_flops;
    int memory_bound;
};

struct record_provenance {
    bool given;
    const char *revision, *compiler, *flags, *blas, *cpu, *card, *kernel, *time, *version;
    int dirty;
    double host_memory_bytes, threads, spin_count, clock_mhz_before, clock_mhz_after;
};

struct record;
// The records that one of several rounds was joined from (rounds.h), earliest first. Not a field: count is 0 in a
// record as written, which is its only round.
struct record_rounds {
    size_t count;
    const struct record **items; // [count], borrowed
};

// record_fields.h defines null for each. Texts and JSON are borrowed; in a record that was read (record_read.h) so
// are lists, parts and separate structs, which a record filled in by the program owns (record_json.h).
struct record {
    double schema, round;
    const char *id, *experiment, *reason, *profile, *estimate, *command;
    enum record_status status;
    struct record_trial trial;
    const json_t *chosen, *shares;
    const struct record_framework *framework;
    uint64_t data_hash, model_hash;
    double loss, aux_loss, router_z_loss;
    struct number_list drawn_chunks, skipped_chunks, samples_ms, cpu_ms, sample_chunks, slowdown;
    double median_ms, mean_ms, mean_error_ms, host_launch_ms;
    double flops_per_s, model_flops_per_s, gemm_flops_per_s, model_flops_share, estimate_ms, energy_j;
    double estimate_low_ms, estimate_high_ms, break_even_chunk;
    const struct record_sm_clock *sm_clock_mhz;
    struct record_load load;
    double peak_bytes, resident_bytes, device_used_bytes, device_reserved_bytes;
    double host_peak_bytes, unplanned_micro_batches;
    const double *peak_by_category, *host_peak_by_category; // [CATEGORY_COUNT]
    double lower_bound_bytes_per_token, lower_bound_bytes, peak_over_bound;
    double flops, model_flops, bytes_moved, attention_glue_bytes, link_out_bytes, link_in_bytes, launches,
        instructions;
    const struct record_ranks *ranks;
    struct record_gradient gradient;
    struct record_bias bias;
    const struct record_routing *routing;
    const struct record_pair_sums *pair_sums;
    const struct record_curve *curve;
    const struct record_timeline *timeline;
    const struct record_categories *categories;
    const struct record_search *search;
    struct record_provenance provenance;
    double wall_s;
    struct record_rounds rounds;
};

// The method's name; "" if unknown.
const char *record_method(const struct record *record);
// An option of the method as requested: "25%", or the given number of chunks; NULL: it has no such option.
const json_t *record_option(const struct record *record, const char *name);
// The same as a number, for a share the resulting count; NaN: not a number.
double record_option_number(const struct record *record, const char *name);
// Number of steps in the last quarter of a training run, at least one; 0: not a training run.
size_t record_last_steps(const struct record *record);
// A training run's final loss in nats, the mean over its last quarter of steps; and the last evaluation's. NaN: not
// a training run, or nothing was evaluated.
double record_last_loss(const struct record *record);
double record_held_out_loss(const struct record *record);
// The tensor of this name, likely at this index; NULL: none.
const struct record_tensor *record_tensor_find(const struct record_gradient *gradient, const char *name,
                                               size_t place);
// Tells whether other programs ran on processors that the samples needed: on more than a twentieth of them on
// average, or the record's own threads waited for as many. False if unknown.
bool record_disturbed(const struct record *record);
// Average number of processors that other programs and the host used while the samples ran, or else those that the
// record's threads waited for. NaN: unknown.
double record_cores_taken(const struct record *record);
// For records without these data, two signs of disturbance: before the samples the machine's load exceeded its
// cores and half of the record's threads, more than a sweep itself causes; or a single thread did not run for a
// tenth of the samples' time.
bool record_perhaps_disturbed(const struct record *record);
// The card's name without driver and libraries; "" on the CPU.
void record_card(const struct record *record, char *name, size_t size);
// Tells whether both used the same data and model; values missing in older records count as equal.
bool record_same_data(const struct record *a, const struct record *b);
bool record_same_model(const struct record *a, const struct record *b);
// Tells whether the rounding bound was too wide to judge the gradient.
bool record_gradient_undecided(const struct record *record);
// Tells whether the device only counts: plan-cpu, plan-cuda.
bool record_is_planned(const struct record *record);
// Tells whether it is a plan for no particular card: without a profile, whose number of multiprocessors determines
// bytes and launches.
bool record_is_of_no_card(const struct record *record);
// Tells whether one is planned and the other measured.
bool record_one_is_planned(const struct record *a, const struct record *b);
// Tells whether only one has a limit of device or host memory.
bool record_one_is_limited(const struct record *a, const struct record *b);
// Tells whether both have the chunks of draw 0, and these differ.
bool record_other_chunks(const struct record *a, const struct record *b);
// Tells whether both have the same processor (by its name and the BLAS's name) or card, and number of threads.
bool record_same_machine(const struct record *a, const struct record *b);
// The machine of the samples, for any number of threads: a card, or "AMD EPYC (Zen)", a processor and the BLAS's
// name for it; "" without samples.
enum { RECORD_MACHINE_BYTES = 200 };
void record_machine(const struct record *record, char *name, size_t size);
// Tells whether records have samples of several machines.
bool records_of_several_machines(const struct record *const *records, size_t count);
// Tells whether threads waited in the same way, spinning equally long: a single thread never waits, and missing
// values count as equal.
bool record_waits_alike(const struct record *a, const struct record *b);
static inline const char *text_or(const char *text, const char *without)
{
    return text ? text : without;
}
// A JSON string; invalid UTF-8, which a crashed program may print, becomes '?'.
json_t *record_text(const char *value);
