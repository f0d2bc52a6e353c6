// Fuzzing of the reader of result files: any line is read without fault, what is read is JSON, and is written
// again, and what a search found is a row that can be shown.
#include "harness/papers/longest_contexts.h"
#include "harness/record/record_json.h"
#include "harness/record/record_read.h"
#include <stdint.h>
#include <string.h>

static void show_longest(const struct record *record)
{
    static const struct published nothing = {0};
    struct longest_contexts contexts;
    struct results results = {
        .count = 1, .records = (const struct record *[]){record}, .origins = (const char *[]){"fuzz"}};
    longest_contexts_open(&contexts, &results, &nothing);
    for (size_t i = 0; i < contexts.row_count; i++)
        CHECK(*contexts.rows[i].method && contexts.rows[i].extent >= 0 && contexts.rows[i].group == 1);
    longest_contexts_close(&contexts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct status status = {0};
    struct record record;
    struct interned interned = {0};
    char *line = malloc(bytes + 1);
    CHECK(line);
    memcpy(line, data, bytes);
    line[bytes] = 0;
    if (record_read(&record, line, bytes, &interned, "fuzz", &status)) {
        json_t *object = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, NULL), *again = record_json(&record);
        CHECK(json_is_object(object) && again);
        show_longest(&record);
        json_decref(again);
        json_decref(object);
    } else {
        CHECK(status.code == STATUS_BAD_INPUT);
    }
    interned_free(&interned);
    free(line);
    return 0;
}
