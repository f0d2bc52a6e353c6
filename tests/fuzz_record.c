// Fuzzing of the reader of result files: any line is read without fault, what is read is JSON, and is written
// again.
#include "harness/record/record_json.h"
#include "harness/record/record_read.h"
#include <stdint.h>
#include <string.h>

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
        json_decref(again);
        json_decref(object);
    } else {
        CHECK(status.code == STATUS_BAD_INPUT);
    }
    interned_free(&interned);
    free(line);
    return 0;
}
