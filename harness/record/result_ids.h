// Result ids: the trials of a result file and their numbers of records, in a few bytes each.
#pragma once
#include "harness/record/record.h"
#include <stddef.h>
#include <stdint.h>

struct result_id {
    uint8_t id[16];
    uint32_t records, ok, bad;      // all, those that ended ok, and those that failed or crashed
    uint64_t data_hash, model_hash; // of their inputs (record_fields.c); 0: unknown
};

struct result_ids {
    size_t count, capacity;
    struct result_id *items; // by id, unique except for additions since the last look-up
    size_t sorted;           // number of sorted items
};

// Counts a record.
void result_ids_add(struct result_ids *ids, const struct record *record);
// The records of a trial; zeros if there are none.
struct result_id result_ids_find(struct result_ids *ids, const char *id);
void result_ids_free(struct result_ids *ids);
