#include "harness/papers/longest_contexts.h"
#include "harness/json/json_source.h"
#include "harness/record/recorded_method.h"
#include "harness/spec/method_decode.h"
#include "harness/table/setting.h"
#include "harness/text/size.h"
#include "harness/text/text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NO_OUTPUT "not what `longbp max-context --json` or `longbp max-batch --json` prints"

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

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static bool is_auto(const json_t *method)
{
    return strcmp(text(method, "name"), method_auto.name) == 0;
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

// Tokens per sequence in a max-batch output; else 0.
static size_t batch_sequence(const json_t *output)
{
    bool batches = json_object_get(json_array_get(json_object_get(output, "methods"), 0), "max_batch");
    return batches ? count_at(json_object_get(output, "setting"), "context") : 0;
}

// Tells whether a point (one sequence per card) has the output's model, training, cards, quantisation, optimizer
// and kind of memory.
static bool is_of_setting(const struct published_point *point, const json_t *output)
{
    const json_t *setting = json_object_get(output, "setting"), *optimizer = json_object_get(setting, "optimizer");
    const char *training = json_is_object(json_object_get(setting, "lora")) ? "lora" : "full",
               *stepped = json_is_object(optimizer) ? text(optimizer, "name") : "";
    return *point->profile && strcmp(point->profile, text(setting, "profile")) == 0 &&
           strcmp(point->model, text(setting, "model")) == 0 &&
           (!*point->training || strcmp(point->training, training) == 0) &&
           strcmp(point->weights, text(setting, "weights")) == 0 && strcmp(point->optimizer, stepped) == 0 &&
           cards_of(setting) == (point->cards ? point->cards : 1) && is_one_on_a_card(setting) &&
           (strcmp(point->host, "yes") == 0) == (count_at(output, "host_limit_bytes") > 0);
}

static bool is_beside(const struct published_point *point, const json_t *output)
{
    return !batch_sequence(output) && is_of_setting(point, output);
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
static double reported(struct longest_contexts *contexts, const struct published *published, const json_t *output,
                       const json_t *method)
{
    double longest = NAN;
    for (size_t f = 0; f < published->count; f++) {
        const struct published_file *file = &published->files[f];
        for (size_t i = 0; file->quantity == PUBLISHED_MAX_CONTEXT && i < file->count; i++) {
            if (!is_beside(&file->points[i], output) || !is_of(&file->points[i], method))
                continue;
            add_words(contexts->sources, sizeof contexts->sources, "; ", file->source);
            longest = fmax(longest, file->points[i].value);
        }
    }
    return longest;
}

// "qwen3-8b, bf16, all weights trained, dKV f32, gradients bf16, on rtx-3090: 23.19 GiB usable"
static void describe(const json_t *output, const json_t *setting, char *words, size_t bytes)
{
    char size[32];
    json_t *said = json_copy((json_t *)setting);
    size_t batch = count_at(setting, "batch"), cards = cards_of(json_object_get(output, "setting")),
           sequence = batch_sequence(output);
    json_object_del(said, "device"); // all are planned
    json_object_del(said, "context");
    json_object_del(said, "batch");
    json_object_del(said, "kv_gradient_dtype"); // appended later
    json_object_del(said, "gradient_dtype");
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
    size_text(count_at(output, "limit_bytes"), size, sizeof size);
    text_append(words, bytes, "%s, dKV %s%s%s%.60s: %s usable", lora ? "" : ", all weights trained",
                text(setting, "kv_gradient_dtype"), told ? ", gradients bf16" : "", *profile ? ", on " : "",
                profile, size);
    size_t host_bytes = count_at(output, "host_limit_bytes");
    size_text(host_bytes, size, sizeof size);
    if (host_bytes)
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
        char *shown = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        text_append(list, bytes, "%s%s %s", *list ? ", " : "", option->name,
                    json_is_string(value) ? json_string_value(value) : shown);
        free(shown);
    }
    json_decref(defaults);
}

// For auto with the method chosen at that context.
static void label_row(struct longest_row *row, const json_t *output, const json_t *method)
{
    const json_t *choice = json_object_get(output, "choice"), *walked = json_object_get(choice, "method");
    const char *kv = text(choice, "kv_gradient_dtype");
    char options[sizeof row->label] = "";
    if (!is_auto(method)) {
        list_options(method, options, sizeof options);
        text_append(row->label, sizeof row->label, "%s%s%s", text(method, "name"), *options ? ", " : "", options);
        return;
    }
    text_append(row->label, sizeof row->label, "%s%s%s", method_auto.name, walked ? ": " : "",
                text(walked, "name"));
    list_options(walked, row->chosen, sizeof row->chosen);
    if (*kv && strcmp(kv, text(json_object_get(output, "setting"), "kv_gradient_dtype")) != 0)
        text_append(row->chosen, sizeof row->chosen, "%sdKV %s", *row->chosen ? ", " : "", kv);
}

static struct longest_row *add_row(struct longest_contexts *contexts)
{
    contexts->rows = realloc(contexts->rows, (contexts->row_count + 1) * sizeof *contexts->rows);
    CHECK(contexts->rows);
    struct longest_row *row = &contexts->rows[contexts->row_count++];
    *row = (struct longest_row){.group = contexts->group_count,
                                .extent = NAN,
                                .forwards = NAN,
                                .published = NAN,
                                .mark = "",
                                .setting = ""};
    return row;
}

static double extent_of(const json_t *planned)
{
    const char *extent = json_object_get(planned, "max_batch") ? "max_batch" : "max_context";
    return number(planned, extent);
}

static void add_ours(struct longest_contexts *contexts, const json_t *output, const json_t *planned,
                     const struct published *published)
{
    const json_t *method = json_object_get(planned, "method"), *choice = json_object_get(output, "choice");
    double value = reported(contexts, published, output, method);
    struct longest_row *row = add_row(contexts);
    text_append(row->method, sizeof row->method, "%s", text(method, "name"));
    label_row(row, output, method);
    row->extent = extent_of(planned);
    row->published = value;
    double flops = number(is_auto(method) && json_is_object(choice) ? choice : planned, "flops"),
           forward = number(planned, "forward_flops");
    row->forwards = forward > 0 ? flops / forward : NAN;
    // "8 MiB for weights do not fit on the host: ..."
    text_append(row->limit, sizeof row->limit, "%s", text(planned, "reason"));
    row->limit[strcspn(row->limit, ":")] = 0;
}

// Adds other methods' points, once each: with the output in its group; NULL: the rest.
static void add_others(struct longest_contexts *contexts, const json_t *output, const struct published *published,
                       bool *taken)
{
    size_t n = 0;
    for (size_t f = 0; f < published->count; f++) {
        const struct published_file *file = &published->files[f];
        for (size_t i = 0; i < file->count; i++, n++) {
            const struct published_point *point = &file->points[i];
            if (file->quantity != PUBLISHED_MAX_CONTEXT || *point->method || taken[n] ||
                (output && !is_beside(point, output)))
                continue;
            taken[n] = true;
            struct longest_row *row = add_row(contexts);
            row->group = output ? row->group : 0;
            text_append(row->label, sizeof row->label, "%s", point->series);
            row->published = point->value;
            row->mark = point->mark;
            row->setting = point->setting;
            row->source = file->source;
            if (output && !strstr(contexts->sources, file->source))
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

// Tells whether longest contexts are reported for the output's model, training and card.
static bool is_reported_of(const json_t *output, const struct published *published)
{
    bool found = false;
    for (size_t f = 0; f < published->count; f++) {
        const struct published_file *file = &published->files[f];
        for (size_t i = 0; file->quantity == PUBLISHED_MAX_CONTEXT && i < file->count; i++)
            found |= *file->points[i].method && is_of_setting(&file->points[i], output);
    }
    return found;
}

// Adds the rows of one output.
static bool add_output(struct longest_contexts *contexts, const char *path, const json_t *output,
                       const struct published *published, struct status *status)
{
    const json_t *list = json_object_get(output, "methods"), *row;
    size_t i;
    char revision[80];
    snprintf(revision, sizeof revision, "%.20s%s", text(output, "revision"),
             json_is_true(json_object_get(output, "dirty")) ? " with changes" : "");
    add_words(contexts->revisions, sizeof contexts->revisions, ", ", revision);
    contexts->batches_reported |= batch_sequence(output) && is_reported_of(output, published);
    json_array_foreach(list, i, row)
    {
        if (!*text(json_object_get(row, "method"), "name") || !(extent_of(row) >= 0))
            return status_set(status, STATUS_BAD_INPUT, "%.300s: method %zu: " NO_OUTPUT, path, i + 1);
        add_ours(contexts, output, row, published);
    }
    return true;
}

static struct longest_group group_of(const json_t *output)
{
    const json_t *setting = json_object_get(output, "setting");
    struct longest_group group = {
        .words = "", .cards = cards_of(setting), .batch_sequence = batch_sequence(output)};
    snprintf(group.card, sizeof group.card, "%s", text(setting, "profile"));
    json_t *alike = json_deep_copy(setting);
    json_object_del(json_object_get(alike, "parallel"), "data");
    describe(output, setting, group.words, sizeof group.words);
    describe(output, alike, group.alike, sizeof group.alike);
    json_decref(alike);
    return group;
}

// Opens a group for consecutive outputs with the same description. Returns their number.
static size_t open_group(struct longest_contexts *contexts, json_t *const *outputs, const char *path)
{
    struct longest_group group = group_of(outputs[0]), next = group;
    size_t count = 0;
    contexts->groups = realloc(contexts->groups, (contexts->group_count + 1) * sizeof group);
    CHECK(contexts->groups);
    do {
        if (outputs[++count])
            next = group_of(outputs[count]);
    } while (outputs[count] && strcmp(next.words, group.words) == 0);
    group.path = path;
    group.path_count = count;
    contexts->groups[contexts->group_count++] = group;
    return count;
}

static json_t *read_output(const char *path, struct status *status)
{
    struct json_source source;
    struct status read = {0};
    bool fine = json_source_open(&source, path, &read);
    json_t *output = fine ? json_incref(source.root) : NULL;
    json_source_close(&source);
    if (!output)
        status_set(status, read.code, "%.900s%s", read.message,
                   read.code == STATUS_BAD_INPUT ? ": " NO_OUTPUT : "");
    else if (!json_array_size(json_object_get(output, "methods")) ||
             !json_is_object(json_object_get(output, "setting")) || !count_at(output, "limit_bytes"))
        status_set(status, STATUS_BAD_INPUT, "%.300s: " NO_OUTPUT, path);
    return output;
}

static size_t points_of(const struct published *published)
{
    size_t count = 0;
    for (size_t f = 0; f < published->count; f++)
        count += published->files[f].count;
    return count;
}

bool longest_contexts_open(struct longest_contexts *contexts, const char *const *paths, size_t count,
                           const struct published *published, struct status *status)
{
    *contexts = (struct longest_contexts){0};
    json_t **outputs = calloc(count + 1, sizeof(json_t *)); // after the last NULL
    bool *taken = calloc(points_of(published) + 1, sizeof *taken);
    CHECK(outputs && taken);
    for (size_t i = 0; status->code == STATUS_OK && i < count; i++)
        outputs[i] = read_output(paths[i], status);
    for (size_t i = 0; status->code == STATUS_OK && i < count;) {
        size_t first = i, end = i + open_group(contexts, outputs + i, paths[i]);
        while (i < end && add_output(contexts, paths[i], outputs[i], published, status))
            i++;
        if (i == end)
            add_others(contexts, outputs[first], published, taken);
    }
    if (status->code == STATUS_OK && some_published(contexts))
        add_others(contexts, NULL, published, taken);
    for (size_t i = 0; i < count; i++)
        json_decref(outputs[i]);
    free(taken);
    free(outputs);
    return status->code == STATUS_OK;
}

void longest_contexts_close(struct longest_contexts *contexts)
{
    free(contexts->groups);
    free(contexts->rows);
    *contexts = (struct longest_contexts){0};
}
