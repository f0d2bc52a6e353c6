#include "harness/sweep/dry_run.h"
#include "harness/plan/predicted_trial.h"
#include "harness/record/result_file.h"
#include "harness/spec/trial_text.h"
#include "harness/table/text_table.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

#define REASONS_MAX 8

struct total {
    size_t trials, unsupported, oom, timed, of_no_card;
    double seconds;  // warm-up and samples of all trials with a known step time
    json_t *reasons; // reasons of unsupported trials, with their counts
};

static void add_row(struct text_table *table, const struct trial *trial, const struct spec *spec, const char *peak,
                    const char *seconds)
{
    char what[512];
    trial_text(trial, spec, what, sizeof what);
    text_table_row(table, (const char *const[]){what, peak, seconds, NULL});
}

static size_t steps_of(const struct trial *trial)
{
    return trial->train.steps ? trial->train.steps * trial->train.accumulate
                              : trial->measure.warmup + trial->measure.samples;
}

static void add_trial(struct text_table *table, const struct trial *trial, const struct spec *spec,
                      struct total *total)
{
    struct predicted_trial predicted = trial_predict(trial);
    struct predicted_words words = predicted_words(&predicted);
    total->trials++;
    total->unsupported += predicted.outcome == PREDICTED_UNSUPPORTED;
    if (*predicted.reason) {
        json_int_t before = json_integer_value(json_object_get(total->reasons, predicted.reason));
        json_object_set_new(total->reasons, predicted.reason, json_integer(before + 1));
    }
    total->oom += predicted.outcome == PREDICTED_OOM;
    total->of_no_card += !trial->profile && trial_is_of_card(trial);
    if (isfinite(predicted.step_seconds)) {
        total->seconds += trial->planned ? 0 : predicted.step_seconds * (double)steps_of(trial);
        total->timed++;
    }
    add_row(table, trial, spec, words.peak, words.step);
}

struct done {
    json_t *ids;
    bool ok_alone; // trials that did not end ok are measured again
};

static bool note_id(void *visitor, const struct result_line *line, struct status *status)
{
    (void)status;
    const struct done *done = visitor;
    if (!done->ok_alone || line->record->status == RECORD_OK)
        json_object_set_new(done->ids, line->record->id, json_true());
    return true;
}

// Ids of the records in the file, a new reference; NULL and a status if the file is invalid.
static json_t *ids_of(const char *out, bool ok_alone, struct status *status)
{
    struct result_file file = {0};
    struct done done = {json_object(), ok_alone};
    bool fine = access(out, F_OK) != 0 || result_file_scan(&file, out, note_id, &done, status);
    result_file_close(&file);
    if (fine)
        return done.ids;
    json_decref(done.ids);
    return NULL;
}

static void write_total(const struct total *total, size_t done, FILE *stream)
{
    fprintf(stream, "%zu trials to measure, %zu done", total->trials, done);
    if (total->oom)
        fprintf(stream, "; %zu would run out of memory", total->oom);
    if (total->unsupported)
        fprintf(stream, "; %zu are unsupported", total->unsupported);
    if (total->timed)
        fprintf(stream, "; about %.3g s of steps in %zu of them, predicted", total->seconds, total->timed);
    else if (total->trials)
        fprintf(stream, "; how long steps take is predicted by a profile (--profile, longbp calibrate)");
    fputc('\n', stream);
    if (total->of_no_card)
        fprintf(stream,
                "peaks of %zu on cuda are those of no card in particular: they follow from a card's number of "
                "multiprocessors; plan with --profile NAME\n",
                total->of_no_card);
}

// Writes the first few reasons.
static void write_reasons(const struct total *total, FILE *stream)
{
    size_t written = 0, more = 0;
    const char *reason;
    json_t *count;
    json_object_foreach(total->reasons, reason, count)
    {
        if (written < REASONS_MAX)
            fprintf(stream, "unsupported, %lld: %s\n", (long long)json_integer_value(count), reason);
        more += written++ >= REASONS_MAX;
    }
    if (more)
        fprintf(stream, "and %zu more reasons, which --list has\n", more);
}

bool dry_run_write(const struct spec *spec, const char *out, bool retry, FILE *stream, struct status *status)
{
    json_t *ids = ids_of(out, retry, status);
    struct text_table table = {0};
    struct total total = {.reasons = json_object()};
    bool fine = ids;
    text_table_row(&table, (const char *const[]){"trial", "peak, at most", "a step", NULL});
    for (size_t i = 0; fine && i < spec->trial_count; i++) {
        struct trial trial;
        if (json_object_get(ids, spec->trials[i].id))
            continue;
        fine = spec_trial(spec, i, &trial, status);
        if (fine)
            add_trial(&table, &trial, spec, &total);
        trial_free(&trial);
    }
    if (fine && total.trials)
        text_table_print(&table, TABLE_TEXT, stream);
    if (fine)
        write_total(&total, spec->trial_count - total.trials, stream);
    if (fine)
        write_reasons(&total, stream);
    text_table_free(&table);
    json_decref(total.reasons);
    json_decref(ids);
    return fine;
}
