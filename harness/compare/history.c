#define _GNU_SOURCE // getline
#include "harness/compare/history.h"
#include "harness/files/program_output.h"
#include <stdlib.h>
#include <string.h>

static const char *revision_of(const struct record *record)
{
    return text_or(record->provenance.revision, "unknown");
}

// --- commits

static bool is_of(const struct history_commit *commit, const struct record *record)
{
    return commit->dirty == (record->provenance.dirty == 1) && strcmp(commit->revision, revision_of(record)) == 0;
}

static void find_commits(struct history *history, const struct record_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct record *record = list->records[i];
        const char *time = text_or(record->provenance.time, "");
        size_t at = 0;
        while (at < history->commit_count && !is_of(&history->commits[at], record))
            at++;
        if (at == history->commit_count) {
            history->commits = realloc(history->commits, ++history->commit_count * sizeof *history->commits);
            CHECK(history->commits);
            history->commits[at] = (struct history_commit){
                .revision = revision_of(record), .dirty = record->provenance.dirty == 1, .time = time, .first = i};
        }
        struct history_commit *commit = &history->commits[at];
        if (*time && (!*commit->time || strcmp(time, commit->time) < 0))
            commit->time = time;
    }
}

static int order_of(size_t a, size_t b)
{
    return (a > b) - (a < b);
}

// Commits with equal places are two builds of one revision, or git is not available.
static int compare_commits(const void *a, const void *b)
{
    const struct history_commit *left = a, *right = b;
    bool one_revision = strcmp(left->revision, right->revision) == 0;
    int order = order_of(left->place, right->place);
    if (!order && one_revision)
        order = left->dirty - right->dirty;
    if (!order)
        order = strcmp(left->time, right->time);
    return order ? order : order_of(left->first, right->first);
}

// Sets each revision's place, given in full or shortened, among the ancestors of HEAD in the current repository,
// oldest first. Returns false without git, without a repository, or for an unknown revision.
static bool ask_git(const struct history *history, size_t *places)
{
    enum { MIN = 7 }; // digits of a shortened revision
    char *arguments[] = {"git", "rev-list", "--topo-order", "--reverse", "HEAD", NULL}, *line = NULL;
    size_t capacity = 0, found = 0;
    pid_t child;
    FILE *stream = program_output_open(&child, arguments);
    if (!stream)
        return false;
    for (size_t place = 1; getline(&line, &capacity, stream) > 0; place++)
        for (size_t i = 0; i < history->commit_count; i++) {
            const char *revision = history->commits[i].revision;
            size_t digits = strlen(revision);
            if (places[i] || digits < MIN || strncmp(line, revision, digits) != 0)
                continue;
            places[i] = place;
            found++;
        }
    free(line);
    return program_output_close(stream, child) == 0 && found == history->commit_count;
}

static void order_commits(struct history *history)
{
    size_t count = history->commit_count, *places = calloc(count + 1, sizeof *places);
    CHECK(places);
    history->by_git = count > 1 && ask_git(history, places);
    for (size_t i = 0; history->by_git && i < count; i++)
        history->commits[i].place = places[i];
    qsort(history->commits, count, sizeof *history->commits, compare_commits);
    free(places);
}

// --- trials

// Writes the trial's records, by commit, to *end and advances it.
static void find_points(struct history *history, struct history_trial *trial, const struct record_list *list,
                        const struct record ***end)
{
    size_t max = list->count < history->commit_count ? list->count : history->commit_count;
    trial->points = calloc(max, sizeof *trial->points);
    CHECK(trial->points);
    for (size_t c = 0; c < history->commit_count; c++) {
        struct history_point point = {.commit = c, .records = *end};
        for (size_t i = 0; i < list->count; i++)
            if (is_of(&history->commits[c], list->records[i]))
                point.records[point.count++] = point.record = list->records[i];
        *end += point.count;
        history->commits[c].trials += point.count > 0;
        if (point.count)
            trial->points[trial->count++] = point;
    }
}

static void find_trials(struct history *history, const struct record_list *list)
{
    struct keyed_records keyed = {0};
    struct record_lists lists;
    for (size_t i = 0; i < list->count; i++)
        keyed_records_add(&keyed, list->records[i], list->records[i]->id);
    record_lists_make(&lists, &keyed);
    history->trial_count = lists.count;
    history->trials = calloc(lists.count + 1, sizeof *history->trials);
    history->records = calloc(list->count + 1, sizeof *history->records);
    CHECK(history->trials && history->records);
    const struct record **end = history->records;
    for (size_t i = 0; i < lists.count; i++)
        find_points(history, &history->trials[i], lists.in_order[i], &end);
    record_lists_free(&lists);
    keyed_records_free(&keyed);
}

static void name_trials(struct history *history)
{
    const struct record **records = calloc(history->trial_count + 1, sizeof *records);
    struct trial_names names;
    CHECK(records);
    for (size_t i = 0; i < history->trial_count; i++)
        records[i] = history->trials[i].points[history->trials[i].count - 1].record;
    trial_names_open(&names, records, history->trial_count, true);
    for (size_t i = 0; i < history->trial_count; i++)
        history->trials[i].what = trial_names_at(&names, i);
    trial_names_close(&names);
    free(records);
}

// --- changes

static void add_records(struct keyed_records *keyed, const struct history_point *point)
{
    for (size_t i = 0; i < point->count; i++)
        keyed_records_add(keyed, point->records[i], point->record->id);
}

// Compares each trial of the commit with the last earlier commit that has the trial, using all records of both.
static void compare_commit(struct history *history, size_t commit)
{
    struct comparison_options options = {.threshold = TIME_THRESHOLD};
    struct comparison *comparison = &history->commits[commit].comparison;
    struct keyed_records base = {0}, new = {0};
    for (size_t i = 0; i < history->trial_count; i++)
        for (size_t p = 1; p < history->trials[i].count; p++)
            if (history->trials[i].points[p].commit == commit) {
                add_records(&base, &history->trials[i].points[p - 1]);
                add_records(&new, &history->trials[i].points[p]);
            }
    comparison_make_sides(comparison, &base, &new, &options);
    // Most commits have one round per trial, whose times are inconclusive and left out.
    if (comparison->time.rounds == 1) {
        comparison_free(comparison);
        options.deterministic = true;
        comparison_make_sides(comparison, &base, &new, &options);
    }
    keyed_records_free(&base);
    keyed_records_free(&new);
}

size_t history_compared(const struct history *history)
{
    size_t compared = 0;
    for (size_t i = 0; i < history->trial_count; i++)
        compared += history->trials[i].count > 1;
    return compared;
}

const struct trial_comparison *history_change(const struct history *history, const struct history_trial *trial,
                                              size_t commit)
{
    const struct comparison *comparison = &history->commits[commit].comparison;
    for (size_t i = 0; i < comparison->count; i++)
        if (comparison->trials[i].new &&strcmp(comparison->trials[i].new->id, trial->points[0].record->id) == 0)
            return &comparison->trials[i];
    return NULL;
}

void histories_make(struct histories *histories, const struct record *const *records, size_t count)
{
    struct keyed_records keyed = {0};
    struct record_lists lists;
    for (size_t i = 0; i < count; i++)
        keyed_records_add(&keyed, records[i], records[i]->experiment);
    record_lists_make(&lists, &keyed);
    *histories = (struct histories){lists.count, calloc(lists.count + 1, sizeof *histories->items)};
    CHECK(histories->items);
    for (size_t i = 0; i < lists.count; i++) {
        struct history *history = &histories->items[i];
        history->experiment = lists.in_order[i]->key;
        find_commits(history, lists.in_order[i]);
        order_commits(history);
        find_trials(history, lists.in_order[i]);
        name_trials(history);
        for (size_t c = 0; c < history->commit_count; c++)
            compare_commit(history, c);
    }
    record_lists_free(&lists);
    keyed_records_free(&keyed);
}

static void history_free(struct history *history)
{
    for (size_t i = 0; i < history->commit_count; i++)
        comparison_free(&history->commits[i].comparison);
    for (size_t i = 0; i < history->trial_count; i++)
        free(history->trials[i].points);
    free(history->trials);
    free(history->records);
    free(history->commits);
}

void histories_free(struct histories *histories)
{
    for (size_t i = 0; i < histories->count; i++)
        history_free(&histories->items[i]);
    free(histories->items);
    *histories = (struct histories){0};
}
