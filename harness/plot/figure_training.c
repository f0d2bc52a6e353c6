// Training runs: the loss over training, a series per run and a row per evaluation, or per fortieth of the steps
// without evaluations; objectives' metrics likewise; and the final loss against the rate.
#include "harness/json/named_options.h"
#include "harness/plot/figure.h"
#include "harness/table/series.h"
#include "harness/table/setting.h"
#include "harness/text/text.h"
#include "kernels/base/status.h"
#include "kernels/objectives/objective.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

#define RUNS_MAX 14 // maximum per picture
#define PARTS    40

// Evaluations are in increasing order, none after the last step.
static bool evaluates_in_order(const struct record_curve *curve)
{
    const struct number_list *at = &curve->evaluation_step;
    bool fine = at->count == curve->evaluation_loss.count;
    for (size_t i = 0; fine && i < at->count; i++)
        fine = at->items[i] >= (i ? at->items[i - 1] : 0) && at->items[i] <= (double)curve->loss.count;
    return fine;
}

static bool has_curve(const struct record *record)
{
    return record->status == RECORD_OK && record->curve->given && record->curve->loss.count > 0 &&
           record->samples_ms.count == record->curve->loss.count && evaluates_in_order(record->curve);
}

// Series of the records with curves. Release with series_free.
static void curves_of(const struct record *const *records, size_t count, struct series_table *all)
{
    static const char *const nothing[] = {NULL};
    const struct record **kept = calloc(count + 1, sizeof *kept);
    size_t kept_count = 0;
    for (size_t i = 0; i < count; i++)
        if (has_curve(records[i]))
            kept[kept_count++] = records[i];
    series_make(all, kept, kept_count, nothing, true);
    free(kept);
}

static double sum(const struct number_list *list, size_t first, size_t end)
{
    double total = 0;
    for (size_t i = first; i < end; i++)
        total += list->items[i];
    return total;
}

// --- curves

static double tokens_of_step(const struct record *record)
{
    double accumulate = json_number_value(json_object_get(record->trial.train, "accumulate"));
    return accumulate * record->trial.batch * record->trial.context;
}

enum part { TRAIN, OPTIMIZER, OBJECTIVE, PARTS_OF_TRIAL };

static const json_t *part_of(const struct record *record, enum part part)
{
    const struct record_trial *trial = &record->trial;
    return part == TRAIN ? trial->train : part == OPTIMIZER ? trial->optimizer : trial->objective;
}

// Keys along a figure's axis, ending in NULL, which do not distinguish curves.
static const char *const of_steps[] = {
    "steps", "warmup", "stable_steps", "decay_steps", "evaluate_every", "evaluate_windows", NULL};
static const char *const of_rates[] = {"rate", NULL};

// Tells whether another run has a different value of the key.
static bool differs(const struct record *record, enum part part, const char *key,
                    const struct record *const *records, size_t count)
{
    const json_t *value = json_object_get(part_of(record, part), key);
    bool same = true;
    for (size_t i = 0; same && i < count; i++) {
        const json_t *other = json_object_get(part_of(records[i], part), key);
        same = !has_curve(records[i]) || value == other || json_equal(value, other);
    }
    return !same;
}

// Appends settings in which other runs differ, except keys along the axis. For optimizers or objectives of several
// names, the name and options that are not its defaults.
static void append_differences(char *label, size_t bytes, const struct record *record, const char *const *along,
                               const struct record *const *records, size_t count)
{
    static const char *const names[PARTS_OF_TRIAL] = {[OPTIMIZER] = "optimizer", [OBJECTIVE] = "objective"};
    const char *key;
    json_t *value;
    for (enum part part = 0; part < PARTS_OF_TRIAL; part++) {
        char whole[200] = "";
        json_t *told = json_copy((json_t *)part_of(record, part));
        for (size_t i = 0; along[i]; i++)
            json_object_del(told, along[i]);
        if (names[part] && differs(record, part, "name", records, count) &&
            setting_named(names[part], told, whole, sizeof whole)) {
            text_append(label, bytes, ", %s", whole);
            json_decref(told);
            continue;
        }
        json_object_foreach(told, key, value)
        {
            if (!differs(record, part, key, records, count))
                continue;
            char *words = named_option_words(value, 6);
            text_append(label, bytes, ", %s %s", key, words);
            free(words);
        }
        json_decref(told);
    }
}

struct run {
    const struct record *record;
    const char *method;
    char label[240];
    size_t place; // of the first run of its series with its label
    double rate;  // NaN: none
};

struct runs {
    size_t count;
    struct run *items; // [count], by series
    struct series_table series;
};

static double rate_of(const struct record *record)
{
    const json_t *rate = json_object_get(record->trial.optimizer, "rate");
    return json_number_value(rate) > 0 ? json_number_value(rate) : NAN;
}

static void runs_open(struct runs *runs, const struct record *const *records, size_t count,
                      const char *const *along)
{
    *runs = (struct runs){.items = calloc(count + 1, sizeof *runs->items)};
    CHECK(runs->items);
    curves_of(records, count, &runs->series);
    for (size_t s = 0; s < runs->series.count; s++) {
        const struct series *series = &runs->series.series[s];
        for (size_t i = 0, first = runs->count; i < series->record_count; i++) {
            struct run *run = &runs->items[runs->count];
            *run = (struct run){series->records[i], series->method, "", first, rate_of(series->records[i])};
            snprintf(run->label, sizeof run->label, "%s", series->label);
            append_differences(run->label, sizeof run->label, run->record, along, records, count);
            while (run->place < runs->count && strcmp(runs->items[run->place].label, run->label) != 0)
                run->place++;
            runs->count++;
        }
    }
}

static void runs_close(struct runs *runs)
{
    series_free(&runs->series);
    free(runs->items);
}

static double mean(const struct number_list *list, size_t first, size_t end)
{
    return end > first && end <= list->count ? sum(list, first, end) / (double)(end - first) : NAN;
}

// Shows steps first .. end - 1, which evaluation i follows, if there are any.
typedef void put_part(struct figure_table *table, const struct record *record, double seconds, size_t first,
                      size_t end, size_t i);

static void put_loss(struct figure_table *table, const struct record *record, double seconds, size_t first,
                     size_t end, size_t i)
{
    const struct record_curve *curve = record->curve;
    FIGURE_NUMBERS(table, (double)end * tokens_of_step(record), seconds, mean(&curve->loss, first, end),
                   i < curve->evaluation_loss.count ? curve->evaluation_loss.items[i] : NAN);
}

static void put_metrics(struct figure_table *table, const struct record *record, double seconds, size_t first,
                        size_t end, size_t i)
{
    const struct record_curve *curve = record->curve;
    (void)seconds;
    for (size_t m = 0; m < OBJECTIVE_METRICS; m++) {
        const struct number_list *evaluated = &curve->evaluation_metrics[m];
        FIGURE_NUMBERS(table, i < evaluated->count ? evaluated->items[i] : mean(&curve->metrics[m], first, end));
    }
}

static void put_run(struct figure_table *table, const struct run *run, size_t series, size_t rank,
                    put_part *put_rest)
{
    const struct record *record = run->record;
    const struct record_curve *curve = record->curve;
    size_t steps = curve->loss.count, evaluations = curve->evaluation_loss.count;
    size_t parts = evaluations ? evaluations : steps < PARTS ? steps : PARTS;
    double before = 0, seconds = 0;
    for (size_t i = 0; i < parts; i++) {
        double step =
            evaluations ? curve->evaluation_step.items[i] : floor((double)((i + 1) * steps) / (double)parts);
        size_t first = (size_t)before, end = (size_t)step;
        seconds += sum(&record->samples_ms, first, end) / 1e3;
        figure_table_row(table, series, run->method, rank, "%s", run->label);
        FIGURE_NUMBERS(table, step);
        put_rest(table, record, seconds, first, end, evaluations ? i : SIZE_MAX);
        before = step;
    }
}

static bool put_runs(const struct record *const *records, size_t count, struct figure_table *table,
                     put_part *put_rest)
{
    struct runs runs;
    runs_open(&runs, records, count, of_steps);
    for (size_t i = 0, rank = 0; i < runs.count; i++) {
        const struct run *run = &runs.items[i];
        rank = i && strcmp(run->method, run[-1].method) == 0 ? rank + 1 : 0;
        put_run(table, run, i + 1, rank, put_rest);
    }
    bool shown = runs.count >= 1 && runs.count <= RUNS_MAX;
    runs_close(&runs);
    return shown;
}

static bool tabulate_training(const struct record *const *records, size_t count, struct figure_table *table)
{
    figure_table_columns(table, "step\ttokens\tseconds\tloss\tevaluation_loss");
    return put_runs(records, count, table, put_loss);
}

static bool has_metrics(const struct record *record)
{
    for (size_t m = 0; m < OBJECTIVE_METRICS; m++)
        if (has_curve(record) && record->curve->metrics[m].count > 0)
            return true;
    return false;
}

static bool tabulate_metrics(const struct record *const *records, size_t count, struct figure_table *table)
{
    const struct record **kept = calloc(count + 1, sizeof *kept);
    size_t kept_count = 0;
    for (size_t i = 0; i < count; i++)
        if (has_metrics(records[i]))
            kept[kept_count++] = records[i];
    figure_table_columns(table, "step");
    for (size_t m = 0; m < OBJECTIVE_METRICS; m++)
        figure_table_columns(table, objective_metrics[m].name);
    bool enough = put_runs(kept, kept_count, table, put_metrics);
    free(kept);
    return enough;
}

static const char *const along_runs[] = {"train", "optimizer", NULL};

const struct figure figure_training = {
    .name = "training",
    .panels = "steps,time",
    .times = true,
    .needs = "training runs (\"train\") at one context, at most 14; of more --where chooses",
    .one_context = true,
    .within = along_runs,
    .tabulate = tabulate_training,
};

static const char *const along_objectives[] = {"train", "optimizer", "objective", "reference", NULL};

const struct figure figure_metrics = {
    .name = "metrics",
    .panels = "margin,accuracy,clip_low,clip_high,kl,entropy,z_loss",
    .needs = "training runs (\"train\") whose objective has metrics, as dpo and grpo, at one context, at most 14; "
             "of more --where chooses",
    .one_context = true,
    .within = along_objectives,
    .tabulate = tabulate_metrics,
};

// --- rates

// Groups labels, in the order of their first occurrence.
static int by_rate(const void *a, const void *b)
{
    const struct run *x = a, *y = b;
    return x->place != y->place ? (x->place > y->place) - (x->place < y->place)
                                : (x->rate > y->rate) - (x->rate < y->rate);
}

// Returns the number of series; *max: the maximum number of rates of one.
static size_t put_rates(const struct record *const *records, size_t count, struct figure_table *table, size_t *max)
{
    struct runs runs;
    size_t series = 0, rank = 0, rates = 0;
    *max = 0;
    runs_open(&runs, records, count, of_rates);
    qsort(runs.items, runs.count, sizeof *runs.items, by_rate);
    figure_table_columns(table, "rate\tloss\tevaluation_loss\tpublished");
    for (size_t i = 0; i < runs.count; i++) {
        const struct run *run = &runs.items[i];
        bool fresh = i == 0 || run->place != run[-1].place;
        bool same_method = i && strcmp(run->method, run[-1].method) == 0;
        series += fresh;
        rank = !same_method ? 0 : rank + fresh;
        rates = fresh ? 0 : rates;
        rates += isfinite(run->rate) && (fresh || run->rate != run[-1].rate);
        *max = rates > *max ? rates : *max;
        figure_table_row(table, series, run->method, rank, "%s", run->label);
        FIGURE_NUMBERS(table, run->rate, record_last_loss(run->record), record_held_out_loss(run->record), NAN);
    }
    runs_close(&runs);
    return series;
}

static bool tabulate_rates(const struct record *const *records, size_t count, struct figure_table *table)
{
    size_t max;
    put_rates(records, count, table, &max);
    return max >= 3;
}

// Adds a series for each of the paper's after ours; they are contiguous in its file.
static bool tabulate_rates_beside(const struct record *const *records, size_t count,
                                  const struct published_file *file, struct figure_table *table)
{
    size_t max, series = put_rates(records, count, table, &max), rank = 0;
    for (size_t i = 0; i < file->count; i++) {
        const struct published_point *point = &file->points[i], *before = i ? point - 1 : NULL;
        bool fresh = !before || strcmp(before->series, point->series) != 0;
        bool same_method = before && strcmp(before->method, point->method) == 0;
        series += fresh;
        rank = !same_method ? 0 : rank + fresh;
        figure_table_row(table, series, point->method, rank, "published, %s", point->series);
        FIGURE_NUMBERS(table, point->rate, NAN, NAN, point->value);
    }
    return max >= 3;
}

static const char *const along_rates[] = {"optimizer", NULL};

const struct figure figure_rates = {
    .name = "rates",
    .panels = "evaluation_loss,loss,published",
    .needs =
        "training runs (\"train\") at one context, at three rates or more of one method and optimizer at least",
    .one_context = true,
    .within = along_rates,
    .tabulate = tabulate_rates,
    .quantity = PUBLISHED_LOSS,
    .tabulate_beside = tabulate_rates_beside,
};
