// Fuzzing of the reader of result files: any line is skimmed, checked and read without fault, what the skims accept
// is JSON and a record, and a record that is read is written again.
#include "harness/json/json_skim.h"
#include "harness/record/record_check.h"
#include "harness/record/record_json.h"
#include "harness/record/record_skim.h"
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const names[] = {"id", "status"};
    struct json_slice found[2];
    struct status status = {0};
    struct record record;
    struct interned interned = {0};
    char *line = strndup((const char *)data, bytes);
    CHECK(line);
    bool quickly = record_skim(&record, line, strlen(line), &interned);
    record_free(&record);
    interned_free(&interned);
    bool skimmed = json_skim((const char *)data, bytes, names, found, 2);
    json_t *object = json_loadb((const char *)data, bytes, 0, NULL);
    CHECK(!skimmed || json_is_object(object));
    bool good = record_check(object, "fuzz", &status);
    CHECK(!quickly || good || strlen(line) != bytes);
    free(line);
    if (good) {
        record_read(&record, object);
        json_t *again = record_json(&record);
        CHECK(again);
        json_decref(again);
        record_free(&record);
    }
    json_decref(object);
    return 0;
}
