// Limits of the process: the program names the limit that stops it, and leaves complete files.
#define _GNU_SOURCE // nftw, mkdtemp, asprintf
#include "tests/null_sweep.h"

#ifndef __SANITIZE_ADDRESS__
static void expect_told_or_done(const struct scratch *scratch, size_t kib, const char *within)
{
    char command[300];
    snprintf(command, sizeof command,
             "ulimit -v %zu; OMP_NUM_THREADS=2 timeout 20 %s $L grad --model tiny --context 64 --out g", kib,
             within);
    int code = run(scratch, command);
    char *said = text_of(scratch, "err");
    bool told = strstr(said, "out of address space") || strstr(said, "out of host memory") ||
                strstr(said, "and the limit is 0 B");
    if (code == 0 ? told : (code != 1 && code != 2) || !told)
        fail_msg("%s: exit code %d: %s", command, code, said);
    free(said);
}
#endif

// OpenBLAS would look for room for ever. AddressSanitizer takes terabytes of address space itself.
static void a_small_address_space_is_told(void **state)
{
#ifndef __SANITIZE_ADDRESS__
    const struct scratch *scratch = *state;
    static const char *const commands[] = {"--version", "help", "run spec.json --out r.jsonl"};
    spec_write(scratch, fast_axes);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char command[200];
        snprintf(command, sizeof command, "ulimit -v 150000; timeout 20 $L %s", commands[i]);
        assert_int_equal(run(scratch, command), 2);
        assert_says(scratch, "err", "out of address space");
        assert_int_equal(line_count(scratch, "out"), 0);
    }
    assert_int_equal(run(scratch, "ulimit -v 1500000; OMP_NUM_THREADS=1 $L --version"), 0);
    // Room for the program, but hardly for a step; on one of the processors the BLAS has as many threads.
    for (size_t kib = 300000; kib <= 700000; kib += 50000) {
        expect_told_or_done(scratch, kib, "");
        expect_told_or_done(scratch, kib, "taskset -c $(taskset -cp $$ | sed 's/.*[ ,-]//')");
    }
#else
    (void)state;
#endif
}

// The record that no longer fits is cut off again.
static void a_file_may_be_as_long_as_it_may(void **state)
{
    const struct scratch *scratch = *state;
    spec_write(scratch, fast_axes);
    assert_int_equal(run(scratch, "(ulimit -f 12; exec $L run spec.json --out r.jsonl)"), 2);
    assert_says(scratch, "err", "r.jsonl: cannot write a record: File too large");
    assert_true(line_count(scratch, "r.jsonl") > 0);
    assert_int_equal(run(scratch, "test -z \"$(tail -c 1 r.jsonl)\""), 0);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 0);
    assert_complete(scratch, TRIALS);
}

// A limit that says that nothing is left is no number of bytes.
static void what_chooses_a_method_says_that_nothing_is_left(void **state)
{
#ifndef __SANITIZE_ADDRESS__
    const struct scratch *scratch = *state;
    int code = run(scratch,
                   "ulimit -v 700000; OMP_NUM_THREADS=2 timeout 60 $L grad --model tiny --context 64 --method auto "
                   "--out g");
    if (code != 1 && code != 2)
        fail_msg("exit code %d: %s", code, text_of(scratch, "err"));
    assert_says(scratch, "err", "no method fits: no memory is left on cpu (ulimit -v");
#else
    (void)state;
#endif
}

static void an_empty_name_is_no_folder(void **state)
{
    const struct scratch *scratch = *state;
    spec_write(scratch, fast_axes);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl && $L plot r.jsonl --out ''"), 2);
    assert_says(scratch, "err", "--out: expected a folder");
}

// In a trial's process it would be a crash without a reason.
static void limits_that_steps_cannot_live_with_are_told(void **state)
{
    const struct scratch *scratch = *state;
    static const char *const commands[] = {"run spec.json --out r.jsonl", "verify", "help"};
    static const struct {
        const char *limit, *message;
    } limits[] = {
        {"ulimit -s 64", "the stack is limited to 64 KiB, and steps need 1024; raise the limit"},
        {"ulimit -n 32", "at most 32 files can be open, and 64 may be needed; raise the limit"},
        {"export OMP_NUM_THREADS=0", "OMP_NUM_THREADS=0: a number of threads from 1 on was expected"},
        {"export OMP_NUM_THREADS=", "OMP_NUM_THREADS=: a number of threads from 1 on was expected"},
        {"export OMP_NUM_THREADS=2x", "OMP_NUM_THREADS=2x: a number of threads from 1 on was expected"},
        {"export OMP_NUM_THREADS=100000", "OMP_NUM_THREADS=100000: at most 4096 threads are served"},
        {"export OMP_STACKSIZE=128K", "OMP_STACKSIZE=128K: steps need stacks of 1M to 1G for each thread"},
        {"export GOMP_STACKSIZE=64", "GOMP_STACKSIZE=64: steps need stacks"}};
    spec_write(scratch, fast_axes);
    for (size_t i = 0; i < 3 * sizeof limits / sizeof *limits; i++) {
        char command[200];
        snprintf(command, sizeof command, "%s; timeout 20 $L %s", limits[i / 3].limit, commands[i % 3]);
        assert_int_equal(run(scratch, command), 2);
        char *said = text_of(scratch, "err");
        assert_true(strstr(said, limits[i / 3].message) == said + strlen("longbp: ")); // before any library
        free(said);
        assert_int_equal(run(scratch, "test ! -e r.jsonl"), 0);
    }
    assert_int_equal(run(scratch, "(ulimit -s 1024; OMP_STACKSIZE='2 m' exec $L run spec.json --out r.jsonl)"), 0);
    assert_complete(scratch, TRIALS);
    assert_int_equal(run(scratch, "OMP_NUM_THREADS='1, 1' $L list keys"), 0);
    assert_int_equal(run(scratch, "test ! -s err"), 0);
    assert_int_equal(run(scratch, "OMP_NUM_THREADS=4000 $L list keys"), 0);
    assert_says(scratch, "err", "OMP_NUM_THREADS=4000 ");
}

// The program may be unable to start itself by /proc/self/exe: it is missing, or is valgrind.
static void trials_start_wherever_the_program_does(void **state)
{
    const struct scratch *scratch = *state;
    static const struct {
        const char *probe, *within;
    } cases[] = {
        {"unshare -rm mount -t tmpfs none /proc", "unshare -rm sh -c 'mount -t tmpfs none /proc; exec %s'"},
        {"valgrind -q $L --version", "valgrind -q %s"}, // it lacks instructions of recent processors
        {"strace --version", "strace -f -o trace %s"}};
    spec_write(scratch, fast_axes);
#ifdef __SANITIZE_ADDRESS__
    skip(); // which needs /proc, and room that valgrind has not
#endif
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[400];
        if (run(scratch, cases[i].probe) != 0) {
            printf("left out: %s\n", cases[i].probe);
            fflush(stdout); // processes that are started would write it once more
            continue;
        }
        snprintf(command, sizeof command, cases[i].within, "$L run spec.json --out r.jsonl");
        if (run(scratch, command) != 0)
            fail_msg("%s: %s", command, text_of(scratch, "err"));
        assert_int_equal(run(scratch, "grep -c '\"status\":\"ok\"' r.jsonl && rm r.jsonl"), 0);
        assert_says(scratch, "out", "8");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_small_address_space_is_told),
        TEST(a_file_may_be_as_long_as_it_may),
        TEST(what_chooses_a_method_says_that_nothing_is_left),
        TEST(an_empty_name_is_no_folder),
        TEST(limits_that_steps_cannot_live_with_are_told),
        TEST(trials_start_wherever_the_program_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
