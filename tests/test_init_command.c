// `longbp init` with large models: it prints the size first, checks the disk's room, shows progress, and leaves
// nothing when interrupted.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/folder/folder.h"
#include "harness/sweep/progress.h"
#include "tests/program.h"
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

// The listener's calls.
struct told {
    size_t calls, last, total;
    bool first_is_none, grows;
};

static void listen(void *context, size_t bytes, size_t total_bytes)
{
    struct told *told = context;
    if (told->calls++ == 0) {
        *told = (struct told){1, bytes, total_bytes, bytes == 0, true};
        return;
    }
    told->grows = told->grows && bytes > told->last && total_bytes == told->total;
    told->last = bytes;
}

static void the_listener_is_told_all(void **state)
{
    struct scratch *scratch = *state;
    struct status status = {0};
    struct told told = {0};
    struct scratch_path path = scratch_path(scratch, "m"), weights = scratch_path(scratch, "m/model.safetensors");
    const struct folder_listener listener = {listen, &told};
    assert_true(folder_write(path.text, config_preset("tiny"), 1, DTYPE_BF16, &listener, &status));
    assert_true(told.first_is_none && told.grows && told.last == told.total && told.calls > 10);
    struct stat file;
    assert_int_equal(stat(weights.text, &file), 0);
    assert_in_range((size_t)file.st_size, told.total + 1, told.total + 10000); // and the header
}

static void a_disk_without_room_is_refused_at_once(void **state)
{
    struct scratch *scratch = *state;
    struct status status = {0};
    struct told told = {0};
    const struct folder_listener listener = {listen, &told};
    struct config huge = *config_preset("tiny");
    huge.layers = 10000;
    huge.width = huge.ffn = 1 << 20;
    assert_false(folder_write(scratch_path(scratch, "m").text, &huge, 1, DTYPE_F32, &listener, &status));
    assert_int_equal(status.code, STATUS_IO);
    if (!strstr(status.message, " PiB, and ") || !strstr(status.message, " are free there; choose"))
        fail_msg("%s", status.message);
    assert_int_equal(told.calls, 0);
    assert_int_equal(scratch_entries(scratch), 0);
}

// A folder's config.json is a model too, which says nothing of weights.
static void a_config_takes_random_weights(void **state)
{
    struct scratch *scratch = *state;
    assert_int_equal(run(scratch,
                         "$L init --model tiny --out m && mkdir c && cp m/config.json c && "
                         "$L init --model c --out other && cmp m/model.safetensors other/model.safetensors && "
                         "cmp m/config.json other/config.json && rm c/config.json"),
                     0);
    assert_int_equal(run(scratch, "$L init --model c --out third"), 2);
    assert_says(scratch, "err", "config.json");
    assert_int_equal(run(scratch, "$L init --model tinny --out third"), 2);
    assert_says(scratch, "err", "did you mean \"tiny\"?");
}

static void the_size_is_said_first(void **state)
{
    struct scratch *scratch = *state;
    assert_int_equal(run(scratch, "$L init --model tiny --dtype f64 --out m"), 0);
    assert_int_equal(line_count(scratch, "err"), 1); // a small one needs no progress
    assert_says(scratch, "err", "m/model.safetensors: 6.");
    assert_says(scratch, "err", " MiB\n");
    assert_int_equal(line_count(scratch, "out"), 0);
}

// Progress of 10 GiB in parts of 64 MiB, as stderr shows it.
static char *shown(const struct scratch *scratch, bool terminal)
{
    size_t part = (size_t)64 << 20, total = 160 * part;
    int before = dup(STDERR_FILENO);
    assert_true(before >= 0 && freopen(scratch_path(scratch, "shown").text, "w", stderr));
    struct progress progress;
    progress_open(&progress, NULL, total, PROGRESS_PLAIN);
    progress.terminal = terminal;
    for (size_t done = 0; done <= total; done += part)
        progress_bytes(&progress, done);
    fflush(stderr);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    return text_of(scratch, "shown");
}

static void progress_is_shown(void **state)
{
    struct scratch *scratch = *state;
    char *plain = shown(scratch, false);
    assert_int_equal(line_count(scratch, "shown"), 9); // a line for each tenth but the last
    assert_memory_equal(plain, "1.06 GiB of 10.00 GiB, 0:00 left\n", 33);
    assert_null(strchr(plain, '\r'));
    free(plain);
    char *line = shown(scratch, true);
    assert_int_equal(line_count(scratch, "shown"), 0);
    assert_non_null(strstr(line, "MiB of 10.00 GiB, 0:0"));
    assert_string_equal(line + strlen(line) - 4, "\r\033[K"); // it goes when all is done
    assert_true(strlen(line) < 500);                          // not at every call
    free(line);
}

// Starts an init that takes seconds, and 1 GB were it to end, and waits until it writes.
static pid_t start_large(const struct scratch *scratch)
{
    pid_t init = start(scratch, "exec $L init --model qwen2.5-0.5b --dtype bf16 --out m");
    for (int tries = 0; line_count(scratch, "err") < 1; tries++) {
        assert_true(tries < 1000);
        pause_ms(10);
    }
    pause_ms(100);
    return init;
}

static void what_is_stopped_leaves_nothing(void **state)
{
    struct scratch *scratch = *state;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct statvfs disk;
    assert_int_equal(statvfs(scratch->folder, &disk), 0);
    if (disk.f_bavail * disk.f_frsize < (size_t)2 << 30)
        skip();
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        signal(numbers[i], SIG_DFL); // what is ignored here, as under nohup, init ignores too
    for (size_t i = 0; i < 2 * sizeof numbers / sizeof *numbers; i++) {
        bool made = i % 2; // the folder was there before, and stays
        if (made)
            assert_int_equal(mkdir(scratch_path(scratch, "m").text, 0700), 0);
        pid_t init = start_large(scratch);
        kill(init, numbers[i / 2]);
        assert_int_equal(finish(init), 128 + numbers[i / 2]);
        assert_int_equal(rmdir(scratch_path(scratch, "m").text), made ? 0 : -1); // empty, or not there
        assert_int_equal(scratch_entries(scratch), 2);                           // out and err
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_listener_is_told_all), TEST(a_disk_without_room_is_refused_at_once),
        TEST(the_size_is_said_first),   TEST(a_config_takes_random_weights),
        TEST(progress_is_shown),        TEST(what_is_stopped_leaves_nothing),
    };
    return cmocka_run_group_tests_name("init_command", tests, NULL, NULL);
}
