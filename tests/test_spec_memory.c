// Tests of the memory of trials: a trial is small, `run --list` and `run` hold far less than a large sweep's
// trials, and a resumed sweep holds far less than its records.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/spec/spec.h"
#include "tests/program.h"
#include <signal.h>
#include <sys/resource.h>

#define TRIALS          8000
#define BYTES_PER_TRIAL 1024
#define RECORDS         20000
#define BYTES_PER_ID    100

static void write_spec(const struct scratch *scratch, const char *name, size_t trials)
{
    FILE *file = fopen(scratch_path(scratch, name).text, "w");
    assert_non_null(file);
    fprintf(file, "{\"experiment\": \"many\", \"model\": \"tiny\", \"device\": \"plan\",\n"
                  " \"axes\": {\"context\": [64], \"method\": [\"full\"], \"seed\": [1");
    for (size_t seed = 2; seed <= trials; seed++)
        fprintf(file, ",%zu", seed);
    fprintf(file, "]}}\n");
    assert_int_equal(fclose(file), 0);
}

// The most that any process started so far has had.
static size_t peak_bytes(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_CHILDREN, &usage), 0);
    return (size_t)usage.ru_maxrss * 1024;
}

static void a_trial_is_small(void **state)
{
    (void)state;
    // A trial is decoded one at a time; its model's kinds of layers are besides.
    assert_true(sizeof(struct trial) - sizeof(struct config) <= BYTES_PER_TRIAL);
    assert_true(sizeof(struct spec_trial) <= 64);
    assert_true(sizeof(struct step_report) <= 128);
}

// The records of a file, again and again, each under an id of its own.
static void write_records(const struct scratch *scratch, const char *from, const char *to, size_t count)
{
    char *line = text_of(scratch, from), *id = strstr(line, "\"id\":\"");
    FILE *file = fopen(scratch_path(scratch, to).text, "w");
    assert_true(id && file);
    for (size_t i = 0; i < count; i++)
        fprintf(file, "%.*s%032zx%s", (int)(id + 6 - line), line, i * 2654435761, id + 6 + 32);
    assert_int_equal(fclose(file), 0);
    free(line);
}

static void a_sweep_resumes_with_ids_alone(void **state)
{
    const struct scratch *scratch = *state;
#ifdef __SANITIZE_ADDRESS__
    skip(); // what is freed is kept
#endif
    write_spec(scratch, "one.json", 1);
    assert_int_equal(run(scratch, "$L run --out one.jsonl one.json && $L run --out one.jsonl one.json"), 0);
    size_t one = peak_bytes();
    write_records(scratch, "one.jsonl", "long.jsonl", RECORDS);
    assert_int_equal(run(scratch, "$L run --out long.jsonl one.json"), 0);
    assert_int_equal(line_count(scratch, "long.jsonl"), RECORDS + 1);
    printf("one record %zu KiB, %d records %zu KiB\n", one / 1024, RECORDS, peak_bytes() / 1024);
    assert_true(peak_bytes() < one + RECORDS * BYTES_PER_ID);
}

static void many_trials_take_little_memory(void **state)
{
    const struct scratch *scratch = *state;
#ifdef __SANITIZE_ADDRESS__
    skip(); // what is freed is kept
#endif
    write_spec(scratch, "one.json", 1);
    write_spec(scratch, "many.json", TRIALS);
    assert_int_equal(run(scratch, "$L run --list one.json && $L run --out one.jsonl one.json"), 0);
    size_t one = peak_bytes();

    assert_int_equal(run(scratch, "$L run --list many.json"), 0);
    assert_int_equal(line_count(scratch, "out"), TRIALS);
    size_t listed = peak_bytes();
    assert_true(listed < one + TRIALS * BYTES_PER_TRIAL);

    pid_t sweep = start(scratch, "exec $L run --out many.jsonl many.json");
    while (line_count(scratch, "many.jsonl") < 2 && waitpid(sweep, NULL, WNOHANG) == 0)
        pause_ms(10);
    kill(sweep, SIGINT);
    assert_int_equal(finish(sweep), 130);
    assert_true(peak_bytes() < one + TRIALS * BYTES_PER_TRIAL);
    printf("one trial %zu KiB, %d listed %zu KiB, swept %zu KiB\n", one / 1024, TRIALS, listed / 1024,
           peak_bytes() / 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trial_is_small),
        cmocka_unit_test_setup_teardown(a_sweep_resumes_with_ids_alone, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(many_trials_take_little_memory, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
