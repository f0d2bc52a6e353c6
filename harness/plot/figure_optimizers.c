// Memory by optimizer: resident bytes and a step's peak: a row per record, grouped by optimizer with options and
// LoRA; after a group the published peaks of runs, by optimizer and trainable parameters.
#include "harness/plot/figure.h"
#include "kernels/base/status.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MARK "run" // of points for a whole run instead of a part

struct group_name {
    char text[96];
};

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

// The optimizer with options that affect its memory, except when a unit is updated.
static struct group_name name_of(const struct record *record)
{
    const json_t *optimizer = record->trial.optimizer, *rank = json_object_get(optimizer, "rank");
    const char *state = text_of(optimizer, "state"), *name = text_of(optimizer, "name");
    struct group_name group;
    char directions[32] = "";
    if (json_is_integer(rank))
        snprintf(directions, sizeof directions, ", rank %d", (int)json_integer_value(rank));
    bool master = strcmp(name, "adamw") == 0 && strcmp(text_of(optimizer, "master"), "f32") == 0;
    bool narrow = strcmp(state, "bf16") == 0 || strcmp(state, "8bit") == 0;
    snprintf(group.text, sizeof group.text, "%s%.30s%s%.10s%s%s", strcmp(name, "adamw") == 0 ? "AdamW" : name,
             directions, narrow ? ", state " : "", narrow ? state : "", master ? ", f32 master" : "",
             json_is_object(record->trial.lora) && strcmp(name, "adamw") == 0 ? ", LoRA" : "");
    return group;
}

static bool counts(const struct record *record)
{
    return record->status == RECORD_OK && json_is_object(record->trial.optimizer) && isfinite(record->peak_bytes) &&
           isfinite(record->resident_bytes) && !json_is_object(record->trial.train);
}

// A record's group number, from 1, in order of occurrence.
static size_t group_of(const struct record *const *records, size_t count, size_t i)
{
    struct group_name own = name_of(records[i]);
    size_t group = 1;
    for (size_t r = 0; r < count; r++) {
        bool first = counts(records[r]);
        if (first && strcmp(name_of(records[r]).text, own.text) == 0)
            break;
        for (size_t b = 0; b < r && first; b++)
            first = !counts(records[b]) || strcmp(name_of(records[b]).text, name_of(records[r]).text) != 0;
        group += first;
    }
    return group;
}

// bytes: resident, peak, published; NaN: not in this row.
static void put_row(struct figure_table *table, size_t series, const char *method, const char *label, size_t group,
                    const char *name, const double bytes[3])
{
    figure_table_row(table, series, method, 0, "%s", label);
    FIGURE_NUMBERS(table, (double)group);
    figure_table_word(table, name);
    figure_table_numbers(table, bytes, 3);
}

static bool is_beside(const struct published_point *point, const struct record *record)
{
    const char *trained = json_is_object(record->trial.lora) ? "lora" : "full";
    return strcmp(point->mark, MARK) == 0 && strcmp(point->training, trained) == 0 &&
           strcmp(point->optimizer, text_of(record->trial.optimizer, "name")) == 0;
}

// Tells whether record i is the last of its group, and the group the first that matches the point.
static bool is_put_behind(const struct record *const *records, size_t count, size_t i,
                          const struct published_point *point)
{
    size_t first = 0, group = group_of(records, count, i);
    while (first < count && !(counts(records[first]) && is_beside(point, records[first])))
        first++;
    bool last = first < count && group_of(records, count, first) == group;
    for (size_t r = i + 1; r < count && last; r++)
        last = !counts(records[r]) || group_of(records, count, r) != group;
    return last;
}

static bool tabulate_beside(const struct record *const *records, size_t count, const struct published_file *file,
                            struct figure_table *table)
{
    size_t series = 0;
    figure_table_columns(table, "group\tgroup_label\tresident\tpeak\tpublished");
    for (size_t i = 0; i < count; i++) {
        if (!counts(records[i]))
            continue;
        struct group_name name = name_of(records[i]);
        size_t group = group_of(records, count, i);
        put_row(table, ++series, record_method(records[i]), record_method(records[i]), group, name.text,
                (double[]){records[i]->resident_bytes, records[i]->peak_bytes, NAN});
        for (size_t p = 0; file && p < file->count; p++)
            if (is_put_behind(records, count, i, &file->points[p]))
                put_row(table, ++series, "published", file->points[p].series, group, name.text,
                        (double[]){NAN, NAN, file->points[p].value});
    }
    return series > 1;
}

static bool tabulate(const struct record *const *records, size_t count, struct figure_table *table)
{
    return tabulate_beside(records, count, NULL, table);
}

static const char *const along[] = {"optimizer", "lora", NULL};

const struct figure figure_optimizers = {
    .name = "optimizers",
    .own_axes = true,
    .needs = "two records with an optimizer at one context, which do not train",
    .one_context = true,
    .within = along,
    .tabulate = tabulate,
    .quantity = PUBLISHED_RESIDENT,
    .tabulate_beside = tabulate_beside,
};
