// Training by preferences learns a learnable task: on pairs of a text and its shuffled letters the reward margin
// grows, and held-out pairs are told apart.
#define _GNU_SOURCE // nftw, mkdtemp, asprintf
#include "harness/tensors/safetensors.h"
#include "kernels/base/random.h"
#include "tests/asked.h"
#include "tests/scratch.h"

enum { CONTEXT = 32, PAIRS = 96, VOCAB = 128, STEPS = 40, EVERY = 20 };

// Text, and behind it the same shuffled. The reference knows nothing.
static void write_pairs(const struct scratch *scratch)
{
    static int32_t ids[2 * PAIRS][CONTEXT], labels[2 * PAIRS][CONTEXT];
    static double reference[2 * PAIRS][CONTEXT];
    struct random random = random_named(1, "shuffled");
    uint8_t text[PAIRS * CONTEXT];
    FILE *file = fopen("experiments/data/king-james.txt", "r");
    assert_non_null(file);
    assert_int_equal(fread(text, 1, sizeof text, file), sizeof text);
    fclose(file);
    for (size_t b = 0; b < 2 * PAIRS; b++) {
        for (size_t t = 0; t < CONTEXT; t++) {
            ids[b][t] = text[b / 2 * CONTEXT + t];
            reference[b][t] = -log(VOCAB);
        }
        for (size_t t = CONTEXT; b % 2 && t-- > 1;) {
            size_t other = random_below(&random, b * CONTEXT + t, t + 1);
            int32_t id = ids[b][t];
            ids[b][t] = ids[b][other];
            ids[b][other] = id;
        }
        for (size_t t = 0; t < CONTEXT; t++)
            labels[b][t] = t + 1 < CONTEXT ? ids[b][t + 1] : NO_TARGET;
    }
    const struct safetensors_item items[] = {{"ids", DTYPE_I32, 2, {2 * PAIRS, CONTEXT}},
                                             {"labels", DTYPE_I32, 2, {2 * PAIRS, CONTEXT}},
                                             {"reference_logprobs", DTYPE_F64, 2, {2 * PAIRS, CONTEXT}}};
    struct safetensors_writer writer;
    struct status status = {0};
    char *path;
    assert_true(asprintf(&path, "%s/pairs", scratch->folder) > 0);
    assert_true(safetensors_create(&writer, path, items, COUNT(items), &status));
    assert_true(safetensors_append_bytes(&writer, ids, 2 * PAIRS * CONTEXT, &status));
    assert_true(safetensors_append_bytes(&writer, labels, 2 * PAIRS * CONTEXT, &status));
    assert_true(safetensors_append(&writer, &reference[0][0], 2 * PAIRS * CONTEXT, &status));
    assert_true(safetensors_commit(&writer, &status));
    safetensors_discard(&writer);
    free(path);
}

static double at(const json_t *curve, const char *name, size_t i)
{
    const json_t *value = json_array_get(json_object_get(curve, name), i);
    if (!json_is_number(value))
        fail_msg("%s has no number %zu", name, i);
    return json_number_value(value);
}

static void margin_grows_and_pairs_are_told_apart(void **state)
{
    struct scratch *scratch = *state;
    static const char *const kinds[] = {"sigmoid", "hinge", "simpo"};
    write_pairs(scratch);
    for (size_t i = 0; i < COUNT(kinds); i++) {
        char *json;
        assert_true(
            asprintf(&json,
                     "{'model': {'layers': 2, 'width': 32, 'heads': 2, 'kv_heads': 2, 'head_dim': 16, 'ffn': 64, "
                     "'vocab': %d}, 'data': {'batch': '%s/pairs'}, 'batch': 16, 'objective': {'name': 'dpo', "
                     "'kind': '%s', 'beta': %g}, 'optimizer': {'name': 'adamw', 'rate': 0.01}, 'method': {'name': "
                     "'seco', 'chunk': 16}, 'train': {'steps': %d, 'shuffle': 1, 'held_out': 0.25, "
                     "'evaluate_every': %d}}",
                     VOCAB, scratch->folder, kinds[i], i == 2 ? 2.0 : 0.1, STEPS, EVERY) > 0);
        json_t *record = record_of(json);
        const json_t *curve = json_object_get(record, "curve");
        assert_int_equal(json_array_size(json_object_get(curve, "margin")), STEPS);
        assert_int_equal(json_array_size(json_object_get(curve, "evaluation_accuracy")), 1 + STEPS / EVERY);
        assert_null(json_object_get(curve, "clip_low")); // of no ratios
        double begins = at(curve, "evaluation_margin", 0), ends = at(curve, "evaluation_margin", 2);
        double between = at(curve, "evaluation_margin", 1), accuracy = at(curve, "evaluation_accuracy", 2);
        if (!(begins + 1 < between && begins + 1 < ends) || !(accuracy >= 0.95) ||
            !(at(curve, "evaluation_accuracy", 0) < 0.8) || !(at(curve, "accuracy", STEPS - 1) >= 0.95))
            fail_msg("%s: margin %g, %g, %g; accuracy of held-out pairs %g, %g", kinds[i], begins, between, ends,
                     at(curve, "evaluation_accuracy", 0), accuracy);
        json_decref(record);
        free(json);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv); // the BLAS kernels that the program itself uses
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(margin_grows_and_pairs_are_told_apart, scratch_setup, scratch_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
