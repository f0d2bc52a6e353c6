// Published points: our curves as lines, the paper's points as marks, with a panel per model or, for one model, per
// method that the paper distinguishes by chunk.
#include "harness/papers/pairing.h"
#include "harness/plot/figure.h"
#include <math.h>
#include <string.h>

// A panel's name; curves with equal names share it.
struct panel_name {
    char text[160];
};

static bool several_models(const struct pairing *pairing)
{
    for (size_t i = 1; i < pairing->curve_count; i++)
        if (strcmp(pairing->curves[i].model, pairing->curves[0].model) != 0)
            return true;
    return false;
}

static bool any_published_chunk(const struct pairing *pairing)
{
    bool any = false;
    for (size_t i = 0; i < pairing->curve_count; i++)
        any |= pairing->curves[i].published_chunk;
    return any;
}

static bool several_kv_dtypes(const struct pairing *pairing, const struct curve *curve)
{
    for (size_t i = 0; i < pairing->curve_count; i++) {
        const struct curve *other = &pairing->curves[i];
        if (strcmp(other->method, curve->method) == 0 &&
            strcmp(other->kv_gradient_dtype, curve->kv_gradient_dtype) != 0)
            return true;
    }
    return false;
}

static struct panel_name panel_of(const struct pairing *pairing, const struct curve *curve)
{
    struct panel_name name;
    const json_t *lora = curve->pairs[0].record->trial.lora;
    if (several_models(pairing) && json_is_object(lora))
        snprintf(name.text, sizeof name.text, "%.100s, LoRA rank %d", curve->model,
                 (int)json_integer_value(json_object_get(lora, "rank")));
    else if (several_models(pairing))
        snprintf(name.text, sizeof name.text, "%.100s, all weights trained", curve->model);
    else if (!any_published_chunk(pairing))
        snprintf(name.text, sizeof name.text, "%.100s", curve->model);
    else if (!curve->published_chunk)
        snprintf(name.text, sizeof name.text, "other methods");
    else if (several_kv_dtypes(pairing, curve))
        snprintf(name.text, sizeof name.text, "%.60s, dKV in %s", curve->method, curve->kv_gradient_dtype);
    else
        snprintf(name.text, sizeof name.text, "%.60s", curve->method);
    return name;
}

// The panel's number, from 1, in the order of curves; "other methods" come last.
static size_t panel_index(const struct pairing *pairing, size_t curve)
{
    struct panel_name own = panel_of(pairing, &pairing->curves[curve]);
    bool models = several_models(pairing), last = !models && !pairing->curves[curve].published_chunk;
    size_t index = 1;
    for (size_t i = 0; i < pairing->curve_count; i++) {
        struct panel_name name = panel_of(pairing, &pairing->curves[i]);
        bool counts = models || pairing->curves[i].published_chunk;
        for (size_t j = 0; j < i && counts; j++)
            counts = strcmp(panel_of(pairing, &pairing->curves[j]).text, name.text) != 0;
        if (!last && strcmp(name.text, own.text) == 0)
            break;
        index += counts;
    }
    return index;
}

// Number of earlier curves in its panel with the same method and chunk.
static size_t rank_of(const struct pairing *pairing, size_t curve)
{
    const struct curve *own = &pairing->curves[curve];
    size_t rank = 0;
    for (size_t i = 0; i < curve; i++) {
        const struct curve *other = &pairing->curves[i];
        rank += panel_index(pairing, i) == panel_index(pairing, curve) && strcmp(other->method, own->method) == 0 &&
                other->chunk == own->chunk;
    }
    return rank;
}

// Tells whether an earlier curve of its panel has the same point.
static bool is_drawn(const struct pairing *pairing, size_t curve, const struct published_point *point)
{
    for (size_t i = 0; i < curve; i++) {
        bool together = panel_index(pairing, i) == panel_index(pairing, curve);
        for (size_t j = 0; together && j < pairing->curves[i].count; j++)
            if (pairing->curves[i].pairs[j].published == point)
                return true;
    }
    return false;
}

static void curve_rows(struct figure_table *table, const struct pairing *pairing, size_t index)
{
    const struct curve *curve = &pairing->curves[index];
    size_t rank = rank_of(pairing, index);
    bool oom = false; // only the shortest or smallest that does not fit is marked
    for (size_t i = 0; i < curve->count; i++) {
        const struct pair *pair = &curve->pairs[i];
        char chunk[40];
        snprintf(chunk, sizeof chunk, "chunk %zu", curve->chunk);
        figure_table_row(table, index + 1, curve->method, rank, "%s",
                         curve->published_chunk ? chunk : curve->label);
        FIGURE_NUMBERS(table, (double)panel_index(pairing, index));
        figure_table_word(table, panel_of(pairing, curve).text);
        FIGURE_NUMBERS(table, curve->published_chunk ? (double)curve->chunk : 0);
        figure_table_word(table, published_axis_name(pairing->file->axis));
        figure_table_word(table, pairing->file->per_sample ? "sample" : "step");
        bool beside = pair->published && !is_drawn(pairing, index, pair->published);
        FIGURE_NUMBERS(table, pair->at, pair->ours, beside ? pair->published->value : NAN, pair->limit,
                       pair->oom && !oom);
        oom |= pair->oom;
    }
}

// Some point must match one of ours.
static bool tabulate(const struct record *const *records, size_t count, const struct published_file *file,
                     struct figure_table *table)
{
    struct pairing pairing;
    pairing_make(&pairing, file, records, count);
    bool enough = false;
    figure_table_columns(table, "panel\tpanel_label\tchunk\taxis\tof");
    figure_table_columns(table, published_axis_name(file->axis));
    figure_table_columns(table, "ours\tpublished\tlimit_bytes\toom");
    for (size_t c = 0; c < pairing.curve_count; c++) {
        curve_rows(table, &pairing, c);
        for (size_t i = 0; i < pairing.curves[c].count; i++)
            enough |= pairing.curves[c].pairs[i].published && isfinite(pairing.curves[c].pairs[i].ours);
    }
    pairing_free(&pairing);
    return enough;
}

static const char *const any_setting[] = {"model", "lora", "kv_gradient_dtype", "batch", "limits", "data",
                                          "seed",  NULL};

// The same with other frameworks' steps beside this program's.
static const char *const any_framework[] = {
    "model",     "lora",           "kv_gradient_dtype", "batch", "limits", "data", "seed", "device",
    "framework", "gradient_dtype", "attention_queries", NULL};

const struct figure figure_published_memory = {
    .name = "published-memory",
    .own_axes = true,
    .row_panels = true,
    .peaks = true,
    .needs = "peak_bytes of an experiment that has published points",
    .within = any_framework,
    .quantity = PUBLISHED_MEMORY,
    .tabulate_beside = tabulate,
};

const struct figure figure_published_time = {
    .name = "published-time",
    .times = true,
    .own_axes = true,
    .row_panels = true,
    .needs = "times or estimates of an experiment that has published points",
    .estimates = true,
    .within = any_setting,
    .quantity = PUBLISHED_TIME,
    .tabulate_beside = tabulate,
};
