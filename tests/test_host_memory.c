// Out of host memory: of every command one allocation fails, libraries' included (tests/failing_malloc.c). Then
// the result is the right one, or there is a message and exit code 2; a sweep has a record of the trial that it
// happened in, and loses none where it happened to itself. Never another result, a crash, a hang or a silent end.
// `make test` tries a few of each command, the same each time; with $TORTURE_SECONDS as many as there is time for,
// in an order that reaches all parts of a command early; then of all allocations that come from one call stack the
// first one stands for them, or, with $TORTURE_EVERY, each for itself. The file that $TORTURE_TRIED names lists
// passed attempts, which are not repeated: so a campaign ends, in several runs if need be. $TORTURE_PART, "1/2"
// for one, is the part of them that this process tries beside others.
#define _GNU_SOURCE // nftw, mkdtemp, asprintf
#include "tests/program.h"
#include <ctype.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define HANG_SECONDS 100
#define POINTS       2 // of each command in `make test`

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
    " \"figures\": [{\"against\": \"none\", \"take\": \"min\", \"field\": \"gradient.decimals\", \"of\": "
    "[\"method=seco\"],\n"
    " \"records\": [\"r.jsonl\"]}], \"holds\": {\"at least\": 1}, \"verdict\": \"reproduced\"}]}\n"
    "E\n"
    "$L run s.json --out r.jsonl";

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
    {.name = "verify", .command = "verify --shape 'one token'", .step = true},
    {.name = "init", .command = "init --model tiny --dtype bf16 --out o/m"},
    {.name = "calibrate", .command = "calibrate --rates f64 --seconds 1e-6 --out o/p.json", .timed = true},
    {.name = "max-context", .command = "max-context --model tiny --memory-limit 8MiB --methods full,seco"},
    {.name = "max-batch",
     .command = "max-batch --model tiny --context 64 --memory-limit 8MiB --methods seco --json"},
    {.name = "advise", .command = "advise --model tiny --context 64 --memory-limit 8MiB --methods full,seco"},
    {.name = "frontier", .command = "frontier --model tiny --methods full,seco --device-memory 7MiB,8MiB"},
    {.name = "list", .command = "list keys"},
};

// As many as failing_malloc.c tells the call stacks of.
#define STACKS_MAX ((size_t)1 << 22)

static struct {
    const char *preload;
    unsigned long *counts; // of commands, of trials: in memory that they share
    uint64_t *stacks;      // [STACKS_MAX], of the allocations that are counted; likewise
    bool every;            // each allocation is tried, not one of each call stack
    bool told;             // whether there are any
    bool telling;          // whether they are asked for
    size_t part, parts;    // this process tries every `parts`-th point, from the `part`-th on
    struct scratch scratch;
    json_t *noted; // {"NAME STACK": true}: tried in an earlier run
    FILE *notes;   // NULL: none are kept
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
        size_t sign = *at == 'e' && (at[1] == '-' || at[1] == '+');
        if (*at == 'e' && isdigit((unsigned char)at[1 + sign]))
            at += 1 + sign + strspn(at + 1 + sign, "0123456789");
        *to++ = '#';
    }
    *to = 0;
}

// Removes fields of a record that differ from run to run.
static void drop_moment(char *text)
{
    static const char *const names[] = {
        "\"wall_s\":",      "\"time\":",         "\"clock_mhz_before\":", "\"clock_mhz_after\":", "\"before\":",
        "\"other_cores\":", "\"stolen_cores\":", "\"spin_count\":",       "\"instructions\":"};
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

// A command's result: its folder's files with their names, then stdout.
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
    torture.counts[0] = torture.counts[1] = 0;
    if (asprintf(&line,
                 "export FAIL_COUNTS=$PWD/counts %s FAIL_IN=%s FAIL_AT=%lu LD_PRELOAD='%s' OMP_NUM_THREADS=1; "
                 "exec $L %s 2>said%s",
                 torture.telling ? "FAIL_STACKS=$PWD/stacks" : "", subject->trial ? "trial" : "command", at,
                 torture.preload, subject->command, strchr(subject->command, '>') ? "" : " >printed") < 0)
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

// Whether the C library ended the program, with a message and exit code 127: it does if a thread, or a library as
// it is opened, finds no memory for its data.
static bool is_end_of_library(int code, const char *said)
{
    return code == 127 && (strcmp(said, "out of memory\n") == 0 || strstr(said, "memory for thread-local data"));
}

// NULL: as it ought to be.
static const char *judge(const struct subject *subject, int code, int good_code, const char *good)
{
    if (code >= 128)
        return code == 128 + SIGKILL ? "it hung" : "it crashed";
    if (subject->trial && (code == good_code || code == 1))
        return judge_records(good);
    char *said = text_of(&torture.scratch, "said"), *printed = text_of(&torture.scratch, "printed");
    bool silent = !*said && !(code == 1 && *printed), // verify tells in its table
        of_library = is_end_of_library(code, said);
    free(printed);
    free(said);
    if (code == good_code) {
        char *result = result_of(subject);
        bool same = strcmp(result, good) == 0;
        free(result);
        return same ? NULL : "another result, and the exit code of the right one";
    }
    // A device's memory that is refused is a step that failed, as it is where a card is too small.
    if (code != 2 && !(code == 1 && subject->step) && !of_library)
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

// --- the points to be tried: one of each call stack

struct point {
    uint64_t stack;
    unsigned long at; // the first allocation from there
};

static int by_stack(const void *a, const void *b)
{
    const struct point *left = a, *right = b;
    if (left->stack != right->stack)
        return left->stack < right->stack ? -1 : 1;
    return (left->at > right->at) - (left->at < right->at);
}

static int by_place(const void *a, const void *b)
{
    const struct point *left = a, *right = b;
    return (left->at > right->at) - (left->at < right->at);
}

static char *note_of(const struct subject *subject, const struct point *point)
{
    char *note;
    if (asprintf(&note, "%s %016llx", subject->name, (unsigned long long)point->stack) < 0)
        abort();
    return note;
}

static bool is_noted(const struct subject *subject, const struct point *point)
{
    char *note = note_of(subject, point);
    bool noted = json_object_get(torture.noted, note);
    free(note);
    return noted;
}

// In the order of the allocations, without those that cannot fail, other processes' and those that an earlier run
// tried; to be freed. *stacks: of all that can fail and are this process's.
static struct point *points_of(const struct subject *subject, unsigned long count, size_t *left, size_t *stacks)
{
    struct point *points = calloc(count + 1, sizeof *points);
    size_t can_fail = 0, kinds = 0;
    assert_true(points && count < STACKS_MAX);
    for (unsigned long i = 0; i < count; i++)
        if (!torture.told || torture.stacks[i] != 0)
            points[can_fail++] = (struct point){torture.told && !torture.every ? torture.stacks[i] : i, i + 1};
    qsort(points, can_fail, sizeof *points, by_stack);
    for (size_t i = 0; i < can_fail; i++)
        if (kinds == 0 || points[i].stack != points[kinds - 1].stack)
            points[kinds++] = points[i];
    *left = *stacks = 0;
    for (size_t i = torture.part; i < kinds; i += torture.parts, (*stacks)++)
        if (!is_noted(subject, &points[i]))
            points[(*left)++] = points[i];
    qsort(points, *left, sizeof *points, by_place);
    return points;
}

static void try_point(const struct subject *subject, const struct point *point, int good_code, const char *good)
{
    clear();
    int code = launch(subject, point->at);
    const char *wrong = judge(subject, code, good_code, good);
    torture.tried++;
    if (!wrong && torture.notes) {
        char *note = note_of(subject, point);
        fprintf(torture.notes, "%s\n", note);
        fflush(torture.notes);
        free(note);
    }
    if (!wrong)
        return;
    char *said = text_of(&torture.scratch, "said");
    fprintf(stderr, "%s, allocation %lu of its %s fails: %s (exit code %d)\n  longbp %s\n  %.300s\n", subject->name,
            point->at, subject->trial ? "trials" : "own", wrong, code, subject->command, said);
    free(said);
    torture.failed++;
}

static size_t common_divisor(size_t a, size_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// seconds 0: a few points.
static void torment(const struct subject *subject, double seconds)
{
    clear();
    torture.telling = torture.told = seconds > 0;
    int good_code = launch(subject, 0);
    torture.telling = false;
    unsigned long count = torture.counts[subject->trial];
    char *good = result_of(subject), *said = text_of(&torture.scratch, "said");
    if (good_code == 2 || good_code > 3 || count == 0) // a command that is refused allocates next to nothing
        fail_msg("%s: exit code %d, %lu allocations: %s", subject->name, good_code, count, said);
    size_t left, stacks, tried = 0;
    struct point *points = points_of(subject, count, &left, &stacks);
    // A step that shares no divisor with their number reaches every point once, far from the last one.
    size_t step = left * 618 / 1000 + 1;
    while (common_divisor(step, left) > 1)
        step++;
    double end = now_s() + seconds;
    for (size_t at = 0; tried < left && (seconds > 0 ? now_s() < end : tried < POINTS); tried++) {
        at = (at + step) % left;
        try_point(subject, &points[at], good_code, good);
    }
    if (seconds > 0)
        fprintf(stderr, "%-22s %7lu allocations, %5zu %s: %5zu tried before, %5zu now, %5zu are left\n",
                subject->name, count, stacks, torture.every ? "points" : "call stacks", stacks - left, tried,
                left - tried);
    free(points);
    free(said);
    free(good);
}

// --- all

static void *shared_file(const char *name, size_t bytes)
{
    int file = open(scratch_path(&torture.scratch, name).text, O_RDWR | O_CREAT, 0666);
    assert_int_equal(ftruncate(file, (off_t)bytes), 0);
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    close(file);
    return shared;
}

static void read_notes(const char *path)
{
    char *line = NULL;
    size_t room = 0;
    torture.noted = json_object();
    if (!path)
        return;
    torture.notes = fopen(path, "a+");
    if (!torture.notes)
        fail_msg("%s cannot be written", path);
    rewind(torture.notes);
    for (ssize_t bytes; (bytes = getline(&line, &room, torture.notes)) > 0;) {
        line[bytes - 1] = 0;
        json_object_set_new(torture.noted, line, json_true());
    }
    free(line);
}

static void every_command_says_that_there_is_no_memory(void **state)
{
    torture.scratch = *(struct scratch *)*state;
    const char *time = getenv("TORTURE_SECONDS"), *only = getenv("TORTURE_ONLY");
    double seconds = time ? strtod(time, NULL) : 0;
    torture.every = getenv("TORTURE_EVERY") != NULL;
    const char *part = getenv("TORTURE_PART");
    torture.part = torture.parts = 1;
    if (part && (sscanf(part, "%zu/%zu", &torture.part, &torture.parts) != 2 || torture.part < 1 ||
                 torture.part > torture.parts))
        fail_msg("TORTURE_PART is K/N, K from 1 to N, not \"%s\"", part);
    torture.part--;
    torture.preload = preloaded("failing_malloc");
    torture.counts = shared_file("counts", 2 * sizeof *torture.counts);
    torture.stacks = shared_file("stacks", STACKS_MAX * sizeof *torture.stacks);
    read_notes(getenv("TORTURE_TRIED"));
    if (run(&torture.scratch, setup) != 0)
        fail_msg("%s", text_of(&torture.scratch, "err"));
    double end = now_s() + seconds;
    for (size_t i = 0; i < COUNT(subjects); i++)
        if (!only || strcmp(only, subjects[i].name) == 0)
            // Time that one subject does not need goes to the others.
            torment(&subjects[i],
                    seconds > 0 ? fmax(1, (end - now_s()) / (double)(only ? 1 : COUNT(subjects) - i)) : 0);
    munmap(torture.counts, 2 * sizeof *torture.counts);
    munmap(torture.stacks, STACKS_MAX * sizeof *torture.stacks);
    if (torture.notes)
        fclose(torture.notes);
    json_decref(torture.noted);
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
