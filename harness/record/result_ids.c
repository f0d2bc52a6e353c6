#include "harness/record/result_ids.h"
#include "kernels/base/status.h"
#include <stdlib.h>
#include <string.h>

static uint8_t digit(char c)
{
    return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static struct result_id key_of(const char *id)
{
    struct result_id key = {0};
    for (size_t i = 0; i < sizeof key.id; i++)
        key.id[i] = (uint8_t)(digit(id[2 * i]) << 4 | digit(id[2 * i + 1]));
    return key;
}

static int by_id(const void *a, const void *b)
{
    return memcmp(a, b, sizeof((struct result_id *)0)->id);
}

// Sorts the additions and merges equal ids.
static void settle(struct result_ids *ids)
{
    if (ids->sorted == ids->count)
        return;
    size_t kept = 0;
    qsort(ids->items, ids->count, sizeof *ids->items, by_id);
    for (size_t i = 1; i < ids->count; i++) {
        if (by_id(&ids->items[kept], &ids->items[i]) == 0) {
            ids->items[kept].records += ids->items[i].records;
            ids->items[kept].ok += ids->items[i].ok;
            ids->items[kept].bad += ids->items[i].bad;
            if (!ids->items[kept].data_hash)
                ids->items[kept].data_hash = ids->items[i].data_hash;
            if (!ids->items[kept].model_hash)
                ids->items[kept].model_hash = ids->items[i].model_hash;
        } else {
            ids->items[++kept] = ids->items[i];
        }
    }
    ids->count = ids->sorted = kept + 1;
}

static void grow(struct result_ids *ids)
{
    ids->capacity = ids->capacity ? 2 * ids->capacity : 64;
    ids->items = realloc(ids->items, ids->capacity * sizeof *ids->items);
}

void result_ids_add(struct result_ids *ids, const struct record *record)
{
    if (ids->count == ids->capacity) {
        settle(ids); // rounds of the same trials need no more room
        if (2 * ids->count >= ids->capacity)
            grow(ids);
    }
    struct result_id *added = &ids->items[ids->count++];
    *added = key_of(record->id);
    added->records = 1;
    added->ok = record->status == RECORD_OK;
    added->bad = record->status == RECORD_FAILED || record->status == RECORD_CRASH;
    added->data_hash = record->data_hash;
    added->model_hash = record->model_hash;
}

struct result_id result_ids_find(struct result_ids *ids, const char *id)
{
    struct result_id key = key_of(id), *found = NULL;
    settle(ids);
    if (ids->count)
        found = bsearch(&key, ids->items, ids->count, sizeof *ids->items, by_id);
    return found ? *found : key;
}

void result_ids_free(struct result_ids *ids)
{
    free(ids->items);
    *ids = (struct result_ids){0};
}
