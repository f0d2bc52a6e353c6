// `longbp train` and specs with "train" over ranks, in their own processes: a killed run resumes with the same
// bits, from each rank's own part of a checkpoint; records have the curve of one rank and the bytes of the plan;
// impossible settings are refused.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/folder/folder.h"
#include "tests/program.h"
#include "tests/quoted.h"
#include "tests/records_of.h"
#include "tests/trained_text.h"
#include "tests/training_sequences.h"
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/file.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define TRAIN                                                                                                      \
    "$L train --model tiny --tokens text --context 12 --batch 3 --steps 8 --accumulate 2 --shuffle 3 --clip 5 "    \
    "--held-out 0.1 --evaluate-every 4 --optimizer adamw,rate=0.01 --quiet "

// Steps without their times.
#define STEPS(folder) "sed 's/\"ms\".*\"peak/\"peak/' " folder "/steps.jsonl"

// Until no process trains there.
static void wait_for_folder(const struct scratch *scratch, const char *name)
{
    int folder = open(scratch_path(scratch, name).text, O_RDONLY | O_DIRECTORY);
    assert_true(folder >= 0);
    for (int tries = 0; flock(folder, LOCK_EX | LOCK_NB) != 0; tries++) {
        assert_true(tries < 20000);
        pause_ms(2);
    }
    close(folder);
}

// parallel: the method's flags and the ranks'. parts: of a checkpoint.
static void check_killed(const struct scratch *scratch, const char *parallel, size_t max_kills, size_t parts)
{
    char whole[600], resume[600], same[600];
    assert_int_equal(run(scratch, "rm -rf files whole again && mkdir files"), 0);
    snprintf(whole, sizeof whole, TRAIN "%s --checkpoint 1 --out whole", parallel);
    snprintf(resume, sizeof resume,
             "export TMPDIR=$PWD/files; exec " TRAIN "%s --checkpoint 1 --out again --resume", parallel);
    assert_int_equal(run(scratch, whole), 0);
    for (size_t kills = 0; kills < max_kills; kills++) {
        size_t lines = line_count(scratch, "again/steps.jsonl");
        pid_t training = start(scratch, resume);
        for (int tries = 0; line_count(scratch, "again/steps.jsonl") <= lines + kills; tries++) {
            assert_true(tries < 20000);
            pause_ms(2);
        }
        kill(training, SIGKILL);
        assert_int_equal(finish(training), 128 + SIGKILL);
        wait_for_folder(scratch, "again"); // the launcher follows, and the ranks follow it
        assert_int_equal(run(scratch, "ls -d files/longbp-ranks-*/*"), 0);
    }
    assert_int_equal(run(scratch, resume), 0);
    assert_int_equal(run(scratch, "[ -z \"$(ls -A files)\" ]"), 0); // nor the files of those that were killed
    snprintf(same, sizeof same,
             STEPS("whole") " > 1 && " STEPS(
                 "again") " > 2 && cmp 1 2 && diff -r whole/checkpoint-000008 "
                          "again/checkpoint-000008 && cmp whole/model.safetensors again/model.safetensors && "
                          "[ $(ls whole/checkpoint-000008 | grep -c optimizer-0000.-of-0000.) = %zu ]",
             parts);
    if (run(scratch, same) != 0)
        fail_msg("%s: %s", parallel, same);
    assert_int_equal(run(scratch, resume), 0);
}

static void killed_runs_end_with_the_same_bits(void **state)
{
    const struct scratch *scratch = *state;
    write_text(scratch);
    check_killed(scratch, "--method streambp --chunk 5 --parallel data=2,zero=3", 1, 2);
    check_killed(scratch, "--method seco --chunk 5 --parallel stage=2,data=2", 1, 2); // of replicas one writes
}

// Whoever interrupts a run ends it as any program, and finds none of its ranks' files.
static void interrupted_runs_leave_nothing(void **state)
{
    const struct scratch *scratch = *state;
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1};
    write_text(scratch);
    for (size_t i = 0; i < COUNT(signals); i++) {
        signal(signals[i], SIG_DFL); // what is ignored here, as under nohup, train ignores too
        assert_int_equal(run(scratch, "rm -rf files cut && mkdir files"), 0);
        pid_t training =
            start(scratch, "export TMPDIR=$PWD/files; exec " TRAIN
                           "--method streambp --parallel data=2 --checkpoint 1 --out cut --steps 5000");
        for (int tries = 0; line_count(scratch, "cut/steps.jsonl") < 2; tries++) {
            assert_true(tries < 20000);
            pause_ms(2);
        }
        assert_int_equal(run(scratch, "ls -d files/longbp-ranks-*"), 0);
        kill(training, signals[i]);
        assert_int_equal(finish(training), 128 + signals[i]);
        if (run(scratch, "[ -z \"$(ls -A files)\" ]") != 0)
            fail_msg("signal %d: files are left", signals[i]);
    }
}

// The weights of a run are those of one rank.
static void weights_are_those_of_one_rank(void **state)
{
    const struct scratch *scratch = *state;
    write_text(scratch);
    assert_int_equal(run(scratch, "O='--method seco --chunk 5'; " TRAIN "$O --out 1 && " TRAIN
                                  "$O --parallel stage=3 --out 3 && cmp 1/model.safetensors 3/model.safetensors"),
                     0);
    assert_int_equal(run(scratch, "O='--method seco --chunk 5 --lora r=2'; " TRAIN "$O --out a && " TRAIN
                                  "$O --parallel stage=2 --out b && cmp a/adapter_model.safetensors "
                                  "b/adapter_model.safetensors && cmp a/adapter_config.json b/adapter_config.json"),
                     0);
}

// Two ranks with two sequences and one: a step's peak is that of the rank that took most, as planned.
static void the_peak_is_that_of_any_rank(void **state)
{
    const struct scratch *scratch = *state;
    write_text(scratch);
    assert_int_equal(run(scratch,
                         "O='--model tiny --context 12 --batch 3 --optimizer adamw --method streambp --chunk "
                         "5 --parallel data=2'; $L train $O --tokens text --steps 1 --quiet --out p && "
                         "$L plan $O --json >plan"),
                     0);
    char *line = text_of(scratch, "p/steps.jsonl"), *plan = text_of(scratch, "plan");
    json_t *step = json_loads(line, 0, NULL), *planned = json_loads(plan, 0, NULL);
    const json_t *of_ranks = json_object_get(json_object_get(planned, "ranks"), "peak_bytes");
    assert_true(json_integer_value(json_array_get(of_ranks, 0)) > json_integer_value(json_array_get(of_ranks, 1)));
    assert_true(json_equal(json_object_get(step, "peak_bytes"), json_array_get(of_ranks, 0)));
    json_decref(step);
    json_decref(planned);
    free(line);
    free(plan);
}

static const json_t *at(const json_t *record, const char *object, const char *key)
{
    return json_object_get(json_object_get(record, object), key);
}

static bool near(const json_t *a, const json_t *b)
{
    bool same = json_array_size(a) == json_array_size(b) && json_array_size(a) > 0;
    for (size_t i = 0; same && i < json_array_size(a); i++) {
        double x = json_number_value(json_array_get(a, i)), y = json_number_value(json_array_get(b, i));
        same = fabs(x - y) <= 1e-9 * fabs(y);
    }
    return same;
}

// The records of a sweep, spec in JSON written with ' for ", and of its plan.
static void run_and_plan(const struct scratch *scratch, const char *json, json_t **all, json_t **planned)
{
    char *spec = quoted(json);
    write_text(scratch);
    scratch_file(scratch, "spec.json", spec, strlen(spec));
    free(spec);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl && $L run spec.json --out p.jsonl --device plan"),
                     0);
    *all = records(scratch, "r.jsonl");
    *planned = records(scratch, "p.jsonl");
}

static void records_have_the_curve_of_one_rank(void **state)
{
    const struct scratch *scratch = *state;
    static const char spec[] =
        "{'experiment': 't', 'model': {'layers': 4, 'width': 24, 'heads': 4, 'kv_heads': 2, 'ffn': 40,"
        "'vocab': 256}, 'context': 20, 'dtype': 'f64', 'batch': 4, 'data': {'text': 'text'},"
        "'optimizer': 'adamw', 'train': {'steps': 5, 'accumulate': 2, 'clip': 0.5, 'held_out': 0.2,"
        "'evaluate_every': 2}, 'axes': {'method': [{'name': 'streambp', 'chunk': 7}, {'name': 'seco',"
        "'chunk': 7}], 'parallel': [{}, {'data': 3, 'zero': 3}, {'data': 2}, {'stage': 2}]}}";
    json_t *all, *planned;
    run_and_plan(scratch, spec, &all, &planned);
    assert_int_equal(json_array_size(all), 8);
    size_t ok = 0;
    for (size_t i = 0; i < 8; i++) {
        static const char *const curves[] = {"loss", "gradient_norm", "evaluation_loss"};
        static const char *const of_ranks[] = {"peak_bytes", "sent_bytes", "received_bytes", "messages"};
        const json_t *one = json_array_get(all, i / 4 * 4), *record = json_array_get(all, i);
        const json_t *plan = json_array_get(planned, i);
        if (strcmp(json_string_value(json_object_get(record, "status")), "ok") != 0)
            continue;
        ok++;
        for (size_t k = 0; k < COUNT(curves); k++)
            if (!near(at(record, "curve", curves[k]), at(one, "curve", curves[k])))
                fail_msg("record %zu: %s", i, curves[k]);
        for (size_t k = 0; i % 4 && k < COUNT(of_ranks); k++)
            if (!json_equal(at(record, "ranks", of_ranks[k]), at(plan, "ranks", of_ranks[k])))
                fail_msg("record %zu: %s is not as planned", i, of_ranks[k]);
        assert_true(json_equal(json_object_get(record, "peak_bytes"), json_object_get(plan, "peak_bytes")));
    }
    assert_int_equal(ok, 6); // streambp takes no stages, seco no gradients in shares
    json_decref(planned);
    json_decref(all);
}

// Groups with prompts of other lengths in each micro-batch: every rank's steps are as planned.
static void steps_of_files_are_as_planned(void **state)
{
    const struct scratch *scratch = *state;
    static const char *const same[] = {"peak_bytes", "flops", "bytes_moved", "launches"};
    static const char spec[] =
        "{'experiment': 't', " MODEL ", 'dtype': 'f64', 'data': {'batch': 'groups'}, 'batch': 4, 'group': 2,"
        "'objective': 'grpo', 'optimizer': 'adamw', 'train': {'steps': 4, 'accumulate': 2, 'shuffle': 3,"
        "'held_out': 0.34}, 'axes': {'method': ['full', {'name': 'seco', 'chunk': 5}],"
        "'parallel': [{'data': 2}, {'sequence': 2}, {'stage': 2}]}}";
    json_t *all, *planned;
    size_t ok = 0;
    write_file(scratch, "groups", GROUP, ALL, WITH_NUMBERS);
    run_and_plan(scratch, spec, &all, &planned);
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *record = json_array_get(all, i), *plan = json_array_get(planned, i);
        bool is_ok = strcmp(json_string_value(json_object_get(record, "status")), "ok") == 0;
        for (size_t k = 0; is_ok && k < COUNT(same); k++)
            if (!json_equal(json_object_get(record, same[k]), json_object_get(plan, same[k])))
                fail_msg("record %zu: %s is not as planned", i, same[k]);
        ok += is_ok;
    }
    assert_int_equal(ok, 4); // full takes no stages, seco no shares of sequences
    json_decref(planned);
    json_decref(all);
}

// Method auto over ranks trains as one rank does, by the choice that a plan makes and in its bytes.
static void a_choice_is_trained_with(void **state)
{
    const struct scratch *scratch = *state;
    static const char spec[] =
        "{'experiment': 't', 'model': {'layers': 4, 'width': 24, 'heads': 4, 'kv_heads': 2, 'ffn': 40,"
        "'vocab': 256}, 'context': 20, 'dtype': 'f64', 'batch': 4, 'data': {'text': 'text'},"
        "'optimizer': 'adamw', 'train': {'steps': 4, 'accumulate': 2, 'clip': 0.5}, 'method': 'auto',"
        "'limits': {'memory': '1240KiB', 'host_memory': '1MiB'}, 'axes': {'parallel': [{}, {'data': 2, 'zero': 2},"
        "{'sequence': 2}, {'sequence': 2, 'exchange': 'ring'}, {'sequence': 2, 'exchange': 'all-to-all'},"
        "{'data': 2, 'zero': 3, 'overlap': true}, {'sequence': 2, 'zero': 3, 'overlap': true}, {'stage': 2}]}}";
    json_t *all, *planned;
    run_and_plan(scratch, spec, &all, &planned);
    assert_int_equal(json_array_size(all), 8);
    for (size_t i = 0; i < 8; i++) {
        static const char *const same[] = {"chosen", "peak_bytes"};
        const json_t *record = json_array_get(all, i), *plan = json_array_get(planned, i);
        for (size_t k = 0; k < COUNT(same); k++)
            if (!json_equal(json_object_get(record, same[k]), json_object_get(plan, same[k])))
                fail_msg("record %zu: %s is not as planned", i, same[k]);
        if (!near(at(record, "curve", "loss"), at(json_array_get(all, 0), "curve", "loss")))
            fail_msg("record %zu: the losses are not those of one rank", i);
        assert_true(json_is_object(json_object_get(record, "chosen")));
    }
    json_decref(planned);
    json_decref(all);
    // A run says what it was begun with.
    assert_int_equal(run(scratch, TRAIN "--method auto --memory-limit 13MiB --parallel "
                                        "sequence=2,exchange=all-to-all --steps 2 --out chosen && "
                                        "grep '\"name\": \"full\"' chosen/training.json"),
                     0);
}

// A folder of a mixture.
static void write_experts(const struct scratch *scratch)
{
    struct status status = {0};
    struct config config = *config_preset("tiny");
    const bool layers[CONFIG_KIND_LAYERS] = {[1] = true};
    config.layers = 2;
    config.qk_norm = true;
    config.experts =
        (struct experts){.routing = {.experts = 4, .chosen = 2, .normalised = true, .scale = 1}, .width = 16};
    if (!config_set_mlp(&config, layers, MLP_EXPERTS) ||
        !folder_write(scratch_path(scratch, "experts").text, &config, 1, DTYPE_F64, NULL, &status))
        fail_msg("%s", status.message);
}

// Whether two files have the same header and f64 numbers that are near.
static bool weights_are_near(const struct scratch *scratch, const char *one, const char *other)
{
    size_t bytes[2];
    char *files[2] = {0};
    const char *names[] = {one, other};
    for (size_t i = 0; i < 2; i++) {
        FILE *file = fopen(scratch_path(scratch, names[i]).text, "rb");
        assert_non_null(file);
        fseek(file, 0, SEEK_END);
        bytes[i] = (size_t)ftell(file);
        rewind(file);
        assert_non_null(files[i] = malloc(bytes[i]));
        assert_int_equal(fread(files[i], 1, bytes[i], file), bytes[i]);
        fclose(file);
    }
    uint64_t header;
    memcpy(&header, files[0], sizeof header);
    header += sizeof header;
    bool same = bytes[0] == bytes[1] && memcmp(files[0], files[1], header) == 0;
    double difference = 0, norm = 0;
    for (size_t at = header; same && at < bytes[0]; at += sizeof(double)) {
        double a, b;
        memcpy(&a, files[0] + at, sizeof a);
        memcpy(&b, files[1] + at, sizeof b);
        difference += (a - b) * (a - b);
        norm += a * a;
    }
    free(files[0]);
    free(files[1]);
    return same && norm > 0 && difference < 1e-24 * norm;
}

// Ranks with some of the experts each read their own from a folder, train, evaluate and save as one rank does, and
// resume with the same bits.
static void experts_are_those_of_one_rank(void **state)
{
#define EXPERTS                                                                                                    \
    "$L train --model experts --tokens text --context 12 --batch 4 --steps 4 --accumulate 2 --clip 0.1 --quiet "   \
    "--held-out 0.1 --evaluate-windows 4 --evaluate-every 2 --optimizer adamw,rate=0.01 --dtype f64 "              \
    "--method streambp --chunk 5 --checkpoint 2 "
    const struct scratch *scratch = *state;
    static const char *const ranks[] = {"data=2,experts=2,zero=1", "data=4,experts=4,zero=3", "data=4,experts=2"};
    write_text(scratch);
    write_experts(scratch);
    assert_int_equal(run(scratch, EXPERTS "--out one"), 0);
    for (size_t i = 0; i < COUNT(ranks); i++) {
        char command[900];
        snprintf(command, sizeof command, "rm -rf some; " EXPERTS "--parallel %s --out some", ranks[i]);
        if (run(scratch, command) != 0)
            fail_msg("%s", text_of(scratch, "err"));
        if (!weights_are_near(scratch, "one/model.safetensors", "some/model.safetensors"))
            fail_msg("%s: the weights are not those of one rank", ranks[i]);
    }
    assert_int_equal(run(scratch, EXPERTS "--parallel data=4,experts=2 --steps 2 --out again && " EXPERTS
                                          "--parallel data=4,experts=2 --resume --out again && "
                                          "cmp some/model.safetensors again/model.safetensors"),
                     0);
    assert_true(run(scratch, EXPERTS "--evaluate-windows 3 --parallel data=2,experts=2 --out new") != 0);
    assert_says(scratch, "err", "3 sequences to evaluate do not divide by 2 data ranks that share the experts");
}

static void what_cannot_be_is_said(void **state)
{
    const struct scratch *scratch = *state;
    static const struct {
        const char *flags, *message;
    } cases[] = {
        {"--method streambp --parallel data=4", "the batch's sequences are 3, too few for 4 data ranks"},
        {"--method streambp --parallel stage=2", "streambp takes no stage ranks"},
        {"--method seco --parallel data=2,zero=2", "parallel.zero is at most 1"},
        {"--method full --parallel data=2 --optimizer galore --clip 0", "galore updates whole matrices"},
        {"--method full --parallel data=2,zero=1 --offload optimizer", "leave them out of offload"},
        {"--method full --parallel data=2 --launch 'no-such-program {ranks}'",
         "no-such-program: cannot be started"},
    };
    write_text(scratch);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char command[600];
        snprintf(command, sizeof command, TRAIN "%s --out new", cases[i].flags);
        assert_true(run(scratch, command) != 0);
        assert_says(scratch, "err", cases[i].message);
        assert_int_equal(run(scratch, "[ ! -e new ]"), 0);
    }
    // One rank's checkpoint is not two's.
    assert_int_equal(run(scratch, TRAIN "--method full --checkpoint 4 --out one"), 0);
    assert_int_equal(run(scratch, "rm one/model.safetensors; " TRAIN
                                  "--method full --checkpoint 4 --parallel data=2 --out one --resume"),
                     2);
    assert_says(scratch, "err", "parallel.data");
}

static void a_missing_transport_is_named(void **state)
{
    const struct scratch *scratch = *state;
    write_text(scratch);
    assert_int_equal(run(scratch, "LONGBP_MPI=/no/such.so " TRAIN "--method full --parallel data=2 --out new"), 2);
    assert_says(scratch, "err", "a trial over several ranks could not be loaded: /no/such.so");
}

int main(void)
{
    char plugin[4096];
    const struct CMUnitTest anywhere[] = {
        cmocka_unit_test_setup_teardown(a_missing_transport_is_named, scratch_setup, scratch_teardown)};
    const struct CMUnitTest with_mpi[] = {
        cmocka_unit_test_setup_teardown(killed_runs_end_with_the_same_bits, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(interrupted_runs_leave_nothing, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(weights_are_those_of_one_rank, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(the_peak_is_that_of_any_rank, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(records_have_the_curve_of_one_rank, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(steps_of_files_are_as_planned, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_choice_is_trained_with, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(experts_are_those_of_one_rank, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_is_said, scratch_setup, scratch_teardown)};
    const char *longbp = program();
    snprintf(plugin, sizeof plugin, "%.4000s-mpi.so", longbp);
    free((char *)longbp);
    bool have_mpi = access(plugin, F_OK) == 0;
    int failed = cmocka_run_group_tests(anywhere, NULL, NULL);
    if (!have_mpi) {
        printf("ranks: left out, there is no %s: it needs openmpi-bin and libopenmpi-dev\n", plugin);
        return failed;
    }
    return failed + cmocka_run_group_tests(with_mpi, NULL, NULL);
}
