// Command: `longbp compare`, whether results became worse from one result file to another.
#include "harness/command/compare_files.h"
#include "harness/compare/comparison_report.h"
#include "harness/options/arguments.h"
#include "harness/options/command.h"
#include <string.h>

enum { OPTION_THRESHOLD = 256 };

struct arguments {
    const char *const *paths;
    size_t path_count;
    struct comparison_options options;
    const char *by; // NULL: compares trials of equal ids in two files
    const char *format;
    bool all;
};

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    struct status status = {0};
    struct allowance share = {0}; // "5%" or "0.05"
    switch (key) {
    case 'a':
        if (!quantity_allow(arguments->options.rules.allowances, value, &status))
            argp_error(state, "%s", status.message);
        return 0;
    case OPTION_THRESHOLD:
        if (!allowance_read(&share, value) || !(share.amount > 0 && share.amount <= 1))
            argp_error(state, "--threshold: expected a share above 0 and up to 100%%, such as 10%%, found \"%s\"",
                       value);
        arguments->options.threshold = share.amount;
        return 0;
    case ARGP_KEY_END:
        if (arguments->path_count > 2)
            argp_error(state, "two result files are compared; \"%s\" is a third", arguments->paths[2]);
        if (arguments->by && arguments->path_count == 0)
            argp_error(state, "--by holds the settings of one or two result files against each other; name them");
        if (!arguments->by && arguments->path_count < 2)
            argp_error(state, "name two result files, BASE and NEW");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

// Maps the worst verdict to an exit code. Inputs may change between settings (--by), but not between two records of
// one trial.
static int exit_code(const struct titled_comparison *items, size_t count)
{
    enum verdict worst = VERDICT_NONE;
    for (size_t i = 0; i < count; i++)
        worst = verdict_worst(worst, items[i].comparison.verdict);
    bool changed = worst == VERDICT_CHANGED && !items[0].comparison.options.rules.settings;
    return worst == VERDICT_WORSE                  ? EXIT_CHECK_FAILED
           : changed || worst == VERDICT_UNDECIDED ? EXIT_UNDECIDED
                                                   : EXIT_FINE;
}

int compare_files(const char *const *paths, size_t count, const char *by, const struct comparison_options *options,
                  enum comparison_format format, bool all, struct status *status)
{
    struct result_file files[2] = {0};
    struct line_set lines = {0}; // two files that are compared by id each have their own
    struct comparison_by made = {0};
    bool fine = true;
    int code = EXIT_BAD_INPUT;
    for (size_t i = 0; fine && i < count; i++)
        fine = by ? result_file_read_next(&files[i], paths[i], &lines, status)
                  : result_file_read(&files[i], paths[i], status);
    if (fine && comparison_by_make(&made, files, count, by, options, status)) {
        code = exit_code(made.items, made.count);
        for (size_t i = 0; i < count; i++)
            result_file_warn(&files[i]);
        comparison_write(made.items, made.count, format, all, stdout);
    }
    comparison_by_free(&made);
    for (size_t i = 0; i < count; i++)
        result_file_close(&files[i]);
    line_set_free(&lines);
    return code;
}

static const char before_rules[] =
    "Compares two result files for regressions, trial by trial, by id.\n\nEvery trial, every round and every "
    "quantity ends as same, better, worse, changed or undecided, and the verdict is the worst of them. The records "
    "of a trial with the revision and machine of its last record are its rounds. Each quantity's maximum over "
    "NEW's rounds is compared with BASE's maximum, and its minimum with BASE's minimum.\n\nVerdicts:\n  status: ok "
    "in every round of BASE but not of NEW: worse; ok again: better; another failure of equal severity, such as "
    "oom for timeout: changed\n  a trial only in BASE: undecided; only in NEW: worse if it crashed, failed or ran "
    "out of time, else not judged\n  inputs (data_hash, model_hash): different: changed, and nothing else of the "
    "trial is judged\n";

static const char after_rules[] =
    "  a value that is no longer finite: worse; finite again: changed\n  a value that only BASE has: undecided; "
    "one that only NEW has: counted, not judged\n  values of one draw, if a method drew other chunks: changed\n  "
    "time: by the rule below; with one round undecided, unless both are the same measurement\n  gradient bits: "
    "reported, not judged\n\n\v--allow lets a quantity grow; allowed changes are listed. Tolerances depend only on "
    "BASE and the dtype. Gradient errors and (relatively) a step's loss: twice BASE's noise floor, at least that "
    "of rounding every result once. One tensor's error: twice its error in BASE, up to 32 floors. The final loss "
    "of a training run: twice the standard error of the difference of two means, from the scatter of BASE's loss "
    "over its last quarter of steps.\n\nTimes: measure the two builds alternately in rounds: `longbp run SPEC "
    "--rounds 3 --against OTHER-BUILD --compare`, which ends with this comparison. Rounds with equal numbers "
    "(record field round) are paired; records without a number are paired from the last backwards, and records "
    "left out are reported. Disturbances only add time, so the faster half of a trial's samples counts in each "
    "round. All trials: the ratio new / base is the mean over the rounds, with Student's interval; it is worse if "
    "the interval is above 1 and the ratio above 1 + half the threshold, the same if the interval is below 1 + "
    "threshold. One trial: the fastest rounds are compared, with 1.5 times the threshold; the second fastest round "
    "shows their error. If the machine's speed varies so much that the median of the rounds' ratios has less than "
    "half that error, the median is used. A trial is worse only if it also stands out from the other trials, and "
    "temporary disturbances do not explain it. Groups of trials with one method, context or dtype are judged in "
    "the same way. Everything else is undecided, and the verdict says how many rounds would settle it.\n\nIf other "
    "programs disturbed samples, processor times are compared instead, provided both files have them and threads "
    "do not spin while waiting (record fields cpu_ms, provenance.spin_count). They exclude waits, so trials with "
    "several threads that are slower only by the clock are undecided. A method that draws chunks runs the same "
    "draws in both files, and samples of equal draws are compared.\n\n--deterministic is for BASE files from other "
    "machines: it ignores times, and a trial that was ok and now times out is undecided. --exact reports decreases "
    "of bytes and counts too, because work that is no longer counted looks like work saved; after an intended "
    "saving, record BASE again.\n\n--by KEY pairs trials of one file, or of two files together, that differ only "
    "in that key: its first value with each of the others. Worse then means the cost of a setting. Losses of other "
    "settings, data or chunks are changed, which is expected.\n\n--by device MEASURED PLANNED compares a plan "
    "(plan-cpu, plan-cuda) with measurements. The two may also differ in profile, interconnect and measure, and in "
    "a memory limit that only one side has; oom on one side and ok on the other is then no fault. Bytes and counts "
    "must be equal: less is worse too, because one of the two is wrong. Values that plans lack are not judged "
    "(times, losses, gradient errors, the driver's figures, energy), nor are trials that crashed, failed, timed "
    "out or were unsupported. A card's number of multiprocessors affects its plan, so plan-cuda needs "
    "--profile.\n\nExit status: 0 same or better, 1 something is worse, 2 wrong use or a bad file (also one with a "
    "torn last line, or with two trials under one id), 3 changed or undecided. In junit a worse trial is a "
    "failure, a changed or undecided one is skipped, and such a verdict is an error.";

// To be freed.
static char *help_text(void)
{
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    fputs(before_rules, stream);
    quantity_rules_write(stream);
    fputs(after_rules, stream);
    CHECK(fclose(stream) == 0);
    return text;
}

int command_compare(int argc, char **argv)
{
    static const struct flag options[] = {
        {"allow", .key = 'a', .arg = "LIST",
         .doc = "Allowed increases of quantities: peak_bytes=1%,launches=2,bytes_moved=64KiB (default: none)"},
        {"threshold", .key = OPTION_THRESHOLD, .arg = "SHARE",
         .doc = "Slowdown of all trials that must be detected (default: 10%)"},
        {"deterministic", SET_AT(struct arguments, options.deterministic), .doc = "Ignore times"},
        {"exact", SET_AT(struct arguments, options.rules.exact),
         .doc = "Report fewer bytes or counts as worse too: work that is no longer counted looks like work saved"},
        {"all", SET_AT(struct arguments, all), .doc = "Show every trial, not only those that changed"},
        {"by", TEXT_AT(struct arguments, by), .arg = "KEY",
         .doc =
             "Compare trials, of one file or of two together, that differ only in this key: chunk, dtype, method; "
             "or device, a plan with measurements; the first value is BASE (default: compare two files by id)"},
        {"format", TEXT_AT(struct arguments, format), .arg = "text|markdown|junit|json",
         .doc = "Output as text, as a comment for a pull request, as XML test results, or as JSON (default: text)"},
        {OPERANDS, LIST_AT(struct arguments, paths, path_count)},
        {0},
    };
    char *help = help_text();
    const struct argp argp = {NULL, parse, "BASE NEW\n--by KEY FILE [FILE]", help, NULL, NULL, NULL};
    struct arguments arguments = {.options = {.threshold = TIME_THRESHOLD}, .format = "text"};
    struct status status = {0};
    arguments_parse(&argp, options, argc, argv, &arguments);
    int code = compare_files(arguments.paths, arguments.path_count, arguments.by, &arguments.options,
                             comparison_format_find(arguments.format), arguments.all, &status);
    command_end(argv[0], &status);
    free((void *)arguments.paths);
    free(help);
    return code;
}
