// Other load of a machine while samples were timed: the kernel's counts as they are read, their differences, and
// reports of times that mark a disturbed record.
#define _GNU_SOURCE // asprintf
#include "harness/machine/machine_load.h"
#include "harness/record/record.h"
#include "kernels/base/clock.h"
#include "tests/program.h"
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

static void counts_are_read(void **state)
{
    (void)state;
    struct machine_time time = {0};
    // user nice system idle iowait irq softirq steal guest guest_nice
    assert_true(machine_time_read(&time, "cpu  100 20 30 4000 500 6 7 80 90 10\ncpu0 1 2 3\n", 100));
    assert_true(fabs(time.busy_s - 1.63) < 1e-12 && fabs(time.stolen_s - 0.8) < 1e-12);
    assert_false(machine_time_read(&time, "", 100));
    assert_false(machine_time_read(&time, "cpu 1 2 3", 100));
    assert_false(machine_time_read(&time, "intr 1 2 3 4 5 6 7 8", 100));
}

static void others_are_what_is_not_our_own(void **state)
{
    (void)state;
    struct machine_time start = {true, 10, 100, 5, 50, 1, 0.25}, end = {true, 12, 105, 6, 53, 2, 1.5};
    struct record_load load = machine_load_between(&start, &end, 4, 4, 2);
    assert_true(load.before == 0.25 && load.cores == 4);
    assert_true(load.other_cores == 1 && load.stolen_cores == 0.5 && load.waited_cores == 0.5);
    end.busy_s = 102.9; // a tick less than our own
    assert_true(machine_load_between(&start, &end, 4, 4, 2).other_cores == 0);
    end.wall_s = 10.1;
    load = machine_load_between(&start, &end, 4, 4, 2);
    assert_true(isnan(load.other_cores) && isnan(load.stolen_cores) && load.before == 0.25);
    assert_true(fabs(load.waited_cores - 10) < 1e-9); // counted in nanoseconds, and told of short samples, too
    end.wall_s = 12;
    end.taken = false;
    load = machine_load_between(&start, &end, 4, 4, 2);
    assert_true(isnan(load.other_cores) && load.waited_cores == 0.5);
    // More threads than processors wait for each other.
    assert_true(isnan(machine_load_between(&start, &end, 4, 2, 3).waited_cores));
    end.waited_s = NAN;
    assert_true(isnan(machine_load_between(&start, &end, 4, 4, 2).waited_cores));
}

static void the_machine_says(void **state)
{
    (void)state;
    struct machine_time time = machine_time_take();
    assert_true(time.taken && time.busy_s > 0 && time.own_s > 0 && time.stolen_s >= 0);
}

// For 50 ms this thread shares a processor with another process that never sleeps: the kernel's ticks tell nothing
// of so short a time, the thread's own wait does.
static void short_samples_beside_other_work_are_told(void **state)
{
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    pid_t other = fork();
    assert_true(other >= 0);
    for (volatile size_t i = 0; other == 0; i++) {
    }
    struct machine_time start = machine_time_take(), end = start;
    while (end.wall_s < start.wall_s + 0.05)
        end.wall_s = (double)clock_ns() * 1e-9;
    end = machine_time_take();
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    if (isnan(start.waited_s))
        skip(); // no /proc/self/task/*/schedstat
    struct record_load load = machine_load_between(&start, &end, 2, 1, 1);
    struct record record = {.load = {true, 0, 2, load.other_cores, load.stolen_cores, load.waited_cores},
                            .provenance.threads = 1};
    if (end.wall_s - start.wall_s < MACHINE_LOAD_MIN_S)
        assert_true(isnan(load.other_cores));
    assert_true(load.waited_cores > 0.1 && record_disturbed(&record));
}

static void disturbed_is_beyond_what_is_free(void **state)
{
    (void)state;
    static const struct {
        double threads, cores, others, stolen;
        bool disturbed;
    } cases[] = {{2, 2, 0.05, 0, false}, {2, 2, 0.2, 0, true},    {2, 2, 0, 0.2, true},  {2, 4, 1.9, 0, false},
                 {2, 4, 2.2, 0, true},   {2, 2, NAN, NAN, false}, {1, 2, 0.9, 0.2, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct record record = {.load = {true, 0, cases[i].cores, cases[i].others, cases[i].stolen, NAN},
                                .provenance.threads = cases[i].threads};
        if (record_disturbed(&record) != cases[i].disturbed)
            fail_msg("case %zu", i);
        record.load.given = false;
        assert_false(record_disturbed(&record));
    }
}

// The system says nothing: processor time alone tells of one thread, which waits for no other.
static void a_thread_that_stood_still_may_have_been_disturbed(void **state)
{
    (void)state;
    static const struct {
        double threads, cpu_ms;
        bool perhaps;
    } cases[] = {{1, 8, true}, {1, 9.5, false}, {2, 10, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double sample = 10, cpu = cases[i].cpu_ms;
        struct record record = {.load = {true, 0, 4, NAN, NAN, NAN},
                                .provenance.threads = cases[i].threads,
                                .samples_ms = {1, &sample},
                                .cpu_ms = {1, &cpu}};
        if (record_perhaps_disturbed(&record) != cases[i].perhaps)
            fail_msg("case %zu", i);
        record.load.waited_cores = 0; // which is known
        assert_false(record_perhaps_disturbed(&record));
    }
}

// A record of a run has the field; with numbers of a busy machine the table and the pictures of times say so.
static void people_are_told(void **state)
{
    struct scratch *scratch = *state;
    assert_int_equal(run(scratch, "$L run experiments/chunk.json --axis context=64,128 --axis chunk=8,16,32 "
                                  "--quiet --out one.jsonl > table && grep -q '\"load\": *{\"before\"' one.jsonl"),
                     0);
    assert_int_equal(run(scratch, "sed -E 's/\"other_cores\": ?[^,}]+/\"other_cores\": 1.5/; "
                                  "s/\"stolen_cores\": ?[^,}]+/\"stolen_cores\": 90/' one.jsonl > busy.jsonl && "
                                  "sed -E 's/\"other_cores\": ?[^,}]+/\"other_cores\": null/; "
                                  "s/\"waited_cores\": ?[^,}]+/\"waited_cores\": null/; s/\"cpu_ms\": "
                                  "?\\[[^]]*\\],//' one.jsonl > idle.jsonl && "
                                  "$L report busy.jsonl > busy && $L report idle.jsonl > idle"),
                     0);
    assert_says(scratch, "busy", "rows something else ran, on 91.5 cores on average");
    assert_int_equal(run(scratch, "! grep -q 'something else' idle"), 0);
    // Steps too short to tell, on a machine that was busy before them; at its usual load nothing is said.
    assert_int_equal(run(scratch,
                         "sed -E 's/\"before\": ?[^,}]+/\"before\": 1000.5/' idle.jsonl > before.jsonl && "
                         "sed -E 's/\"before\": ?[^,}]+/\"before\": 0.5/' idle.jsonl > calm.jsonl && "
                         "$L report before.jsonl > before && $L report calm.jsonl > calm && "
                         "grep -q '^? 16 of 16 rows are too short to tell' before && grep -q '[0-9]? ' before && "
                         "! grep -q 'too short to tell' calm && $L plot before.jsonl --out before-pictures && "
                         "grep -q '16 trials are short and the machine was busy' before-pictures/chunk-time.svg && "
                         "! grep -q 'machine was busy' before-pictures/chunk-memory.svg"),
                     0);
    assert_int_equal(
        run(scratch, "$L plot busy.jsonl --out busy-pictures && "
                     "$L plot busy.jsonl --figures time --style bare --out bare 2> said && "
                     "grep -q 'chunk-time: .*something else ran' said && $L plot idle.jsonl --out idle-pictures && "
                     "grep -q 'something else ran beside' busy-pictures/chunk-time.svg && "
                     "! grep -q 'something else ran beside' busy-pictures/chunk-memory.svg && "
                     "! grep -lq 'something else ran beside' idle-pictures/*.svg"),
        0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts_are_read),
                                       cmocka_unit_test(others_are_what_is_not_our_own),
                                       cmocka_unit_test(the_machine_says),
                                       cmocka_unit_test(short_samples_beside_other_work_are_told),
                                       cmocka_unit_test(disturbed_is_beyond_what_is_free),
                                       cmocka_unit_test(a_thread_that_stood_still_may_have_been_disturbed),
                                       TEST(people_are_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
