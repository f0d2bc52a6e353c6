// Result ids: which trials a result file has records of, and how many, in a few bytes for each.
#pragma once
#include "harness/record/record.h"
#include <stddef.h>
#include <stdint.h>

struct result_id {
    uint8_t id[16];
    uint32_t records, ok, bad;      // how many there are, and how many of them ended ok, and as failed or crash
    uint64_t data_hash, model_hash; // of what they read (record_fields.c); 0: not known
};

struct result_ids {
    size_t count, capacity;
    struct result_id *items; // by id, each once, but for those added since the last look-up
    size_t sorted;           // how many of them are
};

// Counts a record.
void result_ids_add(struct result_ids *ids, const struct record *record);
// The records of a trial; zeros if there are none.
struct result_id result_ids_find(struct result_ids *ids, const char *id);
void result_ids_free(struct result_ids *ids);
