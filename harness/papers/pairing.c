#include "harness/papers/pairing.h"
#include "harness/papers/framework_label.h"
#include "harness/record/record_json.h"
#include "harness/record/recorded_key.h"
#include "harness/record/recorded_method.h"
#include "harness/record/step_time.h"
#include "harness/spec/method_decode.h"
#include "harness/spec/trial_key_decode.h"
#include "harness/spec/trial_text.h"
#include "harness/text/text.h"
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

// Tells whether the paper gives a chunk for a method's points; *any: whether it has points of the method.
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

// The common setting of a curve's records: the trial without its axis and drawn chunks; with chunk 0, if chunks do
// not distinguish curves, also without the chunk. A new reference.
static json_t *curve_setting(const struct record *record, enum published_axis axis, size_t chunk)
{
    json_t *trial = record_trial_json(&record->trial), *setting = trial_recorded(trial),
           *options = json_copy((json_t *)record->trial.method);
    const struct method *method = method_find(record_method(record));
    const struct option *drawn = method ? option_draws(&method->options) : NULL;
    if (drawn)
        json_object_del(options, drawn->name);
    if (!chunk)
        json_object_del(options, "chunk");
    json_object_del(setting, "measure");
    json_object_del(setting, published_axis_name(axis));
    json_object_set_new(setting, "method", options);
    json_decref(trial);
    return setting;
}

static double at_of(const struct record *record, enum published_axis axis)
{
    return axis == PUBLISHED_BATCH ? record->trial.batch : record->trial.context;
}

static bool matches(const struct published_point *point, const struct record *record)
{
    size_t context = (size_t)record->trial.context;
    return (!point->context || point->context == context) &&
           (!point->batch || point->batch == (size_t)record->trial.batch) &&
           (!*point->model || strcmp(point->model, model_of(record)) == 0) &&
           recorded_method_is(record->trial.method, point, context);
}

static struct pair make_pair(const struct published_file *file, const struct record *record)
{
    bool ok = record->status == RECORD_OK, memory = file->quantity == PUBLISHED_MEMORY;
    struct step_time measured = step_time_of(record), estimate = step_time_estimate(record);
    struct step_time time = isfinite(measured.ms) ? measured : estimate;
    double ours = memory ? record->peak_bytes : time.ms;
    struct pair pair = {.at = at_of(record, file->axis),
                        .record = record,
                        .ours = ok ? ours / (file->per_sample ? record->trial.batch : 1) : NAN,
                        .drawn_chunks = ok && !memory ? time.drawn_chunks : NAN,
                        .floor = ok && memory ? record->lower_bound_bytes : NAN,
                        .limit = record->trial.limits->memory,
                        .oom = record->status == RECORD_OOM,
                        .estimated = !isfinite(measured.ms)};
    for (size_t i = 0; i < file->count; i++)
        if (matches(&file->points[i], record))
            pair.published = &file->points[i];
    return pair;
}

// State while records are grouped into curves.
struct sorting {
    struct pairing *pairing;
    json_t *places; // {setting: index of the curve}
    size_t key_count;
    const struct trial_key *keys[TRIAL_KEYS_MAX]; // in which a curve's records agree, besides the method
};

static struct curve *new_curve(const struct sorting *sorting, json_t *setting, const char *text)
{
    struct pairing *pairing = sorting->pairing;
    size_t at = pairing->curve_count++;
    pairing->curves = realloc(pairing->curves, pairing->curve_count * sizeof *pairing->curves);
    CHECK(json_object_set_new(sorting->places, text, json_integer((json_int_t)at)) == 0);
    pairing->curves[at] = (struct curve){.setting = json_incref(setting)};
    return &pairing->curves[at];
}

// Quick lookup by single keys; NULL: compare the whole setting.
static struct curve *surely_of(const struct sorting *sorting, const struct record *record)
{
    for (size_t i = 0; i < sorting->pairing->curve_count; i++) {
        struct curve *curve = &sorting->pairing->curves[i];
        const struct record *other = curve->pairs[curve->count - 1].record;
        bool alike = other->trial.method == record->trial.method;
        for (size_t k = 0; alike && k < sorting->key_count; k++)
            alike = recorded_key_alike(sorting->keys[k], other, record);
        if (alike)
            return curve;
    }
    return NULL;
}

static struct curve *curve_of(const struct sorting *sorting, const struct record *record)
{
    struct pairing *pairing = sorting->pairing;
    const char *method = record_method(record);
    bool any, says = says_chunk(pairing->file, method, &any);
    size_t chunk = any && !says ? 0 : option_count(record, "chunk");
    json_t *setting = curve_setting(record, pairing->file->axis, chunk);
    char *text = json_dumps(setting, JSON_COMPACT | JSON_SORT_KEYS);
    CHECK(text);
    const json_t *place = json_object_get(sorting->places, text);
    struct curve *curve = place ? &pairing->curves[json_integer_value(place)] : new_curve(sorting, setting, text);
    if (!place) {
        curve->model = model_of(record);
        curve->method = method;
        curve->kv_gradient_dtype = kv_gradient_dtype_of(record);
        curve->framework = record->framework;
        curve->chunk = chunk;
        curve->published_chunk = says;
    }
    free(text);
    json_decref(setting);
    return curve;
}

static void add_record(const struct sorting *sorting, const struct record *record)
{
    struct curve *curve = surely_of(sorting, record);
    if (!curve)
        curve = curve_of(sorting, record);
    if ((curve->count & (curve->count - 1)) == 0) // room for twice as many
        curve->pairs = realloc(curve->pairs, (curve->count ? 2 * curve->count : 1) * sizeof *curve->pairs);
    curve->pairs[curve->count] = make_pair(sorting->pairing->file, record);
    curve->pairs[curve->count].number = curve->count;
    curve->count++;
}

static int compare_pairs(const void *a, const void *b)
{
    const struct pair *left = a, *right = b;
    int order = (left->at > right->at) - (left->at < right->at);
    return order ? order : (left->number > right->number) - (left->number < right->number);
}

static void add_records(struct pairing *pairing, const struct record *const *records, size_t count)
{
    struct sorting sorting = {.pairing = pairing, .places = json_object()};
    CHECK(sorting.places);
    for (const struct trial_key *key = trial_keys; key->name; key++)
        if (key->type != KEY_METHOD && strcmp(key->name, "measure") != 0 &&
            strcmp(key->name, published_axis_name(pairing->file->axis)) != 0)
            sorting.keys[sorting.key_count++] = key;
    for (size_t i = 0; i < count; i++)
        add_record(&sorting, records[i]);
    for (size_t i = 0; i < pairing->curve_count; i++)
        qsort(pairing->curves[i].pairs, pairing->curves[i].count, sizeof(struct pair), compare_pairs);
    json_decref(sorting.places);
}

static size_t method_rank(const char *name)
{
    size_t rank = 0;
    while (methods[rank] && strcmp(methods[rank]->name, name) != 0)
        rank++;
    return rank;
}

// By method, then chunk; equal curves stay in the records' order, and models together.
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

static bool same_points(const struct curve *a, const struct curve *b)
{
    return strcmp(a->model, b->model) == 0 && strcmp(a->method, b->method) == 0 && a->chunk == b->chunk;
}

// Tells whether their labels say how they differ.
static bool rivals(const struct curve *a, const struct curve *b)
{
    return same_points(a, b) && a->framework->given == b->framework->given;
}

// Tells whether the curve and a similar one differ in this trial key or method option.
static bool tells_apart(const struct pairing *pairing, const struct curve *curve, const char *key,
                        const char *option)
{
    bool differ = false;
    for (size_t i = 0; i < pairing->curve_count; i++) {
        const struct curve *other = &pairing->curves[i];
        const json_t *own = json_object_get(curve->setting, key), *theirs = json_object_get(other->setting, key);
        if (option) {
            own = json_object_get(own, option);
            theirs = json_object_get(theirs, option);
        }
        differ |= rivals(curve, other) && own != theirs && !json_equal(own, theirs); // NULL: not recorded
    }
    return differ;
}

// Tells whether the paper's points specify an option.
static bool is_published(const struct published_file *file, const char *option)
{
    for (size_t i = 0; i < file->count; i++)
        for (size_t k = 0; k < file->points[i].option_count; k++)
            if (strcmp(file->points[i].options[k].option->name, option) == 0)
                return true;
    return false;
}

// Appends options that are not defaults and distinguish the curve or are specified in the paper; for baselines, in
// words.
static void append_options(const struct pairing *pairing, struct curve *curve)
{
    const struct method *method = method_find(curve->method);
    json_t *options = json_object_get(curve->setting, "method"),
           *defaults = method ? method_json(method, NULL) : NULL;
    bool at_once = option_count(curve->pairs[0].record, "head_chunk") == 0 &&
                   tells_apart(pairing, curve, "method", "head_chunk");
    bool all = strcmp(option_text(curve->pairs[0].record, "keep"), "all") == 0 &&
               tells_apart(pairing, curve, "method", "keep");
    if (at_once && all)
        text_append(curve->label, sizeof curve->label, ", as autograd");
    else if (at_once)
        text_append(curve->label, sizeof curve->label, ", logits at once");
    const char *name;
    json_t *value;
    json_object_foreach(options, name, value)
    {
        bool said = at_once && (strcmp(name, "head_chunk") == 0 || (all && strcmp(name, "keep") == 0));
        bool tells = tells_apart(pairing, curve, "method", name) || is_published(pairing->file, name);
        if (said || !tells || json_equal(value, json_object_get(defaults, name)))
            continue;
        char *text = named_option_words(value, 0);
        text_append(curve->label, sizeof curve->label, ", %s %s", name, text);
        free(text);
    }
    json_decref(defaults);
}

// Labels a curve by method and chunk, and by whatever distinguishes it from similar ones.
static void label_curve(const struct pairing *pairing, struct curve *curve)
{
    for (size_t i = 0; i < pairing->curve_count; i++)
        curve->again |= &pairing->curves[i] < curve && same_points(curve, &pairing->curves[i]);
    snprintf(curve->label, sizeof curve->label, "%s", curve->method);
    if (curve->chunk)
        text_append(curve->label, sizeof curve->label, ", chunk %zu", curve->chunk);
    if (curve->framework->given)
        framework_label(curve->framework, json_object_get(curve->setting, "framework"), curve->label,
                        sizeof curve->label);
    for (const struct trial_key *key = trial_keys; key->name; key++) {
        const json_t *value = json_object_get(curve->setting, key->name);
        char words[100];
        if (key->type == KEY_METHOD || !value || !tells_apart(pairing, curve, key->name, NULL))
            continue;
        if (strcmp(key->name, "kv_gradient_dtype") == 0)
            snprintf(words, sizeof words, "dKV %s", curve->kv_gradient_dtype);
        else
            trial_key_text(key, value, words, sizeof words);
        text_append(curve->label, sizeof curve->label, ", %s", words);
    }
    append_options(pairing, curve);
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
    add_records(pairing, records, count);
    sort_curves(pairing);
    for (size_t i = 0; i < pairing->curve_count; i++)
        label_curve(pairing, &pairing->curves[i]);
    for (size_t i = 0; i < file->count; i++)
        pairing->missing += *file->points[i].method && !is_paired(pairing, &file->points[i]);
}

void pairing_free(struct pairing *pairing)
{
    for (size_t i = 0; i < pairing->curve_count; i++) {
        free(pairing->curves[i].pairs);
        json_decref(pairing->curves[i].setting);
    }
    free(pairing->curves);
    *pairing = (struct pairing){0};
}
