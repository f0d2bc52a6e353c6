#include "harness/plot/planned_figure.h"
#include "harness/table/setting.h"
#include "harness/text/size.h"
#include "harness/text/text.h"
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// Writes the table of an output. Returns false for other files.
typedef bool write_table(const json_t *output, struct figure_table *table);

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

// The series of a row: the number of distinct labels before it.
static size_t series_of(const char *label, char (*labels)[200], size_t *count)
{
    size_t i = 0;
    while (i < *count && strcmp(labels[i], label) != 0)
        i++;
    if (i == *count)
        snprintf(labels[(*count)++], sizeof *labels, "%s", label);
    return i + 1;
}

static bool write_pareto_front(const json_t *output, struct figure_table *table)
{
    const json_t *pareto_front = json_object_get(output, "pareto_front");
    size_t rows = json_array_size(pareto_front), count = 0;
    char(*labels)[200] = calloc(rows + 1, sizeof *labels);
    CHECK(labels);
    figure_table_columns(table, "peak_bytes\thost_peak_bytes\tseconds\tlimit_bytes\twords");
    for (size_t i = 0; i < rows; i++) {
        const json_t *row = json_array_get(pareto_front, i);
        bool host = number(row, "host_peak_bytes") > 0;
        char method[64] = "", label[200] = "", words[400] = "";
        text_append(method, sizeof method, "%s", text(json_object_get(row, "method"), "name"));
        text_append(words, sizeof words, "%s", text(row, "label"));
        for (char *c = words; *c; c++)
            *c = *c == '_' ? '-' : *c; // an underscore would be markup
        text_append(label, sizeof label, "%s%s", method, host ? ", some of it on the host" : "");
        size_t series = series_of(label, labels, &count);
        figure_table_row(table, series, method, host, "%s", label);
        FIGURE_NUMBERS(table, number(row, "peak_bytes"), number(row, "host_peak_bytes"),
                       1e-3 * number(row, "estimate_ms"), number(output, "limit_bytes"));
        figure_table_word(table, words);
    }
    free(labels);
    return rows > 0;
}

static bool write_frontier(const json_t *output, struct figure_table *table)
{
    const json_t *frontier = json_object_get(output, "frontier");
    size_t rows = json_array_size(frontier), count = 0, hosts = 0;
    char(*labels)[200] = calloc(rows + 1, sizeof *labels), (*sizes)[200] = calloc(rows + 1, sizeof *sizes);
    CHECK(labels && sizes);
    figure_table_columns(table, "device_bytes\tmax_context");
    for (size_t i = 0; i < rows; i++) {
        const json_t *row = json_array_get(frontier, i);
        char method[64] = "", label[200] = "", size[32];
        double host = number(row, "host_bytes");
        size_text(host > 0 && host < 0x1p63 ? (size_t)host : 0, size, sizeof size);
        text_append(method, sizeof method, "%s", text(row, "method"));
        text_append(label, sizeof label, "%s%s%s", method, host > 0 ? ", host " : "", host > 0 ? size : "");
        if (!(number(row, "max_context") > 0))
            continue;
        size_t series = series_of(label, labels, &count), rank = series_of(size, sizes, &hosts) - 1;
        figure_table_row(table, series, method, rank, "%s", label);
        FIGURE_NUMBERS(table, number(row, "device_bytes"), number(row, "max_context"));
    }
    free(sizes);
    free(labels);
    return count > 0;
}

// "advice/llama.json": "llama"
static void stem(const char *path, char *name, size_t bytes)
{
    const char *slash = strrchr(path, '/');
    snprintf(name, bytes, "%s", slash ? slash + 1 : path);
    char *dot = strrchr(name, '.');
    if (dot)
        *dot = 0;
    setting_slug(name);
}

static bool draw(const struct planned_request *request, const char *path, const json_t *output, const char *figure,
                 write_table *write, struct status *status)
{
    char name[300], setting[300], source[400], machine[200];
    struct figure_table table = {0};
    bool fine = json_is_object(json_object_get(output, "setting")) && write(output, &table);
    const char *slash = strrchr(path, '/');
    stem(path, name, sizeof name);
    size_t used = strlen(name);
    snprintf(name + used, sizeof name - used, "-%s", figure);
    if (fine) {
        setting_describe(json_object_get(output, "setting"), number(json_object_get(output, "setting"), "context"),
                         setting, sizeof setting);
        snprintf(source, sizeof source, "From %.300s", slash ? slash + 1 : path);
        const char *profile = text(json_object_get(output, "setting"), "profile");
        snprintf(machine, sizeof machine, "planned, nothing was measured, at revision %.20s%s%s%s%.60s",
                 text(output, "revision"), json_is_true(json_object_get(output, "dirty")) ? " with changes" : "",
                 write == write_pareto_front ? "; seconds are estimates" : "", *profile ? " by profile " : "",
                 profile);
        const struct picture picture = {.form = request->form,
                                        .name = name,
                                        .kind = name,
                                        .figure = figure,
                                        .table = &table,
                                        .setting = setting,
                                        .source = source,
                                        .machine = machine};
        fine = picture_draw(&picture, status);
    } else {
        status_set(status, STATUS_BAD_INPUT, "%.300s: not what `longbp %s --json` prints, or nothing fits in it",
                   path, write == write_pareto_front ? "advise" : "frontier");
    }
    figure_table_free(&table);
    return fine;
}

// Loads a file or a pipe. Returns NULL and a status if it cannot be read.
static json_t *load(const char *path, struct status *status)
{
    struct stat is;
    json_error_t error;
    FILE *file = fopen(path, "r");
    if (!file) {
        status_set(status, STATUS_BAD_INPUT, "%.300s: cannot be opened: %s", path, strerror(errno));
        return NULL;
    }
    bool folder = fstat(fileno(file), &is) == 0 && S_ISDIR(is.st_mode);
    json_t *output = folder ? NULL : json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    if (folder)
        status_set(status, STATUS_BAD_INPUT, "%.300s: is a folder; expected a JSON file", path);
    else if (!output)
        status_set(status, STATUS_BAD_INPUT, "%.300s:%d:%d: %s", path, error.line, error.column, error.text);
    fclose(file);
    return output;
}

static bool draw_all(const struct planned_request *request, const char *figure, write_table *write,
                     struct status *status)
{
    bool fine = true;
    for (size_t i = 0; fine && i < request->path_count; i++) {
        json_t *output = load(request->paths[i], status);
        fine = output && draw(request, request->paths[i], output, figure, write, status);
        json_decref(output);
    }
    return fine;
}

bool pareto_front_plot(const struct planned_request *request, struct status *status)
{
    return draw_all(request, "pareto-front", write_pareto_front, status);
}

bool frontier_plot(const struct planned_request *request, struct status *status)
{
    return draw_all(request, "frontier", write_frontier, status);
}
