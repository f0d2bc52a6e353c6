#include "harness/options/search_records.h"
#include "harness/options/shell.h"
#include "harness/spec/method_decode.h"
#include "harness/spec/trial_keys.h"
#include "harness/trial/trial_run.h"

bool search_records_open(struct search_records *records, const struct plan_flags *flags, int argc, char **argv,
                         struct status *status)
{
    *records = (struct search_records){.flags = flags, .command = shell_line(argc, argv)};
    return !flags->out ||
           (result_log_open(&records->log, flags->out, false, status) && result_log_begin(&records->log, status));
}

static json_t *limit_json(size_t bytes)
{
    return bytes && bytes < NO_LIMIT ? json_integer((json_int_t)bytes) : json_null();
}

// The choice as a trial that names all that was found.
static json_t *trial_json(const struct choice *choice, struct planned_limits limits)
{
    const struct trial *trial = choice->trial;
    json_t *json = json_loads(trial->canonical, 0, NULL);
    json_object_set_new(json, "method", method_json(trial->method, choice->options));
    json_object_set_new(json, "context", json_integer((json_int_t)trial->context));
    if (trial->data.kind != DATA_BATCH)
        json_object_set_new(json, "batch", json_integer((json_int_t)trial->batch));
    json_object_set_new(json, "limits",
                        json_pack("{s:o, s:o}", "memory", limit_json(limits.device_bytes), "host_memory",
                                  limit_json(limits.host_bytes)));
    return json;
}

// NULL: the choice has every key as it was asked for.
static json_t *asked_otherwise(const json_t *trial, const json_t *first)
{
    json_t *asked = json_object();
    const struct trial_key *tried[TRIAL_KEYS_MAX];
    size_t count = trial_keys_tried(tried);
    for (size_t i = 0; i < count; i++) {
        const char *name = tried[i]->name;
        if (!json_equal(json_object_get(trial, name), json_object_get(first, name)))
            json_object_set(asked, name, json_object_get(first, name));
    }
    if (json_object_size(asked))
        return asked;
    json_decref(asked);
    return NULL;
}

bool search_records_add_trial(struct search_records *records, const char *experiment, struct trial *trial,
                              struct status *status)
{
    bool fine = true;
    if (!records->flags->out && !records->flags->json)
        return true;
    trial->experiment = experiment;
    trial->command = records->command;
    trial->unchecked = records->flags->unchecked;
    char *line = trial_run(trial, -1);
    if (records->flags->out)
        fine = result_log_append(&records->log, line, status);
    if (fine && records->flags->json)
        puts(line);
    free(line);
    return fine;
}

bool search_records_add(struct search_records *records, const char *experiment, const struct choice *choice,
                        const json_t *first, struct planned_limits limits, const struct record_search *search,
                        struct status *status)
{
    if (!records->flags->out && !records->flags->json)
        return true;
    struct trial trial;
    struct record_search own = *search;
    json_t *json = trial_json(choice, limits), *asked = asked_otherwise(json, first);
    char *text = json_dumps(json, JSON_COMPACT);
    own.given = true;
    own.asked = asked;
    bool fine = trial_decode(&trial, text, "what was found", status);
    trial.search = &own;
    fine = fine && search_records_add_trial(records, experiment, &trial, status);
    trial_free(&trial);
    free(text);
    json_decref(asked);
    json_decref(json);
    return fine;
}

void search_records_close(struct search_records *records)
{
    if (records->flags->out)
        result_log_close(&records->log);
    free(records->command);
}
