// Learning: held-out loss of training runs from several seeds, one series per method: the mean over the seeds
// against steps, FLOPs and time, and at the end the mean difference from the same seeds' exact gradients, with its
// interval.
#include "harness/plot/figure.h"
#include "harness/record/recorded_key.h"
#include "harness/record/step_time.h"
#include "harness/spec/trial.h"
#include "harness/stats/sample.h"
#include "harness/table/series.h"
#include "harness/text/text.h"
#include "kernels/base/status.h"
#include "methods/method.h"
#include <math.h>
#include <string.h>

static bool learns(const struct record *record)
{
    const struct record_curve *curve = record->curve;
    return record->status == RECORD_OK && curve->given && curve->evaluation_loss.count > 1 &&
           curve->evaluation_loss.count == curve->evaluation_step.count &&
           curve->evaluation_step.items[curve->evaluation_step.count - 1] == (double)curve->loss.count &&
           (curve->flops.count == 0 || curve->flops.count == curve->loss.count);
}

static double seed_of(const struct record *record)
{
    json_t *value = recorded_key_value(trial_key_named("seed"), record);
    double seed = json_number_value(value);
    json_decref(value);
    return seed;
}

static double window_of(const struct record *record)
{
    double window = json_number_value(json_object_get(record->trial.train, "window"));
    return window > 0 ? window : record->trial.context;
}

// Runs of one method, equal but for their seeds.
struct learner {
    const struct series *series;
    size_t count;
    const struct record **runs; // [count], borrowed
    double step_ms;             // NaN: unknown
};

// --- learners

static bool same_training(const struct record *a, const struct record *b)
{
    return a->trial.context == b->trial.context && json_equal(a->trial.train, b->trial.train) &&
           (a->trial.optimizer == b->trial.optimizer || json_equal(a->trial.optimizer, b->trial.optimizer));
}

static bool has_seed(const struct learner *learner, double seed)
{
    for (size_t i = 0; i < learner->count; i++)
        if (seed_of(learner->runs[i]) == seed)
            return true;
    return false;
}

static json_t *undrawn(const struct record *record)
{
    json_t *method = json_copy((json_t *)record->trial.method);
    json_object_del(method, "sampler_seed");
    return method;
}

// The mean time of the method's step at this context, of trials that measure it alone: runs of several seeds are
// often beside each other. NaN: there are none.
static double step_ms_of(const struct learner *learner, const struct record *const *records, size_t count)
{
    const struct record *first = learner->runs[0];
    double sum = 0;
    size_t measured = 0;
    json_t *method = undrawn(first);
    for (size_t i = 0; i < count; i++) {
        double ms = step_time_of(records[i]).ms;
        if (records[i]->curve->given || records[i]->trial.context != first->trial.context || !isfinite(ms))
            continue;
        json_t *other = undrawn(records[i]);
        bool same = json_equal(method, other);
        json_decref(other);
        sum += same ? ms : 0;
        measured += same;
    }
    json_decref(method);
    return measured ? sum / (double)measured : NAN;
}

// By method and context, the longest first.
static int by_context(const void *a, const void *b)
{
    const struct learner *x = a, *y = b;
    double i = x->runs[0]->trial.context, j = y->runs[0]->trial.context;
    if (x->series != y->series)
        return x->series < y->series ? -1 : 1;
    return (i < j) - (i > j);
}

struct learners {
    size_t count;
    struct learner *items; // [count], by method and options, then by context
    struct series_table series;
};

static void learners_open(struct learners *all, const struct record *const *records, size_t count)
{
    static const char *const omit[] = {"sampler_seed", NULL};
    const struct record **kept = calloc(count + 1, sizeof *kept);
    size_t kept_count = 0;
    for (size_t i = 0; i < count; i++)
        if (learns(records[i]))
            kept[kept_count++] = records[i];
    *all = (struct learners){.items = calloc(kept_count + 1, sizeof *all->items)};
    CHECK(all->items);
    series_make(&all->series, kept, kept_count, omit, true);
    free(kept);
    for (size_t s = 0; s < all->series.count; s++) {
        const struct series *series = &all->series.series[s];
        for (size_t i = 0, first = all->count; i < series->record_count; i++) {
            const struct record *record = series->records[i];
            size_t at = first;
            while (at < all->count &&
                   (!same_training(all->items[at].runs[0], record) || has_seed(&all->items[at], seed_of(record))))
                at++;
            struct learner *learner = &all->items[at];
            if (at == all->count) {
                *learner = (struct learner){.series = series, .runs = calloc(count + 1, sizeof *learner->runs)};
                CHECK(learner->runs);
                all->count++;
            }
            learner->runs[learner->count++] = record;
        }
    }
    for (size_t i = 0; i < all->count; i++)
        all->items[i].step_ms = step_ms_of(&all->items[i], records, count);
    qsort(all->items, all->count, sizeof *all->items, by_context);
}

static void learners_close(struct learners *all)
{
    for (size_t i = 0; i < all->count; i++)
        free(all->items[i].runs);
    free(all->items);
    series_free(&all->series);
}

// The exact method, on whole windows, that others are compared with: the last, which keeps least. NULL: none.
static const struct learner *exact_of(const struct learners *all)
{
    const struct learner *found = NULL;
    for (size_t i = 0; i < all->count; i++) {
        const struct learner *learner = &all->items[i];
        const struct method *method = method_find(learner->series->method);
        if (method && method->exact && learner->runs[0]->trial.context == window_of(learner->runs[0]))
            found = learner;
    }
    return found;
}

// --- rows

// Mean and interval of 95 % over the seeds, from `values`.
static struct shift spread(const double *values, size_t count)
{
    struct sample_mean mean = sample_mean(values, count);
    double half = sample_half_interval(mean, count, 0);
    return (struct shift){mean.estimate, mean.estimate - half, mean.estimate + half};
}

// FLOPs of the first `steps` steps.
static double flops_until(const struct record *record, double steps)
{
    const struct number_list *flops = &record->curve->flops;
    double sum = 0;
    for (size_t i = 0; i < flops->count && (double)i < steps; i++)
        sum += flops->items[i];
    return flops->count ? sum : steps * record->flops;
}

// The difference of the last losses of the seeds that both have; NaN: none.
static struct shift difference(const struct learner *learner, const struct learner *exact)
{
    struct shift unknown = {NAN, NAN, NAN};
    if (!exact || exact == learner)
        return unknown;
    double *values = calloc(learner->count + 1, sizeof *values);
    size_t count = 0;
    for (size_t i = 0; i < learner->count; i++)
        for (size_t j = 0; j < exact->count; j++)
            if (seed_of(learner->runs[i]) == seed_of(exact->runs[j]))
                values[count++] = record_held_out_loss(learner->runs[i]) - record_held_out_loss(exact->runs[j]);
    struct shift found = count > 1 ? spread(values, count) : unknown;
    free(values);
    return found;
}

// "seco, chunk 64, fewer tokens: 384 of 512"
static void label_of(const struct learner *learner, char *label, size_t bytes)
{
    const struct record *first = learner->runs[0];
    double context = first->trial.context, window = window_of(first);
    *label = 0;
    text_append(label, bytes, "%s", learner->series->label);
    if (record_option_number(first, "deferral") == 0)
        text_append(label, bytes, " (no dKV, biased)");
    if (context < window)
        text_append(label, bytes, ", fewer tokens: %.0f of %.0f", context, window);
}

static void put(struct figure_table *table, const struct learners *all, size_t number)
{
    const struct learner *learner = &all->items[number], *exact = exact_of(all);
    const struct number_list *at = &learner->runs[0]->curve->evaluation_step;
    size_t rank = 0, count = learner->count;
    char label[240];
    double *losses = calloc(count + 1, sizeof *losses), *flops = calloc(count + 1, sizeof *flops);
    label_of(learner, label, sizeof label);
    while (rank < number && strcmp(all->items[number - rank - 1].series->method, learner->series->method) == 0)
        rank++;
    for (size_t i = 0; i < at->count; i++) {
        bool last = i + 1 == at->count;
        for (size_t r = 0; r < count; r++) {
            losses[r] = learner->runs[r]->curve->evaluation_loss.items[i];
            flops[r] = flops_until(learner->runs[r], at->items[i]);
        }
        struct shift loss = spread(losses, count);
        struct shift over = last ? difference(learner, exact) : (struct shift){NAN, NAN, NAN};
        figure_table_row(table, number + 1, learner->series->method, rank, "%s", label);
        FIGURE_NUMBERS(table, (double)count, at->items[i], sample_mean(flops, count).estimate,
                       at->items[i] * learner->step_ms / 1e3, loss.estimate, loss.low, loss.high, over.estimate,
                       over.low, over.high);
    }
    free(flops);
    free(losses);
}

static bool tabulate(const struct record *const *records, size_t count, struct figure_table *table)
{
    struct learners all;
    size_t shown = 0;
    learners_open(&all, records, count);
    figure_table_columns(table,
                         "seeds\tstep\tflops\tseconds\tloss\tloss_low\tloss_high\tdifference\tdifference_low\t"
                         "difference_high");
    for (size_t i = 0; i < all.count; i++) {
        shown += all.items[i].count > 1;
        put(table, &all, i);
    }
    learners_close(&all);
    return shown > 1;
}

static const char *const within[] = {"train", "seed", NULL};

const struct figure figure_learning = {
    .name = "learning",
    .panels = "steps,work,time,difference",
    .needs = "training runs (\"train\") with evaluations, of two methods or more, from two seeds or more each",
    .within = within,
    .tabulate = tabulate,
};
