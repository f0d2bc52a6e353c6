#include "harness/compare/history_report.h"
#include "harness/compare/comparison_report.h"
#include "harness/compare/comparison_rows.h"
#include "harness/record/record_fields.h"
#include "harness/record/record_json.h"
#include "harness/record/step_time.h"
#include "harness/table/record_figure.h"
#include "harness/text/size.h"
#include "harness/text/text.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

#define ROW(table, ...) text_table_row(table, (const char *const[]){__VA_ARGS__, NULL})

struct words {
    char text[400];
};

static struct words words_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
static struct words words_of(const char *format, ...)
{
    struct words words;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words.text, sizeof words.text, format, arguments);
    va_end(arguments);
    return words;
}

static struct words commit_words(const struct history_commit *commit)
{
    return words_of("%.12s%s", commit->revision, commit->dirty ? " with changes" : "");
}

static struct words count_words(size_t count)
{
    return count ? words_of("%zu", count) : words_of("-");
}

static void print_table(const struct history_report *report, const char *title, struct text_table *table,
                        FILE *stream)
{
    if (table->rows > 1) {
        fprintf(stream, report->format == TABLE_MARKDOWN ? "\n**%s**\n\n" : "\n%s\n", title);
        text_table_print(table, report->format, stream);
    }
    text_table_free(table);
}

static void print_commits(const struct history_report *report, const struct history *history, FILE *stream)
{
    struct text_table table = {0};
    ROW(&table, "commit", "recorded", "trials", "compared", "worse", "better", "open", "other bits", "times");
    for (size_t i = 0; i < history->commit_count; i++) {
        const struct history_commit *commit = &history->commits[i];
        const struct comparison *comparison = &commit->comparison;
        const size_t *trials = comparison->by_verdict;
        ROW(&table, commit_words(commit).text, words_of("%.10s", *commit->time ? commit->time : "-").text,
            count_words(commit->trials).text, count_words(comparison->both).text,
            count_words(trials[VERDICT_WORSE]).text, count_words(trials[VERDICT_BETTER]).text,
            count_words(trials[VERDICT_CHANGED] + trials[VERDICT_UNDECIDED]).text,
            count_words(comparison->bits_changed).text,
            comparison->both ? verdict_name(comparison->time.verdict) : "-");
    }
    print_table(report, "Commits, the oldest first; each trial against the last commit before that has it", &table,
                stream);
}

// The table for a commit's changes.
struct changes_to {
    struct text_table *table;
    const struct history_commit *commit;
};

static void print_change(const struct comparison_row *row, void *data)
{
    const struct changes_to *to = data;
    ROW(to->table, commit_words(to->commit).text, row->word, row->what, row->subject, row->base, row->new,
        row->note);
}

static void print_changes(const struct history_report *report, const struct history *history, FILE *stream)
{
    struct text_table table = {0};
    ROW(&table, "commit", "", "trial", "figure", "before", "after", "");
    for (size_t i = 0; i < history->commit_count; i++) {
        struct changes_to to = {&table, &history->commits[i]};
        comparison_read(&history->commits[i].comparison, false, &(struct comparison_reader){print_change, &to});
    }
    if (table.rows == 1)
        fputs(report->format == TABLE_MARKDOWN ? "\nNothing changed.\n" : "\nnothing changed\n", stream);
    print_table(report, "What changed", &table, stream);
}

// --- trends of figures

struct trend {
    const char *name;
    bool time, bytes;
    double first, last, min, max;
    size_t points, changes; // points with a value; changes among them
    struct words changed;   // the commits of the changes
};

static double time_of(const struct record *record)
{
    return step_time_of(record).ms;
}

static double spread_of(const struct record *record)
{
    const struct table_row row = {.record = record};
    json_t *value = record_figure_find("spread_ms")->value(&row);
    double spread = json_is_number(value) ? json_number_value(value) : NAN;
    json_decref(value);
    return spread;
}

static void trend_add(struct trend *trend, const struct history_commit *commit, double value, bool changed)
{
    if (!isfinite(value))
        return;
    trend->first = trend->points ? trend->first : value;
    trend->min = trend->points ? fmin(trend->min, value) : value;
    trend->max = trend->points ? fmax(trend->max, value) : value;
    trend->last = value;
    trend->points++;
    if (changed)
        text_append(trend->changed.text, sizeof trend->changed.text, "%s%.12s", trend->changes++ ? ", " : "",
                    commit->revision);
}

// A deterministic figure changes if its value does.
static struct trend quantity_trend(const struct history *history, const struct history_trial *trial,
                                   const struct quantity *quantity)
{
    struct trend trend = {.name = quantity->name, .bytes = quantity_is_bytes(quantity)};
    const struct record *last =
        NULL; // with the value last reported, so that small steps add up until they are a change
    for (size_t p = 0; p < trial->count; p++) {
        const struct history_point *point = &trial->points[p];
        double value = point->record->status == RECORD_OK ? quantity_of(point->record, quantity) : NAN;
        bool changed = last && quantity_changed(quantity, last, point->record);
        trend_add(&trend, &history->commits[point->commit], value, changed);
        if (isfinite(value) && (!last || changed || !quantity_comparable(quantity, last, point->record)))
            last = point->record;
    }
    return trend;
}

// A time changes by the test of `compare`.
static struct trend time_trend(const struct history *history, const struct history_trial *trial)
{
    struct trend trend = {.name = "time_ms", .time = true};
    for (size_t p = 0; p < trial->count; p++) {
        const struct history_point *point = &trial->points[p];
        const struct trial_comparison *change = p ? history_change(history, trial, point->commit) : NULL;
        enum verdict verdict = change ? change->time->verdict : VERDICT_NONE;
        trend_add(&trend, &history->commits[point->commit], time_of(point->record),
                  verdict == VERDICT_WORSE || verdict == VERDICT_BETTER);
    }
    return trend;
}

static struct words value_words(const struct trend *trend, double value)
{
    struct words words;
    if (trend->time)
        return words_of("%.4g ms", value);
    if (!trend->bytes)
        return words_of(value == floor(value) ? "%.0f" : "%.6g", value);
    size_text((size_t)value, words.text, sizeof words.text);
    return words;
}

static void add_trend(const struct history_report *report, struct text_table *table,
                      const struct history_trial *trial, const struct trend *trend)
{
    if (trend->points < 2 || (!report->all && !trend->changes && !trend->time))
        return;
    struct words last = value_words(trend, trend->last);
    double spread = trend->time ? spread_of(trial->points[trial->count - 1].record) : NAN;
    if (isfinite(spread))
        text_append(last.text, sizeof last.text, " ± %.3g", spread);
    ROW(table, trial->what.text, trend->name, count_words(trend->points).text,
        value_words(trend, trend->first).text, value_words(trend, trend->min).text,
        value_words(trend, trend->max).text, last.text,
        text_table_number(trend->first > 0 ? trend->last / trend->first : NAN, 3).text,
        trend->changes ? trend->changed.text : "-");
}

static void print_trends(const struct history_report *report, const struct history *history, FILE *stream)
{
    struct text_table table = {0};
    size_t changed[QUANTITIES_MAX] = {0}, known[QUANTITIES_MAX] = {0};
    const struct quantity *all = quantities();
    ROW(&table, "trial", "figure", "commits", "first", "least", "most", "last", "last / first", "changed at");
    for (size_t i = 0; i < history->trial_count; i++) {
        const struct history_trial *trial = &history->trials[i];
        for (size_t q = 0; all[q].name; q++) {
            const struct trend trend = quantity_trend(history, trial, &all[q]);
            known[q] += trend.points > 1;
            changed[q] += trend.changes > 0;
            add_trend(report, &table, trial, &trend);
        }
        const struct trend trend = time_trend(history, trial);
        add_trend(report, &table, trial, &trend);
    }
    print_table(report, "How figures went", &table, stream);
    const char *separator = "\nchanged: ";
    for (size_t q = 0; all[q].name; q++)
        if (known[q]) {
            fprintf(stream, "%s%s in %zu of %zu trials", separator, all[q].name, changed[q], known[q]);
            separator = ", ";
        }
    fputs(*separator == ',' ? "\n" : "", stream);
}

// --- JSON

static void set(json_t *object, const char *key, json_t *value)
{
    CHECK(value && json_object_set_new(object, key, value) == 0);
}

static json_t *number(double value)
{
    return record_number_json(FIELD_NUMBER, value);
}

static json_t *point_json(const struct history_point *point)
{
    const struct record *record = point->record;
    uint64_t hash = record->gradient.hash;
    json_t *object = json_pack("{s:I, s:s, s:o, s:o, s:o, s:o}", "commit", (json_int_t)point->commit, "status",
                               record_status_name(record->status), "gradient_hash",
                               hash ? json_sprintf("%016" PRIx64, hash) : json_null(), "gradient_relative_l2",
                               number(record->gradient.relative_l2), "time_ms", number(time_of(record)),
                               "spread_ms", number(spread_of(record)));
    for (const struct quantity *quantity = quantities(); quantity->name; quantity++)
        if (quantity->field->type != FIELD_TALLY)
            set(object, quantity->name, number(quantity_of(record, quantity)));
    return object;
}

static json_t *history_json(const struct history *history)
{
    json_t *commits = json_array(), *trials = json_array();
    for (size_t i = 0; i < history->commit_count; i++) {
        const struct history_commit *commit = &history->commits[i];
        json_t *object =
            json_pack("{s:o, s:b, s:o, s:I, s:o}", "revision", record_text(commit->revision), "dirty",
                      commit->dirty, "time", *commit->time ? record_text(commit->time) : json_null(), "trials",
                      (json_int_t)commit->trials, "comparison", comparison_json(&commit->comparison, false));
        CHECK(json_array_append_new(commits, object) == 0);
    }
    for (size_t i = 0; i < history->trial_count; i++) {
        const struct history_trial *trial = &history->trials[i];
        json_t *points = json_array();
        for (size_t p = 0; p < trial->count; p++)
            CHECK(json_array_append_new(points, point_json(&trial->points[p])) == 0);
        json_t *object = json_pack("{s:s, s:o, s:o}", "id", trial->points[0].record->id, "what",
                                   record_text(trial->what.text), "points", points);
        CHECK(json_array_append_new(trials, object) == 0);
    }
    return json_pack("{s:o, s:s, s:o, s:o}", "experiment", record_text(history->experiment), "order",
                     history->by_git ? "git" : "time", "commits", commits, "trials", trials);
}

static void write_json(const struct histories *histories, FILE *stream)
{
    json_t *list = json_array();
    for (size_t i = 0; i < histories->count; i++)
        CHECK(json_array_append_new(list, history_json(&histories->items[i])) == 0);
    json_dumpf(list, stream, JSON_INDENT(1));
    fputc('\n', stream);
    json_decref(list);
}

static void write_history(const struct history_report *report, const struct history *history, FILE *stream)
{
    fprintf(stream, report->format == TABLE_MARKDOWN ? "## %s\n\n" : "%s\n", history->experiment);
    size_t compared = history_compared(history);
    fprintf(stream, "%zu commit%s in the order of %s, %zu trial%s, %zu of them at several commits\n",
            history->commit_count, history->commit_count == 1 ? "" : "s",
            history->by_git ? "git" : "their records' times", history->trial_count,
            history->trial_count == 1 ? "" : "s", compared);
    if (!compared)
        return;
    print_commits(report, history, stream);
    print_changes(report, history, stream);
    print_trends(report, history, stream);
}

void history_report_write(const struct history_report *report, const struct histories *histories, FILE *stream)
{
    if (report->format == TABLE_JSON) {
        write_json(histories, stream);
        return;
    }
    for (size_t i = 0, written = 0; i < histories->count; i++) {
        if (report->compared && !history_compared(&histories->items[i]))
            continue;
        if (written++)
            fputc('\n', stream);
        write_history(report, &histories->items[i], stream);
    }
    if (!histories->count)
        fputs("no records\n", stream);
}
