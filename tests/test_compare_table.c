// Tests of the table in `longbp compare --help`: every change of every quantity has its verdict and its exit code,
// whichever of three trials it is of, in every round or in one of three.
#define _GNU_SOURCE // asprintf, nftw, mkdtemp
#include "harness/compare/comparison_report.h"
#include "tests/compared.h"

enum { TRIALS = 3, ROUNDS = 3 };

// In which rounds of NEW something changed.
enum extent { FIRST, MIDDLE, LAST, ALL };

// Other members of a record, and of its gradient.
#define MEMBER(name, value) ", '" name "': " value
#define CURVE(last, held_out)                                                                                      \
    ", 'curve': {'loss': [5, 4, 3.5, 3.2, 3, 3, 3, " last "], 'evaluation_step': [8], 'evaluation_loss': "         \
    "[" held_out "]}"
#define TENSOR(error) ", 'tensors': {'w': {'hash': '0000000000000001', 'relative_l2': " error "}}"

#define IS(it, of_all) .what = (it), .verdict = (of_all)

static const struct row {
    struct sketch base, new;
    const char *what, *verdict; // of what it is told, and the verdict of all
    const char *on;             // the verdict on `what`, where it is not that of all; "": nothing is said of it
    const char *exact;          // that of all with --exact, where it is another
    const char *once;           // that of all where one round of NEW alone changed, where it is another
} rows[] = {
    // Status.
    {{.trial = 0}, {.trial = 0}, IS("status", "same"), .on = ""},
    {{.trial = 0}, {.status = "oom"}, IS("status", "worse")},
    {{.trial = 0}, {.status = "timeout"}, IS("status", "worse")},
    {{.trial = 0}, {.status = "unsupported"}, IS("status", "worse")},
    {{.trial = 0}, {.status = "crash"}, IS("status", "worse")},
    {{.trial = 0}, {.status = "failed"}, IS("status", "worse")},
    {{.status = "oom"}, {.trial = 0}, IS("status", "better"), .once = "same"},
    {{.status = "timeout"}, {.trial = 0}, IS("status", "better"), .once = "same"},
    {{.status = "crash"}, {.trial = 0}, IS("status", "better"), .once = "same"},
    {{.status = "crash"}, {.status = "oom"}, IS("status", "better"), .once = "same"},
    {{.status = "oom"}, {.status = "timeout"}, IS("status", "changed")},
    {{.status = "timeout"}, {.status = "unsupported"}, IS("status", "changed")},
    {{.status = "failed"}, {.status = "crash"}, IS("status", "changed")},
    {{.status = "oom"}, {.status = "failed"}, IS("status", "worse")},
    // Inputs, and nothing else of the trial.
    {{.more = MEMBER("data_hash", "'0000000000000001'")},
     {.flops = 9000, .more = MEMBER("data_hash", "'0000000000000002'")},
     IS("inputs", "changed")},
    {{.more = MEMBER("model_hash", "'0000000000000001'")},
     {.flops = 9000, .more = MEMBER("model_hash", "'0000000000000002'")},
     IS("inputs", "changed")},
    {{.more = MEMBER("data_hash", "'0000000000000001'")},
     {.flops = 9000, .more = MEMBER("data_hash", "'0000000000000002'")},
     IS("flops", "changed"),
     .on = ""},
    // Bytes and counts.
    {{.trial = 0}, {.peak_bytes = 1001}, IS("peak_bytes", "worse")},
    {{.trial = 0}, {.peak_bytes = 999}, IS("peak_bytes", "better"), .exact = "worse"},
    {{.trial = 0}, {.activations = 601}, IS("peak_by_category.activations", "worse")},
    {{.trial = 0}, {.activations = 599}, IS("peak_by_category.activations", "better"), .exact = "worse"},
    {{.trial = 0},
     {.peak_bytes = 999, .activations = 601},
     IS("peak_by_category.activations", "better"),
     .on = "",
     .exact = "worse",
     .once = "worse"},
    {{.trial = 0}, {.flops = 5001}, IS("flops", "worse")},
    {{.trial = 0}, {.flops = 4999}, IS("flops", "better"), .exact = "worse"},
    {{.trial = 0}, {.bytes_moved = 901}, IS("bytes_moved", "worse")},
    {{.trial = 0}, {.bytes_moved = 899}, IS("bytes_moved", "better"), .exact = "worse"},
    {{.trial = 0}, {.launches = 71}, IS("launches", "worse")},
    {{.trial = 0}, {.launches = 69}, IS("launches", "better"), .exact = "worse"},
#define BOTH_WAYS(name)                                                                                            \
    {{.more = MEMBER(name, "5")}, {.more = MEMBER(name, "6")}, IS(name, "worse")},                                 \
    {                                                                                                              \
        {.more = MEMBER(name, "5")}, {.more = MEMBER(name, "4")}, IS(name, "better"), .exact = "worse"             \
    }
    BOTH_WAYS("resident_bytes"),
    BOTH_WAYS("model_flops"),
    BOTH_WAYS("attention_glue_bytes"),
    BOTH_WAYS("host_peak_bytes"),
    BOTH_WAYS("link_out_bytes"),
    BOTH_WAYS("link_in_bytes"),
    // Nothing on the host is 0 bytes.
    {{.trial = 0}, {.more = MEMBER("host_peak_bytes", "5")}, IS("host_peak_bytes", "worse")},
    {{.more = MEMBER("link_in_bytes", "5")}, {.trial = 0}, IS("link_in_bytes", "better"), .exact = "worse"},
    // One does not pay for the other.
    {{.trial = 0}, {.flops = 4000, .launches = 71}, IS("flops", "worse"), .on = "better", .exact = "worse"},
    // Instructions.
    {{.more = MEMBER("instructions", "1000")},
     {.more = MEMBER("instructions", "1029")},
     IS("instructions", "same"),
     .on = ""},
    {{.more = MEMBER("instructions", "1000")},
     {.more = MEMBER("instructions", "1031")},
     IS("instructions", "worse")},
    {{.more = MEMBER("instructions", "1000")},
     {.more = MEMBER("instructions", "969")},
     IS("instructions", "better"),
     .exact = "worse"},
    {{.more = MEMBER("instructions", "1000")},
     {.cpu = "another", .more = MEMBER("instructions", "2000")},
     IS("instructions", "same"),
     .on = ""},
    {{.more = MEMBER("instructions", "1000"), .machine = ", 'spin_count': 0"},
     {.more = MEMBER("instructions", "2000"), .machine = ", 'spin_count': 9"},
     IS("instructions", "same"),
     .on = ""},
    // The loss of the first step: the tolerance is 1.2e-6 of it.
    {{.more = MEMBER("loss", "3")}, {.more = MEMBER("loss", "3.000003")}, IS("loss", "same"), .on = ""},
    {{.more = MEMBER("loss", "3")}, {.more = MEMBER("loss", "3.000004")}, IS("loss", "worse")},
    {{.more = MEMBER("loss", "3")}, {.more = MEMBER("loss", "2.999996")}, IS("loss", "worse")},
    {{.more = MEMBER("loss", "3")}, {.more = MEMBER("loss", "null")}, IS("loss", "worse")},
    // The losses that a training run ends with: a steady one has no noise but rounding.
    {{.more = CURVE("3", "3")}, {.more = CURVE("3.1", "3")}, IS("last_loss", "worse")},
    {{.more = CURVE("3", "3")}, {.more = CURVE("2.9", "3")}, IS("last_loss", "better")},
    {{.more = CURVE("3", "3")}, {.more = CURVE("3", "3.1")}, IS("held_out_loss", "worse")},
    {{.more = CURVE("3", "3")}, {.more = CURVE("3", "2.9")}, IS("held_out_loss", "better")},
    {{.more = CURVE("4", "3")}, {.more = CURVE("4", "3.9")}, IS("held_out_loss", "same"), .on = ""},
    // Gradient errors: the tolerance is 1.2e-6.
    {{.error = 5e-7}, {.error = 1.6e-6}, IS("gradient.relative_l2", "same"), .on = ""},
    {{.error = 5e-7}, {.error = 1.8e-6}, IS("gradient.relative_l2", "worse")},
    {{.error = 2e-6}, {.error = 5e-7}, IS("gradient.relative_l2", "better")},
    {{.floor = 6e-7}, {.floor = 1.7e-6}, IS("gradient.noise_floor", "same"), .on = ""},
    {{.floor = 6e-7}, {.floor = 1.9e-6}, IS("gradient.noise_floor", "worse")},
    {{.floor = 6e-7, .error = 2e-6}, {.floor = 1.9e-6, .error = 4e-6}, IS("gradient.relative_l2", "worse")},
    {{.floor = 6e-6}, {.floor = 5e-7}, IS("gradient.noise_floor", "same"), .on = ""},
    {{.bits = TENSOR("1e-6")}, {.bits = TENSOR("2.9e-6")}, IS("w", "same"), .on = ""},
    {{.bits = TENSOR("1e-6")}, {.bits = TENSOR("3.1e-6")}, IS("w", "worse")},
    {{.bits = TENSOR("1e-4")}, {.bits = TENSOR("1e-5")}, IS("w", "better")},
#define BIASES(l2, rms) .more = ", 'bias': {'relative_l2': " l2 ", 'rms_error': " rms "}"
    {{BIASES("0.1", "0.5")}, {BIASES("0.2", "0.5")}, IS("bias.relative_l2", "worse")},
    {{BIASES("0.1", "0.5")}, {BIASES("0.05", "0.5")}, IS("bias.relative_l2", "better")},
    {{BIASES("0.1", "0.5")}, {BIASES("0.1", "0.6")}, IS("bias.rms_error", "worse")},
    {{BIASES("0.1", "0.5")}, {BIASES("0.1", "0.4")}, IS("bias.rms_error", "better")},
// Figures that BASE alone knows, and that NEW alone does.
#define LOST(name)                                                                                                 \
    {                                                                                                              \
        {.more = MEMBER(name, "5")}, {.trial = 0}, IS(name, "undecided")                                           \
    }
#define NEWS(name)                                                                                                 \
    {                                                                                                              \
        {.trial = 0}, {.more = MEMBER(name, "5")}, IS(name, "same"), .on = "not judged"                            \
    }
#define FORGOTTEN(name, what)                                                                                      \
    {                                                                                                              \
        {.trial = 0}, {.without = name}, IS(what, "undecided")                                                     \
    }
#define LEARNED(name, what)                                                                                        \
    {                                                                                                              \
        {.without = name}, {.trial = 0}, IS(what, "same"), .on = "not judged"                                      \
    }
    FORGOTTEN("peak_by_category", "peak_by_category.activations"),
    LEARNED("peak_by_category", "peak_by_category.activations"),
    FORGOTTEN("flops", "flops"),
    LEARNED("flops", "flops"),
    FORGOTTEN("peak_bytes", "peak_bytes"),
    LEARNED("peak_bytes", "peak_bytes"),
    FORGOTTEN("bytes_moved", "bytes_moved"),
    LEARNED("bytes_moved", "bytes_moved"),
    FORGOTTEN("launches", "launches"),
    LEARNED("launches", "launches"),
    FORGOTTEN("gradient", "gradient.relative_l2"),
    LEARNED("gradient", "gradient.relative_l2"),
    FORGOTTEN("gradient", "gradient.noise_floor"),
    LOST("resident_bytes"),
    NEWS("resident_bytes"),
    LOST("model_flops"),
    NEWS("model_flops"),
    LOST("attention_glue_bytes"),
    NEWS("attention_glue_bytes"),
    LOST("instructions"),
    NEWS("instructions"),
    {{.more = CURVE("3", "3")}, {.trial = 0}, IS("last_loss", "undecided")},
    {{.trial = 0}, {.more = CURVE("3", "3")}, IS("held_out_loss", "same"), .on = "not judged"},
    {{.bits = TENSOR("1e-6")}, {.bits = ""}, IS("w", "undecided")},
    {{.bits = TENSOR("1e-6")},
     {.bits = ", 'tensors': {'v': {'hash': '0000000000000001', 'relative_l2': 1e-6}}"},
     IS("w", "undecided")},
    {{BIASES("0.1", "0.5")}, {.trial = 0}, IS("bias.rms_error", "undecided")},
    {{.trial = 0}, {BIASES("0.1", "0.5")}, IS("bias.rms_error", "same"), .on = "not judged"},
    // Figures of one draw, of other chunks; a bias is of all.
    {{.more = MEMBER("drawn_chunks", "[0, 3]")},
     {.flops = 5001, .more = MEMBER("drawn_chunks", "[2]")},
     IS("flops", "changed")},
    {{.more = MEMBER("drawn_chunks", "[0, 3]")},
     {.peak_bytes = 999, .more = MEMBER("drawn_chunks", "[2]")},
     IS("peak_bytes", "changed")},
    {{.more = MEMBER("drawn_chunks", "[0, 3]")},
     {.error = 0.1, .more = MEMBER("drawn_chunks", "[2]")},
     IS("gradient.relative_l2", "changed")},
    // Bits are told.
    {{.bits = HASHES("1", "2", "3")}, {.bits = HASHES("4", "2", "5")}, IS("flops", "same"), .on = ""},
};

// NEW with what changed in trial `at`, in the rounds that `extent` says; the order is that of `run --rounds`.
static void write_row(const struct scratch *scratch, const struct row *row, unsigned at, enum extent extent)
{
    struct sketch base[TRIALS * ROUNDS], new[TRIALS * ROUNDS];
    for (unsigned i = 0; i < TRIALS * ROUNDS; i++) {
        bool changed = i % TRIALS == at && (extent == ALL || i / TRIALS == extent);
        base[i] = i % TRIALS == at ? row->base : (struct sketch){0};
        new[i] = changed ? row->new : base[i];
        base[i].trial = new[i].trial = i % TRIALS;
        base[i].samples = new[i].samples = -1;
    }
    write_records(scratch, "base", base, TRIALS * ROUNDS);
    write_records(scratch, "new", new, TRIALS * ROUNDS);
}

// By the command, whose exit code goes with the verdict, or without it, which takes a tenth of the time. NULL:
// another verdict.
static json_t *compare(const struct scratch *scratch, bool exact, bool by_command, const char *verdict)
{
    if (by_command)
        return comparison_of(scratch, exact ? "--exact base new" : "base new", verdict);
    const struct comparison_options options = {.rules.exact = exact, .threshold = TIME_THRESHOLD};
    struct result_file files[2] = {0};
    struct comparison comparison;
    struct status status = {0};
    assert_true(result_file_read(&files[0], scratch_path(scratch, "base").text, &status));
    assert_true(result_file_read(&files[1], scratch_path(scratch, "new").text, &status));
    assert_true(comparison_make(&comparison, &files[0], &files[1], &options, &status));
    json_t *json = comparison_json(&comparison, false);
    const char *found = verdict_name(comparison.verdict);
    if (strcmp(found, verdict) != 0) {
        print_error("expected \"%s\"%s, found \"%s\"\n", verdict, exact ? " with --exact" : "", found);
        json_decref(json);
        json = NULL;
    }
    comparison_free(&comparison);
    result_file_close(&files[0]);
    result_file_close(&files[1]);
    return json;
}

// Whether the verdict on something of a trial is as expected; "": nothing is said of it. Releases the comparison.
static bool holds(json_t *comparison, unsigned trial, const char *what, const char *on)
{
    const char *found = comparison ? verdict_on(comparison, trial, what) : "";
    bool alike = comparison && strcmp(found, on) == 0;
    if (comparison && !alike)
        print_error("expected %s: \"%s\", found \"%s\"\n", what, on, found);
    json_decref(comparison);
    return alike;
}

static bool row_holds(const struct scratch *scratch, const struct row *row, unsigned at, enum extent extent)
{
    size_t i = (size_t)(row - rows);
    bool once = extent < ALL && row->once, by_command = i % TRIALS == at && i % (ALL + 1) == extent;
    const char *verdict = once ? row->once : row->verdict, *on = row->on && !once ? row->on : verdict;
    write_row(scratch, row, at, extent);
    bool plain =
        holds(compare(scratch, false, by_command, verdict), at, row->what, strcmp(on, "same") == 0 ? "" : on);
    return holds(compare(scratch, true, by_command, row->exact ? row->exact : verdict), at, "", "") && plain;
}

static void every_change_in_every_position(void **state)
{
    static const char *const extents[] = {"the first round", "the middle round", "the last round", "all rounds"};
    size_t wrong = 0;
    for (size_t i = 0; i < COUNT(rows); i++)
        for (unsigned at = 0; at < TRIALS; at++)
            for (enum extent extent = FIRST; extent <= ALL; extent++)
                if (!row_holds(*state, &rows[i], at, extent)) {
                    print_error("row %zu, %s: %s, in %s of trial %u\n", i, rows[i].what, rows[i].verdict,
                                extents[extent], at);
                    wrong++;
                }
    assert_int_equal(wrong, 0);
}

// A trial that one file alone has, by how it ended.
static void a_trial_of_one_file_in_every_position(void **state)
{
    static const char *const ends[] = {"ok", "oom", "unsupported", "timeout", "crash", "failed"};
    for (size_t i = 0; i < COUNT(ends); i++)
        for (unsigned at = 0; at < TRIALS; at++) {
            struct sketch all[TRIALS], others[TRIALS - 1];
            for (unsigned trial = 0, other = 0; trial < TRIALS; trial++) {
                all[trial] = (struct sketch){.trial = trial, .samples = -1};
                if (trial != at)
                    others[other++] = all[trial];
            }
            all[at].status = ends[i];
            write_records(*state, "more", all, TRIALS);
            write_records(*state, "less", others, TRIALS - 1);
            assert_true(holds(judged(*state, "more less", "undecided"), at, "status", "undecided"));
            assert_true(holds(judged(*state, "less more", i < 3 ? "same" : "worse"), at, "status",
                              i < 3 ? "not judged" : "worse"));
        }
}

// Three times as long: in all rounds it is slower, in one of them the machine was disturbed.
static void times_in_every_position(void **state)
{
    for (unsigned at = 0; at < TRIALS; at++)
        for (enum extent extent = FIRST; extent <= ALL; extent++) {
            const char *verdict = extent == ALL ? "worse" : "same";
            struct sketch records[TRIALS * ROUNDS] = {0};
            for (unsigned i = 0; i < TRIALS * ROUNDS; i++)
                records[i].trial = i % TRIALS;
            write_records(*state, "base", records, TRIALS * ROUNDS);
            for (unsigned i = 0; i < TRIALS * ROUNDS; i++)
                records[i].ms = i % TRIALS == at && (extent == ALL || i / TRIALS == extent) ? 30 : 10;
            write_records(*state, "new", records, TRIALS * ROUNDS);
            assert_true(holds(judged(*state, "base new", verdict), at, "time", extent == ALL ? "worse" : ""));
            // One round alone decides nothing, but where it is the very same measurement.
            for (unsigned i = 0; i < TRIALS; i++)
                records[i].ms += 0.01;
            write_records(*state, "new", records, TRIALS);
            assert_true(holds(judged(*state, "base new", "undecided"), at, "time", "undecided"));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_change_in_every_position),
        TEST(a_trial_of_one_file_in_every_position),
        TEST(times_in_every_position),
    };
    return cmocka_run_group_tests_name("compare table", tests, NULL, NULL);
}
