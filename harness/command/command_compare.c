// Command: `longbp compare`, whether anything became worse from one result file to another.
#include "harness/command/arguments.h"
#include "harness/command/command.h"
#include "harness/command/compare_files.h"
#include "harness/results/comparison_by.h"
#include <string.h>

enum { OPTION_THRESHOLD = 256, OPTION_FORMAT };

struct arguments {
    const char *paths[2];
    size_t path_count;
    struct comparison_options options;
    const char *by; // NULL: of two files the trials of the same id
    enum comparison_format format;
    bool all;
};

// "5%" or "0.05".
static double read_threshold(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    bool percent = strcmp(end, "%") == 0;
    bool digits = *text && strspn(text, "0123456789.") == (size_t)(end - text) && (percent || !*end);
    return digits ? value / (percent ? 100 : 1) : 0;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    struct status status = {0};
    switch (key) {
    case 'a':
        if (!quantity_allow(arguments->options.rules.allowances, value, &status))
            argp_error(state, "%s", status.message);
        return 0;
    case OPTION_THRESHOLD:
        arguments->options.threshold = read_threshold(value);
        if (!(arguments->options.threshold > 0 && arguments->options.threshold <= 1))
            argp_error(state, "--threshold: expected a share above 0 and up to 100%%, such as 7%%, found \"%s\"",
                       value);
        return 0;
    case OPTION_FORMAT:
        arguments->format = comparison_format_find(value);
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->path_count == 2)
            argp_error(state, "two result files are compared; \"%s\" is a third", value);
        arguments->paths[arguments->path_count++] = value;
        return 0;
    case ARGP_KEY_END:
        if (arguments->by && arguments->path_count == 0)
            argp_error(state, "--by holds the settings of one or two result files against each other; name them");
        if (!arguments->by && arguments->path_count < 2)
            argp_error(state, "name two result files, BASE and NEW");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int exit_code(enum comparison_verdict verdict)
{
    return verdict == COMPARISON_REGRESSION    ? EXIT_CHECK_FAILED
           : verdict == COMPARISON_CANNOT_TELL ? EXIT_UNDECIDED
                                               : EXIT_FINE;
}

int compare_files(const char *base_path, const char *new_path, const struct comparison_options *options,
                  enum comparison_format format, bool all, struct status *status)
{
    struct result_file base = {0}, new = {0};
    struct titled_comparison item = {0};
    int code = EXIT_BAD_INPUT;
    if (result_file_read(&base, base_path, status) && result_file_read(&new, new_path, status) &&
        comparison_make(&item.comparison, &base, &new, options, status)) {
        code = exit_code(item.comparison.verdict);
        result_file_warn(&base);
        result_file_warn(&new);
        comparison_write(&item, 1, format, all, stdout);
    }
    comparison_free(&item.comparison);
    result_file_close(&new);
    result_file_close(&base);
    return code;
}

// A regression counts before what cannot be told, and that before what is fine.
static int worse_code(int a, int b)
{
    return a == EXIT_CHECK_FAILED || b == EXIT_CHECK_FAILED ? EXIT_CHECK_FAILED
           : a == EXIT_UNDECIDED || b == EXIT_UNDECIDED     ? EXIT_UNDECIDED
                                                            : EXIT_FINE;
}

static int compare_settings(const struct arguments *arguments, struct status *status)
{
    struct result_file files[2] = {0};
    struct line_set lines = {0};
    struct comparison_by by = {0};
    size_t count = arguments->path_count;
    bool fine = true;
    int code = EXIT_BAD_INPUT;
    for (size_t i = 0; fine && i < count; i++)
        fine = result_file_read_next(&files[i], arguments->paths[i], &lines, status);
    if (fine && comparison_by_make(&by, files, count, arguments->by, &arguments->options, status)) {
        code = EXIT_FINE;
        for (size_t i = 0; i < count; i++)
            result_file_warn(&files[i]);
        for (size_t i = 0; i < by.count; i++)
            code = worse_code(code, exit_code(by.items[i].comparison.verdict));
        comparison_write(by.items, by.count, arguments->format, arguments->all, stdout);
    }
    comparison_by_free(&by);
    for (size_t i = 0; i < count; i++)
        result_file_close(&files[i]);
    line_set_free(&lines);
    return code;
}

static const char help[] =
    "Compares two result files trial by trial, by id: did anything become worse?\n\n"
    "Status: ok that became anything else is worse. Bytes and counts (peak_bytes, each part of peak_by_category, "
    "flops, bytes_moved, launches, host_peak_bytes, link_out_bytes, link_in_bytes) must be equal; less is better, "
    "more is worse, unless --allow says how much is "
    "fine. So with the processor's instructions, if both files counted them on one kind of processor with as many "
    "threads: more by 3 % than before, for threads that wait retire some. Gradient errors may grow by twice the "
    "noise floor, of which rounding every result once is the least. "
    "The loss of a step is of the same data and weights: more or less by twice that floor, as a share of it, is "
    "worse, and so is a loss that is no longer finite. Of a training run the losses that it ends with are "
    "compared, "
    "last_loss (the mean over its last quarter of steps) and held_out_loss (of what it evaluated last): more is "
    "worse, less is better. "
    "Gradients whose bits changed are named, and change "
    "no "
    "verdict, for another order of a sum is no fault; where processor, card, BLAS, compiler, flags or threads are "
    "not the same they are counted alone. A card's are compared if the trial is `deterministic`. Times are "
    "compared "
    "by a rank test per trial, and over all trials, methods, contexts and dtypes, for a machine is never as quiet "
    "as one trial's samples look.\v"
    "A ratio of times, new / base, counts as slower if its 95 % interval lies above 1 and the ratio above 1 + "
    "threshold; as the same if it is within the threshold. All trials that are slower are a regression; a part of "
    "them must besides stand out from the others, and a single trial among many must do so in two rounds, and "
    "where rounds differ much in more, for otherwise it was the machine.\n\n"
    "For times that can be trusted, measure the two builds in turn and in rounds: `longbp run SPEC --rounds 3 "
    "--against OTHER-BUILD --compare`, which ends with this comparison. Machines drift, and what disturbs them "
    "adds time, "
    "and comes and goes. The last record of a trial counts for all else; samples of all its records of the "
    "same revision and machine are pooled, of lines that are the same byte for byte once, and of several rounds "
    "the faster half counts. Five samples of a "
    "trial in a round are enough where there are many trials, ten or more where there are few; below four in "
    "all nothing can be told.\n\n"
    "Of samples that other programs disturbed, processor times are compared, where both files have them and "
    "threads do "
    "not spin while they wait (record fields cpu_ms, provenance.spin_count): what a step waits for is not in "
    "them, and several threads that are slower by the clock alone leave it undecided. Where both files have as "
    "many rounds of a trial, round is held against round: what the processors' speed does from one to the next it "
    "does to both builds. Threads that spin are not compared to threads that do not: of these two the one that "
    "more rounds of both files have counts, and how many are left out is said.\n\n"
    "A method that draws its columns walks the same draws in both files, and a sample is held against those of "
    "its draw; the faster half is that of each draw. Six draws of a trial in one round or five in three are the "
    "least.\n\n"
    "Two training runs that learn as well do not end at one loss: rounding in another order grows over steps, and "
    "other draws are other noise. So last_loss and held_out_loss are worse or better beyond twice the standard "
    "error "
    "of the difference of two such means, by how much the loss scatters from step to step over the last quarter, "
    "of "
    "two runs of one trial in the steadier; --allow last_loss=2% lets more pass. Where a run repeats bit for bit "
    "(the CPU, or a trial that is `deterministic`, with nothing but the program changed), a smaller change is "
    "listed, too, as otherwise changed. Losses of other data (data_hash) or another objective are otherwise "
    "changed, "
    "and so is a step's loss under another setting (--by).\n\n"
    "Bytes, counts, the loss of a step and the gradient error of a method that draws its columns are of one draw, "
    "draw 0. Where its columns are not the same in both records, as under another sampler, budget or sampler_seed, "
    "they are otherwise changed, neither better nor worse; in two files, where the same seed drew other columns, "
    "that "
    "leaves the verdict undecided. How many pairs that are is said at the end. Biases and the losses of training "
    "runs are of many draws, and "
    "judged; so are times, where sample by sample as many columns were drawn.\n\n"
    "Trials that were ok in BASE and are missing in NEW leave it undecided. Of trials that NEW alone has, one that "
    "crashed, failed (as with a wrong gradient) or ran out of time is worse; one that is ok, oom or unsupported is "
    "not. "
    "--deterministic is for BASE files from other machines: it leaves the times out, and a trial that was ok and "
    "ran out of time is undecided. --exact is for bytes and counts that nobody meant to change: less is worse, "
    "too, for work that "
    "is "
    "no longer counted looks like work that was saved; if it was, record BASE anew.\n\n"
    "--by KEY pairs the trials of one file, or of two files together, that differ in that key alone, the first of "
    "its values with each of the others: what is called worse there is what a setting costs.\n\n"
    "--by device MEASURED PLANNED holds a plan (plan-cpu, plan-cuda) against what was measured. These two "
    "may differ besides in profile, links and measure, and in a limit of memory that one side has none of; "
    "of several records that are the same but for these the last one counts, and oom on one side and ok on the "
    "other is no fault where one has a limit that the other has not. The title names the plan's profile and the "
    "card: a card's number of multiprocessors changes its plan, so plan-cuda wants --profile. Bytes and counts "
    "must be equal, "
    "resident_bytes, model_flops and attention_glue_bytes among them: less is worse, too, for one of the two "
    "is wrong. What a plan has none of is left out: times, losses, gradient errors, what the driver says, "
    "energy; and that a trial crashed, failed, ran out of time or was unsupported there makes no plan "
    "wrong.\n\n"
    "What --allow let pass is listed as such.\n\n"
    "Exit status: 0 same or better, 1 something is worse, 2 wrong use or a bad file (also one with a torn last "
    "line), 3 cannot tell. In junit a trial that is worse is a failure, and a verdict that cannot be told an "
    "error.";

int command_compare(int argc, char **argv)
{
    static const struct flag options[] = {
        {.name = "allow",
         .key = 'a',
         .arg = "LIST",
         .doc = "What may grow, and by how much: peak_bytes=1%,launches=2,bytes_moved=64KiB (default: nothing)"},
        {.name = "threshold",
         .key = OPTION_THRESHOLD,
         .arg = "SHARE",
         .doc = "How far a ratio of times may be off 1 (default: 7%)"},
        {.name = "deterministic", SET_AT(struct arguments, options.deterministic), .doc = "Leave the times out"},
        {.name = "exact",
         SET_AT(struct arguments, options.rules.exact),
         .doc = "Fewer bytes or counts are worse, too: work that is no longer counted looks like work saved"},
        {.name = "all", SET_AT(struct arguments, all), .doc = "Show every trial, not only those that changed"},
        {.name = "by",
         TEXT_AT(struct arguments, by),
         .arg = "KEY",
         .doc = "Of one file, or two together: trials that differ in this key alone, such as chunk, dtype or "
                "method, or device: a plan and what was measured; the first value is BASE (default: two files are "
                "compared by id)"},
        {.name = "format",
         .key = OPTION_FORMAT,
         .arg = "text|markdown|junit|json",
         .doc = "For people, a comment for a pull request, test results as XML, or JSON (default: text)"},
        {0},
    };
    static const struct argp argp = {NULL, parse, "BASE NEW\n--by KEY FILE [FILE]", help, NULL, NULL, NULL};
    struct arguments arguments = {.options = {.threshold = TIME_THRESHOLD}};
    struct status status = {0};
    arguments_parse(&argp, options, argc, argv, &arguments);
    int code = arguments.by ? compare_settings(&arguments, &status)
                            : compare_files(arguments.paths[0], arguments.paths[1], &arguments.options,
                                            arguments.format, arguments.all, &status);
    if (status.code != STATUS_OK)
        fprintf(stderr, "%s: %s\n", argv[0], status.message);
    return code;
}
