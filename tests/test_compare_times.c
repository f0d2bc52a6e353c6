// Tests of `longbp compare` on times: rounds, incomparable times, and processor times. The rule itself:
// tests/test_time_change.c; a trial's time in a round: tests/test_round_times.c.
#define _GNU_SOURCE // asprintf, nftw, mkdtemp
#include "tests/compared.h"

// So many rounds of one sketch.
static void write_rounds(const struct scratch *scratch, const char *name, struct sketch sketch, size_t rounds)
{
    struct sketch records[8];
    for (size_t i = 0; i < rounds; i++)
        records[i] = sketch;
    write_records(scratch, name, records, rounds);
}

static void times(void **state)
{
    static const struct {
        double ms;
        const char *flags, *verdict;
    } cases[] = {{11.5, "", "worse"},
                 {10.4, "", "same"},
                 {9, "", "better"},
                 {10.6, "--threshold 5%", "worse"},
                 {11.5, "--threshold 0.5", "same"},
                 {11.5, "--deterministic", "same"}};
    write_rounds(*state, "base", (struct sketch){.trial = 0}, 3);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char arguments[64];
        bool shown = strcmp(cases[i].verdict, "same") != 0;
        write_rounds(*state, "new", (struct sketch){.ms = cases[i].ms}, 3);
        snprintf(arguments, sizeof arguments, "%s base new", cases[i].flags);
        expect_judged(*state, arguments, cases[i].verdict, "time", shown ? NULL : "");
    }
    expect(*state, "--deterministic base new", 0, "times: left out");
    expect(*state, "base new", 1,
           "worse       00000000  full, context 512, f32 cpu: time 10.01 ms -> 11.51 ms, x1.150 [");
    expect(*state, "base new", 1, "times: worse (1 of 1 trials judged, 3 rounds, threshold 10 %)\n");
    static const char *const bad[] = {"0", "-5%", "nan", "101%", "5%%", "x", "''"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        char arguments[64];
        snprintf(arguments, sizeof arguments, "--threshold %s base new", bad[i]);
        expect(*state, arguments, 2, "--threshold: expected a share above 0 and up to 100%, such as 10%, found");
    }
}

static void one_round_is_undecided(void **state)
{
    BASE(*state, {.trial = 0});
    NEW(*state, {.ms = 20});
    expect_judged(*state, "base new", "undecided", "time", NULL);
    json_decref(judged(*state, "base base", "same")); // the same measurements
    expect(*state, "base new", 3,
           "verdict: undecided: times: 3 rounds of each build would suffice, there is 1 (`longbp run SPEC --rounds "
           "3 --against OTHER-BUILD`)\n");
    NEW(*state, {.samples = -1});
    expect(*state, "base new", 3,
           "undecided   00000000  full, context 512, f32 cpu: time one of the two files alone has");
    expect(*state, "base new", 3, "verdict: undecided: times (of 1 of 1 trials none can be judged)\n");
    BASE(*state, {.samples = -1});
    expect(*state, "base new", 0, "times: not judged (0 of 0 trials judged");
}

static void times_of_two_machines_are_not_compared(void **state)
{
    static const struct {
        struct sketch base, new;
        const char *verdict;
    } cases[] = {
        {{.trial = 0}, {.cpu = "Another CPU"}, "undecided"},
        {{.trial = 0}, {.card = "A card"}, "undecided"},
        {{.trial = 0}, {.threads = 4}, "undecided"},
        // Several kinds of one name.
        {{.machine = ", 'blas': 'OpenBLAS 1, core Zen'"},
         {.machine = ", 'blas': 'OpenBLAS 1, core Zen4'"},
         "undecided"},
        {{.machine = ", 'blas': 'OpenBLAS 1, core Zen'"}, {.machine = ", 'blas': 'OpenBLAS 2, core Zen'"}, "same"},
        {{.card = "A card, driver 1"}, {.card = "A card, driver 2"}, "same"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        bool same = strcmp(cases[i].verdict, "same") == 0;
        write_rounds(*state, "base", cases[i].base, 2);
        write_rounds(*state, "new", cases[i].new, 2);
        expect_judged(*state, "base new", cases[i].verdict, "time", same ? "" : NULL);
        expect(*state, "base new", same ? 0 : 3,
               same ? "verdict: same" : "time measured on another processor or card, ");
        expect_judged(*state, "--deterministic base new", "same", "time", "");
    }
}

// Threads that spin at barriers take other times than threads that sleep there.
static void times_of_other_waits_are_not_compared(void **state)
{
#define SPINS(count) .machine = ", 'spin_count': " #count
    BASE(*state, {SPINS(5000)}, {SPINS(5000)});
    NEW(*state, {.ms = 60, SPINS(0)}, {.ms = 60, SPINS(0)});
    expect(*state, "base new", 3, "time threads waited in another way at barriers (provenance.spin_count)\n");
    NEW(*state, {.ms = 60, SPINS(null)}, {.ms = 60, SPINS(null)});
    expect_judged(*state, "base new", "worse", "time", NULL);
    // The last round met an idle machine: what most rounds had counts, of both files.
    BASE(*state, {SPINS(0)}, {SPINS(0)}, {.ms = 2, SPINS(5000)});
    NEW(*state, {.ms = 13, SPINS(0)}, {.ms = 13, SPINS(0)}, {.ms = 2, SPINS(5000)});
    expect_judged(*state, "base new", "worse", "time", NULL);
    expect(*state, "--format json base new", 1, "'left_out': 2");
    expect(*state, "base new", 1, "2 timed records have no round in the other file to be held against\n");
}

// Beside other programs: 10 ms of work took any time. Which of several threads ran, the machine's load says; of one
// its own times do.
#define CPU(ms)        ", 'cpu_ms': [" #ms ", " #ms ".01, " #ms ".02, " #ms ".03, " #ms ".04]"
#define ALONE          ", 'load': {'before': 0, 'cores': 2, 'other_cores': 0.05, 'stolen_cores': 0}"
#define BESIDE(others) ", 'load': {'before': 9, 'cores': 2, 'other_cores': " #others ", 'stolen_cores': 0}"
#define AFTER(load)    ", 'load': {'before': " #load ", 'cores': 2, 'other_cores': null, 'stolen_cores': null}"
static void disturbed_samples_count_by_processor_time(void **state)
{
    static const struct {
        int threads;
        const char *spins, *base, *new;
        double ms; // of NEW, by the clock
        const char *verdict;
    } cases[] = {
        // Several threads: slower by the clock alone, they waited for each other or for the others.
        {2, "0", CPU(10) BESIDE(1), CPU(10) BESIDE(1), 15, "undecided"},
        {2, "0", CPU(10) BESIDE(1), CPU(10) BESIDE(1), 10, "same"},
        {2, "0", CPU(10) BESIDE(1), CPU(16) BESIDE(1), 17, "worse"},
        {2, "0", CPU(16) BESIDE(1), CPU(10) BESIDE(1), 10, "better"},
        {2, "0", CPU(10) ALONE, CPU(10) BESIDE(1), 15, "undecided"},
        // Too short to tell who was there: as if somebody was, where the load before says so.
        {2, "0", CPU(10) AFTER(9), CPU(10) AFTER(9), 15, "undecided"},
        {2, "0", CPU(10) AFTER(1), CPU(10) AFTER(1), 15, "worse"},
        // Without other programs, with threads that spin, or where it is not known: the time itself.
        {2, "0", CPU(10) ALONE, CPU(10) ALONE, 15, "worse"},
        {2, "5000", CPU(10) BESIDE(1), CPU(10) BESIDE(1), 15, "worse"},
        {2, "null", CPU(10) BESIDE(1), CPU(10) BESIDE(1), 15, "worse"},
        {2, "0", BESIDE(1), CPU(10) BESIDE(1), 15, "worse"},
        // One thread, in 10 of 10 and of 15 ms: who was there is not known. Nobody was: it waited, for a disk.
        {1, "5000", CPU(10), CPU(10), 15, "same"},
        {1, "5000", CPU(10), CPU(15), 15, "worse"},
        {1, "5000", CPU(10) ALONE, CPU(10) ALONE, 15, "worse"},
        {1, "5000", CPU(10) BESIDE(2), CPU(10) BESIDE(2), 15, "same"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char machine[40];
        const char *verdict = cases[i].verdict;
        snprintf(machine, sizeof machine, ", 'spin_count': %s", cases[i].spins);
        struct sketch base = {.threads = cases[i].threads, .machine = machine, .more = cases[i].base}, new = base;
        new.ms = cases[i].ms;
        new.more = cases[i].new;
        write_rounds(*state, "base", base, 3);
        write_rounds(*state, "new", new, 3);
        expect_judged(*state, "base new", verdict, "time", strcmp(verdict, "same") == 0 ? "" : NULL);
        if (strcmp(verdict, "undecided") == 0)
            expect(*state, "base new", 3, "slower in wall time, not in processor time");
    }
}

// Beside other programs the processors' speed went up and down from round to round, for both builds: a tenth is
// seen all the same.
static void rounds_are_held_against_each_other(void **state)
{
#define ROUND(time)                                                                                                \
    {.ms = (time), .threads = 1, .more = CPU(time) BESIDE(2)},                                                     \
        {.trial = 1, .ms = (time), .threads = 1, .more = CPU(time) BESIDE(2)},                                     \
        {.trial = 2, .ms = (time), .threads = 1, .more = CPU(time) BESIDE(2)}
    BASE(*state, ROUND(100), ROUND(160), ROUND(130));
    NEW(*state, ROUND(118), ROUND(189), ROUND(153));
    expect_judged(*state, "base new", "worse", "time", NULL);
    expect(*state, "base new", 1, "time 100 ms -> 118 ms, of the processors, x1.18");
    expect(*state, "base new", 1, "3 trials are judged by processor time, for other programs disturbed them");
    expect(*state, "--format json base new", 1, "'rounds': 3");
    NEW(*state, ROUND(104), ROUND(166), ROUND(135));
    expect_judged(*state, "base new", "same", "time", "");
    // A round that one file alone has is held against none.
    NEW(*state, ROUND(160), ROUND(130));
    expect_judged(*state, "base new", "same", "time", "");
    expect(*state, "base new", 0, "3 timed records have no round in the other file to be held against\n");
}

// BASE's last round has none in NEW: by their numbers the first two belong together, and the machine's drift is in
// neither.
static void rounds_are_paired_by_their_numbers(void **state)
{
#define NUMBERED(number, time) {.ms = (time), .more = ", 'round': " #number}
    BASE(*state, NUMBERED(1, 10), NUMBERED(2, 14), NUMBERED(3, 20));
    NEW(*state, NUMBERED(1, 10.1), NUMBERED(2, 14.1));
    expect_judged(*state, "base new", "same", "time", "");
    expect(*state, "base new", 0,
           "1 timed record has no round in the other file to be held against: round 3 of BASE\n");
    expect(*state, "--format json base new", 0, "'left_out_rounds': {'base': [3], 'new': []}");
    NEW(*state, NUMBERED(2, 14.1), NUMBERED(3, 20.1), NUMBERED(4, 30), NUMBERED(64, 30), NUMBERED(70, 30));
    expect(*state, "base new", 0, ": round 1 of BASE, rounds 4, 64 and later of NEW\n");
    NEW(*state, NUMBERED(0, 10));
    expect(*state, "base new", 2, "new:1: 'round' is not a whole number from 1 to 1000");
}

// A fifth of one method alone: its trials are slower, and so are they together; the others are the same.
static void a_slower_method_is_told_as_a_group(void **state)
{
    static const unsigned trials[] = {0, 2, 4, 6, 8, 1, 3, 5};
    struct sketch sides[2][24];
    for (unsigned i = 0; i < 24; i++) {
        sides[0][i] = (struct sketch){.trial = trials[i % 8], .step = 1e-4};
        sides[1][i] = (struct sketch){.trial = trials[i % 8], .step = 1e-4, .ms = i % 8 < 5 ? 10 : 12};
    }
    write_records(*state, "base", sides[0], 24);
    write_records(*state, "new", sides[1], 24);
    expect(*state, "base new", 1, "worse       method seco: time x1.200 [");
    expect(*state, "base new", 1, "] over 3 trials\n");
    expect(*state, "base new", 1, "same        all trials: time x1.000");
    json_t *comparison = judged(*state, "base new", "worse");
    for (unsigned i = 0; i < 8; i++)
        assert_string_equal(verdict_on(comparison, trials[i], "time"), i < 5 ? "" : "worse");
    json_decref(comparison);
}

// A copy of a line is no other round.
static void repeated_lines_count_once(void **state)
{
    struct scratch *scratch = *state;
    static const char *const names[] = {"base", "new"};
    for (size_t i = 0; i < COUNT(names); i++) {
        FILE *file = fopen(scratch_path(scratch, names[i]).text, "w");
        assert_non_null(file);
        for (size_t copies = 0; copies < 2; copies++)
            write_record(file, (struct sketch){.ms = i ? 12 : 10}, 0);
        assert_int_equal(fclose(file), 0);
    }
    expect(scratch, "base new", 3, "1 round, threshold");
    expect(scratch, "base new", 3,
           "longbp: base: warning: 1 record is left out, for the same line, byte for byte, was read before");
    expect(scratch, "base new", 3, "longbp: new: warning: 1 record is left out");
    expect(scratch, "base base", 0, "1 trials in both"); // of two files each has its own
    BASE(scratch, {.dtype = "f32"}, {.dtype = "bf16"}, {.dtype = "f32"});
    expect_silent(scratch, "--deterministic --by dtype base", 0, "left out,");
    BASE(scratch, {.dtype = "f32"});
    expect_silent(scratch, "--deterministic base base", 0, "left out,");
}

// Draws whose times differ fourfold: only the same draw is held against a draw.
static void draws_are_held_against_the_same_draws(void **state)
{
#define DRAWN(time, columns)                                                                                       \
    (struct sketch){                                                                                               \
        .ms = (time), .samples = 8, .step = 0.5, .more = ", 'drawn_chunks': [0], 'sample_chunks': [" columns "]"}
#define DRAWS "1, 1, 2, 0, 2, 3, 3"
    write_rounds(*state, "base", DRAWN(10, DRAWS ", 4"), 2);
    write_rounds(*state, "new", DRAWN(10, DRAWS ", 4"), 2);
    expect_judged(*state, "base new", "same", "time", "");
    write_rounds(*state, "new", DRAWN(11.5, DRAWS ", 4"), 2);
    expect_judged(*state, "base new", "worse", "time", NULL);
    write_rounds(*state, "new", DRAWN(10, DRAWS ", 2"), 2);
    expect_judged(*state, "base new", "undecided", "time", NULL);
    expect(*state, "base new", 3, "time the samples have other draws of chunks\n");
    write_rounds(*state, "new", (struct sketch){.more = ", 'drawn_chunks': [0]"}, 2);
    expect_judged(*state, "base new", "undecided", "time", NULL);
    write_rounds(*state, "base", DRAWN(10, "0, 0, 0, 0, 0, 0, 0, 0"), 2);
    expect(*state, "base base", 3, "time no draw has a chunk\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(times),
        TEST(one_round_is_undecided),
        TEST(times_of_two_machines_are_not_compared),
        TEST(times_of_other_waits_are_not_compared),
        TEST(disturbed_samples_count_by_processor_time),
        TEST(rounds_are_held_against_each_other),
        TEST(rounds_are_paired_by_their_numbers),
        TEST(a_slower_method_is_told_as_a_group),
        TEST(repeated_lines_count_once),
        TEST(draws_are_held_against_the_same_draws),
    };
    return cmocka_run_group_tests_name("compare_times", tests, NULL, NULL);
}
