#include "harness/papers/claims.h"
#include "harness/files/share.h"
#include "harness/json/json_field.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXTS_MAX CLAIM_PICTURES_MAX // per list

// --- claims

static const char *const verdict_names[] = {"reproduced",   "not reproduced", "cannot tell",
                                            "planned only", "not run",        NULL};
const char *const claim_baseline_names[] = {"none", "published form", "lean", "framework, chunked", NULL};

const char *claim_verdict_name(enum claim_verdict verdict)
{
    return verdict_names[verdict];
}

bool claim_changed(const struct claim *claim)
{
    return claim->found.verdict != claim->committed.verdict || claim->found.holds != claim->committed.holds;
}

// --- figures

struct texts {
    const char *items[TEXTS_MAX + 1];
};

// Reads an optional list of texts.
static bool read_texts(struct json_field field, struct texts *texts, struct status *status)
{
    *texts = (struct texts){0};
    if (!field.value)
        return true;
    if (!json_is_array(field.value) || json_array_size(field.value) > TEXTS_MAX)
        return json_field_expected(field, status, "a list of at most %d texts", TEXTS_MAX);
    for (size_t i = 0; i < json_array_size(field.value); i++)
        if (!json_field_text(json_field_at(field, i), "a text", &texts->items[i], status))
            return false;
    return true;
}

static bool read_choice(struct json_field field, const char *const *words, const char *kind, size_t *choice,
                        struct status *status)
{
    struct names names = {0};
    names_add_all(&names, words);
    if (!field.value)
        return json_field_fail(field, status, "missing");
    return json_field_choice(field, &names, kind, choice, status);
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static const char *file_named(const struct claim_files *files, const char *path)
{
    for (size_t i = 0; i < files->count; i++)
        if (strcmp(name_of(files->paths[i]), name_of(path)) == 0)
            return files->paths[i];
    return NULL;
}

// Finds records under their names or beside the program; or among the given files.
static void find_records(struct texts *records, char found[TEXTS_MAX][PATH_MAX], const struct claim_files *files)
{
    size_t kept = 0;
    for (size_t i = 0; records->items[i]; i++) {
        const char *path = records->items[i];
        if (files)
            path = file_named(files, path);
        else if (access(path, F_OK) != 0 && share_find(path, found[i]))
            path = found[i];
        if (path)
            records->items[kept++] = path;
    }
    records->items[kept] = NULL;
}

#define OF_THE_REPOSITORY                                                                                          \
    "; recorded results come with the repository, not with an installed program: run this in a clone of it"

// The first missing file, with errno.
static const char *missing_file(const struct texts *files)
{
    for (size_t i = 0; files->items[i]; i++)
        if (access(files->items[i], F_OK) != 0)
            return files->items[i];
    return NULL;
}

// taken: the baselines with figures so far.
static bool take_figure(struct claim *claim, bool taken[BASELINE_COUNT], struct json_field field,
                        const struct claim_files *files, struct status *status)
{
    static const struct names known = {
        9, {"against", "take", "field", "of", "over", "apart", "records", "points", "method"}};
    size_t against = 0, take = 0;
    struct texts of, over, apart, records;
    const char *name = NULL, *points = NULL, *method = NULL;
    char found[TEXTS_MAX][PATH_MAX];
    if (!json_field_object(field, &known, "figures", status) ||
        !read_choice(json_field_get(field, "against"), claim_baseline_names, "baseline", &against, status) ||
        !read_choice(json_field_get(field, "take"), claim_take_names, "way to take a figure", &take, status) ||
        !json_field_text(json_field_get(field, "field"), "a field of a record", &name, status) ||
        !read_texts(json_field_get(field, "of"), &of, status) ||
        !read_texts(json_field_get(field, "over"), &over, status) ||
        !read_texts(json_field_get(field, "apart"), &apart, status) ||
        !read_texts(json_field_get(field, "records"), &records, status) ||
        !json_field_text(json_field_get(field, "points"), "a text", &points, status) ||
        !json_field_text(json_field_get(field, "method"), "a text", &method, status))
        return false;
    if (!name || !records.items[0])
        return json_field_fail(field, status, "a figure has a \"field\" and \"records\"");
    if ((take == TAKE_PUBLISHED_OVER) != (points && method) || (!points) != (!method))
        return json_field_fail(field, status,
                               "a figure \"%s\" has \"points\", an experiment, and \"method\"; others have none",
                               claim_take_names[TAKE_PUBLISHED_OVER]);
    if (taken[against])
        return json_field_fail(json_field_get(field, "against"), status, "the claim has such a figure already");
    taken[against] = true;
    find_records(&records, found, files);
    if (!records.items[0])
        return true;
    const char *missing = missing_file(&records);
    if (missing)
        return json_field_fail(json_field_get(field, "records"), status, "%.300s: %s%s", missing, strerror(errno),
                               strncmp(missing, "results/", 8) == 0 ? OF_THE_REPOSITORY : "");
    struct status why = {0};
    const struct claim_query query = {take, name, of.items, over.items, apart.items, records.items, points, method};
    return claim_figure_take(&claim->figures[against], &query, &why) ||
           json_field_fail(field, status, "%s", why.message);
}

static bool keeps(const struct claim *claim, double value)
{
    return claim->at_min ? value >= claim->bound : value <= claim->bound;
}

// Uses the first measured figure in the file's order, else the first planned one.
static void decide(struct claim *claim, struct json_field figures)
{
    claim->decided_by = -1;
    for (size_t i = 0; i < json_array_size(figures.value); i++) {
        struct names names = {0};
        size_t against = 0;
        struct status none = {0};
        names_add_all(&names, claim_baseline_names);
        json_field_choice(json_field_get(json_field_at(figures, i), "against"), &names, "", &against, &none);
        const struct claim_figure *figure = &claim->figures[against];
        bool better = claim->decided_by < 0 || (claim->figures[claim->decided_by].planned && !figure->planned);
        if (!isnan(figure->value) && better)
            claim->decided_by = (int)against;
    }
    claim->found.verdict = CLAIM_NOT_RUN;
    if (claim->decided_by < 0)
        return;
    const struct claim_figure *figure = &claim->figures[claim->decided_by];
    bool holds = keeps(claim, figure->value);
    claim->found.verdict = figure->planned ? CLAIM_PLANNED_ONLY
                           : keeps(claim, figure->low) != holds || keeps(claim, figure->high) != holds
                               ? CLAIM_CANNOT_TELL
                           : holds ? CLAIM_REPRODUCED
                                   : CLAIM_NOT_REPRODUCED;
    claim->found.holds = holds && claim->found.verdict != CLAIM_CANNOT_TELL;
}

// --- claims

static bool read_bound(struct claim *claim, struct json_field field, struct status *status)
{
    static const struct names known = {2, {"at least", "at most"}};
    if (!json_field_object(field, &known, "holds", status))
        return false;
    claim->at_min = json_object_get(field.value, "at least") != NULL;
    struct json_field bound = json_field_get(field, claim->at_min ? "at least" : "at most");
    if (json_object_size(field.value) != 1)
        return json_field_fail(field, status, "expected {\"at least\": NUMBER} or {\"at most\": NUMBER}");
    return json_field_number(bound, -1e300, 1e300, &claim->bound, status);
}

static bool read_committed(struct claim *claim, struct json_field field, struct status *status)
{
    size_t verdict = 0;
    struct json_field holds = json_field_get(field, "plan_holds");
    if (!read_choice(json_field_get(field, "verdict"), verdict_names, "verdict", &verdict, status))
        return false;
    claim->committed.verdict = (enum claim_verdict)verdict;
    claim->committed.holds = verdict == CLAIM_REPRODUCED;
    if (holds.value && verdict != CLAIM_PLANNED_ONLY)
        return json_field_fail(holds, status, "is of a verdict \"planned only\"");
    return json_field_bool(holds, &claim->committed.holds, status);
}

static bool read_claim(struct claim *claim, struct json_field field, const struct claim_files *files,
                       struct status *status)
{
    static const struct names known = {11,
                                       {"id", "paper", "claim", "published", "source", "pictures", "figures",
                                        "holds", "verdict", "plan_holds", "cause"}};
    const struct {
        const char *key, **text;
    } texts[] = {{"id", &claim->id},
                 {"paper", &claim->paper},
                 {"claim", &claim->text},
                 {"published", &claim->published},
                 {"source", &claim->source}};
    struct json_field figures = json_field_get(field, "figures");
    struct texts pictures;
    bool taken[BASELINE_COUNT] = {0};
    *claim = (struct claim){.cause = ""};
    for (int i = 0; i < BASELINE_COUNT; i++)
        claim->figures[i] = claim_figure_none();
    if (!json_field_object(field, &known, NULL, status))
        return false;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct json_field text = json_field_get(field, texts[i].key);
        if (!text.value)
            return json_field_fail(text, status, "missing");
        if (!json_field_text(text, "a text", texts[i].text, status))
            return false;
    }
    if (!json_field_text(json_field_get(field, "cause"), "a text", &claim->cause, status) ||
        !read_texts(json_field_get(field, "pictures"), &pictures, status) ||
        !read_committed(claim, field, status) || !json_is_array(figures.value))
        return status->code != STATUS_OK ? false : json_field_expected(figures, status, "a list of figures");
    memcpy(claim->pictures, pictures.items, sizeof claim->pictures);
    if (json_array_size(figures.value) && !read_bound(claim, json_field_get(field, "holds"), status))
        return false;
    for (size_t i = 0; i < json_array_size(figures.value); i++)
        if (!take_figure(claim, taken, json_field_at(figures, i), files, status))
            return false;
    decide(claim, figures);
    return true;
}

bool claims_open(struct claims *claims, const char *path, const struct claim_files *files, struct status *status)
{
    static const struct names known = {1, {"claims"}};
    char found[PATH_MAX];
    *claims = (struct claims){0};
    if (!json_source_open(&claims->source, share_resolve(path, found), status))
        return false;
    struct json_field root = json_field_root(&claims->source), list = json_field_get(root, "claims");
    if (!json_field_object(root, &known, NULL, status))
        return false;
    if (!json_is_array(list.value) || json_array_size(list.value) == 0)
        return json_field_expected(list, status, "a list of claims");
    claims->items = calloc(json_array_size(list.value), sizeof *claims->items);
    bool fine = true;
    for (size_t i = 0; fine && i < json_array_size(list.value); i++)
        fine = read_claim(&claims->items[claims->count++], json_field_at(list, i), files, status);
    return fine;
}

void claims_close(struct claims *claims)
{
    free(claims->items);
    json_source_close(&claims->source);
    *claims = (struct claims){0};
}
