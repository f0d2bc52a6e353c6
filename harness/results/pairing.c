#include "harness/results/pairing.h"
#include "harness/results/recorded_method.h"
#include "harness/results/step_time.h"
#include "methods/method.h"
#include <math.h>
#include <string.h>

static const char *option_text(const struct record *record, const char *name)
{
    return text_or(json_string_value(record_option(record, name)), "");
}

static size_t option_count(const struct record *record, const char *name)
{
    return (size_t)json_integer_value(record_option(record, name));
}

static const char *model_of(const struct record *record)
{
    const json_t *model = record->trial.model;
    return text_or(json_string_value(json_is_object(model) ? json_object_get(model, "name") : model), "");
}

static const char *kv_gradient_dtype_of(const struct record *record)
{
    return text_or(record->trial.kv_gradient_dtype, "");
}

// Whether the paper's points of a method say a chunk; *any: whether it has points of it at all.
static bool says_chunk(const struct published_file *file, const char *method, bool *any)
{
    bool says = false;
    *any = false;
    for (size_t i = 0; i < file->count; i++) {
        bool own = strcmp(file->points[i].method, method) == 0;
        *any |= own;
        says |= own && file->points[i].chunk > 0;
    }
    return says;
}

static bool same_curve(const struct curve *curve, const struct record *record, size_t chunk)
{
    const struct record *first = curve->pairs[0].record;
    return strcmp(curve->model, model_of(record)) == 0 && curve->chunk == chunk &&
           strcmp(curve->method, record_method(record)) == 0 &&
           strcmp(curve->kv_gradient_dtype, kv_gradient_dtype_of(record)) == 0 &&
           json_equal(record_option(first, "head_chunk"), record_option(record, "head_chunk")) &&
           json_equal(record_option(first, "keep"), record_option(record, "keep"));
}

static bool matches(const struct published_point *point, const struct record *record)
{
    size_t context = (size_t)record->trial.context;
    return point->context == context && (!*point->model || strcmp(point->model, model_of(record)) == 0) &&
           recorded_method_is(record->trial.method, point, context);
}

static struct pair make_pair(const struct published_file *file, const struct record *record)
{
    bool ok = record->status == RECORD_OK, memory = file->quantity == PUBLISHED_MEMORY;
    struct step_time measured = step_time_of(record), estimate = step_time_estimate(record);
    struct step_time time = isfinite(measured.ms) ? measured : estimate;
    struct pair pair = {.context = record->trial.context,
                        .record = record,
                        .ours = !ok      ? NAN
                                : memory ? record->peak_bytes
                                         : time.ms,
                        .columns = ok && !memory ? time.columns : NAN,
                        .floor = ok && memory ? record->lower_bound_bytes : NAN,
                        .limit = record->trial.limits.memory,
                        .oom = record->status == RECORD_OOM,
                        .estimated = !isfinite(measured.ms)};
    for (size_t i = 0; i < file->count; i++)
        if (matches(&file->points[i], record))
            pair.published = &file->points[i];
    return pair;
}

static void add_record(struct pairing *pairing, const struct record *record)
{
    const struct published_file *file = pairing->file;
    const char *method = record_method(record);
    bool any, says = says_chunk(file, method, &any);
    size_t chunk = any && !says ? 0 : option_count(record, "chunk"), at = 0;
    while (at < pairing->curve_count && !same_curve(&pairing->curves[at], record, chunk))
        at++;
    if (at == pairing->curve_count) {
        pairing->curves = realloc(pairing->curves, ++pairing->curve_count * sizeof *pairing->curves);
        CHECK(pairing->curves);
        pairing->curves[at] = (struct curve){.model = model_of(record),
                                             .method = method,
                                             .kv_gradient_dtype = kv_gradient_dtype_of(record),
                                             .chunk = chunk,
                                             .published_chunk = says};
    }
    struct curve *curve = &pairing->curves[at];
    curve->pairs = realloc(curve->pairs, (curve->count + 1) * sizeof *curve->pairs);
    CHECK(curve->pairs);
    struct pair pair = make_pair(file, record);
    size_t place = curve->count++;
    for (; place > 0 && curve->pairs[place - 1].context > pair.context; place--)
        curve->pairs[place] = curve->pairs[place - 1];
    curve->pairs[place] = pair;
}

static size_t method_rank(const char *name)
{
    size_t rank = 0;
    while (methods[rank] && strcmp(methods[rank]->name, name) != 0)
        rank++;
    return rank;
}

// By method, then chunk, in the order of the records between equals; models stay together as they came.
static bool comes_before(const struct curve *a, const struct curve *b)
{
    size_t i = method_rank(a->method), j = method_rank(b->method);
    return strcmp(a->model, b->model) == 0 && (i != j ? i < j : a->chunk < b->chunk);
}

static void sort_curves(struct pairing *pairing)
{
    for (size_t i = 1; i < pairing->curve_count; i++) {
        struct curve curve = pairing->curves[i];
        size_t at = i;
        for (; at > 0 && comes_before(&curve, &pairing->curves[at - 1]); at--)
            pairing->curves[at] = pairing->curves[at - 1];
        pairing->curves[at] = curve;
    }
}

static bool rivals(const struct curve *a, const struct curve *b)
{
    return strcmp(a->model, b->model) == 0 && strcmp(a->method, b->method) == 0 && a->chunk == b->chunk;
}

// A curve is called by its method and chunk, and by whatever else tells it from another of the same.
static void label_curve(const struct pairing *pairing, struct curve *curve)
{
    const struct record *own = curve->pairs[0].record;
    bool kv = false, head = false, keep = false;
    for (size_t i = 0; i < pairing->curve_count; i++) {
        const struct curve *other = &pairing->curves[i];
        const struct record *theirs = other->pairs[0].record;
        if (!rivals(curve, other))
            continue;
        kv |= strcmp(curve->kv_gradient_dtype, other->kv_gradient_dtype) != 0;
        head |= option_count(own, "head_chunk") != option_count(theirs, "head_chunk");
        keep |= strcmp(option_text(own, "keep"), option_text(theirs, "keep")) != 0;
        curve->again |= other < curve;
    }
    size_t used = (size_t)snprintf(curve->label, sizeof curve->label, "%s", curve->method);
#define ADD(...) used += (size_t)snprintf(curve->label + used, sizeof curve->label - used, __VA_ARGS__)
    if (curve->chunk)
        ADD(", chunk %zu", curve->chunk);
    if (kv)
        ADD(", dKV %s", curve->kv_gradient_dtype);
    bool all = strcmp(option_text(own, "keep"), "all") == 0, at_once = option_count(own, "head_chunk") == 0;
    if (head && keep && all && at_once)
        ADD(", as autograd");
    else if (head && at_once)
        ADD(", logits at once");
    else if (keep && all)
        ADD(", keep all");
#undef ADD
}

static bool is_paired(const struct pairing *pairing, const struct published_point *point)
{
    for (size_t c = 0; c < pairing->curve_count; c++)
        for (size_t i = 0; i < pairing->curves[c].count; i++)
            if (pairing->curves[c].pairs[i].published == point)
                return true;
    return false;
}

void pairing_make(struct pairing *pairing, const struct published_file *file, const struct record *const *records,
                  size_t count)
{
    *pairing = (struct pairing){.file = file};
    for (size_t i = 0; i < count; i++)
        add_record(pairing, records[i]);
    sort_curves(pairing);
    for (size_t i = 0; i < pairing->curve_count; i++)
        label_curve(pairing, &pairing->curves[i]);
    for (size_t i = 0; i < file->count; i++)
        pairing->missing += *file->points[i].method && !is_paired(pairing, &file->points[i]);
}

void pairing_free(struct pairing *pairing)
{
    for (size_t i = 0; i < pairing->curve_count; i++)
        free(pairing->curves[i].pairs);
    free(pairing->curves);
    *pairing = (struct pairing){0};
}
