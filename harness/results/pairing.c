#include "harness/results/pairing.h"
#include "harness/results/step_time.h"
#include "methods/method.h"
#include <math.h>
#include <string.h>

static const json_t *trial_of(const json_t *record)
{
    return json_object_get(record, "trial");
}

static const json_t *method_of(const json_t *record)
{
    return json_object_get(trial_of(record), "method");
}

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static size_t count_at(const json_t *object, const char *key)
{
    return (size_t)json_integer_value(json_object_get(object, key));
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static const char *model_of(const json_t *record)
{
    const json_t *model = json_object_get(trial_of(record), "model");
    return json_is_object(model) ? text(model, "name") : text(trial_of(record), "model");
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

static bool same_curve(const struct curve *curve, const json_t *record, size_t chunk)
{
    const json_t *first = curve->pairs[0].record;
    return strcmp(curve->model, model_of(record)) == 0 && curve->chunk == chunk &&
           strcmp(curve->method, text(method_of(record), "name")) == 0 &&
           strcmp(curve->kv_gradient_dtype, text(trial_of(record), "kv_gradient_dtype")) == 0 &&
           json_equal(json_object_get(method_of(first), "head_chunk"),
                      json_object_get(method_of(record), "head_chunk")) &&
           json_equal(json_object_get(method_of(first), "keep"), json_object_get(method_of(record), "keep"));
}

// SpaCO draws no more columns than there are: the paper's budget then means all of them.
static bool matches(const struct published_point *point, const json_t *record)
{
    const json_t *method = method_of(record);
    size_t chunk = count_at(method, "chunk"), context = count_at(trial_of(record), "context");
    size_t columns = chunk ? (context + chunk - 1) / chunk : 1;
    return point->context == context && strcmp(point->method, text(method, "name")) == 0 &&
           (!*point->model || strcmp(point->model, model_of(record)) == 0) &&
           (!point->chunk || point->chunk == chunk) &&
           (!point->budget || count_at(method, "budget") == (point->budget < columns ? point->budget : columns));
}

static struct pair make_pair(const struct published_file *file, const json_t *record)
{
    const char *status = text(record, "status");
    bool ok = strcmp(status, "ok") == 0, memory = file->quantity == PUBLISHED_MEMORY;
    struct step_time measured = step_time_of(record), estimate = step_time_estimate(record);
    struct step_time time = isfinite(measured.ms) ? measured : estimate;
    struct pair pair = {.context = number(trial_of(record), "context"),
                        .record = record,
                        .ours = !ok      ? NAN
                                : memory ? number(record, "peak_bytes")
                                         : time.ms,
                        .columns = ok && !memory ? time.columns : NAN,
                        .floor = ok && memory ? number(record, "lower_bound_bytes") : NAN,
                        .limit = number(json_object_get(trial_of(record), "limits"), "memory"),
                        .oom = strcmp(status, "oom") == 0,
                        .estimated = !isfinite(measured.ms)};
    for (size_t i = 0; i < file->count; i++)
        if (matches(&file->points[i], record))
            pair.published = &file->points[i];
    return pair;
}

static void add_record(struct pairing *pairing, const json_t *record)
{
    const struct published_file *file = pairing->file;
    const char *method = text(method_of(record), "name");
    bool any, says = says_chunk(file, method, &any);
    size_t chunk = any && !says ? 0 : count_at(method_of(record), "chunk"), at = 0;
    while (at < pairing->curve_count && !same_curve(&pairing->curves[at], record, chunk))
        at++;
    if (at == pairing->curve_count) {
        pairing->curves = realloc(pairing->curves, ++pairing->curve_count * sizeof *pairing->curves);
        CHECK(pairing->curves);
        pairing->curves[at] = (struct curve){.model = model_of(record),
                                             .method = method,
                                             .kv_gradient_dtype = text(trial_of(record), "kv_gradient_dtype"),
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
    const json_t *own = method_of(curve->pairs[0].record);
    bool kv = false, head = false, keep = false;
    for (size_t i = 0; i < pairing->curve_count; i++) {
        const struct curve *other = &pairing->curves[i];
        const json_t *theirs = method_of(other->pairs[0].record);
        if (!rivals(curve, other))
            continue;
        kv |= strcmp(curve->kv_gradient_dtype, other->kv_gradient_dtype) != 0;
        head |= count_at(own, "head_chunk") != count_at(theirs, "head_chunk");
        keep |= strcmp(text(own, "keep"), text(theirs, "keep")) != 0;
        curve->again |= other < curve;
    }
    size_t used = (size_t)snprintf(curve->label, sizeof curve->label, "%s", curve->method);
#define ADD(...) used += (size_t)snprintf(curve->label + used, sizeof curve->label - used, __VA_ARGS__)
    if (curve->chunk)
        ADD(", chunk %zu", curve->chunk);
    if (kv)
        ADD(", dKV %s", curve->kv_gradient_dtype);
    bool all = strcmp(text(own, "keep"), "all") == 0, at_once = count_at(own, "head_chunk") == 0;
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

void pairing_make(struct pairing *pairing, const struct published_file *file, const json_t *const *records,
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
