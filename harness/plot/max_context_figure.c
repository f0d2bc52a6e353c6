#include "harness/plot/max_context_figure.h"
#include "harness/files/text.h"
#include "harness/plot/picture.h"
#include "harness/results/longest_contexts.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void number(FILE *table, double value)
{
    fprintf(table, isfinite(value) ? "\t%.15g" : "\tNaN", value);
}

static void tabulate(const struct longest_contexts *contexts, FILE *table)
{
    fputs("series\tmethod\tlabel\trank\tgroup\tgroup_label\tmax_context\tpublished\tmark\n", table);
    for (size_t i = 0; i < contexts->row_count && contexts->rows[i].group; i++) {
        const struct longest_row *row = &contexts->rows[i];
        fprintf(table, "%zu\t%s\t%s\t0\t%zu\t%s", i + 1, *row->method ? row->method : "published", row->label,
                row->group, contexts->groups[row->group - 1].words);
        number(table, row->tokens);
        number(table, row->published);
        fprintf(table, "\t%s\n", *row->mark ? row->mark : "-"); // gnuplot has no empty words
    }
}

static const char *file_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void list_files(const struct max_context_request *request, char *source, size_t bytes)
{
    size_t count = request->path_count;
    snprintf(source, bytes, "From %s", file_of(request->paths[0]));
    if (count > 4)
        text_append(source, bytes, " to %s, %zu files", file_of(request->paths[count - 1]), count);
    for (size_t i = 1; count <= 4 && i < count; i++)
        text_append(source, bytes, ", %s", file_of(request->paths[i]));
}

bool max_context_plot(const struct max_context_request *request, const struct published *published,
                      struct status *status)
{
    struct longest_contexts contexts;
    char *words = NULL, source[900], machine[700];
    size_t bytes;
    FILE *table = open_memstream(&words, &bytes);
    CHECK(table);
    bool fine = longest_contexts_open(&contexts, request->paths, request->path_count, published, status);
    if (fine)
        tabulate(&contexts, table);
    CHECK(fclose(table) == 0);
    list_files(request, source, sizeof source);
    if (*contexts.other_sources)
        text_append(source, sizeof source, "; beside %s", contexts.other_sources);
    snprintf(machine, sizeof machine, "planned at revision %s, batch 1%s%s",
             *contexts.revisions ? contexts.revisions : "unknown", *contexts.sources ? "; published: " : "",
             contexts.sources);
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
    longest_contexts_close(&contexts);
    free(words);
    return fine;
}
