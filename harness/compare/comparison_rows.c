#include "harness/compare/comparison_rows.h"
#include "harness/text/size.h"
#include "harness/text/text.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const comparison_axis_names[TIME_AXES] = {"method", "context", "dtype"};

static bool any_told(const struct trial_comparison *trial)
{
    bool any = false;
    for (size_t i = 0; i < trial->changes.count; i++)
        any |= trial->changes.items[i].allowed || trial->changes.items[i].news;
    return any;
}

// Changed bits have a line of their own if only the program explains them.
static bool bits_shown(const struct trial_comparison *trial, bool all)
{
    return trial->bits.changed && (all || !trial->bits.causes);
}

// Tells whether the status is worth a row: it changed, or one side has none.
static bool status_shown(const struct trial_comparison *trial)
{
    const struct record *base = trial->statuses[0], *new = trial->statuses[1];
    return trial->status > VERDICT_SAME || !base || !new || base->status != new->status;
}

bool comparison_trial_shown(const struct trial_comparison *trial, bool all)
{
    return all || trial->verdict > VERDICT_SAME || any_told(trial) || status_shown(trial) || bits_shown(trial, all);
}

// The current row, its reader, and the number of rows read.
struct writing {
    struct comparison_row row;
    const struct comparison_reader *reader;
    size_t count;
};

static struct comparison_row *begin(struct writing *to, enum verdict verdict, const char *subject)
{
    struct comparison_row *row = &to->row;
    row->verdict = verdict;
    row->word = verdict_name(verdict);
    row->subject = subject;
    *row->base = *row->new = *row->note = 0;
    return row;
}

static void end(struct writing *to)
{
    to->reader->read(&to->row, to->reader->data);
    to->count++;
}

// --- a trial

// "ok", or "crash in 1 of 3 rounds".
static void write_status(const struct trial_comparison *trial, size_t side, char *text, size_t size)
{
    const struct record_list *rounds = trial->rounds[side];
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
    struct comparison_row *row = begin(to, trial->status, "status");
    const char *reason = trial->statuses[1] ? text_or(trial->statuses[1]->reason, "") : "";
    const char *side =
        !trial->new    ? "only in BASE"
        : !trial->base ? "only in NEW"
        : record_one_is_planned(trial->base, trial->new) && record_one_is_limited(trial->base, trial->new)
            ? "one has a limit that the other has not"
            : "";
    write_status(trial, 0, row->base, sizeof row->base);
    write_status(trial, 1, row->new, sizeof row->new);
    snprintf(row->note, sizeof row->note, "%s%s%.160s", side, *side && *reason ? ": " : "", reason);
    end(to);
}

static void add_inputs(struct writing *to, const struct trial_comparison *trial)
{
    static const char *const words[2][2] = {
        {"other data and another model (data_hash, model_hash)", "other data (data_hash)"},
        {"another model (model_hash)", "a round read other data or another model (data_hash, model_hash)"}};
    struct comparison_row *row = begin(to, VERDICT_CHANGED, "inputs");
    snprintf(row->note, sizeof row->note, "%s, nothing else is judged",
             words[record_same_data(trial->base, trial->new)][record_same_model(trial->base, trial->new)]);
    end(to);
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

// Values that are no counts get as many digits as needed to differ.
static void write_values(struct comparison_row *row, const struct quantity_change *change, bool bytes)
{
    int digits = 4;
    do {
        write_value(change->base, bytes, digits, row->base, sizeof row->base);
        write_value(change->new, bytes, digits, row->new, sizeof row->new);
    } while (strcmp(row->base, row->new) == 0 && digits++ < DBL_DECIMAL_DIG);
}

static void add_quantity(struct writing *to, const struct quantity_change *change)
{
    struct comparison_row *row = begin(to, change->verdict, change->name);
    bool bytes = quantity_is_bytes(change->quantity), known = isfinite(change->base) && isfinite(change->new);
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
    end(to);
}

static void add_bits(struct writing *to, const struct gradient_bits *bits)
{
    struct comparison_row *row = begin(to, VERDICT_NONE, "gradient bits");
    row->word = "bits";
    snprintf(row->note, sizeof row->note, "changed in %zu of %zu tensors, first in %.200s", bits->changed,
             bits->tensors, bits->first);
    end(to);
}

static void append_ratio(struct comparison_row *row, struct shift ratio)
{
    text_append(row->note, sizeof row->note, "x%.3f", ratio.estimate);
    if (isfinite(ratio.high))
        text_append(row->note, sizeof row->note, " [%.3f, %.3f]", ratio.low, ratio.high);
}

static void add_time(struct writing *to, const struct trial_comparison *trial)
{
    const struct time_trial *time = trial->time;
    struct comparison_row *row = begin(to, time->verdict, "time");
    if (time->rounds && !time->unusable) {
        snprintf(row->base, sizeof row->base, "%.4g ms", exp(sample_quantile(time->base, time->rounds, 0)));
        snprintf(row->new, sizeof row->new, "%.4g ms", exp(sample_quantile(time->new, time->rounds, 0)));
        if (trial->times.processor_time)
            text_append(row->note, sizeof row->note, "of the processors, ");
        append_ratio(row, time->ratio);
        text_append(row->note, sizeof row->note, ", %zu round%s", time->rounds, time->rounds == 1 ? "" : "s");
    }
    text_append(row->note, sizeof row->note, "%s%s", *row->note && *time->reason ? ": " : "", time->reason);
    end(to);
}

void comparison_read_trial(const struct comparison *comparison, const struct trial_comparison *trial, bool all,
                           const struct comparison_reader *reader)
{
    struct writing to = {.row.trial = trial, .reader = reader};
    enum verdict by_time = trial->time->verdict;
    snprintf(to.row.what, sizeof to.row.what, "%s", comparison_name(comparison, trial).text);
    if (status_shown(trial))
        add_status(&to, trial);
    if (trial->inputs == VERDICT_CHANGED)
        add_inputs(&to, trial);
    for (size_t i = 0; i < trial->changes.count; i++)
        add_quantity(&to, &trial->changes.items[i]);
    if (bits_shown(trial, all))
        add_bits(&to, &trial->bits);
    if (by_time > VERDICT_SAME || (all && by_time == VERDICT_SAME))
        add_time(&to, trial);
    if (to.count)
        return;
    begin(&to, trial->verdict, record_status_name(trial->new->status));
    end(&to);
}

// --- groups of trials

static void add_group(struct writing *to, const struct time_group *group)
{
    struct comparison_row *row = begin(to, group->verdict, "time");
    snprintf(row->what, sizeof row->what, "%s%s%s", group->axis < 0 ? "" : comparison_axis_names[group->axis],
             group->axis < 0 ? "" : " ", group->name);
    append_ratio(row, group->ratio);
    text_append(row->note, sizeof row->note, " over %zu trial%s", group->trials, group->trials == 1 ? "" : "s");
    end(to);
}

void comparison_read_groups(const struct comparison *comparison, bool all, const struct comparison_reader *reader)
{
    const struct time_change *time = &comparison->time;
    struct writing to = {.reader = reader};
    for (size_t i = 0; i < time->group_count; i++)
        if (time->groups[i].verdict > VERDICT_SAME || (all && time->groups[i].verdict == VERDICT_SAME))
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
