// Sweeps, sweeps over ranks and training runs that are killed at random moments, again and again, until they are
// done: the sweep itself, one of the processes that it started, or its whole group, by every signal that ends a
// process, stopped and continued, or with nobody left to read what it says. Records of the file stay as they were,
// each trial has one record in all, a training run has the bits of one that nobody disturbed, and no process is
// left. $KILLS: how many, 12 in `make test`; $KILLS_SEED gives other moments; $KILLS_OF a part of what is killed,
// such as "over ranks". `make torture` has a thousand.
#define _GNU_SOURCE // asprintf, nftw
#include "harness/record/result_file.h"
#include "kernels/base/random.h"
#include "tests/program.h"
#include <limits.h>
#include <signal.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define HANG_SECONDS 60
#define RUN_KILLS    4 // at most, of one run

static const char setup[] =
    "yes 'in the beginning was the word ' | head -c 2000 > text\n"
    "cat > s.json << 'E'\n"
    "{\"experiment\": \"s\", \"model\": {\"layers\": 1, \"width\": 8, \"heads\": 2, \"ffn\": 8, \"vocab\": 11},\n"
    " \"measure\": {\"warmup\": 0, \"samples\": 1, \"gradient\": \"none\"},\n"
    " \"axes\": {\"context\": [8], \"seed\": [1, 2, 3, 4, 5, 6], \"method\": [{\"name\": \"null\", \"seconds\": "
    "0.03}]}}\n"
    "E\n"
    "mkdir reference && $L train --model tiny --tokens text --context 12 --steps 8 --method full --quiet --out "
    "reference/t";

#define TRAIN                                                                                                      \
    "train --model tiny --tokens text --context 12 --steps 8 --method full --checkpoint 1 --resume --out t"

enum victim { ITSELF, CHILD, GROUP, GRANDCHILD, VICTIMS };
static const char *const victim_names[VICTIMS] = {"itself", "a child", "its group", "a grandchild"};

static const struct subject {
    const char *name, *command, *kept; // the file whose lines stay
    double seconds;                    // within which it is killed
    unsigned victims;                  // bits of enum victim
    size_t trials;                     // of a sweep; 0: a training run
    bool ranks;
} subjects[] = {
    {"a sweep", "run s.json --out r.jsonl", "r.jsonl", 0.4, 1 << ITSELF | 1 << CHILD | 1 << GROUP, 6, false},
    {"a sweep over ranks", "run s.json --parallel data=4 --axis batch=4 --axis seed=1,2 --out r.jsonl", "r.jsonl",
     2.5, 1 << ITSELF | 1 << CHILD | 1 << GROUP | 1 << GRANDCHILD, 2, true},
    {"a training run", TRAIN, "t/steps.jsonl", 0.3, 1 << ITSELF | 1 << GROUP, 0, false},
};

enum { STOPPED = -1, UNHEARD = -2 }; // beside signals
static const int ends[] = {SIGKILL, SIGTERM, SIGINT, SIGHUP, STOPPED, UNHEARD};
static const char *const end_names[] = {"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "stopped", "unheard"};

static struct {
    struct random random;
    uint64_t drawn;
    size_t counts[COUNT(subjects)][COUNT(ends)], victims[VICTIMS];
} campaign;

static size_t draw(size_t below)
{
    return random_below(&campaign.random, campaign.drawn++, below);
}

static const char *must(const struct scratch *scratch, const char *command)
{
    if (run(scratch, command) != 0)
        fail_msg("%s: %s", command, text_of(scratch, "err"));
    return command;
}

// --- processes

static pid_t parent_of(pid_t pid)
{
    char path[64], line[512] = "";
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    size_t got = file ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file)
        fclose(file);
    line[got] = 0;
    const char *end = strrchr(line, ')');
    return end && sscanf(end, ") %*c %d", &parent) == 1 ? parent : 0;
}

// One of its children, or of theirs; 0: it has none.
static pid_t descendant(pid_t of, size_t depth)
{
    pid_t found = 0;
    size_t count = 0;
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    for (struct dirent *entry; (entry = readdir(processes));) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10), ancestor = pid;
        for (size_t i = 0; i < depth && ancestor > 0; i++)
            ancestor = parent_of(ancestor);
        if (pid > 0 && ancestor == of && draw(++count) == 0)
            found = pid;
    }
    closedir(processes);
    return found;
}

// In the scratch folder.
static size_t processes_left(const struct scratch *scratch)
{
    size_t count = 0;
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    for (struct dirent *entry; (entry = readdir(processes));) {
        char link[300], where[PATH_MAX] = "";
        snprintf(link, sizeof link, "/proc/%.20s/cwd", entry->d_name);
        count += readlink(link, where, sizeof where - 1) > 0 && strcmp(where, scratch->folder) == 0;
    }
    closedir(processes);
    return count;
}

static int finish_soon(pid_t pid)
{
    int status;
    for (int waited = 0; waitpid(pid, &status, WNOHANG) == 0; waited++) {
        if (waited == HANG_SECONDS * 200)
            fail_msg("it hung");
        pause_ms(5);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// --- one kill

static void strike(pid_t pid, enum victim victim, int end)
{
    pid_t struck = victim == ITSELF ? pid : victim == GROUP ? -pid : descendant(pid, victim == CHILD ? 1 : 2);
    if (!struck)
        return;
    kill(struck, end == STOPPED ? SIGSTOP : end);
    if (end == STOPPED) {
        pause_ms(30);
        kill(struck, SIGCONT);
    }
}

static enum victim draw_victim(const struct subject *subject)
{
    enum victim victim;
    do
        victim = (enum victim)draw(VICTIMS);
    while (!(subject->victims >> victim & 1));
    return victim;
}

// Starts the command, and ends it somehow at some moment, which may be too late. Its exit code.
static int run_and_strike(const struct scratch *scratch, const struct subject *subject)
{
    size_t end = draw(COUNT(ends));
    enum victim victim = draw_victim(subject);
    long ms = (long)draw((size_t)(1000 * subject->seconds));
    char *command;
    bool unheard = ends[end] == UNHEARD;
    // Who reads leaves after so many lines, and what is written then is for nobody.
    assert_true(asprintf(&command,
                         unheard ? "($L %s; echo $? > code) 2>&1 | head -n %ld > heard; exit $(cat code)"
                                 : "exec setsid $L %s",
                         subject->command, ms % 4) > 0);
    pid_t pid = start(scratch, command);
    if (!unheard) {
        pause_ms(ms);
        strike(pid, victim, ends[end]);
    }
    campaign.counts[subject - subjects][end]++;
    campaign.victims[unheard ? ITSELF : victim]++;
    free(command);
    return finish_soon(pid);
}

// --- what must hold

static void expect_sweep(const struct scratch *scratch, size_t trials)
{
    struct result_file file;
    struct status status = {0};
    if (!result_file_read(&file, scratch_path(scratch, "r.jsonl").text, &status))
        fail_msg("%s", status.message);
    assert_int_equal(file.torn_line, 0);
    assert_int_equal(file.count, trials);
    for (size_t i = 0; i < file.count; i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(file.records[i].id, file.records[j].id);
    result_file_close(&file);
}

static void expect_training(const struct scratch *scratch)
{
    must(scratch, "cmp t/model.safetensors reference/t/model.safetensors");
    must(scratch, "for f in t reference/t; do sed 's/,\"ms\":.*//' $f/steps.jsonl > steps.${f%%/*}; done; "
                  "cmp steps.t steps.reference");
}

static void expect_nothing_left(const struct scratch *scratch)
{
    for (size_t i = 0; i < 100 && processes_left(scratch) > 0; i++)
        pause_ms(20);
    assert_int_equal(processes_left(scratch), 0);
}

// Kills it until it is done. How many kills that took.
static size_t kill_until_done(const struct scratch *scratch, const struct subject *subject, size_t max)
{
    char *again;
    size_t kills = 0;
    int code = -1;
    must(scratch, "rm -rf r.jsonl t");
    assert_true(asprintf(&again, "$L %s", subject->command) > 0);
    while (kills < max && code != 0) {
        char *before = text_of(scratch, subject->kept);
        code = run_and_strike(scratch, subject);
        kills++;
        char *after = text_of(scratch, subject->kept), *end = strrchr(before, '\n');
        // A training run goes on after its last checkpoint, and takes the steps behind it again.
        if (subject->trials && end && strncmp(before, after, (size_t)(end + 1 - before)) != 0)
            fail_msg("%s: records that were there are not, or not as they were", subject->name);
        free(before);
        free(after);
    }
    expect_nothing_left(scratch);
    code = run(scratch, again);
    if (code > 1) // 1: of a trial whose process was killed the record says so
        fail_msg("%s: the same command again: exit code %d: %s", subject->name, code, text_of(scratch, "err"));
    free(again);
    if (subject->trials)
        expect_sweep(scratch, subject->trials);
    else
        expect_training(scratch);
    return kills;
}

static bool is_possible(const struct scratch *scratch, const struct subject *subject)
{
    bool possible =
        !subject->ranks || run(scratch, "$L run s.json --parallel data=4 --axis batch=4 --axis seed=1 --out "
                                        "probe.jsonl") == 0;
    if (!possible) {
        char *why = text_of(scratch, "err");
        printf("%s: left out, %s", subject->name, why);
        fflush(stdout); // processes that are started would write it once more
        free(why);
    }
    return possible;
}

static void nothing_is_lost_by_a_kill(void **state)
{
    const struct scratch *scratch = *state;
    const char *kills = getenv("KILLS"), *seed = getenv("KILLS_SEED"), *of = getenv("KILLS_OF");
    size_t left = kills ? strtoul(kills, NULL, 10) : 12, done[COUNT(subjects)] = {0};
    bool possible[COUNT(subjects)], any = false;
    campaign.random = random_named(seed ? strtoul(seed, NULL, 10) : 1, "kills");
    must(scratch, setup);
    for (size_t i = 0; i < COUNT(subjects); i++)
        any |= possible[i] = (!of || strstr(subjects[i].name, of)) && is_possible(scratch, &subjects[i]);
    for (size_t turn = 0; any && left > 0; turn++) {
        size_t i = turn % COUNT(subjects), max = left < RUN_KILLS ? left : RUN_KILLS;
        if (possible[i]) {
            left -= kill_until_done(scratch, &subjects[i], max);
            done[i]++;
        }
    }
    for (size_t i = 0; i < COUNT(subjects); i++) {
        printf("%-20s %4zu runs:", subjects[i].name, done[i]);
        for (size_t end = 0; end < COUNT(ends); end++)
            printf(" %zu %s", campaign.counts[i][end], end_names[end]);
        printf("\n");
    }
    for (size_t i = 0; i < VICTIMS; i++)
        printf("%zu %s%s", campaign.victims[i], victim_names[i], i + 1 < VICTIMS ? ", " : "\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_lost_by_a_kill, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
