#include "harness/compare/history.h"
#include "harness/results/revision_order.h"
#include <stdlib.h>
#include <string.h>

static const char *revision_of(const struct record *record)
{
    return text_or(record->provenance.revision, "unknown");
}

static const char *time_of(const struct record *record)
{
    return text_or(record->provenance.time, "");
}

// --- commits

static size_t commit_of(const struct history *history, const struct record *record)
{
    size_t at = 0;
    while (at < history->commit_count && (history->commits[at].dirty != (record->provenance.dirty == 1) ||
                                          strcmp(history->commits[at].revision, revision_of(record)) != 0))
        at++;
    return at;
}

static void find_commits(struct history *history, const struct record *const *records, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t at = commit_of(history, records[i]);
        if (at == history->commit_count) {
            history->commits = realloc(history->commits, (at + 1) * sizeof *history->commits);
            CHECK(history->commits);
            history->commits[history->commit_count++] =
                (struct history_commit){.revision = revision_of(records[i]),
                                        .dirty = records[i]->provenance.dirty == 1,
                                        .time = time_of(records[i])};
        }
        struct history_commit *commit = &history->commits[at];
        const char *time = time_of(records[i]);
        if (*time && (!*commit->time || strcmp(time, commit->time) < 0))
            commit->time = time;
    }
}

struct placed {
    struct history_commit commit;
    size_t place; // by git; all 0 without it
    size_t at;    // in the records
};

static int compare_placed(const void *a, const void *b)
{
    const struct placed *left = a, *right = b;
    int by_git = (left->place > right->place) - (left->place < right->place);
    // Only commits of one place are two builds of one revision, or without git.
    int by_dirty = left->commit.dirty - right->commit.dirty,
        by_time = strcmp(left->commit.time, right->commit.time);
    bool one_revision = strcmp(left->commit.revision, right->commit.revision) == 0;
    if (by_git)
        return by_git;
    if (one_revision && by_dirty)
        return by_dirty;
    return by_time ? by_time : (left->at > right->at) - (left->at < right->at);
}

static void order_commits(struct history *history)
{
    size_t count = history->commit_count, *places = calloc(count + 1, sizeof *places);
    const char **revisions = calloc(count + 1, sizeof *revisions);
    struct placed *placed = calloc(count + 1, sizeof *placed);
    CHECK(places && revisions && placed);
    for (size_t i = 0; i < count; i++)
        revisions[i] = history->commits[i].revision;
    history->by_git = count > 1 && revision_order(revisions, count, places);
    for (size_t i = 0; i < count; i++)
        placed[i] = (struct placed){history->commits[i], history->by_git ? places[i] : 0, i};
    qsort(placed, count, sizeof *placed, compare_placed);
    for (size_t i = 0; i < count; i++)
        history->commits[i] = placed[i].commit;
    free(placed);
    free(revisions);
    free(places);
}

// --- trials

static struct history_trial *trial_of(struct history *history, json_t *places, const struct record *record)
{
    const json_t *place = json_object_get(places, record->id);
    if (place)
        return &history->trials[json_integer_value(place)];
    CHECK(json_object_set_new(places, record->id, json_integer((json_int_t)history->trial_count)) == 0);
    history->trials = realloc(history->trials, (history->trial_count + 1) * sizeof *history->trials);
    CHECK(history->trials);
    history->trials[history->trial_count] = (struct history_trial){.count = 0};
    return &history->trials[history->trial_count++];
}

// Puts a point where its commit belongs; a later record of the trial at the commit takes its place.
static void add_point(struct history_trial *trial, struct history_point point)
{
    size_t at = 0;
    while (at < trial->count && trial->points[at].commit < point.commit)
        at++;
    if (at < trial->count && trial->points[at].commit == point.commit) {
        trial->points[at] = point;
        return;
    }
    trial->points = realloc(trial->points, (trial->count + 1) * sizeof *trial->points);
    CHECK(trial->points);
    memmove(trial->points + at + 1, trial->points + at, (trial->count - at) * sizeof *trial->points);
    trial->points[at] = point;
    trial->count++;
}

static void find_trials(struct history *history, const struct record *const *records, size_t count)
{
    json_t *places = json_object();
    CHECK(places);
    for (size_t i = 0; i < count; i++) {
        struct history_point point = {commit_of(history, records[i]), records[i]};
        struct history_trial *trial = trial_of(history, places, records[i]);
        add_point(trial, point);
    }
    json_decref(places);
}

static void name_trials(struct history *history)
{
    const struct record **records = calloc(history->trial_count + 1, sizeof *records);
    struct trial_names names;
    CHECK(records);
    for (size_t i = 0; i < history->trial_count; i++) {
        const struct history_trial *trial = &history->trials[i];
        records[i] = trial->points[trial->count - 1].record;
    }
    trial_names_open(&names, records, history->trial_count, true);
    for (size_t i = 0; i < history->trial_count; i++)
        history->trials[i].what = trial_names_at(&names, i);
    trial_names_close(&names);
    free(records);
}

// --- changes

// For each trial of the commit, the last commit before it that has the trial, by id.
static json_t *commits_before(const struct history *history, size_t commit)
{
    json_t *before = json_object();
    CHECK(before);
    for (size_t i = 0; i < history->trial_count; i++) {
        const struct history_trial *trial = &history->trials[i];
        for (size_t p = 1; p < trial->count; p++)
            if (trial->points[p].commit == commit)
                CHECK(json_object_set_new(before, trial->points[p].record->id,
                                          json_integer((json_int_t)trial->points[p - 1].commit)) == 0);
    }
    return before;
}

// All records of a trial count, for samples of several rounds are pooled.
static void compare_commit(struct history *history, size_t commit, const struct record *const *records,
                           const size_t *commits, size_t count)
{
    struct comparison_options options = {.threshold = TIME_THRESHOLD};
    struct comparison *comparison = &history->commits[commit].comparison;
    struct comparison_side base = {0}, new = {0};
    json_t *before = commits_before(history, commit);
    for (size_t i = 0; i < count; i++) {
        const json_t *from = json_object_get(before, records[i]->id);
        if (from && (size_t)json_integer_value(from) == commits[i])
            comparison_side_add(&base, records[i], records[i]->id);
        if (from && commits[i] == commit)
            comparison_side_add(&new, records[i], records[i]->id);
    }
    comparison_make_sides(comparison, &base, &new, &options);
    // Most commits have one round of each trial, whose times say nothing: they are left out.
    if (comparison->time.rounds == 1) {
        comparison_free(comparison);
        options.deterministic = true;
        comparison_make_sides(comparison, &base, &new, &options);
    }
    comparison_side_free(&base);
    comparison_side_free(&new);
    json_decref(before);
}

static void history_make(struct history *history, const struct record *const *records, size_t count)
{
    *history = (struct history){.experiment = records[0]->experiment};
    find_commits(history, records, count);
    order_commits(history);
    find_trials(history, records, count);
    name_trials(history);
    size_t *commits = calloc(count + 1, sizeof *commits);
    CHECK(commits);
    for (size_t i = 0; i < count; i++)
        commits[i] = commit_of(history, records[i]);
    for (size_t t = 0; t < history->trial_count; t++)
        for (size_t p = 0; p < history->trials[t].count; p++)
            history->commits[history->trials[t].points[p].commit].trials++;
    for (size_t c = 0; c < history->commit_count; c++)
        compare_commit(history, c, records, commits, count);
    free(commits);
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

// The records of one experiment, in their order, to be freed.
static const struct record **records_of(const char *experiment, const struct record *const *records, size_t count,
                                        size_t *found)
{
    const struct record **chosen = calloc(count + 1, sizeof *chosen);
    CHECK(chosen);
    *found = 0;
    for (size_t i = 0; i < count; i++)
        if (strcmp(records[i]->experiment, experiment) == 0)
            chosen[(*found)++] = records[i];
    return chosen;
}

static bool is_known(const struct histories *histories, const char *experiment)
{
    bool known = false;
    for (size_t i = 0; i < histories->count; i++)
        known |= strcmp(histories->items[i].experiment, experiment) == 0;
    return known;
}

void histories_make(struct histories *histories, const struct record *const *records, size_t count)
{
    *histories = (struct histories){0};
    for (size_t i = 0; i < count; i++) {
        if (is_known(histories, records[i]->experiment))
            continue;
        size_t found;
        const struct record **chosen = records_of(records[i]->experiment, records, count, &found);
        histories->items = realloc(histories->items, (histories->count + 1) * sizeof *histories->items);
        CHECK(histories->items);
        history_make(&histories->items[histories->count++], chosen, found);
        free(chosen);
    }
}

static void history_free(struct history *history)
{
    for (size_t i = 0; i < history->commit_count; i++)
        comparison_free(&history->commits[i].comparison);
    for (size_t i = 0; i < history->trial_count; i++)
        free(history->trials[i].points);
    free(history->trials);
    free(history->commits);
}

void histories_free(struct histories *histories)
{
    for (size_t i = 0; i < histories->count; i++)
        history_free(&histories->items[i]);
    free(histories->items);
    *histories = (struct histories){0};
}
