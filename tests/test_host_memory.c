// Out of host memory: of every command one allocation fails, libraries' included (tests/failing_malloc.c). Then the
// result is the right one, or there is a message and exit code 2; a sweep has a record of the trial that it
// happened in, and loses none where it happened to itself. Never another result, a crash, a hang or a silent end.
// `make test` tries a few allocations of each command, the same each time; with $TORTURE_SECONDS as many as there
// is time for, in an order that reaches all parts of a command early: all of them, if it suffices.
#define _GNU_SOURCE // nftw, mkdtemp, asprintf
#include "tests/program.h"
#include <ctype.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define HANG_SECONDS 100
#define POINTS       3 // of each command in `make test`

static const char setup[] =
    "yes 'in the beginning was the word ' | head -c 3000 > text && $L init --model tiny --dtype f32 --out model && "
    "cat > s.json << 'E'\n"
    "{\"experiment\": \"s\", \"model\": {\"layers\": 2, \"width\": 8, \"heads\": 2, \"ffn\": 8, \"vocab\": 11},\n"
    " \"measure\": {\"warmup\": 0, \"samples\": 1, \"gradient\": \"full-f64\"}, \"axes\": {\"context\": [8, 16],\n"
    " \"method\": [\"full\", {\"name\": \"seco\", \"chunk\": 4}]}}\n"
    "E\n"
    "cat > c.json << 'E'\n"
    "{\"claims\": [{\"id\": \"c\", \"paper\": \"P\", \"claim\": \"that it is\", \"published\": \"7\", \"source\": "
    "\"S\",\n"
    " \"figures\": [{\"name\": \"f\", \"files\": [\"r.jsonl\"], \"quantity\": \"peak_bytes\", \"take\": "
    "\"largest\",\n"
    " \"of\": {\"method\": \"seco\"}}], \"holds\": {\"at_most\": 1e9}, \"verdict\": {\"verdict\": "
    "\"reproduced\"}}]}\n"
    "E\n"
    "$L run s.json --out r.jsonl && $L max-context --model tiny --memory-limit 16MiB --methods full,seco --json > "
    "m.json";

static const struct subject {
    const char *name, *command; // what it writes goes to stdout or to the folder o
    bool timed;                 // it has times in it: numbers are left out where results are compared
    bool sweep;                 // the same command again does what is left
    bool trial;                 // it is a trial's allocation that fails
    bool step;                  // it computes one: 1 where its device has no memory
} subjects[] = {
    {.name = "plan",
     .command = "plan --model tiny --context 64 --method seco --chunk 16 --memory-limit 8MiB --json"},
    {.name = "plan (table)", .command = "plan --model tiny --context 64 --method auto --memory-limit 8MiB"},
    {.name = "grad",
     .command =
         "grad --model model --tokens text --token-dtype bytes --context 16 --method seco --chunk 4 --out o/g",
     .step = true},
    {.name = "run --list", .command = "run s.json --list"},
    {.name = "run --dry-run", .command = "run s.json --dry-run --out o/r.jsonl"},
    {.name = "run", .command = "run s.json --quiet --out o/r.jsonl > table", .timed = true, .sweep = true},
    {.name = "a trial", .command = "run s.json --quiet --out o/r.jsonl > table", .timed = true, .trial = true},
    {.name = "train",
     .command = "train --model model --tokens text --token-dtype bytes --context 16 --steps 2 --method full --out "
                "o/t > steps",
     .timed = true,
     .step = true},
    {.name = "compare", .command = "compare r.jsonl r.jsonl --deterministic"},
    {.name = "compare --format json", .command = "compare r.jsonl r.jsonl --format json", .timed = true},
    {.name = "plot", .command = "plot r.jsonl --format svg --figures memory --out o"},
    {.name = "report", .command = "report r.jsonl"},
    {.name = "report --format json", .command = "report r.jsonl --format json"},
    {.name = "claims", .command = "claims c.json"},
    {.name = "verify", .command = "verify --shape uneven"},
    {.name = "init", .command = "init --model tiny --dtype bf16 --out o/m"},
    {.name = "calibrate", .command = "calibrate --rates f64 --seconds 0 --out o/p.json", .timed = true},
    {.name = "max-context", .command = "max-context --model tiny --memory-limit 4MiB --methods full,seco"},
    {.name = "max-batch",
     .command = "max-batch --model tiny --context 64 --memory-limit 4MiB --methods seco --json"},
    {.name = "advise", .command = "advise --model tiny --context 64 --memory-limit 4MiB --methods full,seco"},
    {.name = "frontier",
     .command = "frontier --model tiny --methods full,seco --device-memory 2MiB,4MiB --host-memory 0",
     .timed = false},
    {.name = "convert", .command = "convert r.jsonl --out o/c.jsonl"},
    {.name = "list", .command = "list keys"},
};

static struct {
    const char *preload;
    unsigned long *counts; // of commands, of trials: in memory that they share
    struct scratch scratch;
    size_t tried, failed;
} torture;

// --- results

static void append(char **text, const char *more)
{
    char *longer;
    if (asprintf(&longer, "%s%s", *text ? *text : "", more) < 0)
        abort();
    free(*text);
    *text = longer;
}

// Numbers as "#": what has been timed differs.
static void mask(char *text)
{
    char *to = text;
    for (const char *at = text; *at;) {
        if (!isdigit((unsigned char)*at) && !(*at == '-' && isdigit((unsigned char)at[1]))) {
            *to++ = *at++;
            continue;
        }
        at += strspn(at, "-0123456789.");
        if (*at == 'e' && (at[1] == '-' || at[1] == '+'))
            at += 2 + strspn(at + 2, "0123456789");
        *to++ = '#';
    }
    *to = 0;
}

// What of a record is of the moment, and not of the trial.
static void drop_moment(char *text)
{
    static const char *const names[] = {
        "\"wall_s\":", "\"time\":",        "\"clock_mhz_before\":", "\"clock_mhz_after\":",
        "\"before\":", "\"other_cores\":", "\"stolen_cores\":"};
    for (size_t i = 0; i < COUNT(names); i++)
        for (char *at = text; (at = strstr(at, names[i]));) {
            at += strlen(names[i]);
            size_t bytes = strcspn(at, ",}\n");
            memmove(at, at + bytes, strlen(at + bytes) + 1);
        }
}

// Every byte, also zeros, as hexadecimal digits unless it is text.
static char *content_of(const char *name)
{
    struct scratch_path path = scratch_path(&torture.scratch, name);
    FILE *file = fopen(path.text, "rb");
    char *content = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&content, &bytes);
    for (int c; file && (c = getc(file)) != EOF;)
        if (isprint(c) || c == '\n')
            fputc(c, stream);
        else
            fprintf(stream, "<%02x>", c);
    fclose(stream);
    if (file)
        fclose(file);
    return content;
}

// What the command left: its folder's files with their names, then stdout.
static char *result_of(const struct subject *subject)
{
    assert_int_equal(run(&torture.scratch, "find o -type f | sort"), 0);
    char *names = text_of(&torture.scratch, "out"), *rest = names, *name, *result = NULL;
    while ((name = strsep(&rest, "\n")) && *name) {
        char *content = content_of(name);
        append(&result, name);
        append(&result, ":\n");
        append(&result, content);
        free(content);
    }
    char *printed = content_of("printed");
    append(&result, printed);
    free(printed);
    free(names);
    if (subject->timed)
        mask(result);
    drop_moment(result);
    return result;
}

// --- a command, of which allocation `at` fails; 0: none

static int launch(const struct subject *subject, unsigned long at)
{
    char *line;
    const char *counted = scratch_path(&torture.scratch, "counts").text;
    torture.counts[0] = torture.counts[1] = 0;
    if (asprintf(&line,
                 "export FAIL_COUNTS='%s' FAIL_IN=%s FAIL_AT=%lu LD_PRELOAD='%s' OMP_NUM_THREADS=1; exec $L %s "
                 "2>said%s",
                 counted, subject->trial ? "trial" : "command", at, torture.preload, subject->command,
                 strchr(subject->command, '>') ? "" : " >printed") < 0)
        abort();
    pid_t pid = start(&torture.scratch, line);
    free(line);
    int status;
    for (double waited = 0; waitpid(pid, &status, WNOHANG) == 0; waited += 0.002) {
        if (waited > HANG_SECONDS)
            kill(pid, SIGKILL);
        pause_ms(2);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void clear(void)
{
    assert_int_equal(run(&torture.scratch, "rm -rf o printed && mkdir o && : > printed"), 0);
}

// Each trial has a record, the right one or one that says why not.
static const char *judge_records(const char *good)
{
    char *lines = text_of(&torture.scratch, "o/r.jsonl"), *rest = lines, *line;
    const char *wrong = NULL;
    size_t count = 0;
    while ((line = strsep(&rest, "\n")) && *line) {
        json_t *record = json_loads(line, 0, NULL);
        const char *status = json_string_value(json_object_get(record, "status"));
        const char *reason = json_string_value(json_object_get(record, "reason"));
        bool fine = status && strcmp(status, "ok") == 0;
        mask(line);
        drop_moment(line);
        if (!record || (fine ? !strstr(good, line) : !reason || !*reason))
            wrong = "a record is neither right nor says why not";
        json_decref(record);
        count++;
    }
    free(lines);
    return count == 4 ? wrong : "a trial has no record";
}

// NULL: as it ought to be.
static const char *judge(const struct subject *subject, int code, int good_code, const char *good)
{
    if (code >= 128)
        return code == 128 + SIGKILL ? "it hung" : "it crashed";
    if (subject->trial && (code == good_code || code == 1))
        return judge_records(good);
    char *said = text_of(&torture.scratch, "said");
    bool silent = !*said;
    free(said);
    if (code == good_code) {
        char *result = result_of(subject);
        bool same = strcmp(result, good) == 0;
        free(result);
        return same ? NULL : "another result, and the exit code of the right one";
    }
    // A device's memory that is refused is a step that failed, as it is where a card is too small.
    if (code != 2 && !(code == 1 && subject->step))
        return "another exit code";
    if (silent)
        return "it ended without a word";
    if (run(&torture.scratch, "test -z \"$(find o -name '*.tmp')\"") != 0)
        return "it left what is not complete";
    if (subject->sweep) {
        if (launch(subject, 0) != good_code)
            return "the sweep could not be resumed";
        char *result = result_of(subject);
        bool same = strcmp(result, good) == 0;
        free(result);
        return same ? NULL : "the sweep lost something";
    }
    return NULL;
}

static void try_point(const struct subject *subject, unsigned long at, int good_code, const char *good)
{
    clear();
    int code = launch(subject, at);
    const char *wrong = judge(subject, code, good_code, good);
    torture.tried++;
    if (!wrong)
        return;
    char *said = text_of(&torture.scratch, "said");
    fprintf(stderr, "%s, allocation %lu of its %s fails: %s (exit code %d)\n  longbp %s\n  %.300s\n", subject->name,
            at, subject->trial ? "trials" : "own", wrong, code, subject->command, said);
    free(said);
    torture.failed++;
}

static unsigned long common_divisor(unsigned long a, unsigned long b)
{
    return b ? common_divisor(b, a % b) : a;
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void torment(const struct subject *subject, double seconds)
{
    clear();
    int good_code = launch(subject, 0);
    unsigned long count = torture.counts[subject->trial];
    char *good = result_of(subject), *said = text_of(&torture.scratch, "said");
    if (good_code > 3 || count == 0)
        fail_msg("%s: exit code %d, %lu allocations: %s", subject->name, good_code, count, said);
    // A step that shares no divisor with the count reaches every point once, far from the last one.
    unsigned long step = count * 618 / 1000 + 1, tried = 0;
    while (common_divisor(step, count) > 1)
        step++;
    double end = now_s() + seconds;
    for (unsigned long at = 0; tried < count && (seconds > 0 ? now_s() < end : tried < POINTS); tried++) {
        at = (at + step) % count;
        try_point(subject, at + 1, good_code, good);
    }
    if (seconds > 0)
        fprintf(stderr, "%-22s %6lu of %6lu allocations\n", subject->name, tried, count);
    free(said);
    free(good);
}

static void every_command_says_that_there_is_no_memory(void **state)
{
    torture.scratch = *(struct scratch *)*state;
    const char *build = getenv("BUILD"), *seconds = getenv("TORTURE_SECONDS"), *only = getenv("TORTURE_ONLY");
    struct scratch_path zeros = scratch_file(&torture.scratch, "counts", (char[16]){0}, 16);
    char library[512];
    snprintf(library, sizeof library, "%s/tests/failing_malloc.so", build ? build : "build");
    torture.preload = realpath(library, NULL);
    assert_non_null(torture.preload);
    int file = open(zeros.text, O_RDWR);
    torture.counts = mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_ptr_not_equal(torture.counts, MAP_FAILED);
    close(file);
    if (run(&torture.scratch, setup) != 0)
        fail_msg("%s", text_of(&torture.scratch, "err"));
    for (size_t i = 0; i < COUNT(subjects); i++)
        if (!only || strcmp(only, subjects[i].name) == 0)
            torment(&subjects[i], seconds ? strtod(seconds, NULL) / (double)(only ? 1 : COUNT(subjects)) : 0);
    munmap(torture.counts, 16);
    free((char *)torture.preload);
    fprintf(stderr, "allocations: %zu failed in turn, %zu wrong\n", torture.tried, torture.failed);
    assert_int_equal(torture.failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_command_says_that_there_is_no_memory, scratch_setup,
                                        scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
