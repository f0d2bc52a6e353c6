// Tests of harness/files/output_file, alone and under every command that writes a file: an existing file stays
// until the new one is complete, only regular files are replaced, and nothing is left behind.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/files/input_files.h"
#include "harness/files/output_file.h"
#include "tests/program.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool write_text(const struct scratch *scratch, const char *name, const char *text, struct status *status)
{
    return output_file_write(scratch_path(scratch, name).text, text, strlen(text), status);
}

static void must_write(const struct scratch *scratch, const char *name, const char *text)
{
    struct status status = {0};
    if (!write_text(scratch, name, text, &status))
        fail_msg("%s", status.message);
}

static void expect_text(const struct scratch *scratch, const char *name, const char *expected)
{
    char *text = text_of(scratch, name);
    assert_string_equal(text, expected);
    free(text);
}

static struct stat info_of(const struct scratch *scratch, const char *name)
{
    struct stat info;
    if (lstat(scratch_path(scratch, name).text, &info) != 0)
        fail_msg("%s is not there", name);
    return info;
}

static void files_are_replaced_when_they_are_complete(void **state)
{
    struct scratch *scratch = *state;
    struct output_file file;
    struct status status = {0};
    struct scratch_path path = scratch_file(scratch, "x", "old", 3);
    assert_int_equal(chmod(path.text, 0640), 0);
    assert_true(output_file_open(&file, path.text, &status));
    fputs("new", file.stream);
    fflush(file.stream);
    expect_text(scratch, "x", "old");
    assert_true(output_file_commit(&file, &status));
    expect_text(scratch, "x", "new");
    assert_int_equal(info_of(scratch, "x").st_mode & 0777, 0640);
    assert_int_equal(scratch_entries(scratch), 1);

    assert_true(output_file_open(&file, path.text, &status));
    fputs("newer", file.stream);
    output_file_discard(&file);
    output_file_discard(&file); // once more does nothing
    expect_text(scratch, "x", "new");
    assert_int_equal(scratch_entries(scratch), 1);

    mode_t before = umask(027);
    must_write(scratch, "y", "");
    umask(before);
    assert_int_equal(info_of(scratch, "y").st_mode & 0777, 0640);
    expect_text(scratch, "y", "");
}

static void links_are_followed(void **state)
{
    struct scratch *scratch = *state;
    assert_int_equal(mkdir(scratch_path(scratch, "disk").text, 0700), 0);
    assert_int_equal(symlink("disk/second", scratch_path(scratch, "first").text), 0);
    assert_int_equal(symlink("file", scratch_path(scratch, "disk/second").text), 0);
    static const char *const texts[] = {"made\n", "replaced\n"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        must_write(scratch, "first", texts[i]);
        assert_true(S_ISLNK(info_of(scratch, "first").st_mode) && S_ISLNK(info_of(scratch, "disk/second").st_mode));
        expect_text(scratch, "disk/file", texts[i]);
    }
    assert_int_equal(symlink("loop", scratch_path(scratch, "loop").text), 0);
    struct status status = {0};
    assert_false(write_text(scratch, "loop", "x", &status));
    assert_non_null(strstr(status.message, "loop: cannot write to it: Too many levels of symbolic links"));
}

static void places_that_cannot_be_written_are_refused(void **state)
{
    struct scratch *scratch = *state;
    static const struct {
        const char *name, *message;
    } cases[] = {
        {"", "cannot write to it: Is a directory"},
        {"folder", "folder: cannot write to it: Is a directory"},
        {"none/x", "none/x: cannot write to its folder"},
        {"new/", "new/: cannot write to it: Is a directory"},
        {"file/x", "file/x: cannot write to it: Not a directory"},
    };
    scratch_file(scratch, "file", "old", 3);
    assert_int_equal(mkdir(scratch_path(scratch, "folder").text, 0700), 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct scratch_path path = scratch_path(scratch, cases[i].name);
        struct status before = {0}, status = {0};
        assert_false(output_file_check(path.text, &before));
        assert_false(output_file_write(path.text, "x", 1, &status));
        assert_string_equal(before.message, status.message); // what is known before is what would fail
        assert_int_equal(status.code, STATUS_IO);
        if (!strstr(status.message, cases[i].message))
            fail_msg("expected %s\n   found %s", cases[i].message, status.message);
    }
    struct status status = {0};
    assert_false(output_file_write("", "x", 1, &status));
    expect_text(scratch, "file", "old");
    assert_int_equal(scratch_entries(scratch), 2);

    // A name that something else has got meanwhile.
    struct output_file file;
    status = (struct status){0};
    assert_true(output_file_open(&file, scratch_path(scratch, "late").text, &status));
    assert_int_equal(mkfifo(scratch_path(scratch, "late").text, 0600), 0);
    assert_false(output_file_commit(&file, &status));
    assert_non_null(strstr(status.message, "late: cannot give the finished file its name: File exists"));
    assert_true(S_ISFIFO(info_of(scratch, "late").st_mode));
    assert_int_equal(scratch_entries(scratch), 3);
}

// Some file systems give the inode number of a removed file to the next new one.
static void a_new_file_with_the_number_of_one_that_was_read_is_written(void **state)
{
    struct scratch *scratch = *state;
    struct status status = {0};
    struct scratch_path path = scratch_text(scratch, "x", "read");
    ino_t number = info_of(scratch, "x").st_ino;
    input_files_watch();
    input_files_name(path.text);
    assert_true(input_files_have(path.text));
    assert_false(write_text(scratch, "x", "new", &status));
    assert_non_null(strstr(status.message, "is an input of this command"));
    assert_int_equal(symlink("x", scratch_path(scratch, "link").text), 0);
    assert_true(input_files_have(scratch_path(scratch, "link").text));
    assert_int_equal(unlink(path.text), 0);
    usleep(20000); // some kernels tell times in steps of up to 10 ms

    struct scratch_path again = scratch_path(scratch, "0");
    bool reused = false;
    for (int i = 0; i < 200 && !reused; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        again = scratch_text(scratch, name, "read");
        reused = info_of(scratch, name).st_ino == number;
    }
    if (!reused)
        skip(); // this file system does not
    assert_false(input_files_have(again.text));
    assert_true(output_file_check(again.text, &status));
}

// Ends in the child's death.
static void write_and_die(const struct scratch *scratch, int number, bool inherited)
{
    struct output_file file;
    struct status status = {0};
    signal(number, inherited ? SIG_IGN : SIG_DFL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (!output_file_open(&file, scratch_path(scratch, "x").text, &status))
        _exit(99);
    fputs("new", file.stream);
    fflush(file.stream);
    raise(number);
    _exit(output_file_commit(&file, &status) ? 0 : 98);
}

static void a_signal_leaves_nothing(void **state)
{
    struct scratch *scratch = *state;
    static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ, SIGABRT};
    scratch_file(scratch, "x", "old", 3);
    for (size_t i = 0; i < 2 * COUNT(numbers); i++) {
        bool ignored = i >= COUNT(numbers); // as under nohup
        int number = numbers[i % COUNT(numbers)];
        pid_t child = fork();
        if (child == 0)
            write_and_die(scratch, number, ignored);
        assert_int_equal(finish(child), ignored ? 0 : 128 + number);
        expect_text(scratch, "x", ignored ? "new" : "old");
        assert_int_equal(scratch_entries(scratch), 1);
        scratch_file(scratch, "x", "old", 3);
    }
}

// --- the commands

static const char *const writers[] = {
    "$L grad --model tiny --context 8 --method full --out",
    "$L plan --model tiny --context 8 --timeline",
};

static void expect_code(const struct scratch *scratch, int code, const char *writer, const char *rest)
{
    char command[300];
    snprintf(command, sizeof command, "%s %s", writer, rest);
    int found = run(scratch, command);
    if (found != code) {
        char *err = text_of(scratch, "err");
        fail_msg("%s: exit code %d: %s", command, found, err);
    }
}

static void devices_and_pipes_are_written_to(void **state)
{
    struct scratch *scratch = *state;
    // Behind links, so that a command that replaces what it finds spoils no machine.
    assert_int_equal(symlink("/dev/null", scratch_path(scratch, "null").text), 0);
    assert_int_equal(symlink("/dev/full", scratch_path(scratch, "full").text), 0);
    assert_int_equal(mkfifo(scratch_path(scratch, "pipe").text, 0600), 0);
    scratch_file(scratch, "out", "", 0);
    scratch_file(scratch, "err", "", 0);
    for (size_t i = 0; i < COUNT(writers); i++) {
        size_t entries = scratch_entries(scratch);
        expect_code(scratch, 0, writers[i], "null");
        expect_code(scratch, 2, writers[i], "full");
        assert_says(scratch, "err", "full: cannot write: No space left on device");
        assert_int_equal(scratch_entries(scratch), entries);
        assert_true(S_ISLNK(info_of(scratch, "null").st_mode) && S_ISLNK(info_of(scratch, "full").st_mode));

        expect_code(scratch, 0, writers[i], "pipe & cat pipe > got; wait $!");
        assert_true(S_ISFIFO(info_of(scratch, "pipe").st_mode));
        assert_true(info_of(scratch, "got").st_size > 1000);
    }
    // Gradients are the same in every run. Printed text follows them, in a pipe and in a file.
    expect_code(scratch, 0, writers[0], "file && cat file out > both");
    expect_code(scratch, 0, writers[0], "pipe & cat pipe | cmp - file");
    expect_code(scratch, 0, writers[0], "/dev/stdout | sed 's:/dev/stdout:file:' | cmp - both");
    expect_code(scratch, 0, writers[0], "/dev/stdout > own; sed 's:/dev/stdout:file:' own | cmp - both");
    expect_code(scratch, 2, "$L calibrate --out", "null/x");
}

// A node of its own, which only root can make, for the real ones must not be at risk.
static void a_device_stays_a_device(void **state)
{
    struct scratch *scratch = *state;
    if (mknod(scratch_path(scratch, "zero").text, S_IFCHR | 0600, (1 << 8) + 5) != 0)
        skip();
    for (size_t i = 0; i < COUNT(writers); i++) {
        expect_code(scratch, 0, writers[i], "zero");
        assert_true(S_ISCHR(info_of(scratch, "zero").st_mode));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(files_are_replaced_when_they_are_complete),
        TEST(links_are_followed),
        TEST(places_that_cannot_be_written_are_refused),
        TEST(a_new_file_with_the_number_of_one_that_was_read_is_written),
        TEST(a_signal_leaves_nothing),
        TEST(devices_and_pipes_are_written_to),
        TEST(a_device_stays_a_device),
    };
    return cmocka_run_group_tests_name("output_file", tests, NULL, NULL);
}
