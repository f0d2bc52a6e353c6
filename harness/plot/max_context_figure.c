#include "harness/plot/max_context_figure.h"
#include "harness/files/text.h"
#include "harness/plot/picture.h"
#include "harness/plot/table_cells.h"
#include "harness/results/claim_pictures.h"
#include "harness/results/longest_contexts.h"
#include "harness/results/setting.h"
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

// Whether its rows are drawn as dots: contexts of one card, or batches.
static bool is_dotted(const struct longest_group *group, bool batches)
{
    return group && batches == (group->batch_sequence > 0) && !is_over_cards(group);
}

// Of one kind of card.
static size_t write_rows(const struct longest_contexts *contexts, bool batches, const char *card, FILE *table)
{
    size_t series = 0, groups = 0, last = 0;
    fprintf(table, "series\tmethod\tlabel\trank\tgroup\tgroup_label\t%s\tpublished\tmark\n",
            batches ? "max_batch" : "max_context");
    for (const struct longest_row *row = contexts->rows; row < contexts->rows + contexts->row_count; row++) {
        const struct longest_group *group = group_of(contexts, row);
        if (!is_dotted(group, batches) || strcmp(group->card, card) != 0)
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

// What is named of a picture, with a claim and where its numbers are from.
static bool draw(const struct max_context_request *request, const struct longest_contexts *contexts,
                 const struct picture *named, struct status *status)
{
    bool batches = strcmp(named->figure, "max-batch") == 0;
    struct origin origin = origin_of(request, contexts, batches);
    struct picture picture = *named;
    char claim[900] = "";
    if (batches ? contexts->batches_reported : *contexts->sources) // what it shows is what a paper is about
        claim_pictures_find(picture.kind, claim, sizeof claim);
    picture.form = request->form;
    picture.claim = *claim ? claim : NULL;
    picture.source = origin.source;
    picture.machine = origin.machine;
    return picture_draw(&picture, status);
}

// How many kinds of cards the dots are of, up to a group.
static size_t card_kinds(const struct longest_contexts *contexts, bool batches, size_t up_to)
{
    size_t kinds = 0;
    for (size_t g = 0; g < up_to; g++) {
        bool first = is_dotted(&contexts->groups[g], batches);
        for (size_t before = 0; first && before < g; before++)
            first = !is_dotted(&contexts->groups[before], batches) ||
                    strcmp(contexts->groups[before].card, contexts->groups[g].card) != 0;
        kinds += first;
    }
    return kinds;
}

static bool draw_card(const struct max_context_request *request, const struct longest_contexts *contexts,
                      const struct picture *named, const char *card, struct status *status)
{
    char *words = NULL;
    size_t bytes;
    FILE *table = open_memstream(&words, &bytes);
    CHECK(table);
    size_t count = write_rows(contexts, strcmp(named->figure, "max-batch") == 0, card, table);
    CHECK(fclose(table) == 0);
    struct picture picture = *named;
    picture.table = words;
    bool fine = count == 0 || draw(request, contexts, &picture, status);
    free(words);
    return fine;
}

// Contexts of one card, or batches: max-context.FORMAT, of several kinds of cards max-context-CARD.FORMAT for each.
static bool draw_rows(const struct max_context_request *request, const struct longest_contexts *contexts,
                      bool batches, struct status *status)
{
    const char *kind = batches ? "max-batch" : "max-context";
    size_t kinds = card_kinds(contexts, batches, contexts->group_count);
    if (kinds && request->form->log)
        fprintf(stderr, "%s: --log leaves its axes as they are\n", kind);
    bool fine = true;
    for (size_t g = 0; fine && g < contexts->group_count; g++) {
        if (card_kinds(contexts, batches, g) == card_kinds(contexts, batches, g + 1))
            continue;
        const char *card = contexts->groups[g].card;
        char name[100];
        snprintf(name, sizeof name, "%s%s%s", kind, kinds > 1 ? "-" : "", kinds > 1 ? card : "");
        setting_slug(name);
        const struct picture picture = {
            .name = name,
            .kind = kind,
            .figure = kind,
            .setting = batches ? "the last batch that fits: one sequence more does not"
                               : "the last context that fits: one token, or one chunk, more does not"};
        fine = draw_card(request, contexts, &picture, card, status);
    }
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
        const struct picture picture = {
            .name = name, .kind = name, .figure = "cards", .setting = group->alike, .table = words};
        fine = draw(request, contexts, &picture, status);
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
