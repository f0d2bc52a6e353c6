// System calls that are interrupted, take less than they are given, or fail (tests/system_calls.h): the first two
// change nothing, and of a failure the program says why.
#define _GNU_SOURCE // nftw, mkdtemp, asprintf
#include "tests/records_of.h"
#include <math.h>
#include <stdbool.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define FAULTS       "env LD_PRELOAD=$SYSTEM_CALLS INTERRUPT=1 SHORTEN=1"

#define SECO(chunks) "{\"name\": \"seco\", \"chunk\": " chunks ", \"offload\": [\"kv\"]}"
// Trials that share a reference, with what goes to files of the folder.
#define SPEC(methods)                                                                                              \
    "{\"experiment\": \"t\", \"model\": {\"layers\": 2, \"width\": 16, \"heads\": 2, \"ffn\": 32, \"vocab\": "     \
    "61},\n"                                                                                                       \
    " \"host\": {\"folder\": \".\"}, \"measure\": {\"warmup\": 0, \"samples\": 2},\n"                              \
    " \"axes\": {\"context\": [64], \"method\": [" methods "]}}\n"

static void prepare(const struct scratch *scratch)
{
    char *library = preloaded("system_calls");
    setenv("SYSTEM_CALLS", library, 1);
    free(library);
    scratch_text(scratch, "spec.json", SPEC(SECO("[16, 32, 64]")));
}

static void must_run(const struct scratch *scratch, const char *command)
{
    int code = run(scratch, command);
    if (code != 0)
        fail_msg("%s: exit code %d: %s", command, code, text_of(scratch, "err"));
}

static void interrupted_and_short_calls_change_nothing(void **state)
{
    const struct scratch *scratch = *state;
    // Each command writes into its working directory, which must come out the same with faults and without.
    static const char *const commands[] = {
        "$L grad --model tiny --context 64 --out g.safetensors",
        "$L train --model tiny --context 64 --steps 4 --checkpoint 2 --out t && rm -f t/*.jsonl",
        "$L report ../r.jsonl > report",
        "$L report ../r.jsonl --html page.html",
        "$L compare --deterministic ../r.jsonl ../r.jsonl > compare",
        "$L plot ../r.jsonl --figures chunk --out pictures > plot",
        "$L history ../r.jsonl > history",
    };
    prepare(scratch);
    must_run(scratch, "mkdir plain faulty && $L run spec.json --quiet --out r.jsonl");
    must_run(scratch, FAULTS " $L run spec.json --quiet --out faulty.jsonl");
    must_run(scratch, "$L compare --deterministic --exact r.jsonl faulty.jsonl");
    for (size_t i = 0; i < COUNT(commands); i++) {
        char *command;
        assert_true(asprintf(&command, "cd plain && %s", commands[i]) > 0);
        must_run(scratch, command);
        free(command);
        assert_true(asprintf(&command, "cd faulty && " FAULTS " %s", commands[i]) > 0);
        must_run(scratch, command);
        free(command);
    }
    must_run(scratch, "diff -r plain faulty");
}

// Each read of a command in turn: it does as well without, or it says why it cannot go on; told: once at least.
static void expect_told_or_done(const struct scratch *scratch, const char *command, const char *told)
{
    char *whole, *faulty;
    bool seen = false;
    must_run(scratch, command);
    whole = text_of(scratch, "out");
    for (size_t reads = 0;; reads++) {
        assert_true(asprintf(&faulty, "rm -f failed-read; export LD_PRELOAD=$SYSTEM_CALLS FAIL_READ=%zu; %s",
                             reads + 1, command) > 0);
        int code = run(scratch, faulty);
        free(faulty);
        if (access(scratch_path(scratch, "failed-read").text, F_OK) != 0)
            break;
        char *out = text_of(scratch, "out"), *err = text_of(scratch, "err");
        if (code == 0 ? strcmp(out, whole) != 0
                      : code != 2 || !strstr(err, "Input/output error") || strstr(err, "Success"))
            fail_msg("%s, read %zu: exit code %d: %s%s", command, reads + 1, code, out, err);
        seen |= strstr(err, told) != NULL;
        free(out);
        free(err);
    }
    assert_true(seen);
    free(whole);
}

static void failed_reads_are_told(void **state)
{
    const struct scratch *scratch = *state;
    prepare(scratch);
    must_run(scratch, "$L run spec.json --quiet --out r.jsonl");
    expect_told_or_done(scratch, "$L report r.jsonl", "r.jsonl: Input/output error");
    expect_told_or_done(scratch, "$L compare --deterministic r.jsonl r.jsonl", "r.jsonl: Input/output error");
    // A stub replaces gnuplot: its output does not matter here and comes at once.
    must_run(scratch, "printf '#!/bin/sh\\necho picture\\n' > gnuplot && chmod +x gnuplot");
    expect_told_or_done(scratch, "PATH=.:$PATH $L plot r.jsonl --figures chunk --format png --out pictures",
                        "cannot read what gnuplot wrote: Input/output error");
}

// After each of the allocations of a step, the folder's disk is full.
static void a_full_folder_is_told(void **state)
{
    const struct scratch *scratch = *state;
    prepare(scratch);
    scratch_text(scratch, "spec.json", SPEC(SECO("16")));
    must_run(scratch, "$L run spec.json --quiet --out r.jsonl");
    json_t *all = records(scratch, "r.jsonl");
    json_int_t peak = json_integer_value(json_object_get(json_array_get(all, 0), "host_peak_bytes"));
    json_decref(all);
    assert_true(peak > 1);
    const json_int_t sizes[] = {1, peak / 2, peak - 1};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        char *command;
        size_t before = scratch_entries(scratch);
        assert_true(
            asprintf(&command,
                     "rm -f full; DISK_BYTES=%lld LD_PRELOAD=$SYSTEM_CALLS $L run spec.json --quiet --out full",
                     (long long)sizes[i]) > 0);
        run(scratch, command);
        free(command);
        json_t *full = records(scratch, "full");
        assert_int_equal(json_array_size(full), 1);
        const json_t *record = json_array_get(full, 0);
        assert_string_equal(json_string_value(json_object_get(record, "status")), "oom");
        const char *reason = json_string_value(json_object_get(record, "reason"));
        if (!strstr(reason, "host.folder: . has no ") ||
            !strstr(reason, "No space left on device; name a folder with more room, or keep less on the host"))
            fail_msg("%s", reason);
        json_decref(full);
        assert_int_equal(run(scratch, "rm full"), 0);
        assert_int_equal(scratch_entries(scratch), before);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(interrupted_and_short_calls_change_nothing),
                                       TEST(failed_reads_are_told), TEST(a_full_folder_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
