#include "harness/papers/longest_contexts.h"
#include "harness/papers/framework_label.h"
#include "harness/record/record_json.h"
#include "harness/record/recorded_method.h"
#include "harness/spec/method_decode.h"
#include "harness/table/setting.h"
#include "harness/text/size.h"
#include "harness/text/text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static size_t count_at(const json_t *object, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(object, key));
    return value > 0 ? (size_t)value : 0;
}

// A record of a search for an extent, and its trial as requested, without the extent.
struct planned {
    const struct record *record;
    json_t *setting;
};

static bool is_batch(const struct record *record)
{
    return strcmp(text_or(record->search->sought, ""), "batch") == 0;
}

static bool is_extent(const struct record *record)
{
    return is_batch(record) || strcmp(text_or(record->search->sought, ""), "context") == 0;
}

static bool is_framework(const struct record *record)
{
    return record->framework->given;
}

static bool is_auto(const struct record *record)
{
    return strcmp(text_or(record->search->among, ""), method_auto.name) == 0;
}

static struct planned planned_of(const struct record *record)
{
    struct planned planned = {record, record_trial_json(&record->trial)};
    json_object_update(planned.setting, (json_t *)record->search->asked);
    json_object_del(planned.setting, is_batch(record) ? "batch" : "context");
    return planned;
}

static size_t limit_of(double bytes)
{
    return bytes > 0 ? (size_t)bytes : 0;
}

// Adds words to a list unless it has them.
static void add_words(char *list, size_t bytes, const char *separator, const char *words)
{
    if (*words && !strstr(list, words))
        text_append(list, bytes, "%s%s", *list ? separator : "", words);
}

static size_t cards_of(const json_t *setting)
{
    const json_t *parallel = json_object_get(setting, "parallel");
    static const char *const kinds[] = {"data", "sequence", "stage"};
    size_t cards = 1;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t ranks = count_at(parallel, kinds[i]);
        if (ranks && __builtin_mul_overflow(cards, ranks, &cards))
            cards = SIZE_MAX;
    }
    return cards;
}

static bool is_one_on_a_card(const json_t *setting)
{
    size_t batch = count_at(setting, "batch");
    return !batch || batch == cards_of(setting);
}

// Tokens per sequence of a max-batch record; otherwise 0.
static size_t batch_sequence(const struct planned *planned)
{
    return is_batch(planned->record) ? count_at(planned->setting, "context") : 0;
}

// Tells whether a point (one sequence per card) has the same model, training, cards, quantisation, optimizer and
// kind of memory.
static bool is_of_setting(const struct published_point *point, const struct planned *planned)
{
    const json_t *setting = planned->setting, *optimizer = json_object_get(setting, "optimizer");
    const char *training = json_is_object(json_object_get(setting, "lora")) ? "lora" : "full",
               *stepped = json_is_object(optimizer) ? text(optimizer, "name") : "";
    return *point->profile && strcmp(point->profile, text(setting, "profile")) == 0 &&
           strcmp(point->model, text(setting, "model")) == 0 &&
           (!*point->training || strcmp(point->training, training) == 0) &&
           strcmp(point->weights, text(setting, "weights")) == 0 && strcmp(point->optimizer, stepped) == 0 &&
           cards_of(setting) == (point->cards ? point->cards : 1) && is_one_on_a_card(setting) &&
           (strcmp(point->host, "yes") == 0) == (planned->record->trial.limits->host_memory > 0);
}

static bool is_beside(const struct published_point *point, const struct planned *planned)
{
    return !batch_sequence(planned) && is_of_setting(point, planned);
}

// Segments are this program's option; papers have none.
static bool has_segments(const json_t *method)
{
    static const char *const names[] = {"segments", "segment_starts"};
    const struct method *own = method_find(text(method, "name"));
    json_t *defaults = own ? method_json(own, NULL) : NULL;
    bool any = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *value = json_object_get(method, names[i]);
        any |= value && !json_equal(value, json_object_get(defaults, names[i]));
    }
    json_decref(defaults);
    return any;
}

// Tells whether the row has the point's method with the paper's options.
static bool is_of(const struct published_point *point, const json_t *method)
{
    return *point->method && recorded_method_is(method, point, 0) && !has_segments(method);
}

// The longest reported context for a row of ours; NaN if there is none.
static double reported(struct longest_contexts *contexts, const struct published *published,
                       const struct planned *planned)
{
    double longest = NAN;
    // Papers' baselines have a loss of whole logits.
    const json_t *loss = json_object_get(json_object_get(planned->setting, "framework"), "loss");
    if (is_auto(planned->record) || (loss && strcmp(json_string_value(loss), "whole") != 0))
        return NAN;
    for (size_t f = 0; f < published->count; f++) {
        const struct published_file *file = &published->files[f];
        for (size_t i = 0; file->quantity == PUBLISHED_MAX_CONTEXT && i < file->count; i++) {
            if (!is_beside(&file->points[i], planned) || !is_of(&file->points[i], planned->record->trial.method))
                continue;
            add_words(contexts->sources, sizeof contexts->sources, "; ", file->source);
            longest = fmax(longest, file->points[i].value);
        }
    }
    return longest;
}

// "qwen3-8b, bf16, all weights trained, dKV f32, gradients bf16, on rtx-3090: 23.19 GiB usable"
static void describe(const struct planned *planned, const json_t *setting, char *words, size_t bytes)
{
    char size[32];
    json_t *said = json_copy((json_t *)setting);
    const struct record_limits *limits = planned->record->trial.limits;
    size_t batch = count_at(setting, "batch"), cards = cards_of(planned->setting),
           sequence = batch_sequence(planned);
    // Limits and dtypes follow at the end.
    static const char *const untold[] = {"device",         "context", "batch",     "kv_gradient_dtype",
                                         "gradient_dtype", "method",  "limits",    "measure",
                                         "data",           "labels",  "reference", "seed"};
    for (size_t i = 0; i < sizeof untold / sizeof *untold; i++)
        json_object_del(said, untold[i]);
    setting_describe(said, 0, words, bytes);
    json_decref(said);
    if (batch % cards)
        text_append(words, bytes, ", batch %zu", batch);
    else if (batch / cards > 1)
        text_append(words, bytes, ", %zu sequences on a card", batch / cards);
    if (sequence)
        text_append(words, bytes, ", sequences of %zu tokens", sequence);
    const char *profile = text(setting, "profile"), *gradients = text(setting, "gradient_dtype");
    bool lora = json_is_object(json_object_get(setting, "lora")),
         told = strcmp(gradients, "bf16") == 0; // not the default
    const char *kv_gradients = text(setting, "kv_gradient_dtype");
    size_text(limit_of(limits->memory), size, sizeof size);
    text_append(words, bytes, "%s%s%s%s%s%.60s: %s usable", lora ? "" : ", all weights trained",
                *kv_gradients ? ", dKV " : "", kv_gradients, told ? ", gradients bf16" : "",
                *profile ? ", on " : "", profile, size);
    size_text(limit_of(limits->host_memory), size, sizeof size);
    if (limits->host_memory > 0)
        text_append(words, bytes, ", and %s of the host", size);
}

// "chunk 256, segments 6": main options, and those that differ from the defaults.
static void list_options(const json_t *method, char *list, size_t bytes)
{
    const struct method *own = method_find(text(method, "name"));
    json_t *defaults = own ? method_json(own, NULL) : NULL;
    for (const struct option *option = own ? own->options.rows : NULL; option && option->name; option++) {
        const json_t *value = json_object_get(method, option->name);
        if (!value || (!option->telling && json_equal(value, json_object_get(defaults, option->name))))
            continue;
        char *shown = named_option_words(value, 0);
        text_append(list, bytes, "%s%s %s", *list ? ", " : "", option->name, shown);
        free(shown);
    }
    json_decref(defaults);
}

// keys: of the framework. A chosen method's options go into `chosen`, with dKV if it is not as requested.
static void label_row(struct longest_row *row, const struct record *record, const json_t *keys)
{
    const json_t *method = record->trial.method;
    char options[sizeof row->chosen] = "";
    list_options(method, options, sizeof options);
    if (is_framework(record)) {
        text_append(row->label, sizeof row->label, "%s", row->method);
        framework_label(record->framework, keys, row->label, sizeof row->label);
        framework_details(keys, row->chosen, sizeof row->chosen);
        return;
    }
    if (!is_auto(record)) {
        text_append(row->label, sizeof row->label, "%s%s%s", row->method, *options ? ", " : "", options);
        return;
    }
    bool found = record->status == RECORD_OK;
    text_append(row->label, sizeof row->label, "%s%s%s", method_auto.name, found ? ": " : "",
                found ? text(method, "name") : "");
    if (!found)
        return;
    text_append(row->chosen, sizeof row->chosen, "%s", options);
    if (json_object_get(record->search->asked, "kv_gradient_dtype"))
        text_append(row->chosen, sizeof row->chosen, "%sdKV %s", *row->chosen ? ", " : "",
                    text_or(record->trial.kv_gradient_dtype, ""));
}

static struct longest_row *add_row(struct longest_contexts *contexts)
{
    contexts->rows = realloc(contexts->rows, (contexts->row_count + 1) * sizeof *contexts->rows);
    struct longest_row *row = &contexts->rows[contexts->row_count++];
    *row = (struct longest_row){.group = contexts->group_count,
                                .extent = NAN,
                                .forwards = NAN,
                                .published = NAN,
                                .mark = "",
                                .setting = ""};
    return row;
}

static void add_ours(struct longest_contexts *contexts, const struct planned *planned, const char *origin,
                     const struct published *published)
{
    const struct record *record = planned->record;
    const struct record_trial *trial = &record->trial;
    double value = reported(contexts, published, planned), forward = record->search->forward_flops;
    struct longest_row *row = add_row(contexts);
    text_append(row->method, sizeof row->method, "%s", is_auto(record) ? method_auto.name : record_method(record));
    label_row(row, record, json_object_get(planned->setting, "framework"));
    row->origin = origin;
    row->extent = record->status != RECORD_OK ? 0 : is_batch(record) ? trial->batch : trial->context;
    row->published = value;
    row->forwards = forward > 0 ? record->flops / forward : NAN;
    // "8 MiB for weights do not fit on the host: ..."
    text_append(row->limit, sizeof row->limit, "%s", text_or(record->search->beyond, ""));
    row->limit[strcspn(row->limit, ":")] = 0;
}

// Adds other methods' points, once each: with the planned in its group; NULL: the rest.
static void add_others(struct longest_contexts *contexts, const struct planned *planned,
                       const struct published *published, bool *taken)
{
    size_t n = 0;
    for (size_t f = 0; f < published->count; f++) {
        const struct published_file *file = &published->files[f];
        for (size_t i = 0; i < file->count; i++, n++) {
            const struct published_point *point = &file->points[i];
            if (file->quantity != PUBLISHED_MAX_CONTEXT || *point->method || taken[n] ||
                (planned && !is_beside(point, planned)))
                continue;
            taken[n] = true;
            struct longest_row *row = add_row(contexts);
            row->group = planned ? row->group : 0;
            text_append(row->label, sizeof row->label, "%s", point->series);
            row->published = point->value;
            row->mark = point->mark;
            row->setting = point->setting;
            row->source = file->source;
            if (planned && !strstr(contexts->sources, file->source))
                add_words(contexts->other_sources, sizeof contexts->other_sources, "; ", file->source);
        }
    }
}

static bool some_published(const struct longest_contexts *contexts)
{
    bool found = false;
    for (size_t i = 0; i < contexts->row_count; i++)
        found |= isfinite(contexts->rows[i].published);
    return found;
}

// Tells whether longest contexts are reported for the same model, training and card.
static bool is_reported_of(const struct planned *planned, const struct published *published)
{
    bool found = false;
    for (size_t f = 0; f < published->count; f++) {
        const struct published_file *file = &published->files[f];
        for (size_t i = 0; file->quantity == PUBLISHED_MAX_CONTEXT && i < file->count; i++)
            found |= *file->points[i].method && is_of_setting(&file->points[i], planned);
    }
    return found;
}

static void note_revision(struct longest_contexts *contexts, const struct record_provenance *provenance)
{
    char revision[80];
    snprintf(revision, sizeof revision, "%.20s%s", text_or(provenance->revision, ""),
             provenance->dirty == 1 ? " with changes" : "");
    add_words(contexts->revisions, sizeof contexts->revisions, ", ", revision);
}

static struct longest_group group_of(const struct planned *planned)
{
    struct longest_group group = {
        .words = "", .cards = cards_of(planned->setting), .batch_sequence = batch_sequence(planned)};
    snprintf(group.card, sizeof group.card, "%s", text(planned->setting, "profile"));
    json_t *alike = json_deep_copy(planned->setting);
    json_object_del(json_object_get(alike, "parallel"), "data");
    describe(planned, planned->setting, group.words, sizeof group.words);
    describe(planned, alike, group.alike, sizeof group.alike);
    static const char *const own[] = {"framework", "gradient_dtype", "kv_gradient_dtype", "attention_queries"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        json_object_del(alike, own[i]);
    describe(planned, alike, group.step, sizeof group.step);
    json_decref(alike);
    return group;
}

static size_t points_of(const struct published *published)
{
    size_t count = 0;
    for (size_t f = 0; f < published->count; f++)
        count += published->files[f].count;
    return count;
}

// State while records become rows.
struct sorting {
    struct longest_contexts *contexts;
    const struct results *results;
    const struct published *published;
    bool *taken;          // [results->count], records; and
    bool *shown;          // published points
    struct planned first; // of the group
};

static void take(struct sorting *sorting, size_t i, const struct planned *planned)
{
    struct longest_contexts *contexts = sorting->contexts;
    sorting->taken[i] = true;
    note_revision(contexts, &planned->record->provenance);
    contexts->batches_reported |= batch_sequence(planned) && is_reported_of(planned, sorting->published);
    add_ours(contexts, planned, sorting->results->origins[i], sorting->published);
}

// Rows of another framework's steps, whose group is that of their setting.
static void take_frameworks(struct sorting *sorting, const struct longest_group *group)
{
    for (size_t i = 0; i < sorting->results->count; i++) {
        const struct record *record = sorting->results->records[i];
        if (!is_extent(record) || !is_framework(record) || sorting->taken[i])
            continue;
        struct planned planned = planned_of(record);
        struct longest_group own = group_of(&planned);
        if (own.cards == group->cards && strcmp(own.step, group->step) == 0)
            take(sorting, i, &planned);
        json_decref(planned.setting);
    }
}

static void begin_group(struct sorting *sorting, const struct planned *planned, const struct longest_group *group)
{
    struct longest_contexts *contexts = sorting->contexts;
    if (sorting->first.record)
        add_others(contexts, &sorting->first, sorting->published, sorting->shown);
    json_decref(sorting->first.setting);
    sorting->first = (struct planned){planned->record, json_incref(planned->setting)};
    contexts->groups = realloc(contexts->groups, (contexts->group_count + 1) * sizeof *group);
    contexts->groups[contexts->group_count++] = *group;
    take_frameworks(sorting, group);
}

static void sort_records(struct sorting *sorting, bool frameworks)
{
    struct longest_contexts *contexts = sorting->contexts;
    for (size_t i = 0; i < sorting->results->count; i++) {
        const struct record *record = sorting->results->records[i];
        if (!is_extent(record) || is_framework(record) != frameworks || sorting->taken[i])
            continue;
        struct planned planned = planned_of(record);
        struct longest_group group = group_of(&planned);
        if (frameworks || !contexts->group_count ||
            strcmp(contexts->groups[contexts->group_count - 1].words, group.words) != 0)
            begin_group(sorting, &planned, &group);
        if (!frameworks)
            take(sorting, i, &planned);
        json_decref(planned.setting);
    }
}

void longest_contexts_open(struct longest_contexts *contexts, const struct results *results,
                           const struct published *published)
{
    *contexts = (struct longest_contexts){0};
    struct sorting sorting = {.contexts = contexts,
                              .results = results,
                              .published = published,
                              .taken = calloc(results->count + 1, sizeof *sorting.taken),
                              .shown = calloc(points_of(published) + 1, sizeof *sorting.shown)};
    CHECK(sorting.taken && sorting.shown);
    sort_records(&sorting, false);
    sort_records(&sorting, true); // without a plan of ours
    if (sorting.first.record)
        add_others(contexts, &sorting.first, published, sorting.shown);
    if (some_published(contexts))
        add_others(contexts, NULL, published, sorting.shown);
    json_decref(sorting.first.setting);
    free(sorting.taken);
    free(sorting.shown);
}

void longest_contexts_close(struct longest_contexts *contexts)
{
    free(contexts->groups);
    free(contexts->rows);
    *contexts = (struct longest_contexts){0};
}
