#define _GNU_SOURCE // asprintf
#include "harness/run/sweep.h"
#include "harness/results/result_log.h"
#include "harness/run/child.h"
#include "harness/run/exit_code.h"
#include "harness/run/record_line.h"
#include <string.h>
#include <unistd.h>

// A cell's process ends its samples by itself before max_seconds; this much later it is not going to.
#define GRACE_SECONDS 1

// The record of a cell whose process could not write one.
static char *obituary(const struct cell *cell, const struct child_result *result)
{
    struct record *record = calloc(1, sizeof *record);
    CHECK(record);
    record->cell = cell;
    record->status = result->end == CHILD_TIMEOUT      ? RECORD_TIMEOUT
                     : result->end == CHILD_OOM_KILLED ? RECORD_OOM
                                                       : RECORD_CRASH;
    snprintf(record->reason, sizeof record->reason, "%s", result->reason);
    if (result->end == CHILD_TIMEOUT)
        snprintf(record->reason, sizeof record->reason, "did not end within max_seconds, %g",
                 cell->measure.max_seconds);
    provenance_take(&record->provenance);
    record->provenance.clock_mhz_after = record->provenance.clock_mhz_before;
    record->wall_s = result->wall_s;
    char *line = record_line(record);
    free(record);
    return line;
}

bool sweep_cell(const struct spec *spec, const struct cell *cell, const char *rerun, int signals,
                struct sweep_cell *outcome, struct status *status)
{
    struct child_result result;
    char *command;
    double limit_s = cell->measure.max_seconds;
    *outcome = (struct sweep_cell){0};
    if (!child_run(cell->canonical, limit_s > 0 ? limit_s + GRACE_SECONDS : 0, signals, &result, status))
        return false;
    CHECK(asprintf(&command, "%s --cell %s", rerun, cell->id) > 0);
    if (result.end == CHILD_RECORD)
        outcome->line = record_complete(result.line, cell->id, spec->experiment, command, &outcome->status);
    if (!outcome->line && result.end != CHILD_INTERRUPTED) {
        if (result.end == CHILD_RECORD)
            snprintf(result.reason, sizeof result.reason, "ended with something that is not its record: %.200s",
                     result.line);
        char *own = obituary(cell, &result);
        outcome->line = record_complete(own, cell->id, spec->experiment, command, &outcome->status);
        CHECK(outcome->line);
        free(own);
    }
    outcome->interrupted = result.interrupted;
    free(command);
    child_result_free(&result);
    return true;
}

int sweep_exit_code(const size_t counts[RECORD_STATUS_COUNT])
{
    return counts[RECORD_FAILED] || counts[RECORD_CRASH] ? EXIT_CHECK_FAILED : EXIT_FINE;
}

// Rounds that the file already had of a cell when it was opened.
static size_t rounds_done(const struct result_log *log, const struct cell *cell,
                          const struct sweep_options *options)
{
    size_t done = result_file_count(&log->existing, cell->id, options->retry);
    return done < options->rounds ? done : options->rounds;
}

// Runs one round's cells, those that are left, until one cannot be run or written, or a signal comes.
static bool run_round(const struct spec *spec, const struct sweep_options *options, struct result_log *log,
                      size_t round, struct progress *progress, int signals, bool *interrupted,
                      struct status *status)
{
    bool running = true;
    for (size_t i = 0; i < spec->cell_count && running; i++) {
        const struct cell *cell = &spec->cells[i];
        struct sweep_cell outcome = {0};
        if (rounds_done(log, cell, options) > round)
            continue;
        if ((*interrupted = child_signals_interrupted(signals)))
            break;
        progress_begin(progress, cell);
        running = sweep_cell(spec, cell, options->rerun, signals, &outcome, status) &&
                  (!outcome.line || result_log_append(log, outcome.line, status));
        if (running && outcome.line)
            progress_end(progress, cell, outcome.status, outcome.line);
        *interrupted = outcome.interrupted;
        running = running && !outcome.interrupted;
        free(outcome.line);
    }
    return running;
}

static bool run_rounds(const struct spec *spec, const struct sweep_options *options, struct result_log *log,
                       struct progress *progress, bool *interrupted, struct status *status)
{
    int signals = child_signals_open(status);
    bool running = signals >= 0;
    for (size_t round = 0; round < options->rounds && running && !*interrupted; round++)
        running = run_round(spec, options, log, round, progress, signals, interrupted, status);
    progress_clear(progress);
    if (signals >= 0)
        close(signals);
    return status->code == STATUS_OK;
}

int sweep_run(const struct spec *spec, const struct sweep_options *options, struct status *status)
{
    struct result_log log;
    struct progress progress;
    bool interrupted = false;
    int code = EXIT_BAD_INPUT;
    size_t left = 0, all = spec->cell_count * options->rounds;
    char counts[160], rounds[40] = "";
    if (options->rounds > 1)
        snprintf(rounds, sizeof rounds, " in %zu rounds", options->rounds);
    if (!result_log_open(&log, options->out, options->fresh, status))
        goto cleanup;
    for (size_t i = 0; i < spec->cell_count; i++)
        left += options->rounds - rounds_done(&log, &spec->cells[i], options);
    if (left == 0) {
        fprintf(stderr, "%s: nothing left to do: %s has all %zu cells%s\n", spec->experiment, options->out, all,
                rounds);
        code = EXIT_FINE;
        goto cleanup;
    }
    if (left < all)
        fprintf(stderr, "%s: %zu of %zu cells%s are left to do\n", spec->experiment, left, all, rounds);
    progress_open(&progress, left);
    if (run_rounds(spec, options, &log, &progress, &interrupted, status))
        code = interrupted ? EXIT_INTERRUPTED : sweep_exit_code(progress.counts);
    progress_counts(&progress, counts, sizeof counts);
    fprintf(stderr, "%s: %zu of %zu cells done%s%s; results in %s\n", spec->experiment, progress.done, left,
            *counts ? ": " : "", counts, options->out);
    if (progress.done < left)
        fprintf(stderr, "%s: stopped; the same command again does the other %zu\n", spec->experiment,
                left - progress.done);
cleanup:
    result_log_close(&log);
    return code;
}
