// Tests of batch files: values are read as written, whatever their dtype, and an error names its tensor, index and
// remedy.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/data/batch_file.h"
#include "kernels/objectives/batch.h"
#include "tests/written_batch.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define VOCAB        50

// Two sequences of four tokens, with everything that a file may have.
static const struct written_tensor good[] = {
    {"ids", "I64", "[2,4]", {1, 2, 3, 49, 5, 6, 7, 8}, 8},
    {"labels", "I32", "[2,4]", {2, 3, 49, -100, -100, 7, -100, -100}, 8},
    {"lengths", "I32", "[2]", {4, 3}, 2},
    {"documents", "I64", "[2,4]", {0, 0, 1, 1, 3, 3, 3, 3}, 8},
    {"weights", "F32", "[2,4]", {1, 0.5, 2, 1, 1, 0, 1, 1}, 8},
    // Rounding may put a probability of 1 above 1.
    {"old_logprobs", "F64", "[2,4]", {-1, -2, 0.0009, 0, 0, -0.5, 0, 0}, 8},
    // Values without a label are ignored.
    {"reference_logprobs", "F32", "[2,4]", {-1.5, -2, -3, NAN, INFINITY, -0.25, 0, 0}, 8},
    {"advantages", "F64", "[2]", {0.5, -1.5}, 2},
    {"desirable", "I32", "[2]", {0, 1}, 2},
    {"sampling_logprobs", "F64", "[2,4]", {-1, -2, -3, -1.5, -2.5, -0.5, -4, -1}, 8},
};
#define GOOD COUNT(good)

static void all_of_it_is_read(void **state)
{
    struct scratch *scratch = *state;
    struct batch_data data;
    struct status status = {0};
    struct scratch_path path = written_batch(scratch, "good", good, GOOD);
    size_t context = 0, batch = 0;
    assert_true(batch_file_shape(path.text, &context, &batch, &status));
    assert_int_equal(context, 4);
    assert_int_equal(batch, 2);
    if (!batch_file_read(&data, path.text, 4, 2, VOCAB, &status))
        fail_msg("%s", status.message);
    const int32_t *integers[] = {data.ids, data.labels, data.lengths, data.documents};
    const double *numbers[] = {data.weights, data.old_logprobs, data.reference_logprobs, data.advantages};
    for (size_t i = 0; i < GOOD; i++) {
        for (size_t j = 0; j < good[i].count; j++) {
            bool none = strstr(good[i].name, "logprobs") && data.labels[j] == NO_TARGET;
            double value = i < 4    ? integers[i][j]
                           : i < 8  ? numbers[i - 4][j]
                           : i == 8 ? data.desirable[j]
                                    : data.sampling_logprobs[j];
            if (value != (none ? 0 : good[i].values[j]))
                fail_msg("%s: element %zu is %g", good[i].name, j, value);
        }
    }
    batch_data_free(&data);
}

static void what_may_be_left_out_is(void **state)
{
    struct scratch *scratch = *state;
    struct batch_data data;
    struct status status = {0};
    struct scratch_path path = written_batch(scratch, "short", good, 2);
    assert_true(batch_file_read(&data, path.text, 4, 2, VOCAB, &status));
    assert_true(data.ids && data.labels);
    assert_false(data.lengths || data.documents || data.weights || data.old_logprobs || data.reference_logprobs ||
                 data.advantages || data.token_advantages || data.desirable || data.sampling_logprobs);
    batch_data_free(&data);
}

// The good file with one tensor in another way, and what is said of it.
static void what_is_wrong_is_said(void **state)
{
    struct scratch *scratch = *state;
    static const struct {
        struct written_tensor tensor;
        const char *message;
    } cases[] = {
        {{"ids", "", "", {0}, 0}, "bad: has no tensor \"ids\"; it needs token ids [batch, context]"},
        {{"labels", "", "", {0}, 0}, "has no tensor \"labels\"; it needs [batch, context], I32 or I64: "},
        {{"ids", "F32", "[2,4]", {0}, 8}, "ids has dtype F32, expected I32 or I64"},
        {{"labels", "F64", "[2,4]", {0}, 8}, "labels has dtype F64, expected I32 or I64"},
        {{"advantages", "I32", "[2]", {0}, 2}, "advantages has dtype I32, expected F64, F32, BF16 or F16"},
        {{"ids", "I32", "[8]", {0}, 8}, "ids has shape [8], expected [batch, context]"},
        {{"ids", "I32", "[2,2,2]", {0}, 8}, "ids has shape [2, 2, 2], expected [batch, context]"},
        {{"ids", "I32", "[4,2]", {0}, 8}, "ids has 4 sequences of 2 tokens, but batch is 2 and context 4"},
        {{"labels", "I32", "[2,3]", {0}, 6},
         "labels has shape [2, 3], expected [2, 4]: ids has 2 sequences of 4 tokens"},
        {{"labels", "I32", "[8]", {0}, 8}, "labels has shape [8], expected [2, 4]"},
        {{"lengths", "I32", "[3]", {1, 1, 1}, 3}, "lengths has shape [3], expected [2]"},
        {{"documents", "I32", "[2,2]", {0}, 4}, "documents has shape [2, 2], expected [2, 4]"},
        {{"weights", "F32", "[2]", {0}, 2}, "weights has shape [2], expected [2, 4]"},
        {{"old_logprobs", "F32", "[4,2]", {0}, 8}, "old_logprobs has shape [4, 2], expected [2, 4]"},
        {{"reference_logprobs", "F32", "[2,2]", {0}, 4}, "reference_logprobs has shape [2, 2], expected [2, 4]"},
        {{"advantages", "F32", "[2,1]", {0}, 2}, "advantages has shape [2, 1], expected [2, 4]"},
        {{"ids", "I64", "[2,4]", {0, 0, 0, 0, 0, 0, 50, 0}, 8},
         "ids[1, 2] is 50, expected 0 to 49 (a vocabulary of 50)"},
        {{"ids", "I64", "[2,4]", {0, 4294967297, 0, 0, 0, 0, 0, 0}, 8},
         "ids[0, 1] is 4294967297, expected 0 to 49"},
        {{"ids", "I32", "[2,4]", {-1, 0, 0, 0, 0, 0, 0, 0}, 8}, "ids[0, 0] is -1, expected 0 to 49"},
        {{"ids", "I32", "[2,4]", {0, -100, 0, 0, 0, 0, 0, 0}, 8}, "ids[0, 1] is -100, expected 0 to 49"},
        {{"labels", "I64", "[2,4]", {1, 1, 1, 1, 1, 50, -100, -100}, 8},
         "labels[1, 1] is 50, expected -100 or 0 to 49 (a vocabulary of 50)"},
        {{"labels", "I64", "[2,4]", {-1, 1, 1, 1, 1, 1, -100, -100}, 8},
         "labels[0, 0] is -1, expected -100 or 0 to 49"},
        {{"labels", "I64", "[2,4]", {1, 1, 1, -100, -100, 1, 1, 9}, 8},
         "labels[1, 3] is 9, expected -100: lengths[1] is 3"},
        {{"labels", "I64", "[2,4]", {-100, -100, -100, -100, -100, -100, -100, -100}, 8}, "all labels are -100"},
        {{"lengths", "I64", "[2]", {4, 0}, 2}, "lengths[1] is 0, expected 1 to 4, which is the context"},
        {{"lengths", "I64", "[2]", {5, 1}, 2}, "lengths[0] is 5, expected 1 to 4"},
        {{"documents", "I64", "[2,4]", {0, 0, 0, 0, 0, 2, 1, 1}, 8},
         "documents[1, 2] is 1 after 2: number a sequence's documents upward"},
        {{"documents", "I64", "[2,4]", {-1, 0, 0, 0, 0, 0, 0, 0}, 8},
         "documents[0, 0] is -1, expected a number from 0 on"},
        {{"weights", "F32", "[2,4]", {1, 1, 1, 1, -0.5, 1, 1, 1}, 8},
         "weights[1, 0] is -0.5, expected a finite number >= 0"},
        {{"weights", "F32", "[2,4]", {1, 1, NAN, 1, 1, 1, 1, 1}, 8}, "weights[0, 2] is nan, expected a finite"},
        {{"old_logprobs", "F64", "[2,4]", {-1, -1, -1, 0, 0, -INFINITY, 0, 0}, 8},
         "old_logprobs[1, 1] is -inf, expected a finite number"},
        {{"reference_logprobs", "F64", "[2,4]", {-1, NAN, -1, 0, 0, -1, 0, 0}, 8},
         "reference_logprobs[0, 1] is nan, expected a finite number"},
        {{"old_logprobs", "F64", "[2,4]", {-1, 1, -1, 0, 0, -1, 0, 0}, 8},
         "old_logprobs[0, 1] is 1, expected a finite number <= 0, the natural logarithm of a probability"},
        {{"reference_logprobs", "F32", "[2,4]", {-1, -1, -1, 0, 0, 0.0011, 0, 0}, 8},
         "reference_logprobs[1, 1] is 0.0011, expected a finite number <= 0"},
        {{"desirable", "F32", "[2]", {0, 1}, 2}, "desirable has dtype F32, expected I32 or I64"},
        {{"desirable", "I64", "[2]", {1, 2}, 2}, "desirable[1] is 2, expected 1, or 0"},
        {{"desirable", "I64", "[2]", {-1, 0}, 2}, "desirable[0] is -1, expected 1, or 0"},
        {{"advantages", "F64", "[2]", {1, NAN}, 2}, "advantages[1] is nan, expected a finite number"},
        {{"advantages", "F64", "[2]", {-INFINITY, 1}, 2}, "advantages[0] is -inf, expected a finite number"},
        {{"old_logprob", "F64", "[2]", {0}, 2}, "unknown tensor \"old_logprob\"; did you mean \"old_logprobs\"?"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct written_tensor tensors[GOOD + 1];
        struct batch_data data;
        struct status status = {0};
        memcpy(tensors, good, sizeof good);
        tensors[GOOD] = cases[i].tensor;
        struct scratch_path path = written_batch(scratch, "bad", tensors, GOOD + 1);
        bool read = batch_file_read(&data, path.text, 4, 2, VOCAB, &status);
        if (read || status.code != STATUS_BAD_INPUT || !strstr(status.message, cases[i].message))
            fail_msg("expected \"%s\", got \"%s\"", cases[i].message, status.message);
        batch_data_free(&data);
    }
}

static void another_shape_than_asked_for_is_refused(void **state)
{
    struct scratch *scratch = *state;
    struct scratch_path path = written_batch(scratch, "good", good, GOOD);
    static const size_t wrong[][2] = {{3, 2}, {4, 1}, {5, 2}, {4, 3}};
    struct status status = {0};
    assert_true(batch_file_expect(path.text, 4, 2, &status));
    for (size_t i = 0; i < COUNT(wrong); i++) {
        status = (struct status){0};
        assert_false(batch_file_expect(path.text, wrong[i][0], wrong[i][1], &status));
        assert_non_null(strstr(status.message, "good: ids has 2 sequences of 4 tokens, but batch is "));
        assert_non_null(strstr(status.message, ": leave both out"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_of_it_is_read, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(what_may_be_left_out_is, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_said, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(another_shape_than_asked_for_is_refused, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests_name("batch file", tests, NULL, NULL);
}
