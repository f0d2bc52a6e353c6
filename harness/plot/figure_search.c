// Figures of searches: a step's time against memory (advise), and the longest context against memory (frontier).
#include "harness/papers/claim_pictures.h"
#include "harness/papers/longest_contexts.h"
#include "harness/plot/figure.h"
#include "harness/plot/picture.h"
#include "harness/spec/method_decode.h"
#include "harness/table/setting.h"
#include "harness/table/trial_names.h"
#include "harness/text/size.h"
#include "harness/text/text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_sought(const struct record *record, const char *sought)
{
    return record->status == RECORD_OK && strcmp(text_or(record->search->sought, ""), sought) == 0;
}

struct label {
    char text[200];
};

// The series of a row: as many as there were different labels before it.
static size_t series_of(const char *text, struct label *labels, size_t *count)
{
    size_t i = 0;
    while (i < *count && strcmp(labels[i].text, text) != 0)
        i++;
    if (i == *count)
        snprintf(labels[(*count)++].text, sizeof labels->text, "%s", text);
    return i + 1;
}

// --- advise

static bool tabulate_pareto_front(const struct record *const *records, size_t count, struct figure_table *table)
{
    struct label *labels = calloc(count + 1, sizeof *labels), label;
    struct trial_names names;
    size_t label_count = 0;
    trial_names_open(&names, records, count, false);
    figure_table_columns(table, "peak_bytes\thost_peak_bytes\tseconds\tlimit_bytes\twords");
    for (size_t i = 0; i < count; i++) {
        const struct record *record = records[i];
        if (!is_sought(record, "time") || !isfinite(record->estimate_ms))
            continue;
        struct trial_name words = trial_names_at(&names, i);
        bool host = record->host_peak_bytes > 0;
        for (char *c = words.text; *c; c++)
            *c = *c == '_' ? '-' : *c; // an underscore would be markup
        snprintf(label.text, sizeof label.text, "%.100s%s", record_method(record),
                 host ? ", some of it on the host" : "");
        figure_table_row(table, series_of(label.text, labels, &label_count), record_method(record), host, "%s",
                         label.text);
        FIGURE_NUMBERS(table, record->peak_bytes, host ? record->host_peak_bytes : 0, 1e-3 * record->estimate_ms,
                       record->trial.limits->memory);
        figure_table_word(table, words.text);
    }
    trial_names_close(&names);
    free(labels);
    return label_count > 0;
}

static const char *const alike[] = {"weights", "kv_gradient_dtype", NULL};

const struct figure figure_pareto_front = {
    .name = "pareto-front",
    .searched = true,
    .own_axes = true,
    .one_context = true,
    .estimates = true,
    .needs = "records of `longbp advise` with a profile",
    .within = alike,
    .tabulate = tabulate_pareto_front,
};

// --- frontier

static double host_bytes(const struct record *record)
{
    return fmax(record->trial.limits->host_memory, 0);
}

// The longest of all within the same limits.
static double longest_beside(const struct record *const *records, size_t count, const struct record *record)
{
    double longest = 0;
    for (size_t i = 0; i < count; i++)
        if (is_sought(records[i], "frontier") && host_bytes(records[i]) == host_bytes(record) &&
            records[i]->trial.limits->memory == record->trial.limits->memory)
            longest = fmax(longest, records[i]->trial.context);
    return longest;
}

static struct label label_of(const char *method, double host)
{
    struct label label;
    char size[32];
    size_text((size_t)host, size, sizeof size);
    snprintf(label.text, sizeof label.text, "%.100s%s%s", method, host > 0 ? ", host " : "", host > 0 ? size : "");
    return label;
}

struct frontier {
    const struct record *const *records;
    size_t count, label_count, size_count;
    struct label *labels, *sizes;
};

// The rows of the series that begins with this record; all: of what goes furthest instead of the record's method.
static void add_series(struct frontier *frontier, size_t first, bool all, struct figure_table *table)
{
    const struct record *const *records = frontier->records;
    const char *method = all ? method_auto.name : record_method(records[first]);
    double host = host_bytes(records[first]);
    struct label label = label_of(method, host), size = label_of("", host);
    size_t before = frontier->label_count, series = series_of(label.text, frontier->labels, &frontier->label_count),
           rank = series_of(size.text, frontier->sizes, &frontier->size_count) - 1;
    double last = NAN; // bytes; one row for each
    for (size_t i = first; i < frontier->count && frontier->label_count > before; i++) {
        const struct record *record = records[i];
        double device = record->trial.limits->memory;
        if (!is_sought(record, "frontier") || host_bytes(record) != host || device == last ||
            (!all && strcmp(record_method(record), method) != 0))
            continue;
        last = device;
        figure_table_row(table, series, method, rank, "%s", label.text);
        FIGURE_NUMBERS(table, device,
                       all ? longest_beside(records, frontier->count, record) : record->trial.context);
    }
}

static bool tabulate_frontier(const struct record *const *records, size_t count, struct figure_table *table)
{
    struct frontier frontier = {.records = records,
                                .count = count,
                                .labels = calloc(2 * count + 1, sizeof *frontier.labels),
                                .sizes = calloc(count + 1, sizeof *frontier.sizes)};
    figure_table_columns(table, "device_bytes\tmax_context");
    for (int all = 0; all < 2; all++)
        for (size_t i = 0; i < count; i++)
            if (is_sought(records[i], "frontier"))
                add_series(&frontier, i, all, table);
    free(frontier.labels);
    free(frontier.sizes);
    return frontier.label_count > 0;
}

static const char *const limited[] = {"limits", "weights", "kv_gradient_dtype", NULL};

const struct figure figure_frontier = {
    .name = "frontier",
    .searched = true,
    .own_axes = true,
    .needs = "records of `longbp frontier`",
    .within = limited,
    .tabulate = tabulate_frontier,
};

// --- max-context, max-batch: the longest context of each method, by card, and as lines over the number of cards
// that share a step, beside published longest contexts; the largest batch

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
    CHECK(files.first); // a picture has rows of records
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

// max-context.FORMAT of contexts of one card, of several kinds of cards max-context-CARD.FORMAT for each,
// cards.FORMAT of those over several cards and max-batch.FORMAT of batches likewise, as far as there are any.
static bool draw_max_context(const struct picture_form *form, const struct results *results,
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

const struct figure figure_max_context = {
    .name = "max-context",
    .searched = true,
    .own_axes = true,
    .row_panels = true,
    .needs = "records of `longbp max-context` or `longbp max-batch`",
    .within = limited,
    .draw = draw_max_context,
};
