#include "harness/papers/claims.h"
#include "harness/files/share.h"
#include "harness/json/json_field.h"
#include "harness/record/record_json.h"
#include "harness/record/step_time.h"
#include "harness/spec/trial_keys.h"
#include "harness/table/record_columns.h"
#include "harness/table/record_filter.h"
#include "harness/table/trial_rest.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXTS_MAX CLAIM_PICTURES_MAX // per list
#define APART_MAX 16

enum claim_take {
    TAKE_MIN, // of the field, over the records
    TAKE_MAX,
    TAKE_MIN_RATIO, // of the field, over all pairs: the record divided by its counterpart
    TAKE_MAX_RATIO,
    TAKE_LAST_RATIO,   // for the pair with the longest context
    TAKE_RATIO_OF_MAX, // the maximum of the records over the maximum of the others, among those that agree in
                       // everything but context and batch; the minimum of these ratios
    TAKE_COUNT
};
// Texts, borrowed, ending in NULL.
struct claim_query {
    enum claim_take take;
    const char *field;          // of a record, or a derived column (record_columns.h)
    const char *const *of;      // conditions (record_filter.h) for the records
    const char *const *over;    // for the records that they are divided by
    const char *const *apart;   // keys in which a pair may differ, besides method and measurement
    const char *const *records; // result files
};

static const char *const claim_take_names[] = {"min",        "max",          "min ratio", "max ratio",
                                               "last ratio", "ratio of max", NULL};

// --- records

static size_t length_of(const char *const *texts)
{
    size_t count = 0;
    while (texts && texts[count])
        count++;
    return count;
}

// One side of a figure: records, their pairing keys, and their values.
struct side {
    struct results every, results; // results: one per trial
    char **rests;                  // [count]
    double *values;                // [count]
    struct number_list *rounds;    // [count], values per round of the record
};

static double value_of(const struct record_column *column, const struct record *record)
{
    struct table_row row = {.record = record};
    json_t *value = column->figure ? column->figure->value(&row) : record_column_value(column, record);
    double number = json_is_number(value) ? json_number_value(value) : NAN;
    json_decref(value);
    return number;
}

// Collects the values of each trial's rounds, the last one last.
static void take_rounds(struct side *side, const struct record_column *column)
{
    for (size_t i = 0; i < side->results.count; i++) {
        const struct record *record = side->results.records[i];
        const struct record_rounds *rounds = &record->rounds;
        side->rounds[i] = number_list_make(rounds->count ? rounds->count : 1);
        for (size_t r = 0; r < side->rounds[i].count; r++)
            side->rounds[i].items[r] = value_of(column, rounds->count ? rounds->items[r] : record);
    }
}

// Tells whether a condition is of another framework's records.
static bool asks_for_frameworks(const char *const *conditions)
{
    bool asks = false;
    for (size_t i = 0; conditions && conditions[i]; i++)
        asks |= strncmp(conditions[i], "framework", strlen("framework")) == 0;
    return asks;
}

static bool side_open(struct side *side, const struct claim_query *query, const char *const *conditions,
                      struct status *status)
{
    struct record_columns columns;
    struct record_column column;
    static const char *const always[] = {"status=ok", "trial.framework=null"};
    size_t always_count = asks_for_frameworks(conditions) ? 1 : 2;
    const char *apart[APART_MAX + 5] = {"method", "measure"};
    size_t used = 2, given = length_of(query->apart);
    CHECK(given <= APART_MAX);
    for (size_t i = 0; i < given; i++)
        apart[used++] = query->apart[i];
    if (query->take == TAKE_RATIO_OF_MAX) {
        apart[used++] = "context";
        apart[used++] = "batch";
    }
    bool fine = results_open(&side->every, query->records, length_of(query->records), true, status) &&
                record_filter(&side->every, always, always_count, status) &&
                record_filter(&side->every, conditions, length_of(conditions), status);
    results_of(&side->results, &side->every, false);
    record_columns_open(&columns, &side->every);
    fine = fine && record_columns_find(&columns, "field", query->field, &column, status);
    side->rests = calloc(side->results.count + 1, sizeof *side->rests);
    side->values = calloc(side->results.count + 1, sizeof *side->values);
    side->rounds = calloc(side->results.count + 1, sizeof *side->rounds);
    for (size_t i = 0; fine && i < side->results.count; i++) {
        side->rests[i] = trial_rest_of_record(side->results.records[i], apart, NULL);
        side->values[i] = value_of(&column, side->results.records[i]);
    }
    if (fine)
        take_rounds(side, &column);
    record_columns_close(&columns);
    return fine;
}

static void side_close(struct side *side)
{
    for (size_t i = 0; side->rests && i < side->results.count; i++) {
        free(side->rests[i]);
        free(side->rounds[i].items);
    }
    free(side->rests);
    free(side->values);
    free(side->rounds);
    results_close(&side->results);
    results_close(&side->every);
}

// --- figures

// Tells whether a value replaces the previous one.
static bool comes_first(enum claim_take take, double value, double context, const struct claim_figure *before)
{
    if (isnan(before->value))
        return true;
    if (take == TAKE_LAST_RATIO)
        return context > before->context;
    bool greatest = take == TAKE_MAX || take == TAKE_MAX_RATIO;
    return greatest ? value > before->value : value < before->value;
}

static struct shift exact(double value)
{
    return (struct shift){value, value, value};
}

static void consider(struct claim_figure *figure, enum claim_take take, struct shift value,
                     const struct record *record, bool planned)
{
    if (!isfinite(value.estimate))
        return;
    bool first = comes_first(take, value.estimate, record->trial.context, figure);
    struct claim_figure found = *figure;
    if (first)
        found = (struct claim_figure){value.estimate, value.low, value.high, planned, record->trial.context};
    // A pair that may be the extreme one also bounds the extreme value.
    if (take == TAKE_MAX_RATIO) {
        found.low = fmax(figure->low, value.low);
        found.high = fmax(figure->high, value.high);
    } else if (take == TAKE_MIN_RATIO) {
        found.low = fmin(figure->low, value.low);
        found.high = fmin(figure->high, value.high);
    }
    *figure = found;
}

static void take_one(struct claim_figure *figure, enum claim_take take, const struct side *ours)
{
    for (size_t i = 0; i < ours->results.count; i++)
        consider(figure, take, exact(ours->values[i]), ours->results.records[i],
                 record_is_planned(ours->results.records[i]));
}

// Times are compared round by round.
static struct shift ratio_of(const char *field, const struct side *ours, size_t i, const struct side *others,
                             size_t j)
{
    bool timed = strcmp(field, "time_ms") == 0 || strcmp(field, "median_ms") == 0 || strcmp(field, "mean_ms") == 0;
    return timed ? round_ratio(&ours->rounds[i], &others->rounds[j]) : exact(ours->values[i] / others->values[j]);
}

static void take_pairs(struct claim_figure *figure, const struct claim_query *query, const struct side *ours,
                       const struct side *others)
{
    for (size_t i = 0; i < ours->results.count; i++)
        for (size_t j = 0; j < others->results.count; j++)
            if (strcmp(ours->rests[i], others->rests[j]) == 0)
                consider(figure, query->take, ratio_of(query->field, ours, i, others, j), ours->results.records[i],
                         record_is_planned(ours->results.records[i]) ||
                             record_is_planned(others->results.records[j]));
}

// The maximum over records with this rest; its record in *record.
static double greatest_of(const struct side *side, const char *rest, const struct record **record)
{
    double greatest = NAN;
    for (size_t i = 0; i < side->results.count; i++) {
        if (strcmp(side->rests[i], rest) != 0 || !(isnan(greatest) || side->values[i] > greatest))
            continue;
        greatest = side->values[i];
        *record = side->results.records[i];
    }
    return greatest;
}

static void take_greatest(struct claim_figure *figure, const struct side *ours, const struct side *others)
{
    for (size_t i = 0; i < ours->results.count; i++) {
        const struct record *own = NULL, *other = NULL;
        double value = greatest_of(ours, ours->rests[i], &own), over = greatest_of(others, ours->rests[i], &other);
        if (own && other)
            consider(figure, TAKE_MIN, exact(value / over), own,
                     record_is_planned(own) || record_is_planned(other));
    }
}

static bool knows_keys(const char *const *apart, struct status *status)
{
    struct names known = {0};
    char hint[640];
    trial_key_names(&known, trial_keys);
    for (size_t i = 0; apart && apart[i]; i++) {
        names_hint(&known, apart[i], "known keys", hint, sizeof hint);
        if (names_find(&known, apart[i]) == known.count)
            return status_set(status, STATUS_BAD_INPUT, "apart: no key \"%.60s\"; %s", apart[i], hint);
    }
    return true;
}

static struct claim_figure claim_figure_none(void)
{
    return (struct claim_figure){.value = NAN, .low = NAN, .high = NAN, .context = NAN};
}

static bool claim_figure_take(struct claim_figure *figure, const struct claim_query *query, struct status *status)
{
    struct side ours = {0}, others = {0};
    bool paired = query->take >= TAKE_MIN_RATIO;
    *figure = claim_figure_none();
    bool fine = knows_keys(query->apart, status) && side_open(&ours, query, query->of, status) &&
                (!paired || side_open(&others, query, query->over, status));
    if (fine && query->take == TAKE_RATIO_OF_MAX)
        take_greatest(figure, &ours, &others);
    else if (fine && paired)
        take_pairs(figure, query, &ours, &others);
    else if (fine)
        take_one(figure, query->take, &ours);
    side_close(&ours);
    side_close(&others);
    return fine;
}

// --- claims

static const char *const verdict_names[] = {"reproduced",   "not reproduced", "cannot tell",
                                            "planned only", "not run",        NULL};
const char *const claim_baseline_names[] = {"none", "published form", "lean", NULL};

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
    static const struct names known = {7, {"against", "take", "field", "of", "over", "apart", "records"}};
    size_t against = 0, take = 0;
    struct texts of, over, apart, records;
    const char *name = NULL;
    char found[TEXTS_MAX][PATH_MAX];
    if (!json_field_object(field, &known, "figures", status) ||
        !read_choice(json_field_get(field, "against"), claim_baseline_names, "baseline", &against, status) ||
        !read_choice(json_field_get(field, "take"), claim_take_names, "way to take a figure", &take, status) ||
        !json_field_text(json_field_get(field, "field"), "a field of a record", &name, status) ||
        !read_texts(json_field_get(field, "of"), &of, status) ||
        !read_texts(json_field_get(field, "over"), &over, status) ||
        !read_texts(json_field_get(field, "apart"), &apart, status) ||
        !read_texts(json_field_get(field, "records"), &records, status))
        return false;
    if (!name || !records.items[0])
        return json_field_fail(field, status, "a figure has a \"field\" and \"records\"");
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
    const struct claim_query query = {take, name, of.items, over.items, apart.items, records.items};
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
