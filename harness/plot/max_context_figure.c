#include "harness/plot/max_context_figure.h"
#include "harness/files/text.h"
#include "harness/plot/picture.h"
#include "harness/plot/table_cells.h"
#include "harness/results/claim_pictures.h"
#include "harness/results/longest_contexts.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct longest_group *group_of(const struct longest_contexts *contexts, const struct longest_row *row)
{
    return row->group ? &contexts->groups[row->group - 1] : NULL;
}

// Whether it is drawn over the number of cards: contexts of several.
static bool is_over_cards(const struct longest_group *group)
{
    return group && group->cards > 1 && !group->batch_sequence;
}

// Contexts of one card, or batches.
static size_t write_rows(const struct longest_contexts *contexts, bool batches, FILE *table)
{
    size_t series = 0, groups = 0, last = 0;
    fprintf(table, "series\tmethod\tlabel\trank\tgroup\tgroup_label\t%s\tpublished\tmark\n",
            batches ? "max_batch" : "max_context");
    for (const struct longest_row *row = contexts->rows; row < contexts->rows + contexts->row_count; row++) {
        const struct longest_group *group = group_of(contexts, row);
        if (!group || batches != (group->batch_sequence > 0) || is_over_cards(group))
            continue;
        groups += row->group != last;
        last = row->group;
        fprintf(table, "%zu\t%s\t%s\t0\t%zu\t%s", ++series, *row->method ? row->method : "published", row->label,
                groups, group->words);
        TABLE_CELLS(table, row->extent, row->published);
        fprintf(table, "\t%s\n", *row->mark ? row->mark : "-"); // gnuplot has no empty words
    }
    return series;
}

// Over several cards, of what is alike but for their number: a series for each method with its options.
static void write_cards(const struct longest_contexts *contexts, const char *alike, FILE *table)
{
    const char **labels = calloc(contexts->row_count + 1, sizeof *labels);
    size_t count = 0;
    CHECK(labels);
    fputs("series\tmethod\tlabel\trank\tcards\tmax_context\tpublished\n", table);
    for (const struct longest_row *row = contexts->rows; row < contexts->rows + contexts->row_count; row++) {
        const struct longest_group *group = group_of(contexts, row);
        if (!is_over_cards(group) || !*row->method || strcmp(group->alike, alike) != 0)
            continue;
        size_t series = 0;
        while (series < count && strcmp(labels[series], row->label) != 0)
            series++;
        if (series == count)
            labels[count++] = row->label;
        fprintf(table, "%zu\t%s\t%s\t0\t%zu", series + 1, row->method, row->label, group->cards);
        TABLE_ROW(table, row->extent > 0 ? row->extent : NAN, row->published);
    }
    free(labels);
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

// What the pictures have in common: where their numbers are from.
struct origin {
    char source[900], machine[700];
};

static struct origin origin_of(const struct max_context_request *request, const struct longest_contexts *contexts,
                               bool batches)
{
    struct origin origin;
    list_files(request, origin.source, sizeof origin.source);
    if (*contexts->other_sources)
        text_append(origin.source, sizeof origin.source, "; beside %s", contexts->other_sources);
    snprintf(origin.machine, sizeof origin.machine, "planned, nothing was measured, at revision %s%s%s%s",
             *contexts->revisions ? contexts->revisions : "unknown",
             batches ? "" : ", with one sequence on a card where nothing else is said",
             *contexts->sources ? "; published: " : "", contexts->sources);
    return origin;
}

static bool draw(const struct max_context_request *request, const struct longest_contexts *contexts,
                 const char *figure, const char *name, const char *setting, const char *table,
                 struct status *status)
{
    bool batches = strcmp(figure, "max-batch") == 0;
    struct origin origin = origin_of(request, contexts, batches);
    char claim[900] = "";
    if (batches ? contexts->batches_reported : *contexts->sources) // what it shows is what a paper is about
        claim_pictures_find(name, claim, sizeof claim);
    const struct picture picture = {.form = request->form,
                                    .name = name,
                                    .kind = name,
                                    .figure = figure,
                                    .claim = *claim ? claim : NULL,
                                    .table = table,
                                    .setting = setting,
                                    .source = origin.source,
                                    .machine = origin.machine};
    return picture_draw(&picture, status);
}

// Contexts of one card, or batches.
static bool draw_rows(const struct max_context_request *request, const struct longest_contexts *contexts,
                      bool batches, struct status *status)
{
    const char *name = batches ? "max-batch" : "max-context";
    char *words = NULL;
    size_t bytes;
    FILE *table = open_memstream(&words, &bytes);
    CHECK(table);
    size_t count = write_rows(contexts, batches, table);
    CHECK(fclose(table) == 0);
    if (count && request->form->log)
        fprintf(stderr, "%s: --log leaves its axes as they are\n", name);
    bool fine = count == 0 || draw(request, contexts, name, name,
                                   batches ? "the last batch that fits: one sequence more does not"
                                           : "the last context that fits: one token, or one chunk, more does not",
                                   words, status);
    free(words);
    return fine;
}

// A picture for what is alike but for the number of cards; the first is cards.FORMAT, the next cards-2.
static bool draw_cards(const struct max_context_request *request, const struct longest_contexts *contexts,
                       struct status *status)
{
    bool fine = true;
    size_t drawn = 0;
    for (size_t g = 0; fine && g < contexts->group_count; g++) {
        const struct longest_group *group = &contexts->groups[g];
        size_t first = 0;
        while (!is_over_cards(&contexts->groups[first]) || strcmp(contexts->groups[first].alike, group->alike) != 0)
            if (++first > g)
                break;
        if (!is_over_cards(group) || first != g)
            continue;
        char *words = NULL, name[40];
        size_t bytes;
        FILE *table = open_memstream(&words, &bytes);
        CHECK(table);
        write_cards(contexts, group->alike, table);
        CHECK(fclose(table) == 0);
        snprintf(name, sizeof name, drawn ? "cards-%zu" : "cards", drawn + 1);
        fine = draw(request, contexts, "cards", name, group->alike, words, status);
        drawn++;
        free(words);
    }
    return fine;
}

bool max_context_plot(const struct max_context_request *request, const struct published *published,
                      struct status *status)
{
    struct longest_contexts contexts;
    bool fine = longest_contexts_open(&contexts, request->paths, request->path_count, published, status) &&
                draw_rows(request, &contexts, false, status) && draw_rows(request, &contexts, true, status) &&
                draw_cards(request, &contexts, status);
    longest_contexts_close(&contexts);
    return fine;
}
