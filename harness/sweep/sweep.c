#include "harness/sweep/sweep.h"
#include "harness/machine/environment.h"
#include "harness/machine/exit_code.h"
#include "harness/process/child.h"
#include "harness/process/launch.h"
#include "harness/record/record_read.h"
#include "harness/record/result_log.h"
#include "harness/report/record_table_report.h"
#include "harness/step/model_hash.h"
#include "harness/step/ranks.h"
#include "harness/step/step_data.h"
#include "harness/sweep/trial_child.h"
#include "harness/text/text.h"
#include "harness/trial/reference_store.h"
#include "harness/trial/trial_record.h"
#include "kernels/base/random.h"
#include <string.h>
#include <unistd.h>

// --- whether any trial can be measured here at all

#define PROBE_SECONDS 60

// The latest probe, reused because trials of one device are adjacent.
struct probe {
    char device[TRIAL_DEVICE_BYTES];
    enum dtype dtype;
    bool there, interrupted;
    struct status why;
};

// Runs the smallest trial that opens the device. Only an unavailable device counts as a failure.
static bool ask(struct probe *probe)
{
    json_t *trial = json_pack("{s:s, s:s, s:s, s:i, s:s, s:{s:i, s:i, s:s}}", "model", "tiny", "dtype",
                              dtype_name(probe->dtype), "device", probe->device, "context", 2, "method", "null",
                              "measure", "warmup", 0, "samples", 1, "gradient", "none");
    char *json = json_dumps(trial, JSON_COMPACT);
    struct child_result result = {0};
    struct status ignored = {0};
    struct record record;
    int signals = child_signals_open(&ignored);
    bool run = signals >= 0 && child_run(NULL, NULL, json, -1, PROBE_SECONDS, signals, &result, &ignored);
    struct interned interned = {0};
    bool read =
        run && result.line && record_read(&record, result.line, strlen(result.line), &interned, "record", &ignored);
    bool there = !read || record.status != RECORD_UNSUPPORTED;
    if (!there)
        status_set(&probe->why, STATUS_BAD_INPUT, "%s", text_or(record.reason, ""));
    probe->interrupted = result.interrupted;
    interned_free(&interned);
    child_result_free(&result);
    child_signals_close(signals);
    free(json);
    json_decref(trial);
    return there;
}

static bool has_device(struct probe *probe, const struct trial *trial)
{
    bool asked = strcmp(probe->device, trial->device) == 0 && probe->dtype == trial->dtype;
    if (trial->planned || strcmp(trial->device, "cpu") == 0)
        return true;
    if (!asked) {
        *probe = (struct probe){.dtype = trial->dtype};
        snprintf(probe->device, sizeof probe->device, "%s", trial->device);
        probe->there = ask(probe);
    }
    return probe->there;
}

static bool is_possible(struct probe *probe, const struct trial *trial, const char *words, struct status *why)
{
    if (trial->unsupported)
        return status_set(why, STATUS_BAD_INPUT, "%s", trial->unsupported);
    if (!has_device(probe, trial)) {
        *why = probe->why;
        return false;
    }
    if (trial_ranks(trial) == 1 || trial->planned)
        return true;
    struct launch launch = {0};
    bool possible = ranks_launch_open(&launch, trial, NULL, ranks_of_trial, words, why);
    launch_close(&launch);
    return possible;
}

// Returns false and the first trial's reason if no trial can be measured: its device or the launcher of its ranks
// is missing. Each device is probed in a process of its own. launch: starts a trial's ranks (launch.h); NULL:
// mpirun. interrupted: a signal came; then returns false without a status.
static bool sweep_possible(const struct spec *spec, const char *launch, bool *interrupted, struct status *status)
{
    struct probe probe = {0};
    struct status first = {0};
    bool possible = false;
    for (size_t i = 0; !possible && !probe.interrupted && i < spec->trial_count; i++) {
        struct trial trial;
        struct status why = {0};
        possible = !spec_trial(spec, i, &trial, &why) || is_possible(&probe, &trial, launch, &why);
        if (!possible && first.code == STATUS_OK)
            first = why;
        trial_free(&trial);
    }
    *interrupted = probe.interrupted;
    if (probe.interrupted)
        return false;
    return possible || spec->trial_count == 0 ||
           status_set(status, STATUS_BAD_INPUT, "none of the %zu trials can be measured here: %.900s",
                      spec->trial_count, first.message);
}

// --- the table that a sweep ends with

#define ROWS_MAX 200

// Its place among the spec's trials; their count: it is none of them.
static size_t place_of(const struct spec *spec, const struct record *record)
{
    size_t i = 0;
    while (i < spec->trial_count && strcmp(spec->trials[i].id, record->id) != 0)
        i++;
    return i;
}

static bool is_wanted(void *spec, const struct record *record)
{
    return place_of(spec, record) < ((const struct spec *)spec)->trial_count;
}

// In the spec's order, those of one trial as they were.
static void sort_records(const struct spec *spec, struct result_file *file)
{
    struct record *sorted = calloc(file->count + 1, sizeof *sorted);
    size_t *places = calloc(file->count + 1, sizeof *places), n = 0;
    for (size_t i = 0; i < file->count; i++)
        places[i] = place_of(spec, &file->records[i]);
    for (size_t place = 0; place < spec->trial_count; place++)
        for (size_t i = 0; i < file->count; i++)
            if (places[i] == place)
                sorted[n++] = file->records[i];
    free(places);
    free(file->records);
    file->records = sorted;
}

// Writes a table of the spec's trials that have records in the result file, in the spec's order, with the last
// record of each. If it would be too long, names the command that shows it. Keeps only the shown records in memory.
// Returns false and a status if the file cannot be read.
static bool sweep_table_write(const struct spec *spec, const char *path, FILE *stream, struct status *status)
{
    if (spec->trial_count > ROWS_MAX) {
        fprintf(stream, "%zu trials; longbp report %s shows them\n", spec->trial_count, path);
        return true;
    }
    const struct record_table_request request = {0};
    struct result_file file;
    struct results results;
    bool fine = result_file_read_some(&file, path, is_wanted, (void *)spec, status);
    sort_records(spec, &file);
    result_file_warn(&file);
    results_begin(&results, false);
    results_add(&results, &file);
    fine = fine && record_table_report(&request, &results, stream, status);
    results_close(&results);
    return fine;
}

// A trial's process ends its samples itself at max_seconds; this much later it hangs.
#define GRACE_SECONDS 1

// --- one trial

// Writes the failure record of a trial whose process wrote none.
static void write_failure(struct sweep_trial *outcome, const struct trial *trial, enum record_status status,
                          const char *reason, double wall_s)
{
    struct record record;
    struct provenance provenance;
    trial_record_open(&record, trial);
    record.status = outcome->status = status;
    record.reason = reason;
    record.wall_s = wall_s;
    provenance_take(&provenance);
    provenance.clock_mhz_after = provenance.clock_mhz_before;
    outcome->line = trial_record_line(&record, &provenance);
}

static void write_failure_of_child(struct sweep_trial *outcome, const struct trial *trial,
                                   struct child_result *child)
{
    enum record_status status = child->end == CHILD_TIMEOUT ? RECORD_TIMEOUT
                                : child->end == CHILD_OOM   ? RECORD_OOM
                                                            : RECORD_CRASH;
    if (child->end == CHILD_RECORD)
        snprintf(child->reason, sizeof child->reason, "ended with something that is not its record: %.200s",
                 child->line);
    if (child->end == CHILD_TIMEOUT)
        snprintf(child->reason, sizeof child->reason, "did not end within max_seconds, %g%s%s",
                 trial->measure.max_seconds, *child->blame ? ": " : "", child->blame);
    write_failure(outcome, trial, status, child->reason, child->wall_s);
}

// Takes the record that the trial's process wrote, if it is complete and its own.
static bool take_record(struct sweep_trial *outcome, const struct trial *trial, struct child_result *child)
{
    struct record record;
    struct interned interned = {0};
    struct status none = {0};
    bool own = child->end == CHILD_RECORD &&
               record_read(&record, child->line, strlen(child->line), &interned, "record", &none) &&
               strcmp(record.id, trial->id) == 0;
    if (own) {
        outcome->status = record.status;
        outcome->line = child->line;
        child->line = NULL;
    }
    interned_free(&interned);
    return own;
}

bool sweep_trial(const struct spec *spec, const struct trial *trial, size_t round, const char *program,
                 const char *launch_words, const char *rerun, int store, int signals, struct sweep_trial *outcome,
                 struct status *status)
{
    struct child_result result = {0};
    struct launch launch = {0};
    struct status why = {0};
    struct trial own = *trial; // borrowed, with the rerun command and round added
    double limit_s = trial->measure.max_seconds;
    bool several = trial_ranks(trial) > 1 && !trial->planned, started = true;
    char *command = text_new("%s --trial %s", rerun, trial->id);
    own.experiment = spec->experiment;
    own.command = command;
    own.round = round;
    *outcome = (struct sweep_trial){0};
    if (trial->unsupported) {
        write_failure(outcome, &own, RECORD_UNSUPPORTED, trial->unsupported, 0);
    } else if (several && !ranks_launch_open(&launch, trial, program, ranks_of_trial, launch_words, &why)) {
        write_failure(outcome, &own, why.code == STATUS_UNSUPPORTED ? RECORD_UNSUPPORTED : RECORD_FAILED,
                      why.message, 0);
    } else {
        char *input = trial_child_input(&own);
        started = child_run(program, several ? &launch : NULL, input, store,
                            limit_s > 0 ? limit_s + GRACE_SECONDS : 0, signals, &result, status);
        if (started && !take_record(outcome, &own, &result) && result.end != CHILD_INTERRUPTED)
            write_failure_of_child(outcome, &own, &result);
        free(input);
    }
    launch_close(&launch);
    outcome->interrupted = result.interrupted;
    free(command);
    child_result_free(&result);
    return started;
}

// --- the sweep

// One build of the program and the file its records go to.
struct side {
    const char *program; // NULL: this one
    struct result_log log;
    bool any_ok; // one of the spec's trials has a record that is ok
    size_t bad;  // trials that failed or crashed in an earlier run and are not measured again
};

struct sweep {
    const struct spec *spec;
    const struct sweep_options *options;
    struct side sides[2]; // this build and the other one
    size_t side_count;
    size_t *order;  // [trial_count], of the current round
    int references; // descriptor of the reference store, for this build's processes
    int signals;
    struct progress progress;
    bool interrupted;
};

// The rounds in the file when it was opened.
static size_t rounds_done(const struct sweep *sweep, struct side *side, size_t trial)
{
    struct result_id found = result_ids_find(&side->log.existing, sweep->spec->trials[trial].id);
    size_t done = sweep->options->retry ? found.ok : found.records;
    return done < sweep->options->rounds ? done : sweep->options->rounds;
}

static size_t trials_left(struct sweep *sweep)
{
    size_t left = 0;
    for (size_t s = 0; s < sweep->side_count; s++)
        for (size_t i = 0; i < sweep->spec->trial_count; i++)
            left += sweep->options->rounds - rounds_done(sweep, &sweep->sides[s], i);
    return left;
}

// The first round uses the spec's order, in which records are shown. Each later round has its own order
// (Fisher-Yates), so that drift within a round does not always hit the same trials or neighbours alike.
static void set_order(struct sweep *sweep, size_t round)
{
    struct random random = random_named(round, "rounds");
    for (size_t i = 0; i < sweep->spec->trial_count; i++) {
        size_t j = round > 0 ? random_below(&random, i, i + 1) : i;
        sweep->order[i] = sweep->order[j];
        sweep->order[j] = i;
    }
}

// Returns false if the trial could not be run or written, or a signal came.
static bool run_trial(struct sweep *sweep, struct side *side, const struct trial *trial, size_t round,
                      struct status *status)
{
    struct sweep_trial outcome = {0};
    sweep->interrupted = child_signals_interrupted(sweep->signals);
    if (sweep->interrupted)
        return false;
    progress_begin(&sweep->progress, trial, side->program);
    bool running =
        sweep_trial(sweep->spec, trial, round + 1, side->program, sweep->options->launch, sweep->options->rerun,
                    side->program ? -1 : sweep->references, sweep->signals, &outcome, status) &&
        (!outcome.line || result_log_append(&side->log, outcome.line, status));
    side->any_ok |= running && outcome.line && outcome.status == RECORD_OK;
    if (running && outcome.line)
        progress_end(&sweep->progress, trial, side->program, outcome.status, outcome.line);
    sweep->interrupted = outcome.interrupted;
    free(outcome.line);
    return running && !outcome.interrupted;
}

// Decodes the trial again, which is cheap compared with starting its process.
static bool run_trial_at(struct sweep *sweep, struct side *side, size_t index, size_t round, struct status *status)
{
    struct trial trial;
    bool running = spec_trial(sweep->spec, index, &trial, status) && run_trial(sweep, side, &trial, round, status);
    trial_free(&trial);
    return running;
}

// The trial's processes on this machine: one for a plan; a user's launcher may spread ranks over machines.
static size_t process_count(const struct sweep *sweep, size_t index)
{
    struct trial trial;
    struct status ignored = {0};
    size_t count = 1;
    if (sweep->options->launch)
        return count;
    if (spec_trial(sweep->spec, index, &trial, &ignored) && !trial.planned)
        count = trial_ranks(&trial);
    trial_free(&trial);
    return count;
}

// The sides alternate in going first.
static bool run_round(struct sweep *sweep, size_t round, struct status *status)
{
    bool running = true;
    for (size_t i = 0; i < sweep->spec->trial_count && running; i++) {
        size_t trial = sweep->order[i];
        environment_choose_spins(process_count(sweep, trial)); // the same for both sides
        for (size_t turn = 0; turn < sweep->side_count && running; turn++) {
            struct side *side = &sweep->sides[(turn + round + i) % sweep->side_count];
            if (rounds_done(sweep, side, trial) <= round)
                running = run_trial_at(sweep, side, trial, round, status);
        }
    }
    return running;
}

// Runs what is left, until one trial cannot be run or written, or a signal comes.
static bool run_rounds(struct sweep *sweep, struct status *status)
{
    sweep->signals = child_signals_open(status);
    bool running = sweep->signals >= 0;
    for (size_t round = 0; round < sweep->options->rounds && running; round++) {
        set_order(sweep, round);
        running = run_round(sweep, round, status);
    }
    progress_clear(&sweep->progress);
    child_signals_close(sweep->signals);
    return status->code == STATUS_OK;
}

// "r.jsonl and o.jsonl"
static void name_results(const struct sweep *sweep, char *text, size_t bytes)
{
    const char *other = sweep->side_count > 1 ? sweep->options->against_out : "";
    snprintf(text, bytes, "%s%s%s", sweep->options->out, *other ? " and " : "", other);
}

// Checks that the files still hold what was written.
static bool results_kept(const struct sweep *sweep, struct status *status)
{
    bool kept = true;
    for (size_t s = 0; s < sweep->side_count; s++)
        kept = result_log_kept(&sweep->sides[s].log, status) && kept;
    return kept;
}

// Tells whether each build has an ok trial, and prints a message if not.
static bool any_ok(const struct sweep *sweep)
{
    bool all = true;
    for (size_t s = 0; s < sweep->side_count; s++) {
        if (sweep->sides[s].any_ok)
            continue;
        fprintf(stderr, "%s: none of the %zu trials is ok: %s tells why of each, --retry measures them again\n",
                sweep->spec->experiment, sweep->spec->trial_count, sweep->sides[s].log.path);
        all = false;
    }
    return all;
}

// Tells whether no trial failed or crashed in an earlier run, and prints a message if one did.
static bool none_bad(const struct sweep *sweep)
{
    bool none = true;
    for (size_t s = 0; s < sweep->side_count; s++) {
        if (sweep->sides[s].bad == 0)
            continue;
        fprintf(stderr,
                "%s: %zu of the %zu trials failed or crashed before: %s tells why of each, --retry measures them "
                "again\n",
                sweep->spec->experiment, sweep->sides[s].bad, sweep->spec->trial_count, sweep->sides[s].log.path);
        none = false;
    }
    return none;
}

// Runs the trials that are left and prints the outcome. Returns the exit code.
static int run_trials(struct sweep *sweep, size_t left, struct status *status)
{
    const char *name = sweep->spec->experiment;
    const struct progress *progress = &sweep->progress;
    char counts[160], results[1024];
    name_results(sweep, results, sizeof results);
    progress_open(&sweep->progress, sweep->spec, left, sweep->options->detail);
    bool fine = run_rounds(sweep, status), lost = fine && !results_kept(sweep, status);
    progress_counts(progress, counts, sizeof counts);
    if (sweep->options->detail != PROGRESS_QUIET)
        fprintf(stderr, "%s: %zu of %zu trials done%s%s%s%s\n", name, progress->done, left, *counts ? ": " : "",
                counts, lost ? "" : "; results in ", lost ? "" : results);
    if (progress->done < left)
        fprintf(stderr, "%s: stopped; the same command again does the other %zu\n", name, left - progress->done);
    if (!fine)
        return EXIT_BAD_INPUT;
    if (lost)
        return EXIT_CHECK_FAILED;
    if (sweep->interrupted)
        return EXIT_INTERRUPTED;
    bool bad = progress->counts[RECORD_FAILED] || progress->counts[RECORD_CRASH];
    return any_ok(sweep) && none_bad(sweep) && !bad ? EXIT_FINE : EXIT_CHECK_FAILED;
}

// Caches hashes of model folders by name, so that each folder is read once.
static uint64_t hash_of_model(json_t *known, const struct trial *trial)
{
    char *key = text_new("%s\n%s\n%s\n%d", trial->model_folder ? trial->model_folder : "",
                         trial->adapter_folder ? trial->adapter_folder : "",
                         trial->reference.folder ? trial->reference.folder : "", trial->planned);
    json_t *kept = json_object_get(known, key);
    uint64_t hash = kept ? (uint64_t)json_integer_value(kept) : model_hash(trial);
    if (!kept)
        CHECK(json_object_set_new(known, key, json_integer((json_int_t)hash)) == 0);
    free(key);
    return hash;
}

static uint64_t hash_of_data(const struct trial *trial)
{
    struct batch_data data = {0};
    struct status unread = {0};
    uint64_t hash = step_data_read(&data, trial, &unread) ? step_data_hash(&data, trial) : 0;
    batch_data_free(&data);
    return hash;
}

// Checks that the trial's inputs are those that its records in the file read. Otherwise records would stand for
// other data or another model. Unreadable inputs are left to the trial to report.
static bool check_inputs(const struct sweep *sweep, const struct side *side, size_t at,
                         const struct result_id *recorded, json_t *models, struct status *status)
{
    static const char remedy[] = "--fresh measures all trials anew, another --out leaves the file as it is";
    struct trial trial;
    struct status unread = {0};
    bool fine = true, decoded = spec_trial(sweep->spec, at, &trial, &unread) && !trial.unsupported;
    uint64_t data = decoded && recorded->data_hash ? hash_of_data(&trial) : 0;
    uint64_t model = decoded && recorded->model_hash ? hash_of_model(models, &trial) : 0;
    if (data && data != recorded->data_hash)
        fine = status_set(status, STATUS_BAD_INPUT,
                          "%s: trial %s was measured on other data: %s has changed since (or its labels); %s",
                          side->log.path, trial.id, trial.data.path, remedy);
    else if (model && model != recorded->model_hash)
        fine =
            status_set(status, STATUS_BAD_INPUT,
                       "%s: trial %s was measured with another model: %s has changed since (or an adapter, or the "
                       "reference model); %s",
                       side->log.path, trial.id,
                       trial.model_folder     ? trial.model_folder
                       : trial.adapter_folder ? trial.adapter_folder
                                              : trial.reference.folder,
                       remedy);
    trial_free(&trial);
    return fine;
}

// Looks up the spec's trials in the side's file.
static bool look_up(struct sweep *sweep, struct side *side, struct status *status)
{
    bool fine = true;
    json_t *models = json_object();
    side->any_ok = false;
    side->bad = 0;
    for (size_t i = 0; fine && i < sweep->spec->trial_count; i++) {
        struct result_id found = result_ids_find(&side->log.existing, sweep->spec->trials[i].id);
        side->any_ok |= found.ok > 0;
        side->bad += found.bad > 0 && found.ok < sweep->options->rounds && !sweep->options->retry;
        fine = !(found.data_hash || found.model_hash) || check_inputs(sweep, side, i, &found, models, status);
    }
    json_decref(models);
    return fine;
}

// Prepares the files before the first trial. A sweep that can measure nothing here moves no file and creates none.
static int begin(struct sweep *sweep, struct status *status)
{
    if (!sweep_possible(sweep->spec, sweep->options->launch, &sweep->interrupted, status)) {
        for (size_t s = 0; s < sweep->side_count; s++)
            result_log_abandon(&sweep->sides[s].log);
        if (sweep->interrupted)
            fprintf(stderr, "%s: stopped before the first trial\n", sweep->spec->experiment);
        return sweep->interrupted ? EXIT_INTERRUPTED : EXIT_BAD_INPUT;
    }
    for (size_t s = 0; s < sweep->side_count; s++) {
        struct side *side = &sweep->sides[s];
        bool moved = side->log.moves;
        if (!result_log_begin(&side->log, status) || (moved && !look_up(sweep, side, status)))
            return EXIT_BAD_INPUT;
    }
    return EXIT_FINE;
}

static int run_what_is_left(struct sweep *sweep, struct status *status)
{
    const char *name = sweep->spec->experiment;
    size_t all = sweep->spec->trial_count * sweep->options->rounds * sweep->side_count, left = trials_left(sweep);
    char rounds[40] = "", results[1024];
    if (sweep->options->rounds > 1)
        snprintf(rounds, sizeof rounds, " in %zu rounds", sweep->options->rounds);
    if (left > 0) {
        int code = begin(sweep, status);
        if (code != EXIT_FINE)
            return code;
        left = trials_left(sweep); // another sweep may have run meanwhile
    }
    if (left == 0) {
        name_results(sweep, results, sizeof results);
        if (sweep->options->detail != PROGRESS_QUIET)
            fprintf(stderr,
                    "%s: nothing left to do: %s %s all %zu trials%s; --fresh or another --out measures them anew\n",
                    name, results, sweep->side_count > 1 ? "have" : "has", all, rounds);
        return any_ok(sweep) && none_bad(sweep) ? EXIT_FINE : EXIT_CHECK_FAILED;
    }
    if (left < all && sweep->options->detail != PROGRESS_QUIET)
        fprintf(stderr, "%s: %zu of %zu trials%s are left to do\n", name, left, all, rounds);
    return run_trials(sweep, left, status);
}

// Writes the tables of each build whose records can be read.
static bool write_tables(const struct sweep *sweep, struct status *status)
{
    bool fine = true;
    for (size_t s = 0; fine && s < sweep->side_count; s++) {
        if (!sweep->sides[s].log.regular)
            continue;
        if (sweep->side_count > 1)
            printf("%s%s\n\n", s ? "\n" : "", sweep->sides[s].log.path);
        fine = sweep_table_write(sweep->spec, sweep->sides[s].log.path, stdout, status);
    }
    return fine;
}

int sweep_run(const struct spec *spec, const struct sweep_options *options, struct status *status)
{
    struct sweep sweep = {.spec = spec, .options = options, .sides = {{0}, {.program = options->against}}};
    const char *const outs[] = {options->out, options->against_out};
    sweep.references = reference_store_open();
    sweep.order = calloc(spec->trial_count + 1, sizeof *sweep.order);
    bool open = true;
    while (open && sweep.side_count < (options->against ? 2 : 1)) {
        struct side *side = &sweep.sides[sweep.side_count];
        open = result_log_open(&side->log, outs[sweep.side_count], options->fresh, status) &&
               look_up(&sweep, side, status);
        sweep.side_count++;
    }
    int code = open ? run_what_is_left(&sweep, status) : EXIT_BAD_INPUT;
    if (open && status->code == STATUS_OK && !sweep.interrupted && !write_tables(&sweep, status))
        code = EXIT_BAD_INPUT;
    for (size_t s = 0; s < sweep.side_count; s++)
        result_log_close(&sweep.sides[s].log);
    if (sweep.references >= 0)
        close(sweep.references);
    free(sweep.order);
    return code;
}
