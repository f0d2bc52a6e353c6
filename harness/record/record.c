#include "harness/record/record.h"
#include "harness/spec/device_kind.h"
#include "harness/spec/trial.h"
#include "harness/text/text.h"
#include "kernels/base/status.h"
#include <math.h>
#include <string.h>

static const char *const status_names[RECORD_STATUS_COUNT] = {
    [RECORD_OK] = "ok",
    [RECORD_OOM] = "oom",
    [RECORD_TIMEOUT] = "timeout",
    [RECORD_CRASH] = "crash",
    [RECORD_UNSUPPORTED] = "unsupported",
    [RECORD_FAILED] = "failed",
};

const char *record_status_name(enum record_status status)
{
    CHECK(status < RECORD_STATUS_COUNT);
    return status_names[status];
}

enum record_status record_status_from_name(const char *name)
{
    enum record_status status = 0;
    while (status < RECORD_STATUS_COUNT && strcmp(name, status_names[status]) != 0)
        status++;
    return status;
}

const char *record_method(const struct record *record)
{
    return text_or(json_string_value(record_option(record, "name")), "");
}

const json_t *record_option(const struct record *record, const char *name)
{
    const json_t *share = json_object_get(record->shares, name);
    return share ? share : json_object_get(record->trial.method, name);
}

double record_option_number(const struct record *record, const char *name)
{
    const json_t *value = json_object_get(record->trial.method, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

size_t record_last_steps(const struct record *record)
{
    size_t count = record->curve->loss.count;
    return count < 4 ? count > 0 : count / 4;
}

double record_last_loss(const struct record *record)
{
    const struct number_list *loss = &record->curve->loss;
    size_t taken = record_last_steps(record);
    double sum = 0;
    for (size_t i = loss->count - taken; i < loss->count; i++)
        sum += loss->items[i];
    return taken ? sum / (double)taken : NAN;
}

double record_held_out_loss(const struct record *record)
{
    const struct number_list *loss = &record->curve->evaluation_loss;
    return loss->count ? loss->items[loss->count - 1] : NAN;
}

const struct record_tensor *record_tensor_find(const struct record_gradient *gradient, const char *name,
                                               size_t place)
{
    size_t count = gradient->tensors.count;
    for (size_t i = 0; i < count; i++) {
        size_t at = (place + i) % count;
        if (strcmp(gradient->tensors.names[at], name) == 0)
            return (const struct record_tensor *)gradient->tensors.items + at;
    }
    return NULL;
}

bool record_disturbed(const struct record *record)
{
    const struct record_load *load = &record->load;
    double threads = record->provenance.threads, others = load->other_cores + load->stolen_cores;
    // False if one is unknown: comparisons with NaN are false.
    return load->given && (threads + others - load->cores > threads / 20 || load->waited_cores > threads / 20);
}

double record_cores_taken(const struct record *record)
{
    const struct record_load *load = &record->load;
    return !load->given               ? NAN
           : isnan(load->other_cores) ? load->waited_cores
                                      : load->other_cores + load->stolen_cores;
}

static double sum_of(const struct number_list *list)
{
    double sum = 0;
    for (size_t i = 0; i < list->count; i++)
        sum += list->items[i];
    return sum;
}

// Tells whether a single thread, which waits for no other, did not run for a tenth of the samples' time.
static bool stood_still(const struct record *record)
{
    return record->provenance.threads == 1 && record->cpu_ms.count &&
           record->cpu_ms.count == record->samples_ms.count &&
           sum_of(&record->cpu_ms) < 0.9 * sum_of(&record->samples_ms);
}

bool record_perhaps_disturbed(const struct record *record)
{
    const struct record_load *load = &record->load;
    return load->given && isnan(record_cores_taken(record)) &&
           (load->before > load->cores + record->provenance.threads / 2 || stood_still(record));
}

void record_card(const struct record *record, char *name, size_t size)
{
    const char *card = text_or(record->provenance.card, "");
    snprintf(name, size, "%.*s", (int)strcspn(card, ","), card);
}

// The part of "OpenBLAS 0.3.21, core Zen; ..." from "Zen" on: the BLAS's kind of processor, which several models
// share.
static const char *core_of(const char *blas)
{
    static const char before[] = "core ";
    const char *found = strstr(text_or(blas, ""), before);
    return found ? found + strlen(before) : NULL;
}

static bool same_core(const char *a, const char *b)
{
    const char *left = core_of(a), *right = core_of(b);
    size_t length = left ? strcspn(left, ";") : 0;
    return !left || !right || (length == strcspn(right, ";") && strncmp(left, right, length) == 0);
}

static bool same_hash(uint64_t a, uint64_t b)
{
    return !a || !b || a == b;
}

bool record_same_data(const struct record *a, const struct record *b)
{
    return same_hash(a->data_hash, b->data_hash);
}

bool record_same_model(const struct record *a, const struct record *b)
{
    return same_hash(a->model_hash, b->model_hash);
}

bool record_gradient_undecided(const struct record *record)
{
    return record->status == RECORD_OK && strcmp(text_or(record->gradient.verdict, ""), "undecided") == 0;
}

bool record_is_planned(const struct record *record)
{
    return trial_plans_on(text_or(record->trial.device, ""));
}

bool record_is_of_no_card(const struct record *record)
{
    return !record->trial.profile && record_is_planned(record) && device_is_of_card(record->trial.device);
}

bool record_one_is_planned(const struct record *a, const struct record *b)
{
    return record_is_planned(a) != record_is_planned(b);
}

bool record_one_is_limited(const struct record *a, const struct record *b)
{
    const struct record_limits *left = a->trial.limits, *right = b->trial.limits;
    return (left->memory > 0) != (right->memory > 0) || (left->host_memory > 0) != (right->host_memory > 0);
}

// A draw without chunks appears only in the counts.
static bool knows_columns(const struct record *record)
{
    return record->drawn_chunks.count || (record->sample_chunks.count && record->sample_chunks.items[0] == 0);
}

static bool same_numbers(const struct number_list *a, const struct number_list *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = a->items[i] == b->items[i];
    return same;
}

bool record_other_chunks(const struct record *a, const struct record *b)
{
    bool same =
        same_numbers(&a->drawn_chunks, &b->drawn_chunks) && same_numbers(&a->skipped_chunks, &b->skipped_chunks);
    return knows_columns(a) && knows_columns(b) && !same;
}

bool record_same_machine(const struct record *a, const struct record *b)
{
    double left_threads = a->provenance.threads, right_threads = b->provenance.threads;
    char left_card[128], right_card[128];
    record_card(a, left_card, sizeof left_card);
    record_card(b, right_card, sizeof right_card);
    return strcmp(text_or(a->provenance.cpu, ""), text_or(b->provenance.cpu, "")) == 0 &&
           same_core(a->provenance.blas, b->provenance.blas) &&
           (left_threads == right_threads || (isnan(left_threads) && isnan(right_threads))) &&
           strcmp(left_card, right_card) == 0;
}

void record_machine(const struct record *record, char *name, size_t size)
{
    const struct record_provenance *provenance = &record->provenance;
    const char *core = core_of(provenance->blas);
    char card[128];
    *name = 0;
    if (!record->samples_ms.count)
        return;
    record_card(record, card, sizeof card);
    text_append(name, size, "%s", *card ? card : text_or(provenance->cpu, "an unknown machine"));
    if (!*card && core)
        text_append(name, size, " (%.*s)", (int)strcspn(core, ";"), core);
}

bool records_of_several_machines(const struct record *const *records, size_t count)
{
    char first[RECORD_MACHINE_BYTES] = "", own[RECORD_MACHINE_BYTES];
    for (size_t i = 0; i < count; i++) {
        record_machine(records[i], own, sizeof own);
        if (*first && *own && strcmp(first, own) != 0)
            return true;
        if (!*first)
            memcpy(first, own, sizeof first);
    }
    return false;
}

bool record_waits_alike(const struct record *a, const struct record *b)
{
    double left = a->provenance.spin_count, right = b->provenance.spin_count;
    bool alone = a->provenance.threads == 1 && b->provenance.threads == 1;
    return alone || isnan(left) || isnan(right) || left == right;
}

json_t *record_text(const char *value)
{
    json_t *string = json_string(value);
    if (string)
        return string;
    char *ascii = strdup(value);
    for (char *c = ascii; *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    string = json_string(ascii);
    free(ascii);
    return string;
}
