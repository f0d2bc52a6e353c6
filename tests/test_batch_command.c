// Tests of `longbp grad` and `longbp run` over a batch file: the step is that of the same tokens and labels from
// other sources, and missing tensors are reported.
#define _GNU_SOURCE // nftw, mkdtemp
#include "tests/program.h"
#include "tests/written_batch.h"
#include <stdbool.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define GRAD         "$L grad --model tiny --dtype f64 --method seco --chunk 2 --head-chunk 2"

#define IDS                                                                                                        \
    {                                                                                                              \
        1, 2, 3, 49, 5, 6, 7, 200                                                                                  \
    }
#define LABELS                                                                                                     \
    {                                                                                                              \
        2, 3, 49, -100, -100, 7, 200, -100                                                                         \
    }
static const struct written_tensor tensors[] = {
    {"ids", "I64", "[2,4]", IDS, 8},
    {"labels", "I32", "[2,4]", LABELS, 8},
    {"weights", "F64", "[2,4]", {1, 1, 1, 1, 1, 1, 1, 1}, 8},
};

static void expect_error(const struct scratch *scratch, const char *command, const char *message)
{
    int code = run(scratch, command);
    char *err = text_of(scratch, "err");
    if (code != 2 || !strstr(err, message))
        fail_msg("%s: exit %d, expected \"%s\", got \"%s\"", command, code, message, err);
    free(err);
}

static void a_batch_file_is_its_tokens_and_labels(void **state)
{
    struct scratch *scratch = *state;
    static const int32_t ids[] = IDS, labels[] = LABELS;
    scratch_file(scratch, "ids", ids, sizeof ids);
    scratch_file(scratch, "labels", labels, sizeof labels);
    written_batch(scratch, "batch", tensors, COUNT(tensors));
    assert_int_equal(run(scratch, GRAD " --tokens ids --token-dtype u32 --labels labels --batch 2 "
                                       "--out a"),
                     0);
    char *loss = text_of(scratch, "out");
    assert_int_equal(run(scratch, GRAD " --batch batch --out b && cmp a b"), 0);
    char *same = text_of(scratch, "out");
    *strstr(loss, ", \"out\"") = *strstr(same, ", \"out\"") = '\0';
    assert_string_equal(loss, same);
    free(loss);
    free(same);
    // Planning commands read the shape from the file, too.
    assert_int_equal(run(scratch, "$L advise --model tiny --memory-limit 32MiB --batch batch && "
                                  "grep -q 'context 4' out"),
                     0);
    // The shape may be said as well.
    assert_int_equal(run(scratch, GRAD " --batch 2 --batch batch --context 4 --out b && cmp a b"), 0);
    // As a row of a spec, and held against the reference.
    static const char spec[] =
        "{\"experiment\": \"t\", \"model\": \"tiny\", \"dtype\": \"f64\", \"data\": {\"batch\": \"batch\"}, "
        "\"axes\": {\"objective\": [\"token-mean\", \"weighted-mean\"], \"method\": [\"full\", \"streambp\"]}}";
    scratch_file(scratch, "spec.json", spec, sizeof spec - 1);
    assert_int_equal(
        run(scratch, "$L run spec.json --out r.jsonl && test $(grep -c '\"status\": *\"ok\"' r.jsonl) = 4"), 0);
}

// Documents from a tensor and from the key give the same step, and the same plan.
static void documents_are_packed(void **state)
{
    struct scratch *scratch = *state;
    static const int32_t ids[] = IDS, labels[] = LABELS;
    struct written_tensor packed[] = {
        tensors[0], tensors[1], {"documents", "I64", "[2,4]", {0, 0, 0, 1, 5, 5, 5, 6}, 8}};
    scratch_file(scratch, "ids", ids, sizeof ids);
    scratch_file(scratch, "labels", labels, sizeof labels);
    written_batch(scratch, "packed", packed, COUNT(packed));
    assert_int_equal(run(scratch, GRAD " --batch packed --out a"), 0);
    assert_int_equal(run(scratch, GRAD " --tokens ids --token-dtype u32 --labels labels --batch 2 --context 4 "
                                       "--documents 3 --out b && cmp a b"),
                     0);
    assert_int_equal(run(scratch, GRAD " --tokens ids --token-dtype u32 --labels labels --batch 2 --context 4 "
                                       "--out c && cmp -s a c"),
                     1);
    // One document is none: at a sequence's end no other document follows, and a label there counts.
    struct written_tensor whole[] = {tensors[0],
                                     {"labels", "I32", "[2,4]", {2, 3, 49, 7, -100, 7, 200, 9}, 8},
                                     {"documents", "I64", "[2,4]", {4, 4, 4, 4, 0, 0, 0, 0}, 8}};
    written_batch(scratch, "whole", whole, COUNT(whole) - 1);
    written_batch(scratch, "one", whole, COUNT(whole));
    assert_int_equal(run(scratch, GRAD " --batch whole --out d && " GRAD " --batch one --out e && cmp d e"), 0);
    char *plans[2];
    assert_int_equal(run(scratch, "$L plan --model tiny --method seco --batch packed --context 4 --json"), 0);
    plans[0] = text_of(scratch, "out");
    assert_int_equal(run(scratch, "$L plan --model tiny --method seco --batch 2 --context 4 --documents 3 --json"),
                     0);
    plans[1] = text_of(scratch, "out");
    for (size_t i = 0; i < 2; i++) {
        assert_non_null(strstr(plans[i], "\"flops\""));
        memmove(plans[i], strstr(plans[i], "\"flops\""), strlen(strstr(plans[i], "\"flops\"")) + 1);
        *strchr(plans[i], ',') = '\0';
    }
    assert_string_equal(plans[0], plans[1]);
    free(plans[0]);
    free(plans[1]);
}

// How often the text is in the other.
static size_t count_of(const char *text, const char *in)
{
    size_t count = 0;
    for (; (in = strstr(in, text)); in += strlen(text))
        count++;
    return count;
}

// Whoever reads the file, and however often: every trial, reference and rank does.
static void doubtful_labels_are_said_once(void **state)
{
    struct scratch *scratch = *state;
    struct written_tensor packed[] = {
        tensors[0], tensors[1], {"documents", "I64", "[2,4]", {0, 0, 0, 1, 5, 5, 5, 6}, 8}};
    written_batch(scratch, "packed", packed, COUNT(packed));
    static const char spec[] =
        "{\"experiment\": \"t\", \"model\": \"tiny\", \"dtype\": \"f64\", \"data\": {\"batch\": \"packed\"}, "
        "\"axes\": {\"seed\": [1, 2], \"method\": [\"full\", \"streambp\"]}}";
    scratch_file(scratch, "spec.json", spec, sizeof spec - 1);
    static const char *const commands[] = {
        GRAD " --batch packed --out a",
        GRAD " --batch packed --out a --parallel data=2 || grep -q openmpi err",
        "$L verify --model tiny --batch packed",
        "$L run spec.json --out r.jsonl",
        "$L train --model tiny --batch packed --sequences 1 --steps 2 --out t",
        // of every step, whatever is trained on before
        "$L train --model tiny --batch packed --sequences 1 --steps 2 --held-out 0.5 --out h",
    };
    for (size_t i = 0; i < COUNT(commands); i++) {
        assert_int_equal(run(scratch, commands[i]), 0);
        char *err = text_of(scratch, "err");
        if (count_of("packed: 2 labels of a document's last token are not counted", err) != 1 ||
            count_of("shift them", err) != 0)
            fail_msg("%s: %s", commands[i], err);
        free(err);
    }
    static const struct {
        const char *labels_name;
        struct written_tensor labels;
        size_t said;
    } cases[] = {
        {"as Hugging Face has them", {"labels", "I64", "[2,4]", IDS, 8}, 1},
        {"of the answers alone", {"labels", "I64", "[2,4]", {-100, -100, -100, -100, -100, -100, 7, 200}, 8}, 1},
        {"one is not", {"labels", "I64", "[2,4]", {1, 2, 3, 49, 5, 6, 7, 201}, 8}, 0},
        {"the last position alone",
         {"labels", "I64", "[2,4]", {-100, -100, -100, 49, -100, -100, -100, -100}, 8},
         0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct written_tensor unshifted[] = {tensors[0], cases[i].labels};
        written_batch(scratch, "unshifted", unshifted, COUNT(unshifted));
        assert_int_equal(run(scratch, GRAD " --batch unshifted --out a"), 0);
        char *err = text_of(scratch, "err");
        if (count_of("unshifted: every label is the id at its own position", err) != cases[i].said)
            fail_msg("%s: %s", cases[i].labels_name, err);
        free(err);
    }
    // A token that is repeated is its own label, rightly shifted.
    struct written_tensor repeated[] = {{"ids", "I64", "[2,4]", {7, 7, 7, 7, 9, 9, 9, 9}, 8},
                                        {"labels", "I64", "[2,4]", {7, 7, 7, -100, 9, 9, 9, -100}, 8}};
    written_batch(scratch, "repeated", repeated, COUNT(repeated));
    assert_int_equal(run(scratch, GRAD " --batch repeated --out a"), 0);
    char *said = text_of(scratch, "err");
    assert_null(strstr(said, "at its own position"));
    free(said);
    // Plans print nothing about values.
    assert_int_equal(
        run(scratch, "$L run spec.json --list && $L plan --model tiny --batch packed && ! test -s err"), 0);
}

static void what_a_step_cannot_use_is_said(void **state)
{
    struct scratch *scratch = *state;
    struct written_tensor changed[] = {tensors[0], tensors[1], {"weights", "F32", "[2,4]", {0, 0, 0, 9}, 8}};
    written_batch(scratch, "batch", tensors, COUNT(tensors));
    written_batch(scratch, "weightless", tensors, 2);
    written_batch(scratch, "zero", changed, COUNT(changed));
    static const struct {
        const char *flags, *message;
    } cases[] = {
        {"--batch none", "key \"batch\": none: No such file"},
        {"--batch batch --context 5", "batch: ids has 2 sequences of 4 tokens, but batch is 2 and context 5"},
        {"--batch 1 --batch batch", "batch: ids has 2 sequences of 4 tokens, but batch is 1 and context 4"},
        {"--batch batch --tokens batch", "--tokens and --batch FILE: a batch file has ids of its own"},
        {"--batch batch --labels batch", "key \"labels\": batch has its own labels"},
        {"--batch batch --documents 2", "key \"documents\": batch gives its documents"},
        {"--context 9 --documents mean=0", "key \"mean\": expected a whole number of tokens >= 1"},
        {"--batch weightless --objective weighted-mean",
         "weightless: has no tensor \"weights\"; objective weighted-mean needs it"},
        {"--batch zero --objective weighted-mean", "zero: all labelled positions have weight 0"},
        {"--batch batch --objective dpo", "batch: has no tensor \"reference_logprobs\"; objective dpo needs it"},
        {"--batch batch --objective grpo", "batch: has no tensor \"advantages\"; objective grpo needs it"},
        {"--context 8 --token-dtype u16", "--token-dtype u16 needs --tokens FILE"},
        {"--batch batch --token-dtype bytes", "--token-dtype bytes needs --tokens FILE"},
        {"--batch 3 --context 8 --objective dpo",
         "dpo needs pairs, sequences 2i the chosen and 2i + 1 the rejected"},
        {"--batch 2 --context 8 --objective dpo,betta=1",
         "key \"betta\": unknown key of objective \"dpo\"; did you"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char command[400];
        snprintf(command, sizeof command, GRAD " --out g %s", cases[i].flags);
        expect_error(scratch, command, cases[i].message);
    }
}

// The loss that a command prints; NaN if it fails.
static double loss_of(const struct scratch *scratch, const char *flags)
{
    char command[600];
    snprintf(command, sizeof command, GRAD " --out g %s", flags);
    int code = run(scratch, command);
    char *out = text_of(scratch, "out"), *loss = strstr(out, "\"loss\": ");
    double value = code == 0 && loss ? strtod(loss + 8, NULL) : NAN;
    free(out);
    return value;
}

// A reference that is the model itself makes every difference 0: the loss of a pair is ln 2.
static void a_reference_is_another_model_or_this_one_without_its_adapter(void **state)
{
    struct scratch *scratch = *state;
    assert_int_equal(run(scratch, "$L init --model tiny --seed 1 --dtype f64 --out same && "
                                  "$L init --model tiny --seed 2 --dtype f64 --out other"),
                     0);
    static const struct {
        const char *flags;
        bool same;
    } cases[] = {{"--model same --reference same", true},   {"--model same --reference other", false},
                 {"--model other --reference same", false}, {"--lora r=2 --reference adapter-off", false},
                 {"--lora r=2 --reference same", false},    {"--reference random", false}};
    double losses[COUNT(cases)];
    for (size_t i = 0; i < COUNT(cases); i++) {
        char flags[300];
        snprintf(flags, sizeof flags, "--context 12 --batch 4 --objective dpo %s", cases[i].flags);
        losses[i] = loss_of(scratch, flags);
        bool is_same = fabs(losses[i] - 0.69314718055994531) < 1e-12;
        if (!isfinite(losses[i]) || is_same != cases[i].same)
            fail_msg("%s: %.17g", flags, losses[i]);
    }
    // Without its adapter the model is the one that `init` wrote.
    assert_true(fabs(losses[3] - losses[4]) < 1e-12);
}

// Every objective by every way to its data, checked against the reference and planned.
static void every_objective_is_measured_and_planned(void **state)
{
    struct scratch *scratch = *state;
    static const char spec[] =
        "{\"experiment\": \"t\", \"model\": {\"layers\": 2, \"width\": 16, \"heads\": 2, \"ffn\": 24, \"vocab\": "
        "40}, "
        "\"dtype\": \"f64\", \"batch\": 4, \"context\": 12, \"axes\": {\"objective\": [\"token-mean\", "
        "\"weighted-mean\", \"dpo\", {\"name\": \"dpo\", \"kind\": \"simpo\"}, \"grpo\", {\"name\": \"grpo\", "
        "\"policy\": \"gspo\", \"beta\": 0.1}], \"method\": [\"full\", {\"name\": \"seco\", \"chunk\": 5}]}, "
        "\"measure\": {\"samples\": 1, \"warmup\": 0}}";
    scratch_file(scratch, "spec.json", spec, sizeof spec - 1);
    static const char *const devices[] = {"cpu", "plan"};
    for (size_t i = 0; i < COUNT(devices); i++) {
        char command[300];
        snprintf(command, sizeof command,
                 "$L run spec.json --axis device=%s --out %s && test $(grep -c '\"status\": *\"ok\"' %s) = 12",
                 devices[i], devices[i], devices[i]);
        assert_int_equal(run(scratch, command), 0);
    }
    assert_int_equal(run(scratch, "$L run spec.json --list && grep -c 'objective dpo kind=simpo' out"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_batch_file_is_its_tokens_and_labels, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(documents_are_packed, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(doubtful_labels_are_said_once, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(what_a_step_cannot_use_is_said, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_reference_is_another_model_or_this_one_without_its_adapter, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(every_objective_is_measured_and_planned, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests_name("batch command", tests, NULL, NULL);
}
