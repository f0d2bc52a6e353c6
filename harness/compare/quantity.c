#define _GNU_SOURCE // asprintf
#include "harness/compare/quantity.h"
#include "harness/record/recorded_key.h"
#include "harness/text/names.h"
#include "harness/text/size.h"
#include "kernels/base/dtype.h"
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// Errors below this are f64 rounding, whatever the measured noise floor.
#define ERROR_MIN 1e-12
// Root mean square of the relative error of rounding once, over the dtype's epsilon: an error uniform within half a
// unit in the last place over a mantissa m of density 1 / (m ln 2), m from 1 to 2: 1 / sqrt(8 ln 2).
#define ROUNDING_RMS 0.4247
// Errors of a single tensor up to this many floors count as noise.
#define TENSOR_FLOORS 32
// Relative difference of instruction counts between runs of one build, because waiting threads retire instructions.
#define INSTRUCTIONS_NOISE 0.03

// In the order of the table in `compare --help`.
static const struct kind {
    const char *name, *rule; // name: if the quantities' own do not say it
    bool counted;            // with --exact less is worse
    bool both_ways;          // less is worse
    bool of_all_draws;       // comparable between different draws
} kinds[COMPARED_KINDS] = {
    [COMPARED_COUNT] = {NULL, "more: worse; less: better, with --exact worse", .counted = true},
    [COMPARED_HOST] = {NULL, "the same; null is 0", .counted = true},
    [COMPARED_PARTS] = {"each part of peak_by_category", "the same; a part of a peak that fell: not judged",
                        .counted = true},
    [COMPARED_INSTRUCTIONS] = {NULL, "3 % more: worse; 3 % less: better, with --exact worse; elsewhere: not judged",
                               .counted = true, .of_all_draws = true},
    [COMPARED_LOSS] = {"loss of the first step", "more or less beyond the tolerance: worse", .both_ways = true},
    [COMPARED_RUN_LOSS] = {NULL, "of a training run: more beyond their noise: worse; less: better",
                           .of_all_draws = true},
    [COMPARED_ERROR] = {NULL, "more beyond the tolerance: worse; less: better"},
    [COMPARED_TENSORS] = {"the error of each tensor", "likewise"},
    [COMPARED_BIAS] = {NULL, "likewise", .of_all_draws = true},
};

// Adds the quantities of a kind; returns the new count.
static size_t add_quantities(struct quantity *all, size_t count, enum field_compared kind,
                             const struct record_field *fields, const struct record_field *parent)
{
    for (const struct record_field *field = fields; field->name; field++) {
        char *name = (char *)(field->compared_as ? field->compared_as : field->name);
        if (!parent && field->type == FIELD_OBJECT && field->members)
            count = add_quantities(all, count, kind, field->members, field);
        if (field->compared != kind)
            continue;
        CHECK(count + 1 < QUANTITIES_MAX);
        if (parent && !field->compared_as)
            CHECK(asprintf(&name, "%s.%s", parent->name, field->name) > 0);
        all[count++] = (struct quantity){name, field, parent};
    }
    return count;
}

const struct quantity *quantities(void)
{
    static struct quantity all[QUANTITIES_MAX];
    static bool made;
    size_t count = 0;
    for (enum field_compared kind = COMPARED_COUNT; !made && kind < COMPARED_KINDS; kind++)
        count = add_quantities(all, count, kind, record_fields, NULL);
    made = true;
    return all;
}

static const struct quantity *whole_of(const struct quantity *parts)
{
    const struct quantity *whole = quantities();
    while (whole->field != parts->field - 1)
        whole++;
    return whole;
}

static const struct kind *kind_of(const struct quantity *quantity)
{
    return &kinds[quantity->field->compared];
}

bool quantity_is_bytes(const struct quantity *quantity)
{
    return quantity->field->unit && strcmp(quantity->field->unit, "bytes") == 0;
}

void quantity_rules_write(FILE *stream)
{
    for (const struct kind *kind = kinds + COMPARED_COUNT; kind < kinds + COMPARED_KINDS; kind++) {
        const char *separator = "  ";
        if (kind->name)
            fprintf(stream, "%s%s", separator, kind->name);
        for (const struct quantity *quantity = quantities(); quantity->name && !kind->name; quantity++)
            if (kind_of(quantity) == kind) {
                fprintf(stream, "%s%s", separator, quantity->name);
                separator = ", ";
            }
        fprintf(stream, ": %s\n", kind->rule);
    }
}

// --- allowances

bool allowance_read(struct allowance *allowance, const char *text)
{
    char *end;
    double number = strtod(text, &end);
    size_t bytes = 0;
    bool digits = *text && strspn(text, "0123456789.") == (size_t)(end - text);
    allowance->given = true;
    allowance->relative = digits && strcmp(end, "%") == 0;
    if (digits && (allowance->relative || !*end)) {
        allowance->amount = allowance->relative ? number / 100 : number;
        return true;
    }
    bool sized = size_parse(text, &bytes);
    allowance->amount = (double)bytes;
    return sized;
}

bool quantity_allow(struct allowance allowances[QUANTITIES_MAX], const char *text, struct status *status)
{
    struct names names = {0};
    char *copy = strdup(text), *rest = copy, *item;
    CHECK(copy);
    for (const struct quantity *quantity = quantities(); quantity->name; quantity++)
        names_add(&names, quantity->name);
    while (status->code == STATUS_OK && (item = strsep(&rest, ","))) {
        char *value = item + strcspn(item, "="), hint[512];
        bool assigned = *value == '=';
        *value = 0;
        size_t i = names_find(&names, item);
        names_hint(&names, item, "quantities", hint, sizeof hint);
        if (i == names.count)
            status_set(status, STATUS_BAD_INPUT, "--allow: no quantity \"%.40s\"; %s", item, hint);
        else if (!assigned || !allowance_read(&allowances[i], value + 1))
            status_set(status, STATUS_BAD_INPUT,
                       "--allow: %s: expected a share or an amount, such as %s=1%% or %s=4096", item, item, item);
        else
            snprintf(allowances[i].text, sizeof allowances[i].text, "%.26s=%.20s", item, value + 1);
    }
    free(copy);
    return status->code == STATUS_OK;
}

// --- values

double quantity_of(const struct record *record, const struct quantity *quantity)
{
    const struct record_field *field = quantity->field, *parent = quantity->parent;
    enum field_compared kind = field->compared;
    if (kind == COMPARED_PARTS || kind == COMPARED_TENSORS)
        return NAN;
    if (field->compared_by)
        return field->compared_by(record);
    const void *owner =
        parent ? record_field_members(parent, (const char *)record + parent->offset) : (const void *)record;
    double value = *(const double *)(const void *)((const char *)owner + field->offset);
    // Null means that nothing was kept on the host, if the record has a step; for a step's loss that it is not
    // finite.
    if (isnan(value) && kind == COMPARED_HOST && !isnan(record->peak_bytes))
        return 0;
    bool computed = record->status == RECORD_OK && !record_is_planned(record);
    return isnan(value) && kind == COMPARED_LOSS && computed ? INFINITY : value;
}

// --- tolerances, from BASE and the dtype

// s^2.
static double scatter(const struct record *record, size_t steps)
{
    const struct number_list *loss = &record->curve->loss;
    double squares = 0;
    for (size_t i = loss->count - steps; i < loss->count; i++)
        squares += i ? pow(loss->items[i] - loss->items[i - 1], 2) : 0;
    return squares / (2 * (double)steps);
}

// Loss noise: the tolerance between the final losses of two training runs that learn equally well.
//
// Rounding in another order grows over steps, and another seed draws other data, so two good runs end differently.
// The variation of a mean over n steps shows in the scatter of the steps: twice the standard error of the
// difference,
//   2 sqrt(s^2 (1 / n_base + 1 / n_new)),  s^2 = sum of (loss_i - loss_(i-1))^2 / 2n
// over the steps of record_last_loss of BASE. s^2 is half the mean square successive difference (von Neumann, Kent,
// Bellinson and Hart 1941), to which a steadily falling loss adds little. Only BASE counts; otherwise a diverging
// run would be excused by its own scatter. A loss on held-out data, a mean over more tokens, has the same
// tolerance. In nats; 0 for runs of one step.
static double loss_noise(const struct record *base, const struct record *new)
{
    size_t base_steps = record_last_steps(base), new_steps = record_last_steps(new);
    if (!base_steps || !new_steps)
        return 0;
    return 2 * sqrt(scatter(base, base_steps) * (1 / (double)base_steps + 1 / (double)new_steps));
}

// A record's noise floor is a sample: the difference due to one other order of sums. In bf16, with f32
// accumulators, it may change no result in one build and some in the next, each by a whole unit in the last place.
static double floor_of(const struct record *base)
{
    enum dtype dtype = DTYPE_F64;
    dtype_from_name(base->trial.dtype, &dtype);
    double unmeasured = dtype == DTYPE_F64 ? 0 : dtype == DTYPE_F32 ? 1e-6 : 1e-2;
    double floor = isnan(base->gradient.noise_floor) ? unmeasured : base->gradient.noise_floor;
    return fmax(floor, ROUNDING_RMS * dtype_epsilon(dtype));
}

static double error_slack(const struct record *base)
{
    return fmax(2 * floor_of(base), ERROR_MIN);
}

// A tensor has no floor of its own. An error of up to some floors is noise; a larger one is that of a sampled
// gradient, known up to rounding.
static double tensor_slack(const struct record *base, double error)
{
    double noise = fmin(error, TENSOR_FLOORS * floor_of(base));
    return fmax(2 * fmax(noise, floor_of(base)), ERROR_MIN);
}

// Tells whether instructions are comparable: same processor, number of threads and kind of waits.
static bool counted_alike(const struct record *base, const struct record *new)
{
    return record_same_machine(base, new) && record_waits_alike(base, new);
}

// The difference allowed between two runs of one build, at BASE's value; 0 for infinite values; NaN: not
// comparable.
static double noise_of(const struct quantity *quantity, double value, const struct record *base,
                       const struct record *new)
{
    double size = isfinite(value) ? fabs(value) : 0;
    switch (quantity->field->compared) {
    case COMPARED_INSTRUCTIONS:
        return counted_alike(base, new) ? INSTRUCTIONS_NOISE * size : NAN;
    case COMPARED_LOSS:
    case COMPARED_RUN_LOSS:
        if (!record_same_data(base, new) || !record_same_model(base, new))
            return NAN;
        return fmax(error_slack(base) * size,
                    quantity->field->compared == COMPARED_LOSS ? 0 : loss_noise(base, new));
    case COMPARED_ERROR:
    case COMPARED_BIAS:
        return error_slack(base);
    case COMPARED_TENSORS:
        return tensor_slack(base, size);
    default:
        return 0;
    }
}

bool quantity_comparable(const struct quantity *quantity, const struct record *base, const struct record *new)
{
    return !isnan(noise_of(quantity, quantity_of(base, quantity), base, new));
}

bool quantity_changed(const struct quantity *quantity, const struct record *base, const struct record *new)
{
    double before = quantity_of(base, quantity), after = quantity_of(new, quantity);
    return fabs(after - before) > noise_of(quantity, before, base, new);
}

// --- changes

// A quantity, or a part of one.
struct figure {
    const struct quantity *quantity;
    const char *name; // for a single tensor its name
    size_t place;     // index of the category, or likely index of the tensor
};

static bool has_parts(const double *tally)
{
    bool any = false;
    for (int i = 0; i < CATEGORY_COUNT; i++)
        any |= !isnan(tally[i]);
    return any;
}

// Categories that a record does not name are 0.
static double figure_of(const struct record *record, const struct figure *figure)
{
    const struct record_field *field = figure->quantity->field;
    const double *const *tally = (const void *)((const char *)record + field->offset);
    if (field->compared == COMPARED_PARTS)
        return has_parts(*tally) ? fmax((*tally)[figure->place], 0) : NAN;
    if (field->compared != COMPARED_TENSORS)
        return quantity_of(record, figure->quantity);
    const struct record_tensor *tensor = record_tensor_find(&record->gradient, figure->name, figure->place);
    return tensor ? tensor->relative_l2 : NAN;
}

// The minimum and the maximum of a figure over the rounds of one side.
struct extremes {
    double min, max;
    bool known, gap; // in some ok round; missing in some
};

struct judging {
    const struct record_list *base, *new;
    const struct record *before, *after; // the last ok record of each
    const struct quantity_rules *rules;
    bool planned, exact;
    struct quantity_changes changes;
};

// Uses instructions only of rounds comparable with BASE's last; other quantities always.
static struct extremes extremes_of(const struct judging *judging, const struct record_list *list,
                                   const struct figure *figure)
{
    bool instructions = figure->quantity->field->compared == COMPARED_INSTRUCTIONS;
    struct extremes extremes = {.min = INFINITY, .max = -INFINITY};
    for (size_t i = 0; i < list->count; i++) {
        const struct record *record = list->records[i];
        if (record->status != RECORD_OK || (instructions && !counted_alike(judging->before, record)))
            continue;
        double value = figure_of(record, figure);
        extremes.known |= !isnan(value);
        extremes.gap |= isnan(value);
        extremes.min = fmin(extremes.min, value); // ignores unknown values
        extremes.max = fmax(extremes.max, value);
    }
    return extremes;
}

static double finite_of(const struct extremes *extremes)
{
    return isfinite(extremes->max) ? extremes->max : extremes->min;
}

// The judgement of two known values.
struct judged {
    enum verdict verdict;
    bool allowed;
};

// A decrease beyond the slack is better (with exact worse), an increase beyond it worse. For infinite values the
// verdict has no amount.
static struct judged judge_value(double base, double new, double slack, double allowance, bool exact)
{
    double more = new - base;
    if (base == new || fabs(more) <= slack)
        return (struct judged){VERDICT_SAME, false};
    if (!isfinite(more))
        return (struct judged){isfinite(base) ? VERDICT_WORSE : VERDICT_CHANGED, false};
    if (more < 0 && !exact)
        return (struct judged){VERDICT_BETTER, false};
    bool allowed = fabs(more) <= slack + allowance;
    return (struct judged){allowed ? VERDICT_SAME : VERDICT_WORSE, allowed};
}

static bool same_objective(const struct record *base, const struct record *new)
{
    const struct trial_key *key = trial_key_named("objective");
    json_t *before = recorded_key_value(key, base), *after = recorded_key_value(key, new);
    bool same = json_equal(before, after);
    json_decref(before);
    json_decref(after);
    return same;
}

// Tells whether two values are not comparable: losses of other data or settings, or values of other chunks.
static bool is_of_another(const struct judging *judging, enum field_compared kind, double noise)
{
    bool setting = judging->rules->settings && (kind == COMPARED_LOSS || kind == COMPARED_RUN_LOSS);
    return isnan(noise) || (judging->changes.other_chunks && !kinds[kind].of_all_draws) ||
           (setting && (kind == COMPARED_LOSS || !same_objective(judging->before, judging->after)));
}

static void add(struct judging *judging, const struct figure *figure, struct quantity_change change)
{
    struct quantity_changes *changes = &judging->changes;
    if ((changes->count & (changes->count - 1)) == 0) { // room for twice as many
        changes->items = realloc(changes->items, (2 * changes->count + 1) * sizeof *changes->items);
        CHECK(changes->items);
    }
    change.quantity = figure->quantity;
    snprintf(change.name, sizeof change.name, "%s", figure->name);
    changes->items[changes->count++] = change;
}

// Judges maxima and minima; reports the worse change.
static void judge_extremes(const struct judging *judging, const struct figure *figure, const struct extremes *base,
                           const struct extremes *new, double noise, struct quantity_change *change)
{
    enum field_compared kind = figure->quantity->field->compared;
    const struct allowance *allowance = &judging->rules->allowances[figure->quantity - quantities()];
    double value = finite_of(base);
    if (kind == COMPARED_PARTS && !allowance->given) { // a part of the peak may grow by as much as the peak
        const struct quantity *whole = whole_of(figure->quantity);
        allowance = &judging->rules->allowances[whole - quantities()];
        value = quantity_of(judging->before, whole);
    }
    double allowed = allowance->relative ? allowance->amount * fabs(value) : allowance->amount;
    bool both_ways = kinds[kind].both_ways || (kinds[kind].counted && judging->exact);
    struct judged max = judge_value(base->max, new->max, noise, allowed, both_ways),
                  min = judge_value(base->min, new->min, noise, allowed, both_ways);
    bool by_min = min.verdict > max.verdict || (min.allowed && !max.allowed);
    if (by_min) {
        change->base = base->min;
        change->new = new->min;
    }
    change->verdict = by_min ? min.verdict : max.verdict;
    if (by_min ? min.allowed : max.allowed)
        change->allowed = allowance->text;
}

// Adds a figure's change, if any.
static void judge(struct judging *judging, const struct figure *figure)
{
    struct extremes base = extremes_of(judging, judging->base, figure),
                    new = extremes_of(judging, judging->new, figure);
    enum field_compared kind = figure->quantity->field->compared;
    bool instructions = kind == COMPARED_INSTRUCTIONS, lost = base.known && (!new.known || (new.gap && !base.gap));
    double noise = noise_of(figure->quantity, finite_of(&base), judging->before,
                            instructions ? judging->before : judging->after);
    struct quantity_change change = {.base = base.known ? base.max : NAN, .new = new.known ? new.max : NAN};
    bool elsewhere = instructions && base.known && !new.known && !isnan(judging->after->instructions);
    if (elsewhere || (judging->planned && (lost || !base.known)))
        return;
    if (lost)
        change.verdict = VERDICT_UNDECIDED;
    else if (!base.known)
        change.news = new.known;
    else if (isinf(new.max) && !isinf(base.max))
        change.verdict = VERDICT_WORSE;
    else if (is_of_another(judging, kind, noise))
        change.verdict = base.max != new.max || base.min != new.min ? VERDICT_CHANGED : VERDICT_SAME;
    else
        judge_extremes(judging, figure, &base, &new, noise, &change);
    if (change.verdict > VERDICT_SAME || change.allowed || change.news)
        add(judging, figure, change);
}

// Parts of a peak that did not grow may grow, because they have no limit of their own, except between a plan and a
// measurement.
static void judge_parts(struct judging *judging, const struct quantity *parts)
{
    const struct figure whole = {.quantity = whole_of(parts)};
    if (!judging->planned &&
        extremes_of(judging, judging->new, &whole).max < extremes_of(judging, judging->base, &whole).max)
        return;
    for (size_t i = 0; i < CATEGORY_COUNT; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.%s", parts->name, category_name((enum category)i));
        judge(judging, &(struct figure){parts, name, i});
    }
}

static void judge_tensors(struct judging *judging, const struct quantity *errors)
{
    const struct record_parts *tensors = &judging->before->gradient.tensors;
    for (size_t i = 0; judging->after->gradient.given && i < tensors->count; i++)
        judge(judging, &(struct figure){errors, tensors->names[i], i});
}

static const struct record *last_ok(const struct record_list *list)
{
    const struct record *last = NULL;
    for (size_t i = 0; i < list->count; i++)
        last = list->records[i]->status == RECORD_OK ? list->records[i] : last;
    return last;
}

struct quantity_changes quantity_changes(const struct record_list *base, const struct record_list *new,
                                         const struct quantity_rules *rules)
{
    struct judging judging = {
        .base = base, .new = new, .before = last_ok(base), .after = last_ok(new), .rules = rules};
    CHECK(judging.before && judging.after);
    judging.planned = record_one_is_planned(judging.before, judging.after);
    judging.exact = rules->exact || judging.planned;
    for (size_t i = 0; i < new->count; i++)
        judging.changes.other_chunks |=
            new->records[i]->status == RECORD_OK &&record_other_chunks(judging.before, new->records[i]);
    for (const struct quantity *quantity = quantities(); quantity->name; quantity++)
        if (quantity->field->compared == COMPARED_PARTS)
            judge_parts(&judging, quantity);
        else if (quantity->field->compared == COMPARED_TENSORS)
            judge_tensors(&judging, quantity);
        else
            judge(&judging, &(struct figure){.quantity = quantity, .name = quantity->name});
    return judging.changes;
}
