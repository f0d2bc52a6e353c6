// tools/cuda-all, its whole course on the emulated device, killed at random moments: the archive opens every
// time and holds every part that had ended, and no part runs again once it has. LONGBP_SEED: the moments.
#define _GNU_SOURCE // environ, nftw
#include "kernels/base/random.h"
#include "tests/chosen_tests.h"
#include "tests/scratch.h"
#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#define LONGEST  4.0          // seconds until a kill
#define PARTS    ((size_t)21) // and ranks
#define TEXT_MAX ((size_t)1 << 20)

// Results of a course: one folder, and those that continued from it.
struct course {
    size_t last; // folder: out-N in the scratch
    size_t ended_count, records;
    char ended[PARTS + 1][32];
};

// Whether cards have NCCL between them: it is built where there is something that starts ranks, too.
static bool has_ranks(void)
{
    const char *build = getenv("BUILD");
    char library[1024];
    snprintf(library, sizeof library, "%s/emulated/nccl/libnccl.so.2", build && *build ? build : "build");
    return access(library, F_OK) == 0;
}

static const char *path(const struct scratch *scratch, const char *format, size_t number, const char *rest)
{
    static char text[1024];
    char name[64];
    snprintf(name, sizeof name, format, number);
    snprintf(text, sizeof text, "%s/%s%s", scratch->folder, name, rest);
    return text;
}

static char *text_of(const char *file)
{
    FILE *stream = fopen(file, "r");
    if (!stream)
        fail_msg("%s is not there", file);
    char *text = malloc(TEXT_MAX);
    assert_non_null(text);
    text[fread(text, 1, TEXT_MAX - 1, stream)] = 0;
    fclose(stream);
    return text;
}

static pid_t start(char *const words[], const char *out, const char *said)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t files;
    pid_t process;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    assert_int_equal(setenv("OUT", out, 1), 0);
    assert_int_equal(posix_spawn(&process, words[0], &files, &attributes, words, environ), 0);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return process;
}

// True if it ended by itself within the time, with its exit code; else it and all that it started are killed.
static bool ends_within(pid_t process, double seconds, int *code)
{
    const struct timespec tick = {0, 10000000};
    int status;
    for (int ticks = (int)(seconds * 100); ticks > 0; ticks--) {
        if (waitpid(process, &status, WNOHANG) == process) {
            *code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
            return true;
        }
        nanosleep(&tick, NULL);
    }
    kill(-process, SIGKILL);
    waitpid(process, &status, 0);
    return false;
}

static bool has_archive(const struct scratch *scratch, size_t folder)
{
    return access(path(scratch, "out-%zu", folder, "/cuda-all.tar.gz"), F_OK) == 0;
}

// The course, from where the last archive ends: in the same folder, or carried to a new one. As ends_within.
static bool go_on(const struct scratch *scratch, struct course *course, bool carried, double seconds, int *code)
{
    char archive[1024], out[1024];
    snprintf(archive, sizeof archive, "%s", path(scratch, "out-%zu", course->last, "/cuda-all.tar.gz"));
    carried = carried && has_archive(scratch, course->last);
    snprintf(out, sizeof out, "%s", path(scratch, "out-%zu", course->last + carried, ""));
    char *words[] = {"tools/cuda-all", "--rehearse", carried ? "--resume" : NULL, archive, NULL};
    bool ended = ends_within(start(words, out, path(scratch, "said", 0, "")), seconds, code);
    course->last += carried && has_archive(scratch, course->last + 1); // else it was killed before it was there
    return ended;
}

// Parts that were said to have ended; none of them may have ended before.
static void note_ended(const struct scratch *scratch, struct course *course)
{
    char *said = text_of(path(scratch, "said", 0, "")), *rest = said, *line;
    while ((line = strsep(&rest, "\n"))) {
        char *colon = strstr(line, ": ");
        if (!colon || !strstr(colon, " after "))
            continue;
        if (!strstr(colon, ": passed after "))
            fail_msg("%s", line);
        *colon = 0;
        for (size_t i = 0; i < course->ended_count; i++)
            assert_string_not_equal(course->ended[i], line);
        assert_true(course->ended_count < PARTS + has_ranks());
        snprintf(course->ended[course->ended_count++], sizeof course->ended[0], "%s", line);
    }
    free(said);
}

static size_t check_lines_of_json(const char *file)
{
    char *text = text_of(file), *rest = text, *line;
    size_t count = 0;
    json_t *ids = json_object();
    while ((line = strsep(&rest, "\n")) && *line) {
        json_t *record = json_loads(line, 0, NULL);
        const char *id = json_string_value(json_object_get(record, "id"));
        assert_non_null(id);
        assert_null(json_object_get(ids, id)); // no trial is measured twice
        json_object_set_new(ids, id, json_true());
        json_decref(record);
        count++;
    }
    json_decref(ids);
    free(text);
    return count;
}

// The archive, if anything ended: it opens, what ended is in it, and what is in it can be read. Parts that passed.
static size_t check_archive(const struct scratch *scratch, struct course *course, size_t number)
{
    char archive[1024], folder[1024];
    snprintf(archive, sizeof archive, "%s", path(scratch, "out-%zu", course->last, "/cuda-all.tar.gz"));
    if (course->ended_count == 0 && access(archive, F_OK) != 0)
        return 0;
    snprintf(folder, sizeof folder, "%s", path(scratch, "unpacked-%zu", number, ""));
    assert_int_equal(mkdir(folder, 0700), 0);
    char *words[] = {"/bin/tar", "-xzf", archive, "-C", folder, NULL};
    int code = 0;
    assert_true(ends_within(start(words, "", path(scratch, "tar", 0, "")), 60, &code));
    assert_int_equal(code, 0);
    char *parts = text_of(path(scratch, "unpacked-%zu", number, "/parts"));
    for (size_t i = 0; i < course->ended_count; i++) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "%s passed ", course->ended[i]);
        if (!strstr(parts, wanted))
            fail_msg("kill %zu: the archive lacks \"%s\"; it has %s", number, course->ended[i], parts);
        snprintf(wanted, sizeof wanted, "/%s.log", course->ended[i]);
        free(text_of(path(scratch, "unpacked-%zu", number, wanted)));
    }
    size_t passed = 0, records = 0;
    for (const char *found = parts; (found = strstr(found, " passed ")); found++)
        passed++;
    free(parts);
    DIR *files = opendir(folder);
    assert_non_null(files);
    for (const struct dirent *file; (file = readdir(files));) {
        char name[300];
        snprintf(name, sizeof name, "/%s", file->d_name);
        if (strstr(name, ".jsonl")) {
            records += check_lines_of_json(path(scratch, "unpacked-%zu", number, name));
        } else if (strstr(name, ".json")) {
            json_t *found = json_load_file(path(scratch, "unpacked-%zu", number, name), 0, NULL);
            const json_t *benchmarks = json_object_get(found, "benchmarks");
            if (json_array_size(benchmarks) == 0 && !json_object_get(found, "bandwidth_bytes_per_s"))
                fail_msg("kill %zu: %s has neither benchmarks nor a profile", number, name);
            json_decref(found);
        }
    }
    closedir(files);
    assert_true(records >= course->records);
    course->records = records;
    return passed;
}

static void check_summary(const struct scratch *scratch, const struct course *course)
{
    char *summary = text_of(path(scratch, "out-%zu", course->last, "/summary.txt"));
    const char *const expected[] = {has_ranks() ? "0 of 22 parts left, 0 not passed"
                                                : "0 of 21 parts left, 0 not passed",
                                    "no GPU: CUDA emulated",
                                    "T = 32: ",
                                    "ceiling_bf16: ",
                                    "attention_backward/",
                                    "sensors, "};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (!strstr(summary, expected[i]))
            fail_msg("no \"%s\" in the summary:\n%s", expected[i], summary);
    free(summary);
}

static void test_killed_at_random_moments(void **state)
{
    const struct scratch *scratch = *state;
    const char *seed = getenv("LONGBP_SEED");
    uint64_t moments = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
    printf("moments: LONGBP_SEED=%llu\n", (unsigned long long)moments);
    struct random random = random_named(moments, "kills");
    struct course course = {0};
    int code = 0;
    const size_t max = exhaustive() ? 5 : 1;
    for (size_t kills = 0; kills < max; kills++) {
        double seconds = LONGEST * (double)random_below(&random, kills, 1000) / 1000;
        bool done = go_on(scratch, &course, kills % 2, seconds, &code);
        note_ended(scratch, &course);
        size_t passed = check_archive(scratch, &course, kills);
        if (done) { // a fast machine: once more from the beginning
            assert_int_equal(code, 0);
            assert_int_equal(passed, PARTS + has_ranks());
            course = (struct course){.last = course.last + 1};
        }
    }
    assert_true(go_on(scratch, &course, false, 600, &code));
    note_ended(scratch, &course);
    if (code != 0)
        fail_msg("%s", text_of(path(scratch, "said", 0, "")));
    assert_int_equal(check_archive(scratch, &course, max), PARTS + has_ranks());
    assert_int_equal(course.records, 44 + has_ranks());
    check_summary(scratch, &course);
}

// Asked to end, it notes what it was at, and ends.
static void test_asked_to_end(void **state)
{
    const struct scratch *scratch = *state;
    char *words[] = {"tools/cuda-all", "--rehearse", "methods", NULL};
    char archive[1024], said[1024];
    snprintf(said, sizeof said, "%s", path(scratch, "said", 0, ""));
    pid_t process = start(words, path(scratch, "asked-%zu", 0, ""), said);
    snprintf(archive, sizeof archive, "%s", path(scratch, "asked-%zu", 0, "/cuda-all.tar.gz"));
    char *unpack[] = {"/bin/tar", "-xzf", archive, "-C", (char *)scratch->folder, "./parts", NULL};
    int code = 0;
    char *parts = NULL;
    for (int i = 0; i < 2000 && !(parts && strstr(parts, "methods")); i++) { // until an archive knows of it
        free(parts);
        ends_within(start(unpack, "", path(scratch, "tar", 0, "")), 60, &code);
        parts = code == 0 ? text_of(path(scratch, "parts", 0, "")) : NULL;
    }
    free(parts);
    kill(process, SIGTERM);
    assert_true(ends_within(process, 60, &code));
    if (code == 0)
        skip(); // so fast that nothing was left to be stopped
    assert_int_equal(code, 3);
    assert_true(ends_within(start(unpack, "", path(scratch, "tar", 0, "")), 60, &code) && code == 0);
    parts = text_of(path(scratch, "parts", 0, ""));
    bool passed = strncmp(parts, "methods passed ", 15) == 0, was_cut = strncmp(parts, "methods cut ", 12) == 0;
    free(parts);
    if (passed)
        skip(); // likewise, while it was asked
    assert_true(was_cut);
}

static int open_scratch(void **state)
{
    static struct scratch scratch;
    scratch = scratch_open();
    *state = &scratch;
    return setenv("TMPDIR", scratch.folder, 1);
}

static int close_scratch(void **state)
{
    scratch_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_at_random_moments),
        cmocka_unit_test(test_asked_to_end),
    };
    return cmocka_run_group_tests_name("rehearse", tests, open_scratch, close_scratch);
}
