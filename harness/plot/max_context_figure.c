#include "harness/plot/max_context_figure.h"
#include "harness/papers/claim_pictures.h"
#include "harness/papers/longest_contexts.h"
#include "harness/plot/picture.h"
#include "harness/table/setting.h"
#include "harness/text/text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct longest_group *group_of(const struct longest_contexts *contexts, const struct longest_row *row)
{
    return row->group ? &contexts->groups[row->group - 1] : NULL;
}

// Tells whether it is drawn over the number of cards: contexts for several cards.
static bool is_over_cards(const struct longest_group *group)
{
    return group && group->cards > 1 && !group->batch_sequence;
}

// Tells whether its rows are drawn as dots: contexts for one card, or batches.
static bool is_dotted(const struct longest_group *group, bool batches)
{
    return group && batches == (group->batch_sequence > 0) && !is_over_cards(group);
}

// The rows of one picture: dots for one kind of card, or equal settings over several numbers of cards.
struct rows {
    bool batches;
    const char *card, *alike;     // alike NULL: the dots
    struct series_choice *series; // selected panels, which are groups here
};

static bool has_group(const struct rows *rows, const struct longest_group *group)
{
    if (!group)
        return false;
    if (rows->alike)
        return is_over_cards(group) && strcmp(group->alike, rows->alike) == 0 &&
               series_choice_has_panel(rows->series, rows->alike);
    return is_dotted(group, rows->batches) && strcmp(group->card, rows->card) == 0 &&
           series_choice_has_panel(rows->series, group->words);
}

static bool has_row(const struct rows *rows, const struct longest_contexts *contexts, const struct longest_row *row)
{
    return has_group(rows, group_of(contexts, row)) && (!rows->alike || *row->method);
}

static size_t write_rows(const struct longest_contexts *contexts, const struct rows *rows,
                         struct figure_table *table)
{
    size_t series = 0, groups = 0, last = 0;
    figure_table_columns(table, rows->batches ? "group\tgroup_label\tmax_batch\tpublished\tmark"
                                              : "group\tgroup_label\tmax_context\tpublished\tmark");
    for (const struct longest_row *row = contexts->rows; row < contexts->rows + contexts->row_count; row++) {
        if (!has_row(rows, contexts, row))
            continue;
        groups += row->group != last;
        last = row->group;
        figure_table_row(table, ++series, *row->method ? row->method : "published", 0, "%s", row->label);
        FIGURE_NUMBERS(table, (double)groups);
        figure_table_word(table, group_of(contexts, row)->words);
        FIGURE_NUMBERS(table, row->extent, row->published);
        figure_table_word(table, *row->mark ? row->mark : "-"); // gnuplot has no empty words
    }
    return series;
}

// Over several numbers of cards: a series for each method with its options.
static size_t write_cards(const struct longest_contexts *contexts, const struct rows *rows,
                          struct figure_table *table)
{
    const char **labels = calloc(contexts->row_count + 1, sizeof *labels);
    size_t count = 0;
    CHECK(labels);
    figure_table_columns(table, "cards\tmax_context\tpublished");
    for (const struct longest_row *row = contexts->rows; row < contexts->rows + contexts->row_count; row++) {
        if (!has_row(rows, contexts, row))
            continue;
        size_t series = 0;
        while (series < count && strcmp(labels[series], row->label) != 0)
            series++;
        if (series == count)
            labels[count++] = row->label;
        figure_table_row(table, series + 1, row->method, 0, "%s", row->label);
        FIGURE_NUMBERS(table, (double)group_of(contexts, row)->cards, row->extent > 0 ? row->extent : NAN,
                       row->published);
    }
    free(labels);
    return count;
}

// The first source of rows, and the number of sources.
struct origins {
    const char *first;
    size_t count;
};

// ours: the files of records, otherwise the published sources.
static struct origins origins_of(const struct longest_contexts *contexts, const struct rows *rows, bool ours)
{
    struct origins origins = {0};
    for (size_t i = 0; i < contexts->row_count; i++) {
        const struct longest_row *row = &contexts->rows[i], *before = contexts->rows;
        const char *text = ours ? row->origin : row->source;
        if (!text || !has_row(rows, contexts, row))
            continue;
        while (before < row &&
               ((ours ? before->origin : before->source) != text || !has_row(rows, contexts, before)))
            before++;
        origins.first = origins.first ? origins.first : text;
        origins.count += before == row;
    }
    return origins;
}

// "From a.jsonl and 3 other files; beside TRL's guide and 2 other sources": for these rows.
static void list_sources(const struct longest_contexts *contexts, const struct rows *rows, char *text, size_t bytes)
{
    const struct origins files = origins_of(contexts, rows, true), sources = origins_of(contexts, rows, false);
    const char *slash = strrchr(files.first, '/');
    snprintf(text, bytes, "From %s", slash ? slash + 1 : files.first);
    if (files.count > 1)
        text_append(text, bytes, " and %zu other file%s", files.count - 1, files.count > 2 ? "s" : "");
    if (sources.count)
        text_append(text, bytes, "; beside %s", sources.first);
    if (sources.count > 1)
        text_append(text, bytes, " and %zu other source%s", sources.count - 1, sources.count > 2 ? "s" : "");
}

// Tells whether a row of ours has a published value.
static bool any_published(const struct longest_contexts *contexts, const struct rows *rows)
{
    bool any = false;
    for (size_t i = 0; i < contexts->row_count; i++)
        any |= has_row(rows, contexts, &contexts->rows[i]) && *contexts->rows[i].method &&
               isfinite(contexts->rows[i].published);
    return any;
}

// Draws a picture of these rows, with a claim and the sources of its numbers.
static bool draw(const struct picture_form *form, const struct longest_contexts *contexts, const struct rows *rows,
                 const struct picture *named, struct status *status)
{
    struct picture picture = *named;
    bool beside = any_published(contexts, rows);
    char claim[900] = "", source[900], machine[700];
    list_sources(contexts, rows, source, sizeof source);
    snprintf(machine, sizeof machine, "planned, not measured, at revision %s%s%s%s",
             *contexts->revisions ? contexts->revisions : "unknown",
             rows->batches ? "" : ", with one sequence on a card unless stated", beside ? "; published: " : "",
             beside ? contexts->sources : "");
    if (rows->batches ? contexts->batches_reported : *contexts->sources) // papers are about what it shows
        claim_pictures_find(picture.kind, claim, sizeof claim);
    picture.form = form;
    picture.claim = *claim ? claim : NULL;
    picture.source = source;
    picture.machine = machine;
    return picture_draw(&picture, status);
}

// Number of kinds of cards among the dots, up to a group.
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

static bool draw_card(const struct picture_form *form, const struct longest_contexts *contexts,
                      const struct picture *named, const struct rows *rows, struct status *status)
{
    struct figure_table table = {0};
    size_t count = write_rows(contexts, rows, &table);
    struct picture picture = *named;
    picture.table = &table;
    bool fine = count == 0 || draw(form, contexts, rows, &picture, status);
    figure_table_free(&table);
    return fine;
}

// Contexts for one card, or batches: max-context.FORMAT, for several kinds of cards max-context-CARD.FORMAT each.
static bool draw_rows(const struct picture_form *form, const struct longest_contexts *contexts, bool batches,
                      struct status *status)
{
    const char *kind = batches ? "max-batch" : "max-context";
    size_t kinds = card_kinds(contexts, batches, contexts->group_count);
    if (kinds && form->log)
        fprintf(stderr, "%s: --log leaves its axes as they are\n", kind);
    bool fine = true;
    for (size_t g = 0; fine && g < contexts->group_count; g++) {
        if (card_kinds(contexts, batches, g) == card_kinds(contexts, batches, g + 1))
            continue;
        const char *card = contexts->groups[g].card;
        char name[200];
        snprintf(name, sizeof name, "%s%s%s", kind, kinds > 1 ? "-" : "", kinds > 1 ? card : "");
        if (form->panel)
            text_append(name, sizeof name, "-panel-%s", form->panel);
        setting_slug(name);
        const struct picture picture = {
            .name = name,
            .kind = kind,
            .figure = kind,
            .setting = batches ? "the last batch that fits: one sequence more does not"
                               : "the last context that fits: one token, or one chunk, more does not"};
        fine = draw_card(form, contexts, &picture,
                         &(struct rows){.batches = batches, .card = card, .series = form->series}, status);
    }
    return fine;
}

// A picture per setting over numbers of cards; the first is cards.FORMAT, the next cards-2.
static bool draw_cards(const struct picture_form *form, const struct longest_contexts *contexts,
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
        char name[200], kind[40];
        struct figure_table table = {0};
        const struct rows rows = {.alike = group->alike, .series = form->series};
        size_t count = write_cards(contexts, &rows, &table);
        snprintf(kind, sizeof kind, drawn ? "cards-%zu" : "cards", drawn + 1);
        snprintf(name, sizeof name, "%s", kind);
        if (form->panel) {
            text_append(name, sizeof name, "-panel-%s", form->panel);
            setting_slug(name);
        }
        const struct picture picture = {
            .name = name, .kind = kind, .figure = "cards", .setting = group->alike, .table = &table};
        fine = count == 0 || draw(form, contexts, &rows, &picture, status);
        drawn++;
        figure_table_free(&table);
    }
    return fine;
}

bool max_context_plot(const struct picture_form *form, const struct results *results,
                      const struct published *published, size_t *drawn, struct status *status)
{
    struct longest_contexts contexts;
    longest_contexts_open(&contexts, results, published);
    bool fine = draw_rows(form, &contexts, false, status) && draw_rows(form, &contexts, true, status) &&
                draw_cards(form, &contexts, status);
    *drawn += contexts.group_count;
    longest_contexts_close(&contexts);
    return fine;
}
