// Kept inputs: inputs that fuzzers kept (tests/fuzz/kept.tar.gz, made by make fuzz-keep) are read by every reader,
// also under the sanitizers. Each tests/fuzz_NAME.c is one of them; the Makefile gives its function the name
// kept_NAME here.
#define _GNU_SOURCE // asprintf
#include "kernels/base/status.h"
#include "tests/program.h"
#include <dirent.h>
#include <glob.h>
#include <signal.h>

#define READERS(reader)                                                                                            \
    reader(adapter) reader(claims) reader(config) reader(interconnect) reader(profile) reader(published)           \
        reader(record) reader(run_file) reader(safetensors) reader(spec) reader(tokens)
#define DECLARED(name) int kept_##name(const uint8_t *bytes, size_t count);
#define LISTED(name)   {#name, kept_##name},

READERS(DECLARED)
static const struct {
    const char *name;
    int (*read)(const uint8_t *bytes, size_t count);
} readers[] = {READERS(LISTED)};

static char *reading;

// Which input it was that ended the program.
static void tell(int number)
{
    if (reading && write(STDERR_FILENO, reading, strlen(reading)) > 0)
        (void)!write(STDERR_FILENO, "\n", 1);
    signal(number, SIG_DFL);
    raise(number);
}

// How many files a folder has, each of which was read.
static size_t read_all(const char *folder, int (*reader)(const uint8_t *, size_t))
{
    static uint8_t bytes[1 << 16];
    size_t files = 0;
    DIR *all = opendir(folder);
    assert_non_null(all);
    for (struct dirent *entry; (entry = readdir(all));) {
        if (*entry->d_name == '.')
            continue;
        assert_true(asprintf(&reading, "%s/%s", folder, entry->d_name) > 0);
        FILE *file = fopen(reading, "rb");
        assert_non_null(file);
        size_t count = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        assert_true(count < sizeof bytes);
        reader(bytes, count);
        free(reading);
        reading = NULL;
        files++;
    }
    closedir(all);
    return files;
}

static void kept_inputs_are_read(void **state)
{
    const struct scratch *scratch = *state;
    char *archive = realpath("tests/fuzz/kept.tar.gz", NULL);
    assert_non_null(archive);
    setenv("ARCHIVE", archive, 1);
    free(archive);
    setenv("TMPDIR", scratch->folder, 1); // for what readers are given a folder of
    assert_int_equal(run(scratch, "tar -xzf \"$ARCHIVE\""), 0);
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        assert_true(read_all(scratch_path(scratch, readers[i].name).text, readers[i].read) >= 20);
}

static void every_reader_is_here(void **state)
{
    (void)state;
    glob_t found;
    assert_int_equal(glob("tests/fuzz_*.c", 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, sizeof readers / sizeof *readers);
    globfree(&found);
}

int main(void)
{
    signal(SIGABRT, tell);
    signal(SIGSEGV, tell);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kept_inputs_are_read, scratch_setup, scratch_teardown),
        cmocka_unit_test(every_reader_is_here),
    };
    return cmocka_run_group_tests_name("kept inputs", tests, NULL, NULL);
}
