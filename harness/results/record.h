// Record: one line of JSON per trial of a sweep, appended and synced when the trial ends.
//
// Its fields, with units and when they are null: record_fields.c, printed by `longbp list fields`.
//
// Where columns are drawn all but the times is of draw 0, the one that sampler_seed names: a plan's bytes and
// counts are then those of the run, and two runs' are equal. A number that is not finite is null (decimals of an
// exact gradient too). What a trial did not come to is null. A planned trial ("device": "plan-cpu" or "plan-cuda")
// has no loss, no samples and no gradient; its bytes and counts are those of a step on the device that it is like.
#pragma once
#include <jansson.h>

#define RECORD_SCHEMA 2

enum record_status {
    RECORD_OK,
    RECORD_OOM,
    RECORD_TIMEOUT,
    RECORD_CRASH,
    RECORD_UNSUPPORTED,
    RECORD_FAILED,
    RECORD_STATUS_COUNT
};
const char *record_status_name(enum record_status status);
// RECORD_STATUS_COUNT if there is no such status.
enum record_status record_status_from_name(const char *name);

// The name of the card that a record was measured on, without the driver and the libraries behind it; "" on the
// CPU.
void record_card(const json_t *record, char *name, size_t size);
// A JSON string; bad UTF-8, which a crashed program may print, becomes '?'.
json_t *record_text(const char *value);
// Checks that `line` is the record of trial `id` and fills in experiment and command. The new line, to be freed;
// its status in *status. NULL if it is not such a record.
char *record_complete(const char *line, const char *id, const char *experiment, const char *command,
                      enum record_status *status);
