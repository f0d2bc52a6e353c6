// Tests of `longbp compare` on times: what is slower, what is pooled, and what cannot be compared.
#define _GNU_SOURCE // asprintf, nftw, mkdtemp
#include "tests/compared.h"

static void times(void **state)
{
    BASE(*state, {.trial = 0});
    NEW(*state, {.ms = 11.5});
    expect(*state, "base new", 1,
           "slower      00000000  full, context 512, f32 cpu: time 10.02 ms -> 11.52 ms, x1.15");
    expect(*state, "base new", 1, "verdict: regression");
    expect(*state, "new base", 0, "verdict: better");
    expect(*state, "--threshold 20% base new", 0, "verdict: same");
    expect(*state, "--threshold 0.14 base new", 1, NULL);
    expect(*state, "--deterministic base new", 0, "times: left out");
    NEW(*state, {.ms = 10.6});
    expect(*state, "base new", 0, "verdict: same");
    expect(*state, "--threshold 5% base new", 1, "verdict: regression");
    NEW(*state, {.ms = 20, .samples = 2});
    expect(*state, "base new", 3, "too few samples");
    NEW(*state, {.samples = -1});
    expect(*state, "base new", 3, "only one of the two files has samples");
    expect(*state, "--deterministic base new", 0, "verdict: same");
    BASE(*state, {.samples = -1});
    expect(*state, "base new", 0, "times: not measured");
    static const char *const bad[] = {"0", "-5%", "nan", "101%", "5%%", "x", "''"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        char arguments[64];
        snprintf(arguments, sizeof arguments, "--threshold %s base new", bad[i]);
        expect(*state, arguments, 2, "--threshold: expected a share above 0 and up to 100%, such as 7%, found");
    }
}

static void times_of_two_machines_are_not_compared(void **state)
{
    BASE(*state, {.trial = 0});
    NEW(*state, {.ms = 20, .cpu = "Another CPU"});
    expect(*state, "base new", 3, "measured on another processor");
    NEW(*state, {.ms = 20, .card = "A card"});
    expect(*state, "base new", 3, "measured on another processor or card");
    BASE(*state, {.machine = ", 'blas': 'OpenBLAS 1, core Zen'"}); // several kinds of one name
    NEW(*state, {.ms = 20, .machine = ", 'blas': 'OpenBLAS 1, core Zen4; f32 by oneDNN'"});
    expect(*state, "base new", 3, "measured on another processor");
    NEW(*state, {.machine = ", 'blas': 'OpenBLAS 2, core Zen; f32 by oneDNN'"});
    expect(*state, "base new", 0, "verdict: same");
    BASE(*state, {.card = "A card, driver 1"});
    NEW(*state, {.card = "A card, driver 2"});
    expect(*state, "base new", 0, "verdict: same");
    BASE(*state, {.trial = 0});
    NEW(*state, {.ms = 20, .cpu = "Another CPU"});
    expect(*state, "--deterministic base new", 0, "verdict: same");
}

// Threads that spin at barriers take other times than threads that sleep there: those of one kind are pooled, and
// held against the same kind.
static void times_of_other_waits_are_not_compared(void **state)
{
#define SPINS(count) .machine = ", 'spin_count': " #count
    static const struct {
        int threads, code;
        const char *part;
    } cases[] = {{2, 3, "threads waited in another way at barriers (provenance.spin_count)"},
                 {1, 1, "verdict: regression"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        BASE(*state, {.threads = cases[i].threads, SPINS(5000)});
        NEW(*state, {.ms = 60, .threads = cases[i].threads, SPINS(0)});
        expect(*state, "base new", cases[i].code, cases[i].part);
    }
    BASE(*state, {SPINS(5000)});
    NEW(*state, {.ms = 60, SPINS(null)});
    expect(*state, "base new", 1, "verdict: regression");
    NEW(*state, {SPINS(0)}, {.ms = 60, SPINS(5000)});
    expect(*state, "--format json base new", 1, "'new_samples': 5");
    expect(*state, "base new", 1, "1 record is left out of the times: their threads waited in another way");
    // The last round met an idle machine: what most rounds had counts, of both files.
    BASE(*state, {SPINS(0)}, {SPINS(0)}, {.ms = 2, SPINS(5000)});
    NEW(*state, {.ms = 13, SPINS(0)}, {.ms = 13, SPINS(0)}, {.ms = 2, SPINS(5000)});
    expect(*state, "--format json base new", 1, "'other_waits': 2");
    expect(*state, "--format json base new", 1, "'base_samples': 10");
    expect(*state, "base new", 1, "2 records are left out of the times");
    BASE(*state, {SPINS(0)}, {SPINS(0)}, {SPINS(5000)}, {SPINS(5000)});
    NEW(*state, {.ms = 13, SPINS(0)}, {SPINS(5000)}, {SPINS(5000)});
    expect(*state, "--all --format json base new", 0, "'new_samples': 10");
    NEW(*state, {SPINS(5000)}, {SPINS(5000)});
    expect_silent(*state, "new new", 0, "left out of the times");
}

// Beside other programs: 10 ms of work took any time. Of two threads the machine's load says so, of one its own
// times.
#define CPU(ms)        ", 'cpu_ms': [" #ms ", " #ms ".01, " #ms ".02, " #ms ".03, " #ms ".04]"
#define ALONE          ", 'load': {'before': 0, 'cores': 2, 'other_cores': 0.05, 'stolen_cores': 0}"
#define BESIDE(others) ", 'load': {'before': 9, 'cores': 2, 'other_cores': " #others ", 'stolen_cores': 0}"
#define AFTER(load)    ", 'load': {'before': " #load ", 'cores': 2, 'other_cores': null, 'stolen_cores': null}"
static void disturbed_samples_count_by_processor_time(void **state)
{
    static const struct {
        int threads;
        const char *spins, *base, *new;
        int code;
        const char *part;
        double ms, step; // of NEW, by the clock
    } cases[] = {
        // Several threads: slower by the clock alone, they waited for each other or for the others.
        {2, "0", CPU(10) BESIDE(1), CPU(10) BESIDE(1), 3,
         "by the clock a trial looks slower, but this is not proven", 15, 0.001},
        {2, "0", CPU(10) BESIDE(1), CPU(10) BESIDE(1), 0, "verdict: same", 10, 0.001},
        {2, "0", CPU(10) BESIDE(1), CPU(10) BESIDE(1), 0, "verdict: same", 15, 0.2}, // scattered
        {2, "0", CPU(10) BESIDE(1), CPU(16) BESIDE(1), 1, "time 10.02 ms -> 16.02 ms, of the processors, x1.599",
         17, 0.001},
        // Two processes alone may differ by as much beside others.
        {2, "0", CPU(10) BESIDE(1), CPU(12) BESIDE(1), 3, "in more rounds, both builds in turn", 15, 0.001},
        {2, "0", CPU(10) ALONE, CPU(10) BESIDE(1), 3, "processor time of 1 of them", 15, 0.001},
        // Too short to tell who was there: as if somebody was, where the load before says so.
        {2, "0", CPU(10) AFTER(9), CPU(10) AFTER(9), 3, "by the clock a trial looks slower", 15, 0.001},
        {2, "0", CPU(10) AFTER(1), CPU(10) AFTER(1), 1, "verdict: regression", 15, 0.001},
        // Without other programs, with threads that spin, or where it is not known: the time itself.
        {2, "0", CPU(10) ALONE, CPU(10) ALONE, 1, "verdict: regression", 15, 0.001},
        {2, "5000", CPU(10) BESIDE(1), CPU(10) BESIDE(1), 1, "verdict: regression", 15, 0.001},
        {2, "null", CPU(10) BESIDE(1), CPU(10) BESIDE(1), 1, "verdict: regression", 15, 0.001},
        {2, "0", BESIDE(1), CPU(10) BESIDE(1), 1, "verdict: regression", 15, 0.001},
        // One thread, in 10 of 10 and of 15 ms: who was there is not known. Nobody was: it waited, for a disk.
        {1, "5000", CPU(10), CPU(10), 0, "verdict: same", 15, 0.001},
        {1, "5000", CPU(10), CPU(15), 1, "verdict: regression", 15, 0.001},
        {1, "5000", CPU(10) ALONE, CPU(10) ALONE, 1, "verdict: regression", 15, 0.001},
        {1, "5000", CPU(10) BESIDE(2), CPU(10) BESIDE(2), 0, "verdict: same", 15, 0.001},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char machine[40];
        snprintf(machine, sizeof machine, ", 'spin_count': %s", cases[i].spins);
        BASE(*state, {.threads = cases[i].threads, .machine = machine, .more = cases[i].base});
        NEW(*state, {.ms = cases[i].ms,
                     .step = cases[i].step,
                     .threads = cases[i].threads,
                     .machine = machine,
                     .more = cases[i].new});
        expect(*state, "base new", cases[i].code, cases[i].part);
    }
}

// Nine percent of one method alone are proven where nothing else ran, and not beside other programs; twenty are.
static void what_is_disturbed_proves_less(void **state)
{
    static const struct {
        const char *load, *slower;
        int code;
        const char *part;
    } cases[] = {{ALONE, CPU(109), 1, "slower      method seco"},
                 {BESIDE(1), CPU(109), 0, "verdict: same"},
                 {BESIDE(1), CPU(120), 1, "slower      method seco: time x1.2"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sketch sides[2][8];
        char more[2][400];
        for (unsigned t = 0; t < 8; t++)
            for (size_t side = 0; side < 2; side++) {
                const char *times = side && t % 2 ? cases[i].slower : CPU(100);
                double ms = strtod(strchr(times, '[') + 1, NULL);
                snprintf(more[t % 2 && side], sizeof *more, "%s%s", times, cases[i].load);
                sides[side][t] = (struct sketch){.trial = t,
                                                 .ms = ms,
                                                 .step = 1e-4,
                                                 .machine = ", 'spin_count': 0",
                                                 .more = more[t % 2 && side]};
            }
        write_records(*state, "base", sides[0], 8);
        write_records(*state, "new", sides[1], 8);
        expect(*state, "base new", cases[i].code, cases[i].part);
    }
}

// Beside other programs the processors' speed went up and down from round to round, for both builds: a tenth is
// seen all the same, where both have as many rounds.
static void disturbed_rounds_are_held_against_each_other(void **state)
{
#define ROUND(time) {.ms = (time), .threads = 1, .more = CPU(time) BESIDE(2)}
    BASE(*state, ROUND(100), ROUND(160), ROUND(130));
    NEW(*state, ROUND(112), ROUND(179), ROUND(146));
    expect(*state, "base new", 1, "of the processors, round by round, x1.12");
    expect(*state, "--format json base new", 1, "'rounds': 3");
    expect(*state, "base base", 0, "verdict: same");
    NEW(*state, ROUND(112), ROUND(179));
    expect_silent(*state, "--all base new", 3, "round by round");
    NEW(*state, ROUND(104), ROUND(166), ROUND(135));
    expect(*state, "base new", 0, "verdict: same");
}

// Three and three samples prove nothing, two such runs on either side do.
static void samples_of_several_records_are_pooled(void **state)
{
    BASE(*state, {.samples = 3});
    NEW(*state, {.ms = 12, .samples = 3});
    expect(*state, "base new", 3, "too few samples");
    BASE(*state, {.samples = 3}, {.samples = 3});
    NEW(*state, {.ms = 12, .samples = 3}, {.ms = 12.1, .samples = 3});
    expect(*state, "--format json base new", 1, "'new_samples': 6");
    expect(*state, "--format json base new", 1, "'base_samples': 6");
    BASE(*state, {.samples = 4});
    // Another revision's are not, nor those of a record that is not ok; the last one counts.
    NEW(*state, {.ms = 12, .samples = 3, .revision = "old"}, {.ms = 12.1, .samples = 3});
    expect(*state, "base new", 3, "too few samples");
    NEW(*state, {.status = "timeout"}, {.samples = 3}, {.samples = 3});
    expect(*state, "base new", 0, "verdict: same");
    NEW(*state, {.samples = 5}, {.status = "crash"});
    expect(*state, "base new", 1, "status ok -> crash");
    NEW(*state, {.peak_bytes = 5000}, {.peak_bytes = 1000});
    expect(*state, "--deterministic base new", 0, "verdict: same");
}

// A copy of a line is no other sample: twice the same three tell no more than once.
static void repeated_lines_count_once(void **state)
{
    struct scratch *scratch = *state;
    const struct sketch records[] = {{.samples = 3}, {.ms = 12, .samples = 3}};
    static const char *const names[] = {"base", "new"};
    for (size_t i = 0; i < COUNT(names); i++) {
        FILE *file = fopen(scratch_path(scratch, names[i]).text, "w");
        assert_non_null(file);
        for (size_t copies = 0; copies < 2; copies++)
            write_record(file, records[i], 0);
        assert_int_equal(fclose(file), 0);
    }
    expect(scratch, "base new", 3, "too few samples");
    expect(scratch, "base new", 3,
           "longbp: base: warning: 1 record is left out, for the same line, byte for byte, was read before");
    expect(scratch, "base new", 3, "longbp: new: warning: 1 record is left out");
    expect(scratch, "base base", 3, "1 trials in both"); // of two files each has its own
    BASE(scratch, {.dtype = "f32"}, {.dtype = "bf16"}, {.dtype = "f32"});
    expect_silent(scratch, "--by dtype base", 0, "left out,");
    expect_silent(scratch, "--deterministic base base", 0, "left out,");
}

// Eight draws whose times differ fourfold, one of them of no column; only the same draw is held against a draw.
static void draws_are_held_against_the_same_draws(void **state)
{
#define DRAWS "1, 1, 2, 0, 2, 3, 3"
#define DRAWN(time, count, columns)                                                                                \
    {.ms = (time), .samples = (count), .step = 0.5, .more = ", 'columns': [0], 'sample_columns': [" columns "]"}
    BASE(*state, DRAWN(10, 8, DRAWS ", 4"));
    expect(*state, "base base", 0, "verdict: same");
    expect(*state, "--all base base", 0, "time 27.86 ms -> 27.86 ms, mean of 7 draws, x1.000");
    NEW(*state, DRAWN(11.5, 8, DRAWS ", 4"));
    expect(*state, "base new", 1,
           "slower      00000000  full, context 512, f32 cpu: time 27.86 ms -> 32.04 ms, mean");
    expect(*state, "--format json base new", 1, "'draws': 7");
    expect(*state, "--deterministic base new", 0, "verdict: same");
    NEW(*state, DRAWN(10, 8, DRAWS ", 2"));
    expect(*state, "base new", 3, "the same seeds drew other columns");
    NEW(*state, DRAWN(10, 7, DRAWS)); // cut short
    expect(*state, "base new", 0, "verdict: same");
    NEW(*state, {.samples = 8, .step = 0.5, .more = ", 'columns': [0]"});
    expect(*state, "base new", 3, "the samples of one file walked a draw of columns each");
    expect(*state, "--deterministic base new", 0, "verdict: same");
    BASE(*state, DRAWN(10, 7, DRAWS), DRAWN(10.1, 7, DRAWS), DRAWN(10.2, 7, DRAWS));
    NEW(*state, DRAWN(11.5, 7, DRAWS), DRAWN(11.6, 7, DRAWS), DRAWN(11.7, 7, DRAWS));
    expect(*state, "base new", 1, "mean of 6 draws, x1.1");
    expect(*state, "--format json base new", 1, "'base_samples': 18");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(times),
        TEST(times_of_two_machines_are_not_compared),
        TEST(times_of_other_waits_are_not_compared),
        TEST(disturbed_samples_count_by_processor_time),
        TEST(what_is_disturbed_proves_less),
        TEST(disturbed_rounds_are_held_against_each_other),
        TEST(samples_of_several_records_are_pooled),
        TEST(repeated_lines_count_once),
        TEST(draws_are_held_against_the_same_draws),
    };
    return cmocka_run_group_tests_name("compare_times", tests, NULL, NULL);
}
