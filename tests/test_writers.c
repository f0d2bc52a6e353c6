// Every command that writes a file or a folder, onto everything that its user may name: what is there, what is
// not, devices, pipes, names that mean something to a shell or to gnuplot, and with each of its own streams
// closed. It writes all of it, or names the reason and exits with 2; it replaces only regular files, and never
// hangs.
#define _GNU_SOURCE // nftw, mkdtemp
#include "tests/program.h"
#include "tests/sanitized.h"
#include <stdbool.h>
#include <sys/stat.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char setup[] = "cat > s.json << 'E'\n"
                            "{\"experiment\": \"s\", \"device\": \"plan\", \"model\": \"tiny\", \"axes\": "
                            "{\"context\": [8, 16], \"method\": "
                            "[\"full\"]}}\n"
                            "E\n"
                            "$L run s.json --out r.jsonl && ln -s /dev/null null && ln -s /dev/full full && mkdir "
                            "folder && touch folder/x && "
                            "mkfifo pipe";

static const struct writer {
    const char *command; // and then what is written
    bool folder;
} writers[] = {
    {"run s.json --out", false},
    {"grad --model tiny --context 8 --method full --out", false},
    {"plan --model tiny --context 8 --method full --timeline", false},
    {"report r.jsonl --html", false},
    {"init --model tiny --dtype f32 --out", true},
    {"train --model tiny --context 8 --steps 1 --method full --out", true},
    {"plot r.jsonl --format svg --figures memory --out", true},
};

static int write_to(const struct scratch *scratch, const struct writer *writer, const char *rest)
{
    char command[400];
    snprintf(command, sizeof command, "timeout -s KILL 60 $L %s %s", writer->command, rest);
    return run(scratch, command);
}

static void expect(const struct scratch *scratch, const struct writer *writer, const char *rest, int code)
{
    int found = write_to(scratch, writer, rest);
    char *said = text_of(scratch, "err");
    if (found != code || (code == 2 && !*said))
        fail_msg("longbp %s %s: exit code %d, expected %d: %s", writer->command, rest, found, code, said);
    free(said);
}

static void prepare(const struct scratch *scratch)
{
    if (run(scratch, setup) != 0)
        fail_msg("%s", text_of(scratch, "err"));
}

static void what_cannot_be_written_is_told(void **state)
{
    const struct scratch *scratch = *state;
    static const char *const places[] = {"full", "s.json/x", "''", "no/such/x"}; // a picture's folders are made
    prepare(scratch);
    for (size_t i = 0; i < COUNT(writers); i += stride()) {
        bool plot = strncmp(writers[i].command, "plot", 4) == 0;
        for (size_t p = 0; p < COUNT(places) - plot; p++)
            expect(scratch, &writers[i], places[p], 2);
        expect(scratch, &writers[i], writers[i].folder ? "null" : "folder", 2);
        assert_int_equal(run(scratch, "test -L null -a -L full -a -p pipe -a -f s.json -a -e folder/x && "
                                      "test -z \"$(find . -name '*.tmp')\""),
                         0);
    }
}

static void devices_and_pipes_are_written_to(void **state)
{
    const struct scratch *scratch = *state;
    prepare(scratch);
    for (size_t i = 0; i < COUNT(writers); i++) {
        if (writers[i].folder)
            continue;
        expect(scratch, &writers[i], "null", 0);
        expect(scratch, &writers[i], "pipe & cat pipe > got; wait $!", 0);
        assert_int_equal(run(scratch, "test -L null -a -p pipe -a -s got"), 0);
    }
}

// A quote, a bar, a line break, and what a shell would run.
static void a_name_is_a_name(void **state)
{
    const struct scratch *scratch = *state;
    static const char *const names[] = {"'| touch ran'", "'\xff'",
                                        "\"a 'b' \\\"c\\\" <x;*?[y]\n\\$(touch ran)\\`touch ran\\`\""};
    prepare(scratch);
    for (size_t i = 1 % stride(); i < COUNT(writers); i += stride()) {
        for (size_t n = 0; n < COUNT(names); n++) {
            char there[400];
            expect(scratch, &writers[i], names[n], 0);
            snprintf(there, sizeof there, "test ! -e ran && test -s %s && rm -r %s", names[n], names[n]);
            if (run(scratch, there) != 0)
                fail_msg("longbp %s %s: it is not there", writers[i].command, names[n]);
        }
    }
}

static void closed_streams_get_nothing_of_it(void **state)
{
    const struct scratch *scratch = *state;
    static const char *const closed[] = {"1>&-", "2>&-", "0<&- 1>&- 2>&-"};
    prepare(scratch);
    for (size_t i = 2 % stride(); i < COUNT(writers); i += stride()) {
        for (size_t c = 0; c < COUNT(closed); c++) {
            char rest[100];
            snprintf(rest, sizeof rest, "written %s", closed[c]);
            expect(scratch, &writers[i], rest, 0);
            // A first line of what is printed, or of a message, would be text at its beginning.
            assert_int_equal(run(scratch,
                                 "test -s written && ! grep -rqs -e ' trials done' -e '^setting ' written && "
                                 "rm -r written"),
                             0);
        }
    }
}

// More than stdout keeps back, and less.
static void a_full_stdout_is_told(void **state)
{
    const struct scratch *scratch = *state;
    static const char *const commands[] = {
        "plan --model tiny --context 4096 --method seco --chunk 64 --categories --json",
        "max-context --model tiny --memory-limit 8MiB --methods all --json",
        "advise --model tiny --context 1024 --memory-limit 64MiB --methods all --json",
        "frontier --model tiny --methods all --device-memory 2MiB,4MiB,8MiB,16MiB --json",
        "grad --model tiny --context 8 --method full --out g",
        "verify --shape 'one token' --json",
        "list keys --json",
        "report r.jsonl --format json",
        "compare r.jsonl r.jsonl --format json",
        "help run",
        "help",
        "run --help",
        "--help",
        "--version",
        "--commands",
    };
    prepare(scratch);
    for (size_t i = 0; i < COUNT(commands); i++) {
        const struct writer writer = {commands[i], false};
        expect(scratch, &writer, "> full", 2);
        assert_says(scratch, "err", "writing to stdout: No space left on device");
    }
}

// A command does not overwrite its inputs, whatever their names.
static void what_is_read_is_not_written_over(void **state)
{
    const struct scratch *scratch = *state;
    static const char *const commands[] = {
        "report k.jsonl --html k.jsonl", "report k.jsonl --html link.jsonl",
        "grad --model m --context 8 --out m/model.safetensors", "grad --model m --context 8 --out m/config.json",
        "grad --model m --context 8 --tokens text --token-dtype bytes --out text"};
    assert_int_equal(run(scratch, setup), 0);
    assert_int_equal(run(scratch,
                         "$L init --model tiny --dtype f32 --out m && yes word | head -c 900 > text && mv r.jsonl "
                         "k.jsonl && ln -s k.jsonl link.jsonl && cat k.jsonl m/* text | cksum > before"),
                     0);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char command[200];
        snprintf(command, sizeof command, "$L %s", commands[i]);
        assert_int_equal(run(scratch, command), 2);
        assert_says(scratch, "err", "is an input of this command");
        assert_int_equal(run(scratch, "cat k.jsonl m/* text | cksum | cmp - before"), 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_cannot_be_written_is_told),
        TEST(devices_and_pipes_are_written_to),
        TEST(a_name_is_a_name),
        TEST(closed_streams_get_nothing_of_it),
        TEST(a_full_stdout_is_told),
        TEST(what_is_read_is_not_written_over),
    };
    return cmocka_run_group_tests_name("writers", tests, NULL, NULL);
}
