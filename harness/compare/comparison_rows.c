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

// Whether the status alone says something: it changed, or one side has none.
static bool status_shown(const struct trial_comparison *trial)
{
    const struct record *base = trial->statuses[0], *new = trial->statuses[1];
    return trial->status > VERDICT_SAME || !base || !new || base->status != new->status;
}

bool comparison_trial_shown(const struct trial_comparison *trial, bool all)
{
    return all || trial->verdict > VERDICT_SAME || any_told(trial) || status_shown(trial) || bits_shown(trial, all);
}

static struct comparison_row row_of(const struct comparison *comparison, const struct trial_comparison *trial,
                                    enum verdict verdict, const char *subject)
{
    struct comparison_row row = {
        .verdict = verdict, .word = verdict_name(verdict), .subject = subject, .trial = trial};
    if (trial)
        snprintf(row.what, sizeof row.what, "%s", comparison_name(comparison, trial).text);
    return row;
}

// The reader of the rows, and how many it has read.
struct writing {
    const struct comparison *comparison;
    const struct comparison_reader *reader;
    size_t count;
};

static void add(struct writing *to, const struct comparison_row *row)
{
    to->reader->read(row, to->reader->data);
    to->count++;
}

// --- a trial

// "ok", or "crash in 1 of 3 rounds".
static void write_status(const struct trial_comparison *trial, size_t side, char *text, size_t size)
{
    const struct record_list *rounds = &trial->rounds[side];
    const struct record *worst = trial->statuses[side];
    size_t alike = 0;
    for (size_t i = 0; i < rounds->count; i++)
        alike += worst && rounds->records[i]->status == worst->status;
    snprintf(text, size, "%s", worst ? record_status_name(worst->status) : "-");
    if (alike < rounds->count)
        text_append(text, size, " in %zu of %zu rounds", alike, rounds->count);
}

static void add_status(struct writing *to, const struct trial_comparison *trial)
{
    struct comparison_row words = row_of(to->comparison, trial, trial->status, "status"), *row = &words;
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
    add(to, row);
}

static void add_inputs(struct writing *to, const struct trial_comparison *trial)
{
    struct comparison_row words = row_of(to->comparison, trial, VERDICT_CHANGED, "inputs"), *row = &words;
    bool data = record_same_data(trial->base, trial->new), model = record_same_model(trial->base, trial->new);
    snprintf(row->note, sizeof row->note, "%s (%s), nothing else is judged",
             data && model ? "a round read other data or another model"
             : data        ? "another model"
             : model       ? "other data"
                           : "other data and another model",
             data    ? "model_hash"
             : model ? "data_hash"
                     : "data_hash, model_hash");
    add(to, row);
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

// A value that is no count gets as many digits as tell the two apart.
static void write_values(struct comparison_row *row, const struct quantity_change *change, bool bytes)
{
    int digits = 4;
    do {
        write_value(change->base, bytes, digits, row->base, sizeof row->base);
        write_value(change->new, bytes, digits, row->new, sizeof row->new);
    } while (strcmp(row->base, row->new) == 0 && digits++ < DBL_DECIMAL_DIG);
}

static void add_quantity(struct writing *to, const struct trial_comparison *trial,
                         const struct quantity_change *change)
{
    struct comparison_row words = row_of(to->comparison, trial, change->verdict, change->name), *row = &words;
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
    add(to, row);
}

static void add_bits(struct writing *to, const struct trial_comparison *trial)
{
    struct comparison_row words = row_of(to->comparison, trial, VERDICT_NONE, "gradient bits"), *row = &words;
    row->word = "bits";
    snprintf(row->note, sizeof row->note, "changed in %zu of %zu tensors, first in %.200s", trial->bits.changed,
             trial->bits.tensors, trial->bits.first);
    add(to, row);
}

static void append_ratio(struct comparison_row *row, struct shift ratio)
{
    text_append(row->note, sizeof row->note, "x%.3f", ratio.estimate);
    if (isfinite(ratio.high))
        text_append(row->note, sizeof row->note, " [%.3f, %.3f]", ratio.low, ratio.high);
}

static void add_time(struct writing *to, const struct trial_comparison *trial)
{
    const struct time_trial *time = &trial->time;
    struct comparison_row words = row_of(to->comparison, trial, time->verdict, "time"), *row = &words;
    if (time->rounds && !time->unusable) {
        snprintf(row->base, sizeof row->base, "%.4g ms", exp(sample_quantile(trial->times.base, time->rounds, 0)));
        snprintf(row->new, sizeof row->new, "%.4g ms", exp(sample_quantile(trial->times.new, time->rounds, 0)));
        if (trial->times.processor_time)
            text_append(row->note, sizeof row->note, "of the processors, ");
        append_ratio(row, time->ratio);
        text_append(row->note, sizeof row->note, ", %zu round%s", time->rounds, time->rounds == 1 ? "" : "s");
    }
    text_append(row->note, sizeof row->note, "%s%s", *row->note && *time->reason ? ": " : "", time->reason);
    add(to, row);
}

static void add_same(struct writing *to, const struct trial_comparison *trial)
{
    struct comparison_row words =
        row_of(to->comparison, trial, trial->verdict, record_status_name(trial->new->status));
    add(to, &words);
}

void comparison_read_trial(const struct comparison *comparison, const struct trial_comparison *trial, bool all,
                           const struct comparison_reader *reader)
{
    struct writing to = {.comparison = comparison, .reader = reader};
    if (status_shown(trial))
        add_status(&to, trial);
    if (trial->inputs == VERDICT_CHANGED)
        add_inputs(&to, trial);
    for (size_t i = 0; i < trial->changes.count; i++)
        add_quantity(&to, trial, &trial->changes.items[i]);
    if (bits_shown(trial, all))
        add_bits(&to, trial);
    if (time_shown(trial, all))
        add_time(&to, trial);
    if (!to.count)
        add_same(&to, trial);
}

// --- groups of trials

static void add_group(struct writing *to, const struct time_group *group)
{
    struct comparison_row words = row_of(to->comparison, NULL, group->verdict, "time"), *row = &words;
    snprintf(row->what, sizeof row->what, "%s%s%s", group->axis < 0 ? "" : comparison_axis_names[group->axis],
             group->axis < 0 ? "" : " ", group->name);
    append_ratio(row, group->ratio);
    text_append(row->note, sizeof row->note, " over %zu trial%s", group->trials, group->trials == 1 ? "" : "s");
    add(to, row);
}

void comparison_read_groups(const struct comparison *comparison, bool all, const struct comparison_reader *reader)
{
    const struct time_change *time = &comparison->time;
    struct writing to = {.comparison = comparison, .reader = reader};
    for (size_t i = 0; i < time->group_count; i++)
        if (all || time->groups[i].verdict > VERDICT_SAME)
            add_group(&to, &time->groups[i]);
    if (time->judged)
        add_group(&to, &time->all);
}

void comparison_read(const struct comparison *comparison, bool all, const struct comparison_reader *reader)
{
    for (size_t i = 0; i < comparison->count; i++)
        if (comparison_trial_shown(&comparison->trials[i], all))
            comparison_read_trial(comparison, &comparison->trials[i], all, reader);
    comparison_read_groups(comparison, all, reader);
}
