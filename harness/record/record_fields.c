#include "harness/record/record_fields.h"
#include "harness/record/record.h"
#include "harness/spec/trial_keys.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

#define FIELDS static const struct record_field

// A field named like its member in record.h.
#define FIELD(owner, member) .name = #member, .offset = offsetof(struct owner, member)
// The fields of a map's or rows' parts, and their size.
#define PARTS(of, part) .members = of, .part_bytes = sizeof(struct part)

// A separate struct for an object that few records have or many share. Its null value is made at program start.
#define APART(of, part)                                                                                            \
    .members = of, .part_bytes = sizeof(struct part), .absent = &(struct part)                                     \
    {                                                                                                              \
        0                                                                                                          \
    }
#define TALLY                                                                                                      \
    .type = FIELD_TALLY, .part_bytes = CATEGORY_COUNT * sizeof(double), .absent = (double[CATEGORY_COUNT])         \
    {                                                                                                              \
        0                                                                                                          \
    }

// Made from the trial keys at program start.
static struct record_field trial_fields[TRIAL_KEYS_MAX + 1];

FIELDS tensor_fields[] = {
    {FIELD(record_tensor, relative_l2), .type = FIELD_SIZE,
     .meaning = "||g - r|| / ||r||; if r is 0 except for rounding, relative to its share of the whole gradient",
     .null = "not finite"},
    {FIELD(record_tensor, max_abs), .type = FIELD_SIZE, .meaning = "max |g - r|", .null = "not finite"},
    {FIELD(record_tensor, hash), .type = FIELD_HASH, .meaning = "XXH3 of its bytes in the device's dtype"},
    {0}};

FIELDS gradient_fields[] = {
    {FIELD(record_gradient, relative_l2), .type = FIELD_SIZE, .compared = COMPARED_ERROR,
     .meaning = "||g - r|| / ||r||, r: full in f64", .null = "not finite"},
    {FIELD(record_gradient, max_abs), .type = FIELD_SIZE, .meaning = "max |g - r|", .null = "not finite"},
    {FIELD(record_gradient, cosine), .type = FIELD_NUMBER, .meaning = "g . r / (||g|| ||r||)",
     .null = "not finite"},
    {FIELD(record_gradient, decimals), .type = FIELD_NUMBER, .meaning = "-log10(max_abs)",
     .null = "not finite: g = r"},
    {FIELD(record_gradient, mean_abs), .type = FIELD_SIZE, .meaning = "mean |g - r|", .null = "not finite"},
    {FIELD(record_gradient, mean_relative), .type = FIELD_SIZE, .meaning = "mean |g - r| / |r| where r != 0",
     .null = "not finite"},
    {FIELD(record_gradient, noise_floor), .type = FIELD_SIZE, .compared = COMPARED_ERROR,
     .meaning = "relative_l2 of full summed in reverse against full, both in the trial's dtype",
     .null = "not finite"},
    {FIELD(record_gradient, bound), .type = FIELD_SIZE,
     .meaning = "maximum relative_l2 that rounding explains (harness/step/rounding.md)",
     .null = "the method is not exact"},
    {FIELD(record_gradient, bound_share), .type = FIELD_SIZE,
     .meaning = "maximum ratio of an error to its bound, over the gradient, its noise floor and each tensor",
     .null = "not finite, or as bound"},
    {FIELD(record_gradient, verdict), .type = FIELD_STRING,
     .meaning = "within: bound_share <= 1; beyond: more; undecided: within a bound that is too wide (above 0.25, "
                "or the reference itself is unstable)",
     .null = "as bound"},
    {FIELD(record_gradient, routing), .type = FIELD_STRING,
     .meaning =
         "experts that tokens take in r and in the noise floor: the trial's, which leaves rounding alone, or "
         "own, which full chooses there",
     .null = "no experts"},
    {FIELD(record_gradient, sums_relative_l2), .type = FIELD_SIZE,
     .meaning = "effect of bf16 accumulators: relative_l2 against the same method with f32 accumulators",
     .null = "no bf16 accumulators"},
    {FIELD(record_gradient, worst_tensor), .type = FIELD_STRING, .meaning = "tensor with the maximum relative_l2",
     .null = "nothing trains"},
    {FIELD(record_gradient, worst_relative_l2), .type = FIELD_SIZE, .meaning = "its relative_l2",
     .null = "not finite"},
    {FIELD(record_gradient, hash), .type = FIELD_HASH,
     .meaning = "XXH3 of \"NAME HASH\\n\" of each tensor, in the model's order"},
    {FIELD(record_gradient, tensors), .type = FIELD_MAP, .compared = COMPARED_TENSORS,
     .meaning = "errors by tensor name, in the model's order", PARTS(tensor_fields, record_tensor)},
    {0}};

FIELDS bias_fields[] = {
    {FIELD(record_bias, relative_l2), .type = FIELD_SIZE, .compared = COMPARED_BIAS,
     .meaning = "||E[g] - r|| / ||r||", .null = "not finite"},
    {FIELD(record_bias, rms_error), .type = FIELD_SIZE, .compared = COMPARED_BIAS,
     .meaning = "sqrt(E||g - r||^2) / ||r||", .null = "not finite"},
    {FIELD(record_bias, subsets), .type = FIELD_COUNT, .meaning = "number of possible draws, each run once"},
    {FIELD(record_bias, flops), .type = FIELD_SIZE, .unit = "FLOP",
     .meaning = "mean FLOPs of a step over all draws"},
    {0}};

FIELDS routing_fields[] = {
    {FIELD(record_routing, flips), .type = FIELD_SIZE,
     .meaning = "share of (token, layer) pairs for which a rebuild that chose anew takes other experts than the "
                "first pass"},
    {FIELD(record_routing, flips_max), .type = FIELD_SIZE, .meaning = "the largest share of a layer"},
    {FIELD(record_routing, relative_l2), .type = FIELD_SIZE,
     .meaning = "||g - r|| / ||r||, g of rebuilds that choose anew, r as of gradient.relative_l2",
     .null = "no gradient check"},
    {FIELD(record_routing, kept_relative_l2), .type = FIELD_SIZE,
     .meaning = "the same of rebuilds that read the first pass's choices, with the same order of sums",
     .null = "no gradient check"},
    {FIELD(record_routing, reference_flips), .type = FIELD_SIZE,
     .meaning = "share of pairs for which full in f64 chooses other experts than the trial",
     .null = "no gradient check, or a shared prompt"},
    {FIELD(record_routing, reference_relative_l2), .type = FIELD_SIZE,
     .meaning = "||g - r|| / ||r||, g the trial's gradient, r full in f64 with the experts that it chooses",
     .null = "as reference_flips"},
    {0}};

FIELDS pair_sums_fields[] = {
    {FIELD(record_pair_sums, difference), .type = FIELD_SIZE, .unit = "nats",
     .meaning = "|D|, D the chosen sequence's sum of log-probs over the reference's, less the rejected one's"},
    {FIELD(record_pair_sums, f64_error), .type = FIELD_SIZE, .unit = "nats",
     .meaning = "|error of D| with its four sums in f64, row by row"},
    {FIELD(record_pair_sums, f32_error), .type = FIELD_SIZE, .unit = "nats",
     .meaning = "the same with sums in f32"},
    {FIELD(record_pair_sums, bf16_error), .type = FIELD_SIZE, .unit = "nats",
     .meaning = "the same with sums and rows in bf16"},
    {FIELD(record_pair_sums, bf16_once_error), .type = FIELD_SIZE, .unit = "nats",
     .meaning = "the same with bf16 rows and each sum rounded once"},
    {0}};

// A metric per step, and on held-out data.
#define METRIC(metric, key, of, said)                                                                              \
    {.name = key,                                                                                                  \
     .offset = offsetof(struct record_curve, metrics[metric]),                                                     \
     .type = of,                                                                                                   \
     .list = true,                                                                                                 \
     .none = NONE_LEFT_OUT,                                                                                        \
     .meaning = "per step, before its update: " said,                                                              \
     .null = "the objective has none"},                                                                            \
    {                                                                                                              \
        .name = "evaluation_" key, .offset = offsetof(struct record_curve, evaluation_metrics[metric]),            \
        .type = of, .list = true, .none = NONE_LEFT_OUT, .meaning = "the same on held-out sequences",              \
        .null = "the objective has none, or nothing was evaluated"                                                 \
    }

FIELDS curve_fields[] = {
    {FIELD(record_curve, loss), .type = FIELD_NUMBER, .compared = COMPARED_RUN_LOSS, .compared_as = "last_loss",
     .compared_by = record_last_loss, .list = true, .unit = "nats", .meaning = "loss per step, before its update"},
    {FIELD(record_curve, gradient_norm), .type = FIELD_SIZE, .list = true,
     .meaning = "gradient norm per step, before clipping; null: gradients are freed within the backward pass"},
    {FIELD(record_curve, flops), .type = FIELD_WHOLE, .list = true, .none = NONE_LEFT_OUT, .unit = "FLOPs",
     .meaning = "FLOPs per step of a method that draws its chunks", .null = "all steps do the same work, flops"},
    {FIELD(record_curve, evaluation_step), .type = FIELD_COUNT, .list = true, .none = NONE_EMPTY,
     .meaning = "number of completed steps at each evaluation of held-out tokens"},
    {FIELD(record_curve, evaluation_loss), .type = FIELD_NUMBER, .compared = COMPARED_RUN_LOSS,
     .compared_as = "held_out_loss", .compared_by = record_held_out_loss, .list = true, .none = NONE_EMPTY,
     .unit = "nats", .meaning = "loss on held-out tokens"},
    {FIELD(record_curve, unchanged_weights), .type = FIELD_SIZE, .list = true, .none = NONE_LEFT_OUT,
     .meaning = "per step, share of weights with an update that did not change because it was rounded away",
     .null = "not requested (measure.lost_updates)"},
    {FIELD(record_curve, lost_updates), .type = FIELD_NUMBER, .list = true, .none = NONE_LEFT_OUT,
     .meaning = "per step, 1 - <w' - w, u> / <u, u>, with u the unrounded update of weights w or their master",
     .null = "not requested (measure.lost_updates)"},
    METRIC(METRIC_MARGIN, "margin", FIELD_NUMBER,
           "mean over pairs of beta times the chosen sequence's gain over the reference less the rejected one's"),
    METRIC(METRIC_ACCURACY, "accuracy", FIELD_SIZE, "share of pairs with a margin above 0"),
    METRIC(METRIC_CLIP_LOW, "clip_low", FIELD_SIZE, "share of tokens whose ratio is below its bound"),
    METRIC(METRIC_CLIP_HIGH, "clip_high", FIELD_SIZE, "share of tokens whose ratio is above its bound"),
    METRIC(METRIC_KL, "kl", FIELD_NUMBER, "mean divergence of tokens from the reference, k3"),
    METRIC(METRIC_ENTROPY, "entropy", FIELD_SIZE, "mean entropy of tokens' distributions over the vocabulary"),
    METRIC(METRIC_Z_LOSS, "z_loss", FIELD_SIZE, "mean of the squares of tokens' logsumexp"),
    METRIC(METRIC_AUX_LOSS, "aux_loss", FIELD_SIZE, "balancing loss of the routers, without its coefficient"),
    METRIC(METRIC_ROUTER_Z_LOSS, "router_z_loss", FIELD_SIZE,
           "mean of the squares of routers' logsumexp, summed over layers"),
    {0}};

FIELDS ranks_fields[] = {
    {FIELD(record_ranks, count), .type = FIELD_COUNT},
    {FIELD(record_ranks, engine), .type = FIELD_STRING, .meaning = "transport between ranks", .null = "planned"},
    {FIELD(record_ranks, oversubscribed), .type = FIELD_BOOL,
     .meaning = "more ranks than processors: times are meaningless", .null = "planned"},
    {FIELD(record_ranks, alike), .type = FIELD_COUNT, .list = true, .none = NONE_NULL, .unit = "ranks",
     .meaning = "number of consecutive ranks that each number of the lists below stands for",
     .null = "at most 64 ranks: one"},
    {FIELD(record_ranks, peak_bytes), .type = FIELD_COUNT, .list = true, .unit = "bytes",
     .meaning = "peak of each rank"},
    {FIELD(record_ranks, sent_bytes), .type = FIELD_COUNT, .list = true, .unit = "bytes",
     .meaning = "bytes that each rank sends in a step"},
    {FIELD(record_ranks, received_bytes), .type = FIELD_COUNT, .list = true, .unit = "bytes",
     .meaning = "bytes that each rank receives in a step"},
    {FIELD(record_ranks, messages), .type = FIELD_COUNT, .list = true,
     .meaning = "messages that each rank sends in a step"},
    {FIELD(record_ranks, idle_share), .type = FIELD_SIZE, .list = true, .none = NONE_NULL,
     .meaning = "estimated share of estimate_ms that each rank waits for others",
     .null = "measured, or estimate_ms is null"},
    {0}};

FIELDS timeline_fields[] = {
    {FIELD(record_timeline, category_order), .type = FIELD_ARRAY, .meaning = "names of an event's categories"},
    {FIELD(record_timeline, events), .type = FIELD_ARRAY, .meaning = "[ms, FLOP, live bytes of each category]"},
    {0}};

FIELDS roofline_fields[] = {
    {FIELD(record_roofline, source), .type = FIELD_STRING, .meaning = "name of the profile, or measured"},
    {FIELD(record_roofline, flops_per_s), .type = FIELD_SIZE, .unit = "FLOP/s"},
    {FIELD(record_roofline, bytes_per_s), .type = FIELD_SIZE, .unit = "bytes/s"},
    {FIELD(record_roofline, launch_s), .type = FIELD_SIZE, .unit = "s"},
    {FIELD(record_roofline, link_bytes_per_s), .type = FIELD_SIZE, .unit = "bytes/s",
     .meaning = "rate between device and host, in each direction", .null = "unknown"},
    {0}};

FIELDS row_fields[] = {
    {FIELD(record_row, category), .type = FIELD_STRING,
     .meaning = "idle: the device waited, for the host or a copy"},
    {FIELD(record_row, operation), .type = FIELD_STRING},
    {FIELD(record_row, shape), .type = FIELD_COUNT, .list = true, .meaning = "[m, n, k]", .null = "no GEMM"},
    {FIELD(record_row, launches), .type = FIELD_COUNT},
    {FIELD(record_row, flops), .type = FIELD_WHOLE, .unit = "FLOP"},
    {FIELD(record_row, bytes_moved), .type = FIELD_WHOLE, .unit = "bytes"},
    {FIELD(record_row, ms), .type = FIELD_SIZE, .unit = "ms", .meaning = "time; all rows add up to step_ms",
     .null = "planned"},
    {FIELD(record_row, estimate_ms), .type = FIELD_SIZE, .unit = "ms", .meaning = "share of estimate_ms",
     .null = "no profile, and no roofline was measured"},
    {0}};

FIELDS categories_fields[] = {{FIELD(record_categories, step_ms), .type = FIELD_SIZE, .unit = "ms",
                               .meaning = "time of the step", .null = "planned"},
                              {FIELD(record_categories, roofline), .type = FIELD_OBJECT,
                               .null = "a card without a profile", .members = roofline_fields},
                              {FIELD(record_categories, rows), .type = FIELD_ROWS,
                               .meaning = "one row per kind of operation", PARTS(row_fields, record_row)},
                              {0}};

FIELDS sm_clock_fields[] = {{FIELD(record_sm_clock, min), .type = FIELD_SIZE, .unit = "MHz"},
                            {FIELD(record_sm_clock, median), .type = FIELD_SIZE, .unit = "MHz"},
                            {FIELD(record_sm_clock, max), .type = FIELD_SIZE, .unit = "MHz"},
                            {0}};

FIELDS framework_fields[] = {
    {FIELD(record_framework, name), .type = FIELD_STRING, .meaning = "transformers"},
    {FIELD(record_framework, version), .type = FIELD_STRING, .meaning = "its version"},
    {FIELD(record_framework, torch), .type = FIELD_STRING,
     .meaning = "version of PyTorch that it was checked with"},
    {FIELD(record_framework, checked), .type = FIELD_STRING,
     .meaning = "day on which peaks of its steps were last counted and compared"},
    {FIELD(record_framework, unchecked), .type = FIELD_ARRAY,
     .meaning = "what of this step nobody has checked, or nobody states: texts", .null = "nothing"},
    {FIELD(record_framework, peak_moment), .type = FIELD_STRING,
     .meaning = "part of the step that has the peak: forward, backward or optimizer", .null = "no step was taken"},
    {FIELD(record_framework, peak_operation), .type = FIELD_STRING, .meaning = "PyTorch's operation that makes it",
     .null = "no step was taken"},
    {FIELD(record_framework, reserved_low_bytes), .type = FIELD_COUNT, .unit = "bytes",
     .meaning = "bytes that PyTorch's caching allocator reserves for the step in the "
                "segments that its rules give",
     .null = "no step was taken"},
    {FIELD(record_framework, reserved_high_bytes), .type = FIELD_COUNT, .unit = "bytes",
     .meaning = "the same with the fragments of a long run: 1.3 times the peak, which no "
                "published run exceeds, or more",
     .null = "no step was taken"},
    {0}};

FIELDS load_fields[] = {
    {FIELD(record_load, before), .type = FIELD_SIZE, .rounds = ROUNDS_MEAN,
     .meaning = "1-minute load average before the samples", .null = "not provided by the system"},
    {FIELD(record_load, cores), .type = FIELD_COUNT, .meaning = "number of cores of the machine"},
    {FIELD(record_load, other_cores), .type = FIELD_SIZE, .rounds = ROUNDS_MEAN, .unit = "cores",
     .meaning = "average number of cores busy with other programs", .null = "samples shorter than 200 ms together"},
    {FIELD(record_load, stolen_cores), .type = FIELD_SIZE, .rounds = ROUNDS_MEAN, .unit = "cores",
     .meaning = "average number of cores that the host took from this virtual machine", .null = "as other_cores"},
    {FIELD(record_load, waited_cores), .type = FIELD_SIZE, .rounds = ROUNDS_MEAN, .none = NONE_LEFT_OUT,
     .unit = "cores", .meaning = "average number of cores that the trial's ready threads waited for",
     .null = "not provided by the system, or more threads than cores"},
    {0}};

FIELDS search_fields[] = {
    {FIELD(record_search, sought), .type = FIELD_STRING,
     .meaning = "what the trial is the extreme of: context or batch, the largest that fits; frontier, the longest "
                "context within its limits; time, the fastest of those that take no more memory"},
    {FIELD(record_search, among), .type = FIELD_STRING,
     .meaning = "auto, or the method whose options were searched", .null = "method and options were given"},
    {FIELD(record_search, asked), .type = FIELD_OBJECT,
     .meaning = "requested values of searched keys, if the trial has others", .null = "the trial has the same"},
    {FIELD(record_search, granularity), .type = FIELD_COUNT, .meaning = "unit of the extent",
     .null = "time was sought"},
    {FIELD(record_search, memory_bound), .type = FIELD_BOOL,
     .meaning = "memory limits the extent, and not the options", .null = "as granularity"},
    {FIELD(record_search, forward_flops), .type = FIELD_WHOLE, .unit = "FLOP",
     .meaning = "FLOPs of a forward pass at that extent", .null = "as granularity, or nothing fits"},
    {FIELD(record_search, beyond), .type = FIELD_STRING, .meaning = "why nothing larger, or faster, fits",
     .null = "time was sought, and this is not the fastest"},
    {0}};

FIELDS provenance_fields[] = {
    {FIELD(record_provenance, revision), .type = FIELD_STRING, .meaning = "git revision of the program"},
    {FIELD(record_provenance, dirty), .type = FIELD_BOOL, .meaning = "built from changed sources",
     .null = "unknown"},
    {FIELD(record_provenance, compiler), .type = FIELD_STRING},
    {FIELD(record_provenance, flags), .type = FIELD_STRING, .meaning = "compiler flags"},
    {FIELD(record_provenance, blas), .type = FIELD_STRING,
     .meaning = "version and chosen core of the BLAS; other GEMM libraries"},
    {FIELD(record_provenance, cpu), .type = FIELD_STRING},
    {FIELD(record_provenance, card), .type = FIELD_STRING, .meaning = "name, driver and libraries of the card",
     .null = "the CPU"},
    {FIELD(record_provenance, host_memory_bytes), .type = FIELD_COUNT, .unit = "bytes"},
    {FIELD(record_provenance, threads), .type = FIELD_COUNT},
    {FIELD(record_provenance, spin_count), .type = FIELD_COUNT,
     .meaning = "iterations that a thread spins at a barrier before it sleeps: 0 beside other work",
     .null = "the OpenMP library's default"},
    {FIELD(record_provenance, kernel), .type = FIELD_STRING, .meaning = "version of the operating system's kernel"},
    {FIELD(record_provenance, clock_mhz_before), .type = FIELD_SIZE, .unit = "MHz",
     .meaning = "clock of the CPU's fastest core", .null = "unknown"},
    {FIELD(record_provenance, clock_mhz_after), .type = FIELD_SIZE, .unit = "MHz",
     .meaning = "clock of the CPU's fastest core", .null = "unknown"},
    {FIELD(record_provenance, time), .type = FIELD_STRING, .meaning = "start time, UTC, ISO 8601"},
    {FIELD(record_provenance, version), .type = FIELD_STRING, .meaning = "version of the program"},
    {0}};

const struct record_field record_fields[] = {
    {FIELD(record, schema), .type = FIELD_COUNT, .required = true, .meaning = "version of this layout"},
    {FIELD(record, id), .type = FIELD_STRING, .required = true,
     .meaning = "hash of the values that differ from the defaults: 32 hexadecimal digits"},
    {FIELD(record, experiment), .type = FIELD_STRING, .required = true},
    {FIELD(record, round), .type = FIELD_COUNT, .meaning = "round of `run --rounds`, from 1",
     .null = "measured without rounds, or by a version before this field"},
    {FIELD(record, status), .type = FIELD_STATUS, .required = true,
     .meaning = "ok, oom, timeout, crash, unsupported or failed"},
    {FIELD(record, reason), .type = FIELD_STRING, .meaning = "why the status is not ok"},
    {FIELD(record, trial), .type = FIELD_TRIAL, .required = true,
     .meaning = "the trial: every key (longbp list keys), including defaults", .members = trial_fields},
    {FIELD(record, chosen), .type = FIELD_OBJECT,
     .meaning = "the method that auto chose, with every option and offload target",
     .null = "the trial names its method"},
    {FIELD(record, framework), .type = FIELD_OBJECT, .none = NONE_LEFT_OUT,
     .meaning = "the framework whose step this plan is of: bytes are its, not this program's",
     .null = "this program's own step", APART(framework_fields, record_framework)},
    {FIELD(record, shares), .type = FIELD_OBJECT,
     .meaning = "method options that were given as shares, such as budget: 25%", .null = "none"},
    {FIELD(record, data_hash), .type = FIELD_HASH,
     .meaning = "XXH3 of the (first) step's tokens, labels and other inputs of the objective",
     .null = "random data; planned"},
    {FIELD(record, model_hash), .type = FIELD_HASH,
     .meaning =
         "XXH3 of the files of the model's folder, its adapter and a reference model; planned: without weights",
     .null = "no folder is read"},
    {FIELD(record, loss), .type = FIELD_NUMBER, .compared = COMPARED_LOSS, .unit = "nats",
     .meaning = "loss of the first step", .null = "planned"},
    {FIELD(record, aux_loss), .type = FIELD_SIZE, .none = NONE_LEFT_OUT,
     .meaning = "balancing loss of the first step's routers, without its coefficient, which `loss` has not",
     .null = "planned, or no router_aux_loss"},
    {FIELD(record, router_z_loss), .type = FIELD_SIZE, .none = NONE_LEFT_OUT,
     .meaning = "mean of the squares of routers' logsumexp in the first step, summed over layers, likewise",
     .null = "planned, or no router_z_loss"},
    {FIELD(record, drawn_chunks), .type = FIELD_COUNT, .list = true, .none = NONE_LEFT_OUT,
     .meaning = "drawn chunks of draw 0; of deferred, those deferred to the second pass",
     .null = "a method that draws none"},
    {FIELD(record, skipped_chunks), .type = FIELD_COUNT, .list = true, .none = NONE_LEFT_OUT,
     .meaning = "chunks that draw 0 of deferred does not run backward", .null = "none is skipped"},
    {FIELD(record, samples_ms), .type = FIELD_POSITIVE, .rounds = ROUNDS_SAMPLES, .list = true, .none = NONE_EMPTY,
     .unit = "ms", .meaning = "time of each sampled step; empty: planned"},
    {FIELD(record, cpu_ms), .type = FIELD_SIZE, .rounds = ROUNDS_SAMPLES, .list = true, .none = NONE_LEFT_OUT,
     .unit = "ms", .meaning = "processor time of each sample, of all threads",
     .null = "planned, a card, or several ranks"},
    {FIELD(record, sample_chunks), .type = FIELD_COUNT, .rounds = ROUNDS_TIMES, .list = true, .none = NONE_LEFT_OUT,
     .meaning = "number of chunks that each sample drew: sample i uses draw i; planned: the draws that estimate_ms "
                "averages",
     .null = "nothing is drawn"},
    {FIELD(record, slowdown), .type = FIELD_POSITIVE, .rounds = ROUNDS_SAMPLES, .list = true, .none = NONE_LEFT_OUT,
     .meaning = "time of the reference kernel (harness/machine/reference_kernel.h) just before and after each "
                "sample, relative to its time when the profile's rates were measured",
     .null = "the profile has no measured rates; planned, trained, or several ranks"},
    {FIELD(record, median_ms), .type = FIELD_SIZE, .rounds = ROUNDS_TIMES, .unit = "ms",
     .meaning = "median of the samples", .null = "planned"},
    {FIELD(record, mean_ms), .type = FIELD_SIZE, .rounds = ROUNDS_TIMES, .unit = "ms",
     .meaning = "mean over the draws", .null = "nothing is drawn"},
    {FIELD(record, mean_error_ms), .type = FIELD_SIZE, .rounds = ROUNDS_TIMES, .unit = "ms",
     .meaning = "standard error of mean_ms", .null = "nothing is drawn, or one sample"},
    {FIELD(record, host_launch_ms), .type = FIELD_SIZE, .rounds = ROUNDS_MEAN, .unit = "ms",
     .meaning = "host time to launch all operations of a step, median or mean; if it is close to the step's time, "
                "the host limits",
     .null = "the CPU"},
    {FIELD(record, flops_per_s), .type = FIELD_SIZE, .rounds = ROUNDS_DRAW_RATE, .unit = "FLOP/s",
     .meaning = "flops over median_ms; with draws, draw 0's flops over its sample", .null = "planned"},
    {FIELD(record, model_flops_per_s), .type = FIELD_SIZE, .rounds = ROUNDS_RATE, .unit = "FLOP/s",
     .meaning = "model_flops over median_ms", .null = "planned, or not exact"},
    {FIELD(record, gemm_flops_per_s), .type = FIELD_SIZE, .unit = "FLOP/s",
     .meaning = "rate of a large GEMM right after the samples", .null = "not requested"},
    {FIELD(record, model_flops_share), .type = FIELD_SIZE, .rounds = ROUNDS_RATE,
     .meaning = "model_flops_per_s over gemm_flops_per_s", .null = "one is null"},
    {FIELD(record, estimate_ms), .type = FIELD_SIZE, .unit = "ms",
     .meaning = "estimated time of a step, from the profile's rates and power limit: the longest of its queues "
                "(operations, copies out, copies in), with waits; with several ranks until the last is done, over "
                "the interconnect",
     .null = "no profile, or no rate of a link that the step uses"},
    {FIELD(record, estimate_low_ms), .type = FIELD_SIZE, .unit = "ms",
     .meaning = "lower end of the estimate's range: by the spread of measured rates (one in twenty is outside at "
                "either end), or the assumed range of scaled rates",
     .null = "as estimate_ms"},
    {FIELD(record, estimate_high_ms), .type = FIELD_SIZE, .unit = "ms", .meaning = "upper end of the range",
     .null = "as estimate_ms"},
    {FIELD(record, estimate), .type = FIELD_STRING,
     .meaning = "source of estimate_ms: measured rates, or scaled rates (a measured card's rates times the ratio "
                "of the two cards' peaks)",
     .null = "as estimate_ms"},
    {FIELD(record, break_even_chunk), .type = FIELD_SIZE, .unit = "tokens",
     .meaning = "tokens of a chunk that a mixture's experts multiply, at the profile's peak rates, in the time in "
                "which all their weights are read: experts over experts_per_token, times FLOP/s over B/s, times "
                "half a weight's bytes",
     .null = "no profile, or no experts"},
    {FIELD(record, profile), .type = FIELD_STRING, .meaning = "name of the profile", .null = "none"},
    {FIELD(record, energy_j), .type = FIELD_SIZE, .rounds = ROUNDS_MEAN, .unit = "J",
     .meaning = "energy of a step, by the card's sensors",
     .null = "the CPU, no NVML, or samples shorter than 500 ms together"},
    {FIELD(record, sm_clock_mhz), .type = FIELD_OBJECT,
     .meaning = "clock of the card, read every 100 ms during the samples", .null = "as energy_j",
     APART(sm_clock_fields, record_sm_clock)},
    {FIELD(record, load), .type = FIELD_OBJECT, .meaning = "load of the machine during the samples",
     .null = "planned, or several ranks", .members = load_fields},
    {FIELD(record, peak_bytes), .type = FIELD_COUNT, .compared = COMPARED_COUNT, .unit = "bytes",
     .meaning = "maximum live bytes during a step"},
    {FIELD(record, peak_by_category), TALLY, .compared = COMPARED_PARTS, .unit = "bytes",
     .meaning = "bytes of peak_bytes by category"},
    {FIELD(record, host_peak_bytes), .type = FIELD_COUNT, .compared = COMPARED_HOST, .unit = "bytes",
     .meaning = "maximum bytes on the host during a step", .null = "none"},
    {FIELD(record, host_peak_by_category), TALLY, .unit = "bytes",
     .meaning = "bytes of host_peak_bytes by category", .null = "none"},
    {FIELD(record, resident_bytes), .type = FIELD_COUNT, .compared = COMPARED_COUNT, .unit = "bytes",
     .meaning = "live bytes before the step"},
    {FIELD(record, unplanned_micro_batches), .type = FIELD_COUNT,
     .meaning = "micro-batches and evaluations of a training run that its plan did not run, all with shorter rows "
                "than the 64 layouts that it ran",
     .null = "no training run, or measured, or none"},
    {FIELD(record, device_used_bytes), .type = FIELD_COUNT, .unit = "bytes",
     .meaning = "memory in use on the card after the steps, by its driver", .null = "the CPU"},
    {FIELD(record, device_reserved_bytes), .type = FIELD_COUNT, .unit = "bytes",
     .meaning = "maximum memory of the card that this process's allocator held", .null = "the CPU"},
    {FIELD(record, lower_bound_bytes_per_token), .type = FIELD_SIZE, .unit = "bytes",
     .meaning = "lower bound of the method's bytes per token of context (methods/README.md)"},
    {FIELD(record, lower_bound_bytes), .type = FIELD_WHOLE, .unit = "bytes",
     .meaning = "resident_bytes + lower_bound_bytes_per_token * context * batch"},
    {FIELD(record, peak_over_bound), .type = FIELD_SIZE, .meaning = "peak_bytes over lower_bound_bytes",
     .null = "not ok"},
    {FIELD(record, flops), .type = FIELD_WHOLE, .compared = COMPARED_COUNT, .unit = "FLOP",
     .meaning = "counted FLOPs of a step (methods/README.md)"},
    {FIELD(record, model_flops), .type = FIELD_WHOLE, .compared = COMPARED_COUNT, .unit = "FLOP",
     .meaning = "model FLOPs of a step (methods/README.md)"},
    {FIELD(record, bytes_moved), .type = FIELD_WHOLE, .compared = COMPARED_COUNT, .unit = "bytes",
     .meaning = "bytes of each operation's operands and results, each once"},
    {FIELD(record, attention_glue_bytes), .type = FIELD_WHOLE, .compared = COMPARED_COUNT, .unit = "bytes",
     .meaning = "further bytes that attention moves to combine its blocks", .null = "it does not run in blocks"},
    {FIELD(record, link_out_bytes), .type = FIELD_WHOLE, .compared = COMPARED_HOST, .unit = "bytes",
     .meaning = "copied to the host by a step", .null = "none"},
    {FIELD(record, link_in_bytes), .type = FIELD_WHOLE, .compared = COMPARED_HOST, .unit = "bytes",
     .meaning = "copied from the host by a step", .null = "none"},
    {FIELD(record, launches), .type = FIELD_COUNT, .compared = COMPARED_COUNT,
     .meaning = "operations launched in a step"},
    {FIELD(record, instructions), .type = FIELD_WHOLE, .compared = COMPARED_INSTRUCTIONS,
     .meaning = "instructions retired in a step by all threads, outside the kernel: minimum over the samples",
     .null = "planned, a card, several ranks, or no counters, as in many virtual machines"},
    {FIELD(record, ranks), .type = FIELD_OBJECT,
     .meaning = "values per rank; other fields hold the maximum over ranks of memory, the sum of counts, the "
                "slowest rank's times, and rank 0's categories",
     .null = "one rank", APART(ranks_fields, record_ranks)},
    {FIELD(record, gradient), .type = FIELD_OBJECT,
     .meaning = "error of draw 0's gradient g against the reference r",
     .null = "not requested, planned, or the method computes none", .members = gradient_fields},
    {FIELD(record, bias), .type = FIELD_OBJECT, .meaning = "bias of the gradient estimate over all draws",
     .null = "not requested, planned, or nothing is drawn", .members = bias_fields},
    {FIELD(record, routing), .type = FIELD_OBJECT,
     .meaning = "rebuilds that choose their experts anew, beside draw 0's step, whose rebuilds read the first "
                "pass's choices",
     .null = "not requested, planned, several ranks, or tokens without a choice",
     APART(routing_fields, record_routing)},
    {FIELD(record, pair_sums), .type = FIELD_OBJECT,
     .meaning = "error of a pair's difference of log-probs due to the accumulator dtype, means over pairs",
     .null = "not requested, planned, or no objective of pairs", APART(pair_sums_fields, record_pair_sums)},
    {FIELD(record, curve), .type = FIELD_OBJECT, .meaning = "values of a training run, whose steps are the samples",
     .null = "no training run, or planned", APART(curve_fields, record_curve)},
    {FIELD(record, timeline), .type = FIELD_OBJECT, .meaning = "live bytes over one step", .null = "not requested",
     APART(timeline_fields, record_timeline)},
    {FIELD(record, categories), .type = FIELD_OBJECT, .meaning = "time of one step by category, after the samples",
     .null = "not requested", APART(categories_fields, record_categories)},
    {FIELD(record, search), .type = FIELD_OBJECT, .meaning = "why a search has this trial",
     .null = "no search found it", APART(search_fields, record_search)},
    {FIELD(record, provenance), .type = FIELD_OBJECT, .members = provenance_fields},
    {FIELD(record, wall_s), .type = FIELD_SIZE, .unit = "s", .meaning = "duration of the whole trial"},
    {FIELD(record, command), .type = FIELD_STRING, .meaning = "command that runs the trial again"},
    {0}};

const struct record_field *record_trial_field(const struct trial_key *key)
{
    return &trial_fields[key - trial_keys];
}

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

// --- null

static void clear_field(const struct record_field *field, void *value)
{
    switch (field->type) {
    case FIELD_BOOL:
        *(int *)value = -1;
        return;
    case FIELD_STATUS:
        *(enum record_status *)value = RECORD_STATUS_COUNT;
        return;
    case FIELD_HASH:
        *(uint64_t *)value = 0;
        return;
    case FIELD_ANY:
    case FIELD_ARRAY:
    case FIELD_STRING:
        *(const void **)value = NULL;
        return;
    case FIELD_COUNT:
    case FIELD_SIZE:
    case FIELD_WHOLE:
    case FIELD_POSITIVE:
    case FIELD_NUMBER:
        if (field->list)
            *(struct number_list *)value = (struct number_list){0};
        else
            *(double *)value = NAN;
        return;
    case FIELD_TRIAL:
        ((struct record_trial *)value)->json = NULL;
        ((struct record_trial *)value)->rest = NULL;
        // fall through
    case FIELD_OBJECT:
        if (!field->members) {
            *(const json_t **)value = NULL;
            return;
        }
        if (field->absent) {
            *(const void **)value = field->absent;
            return;
        }
        record_fields_clear(field->members, value);
        *(bool *)value = false;
        return;
    case FIELD_ROWS:
    case FIELD_MAP:
        *(struct record_parts *)value = (struct record_parts){0};
        return;
    case FIELD_TALLY:
        *(const void **)value = field->absent;
        return;
    }
}

void record_fields_clear(const struct record_field *fields, void *owner)
{
    for (const struct record_field *field = fields; field->name; field++)
        clear_field(field, (char *)owner + field->offset);
}

// --- a trial's fields, made from its keys

// The struct of a trial, or of an object in it: its named members, and room for all other keys.
struct room {
    const char *object; // "": the trial; NULL: any other
    size_t bytes, others, capacity;
    struct named {
        const char *key;
        size_t offset;
        bool required;
    } named[20];
};
#define ROOM(of, owner)                                                                                            \
    .object = of, .bytes = sizeof(struct owner), .others = offsetof(struct owner, others),                         \
    .capacity = sizeof(((struct owner *)0)->others) / sizeof(union record_value)
#define NAMED(owner, member)                                                                                       \
    {                                                                                                              \
#member, offsetof(struct owner, member), false                                                             \
    }
#define REQUIRED(owner, member)                                                                                    \
    {                                                                                                              \
#member, offsetof(struct owner, member), true                                                              \
    }
static const struct room rooms[] = {
    {ROOM("", record_trial),
     .named = {NAMED(record_trial, model), NAMED(record_trial, lora), NAMED(record_trial, objective),
               NAMED(record_trial, optimizer), REQUIRED(record_trial, method), NAMED(record_trial, train),
               REQUIRED(record_trial, dtype), REQUIRED(record_trial, device), NAMED(record_trial, profile),
               NAMED(record_trial, interconnect), NAMED(record_trial, kv_gradient_dtype),
               NAMED(record_trial, gradient_dtype), REQUIRED(record_trial, batch), REQUIRED(record_trial, context),
               NAMED(record_trial, prompt), NAMED(record_trial, group), NAMED(record_trial, deterministic),
               NAMED(record_trial, limits), NAMED(record_trial, parallel)}},
    {ROOM("limits", record_limits), .named = {NAMED(record_limits, memory), NAMED(record_limits, host_memory)}},
    {ROOM("parallel", record_parallel),
     .named = {NAMED(record_parallel, data), NAMED(record_parallel, sequence), NAMED(record_parallel, stage),
               NAMED(record_parallel, zero), NAMED(record_parallel, exchange)}},
    {ROOM(NULL, record_members)}};

static const struct room *room_of(const char *object)
{
    const struct room *room = rooms;
    while (room->object && strcmp(room->object, object) != 0)
        room++;
    return room;
}

static enum field_type type_of(const struct trial_key *key)
{
    switch (key->type) {
    case KEY_BOOL:
        return FIELD_BOOL;
    case KEY_COUNT:
    case KEY_SIZE:
        return FIELD_COUNT;
    case KEY_NUMBER:
        return FIELD_SIZE;
    case KEY_CHOICE:
    case KEY_TEXT:
        return FIELD_STRING;
    case KEY_OBJECT:
    case KEY_METHOD:
        return FIELD_OBJECT;
    case KEY_OWN:
        break;
    }
    return key->holds == HOLDS_TEXT ? FIELD_STRING : key->holds == HOLDS_OBJECT ? FIELD_OBJECT : FIELD_ANY;
}

static void make_fields(struct record_field *fields, const struct trial_key *keys, const struct room *room)
{
    size_t others = 0;
    for (struct record_field *field = fields; keys->name; keys++, field++) {
        const struct named *named = room->named;
        while (named->key && strcmp(named->key, keys->name) != 0)
            named++;
        *field = (struct record_field){.name = keys->name,
                                       .offset = named->key ? named->offset
                                                            : room->others + others++ * sizeof(union record_value),
                                       .type = type_of(keys),
                                       .required = named->required,
                                       .unit = keys->type == KEY_SIZE ? "bytes" : keys->unit,
                                       .meaning = keys->meaning,
                                       .null = keys->null};
        CHECK(others <= room->capacity);
        if (!keys->members || keys->null) // keys that may be null are JSON
            continue;
        const struct room *inner = room_of(keys->name);
        struct record_field *members = calloc(TRIAL_KEYS_MAX, sizeof *members);
        void *absent = calloc(1, inner->bytes);
        make_fields(members, keys->members, inner);
        field->members = members;
        field->part_bytes = inner->bytes;
        field->absent = absent;
    }
}

// Makes the null values of all separate structs.
static void make_absent(const struct record_field *fields)
{
    for (const struct record_field *field = fields; field->name; field++) {
        if (field->type == FIELD_TALLY)
            for (int i = 0; i < CATEGORY_COUNT; i++)
                ((double *)field->absent)[i] = NAN;
        if (!field->members)
            continue;
        make_absent(field->members);
        if (field->absent)
            record_fields_clear(field->members, (void *)field->absent);
    }
}

__attribute__((constructor)) static void make(void)
{
    make_fields(trial_fields, trial_keys, rooms);
    make_absent(record_fields);
}
