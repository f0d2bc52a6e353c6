#include "harness/results/comparison_rows.h"
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
    bool measured = trial->time.verdict != TIME_NOT_MEASURED;
    return measured && (all || trial->time.regression || trial->time.open);
}

// Changed bits are worth a line by themselves where nothing explains them but the program.
static bool bits_shown(const struct trial_comparison *trial, bool all)
{
    return trial->bits.changed && (all || !trial->bits.causes);
}

bool comparison_trial_shown(const struct trial_comparison *trial, bool all)
{
    return all || trial->change != CHANGE_NONE || bits_shown(trial, all);
}

// A row while it is put into words.
struct draft {
    const char *change, *subject;
    bool failure, open;
    const struct trial_comparison *trial;
    char what[360], base[48], new[48], note[480];
};

static struct draft draft_of(const struct comparison_rows *rows, const struct trial_comparison *trial,
                             const char *change, const char *subject)
{
    struct draft draft = {.change = change, .subject = subject, .trial = trial};
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
    rows->rows[rows->count++] = (struct comparison_row){.change = draft->change,
                                                        .failure = draft->failure,
                                                        .open = draft->open,
                                                        .trial = draft->trial,
                                                        .what = kept(rows, draft->what),
                                                        .subject = kept(rows, draft->subject),
                                                        .base = kept(rows, draft->base),
                                                        .new = kept(rows, draft->new),
                                                        .note = kept(rows, draft->note)};
}

// --- a trial

static void add_status(struct comparison_rows *rows, const struct trial_comparison *trial)
{
    struct draft draft = draft_of(rows, trial, change_name(trial->status), "status"), *row = &draft;
    row->failure = trial->status == CHANGE_WORSE;
    row->open = trial->status == CHANGE_LOST;
    snprintf(row->base, sizeof row->base, "%s", trial->base ? record_status_name(trial->base->status) : "-");
    snprintf(row->new, sizeof row->new, "%s", trial->new ? record_status_name(trial->new->status) : "-");
    const char *reason = trial->new ? text_or(trial->new->reason, "") : "", *side = "";
    if (!trial->new)
        side = "only in BASE";
    else if (!trial->base)
        side = "only in NEW";
    else if (record_one_is_planned(trial->base, trial->new) && record_one_is_limited(trial->base, trial->new))
        side = "one has a limit that the other has not";
    snprintf(row->note, sizeof row->note, "%s%s%.160s", side, *side && *reason ? ": " : "", reason);
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
    struct draft draft = draft_of(rows, trial, change_name(change->change), change->name), *row = &draft;
    bool bytes = quantity_is_bytes(change->name), known = isfinite(change->base) && isfinite(change->new);
    row->failure = change->change == CHANGE_WORSE;
    row->open = change->change == CHANGE_LOST;
    write_values(row, change, bytes);
    if (known && bytes) {
        char difference[32];
        write_value(fabs(change->new - change->base), true, 0, difference, sizeof difference);
        text_append(row->note, sizeof row->note, "%c%s", change->new < change->base ? '-' : '+', difference);
    }
    if (known && change->base > 0)
        text_append(row->note, sizeof row->note, "%s%+.3g %%", *row->note ? ", " : "",
                    100 * (change->new / change->base - 1));
    if (*change->allowance)
        text_append(row->note, sizeof row->note, "%slet pass by --allow %s", *row->note ? ", " : "",
                    change->allowance);
    add(rows, row);
}

static void add_bits(struct comparison_rows *rows, const struct trial_comparison *trial)
{
    struct draft draft = draft_of(rows, trial, "bits", "gradient bits"), *row = &draft;
    snprintf(row->note, sizeof row->note, "changed in %zu of %zu tensors, first in %.200s", trial->bits.changed,
             trial->bits.tensors, trial->bits.first);
    add(rows, row);
}

static void append_ratio(struct draft *row, struct shift ratio)
{
    text_append(row->note, sizeof row->note, "x%.3f [%.3f, %.3f]", ratio.estimate, ratio.low, ratio.high);
}

static const char *time_word(enum time_verdict verdict, bool open)
{
    return open ? "slower?" : time_verdict_name(verdict);
}

static void add_time(struct comparison_rows *rows, const struct trial_comparison *trial)
{
    const struct time_trial *time = &trial->time;
    struct draft draft = draft_of(rows, trial, time_word(time->verdict, time->open), "time"), *row = &draft;
    row->failure = time->regression;
    row->open = time->open;
    if (time->judged) {
        snprintf(row->base, sizeof row->base, "%.4g ms", time_samples_middle(time->base));
        snprintf(row->new, sizeof row->new, "%.4g ms", time_samples_middle(time->new));
        if (trial->time.processor_time)
            text_append(row->note, sizeof row->note, "of the processors, %s",
                        time->base.rounds ? "round by round, " : "");
        if (time->base.draws)
            text_append(row->note, sizeof row->note, "mean of %zu draws, ", time->base.draws);
        append_ratio(row, time->ratio);
        text_append(row->note, sizeof row->note, ", p %.2g, for so many trials %.2g", time->p, time->p_holm);
    } else {
        text_append(row->note, sizeof row->note, "of %zu and %zu samples", time->base.count, time->new.count);
    }
    text_append(row->note, sizeof row->note, "%s%s", *time->reason ? ": " : "", time->reason);
    add(rows, row);
}

static void add_same(struct comparison_rows *rows, const struct trial_comparison *trial)
{
    struct draft draft = draft_of(rows, trial, "same", record_status_name(trial->new->status));
    add(rows, &draft);
}

static void add_trial(struct comparison_rows *rows, const struct trial_comparison *trial, bool all)
{
    if (trial->status != CHANGE_NONE)
        add_status(rows, trial);
    for (size_t i = 0; i < trial->change_count; i++)
        add_quantity(rows, trial, &trial->changes[i]);
    if (bits_shown(trial, all))
        add_bits(rows, trial);
    if (time_shown(trial, all))
        add_time(rows, trial);
    else if (all && trial->change == CHANGE_NONE && !trial->bits.changed)
        add_same(rows, trial);
}

// --- groups of trials

static void add_group(struct comparison_rows *rows, const struct time_group *group)
{
    bool open = group->open || (group->verdict == TIME_SLOWER && !group->regression);
    struct draft draft = draft_of(rows, NULL, time_word(group->verdict, open), "time"), *row = &draft;
    row->failure = group->regression;
    row->open = open;
    snprintf(row->what, sizeof row->what, "%s%s%s", group->axis < 0 ? "" : comparison_axis_names[group->axis],
             group->axis < 0 ? "" : " ", group->name);
    append_ratio(row, group->ratio);
    text_append(row->note, sizeof row->note, " over %zu trials", group->trials);
    add(rows, row);
}

void comparison_rows_make(struct comparison_rows *rows, const struct comparison *comparison, bool all)
{
    const struct time_change *time = &comparison->time;
    *rows = (struct comparison_rows){.comparison = comparison};
    for (size_t i = 0; i < comparison->count; i++)
        if (comparison_trial_shown(&comparison->trials[i], all))
            add_trial(rows, &comparison->trials[i], all);
    for (size_t i = 0; i < time->group_count; i++) {
        const struct time_group *group = &time->groups[i];
        if (all || group->regression || group->open || group->verdict == TIME_FASTER)
            add_group(rows, group);
    }
    if (time->judged)
        add_group(rows, &time->all);
}

void comparison_rows_free(struct comparison_rows *rows)
{
    interned_free(&rows->words);
    free(rows->rows);
    *rows = (struct comparison_rows){0};
}
