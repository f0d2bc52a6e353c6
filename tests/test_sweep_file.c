// The result file of a sweep, by really doing it to the program: a folder that is closed, a full disk, two sweeps
// at once, a damaged file, old results.
#define _GNU_SOURCE // asprintf
#include "tests/null_sweep.h"
#include <sys/stat.h>

static void folder_that_cannot_be_written(void **state)
{
    struct scratch *scratch = *state;
    spec_write(scratch, fast_axes);
    assert_int_equal(mkdir(scratch_path(scratch, "closed").text, 0555), 0);
    assert_int_equal(chmod(scratch->folder, 0777), 0);
    // Root may write anywhere: be someone else.
    const char *command = geteuid() == 0 ? "setpriv --reuid=65534 --regid=65534 --clear-groups "
                                           "$L run spec.json --out closed/r.jsonl"
                                         : "$L run spec.json --out closed/r.jsonl";
    assert_int_equal(run(scratch, command), 2);
    assert_says(scratch, "err", "closed/r.jsonl: cannot open it for writing: Permission denied");
    assert_int_equal(run(scratch, "$L run spec.json --out no/such/folder/r.jsonl"), 2);
    assert_says(scratch, "err", "no/such/folder/r.jsonl: cannot write to its folder: there is none");
}

static void full_disk_loses_nothing(void **state)
{
    struct scratch *scratch = *state;
    spec_write(scratch, fast_axes);
    assert_int_equal(run(scratch, "$L run spec.json --out /dev/full"), 2);
    assert_says(scratch, "err", "/dev/full: cannot write a record: No space left on device");
    // A file that may not grow past 8 KiB fills up in the middle of a record.
    assert_int_equal(run(scratch, "trap '' XFSZ; ulimit -f 16; exec $L run spec.json --out r.jsonl"), 2);
    assert_says(scratch, "err", "r.jsonl: cannot write a record: File too large");
    size_t kept = line_count(scratch, "r.jsonl");
    assert_in_range(kept, 1, TRIALS - 1);
    char *text = text_of(scratch, "r.jsonl");
    assert_int_equal(text[strlen(text) - 1], '\n');
    free(text);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 0);
    assert_complete(scratch, TRIALS);
}

static void second_sweep_is_turned_away(void **state)
{
    struct scratch *scratch = *state;
    spec_write(scratch, slow_axes);
    pid_t first = start(scratch, "exec $L run spec.json --out r.jsonl 2>first");
    wait_for_lines(scratch, 1);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 2);
    assert_says(scratch, "err", "another sweep is writing to this file");
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl --fresh"), 2); // nor may it take the file away
    assert_int_equal(finish(first), 0);
    assert_complete(scratch, TRIALS);
}

static void damaged_last_line_is_cut_and_others_refused(void **state)
{
    struct scratch *scratch = *state;
    spec_write(scratch, fast_axes);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 0);
    assert_int_equal(run(scratch, "head -c -200 r.jsonl > cut && mv cut r.jsonl"), 0);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 0);
    assert_says(scratch, "err", "1 of 8 trials are left to do");
    assert_complete(scratch, TRIALS);
    // A last record that is whole but for its newline counts, and the next one starts on a line of its own.
    assert_int_equal(run(scratch, "head -n 7 r.jsonl | head -c -1 > cut && mv cut r.jsonl"), 0);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 0);
    assert_complete(scratch, TRIALS);
    assert_int_equal(run(scratch, "sed -i '3s/.*/{\"half\": /' r.jsonl; cp r.jsonl before"), 0);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 2);
    assert_says(scratch, "err", "r.jsonl:3");
    assert_int_equal(run(scratch, "cmp r.jsonl before"), 0);
}

static void fresh_keeps_the_old_results_aside(void **state)
{
    struct scratch *scratch = *state;
    spec_write(scratch, fast_axes);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl; cp r.jsonl old"), 0);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl --fresh && cmp r.jsonl.bak old"), 0);
    assert_complete(scratch, TRIALS);
    assert_int_equal(run(scratch, "cmp -s r.jsonl old"), 1); // times differ
    // An incomplete sweep has fewer records: the moved file stays.
    assert_int_equal(run(scratch, "head -n 3 r.jsonl > few && cp few r.jsonl && "
                                  "$L run spec.json --out r.jsonl --fresh && cmp r.jsonl.bak old && "
                                  "cmp r.jsonl.bak.2 few"),
                     0);
    assert_int_equal(run(scratch, "cp r.jsonl whole && $L run spec.json --out r.jsonl --fresh && "
                                  "cmp r.jsonl.bak whole && test ! -e r.jsonl.bak.3"),
                     0);
}

// Records of other data do not stand for what the spec has now.
static void changed_data_are_told(void **state)
{
    struct scratch *scratch = *state;
    static const char spec[] =
        "{\"experiment\": \"e\", \"model\": \"tiny\", \"data\": {\"text\": \"text\"}, \"axes\": {\"context\": "
        "[16], "
        "\"method\": [\"full\", \"checkpoint\"]}, \"measure\": {\"samples\": 1, \"gradient\": \"none\"}}";
    scratch_file(scratch, "spec.json", spec, strlen(spec));
    assert_int_equal(
        run(scratch, "yes 'in the beginning ' | head -c 900 > text; cp text kept; $L run spec.json --out r.jsonl "
                     "--quiet && cp r.jsonl before"),
        0);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 0);
    assert_says(scratch, "err", "nothing left to do");
    assert_int_equal(run(scratch, "yes 'was the word ' | head -c 900 > text; $L run spec.json --out r.jsonl"), 2);
    assert_says(scratch, "err", "was measured on other data: text has changed since");
    assert_int_equal(run(scratch, "head -n 1 before > r.jsonl; $L run spec.json --out r.jsonl"), 2);
    assert_int_equal(run(scratch, "cmp -n 100 r.jsonl before && cp kept text && $L run spec.json --out before"), 0);
    // Beyond what is read nothing matters.
    assert_int_equal(run(scratch, "(cat kept; echo more) > text; $L run spec.json --out before"), 0);
    assert_int_equal(
        run(scratch, "yes 'was the word ' | head -c 900 > text; $L run spec.json --out r.jsonl --fresh"), 0);
}

// The same of a folder's weights, of its description, which plans read, too, and of an adapter.
static void changed_models_are_told(void **state)
{
    struct scratch *scratch = *state;
    static const struct {
        const char *devices, *model, *before, *change, *message;
    } cases[] = {
        {"\"cpu\", \"plan-cpu\"", "\"m\"", "$L init --model tiny --out m",
         "rm -r m; $L init --model tiny --seed 7 --out m", "with another model: m has changed since"},
        {"\"plan-cpu\"", "\"m\"", "$L init --model tiny --out m", "sed -i s/10000.0/20000.0/ m/config.json",
         "with another model: m has changed since"},
        {"\"cpu\"", "\"tiny\", \"lora\": \"a\"",
         "$L train --model tiny --context 16 --lora r=2 --method full --steps 1 --out a --quiet",
         "rm -r a; $L train --model tiny --context 16 --lora r=2 --method full --steps 1 --seed 7 --out a --quiet",
         "with another model: a has changed since"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char spec[400];
        int bytes = snprintf(spec, sizeof spec,
                             "{\"experiment\": \"e\", \"axes\": {\"context\": [16], \"method\": [\"full\"], "
                             "\"device\": [%s]}, \"model\": "
                             "%s, \"measure\": {\"samples\": 1, \"gradient\": \"none\"}}",
                             cases[i].devices, cases[i].model);
        scratch_file(scratch, "spec.json", spec, (size_t)bytes);
        assert_int_equal(run(scratch, "rm -rf m a r.jsonl"), 0);
        assert_int_equal(run(scratch, cases[i].before), 0);
        assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 0);
        assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 0);
        assert_says(scratch, "err", "nothing left to do");
        assert_int_equal(run(scratch, cases[i].change), 0);
        assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 2);
        assert_says(scratch, "err", cases[i].message);
        assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl --fresh"), 0);
    }
}

// Whatever a sweep or one of its trials reads is never moved away for its results.
static void what_is_read_stays(void **state)
{
    struct scratch *scratch = *state;
    static const char spec[] =
        "{\"experiment\": \"e\", \"model\": \"tiny\", \"axes\": {\"context\": [16], \"method\": "
        "[\"full\"]}, \"data\": {\"text\": \"text\"}, "
        "\"measure\": {\"samples\": 1}}";
    scratch_file(scratch, "spec.json", spec, strlen(spec));
    assert_int_equal(
        run(scratch,
            "yes 'in the beginning ' | head -c 900 > text; ln -s spec.json link; cp text kept; cp spec.json same"),
        0);
    static const char *const outs[] = {"spec.json", "link", "text"};
    for (size_t i = 0; i < sizeof outs / sizeof *outs; i++) {
        char command[100];
        snprintf(command, sizeof command, "$L run spec.json --fresh --out %s", outs[i]);
        assert_int_equal(run(scratch, command), 2);
        assert_says(scratch, "err", "is an input of this command");
        assert_int_equal(
            run(scratch, "cmp spec.json same && cmp text kept && test ! -e spec.json.bak && test ! -e text.bak"),
            0);
    }
}

// A sweep that goes on, or has nothing left to do, ends as the whole of it does.
static void a_crash_is_told_again(void **state)
{
    struct scratch *scratch = *state;
    static const char spec[] =
        "{\"experiment\": \"e\", \"model\": \"tiny\", \"context\": 16, \"axes\": {\"method\": [{\"name\": "
        "\"null\", "
        "\"behaviour\": [\"crash\"]}, \"full\"]}, \"measure\": {\"samples\": 1, \"gradient\": \"none\"}}";
    scratch_file(scratch, "spec.json", spec, strlen(spec));
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 1);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 1);
    assert_says(scratch, "err", "1 of the 2 trials failed or crashed before: r.jsonl tells why");
    assert_int_equal(run(scratch, "head -n 1 r.jsonl > part && $L run spec.json --out part"), 1);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl --retry"), 1);
    // Repeated trials have their new record.
    assert_int_equal(run(scratch, "sed s/crash/ok/ r.jsonl > mended && $L run spec.json --out mended"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(folder_that_cannot_be_written),
        TEST(full_disk_loses_nothing),
        TEST(second_sweep_is_turned_away),
        TEST(damaged_last_line_is_cut_and_others_refused),
        TEST(fresh_keeps_the_old_results_aside),
        TEST(changed_data_are_told),
        TEST(changed_models_are_told),
        TEST(what_is_read_stays),
        TEST(a_crash_is_told_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
