// The harness's guarantees, tested on the program: resume, timeout, crash, out of memory, a bad spec. The trials
// are method `null`, which does what its options say.
#define _GNU_SOURCE // asprintf
#include "tests/null_sweep.h"
#include <signal.h>
#include <sys/stat.h>

static const char behaviour_axes[] =
    " \"axes\": {\"context\": [8], \"method\": [{\"name\": \"null\",\n"
    "            \"behaviour\": [\"fail\", \"hang\", \"oom\", \"crash\", \"ok\"]}]}}\n";

static void sweep_killed_again_and_again_resumes(void **state)
{
    struct scratch *scratch = *state;
    spec_write(scratch, slow_axes);
    for (size_t kills = 0; kills < 3; kills++) {
        size_t before = line_count(scratch, "r.jsonl");
        pid_t sweep = start(scratch, "exec $L run spec.json --out r.jsonl");
        wait_for_lines(scratch, before + 1);
        pause_ms(70 * (long)kills);
        kill(sweep, SIGKILL);
        assert_int_equal(finish(sweep), 128 + SIGKILL);
    }
    size_t kept = line_count(scratch, "r.jsonl");
    char *first = text_of(scratch, "r.jsonl");
    assert_in_range(kept, 3, TRIALS - 1);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 0);
    char *all = text_of(scratch, "r.jsonl");
    assert_memory_equal(first, all, strlen(first)); // what was there stays as it was
    free(first);
    free(all);
    assert_complete(scratch, TRIALS);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 0);
    assert_says(scratch, "err", "nothing left to do");
    assert_int_equal(line_count(scratch, "r.jsonl"), TRIALS);
}

static void interrupt_stops_and_says_how_to_resume(void **state)
{
    struct scratch *scratch = *state;
    spec_write(scratch, slow_axes);
    static const int signals[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < 2; i++) {
        pid_t sweep = start(scratch, "exec $L run spec.json --out r.jsonl");
        wait_for_lines(scratch, 2 * (i + 1));
        kill(sweep, signals[i]);
        assert_int_equal(finish(sweep), 130);
        assert_says(scratch, "err", "the same command again");
    }
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 0);
    assert_complete(scratch, TRIALS);
}

// State of a process in /proc: 'R', 'S', 'Z' ..., 0 if it is gone.
static char process_state(pid_t pid)
{
    char path[64], line[512] = "", *end;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    size_t got = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[got] = 0;
    end = strrchr(line, ')');
    return end ? end[2] : 0;
}

// A sweep of one trial that hangs and has no time limit; *trial becomes its process.
static pid_t start_hanging(const struct scratch *scratch, pid_t *trial)
{
    spec_write(scratch,
               " \"axes\": {\"context\": [8], \"method\": [{\"name\": \"null\", \"behaviour\": \"hang\"}]}}\n");
    pid_t sweep = start(scratch, "exec $L run spec.json --out r.jsonl --axis "
                                 "'measure={\"samples\": 1, \"max_seconds\": 0, \"gradient\": \"none\"}'");
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", sweep, sweep);
    *trial = 0;
    for (int tries = 0; *trial == 0 && tries < 500; tries++) {
        FILE *file = fopen(path, "r");
        if (file && fscanf(file, "%d", trial) != 1)
            *trial = 0;
        if (file)
            fclose(file);
        pause_ms(10);
    }
    assert_true(*trial > 0);
    pause_ms(200); // until it runs
    assert_int_not_equal(process_state(*trial), 0);
    return sweep;
}

static void trial_dies_with_its_sweep(void **state)
{
    struct scratch *scratch = *state;
    pid_t trial, sweep = start_hanging(scratch, &trial);
    kill(sweep, SIGKILL);
    finish(sweep);
    for (int tries = 0; process_state(trial) != 0 && process_state(trial) != 'Z'; tries++) {
        assert_true(tries < 500);
        pause_ms(10);
    }
}

static const char *field(const json_t *record, const char *key)
{
    return json_string_value(json_object_get(record, key));
}

static void every_end_of_a_trial_is_a_record(void **state)
{
    struct scratch *scratch = *state;
    static const struct {
        const char *status, *reason;
    } expected[] = {{"failed", "method null failed"},
                    {"timeout", "did not end within max_seconds, 1"},
                    {"oom", "limit"},
                    {"crash", "SIGABRT"},
                    {"ok", ""}};
    spec_write(scratch, behaviour_axes);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 1); // a crash is no good result
    struct result_file file;
    struct status status = {0};
    assert_true(result_file_read(&file, scratch_path(scratch, "r.jsonl").text, &status));
    json_t *objects = records(scratch, "r.jsonl");
    assert_int_equal(file.count, 5);
    for (size_t i = 0; i < 5; i++) {
        const json_t *record = json_array_get(objects, i);
        assert_string_equal(field(record, "status"), expected[i].status);
        assert_non_null(strstr(field(record, "reason"), expected[i].reason));
        bool ok = strcmp(expected[i].status, "ok") == 0;
        assert_int_equal(json_array_size(json_object_get(record, "samples_ms")), ok ? 1 : 0);
        assert_true(json_is_null(json_object_get(record, "loss")) == !ok);
        assert_true(json_is_null(json_object_get(record, "median_ms")) == !ok);
        assert_string_equal(field(record, "experiment"), "t");
        assert_true(json_is_string(json_object_get(json_object_get(record, "provenance"), "cpu")));
    }
    json_decref(objects);
    result_file_close(&file);
    assert_complete(scratch, 5);

    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"),
                     1); // all are done, and no better than they were
    assert_says(scratch, "err", "nothing left to do");
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl --retry"), 1);
    assert_says(scratch, "err", "4 of 5 trials are left to do");
    assert_int_equal(line_count(scratch, "r.jsonl"), 9);
}

static void trial_killed_by_someone_else_is_a_crash(void **state)
{
    struct scratch *scratch = *state;
    pid_t trial, sweep = start_hanging(scratch, &trial);
    kill(trial, SIGKILL);
    assert_int_equal(finish(sweep), 1);
    struct result_file file;
    struct status status = {0};
    assert_true(result_file_read(&file, scratch_path(scratch, "r.jsonl").text, &status));
    json_t *objects = records(scratch, "r.jsonl");
    const json_t *record = json_array_get(objects, 0);
    assert_string_equal(field(record, "status"), "crash");
    assert_non_null(strstr(field(record, "reason"), "SIGKILL (Killed), sent by another process"));
    json_decref(objects);
    result_file_close(&file);
}

static void samples_end_when_the_time_is_over(void **state)
{
    struct scratch *scratch = *state;
    spec_write(scratch, " \"axes\": {\"context\": [8], \"method\": [{\"name\": \"null\", \"seconds\": 0.3}]}}\n");
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl --axis "
                                  "'measure={\"samples\": 100, \"max_seconds\": 1.5, \"gradient\": \"none\"}'"),
                     0);
    struct result_file file;
    struct status status = {0};
    assert_true(result_file_read(&file, scratch_path(scratch, "r.jsonl").text, &status));
    json_t *objects = records(scratch, "r.jsonl");
    const json_t *record = json_array_get(objects, 0), *samples = json_object_get(record, "samples_ms");
    assert_string_equal(field(record, "status"), "ok");
    assert_in_range(json_array_size(samples), 1, 4);
    for (size_t i = 0; i < json_array_size(samples); i++)
        assert_true(json_number_value(json_array_get(samples, i)) >= 300);
    json_decref(objects);
    result_file_close(&file);
}

static void memory_limit_is_a_result(void **state)
{
    struct scratch *scratch = *state;
    spec_write(scratch, " \"axes\": {\"context\": [512], \"method\": [\"full\"]}}\n");
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl --memory-limit 64KiB"), 1); // no trial is ok
    struct result_file file;
    struct status status = {0};
    assert_true(result_file_read(&file, scratch_path(scratch, "r.jsonl").text, &status));
    json_t *objects = records(scratch, "r.jsonl");
    const json_t *record = json_array_get(objects, 0);
    assert_string_equal(field(record, "status"), "oom");
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(json_object_get(record, "trial"), "limits"), "memory")),
        65536);
    assert_in_range(json_integer_value(json_object_get(record, "peak_bytes")), 1, 65536);
    assert_true(json_is_null(json_object_get(record, "loss")));
    json_decref(objects);
    result_file_close(&file);
    // The same trial without the limit is another trial, and fits.
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 0);
    assert_true(result_file_read(&file, scratch_path(scratch, "r.jsonl").text, &status));
    objects = records(scratch, "r.jsonl");
    assert_int_equal(file.count, 2);
    assert_string_equal(field(json_array_get(objects, 1), "status"), "ok");
    json_decref(objects);
    result_file_close(&file);
}

static void wrong_use_is_exit_2(void **state)
{
    struct scratch *scratch = *state;
    spec_write(scratch, " \"axes\": {\"context\": [8],\n \"method\": [{\"name\": \"secco\"}]}}\n");
    assert_refused(scratch, "$L run spec.json --out r.jsonl");
    assert_refused(scratch, "$L run missing.json");
    static const char *const commands[] = {"$L",
                                           "$L rum",
                                           "$L run",
                                           "$L run --no-such-flag spec.json",
                                           "$L verify --dtype f61",
                                           "$L verify --device abacus",
                                           "$L list spoons",
                                           "$L init --model tiny",
                                           "$L init --model tinny --out x",
                                           "$L grad --model tiny --out g --method seco --chunk zero --context 8",
                                           "$L grad --model tiny --out g --method full --tokens missing",
                                           "$L grad --model tiny --out g --method forward --context 8",
                                           "echo '{}' | $L trial"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        int code = run(scratch, commands[i]);
        if (code != 2)
            fail_msg("%s: exit code %d", commands[i], code);
        assert_int_equal(line_count(scratch, "out"), 0); // stdout is for data
        assert_in_range(line_count(scratch, "err"), 1, 30);
    }
    struct stat nothing;
    assert_int_not_equal(stat(scratch_path(scratch, "r.jsonl").text, &nothing), 0);
}

// How many of the lines [first, end) have the id of line `of`.
static size_t same_id(const json_t *objects, size_t of, size_t first, size_t end)
{
    size_t count = 0;
    for (size_t i = first; i < end; i++)
        count += strcmp(field(json_array_get(objects, i), "id"), field(json_array_get(objects, of), "id")) == 0;
    return count;
}

// The first round has the spec's order, each later one its own.
static void rounds_have_orders_of_their_own(void **state)
{
    struct scratch *scratch = *state;
    enum { EACH = 5, ROUNDS = 3 };
    spec_write(scratch, " \"device\": \"plan-cpu\", \"axes\": {\"context\": [8, 9, 10, 11, 12], \"method\": "
                        "[\"full\"]}}\n");
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl --rounds 3"), 0);
    json_t *objects = records(scratch, "r.jsonl");
    size_t places[ROUNDS] = {0}; // at which a round has the trial of the one before it
    for (size_t i = 0; i < EACH; i++) {
        json_t *trial = json_object_get(json_array_get(objects, i), "trial");
        assert_int_equal(json_integer_value(json_object_get(trial, "context")), 8 + i);
        for (size_t round = 1; round < ROUNDS; round++) {
            size_t at = round * EACH + i;
            assert_int_equal(same_id(objects, i, round * EACH, (round + 1) * EACH), 1);
            places[round] += same_id(objects, at, at - EACH, at - EACH + 1);
        }
    }
    assert_true(places[1] < EACH && places[2] < EACH);
    json_decref(objects);
}

static void rounds_go_through_all_trials_and_resume(void **state)
{
    struct scratch *scratch = *state;
    spec_write(scratch,
               " \"axes\": {\"context\": [24], \"method\": [\"full\", {\"name\": \"seco\", \"chunk\": 7}]}}\n");
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl --rounds 3"), 0);
    assert_says(scratch, "err", "6 of 6 trials done");
    // The lost records of the second round come first, then the third.
    assert_int_equal(run(scratch, "head -n 3 r.jsonl > cut && mv cut r.jsonl"), 0);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl --rounds 3"), 0);
    assert_says(scratch, "err", "3 of 6 trials in 3 rounds are left to do");
    struct result_file file;
    struct status status = {0};
    assert_true(result_file_read(&file, scratch_path(scratch, "r.jsonl").text, &status));
    json_t *objects = records(scratch, "r.jsonl");
    assert_int_equal(file.count, 6);
    for (size_t round = 0; round < 3; round++) // every trial once
        assert_int_equal(same_id(objects, 0, 2 * round, 2 * round + 2), 1);
    for (size_t i = 0; i < 6; i++)
        assert_true(file.records[i].round == (double)(i / 2 + 1));
    assert_int_equal(same_id(objects, 0, 0, 6), 3);
    json_decref(objects);
    result_file_close(&file);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl --rounds 3"), 0);
    assert_says(scratch, "err", "nothing left to do: r.jsonl has all 6 trials in 3 rounds");
    assert_says(scratch, "out", "2 of 2 rows have the samples of several rounds: ");
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 0); // one round is among them
    assert_int_equal(line_count(scratch, "r.jsonl"), 6);
    static const char *const bad[] = {"0", "-1", "2x", "''", "1001", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char command[80];
        snprintf(command, sizeof command, "$L run spec.json --out r.jsonl --rounds %s", bad[i]);
        assert_int_equal(run(scratch, command), 2);
        assert_says(scratch, "err", "--rounds is a whole number from 1 to 1000");
    }
}

static void another_build_is_measured_in_turn(void **state)
{
    struct scratch *scratch = *state;
    spec_write(scratch,
               " \"axes\": {\"context\": [24], \"method\": [\"full\", {\"name\": \"seco\", \"chunk\": 7}]}}\n");
    // The other build is this one, behind a script that leaves a trace: how many trials this one had done.
    assert_int_equal(run(scratch, "printf '#!/bin/sh\\ntest \"$1\" = trial && wc -l < r.jsonl >> trace; exec %s "
                                  "\"$@\"\\n' $L > other && chmod +x other"),
                     0);
    assert_int_equal(
        run(scratch, "$L run spec.json --out r.jsonl --against ./other --against-out o.jsonl --rounds 2"), 0);
    assert_says(scratch, "err", "8 of 8 trials done: 8 ok; results in r.jsonl and o.jsonl");
    assert_says(scratch, "err", "seco chunk=7, context 24, custom f32 cpu  (./other)");
    assert_int_equal(line_count(scratch, "r.jsonl"), 4);
    assert_int_equal(line_count(scratch, "o.jsonl"), 4);
    // The builds take turns at being the first: a drift of the machine is no difference between them.
    char *trace = text_of(scratch, "trace");
    assert_string_equal(trace, "1\n1\n2\n4\n");
    free(trace);
    assert_int_equal(run(scratch, "$L compare --deterministic r.jsonl o.jsonl"), 0);
    // Only records missing from one of the two files are measured.
    assert_int_equal(run(scratch, "head -n 3 o.jsonl > cut && mv cut o.jsonl"), 0);
    assert_int_equal(
        run(scratch, "$L run spec.json --out r.jsonl --against ./other --against-out o.jsonl --rounds 2"), 0);
    assert_says(scratch, "err", "1 of 8 trials in 2 rounds are left to do");
    assert_int_equal(line_count(scratch, "r.jsonl"), 4);
    assert_int_equal(line_count(scratch, "trace"), 5);

    assert_refused(scratch, "$L run spec.json --out r.jsonl --against-out o.jsonl");
    assert_refused(scratch, "$L run spec.json --out r.jsonl --compare");
    assert_refused(scratch, "$L run spec.json --out r.jsonl --against ./none --against-out o.jsonl");
    assert_refused(scratch, "$L run spec.json --out r.jsonl --against . --against-out o.jsonl");
    assert_refused(scratch, "$L run spec.json --out r.jsonl --against /bin/true --against-out o.jsonl");
    assert_refused(scratch, "$L run spec.json --out r.jsonl --against ./o.jsonl --against-out o.jsonl");
    assert_refused(scratch, "$L run spec.json --out r.jsonl --against ./other --against-out r.jsonl");
}

// The other build's records say that a step asked for one operation.
static void two_builds_are_compared(void **state)
{
    struct scratch *scratch = *state;
    spec_write(scratch, " \"axes\": {\"context\": [24], \"method\": [\"full\"]}}\n");
    assert_int_equal(run(scratch,
                         "printf '#!/bin/sh\\n%s \"$@\" | sed \"s/launches...[0-9]*/launches\\\":1/\"' $L > "
                         "other && chmod +x other"),
                     0);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl --against ./other --compare"), 1);
    assert_says(scratch, "out", "worse ");
    assert_says(scratch, "out", "launches 1 -> ");
    assert_says(scratch, "out", "verdict: worse");
    assert_int_equal(line_count(scratch, "r-against.jsonl"), 1);
    // The other way round, and as the command that is for it.
    assert_int_equal(run(scratch, "mv r-against.jsonl a.jsonl; $L run spec.json --out a.jsonl --against ./other "
                                  "--against-out r.jsonl --compare > said; code=$?; $L compare r.jsonl a.jsonl > "
                                  "compared; test $? = $code && tail -n $(wc -l < compared) said | cmp - compared"),
                     0);
}

static void one_trial_is_run_again_by_its_command(void **state)
{
    struct scratch *scratch = *state;
    spec_write(scratch,
               " \"axes\": {\"context\": [24], \"method\": [\"full\", {\"name\": \"seco\", \"chunk\": 7}]}}\n");
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl --axis context=19 --axis 'lora={\"rank\": 2}' "
                                  "--axis method=seco --memory-limit 1GiB"),
                     0);
    struct result_file file;
    struct status status = {0};
    assert_true(result_file_read(&file, scratch_path(scratch, "r.jsonl").text, &status));
    json_t *objects = records(scratch, "r.jsonl");
    assert_int_equal(file.count, 1);
    const json_t *record = json_array_get(objects, 0);
    const char *command = field(record, "command");
    assert_memory_equal(command, "longbp run ", 11);
    char *rerun;
    assert_true(asprintf(&rerun, "$L%s", command + strlen("longbp")) > 0);
    assert_int_equal(run(scratch, rerun), 0);
    char *line = text_of(scratch, "out");
    json_t *again = json_loads(line, 0, NULL);
    assert_non_null(again);
    static const char *const same[] = {"id",          "experiment", "trial",           "loss", "command", "flops",
                                       "bytes_moved", "peak_bytes", "peak_by_category"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (!json_equal(json_object_get(record, same[i]), json_object_get(again, same[i])))
            fail_msg("%s differs", same[i]);
    assert_int_equal(line_count(scratch, "r.jsonl"), 1);
    assert_int_equal(run(scratch, "$L run spec.json --trial 00000000000000000000000000000000"), 2);
    json_decref(again);
    free(line);
    free(rerun);
    json_decref(objects);
    result_file_close(&file);
}

// For ps and top: not "exe", though it starts itself anew with its threads' settings.
static void a_process_has_the_programs_name(void **state)
{
    struct scratch *scratch = *state;
    assert_int_equal(run(scratch, "mkfifo f && unset GOMP_SPINCOUNT OMP_WAIT_POLICY && { $L report f & exec 3>f; "
                                  "cat /proc/$!/comm; kill $!; }"),
                     0);
    assert_says(scratch, "out", "longbp\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sweep_killed_again_and_again_resumes),
        TEST(interrupt_stops_and_says_how_to_resume),
        TEST(trial_dies_with_its_sweep),
        TEST(every_end_of_a_trial_is_a_record),
        TEST(trial_killed_by_someone_else_is_a_crash),
        TEST(samples_end_when_the_time_is_over),
        TEST(memory_limit_is_a_result),
        TEST(wrong_use_is_exit_2),
        TEST(rounds_have_orders_of_their_own),
        TEST(rounds_go_through_all_trials_and_resume),
        TEST(another_build_is_measured_in_turn),
        TEST(two_builds_are_compared),
        TEST(one_trial_is_run_again_by_its_command),
        TEST(a_process_has_the_programs_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
