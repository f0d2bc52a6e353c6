// Command: `longbp run`, measures or lists an experiment's trials, or measures one of them again.
#include "harness/command/compare_files.h"
#include "harness/files/program_output.h"
#include "harness/options/arguments.h"
#include "harness/options/command.h"
#include "harness/options/flags.h"
#include "harness/options/shell.h"
#include "harness/options/spec_doubts.h"
#include "harness/plan/predicted_trial.h"
#include "harness/process/child.h"
#include "harness/record/result_file.h"
#include "harness/spec/trial_text.h"
#include "harness/sweep/dry_run.h"
#include "harness/sweep/sweep.h"
#include "harness/text/size.h"
#include "harness/text/text.h"
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct arguments {
    const char *spec, *out, *device, *trial, *against, *against_out;
    const char *memory_limit, *host_memory, *launch;
    const char **axes; // of --axis; limits and --profile are added as axes
    size_t axis_count;
    size_t rounds;
    enum progress_detail detail;
    bool list, dry_run, fresh, retry, compare, json;
};

static const struct flag flags[] = {
    {"out", .flags = OPTION_FIRST, .key = 'o', TEXT_AT(struct arguments, out), .arg = "FILE",
     .doc = "result file (results/EXPERIMENT.jsonl)"},
    {"axis", .flags = OPTION_FIRST, .key = 'a', .arg = "KEY=VALUE,VALUE",
     .doc = "these values of a key; repeatable (the spec's)"},
    {"device", .flags = OPTION_FIRST, .key = 'd', TEXT_AT(struct arguments, device), .arg = "DEVICE",
     .doc = "device that trials run on (as the spec says)"},
    {"memory-limit", .flags = OPTION_FIRST, .key = 'm', TEXT_AT(struct arguments, memory_limit), .arg = "SIZE",
     .doc =
         "memory limit of the device, such as 24GiB or 24G, the same, or 80GB (as the spec says, or what is free)"},
    {"host-memory", .key = 'M', TEXT_AT(struct arguments, host_memory), .arg = "SIZE",
     .doc = "limit of memory kept on the host (as the spec says, or what is free)"},
    {"profile", .flags = OPTION_FIRST, .key = 'p', .arg = "PROFILE|FILE",
     .doc = "estimate a step's time by this device profile (the spec's, or none)"},
    {"parallel", .key = 'P', .arg = "data=N,...",
     .doc = "ranks that share a step, one process each (the spec's, or one)"},
    {"launch", .key = 'L', TEXT_AT(struct arguments, launch), .arg = "LAUNCHER",
     .doc = "launcher of a trial's ranks, such as \"srun -n {ranks}\" (mpirun, on this machine)"},
    {"list", .flags = OPTION_FIRST, .key = 'l', SET_AT(struct arguments, list),
     .doc = "print all trials with their ids and planned memory and time, and measure nothing"},
    {"dry-run", .flags = OPTION_FIRST, .key = 'y', SET_AT(struct arguments, dry_run),
     .doc = "print the trials that are left with their planned memory and time, and measure nothing"},
    {"trial", .key = 'c', TEXT_AT(struct arguments, trial), .arg = "ID",
     .doc = "measure only the trial with this id, or prefix of one, and print its record (all)"},
    {"fresh", .key = 'f', SET_AT(struct arguments, fresh),
     .doc = "measure every trial; the old results move to FILE.bak, or FILE.bak.2 and so on to keep other trials"},
    {"retry", .flags = OPTION_FIRST, .key = 'r', SET_AT(struct arguments, retry),
     .doc = "measure trials again that did not end ok"},
    {"rounds", .flags = OPTION_FIRST, .key = 'n', COUNT_AT(struct arguments, rounds, 1, RECORD_ROUNDS_MAX),
     .arg = "N",
     .doc = "measure the trials in N rounds, with a record each: `longbp compare` needs rounds to judge times (1)"},
    {"against", .key = 'g', TEXT_AT(struct arguments, against), .arg = "PROGRAM",
     .doc = "also measure another build's longbp, alternating trial by trial (none)"},
    {"against-out", .key = 'b', TEXT_AT(struct arguments, against_out), .arg = "FILE",
     .doc = "result file of the other build (that of --out, with -against before .jsonl)"},
    {"compare", .key = 'x', SET_AT(struct arguments, compare),
     .doc = "finally compare this build with the other, as `longbp compare`, with its exit status"},
    {"quiet", .flags = OPTION_FIRST, .key = 'q', VALUE_AT(struct arguments, detail, PROGRESS_QUIET),
     .doc = "print on stderr only trials that fail or whose gradient is undecided"},
    {"verbose", .key = 'v', VALUE_AT(struct arguments, detail, PROGRESS_VERBOSE),
     .doc = "print when each trial begins, its id, and full reasons of failures"},
    {"json", .key = 'j', SET_AT(struct arguments, json), .doc = "with --list: one JSON object per line"},
    {OPERANDS, TEXT_AT(struct arguments, spec), .doc = "name the experiment's file"},
    {0}};

static void add_axis(struct arguments *arguments, char *axis)
{
    arguments->axes = realloc(arguments->axes, (arguments->axis_count + 1) * sizeof *arguments->axes);
    arguments->axes[arguments->axis_count++] = axis;
}

// Adds a key with one value, which may contain commas.
static void add_key(struct arguments *arguments, const char *key, json_t *value)
{
    if (!value)
        value = json_string("(not UTF-8)");
    char *json = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    add_axis(arguments, text_new("%s=%s", key, json));
    free(json);
    json_decref(value);
}

static void check_size(const struct argp_state *state, const char *flag, const char *text)
{
    size_t bytes;
    if (text && !size_parse(text, &bytes))
        argp_error(state, "%s: expected %s, found \"%s\"", flag, size_expected(text), text);
}

static void check_out(const struct argp_state *state, const char *flag, const char *path)
{
    if (path && strcmp(path, "-") == 0)
        argp_error(state,
                   "%s -: results need a file, from which a stopped run resumes; use /dev/stdout for a pipe, or "
                   "./- for a file of that name",
                   flag);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case 'a':
        add_axis(arguments, strdup(text));
        return 0;
    case 'p':
        add_key(arguments, "profile", json_string(text));
        return 0;
    case 'P':
        add_key(arguments, "parallel", flag_object(text));
        return 0;
    case ARGP_KEY_END:
        check_size(state, "--memory-limit", arguments->memory_limit);
        check_size(state, "--host-memory", arguments->host_memory);
        if (arguments->memory_limit || arguments->host_memory)
            add_key(arguments, "limits",
                    json_pack("{s:s?, s:s?}", "memory", arguments->memory_limit, "host_memory",
                              arguments->host_memory));
        check_out(state, "--out", arguments->out);
        check_out(state, "--against-out", arguments->against_out);
        if (arguments->json && !arguments->list)
            argp_error(state, "--json is of --list; records are lines of JSON, and `longbp report --format json` "
                              "has them as one array");
        if (!arguments->against && (arguments->against_out || arguments->compare))
            argp_error(state, "--against-out and --compare are of another build: name it by --against PROGRAM");
        if (arguments->list && arguments->against)
            argp_error(state, "--list measures nothing: --against and --compare do not go with it");
        if (arguments->dry_run && (arguments->list || arguments->trial || arguments->fresh ||
                                   arguments->rounds > 1 || arguments->against))
            argp_error(state, "--dry-run lists the trials that are left; it cannot be combined with --list, "
                              "--trial, --fresh, --rounds or --against");
        if (arguments->trial && (arguments->list || arguments->out || arguments->fresh || arguments->retry ||
                                 arguments->rounds > 1 || arguments->against))
            argp_error(state, "--trial prints one record; it cannot be combined with --out, --list, --fresh, "
                              "--retry, --rounds or --against");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

// The command that finds the same trials again.
static char *rerun_command(const struct arguments *arguments)
{
    char *command = NULL;
    shell_append(&command, "longbp");
    shell_append(&command, "run");
    shell_append(&command, arguments->spec);
    for (size_t i = 0; i < arguments->axis_count; i++)
        shell_append_flag(&command, "axis", arguments->axes[i]);
    if (arguments->device)
        shell_append_flag(&command, "device", arguments->device);
    return command;
}

// A number of JSON.
static void list_number(const char *key, double value)
{
    printf(isfinite(value) ? ",\"%s\":%.15g" : ",\"%s\":null", key, value);
}

// Lists a trial with its plan, as far as it is known in advance.
static void list_trial(const struct trial *trial, const char *what, bool json)
{
    struct predicted_trial predicted = trial_predict(trial);
    struct predicted_words words = predicted_words(&predicted);
    if (json) {
        printf("{\"id\":\"%s\",\"trial\":%s", trial->id, trial->canonical);
        list_number("peak_bytes", predicted.peak_bytes);
        list_number("step_ms", 1e3 * predicted.step_seconds);
        printf("}\n");
        return;
    }
    bool failing = predicted.outcome != PREDICTED_OK && predicted.outcome != PREDICTED_UNKNOWN;
    printf("%s  %s", trial->id, what);
    if (isfinite(predicted.peak_bytes) || failing)
        printf("; %s", words.peak);
    if (isfinite(predicted.step_seconds))
        printf(", a step %s", words.step);
    printf("%s%s\n", *predicted.reason ? ": " : "", predicted.reason);
}

static bool list_trials(const struct spec *spec, bool json, struct status *status)
{
    bool listed = true;
    for (size_t i = 0; listed && i < spec->trial_count; i++) {
        struct trial trial;
        char what[512];
        listed = spec_trial(spec, i, &trial, status);
        if (listed)
            trial_text(&trial, spec, what, sizeof what);
        if (listed)
            list_trial(&trial, what, json);
        trial_free(&trial);
    }
    return listed;
}

// Finds the trial whose id has this prefix, because reports shorten ids.
static bool find_trial(const struct spec *spec, const char *id, size_t *index, struct status *status)
{
    enum { NAMED_MAX = 4 };
    size_t found = 0, bytes = strlen(id), used = 0;
    char ids[NAMED_MAX * sizeof spec->trials->id + 16] = "";
    for (size_t i = 0; i < spec->trial_count && bytes; i++) {
        if (strncmp(spec->trials[i].id, id, bytes) != 0)
            continue;
        if (found++ == 0)
            *index = i;
        if (found <= NAMED_MAX)
            used += (size_t)snprintf(ids + used, sizeof ids - used, "%s%s", used ? ", " : "", spec->trials[i].id);
    }
    if (found == 0)
        return status_set(status, STATUS_BAD_INPUT, "no trial %s in experiment %s; --list shows its trials", id,
                          spec->experiment);
    return found == 1 ||
           status_set(status, STATUS_BAD_INPUT, "%zu trials' ids begin with %s: %s%s; give more of one", found, id,
                      ids, found > NAMED_MAX ? ", ..." : "");
}

static int print_trial(const struct spec *spec, const char *id, const char *launch, const char *rerun,
                       struct status *status)
{
    size_t index = 0;
    struct trial trial;
    if (!find_trial(spec, id, &index, status))
        return EXIT_BAD_INPUT;
    int signals = child_signals_open(status);
    struct sweep_trial outcome = {0};
    int code = EXIT_BAD_INPUT;
    bool decoded = spec_trial(spec, index, &trial, status);
    if (signals >= 0 && decoded &&
        sweep_trial(spec, &trial, 0, NULL, launch, rerun, -1, signals, &outcome, status)) {
        code = !outcome.line ? EXIT_INTERRUPTED : outcome.status == RECORD_OK ? EXIT_FINE : EXIT_CHECK_FAILED;
        if (outcome.line)
            printf("%s\n", outcome.line);
        free(outcome.line);
    }
    trial_free(&trial);
    child_signals_close(signals);
    return code;
}

// Tells whether the program identifies itself as longbp.
static bool is_longbp(const char *path)
{
    char *name, version[16] = "";
    name = text_new("%s%s", strchr(path, '/') ? "" : "./", path);
    char *arguments[] = {name, "--version", NULL};
    pid_t child;
    FILE *said = program_output_open(&child, arguments);
    bool read = said && fgets(version, sizeof version, said);
    if (said)
        program_output_close(said, child);
    free(name);
    return read && strncmp(version, "longbp ", 7) == 0;
}

static bool is_program(const char *path, struct status *status)
{
    struct stat file;
    bool found = stat(path, &file) == 0;
    if (found && S_ISREG(file.st_mode) && access(path, X_OK) == 0)
        return is_longbp(path) || status_set(status, STATUS_BAD_INPUT,
                                             "--against %s: not a longbp, by its answer to --version; give the "
                                             "path of another build's longbp",
                                             path);
    return status_set(status, STATUS_BAD_INPUT, "--against %s: %s; give the path of another build's longbp", path,
                      found && !S_ISREG(file.st_mode) ? "not a program" : strerror(errno));
}

// The other build's result file, to be freed: "r-against.jsonl" beside "r.jsonl".
static char *against_beside(const char *out)
{
    static const char end[] = ".jsonl";
    size_t bytes = strlen(out), kept = bytes;
    if (bytes > strlen(end) && strcmp(out + bytes - strlen(end), end) == 0)
        kept = bytes - strlen(end);
    return text_new("%.*s-against%s", (int)kept, out, out + kept);
}

// Runs the sweep and, if it succeeds, compares the two builds' results.
static int measure(const struct spec *spec, const struct sweep_options *options, bool compare,
                   struct status *status)
{
    const struct comparison_options comparison = {.threshold = TIME_THRESHOLD};
    int code = sweep_run(spec, options, status);
    if (!compare || code != EXIT_FINE)
        return code;
    putchar('\n');
    const char *const paths[] = {options->against_out, options->out};
    return compare_files(paths, 2, NULL, &comparison, COMPARISON_TEXT, false, status);
}

static bool is_record(void *visitor, const struct result_line *line, struct status *status)
{
    (void)line;
    (void)status;
    *(bool *)visitor = true;
    return false; // the first message is enough
}

static bool are_results(const char *path)
{
    struct result_file file = {0};
    struct status ignored = {0};
    bool any = false;
    result_file_scan(&file, path, is_record, &any, &ignored);
    result_file_close(&file);
    return any;
}

static bool load(struct spec *spec, const char *path, const struct spec_changes *changes, struct status *status)
{
    struct status why = {0};
    if (spec_load(spec, path, changes, &why))
        return true;
    if (are_results(path))
        return status_set(
            status, STATUS_BAD_INPUT,
            "%s: is a result file, not the spec of an experiment; `longbp report`, `plot` and `compare` read it",
            path);
    *status = why;
    return false;
}

static int run(const struct arguments *arguments, struct status *status)
{
    struct spec spec = {0};
    struct spec_changes changes = {
        .axes = arguments->axes, .axis_count = arguments->axis_count, .device = arguments->device};
    int code = EXIT_BAD_INPUT;
    char *out = NULL, *against_out = NULL, *rerun = rerun_command(arguments);
    const char *started = getenv("OMPI_COMM_WORLD_SIZE");
    if (started && strtoul(started, NULL, 10) > 1) {
        status_set(status, STATUS_BAD_INPUT,
                   "this is one of %s processes of an MPI job; start longbp run once, without MPI: it starts the "
                   "ranks itself",
                   started);
        goto cleanup;
    }
    if (!load(&spec, arguments->spec, &changes, status))
        goto cleanup;
    if (!arguments->json)
        spec_doubts_say_cards(&spec);
    if (spec.left_out && !arguments->json)
        fprintf(stderr,
                "longbp: %zu method entries are of another framework's step, and left out with this device\n",
                spec.left_out);
    out = text_new("results/%s.jsonl", spec.experiment);
    against_out = against_beside(arguments->out ? arguments->out : out);
    struct sweep_options options = {.out = arguments->out ? arguments->out : out,
                                    .rerun = rerun,
                                    .launch = arguments->launch,
                                    .detail = arguments->detail,
                                    .rounds = arguments->rounds,
                                    .against = arguments->against,
                                    .against_out = arguments->against_out ? arguments->against_out : against_out,
                                    .fresh = arguments->fresh,
                                    .retry = arguments->retry};
    if (arguments->against && !is_program(arguments->against, status)) {
        code = EXIT_BAD_INPUT;
    } else if (arguments->list) {
        code = list_trials(&spec, arguments->json, status) ? EXIT_FINE : EXIT_BAD_INPUT;
    } else if (arguments->dry_run) {
        code = dry_run_write(&spec, options.out, options.retry, stdout, status) ? EXIT_FINE : EXIT_BAD_INPUT;
    } else if (arguments->trial) {
        spec_doubts_say(&spec);
        code = print_trial(&spec, arguments->trial, arguments->launch, rerun, status);
    } else {
        spec_doubts_say(&spec);
        code = measure(&spec, &options, arguments->compare, status);
    }
cleanup:
    spec_free(&spec);
    free(rerun);
    free(out);
    free(against_out);
    return code;
}

int command_run(int argc, char **argv)
{
    static const struct argp argp = {
        .parser = parse,
        .args_doc = "SPEC",
        .doc = "Measures every trial of an experiment, each in its own process, and appends one line of JSON per "
               "trial. Trials that the result file already has are skipped, so a run that was stopped resumes. "
               "Ends with a table of all trials; `longbp report` makes others.\vExit status: 0 measured, also if "
               "some trials ran out of memory or time; 1 a gradient was wrong, a trial crashed, no trial is ok, or "
               "the results were removed meanwhile; 2 wrong use, a bad file, an output that cannot be written, or "
               "no trial that this machine can measure; 130 interrupted. With --compare also 1 if this build is "
               "worse and 3 if undecided."};
    struct arguments arguments = {.rounds = 1};
    struct status status = {0};
    arguments_parse(&argp, flags, argc, argv, &arguments);
    int code = run(&arguments, &status);
    command_end(argv[0], &status);
    for (size_t i = 0; i < arguments.axis_count; i++)
        free((char *)arguments.axes[i]);
    free(arguments.axes);
    return code;
}
