#include "harness/record/record_fields.h"
#include "harness/record/record.h"
#include <math.h>
#include <stddef.h>

#define FIELDS static const struct record_field

// A member of a struct in record.h is written under its own name.
#define FIELD(owner, member) .name = #member, .offset = offsetof(struct owner, member)
// Of a map or rows: the size of one of its parts.
#define PARTS(of, part) .members = of, .part_bytes = sizeof(struct part)

// An object that few records have, or many have alike, stands apart: null_part stands for null.
#define APART(of, part, null_part) .members = of, .part_bytes = sizeof(struct part), .absent = &(null_part)
#define TALLY                      .type = FIELD_TALLY, .part_bytes = sizeof no_tally, .absent = no_tally

static const struct record_curve no_curve;
static const struct record_ranks no_ranks = {.count = NAN, .oversubscribed = -1};
static const struct record_measure no_measure = {.warmup = NAN,
                                                 .samples = NAN,
                                                 .max_seconds = NAN,
                                                 .timeline = -1,
                                                 .gemm = -1,
                                                 .bias = -1,
                                                 .pair_sums = -1,
                                                 .lost_updates = -1,
                                                 .categories = -1};
static const struct record_timeline no_timeline;
static const struct record_place no_place;
static const struct record_host no_host;
static const struct record_parallel no_parallel = {
    .data = NAN, .sequence = NAN, .stage = NAN, .zero = NAN, .overlap = -1, .node = NAN};
static const struct record_sm_clock no_sm_clock = {.min = NAN, .median = NAN, .max = NAN};
static const struct record_pair_sums no_pair_sums = {
    .difference = NAN, .f64_error = NAN, .f32_error = NAN, .bf16_error = NAN, .bf16_once_error = NAN};
static const struct record_categories no_categories = {
    .step_ms = NAN, .roofline = {.flops_per_s = NAN, .bytes_per_s = NAN, .launch_s = NAN, .link_bytes_per_s = NAN}};
static const double no_tally[CATEGORY_COUNT] = {[0 ... CATEGORY_COUNT - 1] = NAN};

FIELDS measure_fields[] = {
    {FIELD(record_measure, warmup), .type = FIELD_COUNT, .meaning = "steps before the samples"},
    {FIELD(record_measure, samples), .type = FIELD_COUNT, .meaning = "timed steps asked for"},
    {FIELD(record_measure, max_seconds), .type = FIELD_SIZE, .unit = "s", .meaning = "limit of the trial; 0: none"},
    {FIELD(record_measure, gradient), .type = FIELD_STRING, .meaning = "full-f64 or none"},
    {FIELD(record_measure, timeline), .type = FIELD_BOOL},
    {FIELD(record_measure, gemm), .type = FIELD_BOOL},
    {FIELD(record_measure, bias), .type = FIELD_BOOL},
    {FIELD(record_measure, pair_sums), .type = FIELD_BOOL},
    {FIELD(record_measure, lost_updates), .type = FIELD_BOOL},
    {FIELD(record_measure, categories), .type = FIELD_BOOL},
    {0}};

FIELDS limits_fields[] = {
    {FIELD(record_limits, memory), .type = FIELD_COUNT, .unit = "bytes", .null = "what the machine has free"},
    {FIELD(record_limits, host_memory), .type = FIELD_COUNT, .unit = "bytes",
     .null = "what the machine has free, or its folder's disk"},
    {0}};

FIELDS place_fields[] = {
    {FIELD(record_place, weights), .type = FIELD_STRING, .meaning = "device or host, while nothing reads them"},
    {FIELD(record_place, gradients), .type = FIELD_STRING, .meaning = "device or host, once they are complete"},
    {FIELD(record_place, optimizer), .type = FIELD_STRING, .meaning = "device or host: its state between updates"},
    {0}};

FIELDS host_fields[] = {{FIELD(record_host, folder), .type = FIELD_STRING, .meaning = "of files that are mapped"},
                        {0}};

FIELDS parallel_fields[] = {
    {FIELD(record_parallel, data), .type = FIELD_COUNT, .unit = "ranks", .meaning = "each takes some sequences"},
    {FIELD(record_parallel, sequence), .type = FIELD_COUNT, .unit = "ranks",
     .meaning = "each takes some of the tokens of the same sequences"},
    {FIELD(record_parallel, stage), .type = FIELD_COUNT, .unit = "ranks", .meaning = "each has some of the layers"},
    {FIELD(record_parallel, zero), .type = FIELD_COUNT,
     .meaning = "in shares over data and sequence ranks: 1 the optimizer's state, 2 gradients too, 3 weights too"},
    {FIELD(record_parallel, exchange), .type = FIELD_STRING,
     .meaning = "of what attention reads between sequence ranks: gather, ring or all-to-all"},
    {FIELD(record_parallel, sum), .type = FIELD_STRING,
     .meaning = "of gradients over data and sequence ranks: ordered, by their devices, or engine, by what carries "
                "the bytes"},
    {FIELD(record_parallel, overlap), .type = FIELD_BOOL,
     .meaning = "what data and sequence ranks send of weights and gradients goes while they compute"},
    {FIELD(record_parallel, node), .type = FIELD_COUNT, .unit = "ranks",
     .meaning = "of data and sequence send each other weights and gradients before nodes do"},
    {0}};

FIELDS trial_fields[] = {
    {FIELD(record_trial, model), .type = FIELD_ANY, .meaning = "preset, folder or shape"},
    {FIELD(record_trial, dtype), .type = FIELD_STRING, .required = true, .meaning = "of weights and activations"},
    {FIELD(record_trial, device), .type = FIELD_STRING, .required = true,
     .meaning = "cpu, cuda, cuda:1, plan-cpu, plan-cuda"},
    {FIELD(record_trial, profile), .type = FIELD_STRING, .meaning = "device profile: its name or path",
     .null = "none"},
    {FIELD(record_trial, links), .type = FIELD_STRING, .meaning = "between ranks: their name or path",
     .null = "the profile's"},
    {FIELD(record_trial, batch), .type = FIELD_COUNT, .required = true, .unit = "sequences"},
    {FIELD(record_trial, context), .type = FIELD_COUNT, .required = true, .unit = "tokens"},
    {FIELD(record_trial, seed), .type = FIELD_COUNT, .meaning = "of weights and random tokens"},
    {FIELD(record_trial, data), .type = FIELD_ANY,
     .meaning = "random, {text: PATH}, {tokens: PATH}, {tokens: PATH, dtype: u16 or u32} or {batch: PATH}"},
    {FIELD(record_trial, labels), .type = FIELD_STRING, .meaning = "file", .null = "the next token"},
    {FIELD(record_trial, documents), .type = FIELD_ANY,
     .meaning = "lengths in tokens of those packed into a sequence: 512, a list, or {mean: 512}",
     .null = "each sequence is one, or what a batch file says"},
    {FIELD(record_trial, prompt), .type = FIELD_COUNT, .unit = "tokens",
     .meaning = "that each sequence begins with and does not predict"},
    {FIELD(record_trial, group), .type = FIELD_COUNT, .unit = "sequences",
     .meaning = "whose common prompt is walked once"},
    {FIELD(record_trial, objective), .type = FIELD_ANY, .meaning = "what is minimised: name, or name and options"},
    {FIELD(record_trial, reference), .type = FIELD_STRING, .meaning = "file, random, adapter-off, or a folder",
     .null = "the objective reads none"},
    {FIELD(record_trial, lora), .type = FIELD_OBJECT, .meaning = "rank, alpha, targets",
     .null = "every weight trains"},
    {FIELD(record_trial, weights), .type = FIELD_STRING, .meaning = "nf4 or int8: of the layers' projections",
     .null = "all are in the dtype"},
    {FIELD(record_trial, optimizer), .type = FIELD_OBJECT, .meaning = "name, and every option", .null = "none"},
    {FIELD(record_trial, kv_gradient_dtype), .type = FIELD_STRING, .meaning = "of the sums of dK and dV"},
    {FIELD(record_trial, gradient_dtype), .type = FIELD_STRING, .meaning = "of the sums of weights' gradients"},
    {FIELD(record_trial, deterministic), .type = FIELD_BOOL, .meaning = "the same bits in every run"},
    {FIELD(record_trial, tf32), .type = FIELD_BOOL, .meaning = "factors of GEMM in f32 may be rounded to TF32"},
    {FIELD(record_trial, whole_attention), .type = FIELD_BOOL,
     .meaning = "attention's backward is not cut into blocks"},
    {FIELD(record_trial, attention_queries), .type = FIELD_COUNT, .unit = "queries",
     .meaning = "of such a block, at most, where a device runs it in blocks"},
    {FIELD(record_trial, unfused), .type = FIELD_BOOL,
     .meaning = "copies that a product could spare were made all the same"},
    {FIELD(record_trial, gemm_algorithms), .type = FIELD_STRING,
     .meaning = "a file that names which of cuBLASLt's candidates each GEMM takes",
     .null = "the library's first choice"},
    {FIELD(record_trial, pad_gradient), .type = FIELD_BOOL,
     .meaning = "the embedding's row of pad_token_id takes a gradient"},
    {FIELD(record_trial, method), .type = FIELD_OBJECT, .required = true,
     .meaning = "name, and every option it knows"},
    {FIELD(record_trial, parallel), .type = FIELD_OBJECT, .meaning = "ranks that share a step",
     APART(parallel_fields, record_parallel, no_parallel)},
    {FIELD(record_trial, measure), .type = FIELD_OBJECT, .meaning = "what was asked for",
     APART(measure_fields, record_measure, no_measure)},
    {FIELD(record_trial, limits), .type = FIELD_OBJECT, .members = limits_fields},
    {FIELD(record_trial, place), .type = FIELD_OBJECT, .meaning = "where is kept what every method has",
     APART(place_fields, record_place, no_place)},
    {FIELD(record_trial, host), .type = FIELD_OBJECT, .meaning = "what the host's place is",
     .null = "memory, pinned for a card", APART(host_fields, record_host, no_host)},
    {FIELD(record_trial, train), .type = FIELD_OBJECT, .meaning = "the training run: steps, schedule and so on",
     .null = "one step was measured again and again"},
    {0}};

FIELDS tensor_fields[] = {
    {FIELD(record_tensor, relative_l2), .type = FIELD_SIZE,
     .meaning = "||g - r|| / ||r||; of a tensor whose r is 0 but for rounding over its share of the whole",
     .null = "not finite"},
    {FIELD(record_tensor, max_abs), .type = FIELD_SIZE, .meaning = "max |g - r|", .null = "not finite"},
    {FIELD(record_tensor, hash), .type = FIELD_HASH, .meaning = "XXH3 of its bytes as the device holds them"},
    {0}};

FIELDS gradient_fields[] = {
    {FIELD(record_gradient, relative_l2), .type = FIELD_SIZE, .meaning = "||g - r|| / ||r||, r: full in f64",
     .null = "not finite"},
    {FIELD(record_gradient, max_abs), .type = FIELD_SIZE, .meaning = "max |g - r|", .null = "not finite"},
    {FIELD(record_gradient, cosine), .type = FIELD_NUMBER, .meaning = "g . r / (||g|| ||r||)",
     .null = "not finite"},
    {FIELD(record_gradient, decimals), .type = FIELD_NUMBER, .meaning = "-log10(max_abs)",
     .null = "not finite: g = r"},
    {FIELD(record_gradient, mean_abs), .type = FIELD_SIZE, .meaning = "mean |g - r|", .null = "not finite"},
    {FIELD(record_gradient, mean_relative), .type = FIELD_SIZE, .meaning = "mean |g - r| / |r| where r != 0",
     .null = "not finite"},
    {FIELD(record_gradient, noise_floor), .type = FIELD_SIZE,
     .meaning = "relative_l2 of full summed in reverse against full, both in the trial's dtype",
     .null = "not finite"},
    {FIELD(record_gradient, bound), .type = FIELD_SIZE,
     .meaning = "the most of relative_l2 that rounding explains (methods/methods.md)",
     .null = "the method is not exact"},
    {FIELD(record_gradient, bound_share), .type = FIELD_SIZE,
     .meaning = "the largest error over its bound: of the gradient, its noise floor and those of each tensor",
     .null = "not finite, or as bound"},
    {FIELD(record_gradient, verdict), .type = FIELD_STRING,
     .meaning =
         "within: bound_share <= 1; beyond: more; undecided: within a bound that cannot tell, above 0.25 or of a "
         "reference that moves by itself",
     .null = "as bound"},
    {FIELD(record_gradient, sums_relative_l2), .type = FIELD_SIZE,
     .meaning = "what sums in bf16 alone change: against the same method with sums in f32",
     .null = "there are none in bf16"},
    {FIELD(record_gradient, worst_tensor), .type = FIELD_STRING, .meaning = "with the largest relative_l2",
     .null = "nothing trains"},
    {FIELD(record_gradient, worst_relative_l2), .type = FIELD_SIZE, .meaning = "its relative_l2",
     .null = "not finite"},
    {FIELD(record_gradient, hash), .type = FIELD_HASH,
     .meaning = "XXH3 of \"NAME HASH\\n\" of each tensor, in the model's order"},
    {FIELD(record_gradient, tensors), .type = FIELD_MAP, .meaning = "by name, in the model's order",
     PARTS(tensor_fields, record_tensor)},
    {0}};

FIELDS bias_fields[] = {
    {FIELD(record_bias, relative_l2), .type = FIELD_SIZE, .meaning = "||E[g] - r|| / ||r||", .null = "not finite"},
    {FIELD(record_bias, rms_error), .type = FIELD_SIZE, .meaning = "sqrt(E||g - r||^2) / ||r||",
     .null = "not finite"},
    {FIELD(record_bias, subsets), .type = FIELD_COUNT, .meaning = "of columns, each walked once"},
    {0}};

FIELDS pair_sums_fields[] = {
    {FIELD(record_pair_sums, difference), .type = FIELD_SIZE, .unit = "nats",
     .meaning = "|D|, D the chosen sequence's sum of log-probs over the reference's, less the rejected one's"},
    {FIELD(record_pair_sums, f64_error), .type = FIELD_SIZE, .unit = "nats",
     .meaning = "|error of D| with its four sums in f64, row by row"},
    {FIELD(record_pair_sums, f32_error), .type = FIELD_SIZE, .unit = "nats", .meaning = "in f32"},
    {FIELD(record_pair_sums, bf16_error), .type = FIELD_SIZE, .unit = "nats", .meaning = "in bf16, its rows too"},
    {FIELD(record_pair_sums, bf16_once_error), .type = FIELD_SIZE, .unit = "nats",
     .meaning = "of rows in bf16, each sum rounded to it once"},
    {0}};

// Of each step, and of what is held out.
#define METRIC(metric, key, of, said)                                                                              \
    {.name = key,                                                                                                  \
     .offset = offsetof(struct record_curve, metrics[metric]),                                                     \
     .type = of,                                                                                                   \
     .list = true,                                                                                                 \
     .none = NONE_LEFT_OUT,                                                                                        \
     .meaning = "of each step, before its update: " said,                                                          \
     .null = "the objective has none"},                                                                            \
    {                                                                                                              \
        .name = "evaluation_" key, .offset = offsetof(struct record_curve, evaluation_metrics[metric]),            \
        .type = of, .list = true, .none = NONE_LEFT_OUT, .meaning = "the same of held-out sequences",              \
        .null = "the objective has none, or nothing was evaluated"                                                 \
    }

FIELDS curve_fields[] = {
    {FIELD(record_curve, loss), .type = FIELD_NUMBER, .list = true, .unit = "nats",
     .meaning = "of each step, before its update"},
    {FIELD(record_curve, gradient_norm), .type = FIELD_SIZE, .list = true,
     .meaning = "of each step, before it is clipped; null: each gradient is freed in the walk"},
    {FIELD(record_curve, evaluation_step), .type = FIELD_COUNT, .list = true, .none = NONE_EMPTY,
     .meaning = "after how many steps held-out tokens were evaluated"},
    {FIELD(record_curve, evaluation_loss), .type = FIELD_NUMBER, .list = true, .none = NONE_EMPTY, .unit = "nats",
     .meaning = "of them"},
    {FIELD(record_curve, unchanged_weights), .type = FIELD_SIZE, .list = true, .none = NONE_LEFT_OUT,
     .meaning =
         "of each step, the share of weights that were to move and stayed as they were: an update was rounded away",
     .null = "not asked for (measure.lost_updates)"},
    {FIELD(record_curve, lost_updates), .type = FIELD_NUMBER, .list = true, .none = NONE_LEFT_OUT,
     .meaning =
         "of each step, 1 - <w' - w, u> / <u, u>: u what weights w, or their master, are moved by before it is "
         "rounded",
     .null = "not asked for (measure.lost_updates)"},
    METRIC(
        METRIC_MARGIN, "margin", FIELD_NUMBER,
        "beta times what the pairs' chosen sequences gained over the reference beyond the rejected ones, a mean"),
    METRIC(METRIC_ACCURACY, "accuracy", FIELD_SIZE, "share of pairs with a margin above 0"),
    METRIC(METRIC_CLIP_LOW, "clip_low", FIELD_SIZE, "share of tokens whose ratio is below its bound"),
    METRIC(METRIC_CLIP_HIGH, "clip_high", FIELD_SIZE, "share of tokens whose ratio is above its bound"),
    METRIC(METRIC_KL, "kl", FIELD_NUMBER, "mean divergence of tokens from the reference, k3"),
    METRIC(METRIC_ENTROPY, "entropy", FIELD_SIZE, "mean entropy of tokens' distributions over the vocabulary"),
    METRIC(METRIC_Z_LOSS, "z_loss", FIELD_SIZE, "mean of the squares of tokens' logsumexp"),
    {0}};

FIELDS ranks_fields[] = {
    {FIELD(record_ranks, count), .type = FIELD_COUNT},
    {FIELD(record_ranks, engine), .type = FIELD_STRING, .meaning = "that carries what they send",
     .null = "planned"},
    {FIELD(record_ranks, oversubscribed), .type = FIELD_BOOL,
     .meaning = "there are more than processors: times tell nothing", .null = "planned"},
    {FIELD(record_ranks, alike), .type = FIELD_COUNT, .list = true, .none = NONE_NULL, .unit = "ranks",
     .meaning = "so many, one after another, that each number of the lists below is of",
     .null = "at most 64 ranks: one"},
    {FIELD(record_ranks, peak_bytes), .type = FIELD_COUNT, .list = true, .unit = "bytes",
     .meaning = "of each rank, in their order"},
    {FIELD(record_ranks, sent_bytes), .type = FIELD_COUNT, .list = true, .unit = "bytes",
     .meaning = "by each in a step"},
    {FIELD(record_ranks, received_bytes), .type = FIELD_COUNT, .list = true, .unit = "bytes",
     .meaning = "by each in a step"},
    {FIELD(record_ranks, messages), .type = FIELD_COUNT, .list = true, .meaning = "sent by each in a step"},
    {FIELD(record_ranks, idle_share), .type = FIELD_SIZE, .list = true, .none = NONE_NULL,
     .meaning = "of estimate_ms that each waits for others: an estimate",
     .null = "measured, or estimate_ms is null"},
    {0}};

FIELDS timeline_fields[] = {
    {FIELD(record_timeline, category_order), .type = FIELD_ARRAY, .meaning = "names of the categories of an event"},
    {FIELD(record_timeline, events), .type = FIELD_ARRAY, .meaning = "[ms, FLOP, live bytes of each category]"},
    {0}};

FIELDS roofline_fields[] = {
    {FIELD(record_roofline, source), .type = FIELD_STRING, .meaning = "name of the profile, or measured"},
    {FIELD(record_roofline, flops_per_s), .type = FIELD_SIZE, .unit = "FLOP/s"},
    {FIELD(record_roofline, bytes_per_s), .type = FIELD_SIZE, .unit = "bytes/s"},
    {FIELD(record_roofline, launch_s), .type = FIELD_SIZE, .unit = "s"},
    {FIELD(record_roofline, link_bytes_per_s), .type = FIELD_SIZE, .unit = "bytes/s",
     .meaning = "between device and host, in each direction", .null = "not known"},
    {0}};

FIELDS row_fields[] = {
    {FIELD(record_row, category), .type = FIELD_STRING,
     .meaning = "idle: the device waited, for the host or a copy"},
    {FIELD(record_row, operation), .type = FIELD_STRING},
    {FIELD(record_row, shape), .type = FIELD_COUNT, .list = true, .meaning = "[m, n, k]", .null = "no GEMM"},
    {FIELD(record_row, launches), .type = FIELD_COUNT},
    {FIELD(record_row, flops), .type = FIELD_WHOLE, .unit = "FLOP"},
    {FIELD(record_row, bytes_moved), .type = FIELD_WHOLE, .unit = "bytes"},
    {FIELD(record_row, ms), .type = FIELD_SIZE, .unit = "ms", .meaning = "all rows add up to step_ms",
     .null = "planned"},
    {FIELD(record_row, estimate_ms), .type = FIELD_SIZE, .unit = "ms", .meaning = "its share of estimate_ms",
     .null = "no profile, and no roofline was measured"},
    {0}};

FIELDS categories_fields[] = {{FIELD(record_categories, step_ms), .type = FIELD_SIZE, .unit = "ms",
                               .meaning = "of the step taken apart", .null = "planned"},
                              {FIELD(record_categories, roofline), .type = FIELD_OBJECT,
                               .null = "a card without a profile", .members = roofline_fields},
                              {FIELD(record_categories, rows), .type = FIELD_ROWS,
                               .meaning = "a kind of operation each", PARTS(row_fields, record_row)},
                              {0}};

FIELDS sm_clock_fields[] = {{FIELD(record_sm_clock, min), .type = FIELD_SIZE, .unit = "MHz"},
                            {FIELD(record_sm_clock, median), .type = FIELD_SIZE, .unit = "MHz"},
                            {FIELD(record_sm_clock, max), .type = FIELD_SIZE, .unit = "MHz"},
                            {0}};

FIELDS load_fields[] = {
    {FIELD(record_load, before), .type = FIELD_SIZE, .meaning = "1-minute load average when they began",
     .null = "the system does not say"},
    {FIELD(record_load, cores), .type = FIELD_COUNT, .meaning = "that the machine has"},
    {FIELD(record_load, other_cores), .type = FIELD_SIZE, .unit = "cores",
     .meaning = "that other programs kept busy, on average", .null = "samples shorter than 200 ms together"},
    {FIELD(record_load, stolen_cores), .type = FIELD_SIZE, .unit = "cores",
     .meaning = "that were due to this machine and that its host gave to others, on average",
     .null = "as other_cores"},
    {FIELD(record_load, waited_cores), .type = FIELD_SIZE, .none = NONE_LEFT_OUT, .unit = "cores",
     .meaning = "that the trial's own threads were ready to run on and waited for, on average",
     .null = "the system does not say, or the trial has more threads than cores"},
    {0}};

FIELDS provenance_fields[] = {
    {FIELD(record_provenance, revision), .type = FIELD_STRING, .meaning = "of the program, by git"},
    {FIELD(record_provenance, dirty), .type = FIELD_BOOL, .meaning = "sources were not those of the revision",
     .null = "not known"},
    {FIELD(record_provenance, compiler), .type = FIELD_STRING},
    {FIELD(record_provenance, flags), .type = FIELD_STRING, .meaning = "of the compiler"},
    {FIELD(record_provenance, blas), .type = FIELD_STRING,
     .meaning = "its version and the core it chose; what else multiplies"},
    {FIELD(record_provenance, cpu), .type = FIELD_STRING},
    {FIELD(record_provenance, card), .type = FIELD_STRING, .meaning = "its name, driver and libraries",
     .null = "the CPU"},
    {FIELD(record_provenance, host_memory_bytes), .type = FIELD_COUNT, .unit = "bytes"},
    {FIELD(record_provenance, threads), .type = FIELD_COUNT},
    {FIELD(record_provenance, spin_count), .type = FIELD_COUNT,
     .meaning = "turns that a thread spins at a barrier before it sleeps: 0 beside other work",
     .null = "the OpenMP library's own"},
    {FIELD(record_provenance, kernel), .type = FIELD_STRING, .meaning = "of the operating system"},
    {FIELD(record_provenance, clock_mhz_before), .type = FIELD_SIZE, .unit = "MHz", .meaning = "of the CPU",
     .null = "not known"},
    {FIELD(record_provenance, clock_mhz_after), .type = FIELD_SIZE, .unit = "MHz", .meaning = "of the CPU",
     .null = "not known"},
    {FIELD(record_provenance, time), .type = FIELD_STRING, .meaning = "UTC, ISO 8601"},
    {FIELD(record_provenance, version), .type = FIELD_STRING, .meaning = "of the program"},
    {0}};

const struct record_field record_fields[] = {
    {FIELD(record, schema), .type = FIELD_COUNT, .required = true, .meaning = "version of this layout"},
    {FIELD(record, id), .type = FIELD_STRING, .required = true,
     .meaning = "hash of what differs from the defaults: 32 hex"},
    {FIELD(record, experiment), .type = FIELD_STRING, .required = true},
    {FIELD(record, round), .type = FIELD_COUNT, .meaning = "of `run --rounds`, from 1",
     .null = "measured by itself, or by a version before this field"},
    {FIELD(record, status), .type = FIELD_STATUS, .required = true,
     .meaning = "ok, oom, timeout, crash, unsupported or failed"},
    {FIELD(record, reason), .type = FIELD_STRING, .meaning = "of a status that is not ok"},
    {FIELD(record, trial), .type = FIELD_TRIAL, .required = true,
     .meaning = "what was run: every key (longbp list keys), its default spelled out", .members = trial_fields},
    {FIELD(record, chosen), .type = FIELD_OBJECT,
     .meaning = "in place of auto: its name and every option, and what has a place on the host",
     .null = "the trial names its method"},
    {FIELD(record, shares), .type = FIELD_OBJECT,
     .meaning = "options of the method that were asked for as shares of what there is, budget: 25%",
     .null = "none were"},
    {FIELD(record, data_hash), .type = FIELD_HASH,
     .meaning = "XXH3 of the tokens of the step, of a training run's first one, and of labels and what else its "
                "objective reads",
     .null = "random data; planned"},
    {FIELD(record, model_hash), .type = FIELD_HASH,
     .meaning = "XXH3 of the files of the model's folder, of its adapter and of a reference model; planned: "
                "without weights",
     .null = "no folder is read"},
    {FIELD(record, loss), .type = FIELD_NUMBER, .unit = "nats", .meaning = "of the first step", .null = "planned"},
    {FIELD(record, columns), .type = FIELD_COUNT, .list = true, .none = NONE_LEFT_OUT,
     .meaning = "the columns of draw 0", .null = "a method without columns"},
    {FIELD(record, samples_ms), .type = FIELD_POSITIVE, .list = true, .none = NONE_EMPTY, .unit = "ms",
     .meaning = "a step each; empty: planned"},
    {FIELD(record, cpu_ms), .type = FIELD_SIZE, .list = true, .none = NONE_LEFT_OUT, .unit = "ms",
     .meaning = "processor time of each sample, of all threads", .null = "planned, a card, or several ranks"},
    {FIELD(record, sample_columns), .type = FIELD_COUNT, .list = true, .none = NONE_LEFT_OUT,
     .meaning =
         "how many columns each sample drew: sample i walks draw i; of a plan, what the estimate is the mean of",
     .null = "nothing is drawn"},
    {FIELD(record, slowdown), .type = FIELD_POSITIVE, .list = true, .none = NONE_LEFT_OUT,
     .meaning =
         "of each sample: how many times as long a fixed mix of operations (harness/machine/yardstick.h) took just "
         "before and after it as when the profile's rates were measured",
     .null = "the profile has no measured rates; planned, trained, or several ranks"},
    {FIELD(record, median_ms), .type = FIELD_SIZE, .unit = "ms", .meaning = "of the samples", .null = "planned"},
    {FIELD(record, mean_ms), .type = FIELD_SIZE, .unit = "ms", .meaning = "of the draws",
     .null = "nothing is drawn"},
    {FIELD(record, mean_error_ms), .type = FIELD_SIZE, .unit = "ms", .meaning = "standard error of mean_ms",
     .null = "nothing is drawn, or one sample"},
    {FIELD(record, asked_ms), .type = FIELD_SIZE, .unit = "ms",
     .meaning = "the host's time until it had asked for all of a step, median or mean; near the step's time the "
                "host limits",
     .null = "the CPU"},
    {FIELD(record, flops_per_s), .type = FIELD_SIZE, .unit = "FLOP/s",
     .meaning = "flops over the median; of draws those of draw 0 over its sample", .null = "planned"},
    {FIELD(record, model_flops_per_s), .type = FIELD_SIZE, .unit = "FLOP/s",
     .meaning = "model_flops over the median", .null = "planned, or not exact"},
    {FIELD(record, gemm_flops_per_s), .type = FIELD_SIZE, .unit = "FLOP/s",
     .meaning = "of a large GEMM right after the samples", .null = "not asked for"},
    {FIELD(record, model_flops_share), .type = FIELD_SIZE, .meaning = "model_flops_per_s over gemm_flops_per_s",
     .null = "one is null"},
    {FIELD(record, estimate_ms), .type = FIELD_SIZE, .unit = "ms",
     .meaning =
         "what the profile makes of a step, by the rates of its operations and its power limit: the longest of "
         "its queues (operations, copies out, "
         "copies in), with their waits; of several ranks until the last is done, by the links between them",
     .null = "no profile, none of the link over which the step copies, or between ranks"},
    {FIELD(record, estimate_low_ms), .type = FIELD_SIZE, .unit = "ms",
     .meaning =
         "the least that it may take: by the fastest of the rates that longbp calibrate measured, but for one "
         "in twenty; by scaled rates, of other cards than were measured",
     .null = "as estimate_ms"},
    {FIELD(record, estimate_high_ms), .type = FIELD_SIZE, .unit = "ms", .meaning = "the most, likewise",
     .null = "as estimate_ms"},
    {FIELD(record, estimate), .type = FIELD_STRING,
     .meaning =
         "what estimate_ms is made from: measured rates; or scaled rates, those of a card that was measured by "
         "the ratio of the two cards' peaks",
     .null = "as estimate_ms"},
    {FIELD(record, profile), .type = FIELD_STRING, .meaning = "its name", .null = "none"},
    {FIELD(record, energy_j), .type = FIELD_SIZE, .unit = "J", .meaning = "of a step, by the card's sensors",
     .null = "the CPU, no NVML, or samples shorter than 500 ms together"},
    {FIELD(record, sm_clock_mhz), .type = FIELD_OBJECT, .meaning = "every 100 ms while the samples ran",
     .null = "as energy_j", APART(sm_clock_fields, record_sm_clock, no_sm_clock)},
    {FIELD(record, load), .type = FIELD_OBJECT, .meaning = "of the machine while the samples ran",
     .null = "planned, or several ranks", .members = load_fields},
    {FIELD(record, peak_bytes), .type = FIELD_COUNT, .unit = "bytes", .meaning = "the most live during a step"},
    {FIELD(record, peak_by_category), TALLY, .unit = "bytes", .meaning = "what the peak consists of"},
    {FIELD(record, host_peak_bytes), .type = FIELD_COUNT, .unit = "bytes",
     .meaning = "the most that was kept on the host during a step", .null = "nothing was"},
    {FIELD(record, host_peak_by_category), TALLY, .unit = "bytes", .meaning = "what it consists of",
     .null = "nothing was"},
    {FIELD(record, resident_bytes), .type = FIELD_COUNT, .unit = "bytes", .meaning = "live before the step"},
    {FIELD(record, unplanned_micro_batches), .type = FIELD_COUNT,
     .meaning =
         "of a training run's plan: micro-batches and evaluations that the peak is not of; they have shorter "
         "rows than the 64 layouts that it is of",
     .null = "no training run, or measured, or none"},
    {FIELD(record, device_used_bytes), .type = FIELD_COUNT, .unit = "bytes",
     .meaning = "of the card's memory after the steps, by its driver", .null = "the CPU"},
    {FIELD(record, device_reserved_bytes), .type = FIELD_COUNT, .unit = "bytes",
     .meaning = "the most of it that this process's allocator held", .null = "the CPU"},
    {FIELD(record, floor_bytes_per_token), .type = FIELD_SIZE, .unit = "bytes",
     .meaning = "per token of context, from methods/methods.md"},
    {FIELD(record, lower_bound_bytes), .type = FIELD_WHOLE, .unit = "bytes",
     .meaning = "resident_bytes + floor_bytes_per_token * context * batch"},
    {FIELD(record, peak_over_bound), .type = FIELD_SIZE, .meaning = "peak_bytes over lower_bound_bytes",
     .null = "not ok"},
    {FIELD(record, flops), .type = FIELD_WHOLE, .unit = "FLOP",
     .meaning = "counted, of a step (methods/methods.md)"},
    {FIELD(record, model_flops), .type = FIELD_WHOLE, .unit = "FLOP",
     .meaning = "model FLOPs of a step (methods/methods.md)"},
    {FIELD(record, bytes_moved), .type = FIELD_WHOLE, .unit = "bytes",
     .meaning = "operands read once and results written once, of each operation"},
    {FIELD(record, attention_glue_bytes), .type = FIELD_WHOLE, .unit = "bytes",
     .meaning = "what attention's backward moves besides those", .null = "it does not run in blocks"},
    {FIELD(record, link_out_bytes), .type = FIELD_WHOLE, .unit = "bytes", .meaning = "copied to the host by a step",
     .null = "nothing was"},
    {FIELD(record, link_in_bytes), .type = FIELD_WHOLE, .unit = "bytes",
     .meaning = "copied from the host by a step", .null = "nothing was"},
    {FIELD(record, launches), .type = FIELD_COUNT, .meaning = "operations of a step"},
    {FIELD(record, instructions), .type = FIELD_WHOLE,
     .meaning =
         "that the processor retired in a step, of all threads, outside the kernel: the fewest of the samples",
     .null = "planned, a card, several ranks, or nobody counts them: many virtual machines have no counters"},
    {FIELD(record, ranks), .type = FIELD_OBJECT,
     .meaning = "a figure of each rank; elsewhere bytes of memory are the most that one took, counts those of all "
                "together, times the slowest's, and what is taken apart rank 0's",
     .null = "one rank", APART(ranks_fields, record_ranks, no_ranks)},
    {FIELD(record, gradient), .type = FIELD_OBJECT, .meaning = "of draw 0: g against r",
     .null = "not asked for, planned, or the method computes none", .members = gradient_fields},
    {FIELD(record, bias), .type = FIELD_OBJECT, .meaning = "of the gradient over all draws",
     .null = "not asked for, planned, or nothing is drawn", .members = bias_fields},
    {FIELD(record, pair_sums), .type = FIELD_OBJECT,
     .meaning = "means over pairs: how far a pair's difference of log-probs is off by the dtype of its sums",
     .null = "not asked for, planned, or no objective of pairs",
     APART(pair_sums_fields, record_pair_sums, no_pair_sums)},
    {FIELD(record, curve), .type = FIELD_OBJECT, .meaning = "of a training run, whose steps are the samples",
     .null = "no training run, or planned", APART(curve_fields, record_curve, no_curve)},
    {FIELD(record, timeline), .type = FIELD_OBJECT, .meaning = "live bytes over one step", .null = "not asked for",
     APART(timeline_fields, record_timeline, no_timeline)},
    {FIELD(record, categories), .type = FIELD_OBJECT, .meaning = "where one step's time went, after the samples",
     .null = "not asked for", APART(categories_fields, record_categories, no_categories)},
    {FIELD(record, provenance), .type = FIELD_OBJECT, .members = provenance_fields},
    {FIELD(record, wall_s), .type = FIELD_SIZE, .unit = "s", .meaning = "of the whole trial"},
    {FIELD(record, command), .type = FIELD_STRING, .meaning = "that runs the trial again"},
    {0}};

const char *field_type_name(const struct record_field *field)
{
    static const char *const names[][2] = {
        [FIELD_ANY] = {"a value"},
        [FIELD_BOOL] = {"true or false"},
        [FIELD_STRING] = {"a string"},
        [FIELD_STATUS] = {"a string"},
        [FIELD_HASH] = {"16 hexadecimal digits"},
        [FIELD_COUNT] = {"a whole number >= 0", "an array of whole numbers >= 0"},
        [FIELD_SIZE] = {"a number >= 0", "an array of numbers >= 0"},
        [FIELD_WHOLE] = {"a number >= 0", "an array of numbers >= 0"},
        [FIELD_POSITIVE] = {"a number > 0", "an array of numbers > 0"},
        [FIELD_NUMBER] = {"a number", "an array of numbers"},
        [FIELD_ARRAY] = {"an array"},
        [FIELD_OBJECT] = {"an object"},
        [FIELD_TRIAL] = {"an object"},
        [FIELD_ROWS] = {"an array of objects"},
        [FIELD_MAP] = {"an object of objects"},
        [FIELD_TALLY] = {"an object of counts"},
    };
    return names[field->type][field->list];
}
