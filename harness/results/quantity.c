#include "harness/results/quantity.h"
#include "harness/files/names.h"
#include "harness/files/size.h"
#include "harness/results/gradient_bits.h"
#include "harness/results/loss_noise.h"
#include "harness/results/recorded_key.h"
#include "kernels/base/dtype.h"
#include <math.h>
#include <string.h>

// Errors below this are rounding in f64, whatever the noise floor came to.
#define ERROR_LEAST 1e-12
// Root mean square of the relative error of rounding once, over the dtype's epsilon: an error uniform within half a
// unit in the last place over a mantissa m of density 1 / (m ln 2), m from 1 to 2: 1 / sqrt(8 ln 2).
#define ROUNDING_RMS 0.4247
// How far counts of instructions of one build may be apart, of which threads that wait for others retire some.
#define INSTRUCTIONS_NOISE 0.03

static const char *const quantity_names[QUANTITY_COUNT + 1] = {
    [QUANTITY_PEAK_BYTES] = "peak_bytes",
    [QUANTITY_PEAK_BY_CATEGORY] = "peak_by_category",
    [QUANTITY_FLOPS] = "flops",
    [QUANTITY_BYTES_MOVED] = "bytes_moved",
    [QUANTITY_LAUNCHES] = "launches",
    [QUANTITY_HOST_PEAK_BYTES] = "host_peak_bytes",
    [QUANTITY_LINK_OUT_BYTES] = "link_out_bytes",
    [QUANTITY_LINK_IN_BYTES] = "link_in_bytes",
    [QUANTITY_INSTRUCTIONS] = "instructions",
    [QUANTITY_LOSS] = "loss",
    [QUANTITY_LAST_LOSS] = "last_loss",
    [QUANTITY_HELD_OUT_LOSS] = "held_out_loss",
};

const char *change_name(enum change change)
{
    static const char *const names[CHANGE_COUNT] = {"same", "better", "allowed", "other", "worse", "lost"};
    return names[change];
}

const char *quantity_name(enum quantity quantity)
{
    return quantity_names[quantity];
}

bool quantity_is_bytes(const char *name)
{
    return strstr(name, "bytes") || strncmp(name, "peak_by_category", strlen("peak_by_category")) == 0;
}

// --- allowances

// "1%", "0", "250", "64 KiB".
static bool read_amount(const char *text, struct allowance *allowance)
{
    char *end;
    double number = strtod(text, &end);
    size_t bytes;
    bool digits = *text && strspn(text, "0123456789.") == (size_t)(end - text);
    allowance->given = true;
    allowance->relative = digits && strcmp(end, "%") == 0;
    if (allowance->relative) {
        allowance->amount = number / 100;
        return true;
    }
    if (digits && !*end) {
        allowance->amount = number;
        return true;
    }
    bool sized = size_parse(text, &bytes);
    allowance->amount = sized ? (double)bytes : 0;
    return sized;
}

bool quantity_allow(struct allowance allowances[QUANTITY_COUNT], const char *text, struct status *status)
{
    struct names names = {0};
    char *copy = strdup(text), *rest = copy, *item;
    CHECK(copy);
    names_add_all(&names, quantity_names);
    while (status->code == STATUS_OK && (item = strsep(&rest, ","))) {
        char *value = item + strcspn(item, "="), hint[256];
        bool assigned = *value == '=';
        *value = 0;
        size_t i = names_find(&names, item);
        names_hint(&names, item, "quantities", hint, sizeof hint);
        if (i == names.count)
            status_set(status, STATUS_BAD_INPUT, "--allow: no quantity \"%.40s\"; %s", item, hint);
        else if (!assigned || !read_amount(value + 1, &allowances[i]))
            status_set(status, STATUS_BAD_INPUT,
                       "--allow: %s: expected a share or an amount, such as %s=1%% or %s=4096", item, item, item);
        else
            snprintf(allowances[i].text, sizeof allowances[i].text, "%.26s=%.20s", item, value + 1);
    }
    free(copy);
    return status->code == STATUS_OK;
}

static double extra(struct allowance allowance, double base)
{
    return allowance.relative ? allowance.amount * base : allowance.amount;
}

// --- changes

struct change_list {
    struct quantity_change *changes;
    size_t count;
    bool exact, settings; // of the rules
    const struct allowance *allowances;
    bool other_columns; // what is of one draw is of another in either record
    bool planned;       // one of the two
};

// Less by more than `slack_below` is better, more by more than `slack_above` worse.
static enum change judge(double base, double new, double slack_below, double slack_above)
{
    if (isnan(base) || isnan(new))
        return isnan(base) && isnan(new) ? CHANGE_NONE : isnan(base) ? CHANGE_OTHER : CHANGE_LOST;
    if (new < base - slack_below)
        return CHANGE_BETTER;
    return new > base + slack_above ? CHANGE_WORSE : new > base ? CHANGE_ALLOWED : CHANGE_NONE;
}

// Bytes and counts.
static enum change judge_count(const struct change_list *list, double base, double new, double slack)
{
    enum change change = judge(base, new, list->exact ? slack : 0, slack);
    if (list->exact && change == CHANGE_NONE && new < base)
        return CHANGE_ALLOWED;
    return list->exact && change == CHANGE_BETTER ? CHANGE_WORSE : change;
}

// Of what is of one draw each.
static enum change of_one_draw(const struct change_list *list, enum change change)
{
    bool judged = change == CHANGE_WORSE || change == CHANGE_BETTER || change == CHANGE_ALLOWED;
    return list->other_columns && judged ? CHANGE_OTHER : change;
}

static void add(struct change_list *list, const char *parent, const char *name, double base, double new,
                enum change change, const struct allowance *by)
{
    if (change == CHANGE_NONE)
        return;
    if (list->planned && change == CHANGE_LOST)
        change = CHANGE_OTHER;
    CHECK(list->count < QUANTITY_CHANGES_MAX);
    struct quantity_change *added = &list->changes[list->count++];
    *added = (struct quantity_change){.base = base, .new = new, .change = change};
    if (change == CHANGE_ALLOWED && by->given)
        snprintf(added->allowance, sizeof added->allowance, "%s", by->text);
    else if (change == CHANGE_ALLOWED)
        added->change = CHANGE_OTHER;
    snprintf(added->name, sizeof added->name, "%s%s", parent, name);
}

// Parts of a peak that fell may grow: of them nothing was asked, but where a plan is held against what was
// measured.
static void add_categories(struct change_list *list, const struct record *base, const struct record *new)
{
    static const struct allowance none = {0};
    const struct allowance *allowances = list->allowances;
    const struct allowance *own = &allowances[QUANTITY_PEAK_BY_CATEGORY], *peak = &allowances[QUANTITY_PEAK_BYTES];
    bool peak_fell = !list->planned && new->peak_bytes < base->peak_bytes;
    for (int i = 0; i < CATEGORY_COUNT; i++) {
        // A category that a record does not name held nothing.
        double before = fmax(base->peak_by_category[i], 0), after = fmax(new->peak_by_category[i], 0);
        double slack = peak_fell ? INFINITY : own->given ? extra(*own, before) : extra(*peak, base->peak_bytes);
        add(list, "peak_by_category.", category_name((enum category)i), before, after,
            of_one_draw(list, judge_count(list, before, after, slack)),
            peak_fell    ? &none
            : own->given ? own
                         : peak);
    }
}

static enum dtype dtype_of(const struct record *record)
{
    enum dtype dtype = DTYPE_F64;
    dtype_from_name(record->trial.dtype, &dtype);
    return dtype;
}

// Of the gradient; NaN: neither record has one.
static double noise_floor(const struct record *base, const struct record *new)
{
    return fmax(base->gradient.noise_floor, new->gradient.noise_floor);
}

// The noise floor of a record is one draw: the difference that one other order of sums makes. In bf16, whose sums
// are in f32, it may change no result at all in one build and some in the next, each by a whole unit in the last
// place. So no floor is taken for less than what rounding each result once comes to, nor is one that is NaN.
static double rounding(double floor, enum dtype dtype)
{
    return fmax(2 * fmax(floor, ROUNDING_RMS * dtype_epsilon(dtype)), ERROR_LEAST);
}

// Without a floor: what rounding in the trial's dtype can come to.
static double error_slack(const struct record *base, const struct record *new)
{
    double floor = noise_floor(base, new);
    enum dtype dtype = dtype_of(base);
    if (isnan(floor))
        floor = dtype == DTYPE_F64 ? 0 : dtype == DTYPE_F32 ? 1e-6 : 1e-2;
    return rounding(floor, dtype);
}

// Within rounding nothing changed.
static enum change judge_error(double before, double after, double slack)
{
    enum change change = judge(before, after, slack, slack);
    return change == CHANGE_ALLOWED ? CHANGE_NONE : change;
}

// A bias is that of all draws.
static void add_errors(struct change_list *list, const struct record *base, const struct record *new)
{
    static const struct allowance none = {0};
    const double slack = error_slack(base, new), before = base->gradient.relative_l2,
                 after = new->gradient.relative_l2;
    const struct record_bias *bias_before = &base->bias, *bias_after = &new->bias;
    add(list, "", "gradient.relative_l2", before, after, of_one_draw(list, judge_error(before, after, slack)),
        &none);
    add(list, "", "bias.relative_l2", bias_before->relative_l2, bias_after->relative_l2,
        judge_error(bias_before->relative_l2, bias_after->relative_l2, slack), &none);
    add(list, "", "bias.rms_error", bias_before->rms_error, bias_after->rms_error,
        judge_error(bias_before->rms_error, bias_after->rms_error, slack), &none);
}

static bool has_categories(const struct record *record)
{
    bool any = false;
    for (int i = 0; i < CATEGORY_COUNT; i++)
        any |= !isnan(record->peak_by_category[i]);
    return any;
}

// Null means that nothing was kept on the host, in a record that tells of its step.
static double kept_on_host(const struct record *record, double bytes)
{
    return isnan(bytes) && !isnan(record->peak_bytes) ? 0 : bytes;
}

// Null is a loss that is not finite, but for what computes none.
static double step_loss(const struct record *record)
{
    bool computed = record->status == RECORD_OK && !record_is_planned(record);
    return isnan(record->loss) && computed ? INFINITY : record->loss;
}

double quantity_of(const struct record *record, enum quantity quantity)
{
    switch (quantity) {
    case QUANTITY_PEAK_BYTES:
        return record->peak_bytes;
    case QUANTITY_FLOPS:
        return record->flops;
    case QUANTITY_BYTES_MOVED:
        return record->bytes_moved;
    case QUANTITY_LAUNCHES:
        return record->launches;
    case QUANTITY_HOST_PEAK_BYTES:
        return kept_on_host(record, record->host_peak_bytes);
    case QUANTITY_LINK_OUT_BYTES:
        return kept_on_host(record, record->link_out_bytes);
    case QUANTITY_LINK_IN_BYTES:
        return kept_on_host(record, record->link_in_bytes);
    case QUANTITY_INSTRUCTIONS:
        return record->instructions;
    case QUANTITY_LOSS:
        return step_loss(record);
    case QUANTITY_LAST_LOSS:
        return record_last_loss(record);
    case QUANTITY_HELD_OUT_LOSS:
        return record_held_out_loss(record);
    default:
        return NAN;
    }
}

static double instructions_noise(const struct record *base, const struct record *new)
{
    bool alike = record_same_machine(base, new) && record_waits_alike(base, new);
    return alike ? INSTRUCTIONS_NOISE * fmin(base->instructions, new->instructions) : NAN;
}

static bool same_inputs(const struct record *base, const struct record *new)
{
    return record_same_data(base, new) && record_same_model(base, new);
}

static double loss_rounding(double loss, const struct record *base, const struct record *new)
{
    return rounding(noise_floor(base, new), dtype_of(base)) * fabs(loss);
}

// What two runs of one build may be apart; NaN: the two cannot be compared.
static double noise_of(enum quantity quantity, const struct record *base, const struct record *new)
{
    switch (quantity) {
    case QUANTITY_INSTRUCTIONS:
        return instructions_noise(base, new);
    case QUANTITY_LOSS:
        return same_inputs(base, new) ? loss_rounding(base->loss, base, new) : NAN;
    case QUANTITY_LAST_LOSS:
    case QUANTITY_HELD_OUT_LOSS:
        return same_inputs(base, new)
                   ? fmax(loss_rounding(quantity_of(base, quantity), base, new), loss_noise(base, new))
                   : NAN;
    default:
        return 0;
    }
}

bool quantity_comparable(enum quantity quantity, const struct record *base, const struct record *new)
{
    return !isnan(noise_of(quantity, base, new));
}

bool quantity_changed(enum quantity quantity, const struct record *base, const struct record *new)
{
    return fabs(quantity_of(new, quantity) - quantity_of(base, quantity)) > noise_of(quantity, base, new);
}

static bool same_objective(const struct record *base, const struct record *new)
{
    const struct recorded_key key = recorded_key_of(&trial_keys[trial_key_find("objective")]);
    json_t *before = recorded_key_value(key, base), *after = recorded_key_value(key, new);
    bool same = json_equal(before, after);
    json_decref(before);
    json_decref(after);
    return same;
}

// Both known and finite.
static enum change judge_loss(const struct change_list *list, enum quantity quantity, const struct record *base,
                              const struct record *new)
{
    double difference = quantity_of(new, quantity) - quantity_of(base, quantity);
    double noise = noise_of(quantity, base, new);
    bool settings = list->settings, step = quantity == QUANTITY_LOSS;
    if (difference == 0)
        return CHANGE_NONE;
    if (isnan(noise) || (settings && !step && !same_objective(base, new)))
        return CHANGE_OTHER;
    if (fabs(difference) <= noise)
        return !step && !settings && gradient_bits_repeat(base, new) ? CHANGE_OTHER : CHANGE_NONE;
    if (step && (settings || list->other_columns))
        return CHANGE_OTHER;
    return step || difference > 0 ? CHANGE_WORSE : CHANGE_BETTER;
}

static void add_loss(struct change_list *list, enum quantity quantity, const struct record *base,
                     const struct record *new)
{
    double before = quantity_of(base, quantity), after = quantity_of(new, quantity);
    const struct allowance *allowance = &list->allowances[quantity];
    enum change change = CHANGE_NONE;
    if (isfinite(before) && isfinite(after))
        change = judge_loss(list, quantity, base, new);
    else if (isfinite(before))
        change = isinf(after) ? CHANGE_WORSE : list->settings ? CHANGE_OTHER : CHANGE_LOST;
    else if (isfinite(after))
        change = CHANGE_OTHER;
    double allowed = noise_of(quantity, base, new) + extra(*allowance, fabs(before));
    if (change == CHANGE_WORSE && allowance->given && fabs(after - before) <= allowed)
        change = CHANGE_ALLOWED;
    add(list, "", quantity_names[quantity], before, after, change, allowance);
}

static void add_quantity(struct change_list *list, enum quantity quantity, const struct record *base,
                         const struct record *new)
{
    const struct allowance *allowance = &list->allowances[quantity];
    double before = quantity_of(base, quantity), after = quantity_of(new, quantity);
    bool comparable = quantity != QUANTITY_INSTRUCTIONS || quantity_changed(quantity, base, new);
    if (comparable)
        add(list, "", quantity_names[quantity], before, after,
            of_one_draw(list, judge_count(list, before, after, extra(*allowance, before))), allowance);
}

// What a plan has to the last byte besides; each may be off by the share or the amount that its kind may.
static void add_planned(struct change_list *list, const struct record *base, const struct record *new)
{
    const struct {
        const char *name;
        enum quantity kind;
        double base, new;
    } exact[] = {
        {"resident_bytes", QUANTITY_PEAK_BYTES, base->resident_bytes, new->resident_bytes},
        {"model_flops", QUANTITY_FLOPS, base->model_flops, new->model_flops},
        {"attention_glue_bytes", QUANTITY_BYTES_MOVED, base->attention_glue_bytes, new->attention_glue_bytes}};
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
        const struct allowance *allowance = &list->allowances[exact[i].kind];
        double slack = extra(*allowance, exact[i].base);
        add(list, "", exact[i].name, exact[i].base, exact[i].new,
            of_one_draw(list, judge_count(list, exact[i].base, exact[i].new, slack)), allowance);
    }
}

size_t quantity_changes(struct quantity_change changes[QUANTITY_CHANGES_MAX], const struct record *base,
                        const struct record *new, const struct quantity_rules *rules)
{
    bool planned = record_one_is_planned(base, new);
    struct change_list list = {.changes = changes,
                               .exact = rules->exact || planned,
                               .planned = planned,
                               .settings = rules->settings,
                               .allowances = rules->allowances,
                               .other_columns = record_other_columns(base, new)};
    for (enum quantity i = 0; i < QUANTITY_COUNT; i++) {
        bool loss = i == QUANTITY_LOSS || i == QUANTITY_LAST_LOSS || i == QUANTITY_HELD_OUT_LOSS;
        if (loss && planned)
            continue;
        if (loss)
            add_loss(&list, i, base, new);
        else if (i != QUANTITY_PEAK_BY_CATEGORY)
            add_quantity(&list, i, base, new);
        else if (has_categories(base) && has_categories(new))
            add_categories(&list, base, new);
    }
    (planned ? add_planned : add_errors)(&list, base, new);
    return list.count;
}
