// Lost updates: the part of an optimizer's updates that rounding weights to bf16 loses, a series per rounding and a
// row per rate; means over a training run's steps.
#include "harness/plot/figure.h"
#include "kernels/base/status.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct row {
    char label[120];
    char *key; // method and optimizer without the rate: common to a series
    double rate, unchanged, lost;
};

static double mean(const struct number_list *list)
{
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (isfinite(list->items[i])) {
            sum += list->items[i];
            count++;
        }
    }
    return count ? sum / (double)count : NAN;
}

static const char *text_of(const struct record *record, const char *key)
{
    const char *text = json_string_value(json_object_get(record->trial.optimizer, key));
    return text ? text : "";
}

static struct row row_of(const struct record *record)
{
    const json_t *rate = json_object_get(record->trial.optimizer, "rate");
    struct row row = {.rate = json_is_number(rate) ? json_number_value(rate) : NAN,
                      .unchanged = mean(&record->curve->unchanged_weights),
                      .lost = mean(&record->curve->lost_updates)};
    bool master = strcmp(text_of(record, "master"), "f32") == 0;
    bool stochastic = strcmp(text_of(record, "round"), "stochastic") == 0;
    snprintf(row.label, sizeof row.label, "%.40s, %.40s, %s", record_method(record), text_of(record, "name"),
             master       ? "master in f32"
             : stochastic ? "rounded stochastically"
                          : "rounded to nearest");
    json_t *optimizer = json_copy((json_t *)record->trial.optimizer);
    CHECK(optimizer && json_object_del(optimizer, "rate") == 0);
    json_t *key = json_pack("[O, o]", record->trial.method, optimizer);
    row.key = key ? json_dumps(key, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    CHECK(row.key);
    json_decref(key);
    return row;
}

static int by_label(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    int order = strcmp(x->label, y->label);
    order = order ? order : strcmp(x->key, y->key);
    return order ? order : (x->rate > y->rate) - (x->rate < y->rate);
}

// Some label must have two rates.
static bool tabulate(const struct record *const *records, size_t count, struct figure_table *table)
{
    struct row *rows = calloc(count + 1, sizeof *rows);
    size_t kept = 0, series = 0;
    bool enough = false;
    for (size_t i = 0; i < count; i++) {
        if (records[i]->status == RECORD_OK && records[i]->curve->lost_updates.count > 0) {
            rows[kept] = row_of(records[i]);
            if (isfinite(rows[kept].rate) && isfinite(rows[kept].lost))
                kept++;
            else
                free(rows[kept].key);
        }
    }
    qsort(rows, kept, sizeof *rows, by_label);
    figure_table_columns(table, "rate\tunchanged\tlost");
    for (size_t i = 0; i < kept; i++) {
        bool same = i > 0 && strcmp(rows[i].key, rows[i - 1].key) == 0;
        series += !same;
        enough = enough || (same && rows[i].rate != rows[i - 1].rate);
        figure_table_row(table, series, rows[i].label, series - 1, "%s", rows[i].label);
        FIGURE_NUMBERS(table, rows[i].rate, rows[i].unchanged, rows[i].lost);
    }
    for (size_t i = 0; i < kept; i++)
        free(rows[i].key);
    free(rows);
    return enough;
}

static const char *const along_rates[] = {"optimizer", NULL};

const struct figure figure_lost_updates = {
    .name = "lost-updates",
    .panels = "unchanged,lost",
    .part = "lost_updates",
    .needs = "\"lost_updates\": true at two rates or more of a training run in bf16",
    .one_context = true,
    .within = along_rates,
    .tabulate = tabulate,
};
