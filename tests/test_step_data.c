// Tests of a step's data: random values depend only on the seed, the sequence and the token and reach every branch
// of an objective; missing tensors of a batch file are reported. JSON is written with ' for ".
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/step/step_data.h"
#include "harness/step/step_logprobs.h"
#include "tests/trial_of.h"
#include "tests/written_batch.h"
#include <math.h>

static struct trial random_trial(const char *objective, size_t context, size_t batch, size_t seed)
{
    char json[400];
    snprintf(json, sizeof json,
             "{'model': 'tiny', 'context': %zu, 'batch': %zu, 'seed': %zu, 'method': 'full', 'objective': %s}",
             context, batch, seed, objective);
    return trial_of(json);
}

static struct batch_data data_of(const struct trial *trial)
{
    struct batch_data data;
    struct status status = {0};
    if (!step_data_read(&data, trial, &status))
        fail_msg("%s", status.message);
    return data;
}

#define GRPO "{'name': 'grpo', 'beta': 0.04}"

static void random_values_are_of_seed_sequence_and_token_alone(void **state)
{
    (void)state;
    struct trial trials[] = {random_trial(GRPO, 24, 4, 1), random_trial(GRPO, 24, 6, 1),
                             random_trial(GRPO, 24, 4, 2), random_trial(GRPO, 9, 4, 1)};
    struct batch_data data[COUNT(trials)];
    for (size_t i = 0; i < COUNT(trials); i++)
        data[i] = data_of(&trials[i]);
    assert_int_equal(step_data_noise(&trials[0]), BATCH_OLD | BATCH_REFERENCE);
    // More sequences, or shorter ones, and each value that is left is as before.
    assert_memory_equal(data[0].advantages, data[1].advantages, 4 * sizeof(double));
    assert_memory_equal(data[0].old_logprobs, data[1].old_logprobs, 4 * 24 * sizeof(double));
    assert_memory_equal(data[0].reference_logprobs, data[1].reference_logprobs, 4 * 24 * sizeof(double));
    assert_memory_equal(data[0].labels, data[1].labels, 4 * 24 * sizeof(int32_t));
    for (size_t b = 0; b < 4; b++)
        assert_memory_equal(data[0].old_logprobs + 24 * b, data[3].old_logprobs + 9 * b, 9 * sizeof(double));
    // Another seed, another tensor, another sequence: other values.
    for (size_t b = 0; b < 4; b++) {
        assert_true(data[0].advantages[b] != data[2].advantages[b]);
        assert_true(data[0].old_logprobs[24 * b] != data[2].old_logprobs[24 * b]);
        assert_true(data[0].old_logprobs[24 * b] != data[0].reference_logprobs[24 * b]);
        assert_true(b == 0 || data[0].old_logprobs[24 * b] != data[0].old_logprobs[0]);
    }
    for (size_t i = 0; i < COUNT(trials); i++) {
        batch_data_free(&data[i]);
        trial_free(&trials[i]);
    }
}

// With deviation 0.2 the ratio exp(l - o) is above 1.2 in 18.1 % of rows and below 0.8 in 13.2 %, and half of the
// advantages have either sign: 9.0 % of rows are clipped above and 6.6 % below.
static void every_branch_of_the_clip_is_hit_at_its_rate(void **state)
{
    (void)state;
    size_t above = 0, below = 0, rows = 200 * 100;
    struct trial trial = random_trial(GRPO, 100, 200, 1);
    struct batch_data data = data_of(&trial);
    for (size_t i = 0; i < rows; i++) {
        double ratio = exp(-data.old_logprobs[i]), advantage = data.advantages[i / 100];
        above += ratio > 1.2 && advantage > 0;
        below += ratio < 0.8 && advantage < 0;
    }
    // Five deviations: of 200 signs 3.5 % of the whole each, which outweighs that of the rows.
    assert_in_range(above, (size_t)(0.09 * (double)rows * 0.8), (size_t)(0.09 * (double)rows * 1.2));
    assert_in_range(below, (size_t)(0.066 * (double)rows * 0.8), (size_t)(0.066 * (double)rows * 1.2));
    batch_data_free(&data);
    trial_free(&trial);
}

// The number of rows without a target at a sequence's beginning.
static size_t prompt_of(const struct batch_data *data, size_t b)
{
    size_t t = 0;
    while (t < data->context && data->labels[b * data->context + t] == NO_TARGET)
        t++;
    return t;
}

static void random_sequences_have_prompts_where_they_are_compared(void **state)
{
    (void)state;
    static const char *const compared[] = {"'dpo'", "'grpo'"}, *const others[] = {"'token-mean'", "'dft'"};
    for (size_t i = 0; i < COUNT(compared); i++) {
        size_t lengths = 0;
        for (size_t context = 2; context <= 32; context += 15) {
            struct trial trial = random_trial(compared[i], context, 8, 1);
            struct batch_data data = data_of(&trial);
            for (size_t b = 0; b < 8; b++) {
                size_t prompt = prompt_of(&data, b);
                assert_true(prompt < context - 1 && prompt <= context / 2);
                assert_int_equal(prompt, prompt_of(&data, b - b % 2)); // both of a pair
                lengths += prompt != prompt_of(&data, 0);
                for (size_t t = prompt; t < context; t++)
                    assert_int_equal(data.labels[b * context + t],
                                     t + 1 < context ? data.ids[b * context + t + 1] : NO_TARGET);
            }
            batch_data_free(&data);
            trial_free(&trial);
        }
        assert_true(lengths > 0);
    }
    for (size_t i = 0; i < COUNT(others); i++) {
        struct trial trial = random_trial(others[i], 8, 1, 1);
        struct batch_data data = data_of(&trial);
        assert_null(data.labels);
        assert_false(data.old_logprobs || data.reference_logprobs || data.advantages || data.weights);
        batch_data_free(&data);
        trial_free(&trial);
    }
}

static const struct written_tensor whole[] = {
    {"ids", "I64", "[2,4]", {1, 2, 3, 4, 5, 6, 7, 8}, 8},
    {"labels", "I64", "[2,4]", {-100, 3, 4, -100, -100, 7, 8, -100}, 8},
    {"weights", "F32", "[2,4]", {1, 1, 1, 1, 1, 1, 1, 1}, 8},
    {"old_logprobs", "F64", "[2,4]", {0, -1, -1, 0, 0, -1, -1, 0}, 8},
    {"reference_logprobs", "F64", "[2,4]", {0, -1, -1, 0, 0, -1, -1, 0}, 8},
    {"advantages", "F64", "[2]", {1, -1}, 2},
};

static void what_a_file_lacks_is_said(void **state)
{
    struct scratch *scratch = *state;
    static const struct {
        const char *objective, *more;
        struct written_tensor changed; // no values: left out
        const char *message;           // NULL: nothing is wrong
    } cases[] = {
        {"'weighted-mean'", "", {"weights", "", "", {0}, 0}, "has no tensor \"weights\"; objective weighted-mean"},
        {"'weighted-mean'", "", {"weights", "F32", "[2,4]", {1, 0, 0, 1, 1, 0, 0, 1}, 8}, "weight 0"},
        {"'grpo'", "", {"advantages", "", "", {0}, 0}, "has no tensor \"advantages\"; objective grpo needs it"},
        {"'grpo'", "", {"advantages", "F64", "[2,4]", {0, 1, 2, 0, 0, -1, 1, 0}, 8}, NULL},
        {"{'name': 'grpo', 'sampling': 'token_truncate'}",
         "",
         {"weights", "", "", {0}, 0},
         "has no tensor \"sampling_logprobs\"; objective grpo needs it"},
        {"'kto'", "", {"desirable", "", "", {0}, 0}, "has no tensor \"desirable\"; objective kto needs it"},
        {"'kto'", "", {"desirable", "I32", "[2]", {1, 0}, 2}, NULL},
        {GRPO, "", {"reference_logprobs", "", "", {0}, 0}, "has no tensor \"reference_logprobs\"; objective grpo"},
        {"'dpo'",
         "",
         {"reference_logprobs", "", "", {0}, 0},
         "needs it, [batch, context]; or \"reference\" another than file"},
        {"'dpo'",
         "",
         {"labels", "I64", "[2,4]", {-100, 3, 4, -100, -100, -100, -100, -100}, 8},
         "labels[1] are all -100"},
        {"'dpo'", ", 'reference': 'random'", {"reference_logprobs", "", "", {0}, 0}, NULL},
        {"{'name': 'dpo', 'kind': 'simpo'}", "", {"reference_logprobs", "", "", {0}, 0}, NULL},
        {"'grpo'", "", {"reference_logprobs", "", "", {0}, 0}, NULL},
        {GRPO, "", {"old_logprobs", "", "", {0}, 0}, NULL}, // the ratio is 1
        {"'token-mean'", "", {"advantages", "", "", {0}, 0}, NULL},
        {"'token-mean'",
         "",
         {"labels", "I64", "[2,4]", {-100, -100, -100, -100, -100, -100, -100, -100}, 8},
         "batch: all labels are -100"},
        {"'token-mean'", "", {"labels", "I64", "[2,4]", {-100, -100, -100, -100, -100, -100, 3, -100}, 8}, NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct written_tensor tensors[COUNT(whole) + 1];
        memcpy(tensors, whole, sizeof whole);
        tensors[COUNT(whole)] = cases[i].changed;
        struct scratch_path path = written_batch(scratch, "batch", tensors, COUNT(tensors));
        char json[1200];
        snprintf(json, sizeof json,
                 "{'model': 'tiny', 'method': 'full', 'data': {'batch': '%s'}, 'objective': %s%s}", path.text,
                 cases[i].objective, cases[i].more);
        struct trial trial = trial_of(json);
        struct batch_data data;
        struct status status = {0};
        bool read = step_data_read(&data, &trial, &status);
        if (read != !cases[i].message || (!read && !strstr(status.message, cases[i].message)))
            fail_msg("%s: expected \"%s\", got \"%s\"", cases[i].objective, cases[i].message, status.message);
        batch_data_free(&data);
        trial_free(&trial);
    }
}

// Whatever an objective reads of a file is in the hash of what was read.
static void the_hash_is_of_all_that_is_read(void **state)
{
    struct scratch *scratch = *state;
    uint64_t hashes[COUNT(whole) + 1];
    for (size_t i = 0; i <= COUNT(whole); i++) {
        struct written_tensor tensors[COUNT(whole)];
        memcpy(tensors, whole, sizeof whole);
        if (i < COUNT(whole))
            tensors[i].values[tensors[i].count - 2] -=
                1; // the last has a log-prob 0, of a token that does not count
        struct scratch_path path = written_batch(scratch, "batch", tensors, COUNT(tensors));
        char json[1200];
        snprintf(json, sizeof json,
                 "{'model': 'tiny', 'method': 'full', 'data': {'batch': '%s'}, 'objective': " GRPO "}", path.text);
        struct trial trial = trial_of(json);
        struct batch_data data = data_of(&trial);
        hashes[i] = step_data_hash(&data, &trial);
        for (size_t j = 0; j < i; j++)
            assert_true(hashes[i] != hashes[j]);
        batch_data_free(&data);
        trial_free(&trial);
    }
}

// The model itself is walked for log-probs where these are its own, and nowhere else; of plans by steps alone.
static void the_model_is_asked_where_it_must_be(void **state)
{
    (void)state;
#define ADAPTER "'lora': {'rank': 2}, 'reference': 'adapter-off', 'objective': 'dpo'"
    static const struct {
        const char *keys;
        bool asked, planned;
        size_t steps; // of a training run
    } cases[] = {
        {"'objective': 'token-mean'", false, false, 0},
        {"'objective': {'name': 'dpo', 'kind': 'simpo'}", false, false, 0},
        {"'objective': 'dpo'", true, false, 0}, // noise about them
        {"'objective': 'grpo'", true, false, 0},
        {ADAPTER, true, false, 0},
        {ADAPTER, true, true, 2},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char json[400];
        snprintf(json, sizeof json, "{'model': 'tiny', 'context': 8, 'batch': 2, 'method': 'full', %s}",
                 cases[i].keys);
        struct trial trial = trial_of(json);
        trial.train.steps = cases[i].steps;
        if (step_logprobs_asked(&trial, false) != cases[i].asked ||
            step_logprobs_asked(&trial, true) != cases[i].planned)
            fail_msg("%s", json);
        trial_free(&trial);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_values_are_of_seed_sequence_and_token_alone),
        cmocka_unit_test(every_branch_of_the_clip_is_hit_at_its_rate),
        cmocka_unit_test(random_sequences_have_prompts_where_they_are_compared),
        cmocka_unit_test(the_model_is_asked_where_it_must_be),
        cmocka_unit_test_setup_teardown(what_a_file_lacks_is_said, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(the_hash_is_of_all_that_is_read, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests_name("step data", tests, NULL, NULL);
}
