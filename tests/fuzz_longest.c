// Fuzz target: any bytes as what max-context prints are refused with a reason, or are rows and records that can be
// shown.
#define _GNU_SOURCE // memfd_create
#include "harness/papers/longest_contexts.h"
#include "harness/papers/longest_records.h"
#include "tests/fuzzed_file.h"
#include <math.h>

static void read_rows(const char *path)
{
    static const struct published nothing = {0};
    struct longest_contexts contexts;
    struct status status = {0};
    bool ok = longest_contexts_open(&contexts, &path, 1, &nothing, &status);
    fuzzed_check(ok, &status);
    for (size_t i = 0; ok && i < contexts.row_count; i++)
        CHECK(*contexts.rows[i].method && contexts.rows[i].extent >= 0 && contexts.rows[i].group == 1);
    longest_contexts_close(&contexts);
}

static void read_records(const char *path)
{
    struct results results;
    struct status status = {0};
    bool ok = longest_results_open(&results, &path, 1, false, &status);
    fuzzed_check(ok, &status);
    for (size_t i = 0; ok && i < results.count; i++)
        CHECK(*record_method(results.records[i]) && results.records[i]->trial.context >= 1);
    results_close(&results);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct fuzzed_path folder; // in which the name ends in .json
    struct fuzzed_path file = fuzzed_file(bytes, count);
    char path[sizeof folder.text + 16];
    if (!*folder.text)
        folder = fuzzed_folder(file, "m.json");
    snprintf(path, sizeof path, "%s/m.json", folder.text);
    read_rows(path);
    read_records(path);
    return 0;
}
