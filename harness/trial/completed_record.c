#include "harness/trial/completed_record.h"
#include "harness/record/record_read.h"
#include <string.h>

char *completed_record(const char *line, const struct trial *trial, const char *experiment, const char *command,
                       size_t round, enum record_status *status)
{
    struct record record;
    json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    char *completed = NULL;
    struct interned interned = {0};
    struct status none = {0};
    bool read = record_read(&record, line, strlen(line), &interned, "record", &none);
    *status = record.status;
    if (read && strcmp(record.id, trial->id) == 0 && record.status < RECORD_STATUS_COUNT) {
        CHECK(json_object_set_new(object, "experiment", record_text(experiment)) == 0);
        CHECK(json_object_set_new(object, "command", record_text(command)) == 0);
        if (round)
            CHECK(json_object_set_new(object, "round", json_integer((json_int_t)round)) == 0);
        if (trial->shares)
            CHECK(json_object_set_new(object, "shares", json_loads(trial->shares, 0, NULL)) == 0);
        completed = json_dumps(object, JSON_COMPACT);
    }
    interned_free(&interned);
    json_decref(object);
    return completed;
}
