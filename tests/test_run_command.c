// `longbp run` with a shell and a user: closed streams, result files of others, that disappear, or that hold no
// result. The trials are method `null`, which does what its options say.
#define _GNU_SOURCE // asprintf
#include "harness/record/result_file.h"
#include "tests/program.h"
#include "tests/quoted.h"
#include <sys/stat.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define TRIALS       3

// A spec of trials that behave so: a JSON value, written with ' for ".
static void write_spec(const struct scratch *scratch, const char *behaviour, double seconds)
{
    char *text;
    assert_true(
        asprintf(&text,
                 "{'experiment': 't', 'model': {'layers': 1, 'width': 8, 'heads': 2, 'ffn': 8, 'vocab': 11},"
                 " 'measure': {'warmup': 0, 'samples': 1, 'max_seconds': 5, 'gradient': 'none'},"
                 " 'axes': {'context': [8], 'seed': [1, 2, 3],"
                 " 'method': [{'name': 'null', 'behaviour': %s, 'seconds': %g}]}}",
                 behaviour, seconds) > 0);
    char *json = quoted(text);
    scratch_file(scratch, "spec.json", json, strlen(json));
    free(json);
    free(text);
}

// Runs a command line; fails unless it ends with this code and, for a message that is not NULL, says it on stderr.
static void expect(const struct scratch *scratch, const char *command, int code, const char *message)
{
    int found = run(scratch, command);
    char *err = text_of(scratch, "err");
    if (found != code || (message && !strstr(err, message)))
        fail_msg("%s: exit code %d, expected %d and \"%s\": %s", command, found, code, message ? message : "", err);
    free(err);
}

static void expect_records(const struct scratch *scratch, size_t count)
{
    struct result_file file;
    struct status status = {0};
    if (!result_file_read(&file, scratch_path(scratch, "r.jsonl").text, &status))
        fail_msg("%s", status.message);
    assert_int_equal(file.torn_line, 0);
    assert_int_equal(file.count, count);
    result_file_close(&file);
}

// A folder experiments/ where the program runs comes before the one that is installed with it.
static void own_specs_come_first(void **state)
{
    struct scratch *scratch = *state;
    write_spec(scratch, "'ok'", 0);
    expect(scratch, "mkdir experiments && cp spec.json experiments/chunk.json", 0, NULL);
    expect(scratch, "$L run experiments/chunk.json --list >own && grep -q null own", 0, NULL);
    expect(scratch, "$L run experiments/sparsity.json --list >other && grep -q spaco other", 0, NULL);
}

// An id may be cut short, as reports print it.
static void a_trial_is_named_by_how_its_id_begins(void **state)
{
    struct scratch *scratch = *state;
    char command[200], *ids;
    write_spec(scratch, "'ok'", 0);
    expect(scratch, "$L run spec.json --axis seed=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17 --list | cut -c 1-32",
           0, NULL);
    ids = text_of(scratch, "out");
#define SEEDS "$L run spec.json --axis seed=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17 --trial "
    snprintf(command, sizeof command, SEEDS "%.8s > found && grep -q '\"id\": *\"%.32s\"' found", ids, ids);
    expect(scratch, command, 0, NULL);
    // More ids than digits: some begin alike.
    expect(scratch,
           "$L run spec.json --axis seed=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17 --list | cut -c 1 | "
           "sort | uniq -d | head -n 1 > digit",
           0, NULL);
    expect(scratch, SEEDS "$(cat digit)", 2, " trials' ids begin with ");
    char *err = text_of(scratch, "err"), *digit = text_of(scratch, "digit"), *named = strrchr(err, ':');
    assert_true(named && strlen(named) > 2 + 32);
    assert_int_equal(named[2], digit[0]);
    named[2 + 32] = '\0'; // the first of them
    assert_non_null(strstr(ids, named + 2));
    expect(scratch, SEEDS "''", 2, "no trial  in experiment");
    expect(scratch, SEEDS "0x", 2, "no trial 0x in experiment");
#undef SEEDS
    free(ids);
    free(err);
    free(digit);
}

// As everywhere else in this program, whatever the shell prefers.
static void options_stand_behind_arguments(void **state)
{
    struct scratch *scratch = *state;
    write_spec(scratch, "'ok'", 0);
    expect(scratch, "POSIXLY_CORRECT=1 $L run spec.json --quiet --out r.jsonl", 0, NULL);
    expect_records(scratch, TRIALS);
}

// A trial looks at the time between steps: one that ends a little after its limit has its record.
static void a_step_may_end_after_the_limit(void **state)
{
    struct scratch *scratch = *state;
    write_spec(scratch, "'ok'", 0.3);
    expect(scratch, "sed -i 's/max_seconds\\(.*\\) 5/max_seconds\\1 0.1/' spec.json", 0, NULL);
    expect(scratch, "$L run spec.json --out r.jsonl && ! grep -v '\"max_seconds\":0.1' r.jsonl", 0, NULL);
    expect_records(scratch, TRIALS);
    expect(scratch, "! grep -v '\"status\":\"ok\"' r.jsonl", 0, NULL);
}

static void what_would_do_nothing_is_refused(void **state)
{
    struct scratch *scratch = *state;
    write_spec(scratch, "'ok'", 0);
    expect(scratch, "$L run spec.json --json --out r.jsonl", 2, "--json is of --list");
    expect(scratch, "$L run spec.json --json --dry-run --out r.jsonl", 2, "--json is of --list");
    expect(scratch, "$L run spec.json --json --list", 0, NULL);
    expect(scratch, "$L run spec.json --out -", 2, "--out -: results need a file");
    expect(scratch, "$L run spec.json --against $L --against-out -", 2, "--against-out -: results need a file");
    expect(scratch, "test ! -e r.jsonl && test ! -e ./-", 0, NULL);
    expect(scratch, "test $($L run spec.json --out /dev/stdout | wc -l) = 3", 0, NULL); // as it says
    expect(scratch, "$L run spec.json --out ./- && mv ./- r.jsonl", 0, NULL);
    expect_records(scratch, TRIALS);
}

// The table at the end goes by what `report` does.
static void repeated_lines_are_no_rounds(void **state)
{
    struct scratch *scratch = *state;
    write_spec(scratch, "'ok'", 0);
    expect(scratch, "$L run spec.json --out r.jsonl && cat r.jsonl r.jsonl >t && mv t r.jsonl", 0, NULL);
    static const char *const commands[] = {"$L run spec.json --out r.jsonl", "$L report r.jsonl",
                                           "$L report --all r.jsonl"};
    for (size_t i = 0; i < COUNT(commands); i++) {
        expect(scratch, commands[i], 0, "longbp: r.jsonl: warning: 3 records are left out, for the same line");
        char *table = text_of(scratch, "out");
        assert_null(strstr(table, "several"));
        free(table);
    }
    expect(scratch, "$L report --all r.jsonl --format csv >t && test $(wc -l <t) = 4", 0, NULL);
    expect(scratch, "$L report --all r.jsonl r.jsonl --format csv >t && test $(wc -l <t) = 4", 0, NULL);
}

static void streams_that_are_closed_hold_no_records(void **state)
{
    struct scratch *scratch = *state;
    static const char *const closed[] = {"2>&-", "1>&-", "0<&-", "0<&- 1>&- 2>&-"};
    write_spec(scratch, "'ok'", 0);
    for (size_t i = 0; i < COUNT(closed); i++) {
        char command[120];
        snprintf(command, sizeof command, "rm -f r.jsonl; $L run spec.json --out r.jsonl %s", closed[i]);
        expect(scratch, command, 0, NULL);
        expect_records(scratch, TRIALS);
    }
}

static void files_that_are_not_results_are_left_alone(void **state)
{
    struct scratch *scratch = *state;
    static const char *const foreign[] = {
        "a thesis without a final newline",
        "two lines\nof a thesis",
        "two lines\nof a thesis\n",
        "{",
        "{'layers': [1, 2",
        "{'schema': 'http://json-schema.org/draft-07', ",
        "{'schema': 2, 'name': 'somebody else",
        "{'schema': 2}\n",
        "[1, 2, 3]",
        "7",
        "\n",
    };
    write_spec(scratch, "'ok'", 0);
    for (size_t i = 0; i < COUNT(foreign); i++) {
        char *text = quoted(foreign[i]);
        scratch_file(scratch, "notes", text, strlen(text));
        expect(scratch, "$L run spec.json --out notes", 2, "notes:");
        assert_says(scratch, "err", "the file is left as it is: choose another --out, or --fresh to move it away");
        char *after = text_of(scratch, "notes");
        assert_string_equal(after, text);
        free(after);
        free(text);
    }
    scratch_file(scratch, "notes", "\0\0\0\0", 4);
    expect(scratch, "$L run spec.json --out notes; code=$?; test $(wc -c <notes) = 4 && exit $code", 2, "notes:1");
    // Results are no spec, and one that reads them is another command.
    expect(scratch, "$L run spec.json --out r.jsonl; head -n 1 r.jsonl > one.jsonl; ", 0, NULL);
    expect(scratch, "$L run r.jsonl", 2,
           "r.jsonl: is a result file, not the spec of an experiment; `longbp report`");
    expect(scratch, "$L run one.jsonl --list", 2, "one.jsonl: is a result file");
    // Behind records that are ours, too.
    expect(scratch, "$L run spec.json --out r.jsonl && printf 'a note' >> r.jsonl && cp r.jsonl before", 0, NULL);
    expect(scratch, "$L run spec.json --out r.jsonl; code=$?; cmp r.jsonl before && exit $code", 2, "r.jsonl:4");
}

static void a_torn_record_is_cut_wherever_it_ends(void **state)
{
    struct scratch *scratch = *state;
    static const int kept[] = {1, 2, 9, 20, 400};
    write_spec(scratch, "'ok'", 0);
    expect(scratch, "$L run spec.json --out whole", 0, NULL);
    for (size_t i = 0; i < COUNT(kept); i++) {
        char command[200];
        snprintf(command, sizeof command,
                 "(head -n 1 whole; sed -n 2p whole | head -c %d) > r.jsonl; $L run spec.json --out r.jsonl",
                 kept[i]);
        expect(scratch, command, 0, "the last line is torn");
        expect_records(scratch, TRIALS);
    }
    // The first record too, as far as it is known for one.
    expect(scratch, "head -c 400 whole > r.jsonl; $L run spec.json --out r.jsonl", 0, "the last line is torn");
    expect_records(scratch, TRIALS);
}

static void results_that_go_away_are_missed(void **state)
{
    struct scratch *scratch = *state;
    static const struct {
        const char *action, *message;
    } cases[] = {
        {"rm r.jsonl", "r.jsonl: was removed or moved while records were written to it"},
        {"mv r.jsonl elsewhere", "r.jsonl: was removed or moved"},
        {"cp r.jsonl copy; mv copy r.jsonl", "r.jsonl: was replaced while records were written to it"},
        {": > r.jsonl", "r.jsonl: was changed by something else"},
        {"echo >> r.jsonl", "r.jsonl: was changed by something else"},
    };
    write_spec(scratch, "'ok'", 0.3);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char command[400];
        snprintf(command, sizeof command,
                 "rm -f r.jsonl; $L run spec.json --out r.jsonl & until test -s r.jsonl; do sleep 0.02; done; %s; "
                 "wait $!",
                 cases[i].action);
        expect(scratch, command, 1, cases[i].message);
        assert_says(scratch, "err", "3 of 3 trials done");
        char *err = text_of(scratch, "err");
        assert_null(strstr(err, "results in"));
        free(err);
    }
    expect(scratch, "rm -f r.jsonl; $L run spec.json --out r.jsonl", 0,
           "3 of 3 trials done: 3 ok; results in r.jsonl");
}

static void a_sweep_without_a_result_is_no_success(void **state)
{
    struct scratch *scratch = *state;
    const char *message = "none of the 3 trials is ok: r.jsonl tells why of each";
    write_spec(scratch, "'oom'", 0);
    expect(scratch, "$L run spec.json --out r.jsonl", 1, message);
    expect_records(scratch, TRIALS);
    expect(scratch, "$L run spec.json --out r.jsonl", 1, message); // nothing left to do, and still nothing
    assert_says(scratch, "err", "nothing left to do");
    expect(scratch, "$L run spec.json --trial $($L run spec.json --list | head -c 32)", 1, NULL);
    expect(scratch, "$L run spec.json --out r.jsonl --axis behaviour=ok --axis seed=1", 0, NULL);
    expect(scratch, "$L run spec.json --out r.jsonl", 1, message); // another spec's trials are no help

    // One that is ok, now or from before, is enough.
    write_spec(scratch, "['oom', 'ok']", 0);
    expect(scratch, "rm r.jsonl; $L run spec.json --out r.jsonl", 0, "3 ok, 3 oom");
    expect(scratch, "$L run spec.json --out r.jsonl", 0, "nothing left to do");
    expect(scratch, "grep -v '\"status\":\"oom\"' r.jsonl > ok; mv ok r.jsonl; $L run spec.json --out r.jsonl", 0,
           "3 of 3 trials done: 3 oom");
    // A device that is not there: one message, and no trial is tried.
    expect(scratch,
           "rm r.jsonl; LONGBP_CUDA=/no/such $L run spec.json --out r.jsonl --axis device=cuda --axis behaviour=ok",
           2, "none of the 3 trials can be measured here: device cuda could not be loaded: /no/such");
    assert_int_equal(line_count(scratch, "err"), 1);
    expect(scratch, "test -e r.jsonl", 1, NULL); // nor is a file made, or one moved away
    expect(scratch,
           "echo {} > r.jsonl; LONGBP_CUDA=/no/such $L run spec.json --out r.jsonl --fresh --axis device=cuda", 2,
           "can be measured here");
    expect(
        scratch,
        "LONGBP_CUDA=/no/such $L run spec.json --out n.jsonl --axis device=cuda --against $L --against-out a.jsonl",
        2, "can be measured here");
    expect(scratch,
           "test -s r.jsonl && test ! -e r.jsonl.bak && test ! -e n.jsonl && test ! -e a.jsonl && rm r.jsonl", 0,
           NULL);
    // Some that can be are enough: the others' records say why they are not.
    expect(scratch,
           "LONGBP_CUDA=/no/such $L run spec.json --out r.jsonl --axis device=cuda,cpu --axis behaviour=ok", 0,
           "3 ok, 3 unsupported");
    // A comparison of two builds needs both.
    expect(scratch,
           "printf '#!/bin/sh\\ntest \"$1\" = --version && echo longbp 0; exec false\\n' > other && chmod +x "
           "other; rm r.jsonl; "
           "$L run spec.json --out r.jsonl --against ./other --against-out o.jsonl",
           1, "none of the 6 trials is ok: o.jsonl tells why of each");
}

#define MIXED                                                                                                      \
    "{'experiment': 'm', 'model': {'layers': 1, 'width': 8, 'heads': 2, 'ffn': 8, 'vocab': 11},"                   \
    " 'measure': {'warmup': 0, 'samples': 1, 'gradient': 'none'},"                                                 \
    " 'axes': {'context': [8, 32], 'method': ['full', {'name': 'spaco', 'chunk': 8, 'budget': 2}]}}"

// A trial's list entry has its exact bytes, with a profile its seconds, or that it would not fit.
static void the_list_says_what_trials_take(void **state)
{
    struct scratch *scratch = *state;
    static const char spec[] =
        "{'experiment': 'listed', 'model': 'tiny', 'device': 'plan', 'limits': {'memory': '16MiB'}, "
        "'axes': {'method': ['full'], 'context': [64, 4096]}}";
    char *json = quoted(spec);
    scratch_file(scratch, "spec.json", json, strlen(json));
    free(json);
    expect(scratch,
           "$L run spec.json --list > list; $L run spec.json --out r.jsonl && $L report r.jsonl --format json "
           "--columns peak_bytes > peak; grep -q 'context 4096.*; oom$' list && grep 'context 64,.* MiB$' list",
           0, NULL);
    expect(
        scratch,
        "$L run spec.json --list --json | grep '\"context\":64,' | sed 's/.*\"peak_bytes\":\\([0-9]*\\),.*/\\1/' "
        "| grep -qf - peak",
        0, NULL);
    expect(scratch,
           "$L run spec.json --list --profile rtx-3090 | grep -q 'context 64,.*; [0-9.]* MiB, a step .* s$'", 0,
           NULL);
    expect(scratch,
           "step() { $L \"$@\" --json --profile rtx-3090 | sed -n 's/.*\"\\(step\\|estimate\\)_ms\": "
           "*\\([0-9.]*\\).*/\\2/p' | "
           "cut -c 1-12 | head -1; }; listed=$(step run spec.json --list) && test \"$listed\" && "
           "test $listed = $(step plan --model tiny --context 64 --method full)",
           0, NULL);
}

// Method auto has its choice's values; stages have those of the largest one.
static void the_list_knows_choices_and_stages(void **state)
{
    struct scratch *scratch = *state;
    char *json =
        quoted("{'experiment': 'listed', 'model': 'tiny', 'device': 'plan', 'batch': 2, 'axes': {'context': [64, "
               "256], 'method': ['auto', {'name': 'seco', 'chunk': 16}], 'parallel': [{'stage': 1}, {'stage': 2}, "
               "{'data': 2, 'stage': 4}]}}");
    scratch_file(scratch, "spec.json", json, strlen(json));
    free(json);
    expect(
        scratch,
        "$L run spec.json --list --json > list; $L run spec.json --quiet --out r.jsonl > table; for file in list "
        "r.jsonl; do grep -o '\"peak_bytes\":[0-9]*,' $file > $file.peaks; done; test $(wc -l < list.peaks) = 12 "
        "&& "
        "cmp list.peaks r.jsonl.peaks",
        0, NULL);
}

// One that cannot be is a record, and does not keep the others from being measured.
static void a_trial_that_cannot_be_is_unsupported(void **state)
{
    struct scratch *scratch = *state;
    char *json = quoted(MIXED);
    scratch_file(scratch, "spec.json", json, strlen(json));
    free(json);
    expect(scratch, "$L run spec.json --list", 0, NULL);
    assert_says(scratch, "out", "; unsupported: method \"spaco\" at context 8: budget 2 is larger than");
    expect(scratch, "$L run spec.json --dry-run --out r.jsonl", 0, NULL);
    assert_says(scratch, "out",
                "4 trials to measure, 0 done; 1 are unsupported; how long steps take is predicted by");
    assert_says(scratch, "out", "\nunsupported, 1: method \"spaco\" at context 8: budget 2 is larger than");
    expect(scratch, "test ! -e r.jsonl", 0, NULL);
    expect(scratch, "$L run spec.json --out r.jsonl", 0, "4 of 4 trials done: 3 ok, 1 unsupported");
    expect(scratch, "grep -c '\"reason\":\"method ..spaco.. at context 8: budget 2' r.jsonl", 0, NULL);
    expect(scratch, "$L run spec.json --out r.jsonl", 0, "nothing left to do");
    expect(scratch, "$L run spec.json --dry-run --out r.jsonl", 0, NULL);
    assert_says(scratch, "out", "0 trials to measure, 4 done\n");
    expect(scratch, "$L run spec.json --dry-run --retry --out r.jsonl", 0, NULL);
    assert_says(scratch, "out", "1 trials to measure, 3 done; 1 are unsupported");
    expect(scratch, "$L run spec.json --out r.jsonl --axis method=spaco --axis context=8", 2, "spec.json:1:");
}

// Predicted bytes are those that are then measured; seconds need a profile, and are of warm-up and samples.
static void a_dry_run_says_what_it_would_take(void **state)
{
    struct scratch *scratch = *state;
    char *json = quoted(MIXED);
    scratch_file(scratch, "spec.json", json, strlen(json));
    free(json);
    expect(
        scratch,
        "$L run spec.json --axis method=full --dry-run --out r.jsonl | tr -s ' ' | grep -o '[0-9.]* [KM]iB' > "
        "planned;"
        "$L run spec.json --axis method=full --out r.jsonl > table && tr -s ' ' < table | grep -o '[0-9.]* [KM]iB' "
        "> measured; test $(wc -l < planned) = 2 && cmp planned measured",
        0, NULL);
    expect(scratch, "$L run spec.json --axis method=full --dry-run --out n.jsonl --profile rtx-3090", 0, NULL);
    assert_says(scratch, "out", " s of steps in 2 of them, predicted\n");
    assert_says(scratch, "err", "longbp: profile rtx-3090 describes a card, but trials run on the CPU");
    expect(scratch, "$L run spec.json --list --axis dtype=f32,bf16 --axis device=plan --profile rtx-3090", 0,
           "longbp: profile rtx-3090 describes a card, but trials are planned as on the CPU");
    assert_int_equal(line_count(scratch, "err"), 1);
    expect(scratch, "$L run spec.json --list --axis dtype=bf16 --axis device=plan --profile rtx-3090", 0, NULL);
    assert_int_equal(line_count(scratch, "err"), 0);
    expect(scratch, "$L run spec.json --axis method=full --dry-run --out n.jsonl --memory-limit 1KiB", 0, NULL);
    assert_says(scratch, "out", "; 2 would run out of memory");
    expect(scratch, "$L run spec.json --dry-run --list", 2, "--dry-run lists");
    expect(scratch, "$L run spec.json --list --against $L", 2, "--list measures nothing");
}

// Trials that differ in their objective look it.
static void a_line_says_the_objective(void **state)
{
    struct scratch *scratch = *state;
    write_spec(scratch, "'ok'", 0);
    expect(scratch,
           "$L run spec.json --axis objective=token-mean,dft --list > list && "
           "test $(grep -c ', objective dft, ' list) = 3 && test $(grep -vc dft list) = 3",
           0, NULL);
}

static void old_results_move_to_a_name_that_is_free(void **state)
{
    struct scratch *scratch = *state;
    write_spec(scratch, "'ok'", 0);
    // Behind a link the results stay where they are, and so does the link.
    expect(scratch, "mkdir disk; ln -s disk/r.jsonl r.jsonl; $L run spec.json --out r.jsonl && cp disk/r.jsonl old",
           0, NULL);
    expect(scratch, "$L run spec.json --out r.jsonl --fresh && test -L r.jsonl && cmp disk/r.jsonl.bak old", 0,
           NULL);
    expect_records(scratch, TRIALS);
    // Only regular files are replaced.
    expect(scratch, "rm disk/r.jsonl.bak; mkfifo disk/r.jsonl.bak; $L run spec.json --out r.jsonl --fresh", 2,
           "r.jsonl: cannot move it to disk/r.jsonl.bak: File exists");
    expect(scratch, "test -p disk/r.jsonl.bak", 0, NULL);
    expect_records(scratch, TRIALS);
}

static void quiet_and_verbose(void **state)
{
    struct scratch *scratch = *state;
    write_spec(scratch, "['ok', 'crash']", 0);
    expect(scratch, "$L run spec.json --out r.jsonl --axis behaviour=ok --quiet", 0, NULL);
    assert_int_equal(line_count(scratch, "err"), 0);
    assert_says(scratch, "out", "null"); // the table is what was asked for
    expect(scratch, "$L run spec.json --out r.jsonl --axis behaviour=ok --quiet", 0, NULL);
    assert_int_equal(line_count(scratch, "err"), 0);
    expect(scratch, "$L run spec.json --out r.jsonl --quiet", 1, "crash");
    assert_int_equal(line_count(scratch, "err"), TRIALS); // those that crashed
    expect(scratch, "$L run spec.json --out all.jsonl --verbose 2> said; code=$?; cat said >&2; exit $code", 1,
           "[1/6] begins, id ");
    assert_int_equal(line_count(scratch, "err"), 2 * 2 * TRIALS + 1);
    expect(scratch,
           "for id in $($L run spec.json --list | cut -d ' ' -f 1); do grep -q \"begins, id $id: \" said || exit "
           "1; done",
           0, NULL);
}

// A weight that is no number makes no step that is ok, whether its gradient is checked or not.
static void a_step_without_a_loss_has_failed(void **state)
{
    const struct scratch *scratch = *state;
    static const char spec[] = "{\"experiment\": \"e\", \"model\": \"m\", \"axes\": {\"context\": [16], "
                               "\"method\": [\"full\", \"forward\"]}, "
                               "\"measure\": {\"samples\": 1, \"gradient\": \"none\"}}";
    scratch_file(scratch, "spec.json", spec, sizeof spec - 1);
    expect(scratch,
           "$L init --model tiny --out m && printf '\\0\\0\\300\\177' | "
           "dd of=m/model.safetensors bs=1 seek=$(($(wc -c < m/model.safetensors) - 4)) conv=notrunc",
           0, NULL);
    expect(scratch, "$L run spec.json --out n.jsonl", 1, "2 failed");
    assert_says(scratch, "n.jsonl", "\"reason\":\"the loss is not finite: a weight is not");
    expect(scratch, "$L grad --model m --context 16 --out g", 1, "the loss is not finite: a weight is not");
    // Nor is one that predicts nothing, of which 0 would be the mean.
    expect(scratch,
           "sed 's/\"m\"/\"tiny\"/' spec.json > t.json && $L run t.json --axis context=1 --axis method=full --out "
           "o.jsonl",
           1, "1 unsupported");
    assert_says(
        scratch, "o.jsonl",
        "\"status\":\"unsupported\",\"reason\":\"no token has a next one to predict, so there is no loss: ");
    expect(scratch, "$L grad --model tiny --context 1 --out g", 2, "no token has a next one to predict");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(own_specs_come_first, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(options_stand_behind_arguments, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_step_may_end_after_the_limit, scratch_setup, scratch_teardown),
        TEST(a_trial_is_named_by_how_its_id_begins),
        TEST(what_would_do_nothing_is_refused),
        TEST(repeated_lines_are_no_rounds),
        TEST(streams_that_are_closed_hold_no_records),
        TEST(files_that_are_not_results_are_left_alone),
        TEST(a_torn_record_is_cut_wherever_it_ends),
        TEST(results_that_go_away_are_missed),
        TEST(a_sweep_without_a_result_is_no_success),
        TEST(old_results_move_to_a_name_that_is_free),
        TEST(a_line_says_the_objective),
        TEST(the_list_says_what_trials_take),
        TEST(the_list_knows_choices_and_stages),
        TEST(a_trial_that_cannot_be_is_unsupported),
        TEST(a_dry_run_says_what_it_would_take),
        TEST(quiet_and_verbose),
        TEST(a_step_without_a_loss_has_failed),
    };
    return cmocka_run_group_tests_name("run_command", tests, NULL, NULL);
}
