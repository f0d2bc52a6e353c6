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
    "Compares two result files trial by trial, by id: did anything become worse?\n"
    "\n"
    "Every trial, every round and every quantity ends as same, better, worse, changed or undecided, and the "
    "verdict is the worst of them. The records of a trial are its rounds: all that the revision and the machine "
    "of its last record measured. Each quantity's largest of NEW's rounds is compared with the largest of "
    "BASE's, and its smallest with the smallest.\n"
    "\n"
    "Verdicts:\n"
    "  status: ok in every round of BASE and not in NEW: worse; back to ok: better; an end of the same weight, "
    "such as oom for timeout: changed\n"
    "  a trial only in BASE: undecided; only in NEW: worse if it crashed, failed or ran out of time, else not "
    "judged\n"
    "  inputs (data_hash, model_hash): another: changed, and nothing else of the trial is judged\n";

static const char after_rules[] =
    "  a value that is not finite: worse, where it was finite; finite again: changed\n"
    "  whatever NEW does not know and BASE does: undecided; what NEW alone knows: not judged, and counted\n"
    "  figures of one draw, where a method drew other chunks: changed\n"
    "  time: by the rule below; in one round: undecided, but for the very same measurement\n"
    "  gradient bits: told, and not judged\n"
    "\n"
    "\v--allow lets a quantity grow; what it let pass is listed. Tolerances come from BASE and the dtype alone: "
    "of gradient errors and, as a share of it, of a step's loss twice BASE's noise floor, which is taken for no "
    "less than rounding every result once; of one tensor's error twice what it is in BASE, up to 32 floors. The "
    "losses that a training run ends with have noise: twice the standard error of the difference of two such "
    "means, by how much BASE's loss scatters from step to step over its last quarter.\n"
    "\n"
    "Times: measure the two builds in turn and in rounds: `longbp run SPEC --rounds 3 --against OTHER-BUILD "
    "--compare`, which ends with this comparison. Rounds of one number belong together (record field round); "
    "records without one are paired from the last on, and what is left out is told. Disturbances add "
    "time, so that the faster half of a trial's samples counts in each round. Over all trials the ratio new / "
    "base is the mean over the rounds, with Student's interval: worse if the interval lies above 1 and the ratio "
    "above 1 + half the threshold, same if the interval lies below 1 + threshold. For one trial the fastest rounds "
    "are compared, with half as much again as threshold; how far they may be off shows in the second fastest. On "
    "a machine whose speed changes all the time the median of its rounds' ratios is less than half as far off, "
    "and is compared instead. A trial is worse if it also stands out from the other trials, and if no disturbance "
    "that comes and goes explains it. Groups of trials of one method, context or dtype are judged likewise. "
    "Whatever is not the same, better or worse is undecided, and the verdict says how many rounds would do.\n"
    "\n"
    "Processor times are compared for samples that other programs disturbed, where both files have them and "
    "threads do not spin while they wait (record fields cpu_ms, provenance.spin_count); what a step waits for is "
    "not in them, and several threads that are slower by the clock alone are undecided. A method that draws its "
    "chunks runs the same draws in both files, and a sample is held against those of its draw.\n"
    "\n"
    "--deterministic is for BASE files from other machines: it leaves the times out, and a trial that was ok and "
    "ran out of time is undecided. --exact is for bytes and counts that nobody meant to change: work that is no "
    "longer counted looks like work that was saved; if it was, record BASE anew.\n"
    "\n"
    "--by KEY pairs the trials of one file, or of two files together, that differ in that key alone, the first of "
    "its values with each of the others: what is called worse there is what a setting costs. A loss of another "
    "setting, of other data or of other chunks is changed, which is no fault there.\n"
    "\n"
    "--by device MEASURED PLANNED holds a plan (plan-cpu, plan-cuda) against what was measured. These two may "
    "differ besides in profile, interconnect and measure, and in a limit of memory that one side has none of; oom "
    "on one "
    "side and ok on the other is no fault where one has a limit that the other has not. Bytes and counts must be "
    "equal: less is worse, too, for one of the two is wrong. What a plan has none of is not judged: times, "
    "losses, gradient errors, what the driver says, energy; and that a trial crashed, failed, ran out of time or "
    "was unsupported there makes no plan wrong. A card's number of multiprocessors changes its plan, so plan-cuda "
    "wants --profile.\n"
    "\n"
    "Exit status: 0 same or better, 1 something is worse, 2 wrong use or a bad file (also one with a torn last "
    "line, or with two trials under one id), 3 changed or undecided. In junit a trial that is worse is a failure, "
    "one that is changed or undecided is skipped, and a verdict of these is an error.";

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
         .doc = "Quantities that may grow, and by how much: peak_bytes=1%,launches=2,bytes_moved=64KiB (default: "
                "nothing)"},
        {"threshold", .key = OPTION_THRESHOLD, .arg = "SHARE",
         .doc = "The slow-down of all trials that must not pass as the same (default: 10%)"},
        {"deterministic", SET_AT(struct arguments, options.deterministic), .doc = "Leave the times out"},
        {"exact", SET_AT(struct arguments, options.rules.exact),
         .doc = "Fewer bytes or counts are worse, too: work that is no longer counted looks like work saved"},
        {"all", SET_AT(struct arguments, all), .doc = "Show every trial, not only those that changed"},
        {"by", TEXT_AT(struct arguments, by), .arg = "KEY",
         .doc = "Compare trials, of one file or of two together, that differ in this key alone: chunk, dtype, "
                "method; or device, a plan with measurements; the first value is BASE (default: two files are "
                "compared by id)"},
        {"format", TEXT_AT(struct arguments, format), .arg = "text|markdown|junit|json",
         .doc = "Output for people, for a pull request's comment, as XML test results, or as JSON (default: text)"},
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
