// Ends of trials over several ranks, run by the program: a record whatever happens to one of them, and nothing left
// behind.
#define _GNU_SOURCE // asprintf
#include "harness/process/launch.h"
#include "tests/ranks_spec.h"
#include "tests/sanitized.h"
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

// Processes in the scratch folder.
static size_t process_count(const struct scratch *scratch)
{
    size_t count = 0;
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    for (struct dirent *entry; (entry = readdir(processes));) {
        char link[300], where[4096] = "";
        snprintf(link, sizeof link, "/proc/%.20s/cwd", entry->d_name);
        count += readlink(link, where, sizeof where - 1) > 0 && strcmp(where, scratch->folder) == 0;
    }
    closedir(processes);
    return count;
}

// No process, once those that were killed have gone, and no file in the folder for temporary ones.
static void assert_nothing_left(const struct scratch *scratch)
{
    for (size_t i = 0; i < 60 && process_count(scratch) > 0; i++)
        pause_ms(50);
    assert_int_equal(process_count(scratch), 0);
    DIR *folder = opendir(scratch_path(scratch, "tmp").text);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (*entry->d_name != '.')
            fail_msg("%s was left behind", entry->d_name);
    closedir(folder);
}

// A rank of a pipeline, of data ranks or of sequence ranks ends.
static void check_one_of_four_ends(const struct scratch *scratch, const char *parallel)
{
    char *rest;
    static const struct {
        const char *behaviour, *status, *reason;
    } ends[] = {{"kill", "crash", "rank 2 of 4: killed by signal SIGKILL"},
                {"crash", "crash", "rank 2 of 4: killed by signal SIGABRT"},
                {"exit", "crash", "rank 2 of 4: ended with exit code 3"},
                {"oom", "oom", "rank 2 of 4: "},
                {"fail", "failed", "rank 2 of 4: method null failed"},
                {"ok", "ok", ""}};
    assert_true(asprintf(&rest,
                         "'measure': {'warmup': 0, 'samples': 2, 'gradient': 'none'},"
                         "%s, 'axes': {'method': [{'name': 'null', 'at_rank': 2,"
                         "'behaviour': ['kill', 'crash', 'exit', 'oom', 'fail', 'ok']}]}",
                         parallel) > 0);
    write_spec(scratch, rest);
    free(rest);
    assert_int_equal(run(scratch, "rm -f r.jsonl && TMPDIR=$PWD/tmp $L run spec.json --out r.jsonl"), 1);
    json_t *all = records(scratch, "r.jsonl");
    assert_int_equal(json_array_size(all), COUNT(ends));
    for (size_t i = 0; i < COUNT(ends); i++) {
        const json_t *record = json_array_get(all, i);
        // Not by its time limit, of a minute.
        if (strcmp(text_at(record, "status"), ends[i].status) != 0 ||
            !strstr(text_at(record, "reason"), ends[i].reason))
            fail_msg("%s: %s: %s", ends[i].behaviour, text_at(record, "status"), text_at(record, "reason"));
    }
    json_decref(all);
    assert_nothing_left(scratch);
}

static void one_rank_of_four_ends(void **state)
{
    const struct scratch *scratch = *state;
    assert_int_equal(mkdir(scratch_path(scratch, "tmp").text, 0777), 0);
    static const char *const parallels[] = {"'parallel': {'stage': 4}",
                                            "'batch': 4, 'parallel': {'data': 4, 'zero': 3}",
                                            "'parallel': {'sequence': 4, 'exchange': 'ring'}"};
    for (size_t i = 0; i < COUNT(parallels); i += STRIDE)
        check_one_of_four_ends(scratch, parallels[i]);
}

// Whether a child of this process is the first to tell; it lives until it is killed.
static bool first_tells(pid_t *child)
{
    int said[2];
    bool first = false;
    assert_int_equal(pipe(said), 0);
    *child = fork();
    if (*child == 0) {
        first = launch_first_to_tell();
        if (write(said[1], &first, sizeof first) == sizeof first)
            pause();
        _exit(1);
    }
    assert_int_equal(read(said[0], &first, sizeof first), sizeof first);
    close(said[0]);
    close(said[1]);
    return first;
}

static void end(pid_t child)
{
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void one_rank_tells(void **state)
{
    (void)state;
    pid_t first, second, next;
    assert_true(first_tells(&first));
    assert_false(first_tells(&second));
    end(first);
    assert_true(first_tells(&next));
    end(second);
    end(next);
}

// All ranks fail at once, for none has memory, and the trial has one record, again and again.
static void all_ranks_fail(void **state)
{
    struct scratch *scratch = *state;
    write_spec(scratch, "'batch': 2, 'limits': {'memory': '4KiB'}, 'parallel': {'data': 2}, "
                        "'measure': {'gradient': 'none'}, 'axes': {'method': ['full']}");
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(run(scratch, "rm -f r.jsonl && $L run spec.json --out r.jsonl"), 1);
        json_t *all = records(scratch, "r.jsonl");
        const json_t *record = json_array_get(all, 0);
        if (strcmp(text_at(record, "status"), "oom") != 0 || !strstr(text_at(record, "reason"), "of 2: "))
            fail_msg("%s: %s", text_at(record, "status"), text_at(record, "reason"));
        json_decref(all);
    }
}

// At its time limit the ranks are asked who waits; of those that say nothing, too, the name is told.
static void one_rank_of_four_hangs(void **state)
{
    struct scratch *scratch = *state;
    static const char *const parallel[] = {"'parallel': {'stage': 4}", "'batch': 4, 'parallel': {'data': 4}"};
    const int seconds = STRIDE > 1 ? 6 : 3; // sanitized ranks take longer to begin
    assert_int_equal(mkdir(scratch_path(scratch, "tmp").text, 0777), 0);
    for (size_t i = 0; i < COUNT(parallel); i++) {
        char *rest;
        assert_true(asprintf(&rest,
                             "'measure': {'warmup': 0, 'max_seconds': %d, 'gradient': 'none'}, %s,"
                             "'axes': {'method': [{'name': 'null', 'behaviour': ['hang', 'stop'], 'at_rank': 2}]}",
                             seconds, parallel[i]) > 0);
        write_spec(scratch, rest);
        free(rest);
        assert_int_equal(run(scratch, "rm -f r.jsonl && TMPDIR=$PWD/tmp $L run spec.json --out r.jsonl"), 1);
        json_t *all = records(scratch, "r.jsonl");
        assert_int_equal(json_array_size(all), 2);
        for (size_t k = 0; k < 2; k++) {
            assert_string_equal(text_at(json_array_get(all, k), "status"), "timeout");
            char *expected;
            assert_true(asprintf(&expected, "did not end within max_seconds, %d: rank 2 of 4 %s, the others waited",
                                 seconds, k == 0 ? "computed" : "did not answer") > 0);
            assert_string_equal(text_at(json_array_get(all, k), "reason"), expected);
            free(expected);
        }
        json_decref(all);
        assert_nothing_left(scratch);
    }
}

// Ranks that only are slow wait, too, but by turns.
static void slow_ranks_do_not_hang(void **state)
{
    struct scratch *scratch = *state;
    static const char tokens[2 * 130];
    scratch_file(scratch, "tokens", tokens, sizeof tokens);
    write_spec(
        scratch,
        "'data': {'tokens': 'tokens', 'dtype': 'u16'}, 'batch': 2, 'optimizer': 'sgd', 'train': {'steps': 100000}, "
        "'measure': {'max_seconds': 3, 'gradient': 'none'}, "
        "'axes': {'method': ['full'], 'parallel': [{'data': 2}, {'sequence': 2}, {'sequence': 3}]}");
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 1);
    json_t *all = records(scratch, "r.jsonl");
    assert_int_equal(json_array_size(all), 3);
    for (size_t i = 0; i < 3; i++) {
        const char *reason = text_at(json_array_get(all, i), "reason");
        if (!strstr(reason, "did not end within max_seconds, 3: ") || strstr(reason, "for each other"))
            fail_msg("%s", reason);
    }
    json_decref(all);
}

static bool yields(size_t ranks)
{
    static const char *const command[] = {"true", NULL};
    struct launch launch;
    struct status status = {0};
    bool found = false;
    assert_true(launch_open(&launch, NULL, ranks, command, &status));
    for (size_t i = 0; i < launch.count; i++)
        found |= strcmp(launch.arguments[i], "mpi_yield_when_idle") == 0;
    launch_close(&launch);
    return found;
}

// If the ranks may not use all of the machine's cores, waiting ranks yield theirs.
static void ranks_without_cores_yield(void **state)
{
    (void)state;
    cpu_set_t before, one;
    setenv("OMP_NUM_THREADS", "1", true);
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int core = 0; CPU_COUNT(&one) == 0; core++)
        if (CPU_ISSET(core, &before))
            CPU_SET(core, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_false(yields(1));
    assert_true(yields(2));
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

// A sweep that a signal ends takes the ranks and what is theirs with it.
static void ranks_die_with_the_sweep(void **state)
{
    struct scratch *scratch = *state;
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1};
    write_spec(scratch, "'measure': {'warmup': 0, 'gradient': 'none'}, 'parallel': {'stage': 3},"
                        "'axes': {'method': [{'name': 'null', 'behaviour': 'hang'}]}");
    assert_int_equal(mkdir(scratch_path(scratch, "tmp").text, 0777), 0);
    for (size_t i = 0; i < COUNT(signals); i++) {
        signal(signals[i], SIG_DFL); // what is ignored here, as under nohup, is ignored there, too
        pid_t sweep = start(scratch, "TMPDIR=$PWD/tmp exec $L run spec.json --out r.jsonl");
        for (int tries = 0; run(scratch, "ls tmp/longbp-ranks-*/ompi*") != 0; tries++)
            assert_true(tries < 1000);
        kill(sweep, signals[i]);
        assert_int_equal(finish(sweep), 130);
        assert_int_equal(line_count(scratch, "r.jsonl"), 0);
        assert_nothing_left(scratch);
    }
}

// A run's temporary files stay until it ends, whatever other runs begin or end there.
static void a_run_keeps_its_files(void **state)
{
    struct scratch *scratch = *state;
    static const char rest[] = "'measure': {'warmup': 0, 'gradient': 'none'}, 'parallel': {'stage': 3},"
                               "'axes': {'method': [{'name': 'null', 'behaviour': '%s'}]}";
    char hangs[200], ends[200];
    snprintf(hangs, sizeof hangs, rest, "hang");
    snprintf(ends, sizeof ends, rest, "ok");
    write_spec(scratch, hangs);
    assert_int_equal(mkdir(scratch_path(scratch, "tmp").text, 0777), 0);
    pid_t sweep = start(scratch, "TMPDIR=$PWD/tmp exec $L run spec.json --out r.jsonl");
    for (int tries = 0; run(scratch, "[ $(ls tmp/longbp-ranks-*/vader* | wc -l) = 3 ]") != 0; tries++)
        assert_true(tries < 1000);
    write_spec(scratch, ends);
    assert_int_equal(run(scratch, "ls -R tmp > before && TMPDIR=$PWD/tmp $L run spec.json --out other.jsonl && "
                                  "ls -R tmp | cmp - before"),
                     0);
    kill(sweep, SIGTERM);
    finish(sweep);
    assert_nothing_left(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_rank_of_four_ends, scratch_setup, scratch_teardown),
        cmocka_unit_test(one_rank_tells),
        cmocka_unit_test_setup_teardown(all_ranks_fail, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(one_rank_of_four_hangs, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(slow_ranks_do_not_hang, scratch_setup, scratch_teardown),
        cmocka_unit_test(ranks_without_cores_yield),
        cmocka_unit_test_setup_teardown(ranks_die_with_the_sweep, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_run_keeps_its_files, scratch_setup, scratch_teardown),
    };
    return has_mpi() ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
