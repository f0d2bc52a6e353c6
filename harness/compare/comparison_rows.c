#include "harness/compare/comparison_rows.h"
#include "harness/files/size.h"
#include "harness/files/text.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const comparison_axis_names[TIME_AXES] = {"method", "context", "dtype"};

// Whether a trial's times are worth a line by themselves.
static bool time_shown(const struct trial_comparison *trial, bool all)
{
    enum verdict verdict = trial->time.verdict;
    return verdict >= (all ? VERDICT_SAME : VERDICT_UNDECIDED) || verdict == VERDICT_BETTER;
}

// Changed bits are worth a line by themselves where nothing explains them but the program.
static bool bits_shown(const struct trial_comparison *trial, bool all)
{
    return trial->bits.changed && (all || !trial->bits.causes);
}

static bool any_told(const struct trial_comparison *trial)
{
    bool any = false;
    for (size_t i = 0; i < trial->changes.count; i++)
        any |= trial->changes.items[i].allowed || trial->changes.items[i].news;
    return any;
}

bool comparison_trial_shown(const struct trial_comparison *trial, bool all)
{
    bool alone = !trial->base || !trial->new;
    return all || trial->verdict > VERDICT_SAME || any_told(trial) || alone || bits_shown(trial, all);
}

// A row while it is put into words.
struct draft {
    enum verdict verdict;
    const char *word, *subject;
    const struct trial_comparison *trial;
    char what[360], base[48], new[48], note[480];
};

static struct draft draft_of(const struct comparison_rows *rows, const struct trial_comparison *trial,
                             enum verdict verdict, const char *subject)
{
    struct draft draft = {.verdict = verdict, .word = verdict_name(verdict), .subject = subject, .trial = trial};
    if (trial)
        snprintf(draft.what, sizeof draft.what, "%s", comparison_name(rows->comparison, trial).text);
    return draft;
}

static const char *kept(struct comparison_rows *rows, const char *text)
{
    return interned_text(&rows->words, text, strlen(text));
}

static void add(struct comparison_rows *rows, const struct draft *draft)
{
    if ((rows->count & (rows->count - 1)) == 0) { // room for twice as many
        rows->rows = realloc(rows->rows, (2 * rows->count + 1) * sizeof *rows->rows);
        CHECK(rows->rows);
    }
    rows->rows[rows->count++] = (struct comparison_row){.verdict = draft->verdict,
                                                        .word = draft->word,
                                                        .trial = draft->trial,
                                                        .what = kept(rows, draft->what),
                                                        .subject = kept(rows, draft->subject),
                                                        .base = kept(rows, draft->base),
                                                        .new = kept(rows, draft->new),
                                                        .note = kept(rows, draft->note)};
}

// --- a trial

// "ok", or "crash in 1 of 3 rounds".
static void write_status(const struct trial_comparison *trial, size_t side, char *text, size_t size)
{
    const struct record_list *rounds = &trial->rounds[side];
    const struct record *worst = trial->statuses[side];
    size_t alike = 0;
    for (size_t i = 0; i < rounds->count; i++)
        alike += rounds->records[i]->status == worst->status;
    snprintf(text, size, "%s", worst ? record_status_name(worst->status) : "-");
    if (alike < rounds->count)
        text_append(text, size, " in %zu of %zu rounds", alike, rounds->count);
}

static void add_status(struct comparison_rows *rows, const struct trial_comparison *trial)
{
    struct draft draft = draft_of(rows, trial, trial->status, "status"), *row = &draft;
    const char *reason = trial->statuses[1] ? text_or(trial->statuses[1]->reason, "") : "", *side = "";
    write_status(trial, 0, row->base, sizeof row->base);
    write_status(trial, 1, row->new, sizeof row->new);
    if (!trial->new)
        side = "only in BASE";
    else if (!trial->base)
        side = "only in NEW";
    else if (record_one_is_planned(trial->base, trial->new) && record_one_is_limited(trial->base, trial->new))
        side = "one has a limit that the other has not";
    snprintf(row->note, sizeof row->note, "%s%s%.160s", side, *side && *reason ? ": " : "", reason);
    add(rows, row);
}

// Whether the status alone says something: it changed, or one side has none.
static bool status_shown(const struct trial_comparison *trial)
{
    const struct record *base = trial->statuses[0], *new = trial->statuses[1];
    return trial->status > VERDICT_SAME || !base || !new || base->status != new->status;
}

static void add_inputs(struct comparison_rows *rows, const struct trial_comparison *trial)
{
    struct draft draft = draft_of(rows, trial, VERDICT_CHANGED, "inputs"), *row = &draft;
    bool data = record_same_data(trial->base, trial->new), model = record_same_model(trial->base, trial->new);
    snprintf(row->note, sizeof row->note, "%s (%s), nothing else is judged",
             data && model ? "a round read other data or another model"
             : data        ? "another model"
             : model       ? "other data"
                           : "other data and another model",
             data    ? "model_hash"
             : model ? "data_hash"
                     : "data_hash, model_hash");
    add(rows, row);
}

static void write_value(double value, bool bytes, int digits, char *text, size_t size)
{
    if (isnan(value))
        snprintf(text, size, "unknown");
    else if (isinf(value))
        snprintf(text, size, "not finite");
    else if (bytes && value >= 0)
        size_text((size_t)value, text, size);
    else if (value == floor(value))
        snprintf(text, size, "%.0f", value);
    else
        snprintf(text, size, "%.*g", digits, value);
}

// Of what is no count as many digits as tell the two apart.
static void write_values(struct draft *row, const struct quantity_change *change, bool bytes)
{
    int digits = 4;
    do {
        write_value(change->base, bytes, digits, row->base, sizeof row->base);
        write_value(change->new, bytes, digits, row->new, sizeof row->new);
    } while (strcmp(row->base, row->new) == 0 && digits++ < DBL_DECIMAL_DIG);
}

static void add_quantity(struct comparison_rows *rows, const struct trial_comparison *trial,
                         const struct quantity_change *change)
{
    struct draft draft = draft_of(rows, trial, change->verdict, change->name), *row = &draft;
    bool bytes = quantity_is_bytes(change->name), known = isfinite(change->base) && isfinite(change->new);
    row->word = change->allowed ? "allowed" : change->news ? "only in NEW" : row->word;
    write_values(row, change, bytes);
    if (known && bytes) {
        char difference[32];
        write_value(fabs(change->new - change->base), true, 0, difference, sizeof difference);
        text_append(row->note, sizeof row->note, "%c%s", change->new < change->base ? '-' : '+', difference);
    }
    if (known && change->base > 0)
        text_append(row->note, sizeof row->note, "%s%+.3g %%", *row->note ? ", " : "",
                    100 * (change->new / change->base - 1));
    if (change->allowed)
        text_append(row->note, sizeof row->note, "%slet pass by --allow %s", *row->note ? ", " : "",
                    change->allowed);
    add(rows, row);
}

static void add_bits(struct comparison_rows *rows, const struct trial_comparison *trial)
{
    struct draft draft = draft_of(rows, trial, VERDICT_NONE, "gradient bits"), *row = &draft;
    row->word = "bits";
    snprintf(row->note, sizeof row->note, "changed in %zu of %zu tensors, first in %.200s", trial->bits.changed,
             trial->bits.tensors, trial->bits.first);
    add(rows, row);
}

static void append_ratio(struct draft *row, struct shift ratio)
{
    text_append(row->note, sizeof row->note, "x%.3f", ratio.estimate);
    if (isfinite(ratio.high))
        text_append(row->note, sizeof row->note, " [%.3f, %.3f]", ratio.low, ratio.high);
}

static void add_time(struct comparison_rows *rows, const struct trial_comparison *trial)
{
    const struct time_trial *time = &trial->time;
    struct draft draft = draft_of(rows, trial, time->verdict, "time"), *row = &draft;
    if (time->rounds && !time->unusable) {
        snprintf(row->base, sizeof row->base, "%.4g ms", exp(sample_quantile(trial->times.base, time->rounds, 0)));
        snprintf(row->new, sizeof row->new, "%.4g ms", exp(sample_quantile(trial->times.new, time->rounds, 0)));
        if (trial->times.processor_time)
            text_append(row->note, sizeof row->note, "of the processors, ");
        append_ratio(row, time->ratio);
        text_append(row->note, sizeof row->note, ", %zu round%s", time->rounds, time->rounds == 1 ? "" : "s");
    }
    text_append(row->note, sizeof row->note, "%s%s", *row->note && *time->reason ? ": " : "", time->reason);
    add(rows, row);
}

static void add_same(struct comparison_rows *rows, const struct trial_comparison *trial)
{
    struct draft draft = draft_of(rows, trial, trial->verdict, record_status_name(trial->new->status));
    add(rows, &draft);
}

static void add_trial(struct comparison_rows *rows, const struct trial_comparison *trial, bool all)
{
    size_t before = rows->count;
    if (status_shown(trial))
        add_status(rows, trial);
    if (trial->inputs == VERDICT_CHANGED)
        add_inputs(rows, trial);
    for (size_t i = 0; i < trial->changes.count; i++)
        add_quantity(rows, trial, &trial->changes.items[i]);
    if (bits_shown(trial, all))
        add_bits(rows, trial);
    if (time_shown(trial, all))
        add_time(rows, trial);
    if (rows->count == before)
        add_same(rows, trial);
}

// --- groups of trials

static void add_group(struct comparison_rows *rows, const struct time_group *group)
{
    struct draft draft = draft_of(rows, NULL, group->verdict, "time"), *row = &draft;
    snprintf(row->what, sizeof row->what, "%s%s%s", group->axis < 0 ? "" : comparison_axis_names[group->axis],
             group->axis < 0 ? "" : " ", group->name);
    append_ratio(row, group->ratio);
    text_append(row->note, sizeof row->note, " over %zu trial%s", group->trials, group->trials == 1 ? "" : "s");
    add(rows, row);
}

void comparison_rows_make(struct comparison_rows *rows, const struct comparison *comparison, bool all)
{
    const struct time_change *time = &comparison->time;
    *rows = (struct comparison_rows){.comparison = comparison};
    for (size_t i = 0; i < comparison->count; i++)
        if (comparison_trial_shown(&comparison->trials[i], all))
            add_trial(rows, &comparison->trials[i], all);
    for (size_t i = 0; i < time->group_count; i++)
        if (all || time->groups[i].verdict > VERDICT_SAME)
            add_group(rows, &time->groups[i]);
    if (time->judged)
        add_group(rows, &time->all);
}

void comparison_rows_free(struct comparison_rows *rows)
{
    interned_free(&rows->words);
    free(rows->rows);
    *rows = (struct comparison_rows){0};
}
