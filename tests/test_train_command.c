// `longbp train` in its own process: a run that is killed, interrupted or out of room resumes with the same bits;
// its output can be read again; errors are reported.
#define _GNU_SOURCE // asprintf
#include "harness/folder/folder.h"
#include "tests/program.h"
#include "tests/sanitized.h"
#include "tests/trained_text.h"
#include "tests/written_batch.h"
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>

#define STEPS 10
#define TRAIN                                                                                                      \
    "$L train --model tiny --tokens text --context 12 --method streambp --chunk 5 --steps 10 --accumulate 2 "      \
    "--shuffle 3 --schedule cosine --warmup 2 --clip 5 --held-out 0.1 --evaluate-every 4 "

// Length of a run to interrupt: on a busy machine a test may look late.
#define LONG_STEPS 40
#define LONG_TRAIN TRAIN "--steps 40 "

// The lines of steps.jsonl without their times.
static char *steps_of(const struct scratch *scratch, const char *name)
{
    char *text = text_of(scratch, name), *rest = text, *line;
    json_t *all = json_array();
    while ((line = strsep(&rest, "\n")) && *line) {
        json_t *json = json_loads(line, 0, NULL);
        if (!json)
            fail_msg("%s: %s", name, line);
        json_object_del(json, "ms");
        json_object_del(json, "tokens_per_s");
        json_array_append_new(all, json);
    }
    char *steps = json_dumps(all, JSON_COMPACT);
    assert_non_null(steps);
    json_decref(all);
    free(text);
    return steps;
}

// Both runs have the same first `last` steps and the same results.
static void assert_same_run(const struct scratch *scratch, const char *weights, int last)
{
    char *whole = steps_of(scratch, "whole/steps.jsonl"), *again = steps_of(scratch, "again/steps.jsonl"), *command;
    assert_string_equal(whole, again);
    char optimizer[60];
    snprintf(optimizer, sizeof optimizer, "checkpoint-%06d/optimizer.safetensors", last);
    const char *const files[] = {optimizer, "training.json", weights};
    for (size_t i = 0; i < 3; i++) {
        const char *file = files[i];
        assert_true(asprintf(&command, "cmp whole/%s again/%s", file, file) > 0);
        assert_int_equal(run(scratch, command), 0);
        free(command);
    }
    free(whole);
    free(again);
}

// Killed while steps are taken, while a checkpoint is written, and while the weights are: the moments differ.
static void check_killed(const struct scratch *scratch, const char *train, const char *options, const char *weights)
{
    char *command, *resume;
    assert_true(asprintf(&command, "%s%s --checkpoint 1 --out whole", train, options) > 0);
    assert_true(asprintf(&resume, "exec %s%s --checkpoint 1 --out again --resume", train, options) > 0);
    assert_int_equal(run(scratch, command), 0);
    for (size_t kills = 0; kills < (exhaustive() ? 5 : 3); kills++) {
        size_t lines = line_count(scratch, "again/steps.jsonl");
        pid_t training = start(scratch, resume);
        for (int tries = 0; kills > 0 && line_count(scratch, "again/steps.jsonl") <= lines; tries++) {
            assert_true(tries < 4000);
            pause_ms(2);
        }
        pause_ms(4 * (long)kills); // each time a little further
        kill(training, SIGKILL);
        assert_int_equal(finish(training), 128 + SIGKILL);
    }
    assert_int_equal(run(scratch, resume), 0);
    assert_same_run(scratch, weights, STEPS);
    assert_int_equal(run(scratch, resume), 0);
    assert_says(scratch, "err", "nothing left to do: all 10 steps are done");
    assert_int_equal(run(scratch, "ls again | grep -c checkpoint"), 0);
    assert_says(scratch, "out", "1\n");
    assert_int_equal(run(scratch, "ls -a again again/* | grep -E 'unfinished|tmp'"), 1); // nothing is left behind
    free(resume);
    free(command);
}

static void killed_again_and_again_ends_with_the_same_bits(void **state)
{
    struct scratch *scratch = *state;
    write_text(scratch);
    check_killed(scratch, TRAIN, "--dtype f64", "model.safetensors");
}

static void projectors_go_on_too(void **state)
{
    struct scratch *scratch = *state;
    write_text(scratch);
    check_killed(scratch, TRAIN, "--dtype bf16 --optimizer natural-galore,rank=3,sums=projected,history=3 --clip 0",
                 "model.safetensors");
}

// Two files of two pairs of three tokens, in a folder.
static void write_pairs(const struct scratch *scratch)
{
    struct written_tensor tensors[] = {
        {"ids", "I32", "[4,2]", {1, 2, 1, 3, 4, 5, 4, 6}, 8},
        {"labels", "I32", "[4,2]", {-100, 7, 8, 9, 10, 11, 12, 13}, 8},
    };
    assert_int_equal(run(scratch, "mkdir -p pairs"), 0);
    written_batch(scratch, "pairs/1.safetensors", tensors, 2);
    tensors[0].values[1] = 14;
    written_batch(scratch, "pairs/2.safetensors", tensors, 2);
}

#define PAIRS                                                                                                      \
    "$L train --model tiny --batch pairs --sequences 2 --objective dpo --method seco --chunk 1 --steps 10 "        \
    "--accumulate 2 --shuffle 3 --held-out 0.25 --evaluate-every 4 --dtype f64 "                                   \
    "--lora r=2,targets=q,v --reference adapter-off "

static void pairs_go_on_too(void **state)
{
    struct scratch *scratch = *state;
    write_pairs(scratch);
    check_killed(scratch, PAIRS, "", "adapter_model.safetensors");
    char *steps = steps_of(scratch, "again/steps.jsonl");                // what the objective has, and nothing else
    assert_non_null(strstr(steps, ",\"margin\":0.0,\"accuracy\":0.0}")); // the adapter begins as nothing
    assert_non_null(strstr(steps, "\"evaluation_accuracy\":"));
    assert_null(strstr(steps, "clip_low"));
    free(steps);
}

static void adapter_goes_on_too(void **state)
{
    struct scratch *scratch = *state;
    write_text(scratch);
    check_killed(scratch, TRAIN, "--lora r=2,alpha=4,targets=q,down --dtype bf16 --device cpu --offload optimizer",
                 "adapter_model.safetensors");
}

// Two micro-batches of twelve tokens are a step.
static void check_rates(const struct scratch *scratch, const char *name)
{
    char *text = text_of(scratch, name), *rest = text, *line;
    size_t steps = 0;
    while ((line = strsep(&rest, "\n")) && *line) {
        json_t *json = json_loads(line, 0, NULL);
        double ms = json_number_value(json_object_get(json, "ms"));
        if (ms > 0) {
            double tokens = json_number_value(json_object_get(json, "tokens_per_s")) * ms / 1e3;
            assert_true(tokens > 23 && tokens < 25);
            steps++;
        }
        json_decref(json);
    }
    assert_int_equal(steps, LONG_STEPS);
    free(text);
}

static void interrupt_leaves_a_checkpoint(void **state)
{
    struct scratch *scratch = *state;
    write_text(scratch);
    assert_int_equal(run(scratch, LONG_TRAIN "--checkpoint 10 --out whole"), 0);
    check_rates(scratch, "whole/steps.jsonl");
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < 3; i++) {
        signal(signals[i], SIG_DFL); // what is ignored here, as under nohup, train ignores too
        size_t lines = line_count(scratch, "again/steps.jsonl");
        pid_t training = start(scratch, "exec " LONG_TRAIN "--checkpoint 10 --out again --resume");
        for (int tries = 0; line_count(scratch, "again/steps.jsonl") < lines + 2; tries++) {
            assert_true(tries < 1000);
            pause_ms(5);
        }
        kill(training, signals[i]);
        assert_int_equal(finish(training), 130);
        assert_says(scratch, "err", "again: stopped; the same command with --resume goes on after step ");
    }
    assert_int_equal(run(scratch, LONG_TRAIN "--checkpoint 10 --out again --resume"), 0);
    assert_same_run(scratch, "model.safetensors", LONG_STEPS);
}

// Ignored signals, as under nohup, stay ignored.
static void an_ignored_signal_ends_nothing(void **state)
{
    struct scratch *scratch = *state;
    write_text(scratch);
    pid_t training = start(scratch, "trap '' HUP; exec " LONG_TRAIN "--out ignored");
    for (int tries = 0; line_count(scratch, "ignored/steps.jsonl") < 2; tries++) {
        assert_true(tries < 1000);
        pause_ms(5);
    }
    kill(training, SIGHUP);
    assert_int_equal(finish(training), 0);
}

// A second signal ends the program at once, as itself and nothing worse: no thread that computes handles signals.
static void second_interrupt_ends_it(void **state)
{
    struct scratch *scratch = *state;
    write_text(scratch);
    for (size_t i = 0; i < (exhaustive() ? 12 : 4); i++) {
        assert_int_equal(run(scratch, "rm -rf twice"), 0);
        pid_t training = start(scratch, "exec " TRAIN "--checkpoint 10 --out twice");
        for (int tries = 0; line_count(scratch, "twice/steps.jsonl") < 2; tries++) {
            assert_true(tries < 1000);
            pause_ms(5);
        }
        kill(training, SIGINT);
        kill(training, i % 2 ? SIGTERM : SIGINT);
        int status;
        assert_int_equal(waitpid(training, &status, 0), training);
        if (WIFEXITED(status) ? WEXITSTATUS(status) != 130 && WEXITSTATUS(status) != 0
                              : WTERMSIG(status) != SIGINT && WTERMSIG(status) != SIGTERM)
            fail_msg("ended by status %d: %s", status, text_of(scratch, "err"));
    }
}

// Nobody reads the steps, or they cannot be written.
static void steps_that_go_nowhere_stop_it(void **state)
{
    struct scratch *scratch = *state;
    write_text(scratch);
    assert_int_equal(
        run(scratch, TRAIN "--out again | head -n 1 > first; test -s first && ls again | grep checkpoint-"), 0);
    assert_says(scratch, "err", "again: stopped; the same command with --resume goes on after step ");
    assert_int_equal(run(scratch, TRAIN "--out full > /dev/full"), 2);
    assert_says(scratch, "err", "cannot write to stdout: No space left on device");
}

// A limit on the size of files stands in for a disk that is full: weights take 3 MiB.
static void full_disk_loses_nothing(void **state)
{
    struct scratch *scratch = *state;
    write_text(scratch);
    assert_int_equal(run(scratch, TRAIN "--checkpoint 4 --out whole"), 0);
    assert_int_equal(run(scratch, "trap '' XFSZ; ulimit -f 1000; " TRAIN "--checkpoint 4 --out again"), 2);
    assert_says(scratch, "err", "File too large");
    assert_int_equal(run(scratch, "ls again | grep checkpoint"), 1);
    assert_int_equal(line_count(scratch, "again/steps.jsonl"), 6); // the steps before, and two evaluations
    assert_int_equal(run(scratch, TRAIN "--checkpoint 4 --out again --resume"), 0);
    assert_int_equal(run(scratch, "cmp whole/model.safetensors again/model.safetensors"), 0);
    assert_int_equal(run(scratch, "ls again | grep tmp"), 1);
}

// One byte of each file of a checkpoint in turn, in its middle.
static void flipped_bytes_are_said(void **state)
{
    struct scratch *scratch = *state;
    static const char *const kinds[] = {"", "--lora r=2,targets=q,v "};
    write_text(scratch);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char command[1200];
        snprintf(command, sizeof command,
                 "rm -rf whole again && %s%s--checkpoint 4 --keep-checkpoints 2 --out whole && rm -f "
                 "whole/*.safetensors && "
                 "cd whole/checkpoint-000008 && ls | grep -c . && test -e checksums.xxh3",
                 TRAIN, kinds[i]);
        assert_int_equal(run(scratch, command), 0);
        snprintf(command, sizeof command,
                 "for f in $(ls whole/checkpoint-000008); do rm -rf again; cp -r whole again; "
                 "g=again/checkpoint-000008/$f; n=$(($(stat -c %%s $g) / 2)); b=$(od -An -tu1 -j $n -N 1 $g); "
                 "printf \"\\\\$(printf %%o $((b ^ 1)))\" | dd of=$g bs=1 seek=$n conv=notrunc 2>&1 | grep -q "
                 "copied || exit 5; %s%s--checkpoint 4 --keep-checkpoints 2 --out again --resume > said 2>&1 && "
                 "exit 6; grep -q \"again/checkpoint-000008/.*; remove again/checkpoint-000008, and --resume "
                 "continues from again/checkpoint-000004\" said || { cat said; exit 7; }; done",
                 TRAIN, kinds[i]);
        assert_int_equal(run(scratch, command), 0);
        // The remedy, and what an earlier version wrote.
        snprintf(command, sizeof command,
                 "%s%s--checkpoint 4 --out new && rm -r again/checkpoint-000008 && rm "
                 "again/checkpoint-000004/checksums.xxh3 && "
                 "%s%s--checkpoint 4 --keep-checkpoints 2 --out again --resume && for f in new/*.safetensors; do "
                 "cmp $f again/${f#new/} || exit 1; done; "
                 "rm -r new",
                 TRAIN, kinds[i], TRAIN, kinds[i]);
        assert_int_equal(run(scratch, command), 0);
        assert_says(scratch, "err", "again/checkpoint-000004: has no checksums.xxh3: an earlier version wrote it");
    }
}

// Tokens that are overwritten in place, and batch files, the second of a folder, while steps are taken.
static void data_written_to_ends_the_run(void **state)
{
    struct scratch *scratch = *state;
    write_text(scratch);
    assert_int_equal(run(scratch,
                         LONG_TRAIN "--checkpoint 10 --out whole | { n=0; while read -r line; do n=$((n + 1)); "
                                    "test $n = 3 && printf x | dd of=text conv=notrunc 2>/dev/null; done; }; test "
                                    "! -e whole/model.safetensors"),
                     0);
    assert_says(scratch, "err", "text: changed while it was read; with the old file --resume continues");
}

// The weights that were written are what another run, and a gradient, start from.
static void what_is_written_is_read(void **state)
{
    struct scratch *scratch = *state;
    write_text(scratch);
    assert_int_equal(run(scratch, TRAIN "--lora r=2,targets=q,v --out adapter"), 0);
    assert_int_equal(run(scratch, TRAIN "--out whole"), 0);
    assert_int_equal(run(scratch,
                         "$L grad --model whole --tokens text --context 12 --out g && "
                         "cp adapter/adapter_* whole && "
                         "$L grad --model whole --lora r=2,targets=q,v --tokens text --context 12 --out h"),
                     0);
    assert_int_equal(
        run(scratch, "$L grad --model whole --lora r=3,targets=q,v --tokens text --context 12 --out h"), 2);
    assert_says(scratch, "err", "key \"r\": expected 2, as the adapter in whole has it, or nothing, found 3");
}

struct refusal {
    const char *options, *message;
};

static void check_refusals(const struct scratch *scratch, const char *train, const struct refusal *refusals,
                           size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *command, *err;
        assert_true(asprintf(&command, "%s%s", train, refusals[i].options) > 0);
        int code = run(scratch, command);
        err = text_of(scratch, "err");
        if (code != 2 || !strstr(err, refusals[i].message))
            fail_msg("%s: exit code %d, expected \"%s\" in: %s", refusals[i].options, code, refusals[i].message,
                     err);
        free(err);
        free(command);
    }
}

// Errors of batch files, and of options with them.
static void wrong_files_are_said(void **state)
{
    struct scratch *scratch = *state;
    static const struct written_tensor blank[] = {
        {"ids", "I32", "[2,2]", {1, 2, 3, 4}, 4},
        {"labels", "I32", "[2,2]", {-100, -100, 7, 8}, 4},
    };
    static const struct written_tensor tail[] = {
        {"ids", "I32", "[2,2]", {1, 2, 3, 4}, 4},
        {"labels", "I32", "[2,2]", {7, 8, -100, -100}, 4},
    };
    static const struct written_tensor three[] = {
        {"ids", "I32", "[3,2]", {1, 2, 3, 4, 5, 6}, 6},
        {"labels", "I32", "[3,2]", {1, 2, 3, 4, 5, 6}, 6},
    };
    static const struct written_tensor wide[] = {
        {"ids", "I32", "[2,3]", {1, 2, 3, 4, 5, 6}, 6},
        {"labels", "I32", "[2,3]", {1, 2, 3, 4, 5, 256}, 6},
    };
    static const struct refusal refusals[] = {
        {"--batch pairs --objective dpo --reference file", "--sequences is missing"},
        {"--batch pairs --sequences 1 --objective dpo --reference file", "an even number"},
        {"--batch pairs --sequences 4 --objective dpo --reference file", "pairs/1.safetensors: has no tensor "
                                                                         "\"reference_logprobs\""},
        {"--batch pairs --sequences 4 --objective dpo --reference random", "random works in a single step only"},
        {"--batch pairs --sequences 2 --objective dpo --lora r=2 --optimizer bread-lora --reference adapter-off",
         "adapter-off takes as the reference"},
        {"--batch pairs --sequences 4 --objective grpo", "has no tensor \"advantages\""},
        {"--batch pairs --sequences 10",
         "pairs: only 8 sequences are left to train on, but a micro-batch takes 10"},
        {"--batch pairs --sequences 8 --held-out 0.5", "4 sequences are left to train on"},
        {"--batch pairs --sequences 4 --held-out 0.01", "0.01 of 8 sequences leaves none to evaluate"},
        {"--batch pairs --sequences 4 --context 3", "sequences of 2 tokens, but context is 3"},
        {"--batch pairs --sequences 4 --group 3", "no multiple of group 3"},
        {"--batch none --sequences 2", "key \"batch\": none: No such file"},
        {"--batch empty --sequences 2", "empty: holds no batch file, *.safetensors"},
        {"--batch mixed --sequences 2", "wide.safetensors: sequences of 3 tokens, but "},
        {"--batch three --sequences 2 --objective dpo --lora r=2", "three: has 3 sequences, no multiple of the 2"},
        {"--batch blank --sequences 1", "all labels of the 1 sequences of step 1 are -100"},
        {"--batch tail --sequences 1", "all labels of the 1 sequences of step 2 are -100"},
        {"--batch blank --sequences 2 --objective dpo --lora r=2 --reference adapter-off",
         "labels[0] are all -100"},
        {"--batch wide --sequences 1", "wide: labels[1, 2] is 256, expected -100 or 0 to 255"},
    };
    write_pairs(scratch);
    assert_int_equal(run(scratch, "mkdir empty mixed && cp pairs/1.safetensors mixed"), 0);
    written_batch(scratch, "blank", blank, 2);
    written_batch(scratch, "tail", tail, 2);
    written_batch(scratch, "three", three, 2);
    written_batch(scratch, "wide", wide, 2);
    assert_int_equal(run(scratch, "cp wide mixed/wide.safetensors"), 0);
    check_refusals(scratch, "$L train --model tiny --steps 3 --out new ", refusals,
                   sizeof refusals / sizeof *refusals);
    assert_int_equal(run(scratch, "ls new"), 2);
}

static void wrong_use_is_said(void **state)
{
    struct scratch *scratch = *state;
    static const struct refusal refusals[] = {
        {"--out whole", "whole: is there already, and not empty; --resume continues"},
        {"--out whole --resume --clip 4",
         "whole: the run was begun with train.clip 5.0, not 4.0; resume it as it was"},
        {"--out whole --resume --seed 2", "begun with seed 1, not 2"},
        {"--out whole --resume --chunk 6", "begun with method.chunk 5, not 6"},
        {"--out other", "other: is there already, and not empty\n"},
        {"--out other --resume", "other: holds no training run that could be resumed"},
        {"--out text", "text: cannot open the folder: Not a directory"},
        {"--out no/where", "no/where: cannot make the folder: No such file or directory"},
        {"--out new --tokens none", "none: No such file"},
        {"--out new --tokens empty", "empty: is empty"},
        {"--out new --context 601 --held-out 0 --evaluate-every 0", "no window of 601"},
        {"--out new --held-out 0.001", "0.001 of 50 windows of 12 tokens leaves none to evaluate"},
        {"--out new --held-out 1", "1 of 50 windows of 12 tokens leaves none to train on"},
        {"--out new --evaluate text", "cannot be combined with \"held_out\""},
        {"--out new --held-out 0 --evaluate short", "short: 3 tokens hold no window of 12"},
        {"--out new --steps 0", "key \"steps\": expected a whole number of steps >= 1"},
        {"--out new --min-lr-ratio 2", "key \"min_lr_ratio\""},
        {"--out new --schedule coseno", "unknown schedule \"coseno\"; did you mean \"cosine\""},
        {"--out new --optimizer adamw,when=backward", "key \"clip\": needs all gradients at once"},
        {"--out new --optimizer sgd,when=backward --clip 0", "key \"accumulate\": needs all gradients at once"},
        {"--out new --offload gradients", "key \"clip\": needs all gradients on the device"},
        {"--out new --objective weighted-mean", "\"weighted-mean\" needs more than tokens"},
        {"--out new --batch text", "--tokens and a batch file"},
        {"--out new --sequences 2", "--sequences needs a batch file"},
        {"--out new --group 2", "leave \"group\" out, or give \"data\" as {\"batch\": PATH}"},
        {"--out new --held-out 0", "key \"evaluate_every\": requires evaluation"},
        {"--out new --device plan", "--device plan-cpu does not train"},
        {"--out new --warmup 11", "key \"warmup\": is longer than the run of 10 steps"},
        {"--out new --schedule constant --min-lr-ratio 0.1", "key \"min_lr_ratio\": requires a decay"},
        {"--out new --checkpoint 11", "--checkpoint 11 would write none in 10 steps"},
        {"--out new --keep-checkpoints 2", "--keep-checkpoints 2 needs --checkpoint N"},
        {"--out new --keep-checkpoints 0", "--keep-checkpoints is a whole number >= 1"},
        {"--out new --keep 2", "keep"},
        {"--out new --token-dtype u8", "--token-dtype: unknown word \"u8\"; known words: bytes, u16, u32"},
        {"", ": --out is needed"},
    };
    write_text(scratch);
    scratch_file(scratch, "empty", "", 0);
    scratch_file(scratch, "short", "abc", 3);
    assert_int_equal(run(scratch, "mkdir other && touch other/thesis.tex && " TRAIN "--out whole"), 0);
    check_refusals(scratch, TRAIN, refusals, sizeof refusals / sizeof *refusals);
    assert_int_equal(run(scratch, "ls other"), 0);
    assert_says(scratch, "out", "thesis.tex\n");
    assert_int_equal(run(scratch, "printf x >> text; " TRAIN "--out whole --resume"), 2);
    assert_says(scratch, "err", "whole: the run was begun with data_bytes 600, not 601");
}

// A run of 6 steps goes on to 10, and is then the run of 10, under each schedule whose rates of the steps taken are
// the same; the finished weights and the evaluation at the end give way.
static void more_steps_go_on(void **state)
{
#define MORE TRAIN "--checkpoint 1 --keep-checkpoints 6 --dtype f64 "
    struct scratch *scratch = *state;
    static const char *const schedules[][2] = {
        {"--schedule constant", ""},
        {"--schedule constant --warmup 4", ""},
        {"--schedule constant --lora r=2,alpha=4,targets=q,v", ""},
        {"--schedule wsd --stable-steps 3 --decay-steps 8 --min-lr-ratio 0.1", ""}, // the decay begins before
        {"--schedule wsd --decay-steps 2", "rm -r again/checkpoint-000005 again/checkpoint-000006;"}};
    write_text(scratch);
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i += stride()) {
        const char *schedule = schedules[i][0];
        char command[1200];
        snprintf(command, sizeof command,
                 "rm -rf whole again; " MORE "%s --out whole && " MORE "%s --steps 6 --out again && %s " MORE
                 "%s --out again --resume",
                 schedule, schedule, schedules[i][1], schedule);
        if (run(scratch, command) != 0)
            fail_msg("%s: %s", schedule, text_of(scratch, "err"));
        assert_same_run(scratch, strstr(schedule, "lora") ? "adapter_model.safetensors" : "model.safetensors",
                        STEPS);
    }
}

// Experts go on, and the biases of their choice, which are f32 and which no gradient moves.
static void experts_go_on_too(void **state)
{
#define EXPERTS MORE "--model experts --schedule constant --dtype bf16 --router-bias-update 0.001 "
    struct scratch *scratch = *state;
    struct status status = {0};
    struct config config = *config_preset("tiny");
    const bool layers[CONFIG_KIND_LAYERS] = {[1] = true};
    config.layers = 2;
    config.experts = (struct experts){
        .routing =
            {.experts = 4, .chosen = 2, .score = ROUTER_SIGMOID, .normalised = true, .added = 1e-20, .scale = 1},
        .width = 16,
        .correction_bias = true};
    write_text(scratch);
    if (!config_set_mlp(&config, layers, MLP_EXPERTS) ||
        !folder_write(scratch_path(scratch, "experts").text, &config, 1, DTYPE_BF16, NULL, &status))
        fail_msg("%s", status.message);
    if (run(scratch,
            EXPERTS "--out whole && " EXPERTS "--steps 6 --out again && " EXPERTS "--out again --resume") != 0)
        fail_msg("%s", text_of(scratch, "err"));
    assert_same_run(scratch, "model.safetensors", STEPS);
}

// A longer run that is killed is not taken for finished by the weights of the shorter one.
static void weights_of_a_shorter_run_give_way(void **state)
{
    struct scratch *scratch = *state;
    write_text(scratch);
    assert_int_equal(run(scratch, TRAIN "--schedule constant --steps 2 --checkpoint 2 --out again"), 0);
    size_t lines = line_count(scratch, "again/steps.jsonl");
    pid_t training =
        start(scratch, "exec " TRAIN "--schedule constant --steps 100000 --checkpoint 2 --out again --resume");
    for (int tries = 0; line_count(scratch, "again/steps.jsonl") <= lines; tries++) {
        assert_true(tries < 4000);
        pause_ms(2);
    }
    kill(training, SIGKILL);
    assert_int_equal(finish(training), 128 + SIGKILL);
    assert_int_equal(
        run(scratch, "! ls again/model.safetensors && grep -q '\"steps\": 100000' again/training.json"), 0);
}

static void other_steps_are_refused_where_rates_would_differ(void **state)
{
    struct scratch *scratch = *state;
    static const struct refusal refusals[] = {
        {"--schedule cosine --out cosine", "cosine: step 4 was taken at 0.8536 of the rate, and in a run of 10 "
                                           "steps has 0.9619; resume with --steps 6, or "
                                           "choose another --out"},
        {"--schedule linear --out linear", "linear: step 4 was taken at 0.75 of the rate"},
        {"--schedule wsd --decay-steps 2 --out wsd", "wsd: step 6 was taken at 0.5 of the rate, and in a run of 10 "
                                                     "steps has 1; resume with --steps 6"},
        {"--schedule wsd --decay-steps 2 --out several",
         "has 1; remove the checkpoints after that of step 4, resume "
         "with --steps 6, or choose another --out"},
        {"--schedule constant --out constant --steps 5",
         "constant: 6 steps are done already; give --steps 7 or more"},
        {"--schedule constant --out none",
         "none: all 6 steps are done, and no checkpoint has the optimizer's state"},
    };
    write_text(scratch);
    assert_int_equal(run(scratch, "for s in cosine linear constant 'wsd --decay-steps 2'; do " TRAIN
                                  "--steps 6 --checkpoint 6 --schedule $s --out ${s%% *} || exit 1; done; " TRAIN
                                  "--steps 6 --schedule constant --out none && " TRAIN
                                  "--steps 6 --checkpoint 2 --keep-checkpoints 3 --schedule wsd --decay-steps 2 "
                                  "--out several && cp -r cosine kept"),
                     0);
    check_refusals(scratch, TRAIN "--resume ", refusals, sizeof refusals / sizeof *refusals);
    assert_int_equal(run(scratch, "diff -r cosine kept"), 0);
    assert_int_equal(run(scratch, "sed -i 's/\"steps\": 6/\"steps\": -6/' constant/training.json; " TRAIN
                                  "--schedule constant --out constant --resume"),
                     2);
    assert_says(scratch, "err", "constant: the run was begun with train.steps -6, not 10");
    // Steps beyond the last checkpoint are dropped.
    assert_int_equal(run(scratch, "rm -r cosine/checkpoint-* cosine/model.safetensors && " TRAIN
                                  "--schedule cosine --out cosine --resume && " TRAIN "--out whole && "
                                  "cmp cosine/model.safetensors whole/model.safetensors"),
                     0);
}

// Steps are data, of which the folder has the same; what is said is about how it goes.
static void quiet_and_verbose(void **state)
{
    struct scratch *scratch = *state;
    write_text(scratch);
    assert_int_equal(run(scratch, TRAIN "--out whole > steps && [ -s steps ]"), 0);
    assert_int_equal(run(scratch, TRAIN "--checkpoint 4 --out quiet --quiet"), 0);
    assert_int_equal(line_count(scratch, "out") + line_count(scratch, "err"), 0);
    assert_int_equal(run(scratch, TRAIN "--checkpoint 4 --out quiet --resume --quiet"), 0);
    assert_int_equal(line_count(scratch, "out") + line_count(scratch, "err"), 0);
    assert_int_equal(line_count(scratch, "quiet/steps.jsonl"), line_count(scratch, "steps"));
    assert_int_equal(run(scratch, TRAIN "--checkpoint 4 --out verbose --verbose"), 0);
    assert_int_equal(line_count(scratch, "out"), line_count(scratch, "steps"));
    assert_says(scratch, "err", "verbose: 10 steps of ");
    assert_says(scratch, "err",
                " before the first step\nverbose: checkpoint after step 4\nverbose: checkpoint after step 8\n");
}

// Each step reports the share of lost updates, where it is known.
static void lost_updates_are_said(void **state)
{
    const struct scratch *scratch = *state;
    write_text(scratch);
    assert_int_equal(run(scratch, TRAIN "--dtype bf16 --lost-updates --out lost"), 0);
    assert_says(scratch, "lost/steps.jsonl", "\"lost_updates\":0.");
    assert_says(scratch, "lost/steps.jsonl", "\"unchanged_weights\":0.");
    assert_int_equal(run(scratch, TRAIN "--lost-updates --out not"), 2);
    assert_says(scratch, "err", "--dtype bf16");
    assert_int_equal(run(scratch, TRAIN "--dtype bf16 --optimizer adam8bit --lost-updates --out not"), 2);
}

// Method auto goes on with what was chosen, and where that keeps what, although more would fit today.
static void a_choice_goes_on(void **state)
{
#define CHOSEN                                                                                                     \
    "$L train --model tiny --tokens text --context 256 --method auto --steps 3 --checkpoint 2 --host-memory "      \
    "40MiB "
    const struct scratch *scratch = *state;
    write_text(scratch);
    assert_int_equal(run(scratch, CHOSEN "--memory-limit 5850KiB --out whole"), 0);
    assert_says(scratch, "whole/training.json", "\"offload\": [\n");
    assert_int_equal(run(scratch, CHOSEN "--out more"), 0);
    assert_int_equal(run(scratch, "cmp whole/training.json more/training.json"), 1); // another choice
    assert_int_equal(
        run(scratch, "cp -r whole again && rm again/model.safetensors && " CHOSEN "--out again --resume"), 0);
    assert_says(scratch, "err", "again: going on after step 2 of 3");
    char *whole = steps_of(scratch, "whole/steps.jsonl"), *again = steps_of(scratch, "again/steps.jsonl");
    assert_string_equal(whole, again); // peaks, too
    free(whole);
    free(again);
    assert_int_equal(run(scratch, "cmp whole/training.json again/training.json && "
                                  "cmp whole/model.safetensors again/model.safetensors"),
                     0);
    // With no run to go on with it is chosen; and what is asked for otherwise is told.
    assert_int_equal(run(scratch, CHOSEN "--out new --resume && cmp more/training.json new/training.json"), 0);
    assert_int_equal(run(scratch, CHOSEN "--out whole --resume --offload optimizer"), 2);
    assert_says(scratch, "err", "whole: the run was begun with method.offload [");
}

// Two runs into one folder: the second is refused while the first one goes on.
static void one_run_at_a_time(void **state)
{
    struct scratch *scratch = *state;
    write_text(scratch);
    pid_t first = start(scratch, "exec " TRAIN "--steps 1000 --out whole");
    for (int tries = 0; line_count(scratch, "whole/steps.jsonl") < 1; tries++) {
        assert_true(tries < 1000);
        pause_ms(5);
    }
    assert_int_equal(run(scratch, TRAIN "--steps 1000 --out whole --resume"), 2);
    assert_says(scratch, "err", "whole: another process trains there");
    kill(first, SIGKILL);
    finish(first);
    // Those that are about to end, as ranks of a run that was killed are, are waited for.
    assert_int_equal(run(scratch, TRAIN "--steps 2 --out part"), 0);
    int folder = open(scratch_path(scratch, "part").text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder >= 0 && flock(folder, LOCK_EX | LOCK_NB) == 0);
    pid_t second = start(scratch, "exec " TRAIN "--steps 2 --out part --resume");
    pause_ms(500);
    close(folder);
    assert_int_equal(finish(second), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(killed_again_and_again_ends_with_the_same_bits, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(projectors_go_on_too, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(adapter_goes_on_too, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(pairs_go_on_too, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(flipped_bytes_are_said, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(data_written_to_ends_the_run, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(interrupt_leaves_a_checkpoint, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(an_ignored_signal_ends_nothing, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(second_interrupt_ends_it, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(steps_that_go_nowhere_stop_it, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(full_disk_loses_nothing, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(what_is_written_is_read, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(wrong_files_are_said, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(wrong_use_is_said, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(more_steps_go_on, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(experts_go_on_too, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(weights_of_a_shorter_run_give_way, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(other_steps_are_refused_where_rates_would_differ, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(quiet_and_verbose, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(lost_updates_are_said, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_choice_goes_on, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(one_run_at_a_time, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
