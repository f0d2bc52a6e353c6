#include "harness/papers/claim_figure.h"
#include "harness/record/published.h"
#include "harness/record/record_json.h"
#include "harness/record/step_time.h"
#include "harness/spec/trial_keys.h"
#include "harness/table/record_columns.h"
#include "harness/table/record_filter.h"
#include "harness/table/trial_rest.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const claim_take_names[] = {"min",        "max",          "min ratio",       "max ratio",
                                        "last ratio", "ratio of max", "mean difference", "published over",
                                        NULL};

// --- records

static size_t length_of(const char *const *texts)
{
    size_t count = 0;
    while (texts && texts[count])
        count++;
    return count;
}

// One side of a figure: records, their pairing keys, and their values.
struct side {
    struct results every, results; // results: one per trial
    char **rests;                  // [count]
    double *values;                // [count]
    struct number_list *rounds;    // [count], values per round of the record
};

static double value_of(const struct record_column *column, const struct record *record)
{
    struct table_row row = {.record = record};
    json_t *value = column->figure ? column->figure->value(&row) : record_column_value(column, record);
    double number = json_is_number(value) ? json_number_value(value) : NAN;
    json_decref(value);
    return number;
}

// Collects the values of each trial's rounds, the last one last.
static void take_rounds(struct side *side, const struct record_column *column)
{
    for (size_t i = 0; i < side->results.count; i++) {
        const struct record *record = side->results.records[i];
        const struct record_rounds *rounds = &record->rounds;
        side->rounds[i] = number_list_make(rounds->count ? rounds->count : 1);
        for (size_t r = 0; r < side->rounds[i].count; r++)
            side->rounds[i].items[r] = value_of(column, rounds->count ? rounds->items[r] : record);
    }
}

// Tells whether a condition is of another framework's records.
static bool asks_for_frameworks(const char *const *conditions)
{
    bool asks = false;
    for (size_t i = 0; conditions && conditions[i]; i++)
        asks |= strncmp(conditions[i], "framework", strlen("framework")) == 0;
    return asks;
}

static bool side_open(struct side *side, const struct claim_query *query, const char *const *conditions,
                      struct status *status)
{
    struct record_columns columns;
    struct record_column column;
    static const char *const always[] = {"status=ok", "trial.framework=null"};
    size_t always_count = asks_for_frameworks(conditions) ? 1 : 2;
    const char *apart[CLAIM_APART_MAX + 5] = {"method", "measure"};
    size_t used = 2, given = length_of(query->apart);
    CHECK(given <= CLAIM_APART_MAX);
    for (size_t i = 0; i < given; i++)
        apart[used++] = query->apart[i];
    if (query->take == TAKE_RATIO_OF_MAX) {
        apart[used++] = "context";
        apart[used++] = "batch";
    }
    bool fine = results_open(&side->every, query->records, length_of(query->records), true, status) &&
                record_filter(&side->every, always, always_count, status) &&
                record_filter(&side->every, conditions, length_of(conditions), status);
    results_of(&side->results, &side->every, false);
    record_columns_open(&columns, &side->every);
    fine = fine && record_columns_find(&columns, "field", query->field, &column, status);
    side->rests = calloc(side->results.count + 1, sizeof *side->rests);
    side->values = calloc(side->results.count + 1, sizeof *side->values);
    side->rounds = calloc(side->results.count + 1, sizeof *side->rounds);
    for (size_t i = 0; fine && i < side->results.count; i++) {
        side->rests[i] = trial_rest_of_record(side->results.records[i], apart, NULL);
        side->values[i] = value_of(&column, side->results.records[i]);
    }
    if (fine)
        take_rounds(side, &column);
    record_columns_close(&columns);
    return fine;
}

static void side_close(struct side *side)
{
    for (size_t i = 0; side->rests && i < side->results.count; i++) {
        free(side->rests[i]);
        free(side->rounds[i].items);
    }
    free(side->rests);
    free(side->values);
    free(side->rounds);
    results_close(&side->results);
    results_close(&side->every);
}

// --- figures

// Tells whether a value replaces the previous one.
static bool comes_first(enum claim_take take, double value, double context, const struct claim_figure *before)
{
    if (isnan(before->value))
        return true;
    if (take == TAKE_LAST_RATIO)
        return context > before->context;
    bool greatest = take == TAKE_MAX || take == TAKE_MAX_RATIO;
    return greatest ? value > before->value : value < before->value;
}

static struct shift exact(double value)
{
    return (struct shift){value, value, value};
}

static void consider(struct claim_figure *figure, enum claim_take take, struct shift value,
                     const struct record *record, bool planned)
{
    if (!isfinite(value.estimate))
        return;
    bool first = comes_first(take, value.estimate, record->trial.context, figure);
    struct claim_figure found = *figure;
    if (first)
        found = (struct claim_figure){value.estimate, value.low, value.high, planned, record->trial.context};
    // A pair that may be the extreme one also bounds the extreme value.
    if (take == TAKE_MAX_RATIO) {
        found.low = fmax(figure->low, value.low);
        found.high = fmax(figure->high, value.high);
    } else if (take == TAKE_MIN_RATIO) {
        found.low = fmin(figure->low, value.low);
        found.high = fmin(figure->high, value.high);
    }
    *figure = found;
}

static void take_one(struct claim_figure *figure, enum claim_take take, const struct side *ours)
{
    for (size_t i = 0; i < ours->results.count; i++)
        consider(figure, take, exact(ours->values[i]), ours->results.records[i],
                 record_is_planned(ours->results.records[i]));
}

// Times are compared round by round.
static struct shift ratio_of(const char *field, const struct side *ours, size_t i, const struct side *others,
                             size_t j)
{
    bool timed = strcmp(field, "time_ms") == 0 || strcmp(field, "median_ms") == 0 || strcmp(field, "mean_ms") == 0;
    return timed ? round_ratio(&ours->rounds[i], &others->rounds[j]) : exact(ours->values[i] / others->values[j]);
}

static void take_pairs(struct claim_figure *figure, const struct claim_query *query, const struct side *ours,
                       const struct side *others)
{
    for (size_t i = 0; i < ours->results.count; i++)
        for (size_t j = 0; j < others->results.count; j++)
            if (strcmp(ours->rests[i], others->rests[j]) == 0)
                consider(figure, query->take, ratio_of(query->field, ours, i, others, j), ours->results.records[i],
                         record_is_planned(ours->results.records[i]) ||
                             record_is_planned(others->results.records[j]));
}

// The maximum over records with this rest; its record in *record.
static double greatest_of(const struct side *side, const char *rest, const struct record **record)
{
    double greatest = NAN;
    for (size_t i = 0; i < side->results.count; i++) {
        if (strcmp(side->rests[i], rest) != 0 || !(isnan(greatest) || side->values[i] > greatest))
            continue;
        greatest = side->values[i];
        *record = side->results.records[i];
    }
    return greatest;
}

static void take_greatest(struct claim_figure *figure, const struct side *ours, const struct side *others)
{
    for (size_t i = 0; i < ours->results.count; i++) {
        const struct record *own = NULL, *other = NULL;
        double value = greatest_of(ours, ours->rests[i], &own), over = greatest_of(others, ours->rests[i], &other);
        if (own && other)
            consider(figure, TAKE_MIN, exact(value / over), own,
                     record_is_planned(own) || record_is_planned(other));
    }
}

// The mean over all pairs with Student's interval of 95 %.
static void take_difference(struct claim_figure *figure, const struct side *ours, const struct side *others)
{
    double *values = calloc(ours->results.count * others->results.count + 1, sizeof *values);
    size_t count = 0;
    bool planned = false;
    for (size_t i = 0; i < ours->results.count; i++) {
        for (size_t j = 0; j < others->results.count; j++) {
            if (strcmp(ours->rests[i], others->rests[j]) != 0)
                continue;
            values[count++] = ours->values[i] - others->values[j];
            planned |= record_is_planned(ours->results.records[i]) || record_is_planned(others->results.records[j]);
        }
    }
    struct sample_mean mean = sample_mean(values, count);
    double half = sample_half_interval(mean, count, 0);
    if (count && isfinite(mean.estimate))
        *figure = (struct claim_figure){mean.estimate, mean.estimate - half, mean.estimate + half, planned, NAN};
    free(values);
}

// The greatest value that the paper reports for its method with the model and the training of a record, on its
// card.
static double published_greatest(const struct published_file *file, const char *method, const struct record *record)
{
    const struct record_trial *trial = &record->trial;
    const char *training = json_is_object(trial->lora) ? "lora" : "full", *model = json_string_value(trial->model);
    double greatest = NAN;
    for (size_t i = 0; i < file->count; i++) {
        const struct published_point *point = &file->points[i];
        if (strcmp(point->method, method) == 0 && model && strcmp(point->model, model) == 0 &&
            strcmp(point->training, training) == 0 && trial->profile && strcmp(point->profile, trial->profile) == 0)
            greatest = fmax(greatest, point->value);
    }
    return greatest;
}

static bool take_published(struct claim_figure *figure, const struct claim_query *query, const struct side *others,
                           struct status *status)
{
    struct published published;
    bool fine = published_load(&published, NULL, status);
    const struct published_file *file =
        fine ? published_find(&published, query->points, PUBLISHED_MAX_CONTEXT) : NULL;
    if (fine && !file)
        fine =
            status_set(status, STATUS_BAD_INPUT, "points: no file of longest contexts of \"%.60s\"", query->points);
    for (size_t i = 0; fine && i < others->results.count; i++) {
        const struct record *record = others->results.records[i];
        double ratio = published_greatest(file, query->method, record) / others->values[i],
               greatest = fmax(figure->high, ratio);
        consider(figure, TAKE_MIN, exact(ratio), record, record_is_planned(record));
        if (isfinite(ratio))
            figure->high = greatest;
    }
    published_free(&published);
    return fine;
}

static bool knows_keys(const char *const *apart, struct status *status)
{
    struct names known = {0};
    char hint[640];
    trial_key_names(&known, trial_keys);
    for (size_t i = 0; apart && apart[i]; i++) {
        names_hint(&known, apart[i], "known keys", hint, sizeof hint);
        if (names_find(&known, apart[i]) == known.count)
            return status_set(status, STATUS_BAD_INPUT, "apart: no key \"%.60s\"; %s", apart[i], hint);
    }
    return true;
}

struct claim_figure claim_figure_none(void)
{
    return (struct claim_figure){.value = NAN, .low = NAN, .high = NAN, .context = NAN};
}

bool claim_figure_take(struct claim_figure *figure, const struct claim_query *query, struct status *status)
{
    struct side ours = {0}, others = {0};
    bool paired = query->take >= TAKE_MIN_RATIO && query->take <= TAKE_MEAN_DIFFERENCE;
    *figure = claim_figure_none();
    bool fine = knows_keys(query->apart, status) && side_open(&ours, query, query->of, status) &&
                (!paired || side_open(&others, query, query->over, status));
    if (fine && query->take == TAKE_PUBLISHED_OVER)
        fine = take_published(figure, query, &ours, status);
    else if (fine && query->take == TAKE_RATIO_OF_MAX)
        take_greatest(figure, &ours, &others);
    else if (fine && query->take == TAKE_MEAN_DIFFERENCE)
        take_difference(figure, &ours, &others);
    else if (fine && paired)
        take_pairs(figure, query, &ours, &others);
    else if (fine)
        take_one(figure, query->take, &ours);
    side_close(&ours);
    side_close(&others);
    return fine;
}
