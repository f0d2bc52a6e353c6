#include "harness/plot/max_context_figure.h"
#include "harness/files/size.h"
#include "harness/plot/picture.h"
#include "harness/results/recorded_method.h"
#include "harness/results/setting.h"
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

// Whether what is chosen among all exact methods can be held against the point.
static bool is_exact(const struct published_point *point)
{
    const struct method *method = method_find(point->method);
    return method && method->exact;
}

static bool matches(const struct published_point *point, const json_t *setting, const json_t *method)
{
    bool chosen = strcmp(text(method, "name"), method_auto.name) == 0;
    const char *training = json_is_object(json_object_get(setting, "lora")) ? "lora" : "full";
    return *point->profile && strcmp(point->profile, text(setting, "profile")) == 0 &&
           strcmp(point->model, text(setting, "model")) == 0 && strcmp(point->training, training) == 0 &&
           (chosen ? is_exact(point) : recorded_method_is(method, point, 0));
}

// Adds words to a list, once.
static void add_words(char *list, size_t bytes, const char *separator, const char *words)
{
    size_t used = strlen(list);
    if (*words && !strstr(list, words))
        snprintf(list + used, bytes - used, "%s%s", used ? separator : "", words);
}

// The published longest context, of auto the longest of all exact methods; NaN if there is none.
static double published_context(const struct published *published, const json_t *setting, const json_t *method,
                                char *sources, size_t bytes)
{
    double longest = NAN;
    for (size_t f = 0; f < published->count; f++) {
        const struct published_file *file = &published->files[f];
        for (size_t i = 0; file->quantity == PUBLISHED_MAX_CONTEXT && i < file->count; i++) {
            if (!matches(&file->points[i], setting, method))
                continue;
            add_words(sources, bytes, "; ", file->source);
            longest = fmax(longest, file->points[i].value);
        }
    }
    return longest;
}

// Whether a row is of auto, which chooses the dtype of dKV, too.
static bool has_auto(const json_t *output)
{
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(output, "methods"), i, row)
    {
        if (strcmp(text(json_object_get(row, "method"), "name"), method_auto.name) == 0)
            return true;
    }
    return false;
}

// "llama-3-8b, LoRA rank 8, bf16, dKV f32, on rtx-3090: 23.19 GiB usable"
static void describe(const json_t *output, char *words, size_t bytes)
{
    const json_t *setting = json_object_get(output, "setting");
    char size[32], host[64] = "";
    size_t host_bytes = count_at(output, "host_limit_bytes");
    size_text(host_bytes, size, sizeof size);
    if (host_bytes)
        snprintf(host, sizeof host, ", and %s of the host", size);
    setting_describe(setting, 0, words, bytes);
    char *device = strstr(words, ", plan"); // every one is planned
    if (device)
        *device = 0;
    size_text(count_at(output, "limit_bytes"), size, sizeof size);
    size_t used = strlen(words);
    const char *profile = text(setting, "profile");
    snprintf(words + used, bytes - used, "%s, dKV %s%s%s%.60s: %s usable%s",
             json_is_object(json_object_get(setting, "lora")) ? "" : ", all weights trained",
             text(setting, "kv_gradient_dtype"), has_auto(output) ? " (auto: as chosen)" : "",
             *profile ? ", on " : "", profile, size, host);
}

bool max_context_table_add(struct max_context_table *table, const char *path, const json_t *output,
                           const struct published *published, struct status *status)
{
    const json_t *list = json_object_get(output, "methods"), *setting = json_object_get(output, "setting");
    if (!json_array_size(list) || !json_is_object(setting) || !count_at(output, "limit_bytes"))
        return status_set(status, STATUS_BAD_INPUT, "%.300s: not what `longbp max-context --json` prints", path);
    char group[300];
    describe(output, group, sizeof group);
    table->groups++;
    char revision[80];
    snprintf(revision, sizeof revision, "%.20s%s", text(output, "revision"),
             json_is_true(json_object_get(output, "dirty")) ? " with changes" : "");
    add_words(table->revisions, sizeof table->revisions, ", ", revision);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i), *method = json_object_get(row, "method");
        const json_t *longest = json_object_get(row, "max_context");
        if (!*text(method, "name") || !json_is_integer(longest) || json_integer_value(longest) < 0)
            return status_set(status, STATUS_BAD_INPUT,
                              "%.300s: method %zu: not what `longbp max-context --json` prints", path, i + 1);
        size_t chunk = count_at(method, "chunk");
        fprintf(table->stream, "%zu\t%s\t%s", ++table->rows, text(method, "name"), text(method, "name"));
        if (chunk)
            fprintf(table->stream, ", chunk %zu", chunk);
        fprintf(table->stream, "\t0\t%zu\t%s\t%lld", table->groups, group, (long long)json_integer_value(longest));
        double reported = published_context(published, setting, method, table->sources, sizeof table->sources);
        fprintf(table->stream, isfinite(reported) ? "\t%.15g\n" : "\tNaN\n", reported);
    }
    return true;
}

static bool add_file(struct max_context_table *table, const char *path, const struct published *published,
                     struct status *status)
{
    json_error_t error;
    json_t *output = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!output)
        return status_set(status, STATUS_BAD_INPUT, "%.300s:%d: %s", path, error.line, error.text);
    bool fine = max_context_table_add(table, path, output, published, status);
    json_decref(output);
    return fine;
}

bool max_context_plot(const struct max_context_request *request, const struct published *published,
                      struct status *status)
{
    char *words = NULL, source[400] = "From", machine[600];
    size_t bytes;
    struct max_context_table table = {.stream = open_memstream(&words, &bytes)};
    CHECK(table.stream);
    fputs("series\tmethod\tlabel\trank\tgroup\tgroup_label\tmax_context\tpublished\n", table.stream);
    bool fine = true;
    for (size_t i = 0; fine && i < request->path_count; i++) {
        const char *name = strrchr(request->paths[i], '/');
        size_t used = strlen(source);
        snprintf(source + used, sizeof source - used, "%s %s", i ? "," : "", name ? name + 1 : request->paths[i]);
        fine = add_file(&table, request->paths[i], published, status);
    }
    CHECK(fclose(table.stream) == 0);
    snprintf(machine, sizeof machine, "planned at revision %s, batch 1%s%s",
             *table.revisions ? table.revisions : "unknown", *table.sources ? "; published: " : "", table.sources);
    const struct picture picture = {.folder = request->folder,
                                    .scripts = request->scripts,
                                    .formats = request->formats,
                                    .name = "max-context",
                                    .figure = "max-context",
                                    .table = words,
                                    .setting = "the last context that fits: one token, or one chunk, more does not",
                                    .source = source,
                                    .machine = machine};
    fine = fine && picture_draw(&picture, status);
    free(words);
    return fine;
}
