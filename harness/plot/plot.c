#include "harness/plot/plot.h"
#include "harness/papers/claim_pictures.h"
#include "harness/plot/figure.h"
#include "harness/plot/gnuplot.h"
#include "harness/plot/picture.h"
#include "harness/record/record.h"
#include "harness/record/record_fields.h"
#include "harness/record/record_json.h"
#include "harness/record/results.h"
#include "harness/record/step_time.h"
#include "harness/spec/trial.h"
#include "harness/table/record_filter.h"
#include "harness/table/setting.h"
#include "harness/table/trial_names.h"
#include "harness/text/names.h"
#include "harness/text/text.h"
#include "harness/text/word_list.h"
#include "kernels/base/status.h"
#include <limits.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

// --- records of one picture

// The records of one picture: one experiment and setting, and one measurement per trial.
struct group {
    const char *experiment;
    json_t *setting;
    size_t kind;                // of its experiment and setting: equal for groups that differ in context
    double context;             // 0: several
    struct figure_table *table; // NULL: the records do not suffice
    const struct published_file *published; // for a figure with published points
    size_t count;
    const struct record **records;
    const char **origins; // [count], paths of the records' files
    size_t repeated;      // further records of these trials, measured differently
};

struct grouping {
    size_t count;
    struct group *groups;
};

// Numbers distinct keys in order of first occurrence. Zeroed: empty.
struct numbering {
    size_t count, capacity;
    struct numbered *items; // [capacity], a hash table
};

struct numbered {
    XXH128_hash_t hash;
    size_t after; // the key's number + 1; 0: free
};

// The slot that holds the hash, or the free slot for it. capacity: a power of two.
static struct numbered *slot_of(struct numbered *items, size_t capacity, XXH128_hash_t hash)
{
    size_t at = hash.low64 & (capacity - 1);
    while (items[at].after && !XXH128_isEqual(items[at].hash, hash))
        at = (at + 1) & (capacity - 1);
    return &items[at];
}

static void numbering_grow(struct numbering *numbering)
{
    size_t capacity = numbering->capacity ? 2 * numbering->capacity : 64;
    struct numbered *items = calloc(capacity, sizeof *items);
    for (size_t i = 0; i < numbering->capacity; i++)
        if (numbering->items[i].after)
            *slot_of(items, capacity, numbering->items[i].hash) = numbering->items[i];
    free(numbering->items);
    numbering->items = items;
    numbering->capacity = capacity;
}

// The number of a key; a new key gets the count before it. Keys are compared by 128-bit hashes.
static size_t numbering_of(struct numbering *numbering, const void *key, size_t bytes)
{
    XXH128_hash_t hash = XXH3_128bits(key, bytes);
    if (4 * numbering->count >= 3 * numbering->capacity)
        numbering_grow(numbering);
    struct numbered *place = slot_of(numbering->items, numbering->capacity, hash);
    if (!place->after)
        *place = (struct numbered){hash, ++numbering->count};
    return place->after - 1;
}

static void numbering_free(struct numbering *numbering)
{
    free(numbering->items);
    *numbering = (struct numbering){0};
}

#define COUNTS_MAX 8

// A cheap identity of a trial: its interned text and its counts (record_trial).
struct glance {
    const void *text;
    double counts[COUNTS_MAX]; // 0: absent, or none
};

// Names computed once per distinct identity.
struct names_at_glance {
    struct numbering glances, names;
    size_t *numbers; // [glances.count], indices of names
};

struct grouping_work {
    const struct figure *figure;
    const struct record_field *counts[COUNTS_MAX]; // of a trial
    size_t count_count;
    struct names_at_glance settings; // with experiment and machine
    struct names_at_glance texts;    // of trials without measurement and counts
    struct numbering machines, groups, trials;
    size_t *places; // [trials.count], index of each in its group
};

static void find_counts(struct grouping_work *work)
{
    const struct record_field *field = record_field_find(record_fields, "trial")->members;
    for (; field->name; field++) {
        if (field->type != FIELD_COUNT)
            continue;
        CHECK(work->count_count < COUNTS_MAX);
        work->counts[work->count_count++] = field;
    }
}

static bool is_among(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names;
}

static struct glance glance_of(const struct grouping_work *work, const struct record_trial *trial)
{
    struct glance glance = {.text = trial->rest ? (const void *)trial->rest : trial->json};
    for (size_t i = 0; i < work->count_count; i++)
        memcpy(&glance.counts[i], (const char *)trial + work->counts[i]->offset, sizeof *glance.counts);
    return glance;
}

// NULL: the identity is new, and a name must be added.
static const size_t *known(struct names_at_glance *names, const void *glance, size_t bytes)
{
    size_t before = names->glances.count, number = numbering_of(&names->glances, glance, bytes);
    return number < before ? &names->numbers[number] : NULL;
}

// Adds the name of the identity that known() has just added. Returns the name's number.
static size_t add_name(struct names_at_glance *names, const char *name)
{
    size_t count = names->glances.count;
    names->numbers = realloc(names->numbers, count * sizeof *names->numbers);
    return names->numbers[count - 1] = numbering_of(&names->names, name, strlen(name));
}

static void free_names(struct names_at_glance *names)
{
    numbering_free(&names->glances);
    numbering_free(&names->names);
    free(names->numbers);
}

static json_t *setting_on(const struct record *record, const struct figure *figure, const char *machine)
{
    json_t *setting = setting_of_record(record, figure->within);
    if (*machine)
        CHECK(json_object_set_new(setting, "machine", record_text(machine)) == 0);
    return setting;
}

// The number of its experiment and setting.
static size_t kind_of(struct grouping_work *work, const struct record *record, const char *machine)
{
    struct {
        struct glance trial;
        const char *experiment;
        size_t machine;
    } glance = {glance_of(work, &record->trial), record->experiment,
                numbering_of(&work->machines, machine, strlen(machine))};
    for (size_t i = 0; i < work->count_count; i++)
        if (strcmp(work->counts[i]->name, "context") == 0 || is_among(work->counts[i]->name, work->figure->within))
            glance.trial.counts[i] = 0;
    const size_t *kind = known(&work->settings, &glance, sizeof glance);
    if (kind)
        return *kind;
    json_t *setting = setting_on(record, work->figure, machine);
    char *words = json_dumps(setting, JSON_COMPACT | JSON_SORT_KEYS), *name;
    CHECK(words && asprintf(&name, "%s %s", words, record->experiment) >= 0);
    size_t number = add_name(&work->settings, name);
    free(name);
    free(words);
    json_decref(setting);
    return number;
}

// The number of the trial's text without measurement and counts.
static size_t text_of(struct grouping_work *work, const struct record_trial *trial)
{
    const void *text = glance_of(work, trial).text;
    const size_t *number = known(&work->texts, &text, sizeof text);
    if (number)
        return *number;
    json_t *rest = json_copy((json_t *)record_trial_rest(trial));
    json_object_del(rest, "measure");
    for (size_t i = 0; i < work->count_count; i++)
        if (json_is_integer(json_object_get(rest, work->counts[i]->name)))
            json_object_del(rest, work->counts[i]->name);
    char *words = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
    CHECK(words);
    size_t added = add_name(&work->texts, words);
    free(words);
    json_decref(rest);
    return added;
}

static void add_record(struct group *group, const struct record *record, const char *origin)
{
    group->records = realloc(group->records, (group->count + 1) * sizeof *group->records);
    group->origins = realloc(group->origins, (group->count + 1) * sizeof *group->origins);
    group->records[group->count] = record;
    group->origins[group->count++] = origin;
}

// Tells whether its trial requested that part of `measure`.
static bool has_part(const struct record *record, const char *part)
{
    const json_t *value = json_object_get(json_object_get(record_trial_rest(&record->trial), "measure"), part);
    return json_is_true(value) || (json_is_string(value) && strcmp(json_string_value(value), "none") != 0);
}

// The index of the record's trial in group `number`; one past the end if it has none yet.
static size_t *place_of(struct grouping_work *work, const struct group *group, size_t number,
                        const struct record *record)
{
    struct {
        struct glance trial;
        size_t text, group;
    } key = {glance_of(work, &record->trial), text_of(work, &record->trial), number};
    key.trial.text = NULL;
    size_t before = work->trials.count, trial = numbering_of(&work->trials, &key, sizeof key);
    if (trial == before) {
        work->places = realloc(work->places, (before + 1) * sizeof *work->places);
        work->places[trial] = group->count;
    }
    return &work->places[trial];
}

// Adds the record, or keeps one of it and another measurement of the same trial: the last, unless only the other
// has what the figure shows.
static void add_trial(struct grouping_work *work, struct group *group, size_t number, const struct record *record,
                      const char *origin)
{
    const struct figure *figure = work->figure;
    size_t place = figure->every_commit ? group->count : *place_of(work, group, number, record);
    if (place == group->count) {
        add_record(group, record, origin);
        return;
    }
    group->repeated++;
    if (figure->part && !has_part(record, figure->part) && has_part(group->records[place], figure->part))
        return;
    group->records[place] = record;
    group->origins[place] = origin;
}

// Adds published points of its experiment to each group, if the figure shows them. Release with grouping_free.
static void grouping_make(struct grouping *grouping, const struct figure *figure, const struct results *results,
                          const struct published *published)
{
    struct grouping_work work = {.figure = figure};
    bool machines =
        figure->times && !figure->every_commit && records_of_several_machines(results->records, results->count);
    *grouping = (struct grouping){.groups = calloc(results->count + 1, sizeof *grouping->groups)};
    CHECK(grouping->groups);
    find_counts(&work);
    for (size_t i = 0; i < results->count; i++) {
        const struct record *record = results->records[i];
        char machine[RECORD_MACHINE_BYTES] = "";
        if (machines)
            record_machine(record, machine, sizeof machine);
        struct {
            size_t kind;
            double context;
        } key = {kind_of(&work, record, machine), figure->one_context ? record->trial.context : 0};
        size_t at = numbering_of(&work.groups, &key, sizeof key);
        struct group *group = &grouping->groups[at];
        if (at == grouping->count) {
            *group =
                (struct group){.experiment = record->experiment,
                               .setting = setting_on(record, figure, machine),
                               .kind = key.kind,
                               .context = key.context,
                               .published = figure->tabulate_beside
                                                ? published_find(published, record->experiment, figure->quantity)
                                                : NULL};
            grouping->count++;
        }
        add_trial(&work, group, at, record, results->origins[i]);
    }
    free_names(&work.settings);
    free_names(&work.texts);
    numbering_free(&work.machines);
    numbering_free(&work.groups);
    numbering_free(&work.trials);
    free(work.places);
}

static void grouping_free(struct grouping *grouping)
{
    for (size_t i = 0; i < grouping->count; i++) {
        json_decref(grouping->groups[i].setting);
        free(grouping->groups[i].records);
        free(grouping->groups[i].origins);
        if (grouping->groups[i].table)
            figure_table_free(grouping->groups[i].table);
        free(grouping->groups[i].table);
    }
    free(grouping->groups);
}

// --- pictures

// Number of longest contexts with a picture each; a sweep may have a hundred contexts.
#define CONTEXTS_DRAWN 4

// To be freed; NULL if these records do not suffice.
static struct figure_table *tabulate(const struct figure *figure, const struct published_file *published,
                                     const struct record *const *records, size_t count)
{
    struct figure_table *table = calloc(1, sizeof *table);
    bool enough = published          ? figure->tabulate_beside(records, count, published, table)
                  : figure->tabulate ? figure->tabulate(records, count, table)
                                     : false;
    if (enough)
        return table;
    figure_table_free(table);
    free(table);
    return NULL;
}

// Adds a word to a comma-separated list unless it has it. Beyond the limit the list ends in "...".
static void list_add(char *list, size_t bytes, const char *word)
{
    char probe[PATH_MAX + 8], whole[PATH_MAX + 8];
    snprintf(probe, sizeof probe, ", %s,", word);
    snprintf(whole, sizeof whole, ", %s,", list);
    size_t used = strlen(list);
    if (strstr(whole, probe) || (used >= 3 && strcmp(list + used - 3, "...") == 0))
        return;
    if (used + strlen(word) + 8 > bytes)
        snprintf(list + used, bytes - used, ", ...");
    else
        snprintf(list + used, bytes - used, "%s%s", used ? ", " : "", word);
}

// Two lines below a picture: the sources of its numbers, and the machine that they were measured on.
static void captions(const struct figure *figure, const struct group *group, char source[400], char machine[400])
{
    char files[240] = "", revisions[80] = "", machines[320] = "";
    char drawn[80] = "";
    size_t left_out = 0, disturbed = 0, perhaps = 0;
    for (size_t i = 0; i < group->count; i++) {
        const struct record *record = group->records[i];
        const struct record_provenance *provenance = &record->provenance;
        list_add(files, sizeof files, group->origins[i]);
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
            snprintf(text, sizeof text, "planned, not measured%s%.60s%s%.20s",
                     estimated ? "; times of ours: estimate, profile " : "", estimated ? profile : "",
                     estimated && record->estimate ? ", " : "",
                     estimated && record->estimate ? record->estimate : "");
            list_add(machines, sizeof machines, text);
        } else if (*card) {
            list_add(machines, sizeof machines, card);
        } else if (provenance->cpu) {
            int threads = provenance->threads > 0 ? (int)provenance->threads : 0;
            snprintf(text, sizeof text, "%.120s, %d thread%s", provenance->cpu, threads, threads == 1 ? "" : "s");
            list_add(machines, sizeof machines, text);
        }
        if (figure->peaks && step_time_is_drawn(record) && isfinite(record->peak_bytes))
            list_add(drawn, sizeof drawn, record_method(record));
        disturbed += record_disturbed(record);
        perhaps += !record_disturbed(record) && record_perhaps_disturbed(record);
        left_out += record->status != RECORD_OK && record->status != RECORD_OOM;
    }
    snprintf(source, 400, "From %s, revision %s", files, *revisions ? revisions : "unknown");
    snprintf(machine, 400, "%s", machines);
    if (group->published) {
        size_t used = strlen(machine);
        snprintf(machine + used, 400 - used, "%spublished: %s", used ? "; " : "", group->published->source);
    }
    if (*drawn) {
        size_t used = strlen(machine);
        snprintf(machine + used, 400 - used, "%speak of %s: that of its first draw", used ? "; " : "", drawn);
    }
    if (disturbed && figure->times) {
        size_t used = strlen(machine);
        snprintf(machine + used, 400 - used, "; times of %zu of %zu trials: something else ran beside them",
                 disturbed, group->count);
    }
    if (perhaps && figure->times) {
        size_t used = strlen(machine);
        snprintf(machine + used, 400 - used, "; %zu of %zu trials are short and the machine was busy", perhaps,
                 group->count);
    }
    if (left_out) {
        size_t used = strlen(machine);
        snprintf(machine + used, 400 - used, "%sno result from %zu of %zu trials", used ? "; " : "", left_out,
                 group->count);
    }
}

// Omits the figure's name if the experiment's begins with it, as in "chunk-ablation" and "chunk".
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
    const char *suffix;
};

// The common context of a group; 0: they differ.
static double context_of(const struct group *group)
{
    double context = group->records[0]->trial.context;
    for (size_t i = 1; i < group->count; i++)
        context = group->records[i]->trial.context == context ? context : 0;
    return context;
}

static bool draw(const struct picture_form *form, const struct drawing *drawing, struct status *status)
{
    const struct group *group = drawing->group;
    char name[300], kind[300], claim[900], setting[400], source[400], machine[400];
    picture_name(group->experiment, drawing->figure, "", kind, sizeof kind);
    claim_pictures_find(kind, claim, sizeof claim);
    picture_name(group->experiment, drawing->figure, drawing->suffix, name, sizeof name);
    json_t *common = setting_common(group->records, group->count);
    setting_describe(common, context_of(group), setting, sizeof setting);
    json_decref(common);
    captions(drawing->figure, group, source, machine);
    const struct picture picture = {.form = form,
                                    .name = name,
                                    .kind = kind,
                                    .figure = drawing->figure->name,
                                    .along = drawing->figure->along,
                                    .logarithmic = drawing->figure->logarithmic,
                                    .claim = *claim ? claim : NULL,
                                    .table = group->table,
                                    .setting = setting,
                                    .source = source,
                                    .machine = machine};
    return picture_draw(&picture, status);
}

// Tells whether two groups differ only in context.
static bool alike(const struct group *a, const struct group *b)
{
    return a->kind == b->kind;
}

// Number of such groups with a table and a longer context than `shorter`.
static size_t longer_contexts(const struct grouping *grouping, const struct group *group, double shorter)
{
    size_t count = 0;
    for (size_t i = 0; i < grouping->count; i++) {
        const struct group *other = &grouping->groups[i];
        count += other->table && other->context > shorter && alike(group, other);
    }
    return count;
}

static bool is_drawn(const struct grouping *grouping, const struct group *group)
{
    return group->table && longer_contexts(grouping, group, group->context) < CONTEXTS_DRAWN;
}

// Distinguishes the pictures of one experiment by the settings that differ.
static void suffix_of(const struct grouping *grouping, const struct group *group, char *text, size_t bytes)
{
    json_t **rivals = calloc(grouping->count + 1, sizeof *rivals);
    size_t count = 0;
    for (size_t i = 0; i < grouping->count; i++) {
        const struct group *other = &grouping->groups[i];
        if (other->table && strcmp(other->experiment, group->experiment) == 0)
            rivals[count++] = other->setting;
    }
    setting_suffix(group->setting, rivals, count, text, bytes);
    free(rivals);
}

// Reports contexts without a picture although others have one, once for groups that differ only in context.
static void say_left_out(const struct grouping *grouping, const struct group *group, const struct figure *figure)
{
    char lacking[200] = "", shorter[200] = "", name[300], suffix[200], context[32];
    for (size_t i = 0; i < grouping->count; i++) {
        const struct group *other = &grouping->groups[i];
        if (!alike(group, other))
            continue;
        if (other < group)
            return;
        snprintf(context, sizeof context, "%.0f", other->context);
        if (!other->table)
            list_add(lacking, sizeof lacking, context);
        else if (!is_drawn(grouping, other))
            list_add(shorter, sizeof shorter, context);
    }
    suffix_of(grouping, group, suffix, sizeof suffix);
    picture_name(group->experiment, figure, suffix, name, sizeof name);
    if (*lacking && longer_contexts(grouping, group, 0))
        fprintf(stderr, "%s: no picture of context %s, which would need %s\n", name, lacking, figure->needs);
    if (*shorter) {
        fprintf(stderr, "%s: of the longest %d contexts; --where context=N draws another of %s\n", name,
                CONTEXTS_DRAWN, shorter);
    }
}

// Reports records of a picture that have no point in it.
static void say_pointless(const struct group *group, const struct figure *figure, const char *suffix)
{
    char pointless[400] = "", name[300];
    struct trial_names names;
    bool named = false;
    for (size_t i = 0; figure->is_pointless && i < group->count; i++) {
        if (!figure->is_pointless(group->records[i], group->records, group->count))
            continue;
        if (!named)
            trial_names_open(&names, group->records, group->count, false);
        named = true;
        char words[330];
        snprintf(words, sizeof words, "\"%s\"", trial_names_at(&names, i).text);
        list_add(pointless, sizeof pointless, words);
    }
    if (!named)
        return;
    trial_names_close(&names);
    picture_name(group->experiment, figure, suffix, name, sizeof name);
    fprintf(stderr, "%s: no point of %s, which would need %s\n", name, pointless, figure->point_needs);
}

// Reports records left out in favour of others of their trials.
static void say_repeated(const struct group *group, const struct figure *figure, const char *suffix)
{
    char name[300];
    picture_name(group->experiment, figure, suffix, name, sizeof name);
    if (group->repeated)
        fprintf(stderr,
                "%s: %zu records left out: of a trial that was measured again, in another way, the last counts\n",
                name, group->repeated);
}

// Reports disturbed times of a picture, because captions may be off (--style bare).
static void say_disturbed(const struct group *group, const struct figure *figure, const char *suffix)
{
    char name[300];
    size_t disturbed = 0, perhaps = 0;
    for (size_t i = 0; figure->times && i < group->count; i++) {
        bool surely = record_disturbed(group->records[i]);
        disturbed += surely;
        perhaps += !surely && record_perhaps_disturbed(group->records[i]);
    }
    picture_name(group->experiment, figure, suffix, name, sizeof name);
    if (disturbed)
        fprintf(stderr, "%s: times of %zu of %zu trials are too long: something else ran beside them\n", name,
                disturbed, group->count);
    if (perhaps)
        fprintf(stderr, "%s: %zu of %zu trials are short and the machine was busy: their times may be too long\n",
                name, perhaps, group->count);
}

// Reports machines without a picture although others of their experiment have one.
static void say_machines(const struct grouping *grouping, const struct figure *figure)
{
    json_t *drawn = json_object(), *told = json_object(); // experiments, and those with a machine
    char key[600];
    for (size_t pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < grouping->count; i++) {
            const struct group *group = &grouping->groups[i];
            const char *machine = json_string_value(json_object_get(group->setting, "machine"));
            if (!machine || (pass == 0) != (group->table != NULL))
                continue;
            snprintf(key, sizeof key, "%s on %s", group->experiment, machine);
            bool known = json_object_get(told, key);
            CHECK(json_object_set_new(told, key, json_true()) == 0);
            if (pass == 0)
                CHECK(json_object_set_new(drawn, group->experiment, json_true()) == 0);
            else if (!known && json_object_get(drawn, group->experiment))
                fprintf(stderr, "%s: no picture of %s measured on %s, which would need %s\n", group->experiment,
                        figure->name, machine, figure->needs);
        }
    json_decref(told);
    json_decref(drawn);
}

// Draws every picture of one figure; *drawn counts them.
static bool draw_figure(const struct picture_form *form, const struct results *results,
                        const struct published *published, const struct figure *figure, size_t *drawn,
                        struct status *status)
{
    struct grouping grouping;
    grouping_make(&grouping, figure, results, published);
    for (size_t i = 0; i < grouping.count; i++) {
        struct group *group = &grouping.groups[i];
        group->table = tabulate(figure, group->published, group->records, group->count);
    }
    bool fine = true;
    size_t before = *drawn;
    for (size_t i = 0; fine && i < grouping.count; i++) {
        const struct group *group = &grouping.groups[i];
        char suffix[200];
        if (!is_drawn(&grouping, group))
            continue;
        suffix_of(&grouping, group, suffix, sizeof suffix);
        if (group->context > 0 && longer_contexts(&grouping, group, 0) > 1)
            text_append(suffix, sizeof suffix, "-context-%.0f", group->context);
        if (form->panel) {
            char panel[100];
            snprintf(panel, sizeof panel, "%s", form->panel);
            if (figure->row_panels)
                setting_slug(panel);
            text_append(suffix, sizeof suffix, "-panel-%s", panel);
        }
        fine = draw(form, &(struct drawing){figure, group, suffix}, status);
        say_pointless(group, figure, suffix);
        say_repeated(group, figure, suffix);
        say_disturbed(group, figure, suffix);
        (*drawn)++;
    }
    for (size_t i = 0; fine && figure->one_context && *drawn > before && i < grouping.count; i++)
        say_left_out(&grouping, &grouping.groups[i], figure);
    if (fine)
        say_machines(&grouping, figure);
    if (form->log && figure->own_axes && *drawn > before)
        fprintf(stderr, "%s: --log leaves its axes as they are\n", figure->name);
    grouping_free(&grouping);
    return fine;
}

void plot_figures(const char *separator, char *text, size_t bytes)
{
    *text = '\0';
    for (size_t i = 0; figures[i]; i++) {
        size_t used = strlen(text);
        snprintf(text + used, bytes - used, "%s%s", used ? separator : "", figures[i]->name);
    }
}

void plot_panels(char *text, size_t bytes)
{
    *text = '\0';
    for (size_t i = 0; figures[i]; i++) {
        if (!figures[i]->panels)
            continue;
        text_append(text, bytes, "%s%s (", *text ? ", " : "", figures[i]->name);
        for (const char *at = figures[i]->panels; *at; at++)
            text_append(text, bytes, *at == ',' ? ", " : "%c", *at);
        text_append(text, bytes, ")");
    }
}

static bool is_asked_for(const struct plot_request *request, const struct figure *figure)
{
    const char *panel = request->form.panel;
    return (!request->figures || word_list_has(request->figures, figure->name)) &&
           (!panel || figure->row_panels || (figure->panels && word_list_has(figure->panels, panel)));
}

// Tells whether a requested figure has the panel for any records.
static bool is_panel(const struct plot_request *request)
{
    bool found = false;
    for (size_t i = 0; figures[i]; i++)
        found |= is_asked_for(request, figures[i]) && !figures[i]->row_panels;
    return found;
}

// Reports an unknown panel, with a suggestion and the known ones.
static bool tell_panel(const struct plot_request *request, const struct series_choice *series,
                       struct status *status)
{
    char known[700], words[1700] = "", *rest = words, *word;
    struct names names = {0};
    for (size_t i = 0; figures[i]; i++)
        text_append(words, sizeof words, "%s,", figures[i]->panels ? figures[i]->panels : "");
    text_append(words, sizeof words, "%s", series->panels_seen);
    while ((word = strsep(&rest, ",\"")))
        if (names_find(&names, word) == names.count && names.count < NAMES_MAX)
            names_add(&names, word);
    const char *nearest = names_nearest(&names, request->form.panel);
    plot_panels(known, sizeof known);
    return status_set(status, STATUS_BAD_INPUT, "--panel: no figure%s has \"%.40s\"; %s%.200s%spanels are %s%s%s",
                      request->figures ? " of --figures" : "", request->form.panel,
                      nearest ? "did you mean \"" : "", nearest ? nearest : "", nearest ? "\"? " : "", known,
                      *series->panels_seen ? "; of these data" : "", series->panels_seen);
}

static bool check_request(const struct plot_request *request, struct status *status)
{
    char known[320];
    plot_figures(",", known, sizeof known);
    return picture_form_check(&request->form, status) &&
           (!request->figures || word_list_check(request->figures, known, "--figures", status));
}

static bool nothing_drawn(const struct plot_request *request, size_t count, struct status *status)
{
    if (!count)
        return status_set(status, STATUS_BAD_INPUT, "no records to draw; `longbp run` writes them");
    fputs("records that figures need, in one experiment and setting:\n", stderr);
    for (size_t i = 0; figures[i]; i++)
        if (is_asked_for(request, figures[i]))
            fprintf(stderr, "  %s: %s\n", figures[i]->name, figures[i]->needs);
    return status_set(status, STATUS_BAD_INPUT,
                      "none of these %zu records can be drawn: the lines above name the requirements", count);
}

// A missing default folder means that nothing is published.
static bool load_published(struct published *published, const struct plot_request *request, struct status *status)
{
    struct status why = {0};
    if (published_load(published, request->published, &why) || (why.code == STATUS_IO && !request->published))
        return true;
    *status = why;
    return false;
}

// All requested records, the last of each trial among those that count, and those of searches.
struct plotted {
    struct results read, every, last, searched; // read: owner of the others' records, unless the request has them
};

static bool is_searched(void *wanted, const struct record *record)
{
    return record->search->given == *(bool *)wanted;
}

static bool open_records(struct plotted *plotted, const struct plot_request *request, struct status *status)
{
    const struct results *all = request->records ? request->records : &plotted->read;
    bool fine = request->records || results_open(&plotted->read, request->paths, request->path_count, true, status);
    results_of(&plotted->every, all, true);
    results_of(&plotted->last, all, false);
    fine = fine && record_filter_some(&plotted->every, request->conditions, request->condition_count, status) &&
           record_filter_some(&plotted->last, request->conditions, request->condition_count, status);
    results_of(&plotted->searched, &plotted->last, false);
    results_keep(&plotted->searched, is_searched, &(bool){true});
    results_keep(&plotted->last, is_searched, &(bool){false});
    results_keep(&plotted->every, is_searched, &(bool){false});
    return fine;
}

static void close_records(struct plotted *plotted)
{
    results_close(&plotted->searched);
    results_close(&plotted->last);
    results_close(&plotted->every);
    results_close(&plotted->read);
}

bool plot(const struct plot_request *request, struct status *status)
{
    struct plotted plotted = {0};
    struct published published = {0};
    struct series_choice series;
    struct picture_form form = request->form;
    series_choice_open(&series, request->series, request->form.panel);
    form.series = &series;
    struct picture_queue chosen = {0};
    form.queue = request->series || request->form.panel
                     ? &chosen
                     : NULL; // otherwise a wrong name would be reported after pictures were drawn
    char *scripts = NULL;
    size_t drawn = 0;
    bool fine = check_request(request, status) && load_published(&published, request, status) &&
                open_records(&plotted, request, status) &&
                (scripts = gnuplot_scripts(request->form.scripts, status)) != NULL;
    form.scripts = scripts;
    for (size_t i = 0; fine && figures[i]; i++) {
        const struct figure *figure = figures[i];
        const struct results *results = figure->searched       ? &plotted.searched
                                        : figure->every_commit ? &plotted.every
                                                               : &plotted.last;
        if (is_asked_for(request, figure))
            fine = figure->draw ? figure->draw(&form, results, &published, &drawn, status)
                                : draw_figure(&form, results, &published, figure, &drawn, status);
    }
    if (fine && request->form.panel && !series.panel_found && (drawn || !is_panel(request)))
        fine = tell_panel(request, &series, status);
    if (fine && !drawn && !form.take)
        fine = nothing_drawn(request, plotted.last.count + plotted.searched.count, status);
    fine = fine && series_choice_check(&series, status) && picture_queue_draw(&chosen, status);
    picture_queue_free(&chosen);
    series_choice_close(&series);
    close_records(&plotted);
    published_free(&published);
    free(scripts);
    return fine;
}
