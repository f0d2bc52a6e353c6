// Threads at a barrier: they do not spin beside other work, which they would delay; a user's setting stays, and
// records have the setting.
#define _GNU_SOURCE // nftw, mkdtemp, sched_setaffinity
#include "harness/machine/cores.h"
#include "harness/machine/spin_count.h"
#include "tests/program.h"
#include <jansson.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void running_threads_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t others;
    } cases[] = {{"0.16 0.88 1.69 1/170 1234\n", 0},
                 {"9.16 8.88 7.69 13/170 1234\n", 12},
                 {"", 0},
                 {"0.16 0.88 1.69", 0},
                 {"0.16 0.88 1.69 0/170 1\n", 0},
                 {"none at all 3/4", 0}};
    for (size_t i = 0; i < COUNT(cases); i++)
        if (spin_count_others(cases[i].text) != cases[i].others)
            fail_msg("\"%s\": %zu others", cases[i].text, spin_count_others(cases[i].text));
}

// A process that is always ready to run, at the lowest priority.
static pid_t start_neighbour(void)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (nice(19) != 19)
            _exit(1);
        for (volatile bool busy = true; busy;)
            continue;
    }
    return pid;
}

static void end_neighbour(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void nobody_spins_beside_other_work(void **state)
{
    (void)state;
    assert_int_equal(spin_count_choose(1, 1, 1), SPIN_COUNT); // there is nobody to wait for
    assert_int_equal(spin_count_choose(4, 1, 1), SPIN_COUNT);
    assert_int_equal(spin_count_choose(1, 2, 1 << 20), SPIN_COUNT);
    pid_t neighbour = start_neighbour();
    size_t beside = spin_count_choose(1, 4, 4), enough = spin_count_choose(1, 4, 1 << 20);
    end_neighbour(neighbour);
    assert_int_equal(beside, 0);
    assert_int_equal(enough, SPIN_COUNT);
}

// Ranks are beside each other.
static void nor_do_more_ranks_than_there_are_cores_for(void **state)
{
    (void)state;
    assert_int_equal(spin_count_choose(3, 2, 5), 0);
    assert_int_equal(spin_count_choose(3, 2, 1 << 20), SPIN_COUNT);
}

// A control group and those above it may allow less time than the processors have.
static void quotas_are_read(void **state)
{
    const struct scratch *scratch = *state;
    static const struct {
        const char *path, *text;
    } files[] = {{"cpu.max", "600000 100000\n"},
                 {"a/cpu.max", "max 100000\n"},
                 {"a/b/cpu.max", "150000 100000\n"},
                 {"c/cpu.max", "junk\n"}};
    assert_int_equal(run(scratch, "mkdir -p a/b c"), 0);
    for (size_t i = 0; i < COUNT(files); i++)
        scratch_file(scratch, files[i].path, files[i].text, strlen(files[i].text));
    static const struct {
        const char *cgroup;
        size_t processors, cores;
    } cases[] = {
        {"0::/a/b\n", 8, 2}, {"0::/a/b\n", 1, 1}, {"0::/a\n", 8, 6},           {"0::/\n", 8, 6},
        {"0::/c\n", 4, 4},   {"", 8, 6},          {"0::/none/at/all\n", 8, 6}, {"1:cpu:/a/b\n0::/a/b\n", 8, 2}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t cores = cores_allowed(cases[i].processors, scratch->folder, cases[i].cgroup);
        if (cores != cases[i].cores)
            fail_msg("\"%s\" of %zu: %zu", cases[i].cgroup, cases[i].processors, cores);
    }
}

static void cores_are_those_that_it_may_run_on(void **state)
{
    (void)state;
    assert_true(cores_usable() >= 1);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        _exit(sched_setaffinity(0, sizeof one, &one) == 0 && cores_usable() == 1 ? 0 : 1);
    }
    int ended;
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
}

// The recorded spin count of a trial with these variables and with more threads than cores; NaN: null.
static double recorded(const struct scratch *scratch, const char *variables)
{
    char command[400];
    static const char spec[] =
        "{\"experiment\": \"e\", \"model\": {\"layers\": 1, \"width\": 8, \"heads\": 2, "
        "\"ffn\": 8, \"vocab\": 11}, \"dtype\": \"f32\", \"axes\": {\"context\": [16], \"method\": "
        "[\"full\"]}, \"measure\": {\"gradient\": \"none\", \"samples\": 1}}";
    scratch_file(scratch, "spec.json", spec, strlen(spec));
    snprintf(command, sizeof command,
             "unset GOMP_SPINCOUNT OMP_WAIT_POLICY; OMP_NUM_THREADS=%zu %s $L run spec.json --fresh --quiet "
             "--out r.jsonl",
             cores_usable() + 1, variables);
    assert_int_equal(run(scratch, command), 0);
    json_t *record = json_load_file(scratch_path(scratch, "r.jsonl").text, 0, NULL);
    const json_t *count = json_object_get(json_object_get(record, "provenance"), "spin_count");
    assert_non_null(count);
    double value = json_is_null(count) ? NAN : json_number_value(count);
    json_decref(record);
    return value;
}

static void records_say_how_threads_waited(void **state)
{
    const struct scratch *scratch = *state;
    assert_true(recorded(scratch, "") == 0); // there are more threads than cores: they are beside each other
    assert_true(recorded(scratch, "OMP_NUM_THREADS=1") == SPIN_COUNT);
    assert_true(recorded(scratch, "GOMP_SPINCOUNT=7") == 7);
    // It is chosen anew for every trial, unless the user has.
    assert_true(recorded(scratch, "GOMP_SPINCOUNT=7 LONGBP_SPINS=chosen") == 0);
    assert_true(isnan(recorded(scratch, "OMP_WAIT_POLICY=passive")));
    assert_true(isnan(recorded(scratch, "GOMP_SPINCOUNT=infinite")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(running_threads_are_read),
        cmocka_unit_test(nobody_spins_beside_other_work),
        cmocka_unit_test(nor_do_more_ranks_than_there_are_cores_for),
        cmocka_unit_test_setup_teardown(quotas_are_read, scratch_setup, scratch_teardown),
        cmocka_unit_test(cores_are_those_that_it_may_run_on),
        cmocka_unit_test_setup_teardown(records_say_how_threads_waited, scratch_setup, scratch_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
