// Limits of the process: where one of them stops the program, it says so and leaves what it had written whole.
#define _GNU_SOURCE // nftw, mkdtemp, asprintf
#include "tests/null_sweep.h"

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

static void an_empty_name_is_no_folder(void **state)
{
    const struct scratch *scratch = *state;
    spec_write(scratch, fast_axes);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl && $L plot r.jsonl --out ''"), 2);
    assert_says(scratch, "err", "--out: expected a folder");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_small_address_space_is_told),
        TEST(a_file_may_be_as_long_as_it_may),
        TEST(an_empty_name_is_no_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
