// Sequences that share a prompt, from a trial's keys and files to the step: their rows, a step equal to that of
// the sequences one by one, planned bytes and FLOPs, and refusals. JSON is written with ' for ".
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/data/shared_prompt.h"
#include "harness/machine/environment.h"
#include "harness/step/setup.h"
#include "tests/fixture.h"
#include "tests/program.h"
#include "tests/trial_of.h"
#include "tests/written_batch.h"
#include <math.h>

#define GRAD "$L grad --model tiny --dtype f64"

// Four sequences of six tokens in groups of two. The first two share two tokens, for the third is predicted; the
// others three, of which one has no label at all.
static const int32_t sequences[] = {1, 2, 3, 4, 5, 6, 1, 2, 3, 9, 5, 6, 7, 8, 9, 1, 2, 3, 7, 8, 9, 2, 3, 4};
#define N (-100)
static const int32_t labels[] = {N, N, 4, 5, N, N, N, N, 9, N, 6, N, N, N, N, 2, N, N, N, N, N, N, N, N};

static struct batch_data sequences_of(size_t batch, size_t context, bool with_ids)
{
    size_t count = batch * context;
    struct batch_data data = {.batch = batch, .context = context};
    data.ids = with_ids ? malloc(sizeof sequences) : NULL;
    data.labels = malloc(sizeof labels);
    data.old_logprobs = malloc(count * sizeof(double));
    assert_true(data.labels && data.old_logprobs);
    if (data.ids)
        memcpy(data.ids, sequences, sizeof sequences);
    memcpy(data.labels, labels, sizeof labels);
    for (size_t i = 0; i < count; i++)
        data.old_logprobs[i] = 0.5 - (double)i;
    return data;
}

static void sequences_are_put_into_rows(void **state)
{
    (void)state;
    static const int32_t ids[] = {1, 2, 3, 4, 3, 9, 5, 7, 8, 9, 1, 0, 0, 0},
                         of[] = {-1, -1, 0, 0, 1, 1, 1, -1, -1, -1, 2, 3, 3, 3};
    static const int32_t targets[] = {N, N, 4, 5, 9, N, 6, N, N, N, 2, N, N, N};
    static const double old[] = {0.5, -0.5, -1.5, -2.5, -7.5, -8.5, -9.5, -11.5, -12.5, -13.5, -14.5, 0, 0, 0};
    for (int with_ids = 0; with_ids < 2; with_ids++) { // without them they are taken to be the same
        struct batch_data data = sequences_of(4, 6, with_ids);
        struct status status = {0};
        assert_true(shared_prompt_pack(&data, 2, "f", &status));
        assert_true(data.context == 7 && data.batch == 2 && data.sequences == 4);
        assert_memory_equal(data.labels, targets, sizeof targets);
        assert_memory_equal(data.of, of, sizeof of);
        assert_memory_equal(data.old_logprobs, old, sizeof old);
        assert_true(!with_ids == !data.ids && !data.weights);
        if (with_ids)
            assert_memory_equal(data.ids, ids, sizeof ids);
        batch_data_free(&data);
    }
    // One group of all four begins with no token in common.
    struct batch_data data = sequences_of(4, 6, true);
    struct status status = {0};
    assert_false(shared_prompt_pack(&data, 4, "f", &status));
    assert_string_equal(status.message,
                        "f: ids[2, 0] is 7, but ids[0, 0] is 1: sequences 0 to 3 are one group and must begin with "
                        "the same prompt; set \"group\" to the number of sequences that share one");
    batch_data_free(&data);
}

// Result of a trial's step on a device.
struct outcome {
    double loss, *gradients;
    size_t gradient_count, context, batch;
    struct arena arena;
    struct counters counters;
};

static struct outcome step_of(const struct trial *trial, const char *device, bool apart)
{
    struct outcome outcome = {0};
    struct setup setup;
    struct step_report report = {0};
    struct status status = {0};
    struct setup_options options = setup_options_of(trial);
    options.device = device;
    options.apart = apart;
    if (!setup_open(&setup, trial, &options, &status))
        fail_msg("%s", status.message);
    outcome.context = setup.batch.context;
    outcome.batch = setup.batch.batch;
    setup.device->counters = (struct counters){0};
    struct training_step step = setup_step(&setup, trial);
    training_step_take(&step, &report);
    assert_int_equal(setup.device->status.code, STATUS_OK);
    outcome.loss = report.sums.loss;
    outcome.arena = setup.device->arena;
    outcome.counters = setup.device->counters;
    for (size_t i = 0; i < setup.model.parameter_count && !setup.device->ops->dataless; i++) {
        struct tensor grad = setup.model.parameters[i].grad;
        size_t count = tensor_count(grad);
        outcome.gradients = realloc(outcome.gradients, (outcome.gradient_count + count + 1) * sizeof(double));
        assert_non_null(outcome.gradients);
        if (grad.data)
            tensor_read(setup.device, grad, outcome.gradients + outcome.gradient_count);
        outcome.gradient_count += grad.data ? count : 0;
    }
    step_report_free(&report);
    setup_close(&setup);
    return outcome;
}

static void check_trial(const char *json, size_t context, size_t batch)
{
    struct trial trial = trial_of(json);
    struct outcome shared = step_of(&trial, "cpu", false), apart = step_of(&trial, "cpu", true);
    struct outcome planned = step_of(&trial, "plan-cpu", false);
    assert_true(shared.context == context && shared.batch == batch);
    assert_true(apart.context == trial.context && apart.batch == trial.batch);
    assert_true(context == trial_row_tokens(&trial));
    double error = relative_l2(shared.gradients, apart.gradients, shared.gradient_count);
    bool exact = trial.method->exact;
    if (exact && (!(error <= 1e-13) || !(fabs(shared.loss - apart.loss) <= 1e-13 * fmax(1, fabs(apart.loss)))))
        fail_msg("%s: relative L2 %.2e, loss %.17g, apart %.17g", json, error, shared.loss, apart.loss);
    if (planned.arena.peak_bytes != shared.arena.peak_bytes ||
        memcmp(&planned.counters, &shared.counters, sizeof planned.counters) != 0)
        fail_msg("%s: planned %zu bytes and %.0f FLOPs, measured %zu and %.0f", json, planned.arena.peak_bytes,
                 planned.counters.flops, shared.arena.peak_bytes, shared.counters.flops);
    assert_true(shared.counters.flops < apart.counters.flops);
    assert_true(shared.arena.peak_bytes < apart.arena.peak_bytes);
    free(shared.gradients);
    free(apart.gradients);
    free(planned.gradients);
    trial_free(&trial);
}

// Random tokens under every objective of the table, method by method.
static void a_step_is_that_of_the_sequences_and_its_plan_knows_it(void **state)
{
    (void)state;
    for (const struct objective *const *o = objectives; *o; o++)
        for (const struct method *const *m = methods; *m; m++) {
            char json[600];
            bool drawn = (*m)->draw, chunked = option_find(&(*m)->options, "chunk");
            if (!(*m)->exact && !drawn)
                continue;
            snprintf(
                json, sizeof json,
                "{'model': {'layers': 2, 'width': 16, 'heads': 2, 'ffn': 24, 'vocab': 40}, 'dtype': 'f64', "
                "'batch': "
                "6, 'context': 20, 'prompt': 15, 'group': %d, 'objective': '%s', 'method': {'name': '%s'%s%s}}",
                o == objectives ? 6 : 2, (*o)->name, (*m)->name, chunked ? ", 'chunk': 6" : "",
                option_find(&(*m)->options, "budget") ? ", 'budget': 3, 'loss': 'all'"
                : drawn                               ? ", 'deferral': 1"
                                                      : "");
            // The prompt without its last token, and five tokens of each that predict one.
            check_trial(json, o == objectives ? 14 + 6 * 5 : 14 + 2 * 5, o == objectives ? 1 : 3);
        }
}

static const struct written_tensor file[] = {
    {"ids", "I64", "[2,4]", {3, 4, 5, 6, 3, 4, 7, 8}, 8},
    {"labels", "I64", "[2,4]", {-100, 5, 6, -100, -100, 7, -100, -100}, 8},
    {"reference_logprobs", "F64", "[2,4]", {0, -5, -6, 0, 0, -5, 0, 0}, 8},
    {"advantages", "F64", "[2]", {1, -0.5}, 2},
};

static double loss_of(const struct scratch *scratch, const char *flags)
{
    char command[400];
    snprintf(command, sizeof command, GRAD " --out g --batch batch %s", flags);
    assert_int_equal(run(scratch, command), 0);
    char *out = text_of(scratch, "out");
    double loss = strtod(strstr(out, "\"loss\": ") + 8, NULL);
    free(out);
    return loss;
}

static void a_batch_file_is_the_same_step_with_a_group(void **state)
{
    struct scratch *scratch = *state;
    static const char *const objectives_of[] = {"token-mean", "dpo", "grpo,beta=0.1", "sequence-mean"};
    written_batch(scratch, "batch", file, COUNT(file));
    for (size_t i = 0; i < COUNT(objectives_of); i++) {
        char flags[200];
        snprintf(flags, sizeof flags, "--objective %s --method seco --chunk 2", objectives_of[i]);
        double apart = loss_of(scratch, flags);
        snprintf(flags, sizeof flags, "--objective %s --method seco --chunk 2 --group 2", objectives_of[i]);
        double shared = loss_of(scratch, flags);
        assert_true(fabs(shared - apart) <= 1e-13 * fabs(apart));
    }
    // Held against the sequences one by one, and planned from the file alone.
    static const char spec[] =
        "{\"experiment\": \"t\", \"model\": \"tiny\", \"dtype\": \"f64\", \"data\": {\"batch\": \"batch\"}, "
        "\"objective\": \"dpo\", \"group\": 2, \"axes\": {\"method\": [\"full\", {\"name\": \"streambp\", "
        "\"chunk\": "
        "2}]}, \"measure\": {\"samples\": 1}}";
    scratch_file(scratch, "spec.json", spec, sizeof spec - 1);
    assert_int_equal(
        run(scratch, "$L run spec.json --out r.jsonl && test $(grep -c '\"status\": *\"ok\"' r.jsonl) = 2"), 0);
    assert_int_equal(run(scratch, "$L run spec.json --axis device=plan --out p.jsonl && "
                                  "test $(grep -c '\"status\": *\"ok\"' p.jsonl) = 2"),
                     0);
}

// A share is of the chunks of the rows that the prompts leave: of two sequences of four tokens that share one and
// need no last one, of five tokens in chunks of one.
static void a_share_is_of_the_chunks_of_the_rows(void **state)
{
    struct scratch *scratch = *state;
    struct written_tensor tensors[COUNT(file)];
    memcpy(tensors, file, sizeof file);
    tensors[1].values[6] = 8;
    written_batch(scratch, "batch", tensors, COUNT(tensors));
    static const struct {
        const char *share;
        int chunks;
    } cases[] = {{"100%", 5}, {"40%", 2}, {"25%", 1}};
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int planned = 0; planned < 2; planned++) {
            char spec[600], command[200];
            int bytes =
                snprintf(spec, sizeof spec,
                         "{\"experiment\": \"t\", \"model\": \"tiny\", \"dtype\": \"f64\", \"data\": {\"batch\": "
                         "\"batch\"}, \"group\": 2, \"device\": \"%s\", \"measure\": {\"samples\": 1}, \"axes\": "
                         "{\"method\": "
                         "[{\"name\": \"spaco\", \"chunk\": 1, \"budget\": \"%s\"}]}}",
                         planned ? "plan" : "cpu", cases[i].share);
            scratch_file(scratch, "share.json", spec, (size_t)bytes);
            snprintf(command, sizeof command,
                     "rm -f s.jsonl; $L run share.json --out s.jsonl && grep -q '\"status\": *\"ok\"' s.jsonl && "
                     "grep -q '\"budget\": *%d[,}]' s.jsonl",
                     cases[i].chunks);
            if (run(scratch, command) != 0)
                fail_msg("%s of the chunks are not %d", cases[i].share, cases[i].chunks);
            snprintf(
                command, sizeof command,
                "$L advise --model tiny --batch batch --group 2 --memory-limit 64MiB --methods spaco --chunk 1 "
                "--budget %s > advice && grep -q '^fastest .* budget=%d ' advice",
                cases[i].share, cases[i].chunks);
            if (run(scratch, command) != 0)
                fail_msg("advise: %s of the chunks are not %d", cases[i].share, cases[i].chunks);
        }
}

static void what_cannot_be_shared_is_said(void **state)
{
    struct scratch *scratch = *state;
    struct written_tensor odd[] = {file[0], file[1], {"ids", "I64", "[2,4]", {3, 4, 5, 6, 9, 4, 7, 8}, 8}};
    struct written_tensor cut[] = {file[0], file[1], {"documents", "I64", "[2,4]", {0, 0, 1, 1, 0, 0, 0, 0}, 8}};
    written_batch(scratch, "batch", file, COUNT(file));
    written_batch(scratch, "odd", odd, COUNT(odd));
    written_batch(scratch, "cut", cut, COUNT(cut));
    static const struct {
        const char *flags, *message;
    } cases[] = {
        {"--batch odd --group 2", "odd: ids[1, 0] is 9, but ids[0, 0] is 3: sequences 0 to 1 are one group"},
        {"--batch cut --group 2", "cut: has a tensor \"documents\", but sequences of a group share a prompt"},
        {"--batch batch --group 4", "key \"group\": a batch of 2 sequences is no multiple of group 4"},
        {"--batch batch --prompt 2", "key \"prompt\": the labels of batch mark where prompts end"},
        {"--batch 4 --context 8 --group 2", "key \"group\": requires a shared prompt"},
        {"--batch 4 --context 8 --group 2 --prompt 8", "key \"prompt\": leaves none of 8 tokens"},
        {"--batch 4 --context 8 --group 2 --prompt 4 --documents 4",
         "key \"group\": cannot be combined with \"documents\""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char command[400];
        snprintf(command, sizeof command, GRAD " --out g --method full %s", cases[i].flags);
        int code = run(scratch, command);
        char *err = text_of(scratch, "err");
        if (code != 2 || !strstr(err, cases[i].message))
            fail_msg("%s: exit %d, expected \"%s\", got \"%s\"", command, code, cases[i].message, err);
        free(err);
    }
    assert_int_equal(run(scratch, "$L train --model tiny --context 8 --steps 1 --group 2 --out t"), 2);
    // Each micro-batch's rows are of another length.
    assert_int_equal(run(scratch, "$L train --model tiny --batch batch --sequences 2 --group 2 --steps 1 --out t "
                                  "--optimizer sgd --method spaco --chunk 1 --budget 50%"),
                     2);
    char *err = text_of(scratch, "err");
    if (!strstr(err, "give a number instead of a share"))
        fail_msg("%s", err);
    free(err);
}

// The longest context that fits is longer by what a prompt takes once, and a batch grows by groups.
static void searches_know_what_is_walked(void **state)
{
    struct scratch *scratch = *state;
#define LIMITED(sought)                                                                                            \
    "--model tiny --memory-limit 24MiB --methods seco --json | grep -o '\"" sought "\":[0-9]*' > "
    // A chunk of so many rows either way: four sequences of 64 tokens, one of 256.
    assert_int_equal(
        run(scratch,
            "$L max-context --batch 4 --chunk 64 " LIMITED(
                "context") "apart && "
                           "$L max-context --batch 4 --chunk 256 --group 4 --prompt 256 " LIMITED(
                               "context") "shared && "
                                          "$L max-batch --context 512 --chunk 256 --group 4 --prompt 448 " LIMITED(
                                              "batch") "batch"),
        0);
    size_t found[3];
    static const char *const names[] = {"apart", "shared", "batch"};
    for (size_t i = 0; i < COUNT(found); i++) {
        char *text = text_of(scratch, names[i]);
        assert_non_null(strchr(text, ':'));
        found[i] = strtoul(strchr(text, ':') + 1, NULL, 10);
        free(text);
    }
    // Four sequences of T tokens take what four of T - 3/4 256 do alone, but for chunks' borders.
    assert_in_range(found[1], found[0] + 192 - 64, found[0] + 192 + 64);
    assert_true(found[2] > 0 && found[2] % 4 == 0);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_are_put_into_rows),
        cmocka_unit_test(a_step_is_that_of_the_sequences_and_its_plan_knows_it),
        cmocka_unit_test_setup_teardown(a_batch_file_is_the_same_step_with_a_group, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(a_share_is_of_the_chunks_of_the_rows, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_shared_is_said, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(searches_know_what_is_walked, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests_name("shared prompt data", tests, NULL, NULL);
}
