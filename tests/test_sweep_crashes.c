// The protocol of a sweep's result file against a crash at any system call. A sweep's calls are recorded
// (system_calls.h) and replayed up to each of them: what was written then is there in part, or as zeros, or,
// where it was not synced, not at all. From each of these states the same command again must give each trial's
// record exactly once, and keep every byte that a sync had promised. And a sweep is stopped before each of its
// calls while another one runs: of both each trial has one record in all.
#define _GNU_SOURCE // nftw, mkdtemp
#include "tests/null_sweep.h"
#include "tests/system_calls.h"
#include <signal.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define FILES_MAX    8
#define CALLS_MAX    64

static const char axes[] = " \"axes\": {\"context\": [8], \"seed\": [1, 2, 3], \"method\": [\"null\"]}}\n";
#define SWEPT 3

// Files before the sweep, made in an empty folder that has the spec and in `whole` the records of all trials.
static const struct scenario {
    const char *name, *before, *out, *options;
} scenarios[] = {
    {"a new file", ":", "r.jsonl", ""},
    {"a new folder", ":", "new/r.jsonl", ""},
    {"one record, the next one torn", "head -c $(($(head -n 1 whole | wc -c) + 700)) whole > r.jsonl", "r.jsonl",
     ""},
    {"a last record without its newline", "head -n 1 whole | head -c -1 > r.jsonl", "r.jsonl", ""},
    {"old results to be moved away", "cp whole r.jsonl", "r.jsonl", "--fresh"},
};

// --- what a disk holds

struct file {
    char path[CALL_PATH_BYTES];
    unsigned long inode;
    char *bytes; // as the last call left it
    size_t size, synced;
};

struct disk {
    struct file files[FILES_MAX];
    size_t count;
    char folder[CALL_PATH_BYTES];
};

static struct file *file_of(struct disk *disk, unsigned long inode)
{
    for (size_t i = 0; i < disk->count; i++)
        if (disk->files[i].inode == inode)
            return &disk->files[i];
    fail_msg("a file that nobody made was written to");
    return NULL;
}

static struct file *file_named(struct disk *disk, const char *path)
{
    for (size_t i = 0; i < disk->count; i++)
        if (strcmp(disk->files[i].path, path) == 0)
            return &disk->files[i];
    return NULL;
}

static void add_file(struct disk *disk, const char *path, unsigned long inode, char *bytes, size_t size)
{
    assert_true(disk->count < FILES_MAX);
    struct file *file = &disk->files[disk->count++];
    *file = (struct file){.inode = inode, .bytes = bytes, .size = size, .synced = size};
    snprintf(file->path, sizeof file->path, "%s", path);
}

static void append(struct file *file, const char *bytes, size_t count)
{
    file->bytes = realloc(file->bytes, file->size + count + 1);
    assert_non_null(file->bytes);
    memcpy(file->bytes + file->size, bytes, count);
    file->size += count;
}

static void apply(struct disk *disk, const struct recorded_call *call, const char *data)
{
    struct file *file;
    switch (call->call) {
    case CALL_CREATE:
        add_file(disk, call->path, call->file, NULL, 0);
        return;
    case CALL_WRITE:
        append(file_of(disk, call->file), data, call->bytes);
        return;
    case CALL_TRUNCATE:
        file = file_of(disk, call->file);
        assert_true(call->bytes <= file->size);
        file->size = call->bytes;
        file->synced = file->synced < file->size ? file->synced : file->size;
        return;
    case CALL_SYNC:
        if (call->file)
            file_of(disk, call->file)->synced = file_of(disk, call->file)->size;
        return;
    case CALL_RENAME:
        file = file_named(disk, call->to);
        if (file) // whose name it takes
            *file->path = 0;
        file = file_named(disk, call->path);
        assert_non_null(file);
        snprintf(file->path, sizeof file->path, "%s", call->to);
        return;
    case CALL_MAKE_FOLDER:
        snprintf(disk->folder, sizeof disk->folder, "%s", call->path);
        return;
    case CALL_LOCK: // is gone with its process
        return;
    }
}

static void disk_free(struct disk *disk)
{
    for (size_t i = 0; i < disk->count; i++)
        free(disk->files[i].bytes);
}

// --- a recorded sweep

struct recording {
    const struct scenario *scenario;
    struct disk before;
    size_t count;
    struct recorded_call calls[CALLS_MAX];
    const char *data[CALLS_MAX]; // what was written, within `journal`
    char *journal, *whole;
};

static char *contents(const struct scratch *scratch, const char *name, size_t *bytes)
{
    struct scratch_path path = scratch_path(scratch, name);
    FILE *file = fopen(path.text, "rb");
    char *text = NULL;
    size_t room = 0;
    *bytes = 0;
    if (!file)
        return NULL;
    do {
        room = 2 * room + 4096;
        text = realloc(text, room);
        assert_non_null(text);
        *bytes += fread(text + *bytes, 1, room - *bytes, file);
    } while (*bytes == room);
    fclose(file);
    return text;
}

static void must_run(const struct scratch *scratch, const char *command)
{
    int code = run(scratch, command);
    char *said = text_of(scratch, "err");
    if (code != 0)
        fail_msg("%s: exit code %d: %s", command, code, said);
    free(said);
}

static unsigned long inode_of(const struct scratch *scratch, const char *name)
{
    struct stat info;
    assert_int_equal(stat(scratch_path(scratch, name).text, &info), 0);
    return info.st_ino;
}

// Empties the folder but for the spec and the records of all trials, and makes what the scenario begins with.
static void begin(const struct scratch *scratch, const struct scenario *scenario)
{
    must_run(scratch, "rm -rf r.jsonl r.jsonl.bak new calls");
    must_run(scratch, scenario->before);
}

static char *command_of(const struct scenario *scenario, const char *before)
{
    char *command;
    assert_true(asprintf(&command, "%s exec $L run spec.json --quiet --out %s %s", before, scenario->out,
                         scenario->options) > 0);
    return command;
}

static void record(struct recording *recording, const struct scratch *scratch, const struct scenario *scenario)
{
    char *command = command_of(scenario, "CALLS=$PWD/calls LD_PRELOAD=$SYSTEM_CALLS");
    size_t bytes, whole;
    *recording = (struct recording){.scenario = scenario, .whole = contents(scratch, "whole", &whole)};
    begin(scratch, scenario);
    char *old = contents(scratch, "r.jsonl", &bytes);
    if (old) {
        add_file(&recording->before, "r.jsonl", inode_of(scratch, "r.jsonl"), old, bytes);
        while (bytes > 0 && !strchr("}\n", old[bytes - 1])) // what is torn is nobody's promise
            bytes--;
        recording->before.files[0].synced = bytes;
    }
    must_run(scratch, command);
    free(command);
    recording->journal = contents(scratch, "calls", &bytes);
    assert_non_null(recording->journal);
    for (char *at = recording->journal; at < recording->journal + bytes;) {
        assert_true(recording->count < CALLS_MAX);
        struct recorded_call *call = &recording->calls[recording->count];
        memcpy(call, at, sizeof *call);
        at += sizeof *call;
        recording->data[recording->count++] = at;
        at += call->call == CALL_WRITE ? call->bytes : 0;
    }
}

static void recording_free(struct recording *recording)
{
    disk_free(&recording->before);
    free(recording->journal);
    free(recording->whole);
}

static struct disk disk_before(const struct recording *recording)
{
    struct disk disk = {0};
    for (size_t i = 0; i < recording->before.count; i++) {
        const struct file *file = &recording->before.files[i];
        add_file(&disk, file->path, file->inode, NULL, 0);
        append(&disk.files[i], file->bytes, file->size);
        disk.files[i].synced = file->synced;
    }
    return disk;
}

// As it was when the call was about to be made.
static struct disk disk_at(const struct recording *recording, size_t cut)
{
    struct disk disk = disk_before(recording);
    for (size_t i = 0; i < cut; i++)
        apply(&disk, &recording->calls[i], recording->data[i]);
    return disk;
}

// Else the model is of another program: all that the sweep did to files was recorded. And before anything is
// promised of a new file its name must be on the disk.
static void model_is_of_this_program(const struct scratch *scratch, const struct recording *recording)
{
    struct disk disk = disk_at(recording, recording->count);
    bool unnamed = false;
    for (size_t i = 0; i < recording->count; i++) {
        const struct recorded_call *call = &recording->calls[i];
        unnamed |= call->call == CALL_CREATE || call->call == CALL_RENAME;
        unnamed &= !(call->call == CALL_SYNC && call->file == 0);
        if (call->call == CALL_WRITE)
            assert_false(unnamed);
    }
    for (size_t i = 0; i < disk.count; i++) {
        size_t bytes;
        char *text = contents(scratch, disk.files[i].path, &bytes);
        assert_int_equal(bytes, disk.files[i].size);
        assert_int_equal(disk.files[i].synced, disk.files[i].size);
        assert_memory_equal(text, disk.files[i].bytes, bytes);
        free(text);
    }
    disk_free(&disk);
}

// --- a crash

static void put_on_disk(const struct scratch *scratch, const struct disk *disk)
{
    must_run(scratch, "rm -rf r.jsonl r.jsonl.bak new");
    if (*disk->folder)
        assert_int_equal(mkdir(scratch_path(scratch, disk->folder).text, 0777), 0);
    for (size_t i = 0; i < disk->count; i++)
        if (*disk->files[i].path)
            scratch_file(scratch, disk->files[i].path, disk->files[i].bytes, disk->files[i].size);
}

// Each trial has one record among the lines, or has it among the old ones, which then are all there.
static const char *missing_from(const struct scratch *scratch, const char *name, size_t *records)
{
    struct result_file file;
    struct status status = {0};
    static char message[sizeof status.message];
    bool fine = result_file_read(&file, scratch_path(scratch, name).text, &status);
    snprintf(message, sizeof message, "%s", status.message);
    *records = file.count;
    for (size_t i = 0; i < file.count; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(file.records[i].id, file.records[j].id) == 0)
                fine = status_set(&status, STATUS_FAILED, "a trial has two records");
    if (fine && file.torn_line)
        fine = status_set(&status, STATUS_FAILED, "its last line is torn");
    result_file_close(&file);
    return fine ? NULL : *message ? message : "a trial has two records, or the last line is torn";
}

// The beginning of a first record by which a file is known to be ours (is_torn in result_file.c): with less of it,
// a sweep says so and leaves the file as it is.
static bool is_known(const struct disk *disk, const char *out)
{
    static const char start[] = "{\"schema\":2,\"id\":\"";
    for (size_t i = 0; i < disk->count; i++) {
        const struct file *file = &disk->files[i];
        if (strcmp(file->path, out) == 0 && file->size)
            return file->size >= sizeof start - 1 && memcmp(file->bytes, start, sizeof start - 1) == 0;
    }
    return true;
}

// Contents of every file that a sync promised.
static void expect_kept(const struct scratch *scratch, const struct disk *promised, const char *when)
{
    for (size_t i = 0; i < promised->count; i++) {
        const struct file *file = &promised->files[i];
        size_t bytes;
        char *text = *file->path ? contents(scratch, file->path, &bytes) : NULL;
        if (*file->path && (!text || bytes < file->synced || memcmp(text, file->bytes, file->synced) != 0))
            fail_msg("%s: %s has lost what was synced", when, file->path);
        free(text);
    }
}

// The same command again, after `disk` is what the crash left. `promised`: as it was at that call.
static void resume(const struct scratch *scratch, const struct recording *recording, const struct disk *disk,
                   const struct disk *promised, const char *when)
{
    const struct scenario *scenario = recording->scenario;
    struct scenario again = *scenario;
    size_t records;
    again.options = ""; // --fresh would begin anew
    put_on_disk(scratch, disk);
    char *command = command_of(&again, "");
    int code = run(scratch, command);
    if (code == 2 && !is_known(disk, scenario->out)) {
        assert_says(scratch, "err", "the file is left as it is");
        expect_kept(scratch, disk, when);
        free(command);
        again.options = "--fresh";
        command = command_of(&again, "");
        must_run(scratch, command);
    } else {
        if (code != 0)
            fail_msg("%s, %s: exit code %d: %s", scenario->name, when, code, text_of(scratch, "err"));
        expect_kept(scratch, promised, when);
    }
    free(command);
    const char *wrong = missing_from(scratch, scenario->out, &records);
    if (wrong || records != SWEPT)
        fail_msg("%s, %s: %zu records of %d: %s", scenario->name, when, records, SWEPT, wrong ? wrong : "");
}

// How the call that the crash met may have ended: so many of a write's bytes are there, and behind them zeros up to
// `length`.
static size_t crash_in_write(const struct scratch *scratch, const struct recording *recording, size_t cut)
{
    const struct recorded_call *call = &recording->calls[cut];
    size_t all = call->bytes;
    const struct {
        size_t written, length;
    } ends[] = {{1, 1}, {25, 25}, {all / 2, all / 2}, {all - 1, all - 1}, {all, all}, {0, all}, {all / 2, all}};
    for (size_t i = 0; i < COUNT(ends); i++) {
        char when[120], *torn = calloc(ends[i].length + 1, 1);
        struct disk disk = disk_at(recording, cut), promised = disk_at(recording, cut);
        assert_non_null(torn);
        memcpy(torn, recording->data[cut], ends[i].written);
        append(file_of(&disk, call->file), torn, ends[i].length);
        snprintf(when, sizeof when, "%zu of %zu bytes and %zu zeros of call %zu", ends[i].written, all,
                 ends[i].length - ends[i].written, cut + 1);
        resume(scratch, recording, &disk, &promised, when);
        disk_free(&promised);
        disk_free(&disk);
        free(torn);
    }
    return COUNT(ends);
}

static size_t crash_everywhere(const struct scratch *scratch, const struct recording *recording)
{
    size_t states = 0;
    for (size_t cut = 0; cut <= recording->count; cut++) {
        char when[60];
        enum call call = cut < recording->count ? recording->calls[cut].call : CALL_LOCK;
        if (call == CALL_WRITE)
            states += crash_in_write(scratch, recording, cut);
        if (call == CALL_SYNC) // the state before it is that behind the write, which was one of its ends
            continue;
        struct disk disk = disk_at(recording, cut);
        snprintf(when, sizeof when, "before call %zu of %zu", cut + 1, recording->count);
        resume(scratch, recording, &disk, &disk, when);
        disk_free(&disk);
        states++;
    }
    return states;
}

static void prepare(const struct scratch *scratch)
{
    char *library = preloaded("system_calls");
    setenv("SYSTEM_CALLS", library, 1);
    free(library);
    spec_write(scratch, axes);
    must_run(scratch, "$L run spec.json --quiet --out whole");
}

static void a_crash_at_any_call_loses_nothing(void **state)
{
    const struct scratch *scratch = *state;
    prepare(scratch);
    for (size_t i = 0; i < COUNT(scenarios); i++) {
        struct recording recording;
        record(&recording, scratch, &scenarios[i]);
        model_is_of_this_program(scratch, &recording);
        size_t states = crash_everywhere(scratch, &recording);
        printf("%s: %zu calls, %zu states after a crash\n", scenarios[i].name, recording.count, states);
        fflush(stdout); // processes that are started would write it once more
        recording_free(&recording);
    }
}

// --- two sweeps

static bool is_stopped(pid_t pid)
{
    int state;
    return waitpid(pid, &state, WUNTRACED) == pid && WIFSTOPPED(state);
}

// The first one stops before its call number `at`, the second runs, the first goes on; then both again. False: it
// has no such call.
static bool two_sweeps(const struct scratch *scratch, const struct scenario *scenario, size_t at)
{
    struct scenario again = *scenario;
    char *before, *first, *second = command_of(scenario, "");
    size_t records, old;
    begin(scratch, scenario);
    assert_true(asprintf(&before, "CALLS=$PWD/calls STOP_AT=%zu LD_PRELOAD=$SYSTEM_CALLS", at) > 0);
    first = command_of(scenario, before);
    pid_t pid = start(scratch, first);
    bool stopped = is_stopped(pid);
    if (stopped) {
        int code = run(scratch, second);
        if (code == 2)
            assert_says(scratch, "err", "another sweep is writing to this file");
        else
            assert_int_equal(code, 0);
        kill(pid, SIGCONT);
        code = finish(pid);
        if (code != 0 && code != 2)
            fail_msg("%s: a sweep that another one met at call %zu: exit code %d: %s", scenario->name, at, code,
                     text_of(scratch, "err"));
        again.options = "";
        free(second);
        second = command_of(&again, "");
        must_run(scratch, second);
        const char *wrong = missing_from(scratch, scenario->out, &records);
        if (wrong || records != SWEPT)
            fail_msg("%s, two sweeps, met at call %zu: %zu records: %s", scenario->name, at, records,
                     wrong ? wrong : "");
        if (*scenario->options && missing_from(scratch, "r.jsonl.bak", &old))
            fail_msg("%s, two sweeps, met at call %zu: the old results are gone", scenario->name, at);
    }
    free(before);
    free(first);
    free(second);
    return stopped;
}

static void of_two_sweeps_one_writes(void **state)
{
    const struct scratch *scratch = *state;
    prepare(scratch);
    for (size_t i = 0; i < COUNT(scenarios); i++) {
        size_t at = 1;
        while (two_sweeps(scratch, &scenarios[i], at))
            at++;
        assert_true(at > 3);
        printf("%s: another sweep at each of %zu calls\n", scenarios[i].name, at - 1);
        fflush(stdout); // processes that are started would write it once more
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_crash_at_any_call_loses_nothing),
        TEST(of_two_sweeps_one_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
