// Fuzz target: any bytes as the file of another program's run are refused with a reason, or give a trial of its
// framework's step that is planned or refused.
#define _GNU_SOURCE // memfd_create
#include "harness/framework/run_file.h"
#include "harness/spec/framework_decode.h"
#include "tests/fuzzed_file.h"

// Decodes the trial with what a command line would give.
static void decode(json_t *keys)
{
    struct trial trial;
    struct status status = {0};
    json_object_set_new(keys, "device", json_string(FRAMEWORK_DEVICE));
    if (!json_object_get(keys, "context"))
        json_object_set_new(keys, "context", json_integer(64));
    json_object_set_new(keys, "model", json_string("tiny")); // rather than a file of this machine
    char *text = json_dumps(keys, JSON_COMPACT);
    CHECK(text);
    bool ok = trial_decode(&trial, text, "run", &status);
    fuzzed_check(ok, &status);
    CHECK(!ok || trial.framework);
    trial_free(&trial);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct run_file run;
    struct status status = {0};
    bool ok = run_file_read(&run, fuzzed_file(bytes, count).text, &status);
    fuzzed_check(ok, &status);
    for (size_t i = 0; ok && i < json_array_size(run.unchecked); i++)
        CHECK(json_is_string(json_array_get(run.unchecked, i)));
    if (ok)
        decode(run.trial);
    run_file_close(&run);
    return 0;
}
