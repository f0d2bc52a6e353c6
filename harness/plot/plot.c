#include "harness/plot/plot.h"
#include "harness/plot/figure.h"
#include "harness/plot/gnuplot.h"
#include "harness/plot/max_context_figure.h"
#include "harness/plot/picture.h"
#include "harness/plot/planned_figure.h"
#include "harness/results/record.h"
#include "harness/results/results.h"
#include "harness/results/setting.h"
#include "harness/spec/trial.h"
#include <limits.h>
#include <math.h>
#include <string.h>

// Records that belong into one picture.
struct group {
    const char *experiment;
    json_t *setting;
    const struct published_file *published; // of a figure that is drawn beside it
    size_t count;
    const struct record **records;
};

struct grouping {
    size_t count;
    struct group *groups;
};

static void group_records(struct grouping *grouping, const struct figure *figure, const struct results *results,
                          const struct published *published)
{
    *grouping = (struct grouping){0};
    for (size_t i = 0; i < results->count; i++) {
        const struct record *record = results->records[i];
        const char *experiment = record->experiment;
        json_t *setting = setting_of(record->trial.json, figure->within);
        size_t at = 0;
        while (at < grouping->count && (strcmp(grouping->groups[at].experiment, experiment) != 0 ||
                                        !json_equal(grouping->groups[at].setting, setting))) {
            at++;
        }
        if (at == grouping->count) {
            grouping->groups = realloc(grouping->groups, ++grouping->count * sizeof *grouping->groups);
            CHECK(grouping->groups);
            grouping->groups[at] = (struct group){
                .experiment = experiment,
                .setting = json_incref(setting),
                .published =
                    figure->tabulate_beside ? published_find(published, experiment, figure->quantity) : NULL};
        }
        json_decref(setting);
        struct group *group = &grouping->groups[at];
        group->records = realloc(group->records, (group->count + 1) * sizeof *group->records);
        CHECK(group->records);
        group->records[group->count++] = record;
    }
}

static void grouping_free(struct grouping *grouping)
{
    for (size_t i = 0; i < grouping->count; i++) {
        json_decref(grouping->groups[i].setting);
        free(grouping->groups[i].records);
    }
    free(grouping->groups);
}

// The path of the file that a record is from.
static const char *origin_of(const struct results *results, const struct record *record)
{
    size_t i = 0;
    while (results->records[i] != record)
        i++;
    return results->origins[i];
}

// The table as text, to be freed; NULL if these records do not make one.
static char *tabulate(const struct figure *figure, const struct published_file *published,
                      const struct record *const *records, size_t count)
{
    if (!figure->tabulate && !published) {
        return NULL;
    }
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    CHECK(stream);
    bool enough = published ? figure->tabulate_beside(records, count, published, stream)
                            : figure->tabulate(records, count, stream);
    CHECK(fclose(stream) == 0);
    if (!enough) {
        free(text);
        return NULL;
    }
    return text;
}

// As tabulate, of the longest context that makes a table; only its records stay in the group.
static char *tabulate_longest(const struct figure *figure, struct group *group, double *context)
{
    const struct record **records = calloc(group->count + 1, sizeof *records);
    CHECK(records);
    char *text = NULL;
    size_t count;
    double below = INFINITY;
    do {
        *context = 0;
        for (size_t i = 0; i < group->count; i++) {
            double own = group->records[i]->trial.context;
            *context = own < below && own > *context ? own : *context;
        }
        below = *context;
        count = 0;
        for (size_t i = 0; i < group->count; i++) {
            if (group->records[i]->trial.context == *context) {
                records[count++] = group->records[i];
            }
        }
        text = count ? tabulate(figure, group->published, records, count) : NULL;
    } while (count && !text);
    if (text) {
        memcpy(group->records, records, count * sizeof *records);
        group->count = count;
    }
    free(records);
    return text;
}

// Adds a word to a list with commas, once. Past the limit the list ends in "...".
static void list_add(char *list, size_t bytes, const char *word)
{
    char probe[PATH_MAX + 8], whole[PATH_MAX + 8];
    snprintf(probe, sizeof probe, ", %s,", word);
    snprintf(whole, sizeof whole, ", %s,", list);
    size_t used = strlen(list);
    if (strstr(whole, probe) || (used >= 3 && strcmp(list + used - 3, "...") == 0)) {
        return;
    }
    if (used + strlen(word) + 8 > bytes) {
        snprintf(list + used, bytes - used, ", ...");
    } else {
        snprintf(list + used, bytes - used, "%s%s", used ? ", " : "", word);
    }
}

// Two lines below a picture: where its numbers are from, and the machine they were measured on.
static void captions(const struct figure *figure, const struct group *group, const struct results *results,
                     char source[400], char machine[400])
{
    char files[240] = "", revisions[80] = "", machines[320] = "";
    size_t left_out = 0;
    for (size_t i = 0; i < group->count; i++) {
        const struct record *record = group->records[i];
        const struct record_provenance *provenance = &record->provenance;
        list_add(files, sizeof files, origin_of(results, record));
        char text[160], card[128];
        record_card(record, card, sizeof card);
        if (provenance->revision) {
            snprintf(text, sizeof text, "%.12s%s", provenance->revision,
                     provenance->dirty == 1 ? " with changes" : "");
            list_add(revisions, sizeof revisions, text);
        }
        if (trial_plans_on(record->trial.device)) {
            const char *profile = record->profile;
            bool estimated = profile && figure->estimates;
            snprintf(text, sizeof text, "planned, nothing was measured%s%.60s",
                     estimated ? "; times of ours: estimate (roofline), profile " : "", estimated ? profile : "");
            list_add(machines, sizeof machines, text);
        } else if (*card) {
            list_add(machines, sizeof machines, card);
        } else if (provenance->cpu) {
            int threads = provenance->threads > 0 ? (int)provenance->threads : 0;
            snprintf(text, sizeof text, "%.120s, %d thread%s", provenance->cpu, threads, threads == 1 ? "" : "s");
            list_add(machines, sizeof machines, text);
        }
        left_out += record->status != RECORD_OK && record->status != RECORD_OOM;
    }
    snprintf(source, 400, "From %s, revision %s", files, *revisions ? revisions : "unknown");
    snprintf(machine, 400, "%s", machines);
    if (group->published) {
        size_t used = strlen(machine);
        snprintf(machine + used, 400 - used, "%spublished: %s", used ? "; " : "", group->published->source);
    }
    if (left_out) {
        size_t used = strlen(machine);
        snprintf(machine + used, 400 - used, "%sno result from %zu of %zu trials", used ? "; " : "", left_out,
                 group->count);
    }
}

// "chunk-ablation" and "chunk" would say the same twice: the figure's name is left out where the experiment's
// begins with it.
static void picture_name(const char *experiment, const struct figure *figure, const char *suffix, char *name,
                         size_t bytes)
{
    size_t length = strlen(figure->name);
    bool said =
        strncmp(experiment, figure->name, length) == 0 && (!experiment[length] || experiment[length] == '-');
    snprintf(name, bytes, "%s%s%s", experiment, said ? "" : "-", said ? "" : figure->name);
    setting_slug(name);
    size_t used = strlen(name);
    snprintf(name + used, bytes - used, "%s", suffix);
}

struct drawing {
    const struct figure *figure;
    const struct group *group;
    const char *table, *suffix;
    double context; // 0: several
};

static bool draw(const struct plot_request *request, const char *scripts, const struct results *results,
                 const struct drawing *drawing, struct status *status)
{
    const struct group *group = drawing->group;
    char name[300], setting[200], source[400], machine[400];
    picture_name(group->experiment, drawing->figure, drawing->suffix, name, sizeof name);
    json_t *common = setting_common(group->records, group->count);
    setting_describe(common, drawing->context, setting, sizeof setting);
    json_decref(common);
    captions(drawing->figure, group, results, source, machine);
    const struct picture picture = {.folder = request->folder,
                                    .scripts = scripts,
                                    .formats = request->formats,
                                    .name = name,
                                    .figure = drawing->figure->name,
                                    .table = drawing->table,
                                    .setting = setting,
                                    .source = source,
                                    .machine = machine};
    return picture_draw(&picture, status);
}

// Every picture of one figure; *drawn counts them.
static bool draw_figure(const struct plot_request *request, const char *scripts, const struct results *results,
                        const struct published *published, const struct figure *figure, size_t *drawn,
                        struct status *status)
{
    struct grouping grouping;
    group_records(&grouping, figure, results, published);
    char **tables = calloc(grouping.count + 1, sizeof *tables);
    double *contexts = calloc(grouping.count + 1, sizeof *contexts);
    json_t **rivals = calloc(grouping.count + 1, sizeof *rivals);
    CHECK(tables && contexts && rivals);
    for (size_t i = 0; i < grouping.count; i++) {
        struct group *group = &grouping.groups[i];
        tables[i] = figure->one_context ? tabulate_longest(figure, group, &contexts[i])
                                        : tabulate(figure, group->published, group->records, group->count);
    }
    bool fine = true;
    for (size_t i = 0; fine && i < grouping.count; i++) {
        // Pictures of the same experiment are told apart by the settings that differ.
        size_t rival_count = 0;
        for (size_t j = 0; j < grouping.count; j++) {
            if (tables[j] && strcmp(grouping.groups[j].experiment, grouping.groups[i].experiment) == 0) {
                rivals[rival_count++] = grouping.groups[j].setting;
            }
        }
        char suffix[160];
        setting_suffix(grouping.groups[i].setting, rivals, rival_count, suffix, sizeof suffix);
        struct drawing drawing = {figure, &grouping.groups[i], tables[i], suffix, contexts[i]};
        if (tables[i]) {
            fine = draw(request, scripts, results, &drawing, status);
            (*drawn)++;
        }
    }
    for (size_t i = 0; i < grouping.count; i++) {
        free(tables[i]);
    }
    free(tables);
    free(contexts);
    free(rivals);
    grouping_free(&grouping);
    return fine;
}

// Whether a list with commas holds the word.
static bool listed(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (strncmp(at, word, length) == 0 && (!at[length] || at[length] == ',')) {
            return true;
        }
    }
    return false;
}

// Refuses a list with a word that is not among the known ones.
static bool check_list(const char *list, const char *known, const char *option, struct status *status)
{
    char words[256];
    if (snprintf(words, sizeof words, "%s", list) >= (int)sizeof words) {
        return status_set(status, STATUS_BAD_INPUT, "%s: the list is too long", option);
    }
    char *rest = NULL;
    for (char *word = strtok_r(words, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        if (!listed(known, word)) {
            return status_set(status, STATUS_BAD_INPUT, "%s: \"%s\" is not one of %s", option, word, known);
        }
    }
    return true;
}

void plot_figures(const char *separator, char *text, size_t bytes)
{
    *text = '\0';
    for (size_t i = 0; figures[i]; i++) {
        size_t used = strlen(text);
        snprintf(text + used, bytes - used, "%s%s", used ? separator : "", figures[i]->name);
    }
}

static bool check_request(const struct plot_request *request, struct status *status)
{
    char known[256];
    plot_figures(",", known, sizeof known);
    return check_list(request->formats, "svg,png", "--format", status) &&
           (!request->figures || check_list(request->figures, known, "--figures", status));
}

static bool nothing_drawn(const struct plot_request *request, const struct results *results, struct status *status)
{
    char text[1000] = "";
    for (size_t i = 0; figures[i]; i++) {
        size_t used = strlen(text);
        if (!request->figures || listed(request->figures, figures[i]->name)) {
            snprintf(text + used, sizeof text - used, "\n  %s: %s", figures[i]->name, figures[i]->needs);
        }
    }
    return status_set(status, STATUS_BAD_INPUT,
                      "none of these %zu records can be drawn; the figures need, in one experiment and setting:%s",
                      results->count, text);
}

// Without the folder that nobody named, nothing is published.
static bool load_published(struct published *published, const struct plot_request *request, struct status *status)
{
    struct status why = {0};
    if (published_load(published, request->published, &why) || (why.code == STATUS_IO && !request->published)) {
        return true;
    }
    *status = why;
    return false;
}

bool plot(const struct plot_request *request, struct status *status)
{
    struct results results = {0};
    struct published published = {0};
    struct max_context_request bars = {.paths = request->max_context_paths,
                                       .path_count = request->max_context_count,
                                       .folder = request->folder,
                                       .formats = request->formats};
    struct planned_request fronts = {request->advice_paths, request->advice_count, request->folder, NULL,
                                     request->formats},
                           frontiers = {request->frontier_paths, request->frontier_count, request->folder, NULL,
                                        request->formats};
    char *scripts = NULL;
    size_t drawn = 0, planned = bars.path_count + fronts.path_count + frontiers.path_count;
    bool fine = check_request(request, status) && load_published(&published, request, status) &&
                results_open(&results, request->paths, request->path_count, status) &&
                (scripts = gnuplot_scripts(request->scripts, status)) != NULL;
    for (size_t i = 0; fine && figures[i]; i++) {
        if (!request->figures || listed(request->figures, figures[i]->name)) {
            fine = draw_figure(request, scripts, &results, &published, figures[i], &drawn, status);
        }
    }
    if (fine && bars.path_count) {
        bars.scripts = scripts;
        fine = max_context_plot(&bars, &published, status);
    }
    fronts.scripts = frontiers.scripts = scripts;
    fine = fine && front_plot(&fronts, status) && frontier_plot(&frontiers, status);
    if (fine && !drawn && (request->path_count || !planned)) {
        fine = nothing_drawn(request, &results, status);
    }
    results_close(&results);
    published_free(&published);
    free(scripts);
    return fine;
}
