// Record: one line of JSON per trial of a sweep, appended and synced when the trial ends.
//
// Its fields, with units and when they are null: record_fields.c, printed by `longbp list fields`. The structs here
// hold a record in memory, member by member of that table.
//
// Where chunks are drawn all but the times is of draw 0, the one that sampler_seed names: a plan's bytes and
// counts are then those of the run, and two runs' are equal. A number that is not finite is null (decimals of an
// exact gradient too). What a trial did not come to is null. A planned trial ("device": "plan-cpu" or "plan-cuda")
// has no loss, no samples and no gradient; its bytes and counts are those of a step on the device that it is like.
#pragma once
#include "kernels/device/arena.h"
#include "kernels/device/objective_sums.h"
#include <jansson.h>

#define RECORD_SCHEMA 2
// Below this every whole number is a double.
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
// RECORD_STATUS_COUNT if there is no such status.
enum record_status record_status_from_name(const char *name);

struct number_list {
    size_t count;
    double *items; // [count]
};

struct record_parts {
    size_t count;
    void *items;              // [count] structs of the field's kind
    const char *const *names; // [count], of a map; NULL: of rows
};

// A key of a trial that no reader asks for by name: a number, a text, JSON, true or false, or an object's struct.
union record_value {
    double number;
    const char *text;
    const json_t *json;
    int flag;
    const void *object;
};

// An object of a trial's, its keys in their table's order.
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
    const json_t *json;         // the whole of it; NULL: see rest
    struct interned_item *rest; // the same with 0 for its counts, in which trials of a sweep differ; NULL: see json
    // Keys that readers ask for by name (record_fields.c); objects are never NULL, here and in a record: of what is
    // null all is, and is not given.
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
    const char *verdict, *worst_tensor;
    uint64_t hash;
    struct record_parts tensors; // struct record_tensor
};

struct record_bias {
    bool given;
    double relative_l2, rms_error, subsets;
};

struct record_pair_sums {
    bool given;
    double difference, f64_error, f32_error, bf16_error, bf16_once_error;
};

// Of a training run: a number of each step, and of each evaluation.
struct record_curve {
    bool given;
    struct number_list loss, gradient_norm, evaluation_step, evaluation_loss, unchanged_weights, lost_updates;
    struct number_list metrics[OBJECTIVE_METRICS], evaluation_metrics[OBJECTIVE_METRICS];
};

// Of a trial over several ranks: a number of each, in their order, or of so many as are alike.
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

struct record_provenance {
    bool given;
    const char *revision, *compiler, *flags, *blas, *cpu, *card, *kernel, *time, *version;
    int dirty;
    double host_memory_bytes, threads, spin_count, clock_mhz_before, clock_mhz_after;
};

struct record;
// The records that one of several rounds was joined from (rounds.h), the earliest first. No field: count 0 in a
// record as it was written, which is its own only round.
struct record_rounds {
    size_t count;
    const struct record **items; // [count], borrowed
};

// record_fields.h says what is null in each. Texts and JSON are borrowed; so are lists, parts and what stands apart
// of a record that was read (record_read.h), one that was filled in owns them (record_json.h).
struct record {
    double schema, round;
    const char *id, *experiment, *reason, *profile, *estimate, *command;
    enum record_status status;
    struct record_trial trial;
    const json_t *chosen, *shares;
    uint64_t data_hash, model_hash;
    double loss;
    struct number_list drawn_chunks, samples_ms, cpu_ms, sample_chunks, slowdown;
    double median_ms, mean_ms, mean_error_ms, host_launch_ms;
    double flops_per_s, model_flops_per_s, gemm_flops_per_s, model_flops_share, estimate_ms, energy_j;
    double estimate_low_ms, estimate_high_ms;
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
    const struct record_pair_sums *pair_sums;
    const struct record_curve *curve;
    const struct record_timeline *timeline;
    const struct record_categories *categories;
    struct record_provenance provenance;
    double wall_s;
    struct record_rounds rounds;
};

// The name of the method that was run; "" if the record does not say.
const char *record_method(const struct record *record);
// An option of the method, as it was asked for: "25%", or the number of chunks that was given; NULL: it has none
// of that name.
const json_t *record_option(const struct record *record, const char *name);
// As a number, of what was asked for as a share the one that it became; NaN: it is none.
double record_option_number(const struct record *record, const char *name);
// How many steps are the last quarter of a training run; at least one; 0: it is no such run.
size_t record_last_steps(const struct record *record);
// Of a training run the loss that it ends with, in nats: the mean over its last quarter of steps; and that of what
// was evaluated last. NaN: it is no such run, or nothing was evaluated.
double record_last_loss(const struct record *record);
double record_held_out_loss(const struct record *record);
// The tensor of that name, most likely at that place; NULL: there is none.
const struct record_tensor *record_tensor_find(const struct record_gradient *gradient, const char *name,
                                               size_t place);
// Whether something else ran on the processors that the samples needed: on more than a twentieth of them, on
// average, or the record's own threads waited for as many. False where the record does not say.
bool record_disturbed(const struct record *record);
// How many processors something else took while the samples ran, on average, as far as the record says: those that
// other programs and the host took, else those that its own threads waited for. NaN: it does not say.
double record_cores_taken(const struct record *record);
// Whether the record does not say, but one of two signs was there: before the samples the machine's load was more
// than its cores and half of the record's threads, which is more than the sweep itself leaves behind; or the one
// thread of the record was not running for a tenth of the samples' time.
bool record_perhaps_disturbed(const struct record *record);
// The name of the card that a record was measured on, without the driver and the libraries behind it; "" on the
// CPU.
void record_card(const struct record *record, char *name, size_t size);
// Whether both read the same data, and the same model; what a record of an earlier version does not say is taken
// for the same.
bool record_same_data(const struct record *a, const struct record *b);
bool record_same_model(const struct record *a, const struct record *b);
// Whether its gradient was checked in vain: the bound on rounding cannot tell a right one from a wrong one.
bool record_gradient_undecided(const struct record *record);
// Whether its device computes nothing, but counts: plan-cpu, plan-cuda.
bool record_is_planned(const struct record *record);
// Whether it is planned for a card, and for none in particular: without a profile, which says how many
// multiprocessors a card has. Bytes and launches follow from these.
bool record_is_of_no_card(const struct record *record);
// Whether one of the two is planned, and the other was measured.
bool record_one_is_planned(const struct record *a, const struct record *b);
// Whether one of the two has a limit of memory, of the device or of the host, that the other has not.
bool record_one_is_limited(const struct record *a, const struct record *b);
// Whether both say which chunks draw 0 has, and those are not the same.
bool record_other_chunks(const struct record *a, const struct record *b);
// Whether both are of one processor, by its name and by what the BLAS takes it for, or card, and of as many
// threads.
bool record_same_machine(const struct record *a, const struct record *b);
// What the samples were timed on, however many threads it had: a card, or "AMD EPYC (Zen)", a processor and what
// the BLAS takes it for; "" where there are none.
enum { RECORD_MACHINE_BYTES = 200 };
void record_machine(const struct record *record, char *name, size_t size);
// Whether records have samples of several machines.
bool records_of_several_machines(const struct record *const *records, size_t count);
// Whether threads waited for each other in one way, spinning for as long: one thread never waits, and what a record
// does not say is taken for the same.
bool record_waits_alike(const struct record *a, const struct record *b);
static inline const char *text_or(const char *text, const char *without)
{
    return text ? text : without;
}
// A JSON string; bad UTF-8, which a crashed program may print, becomes '?'.
json_t *record_text(const char *value);
