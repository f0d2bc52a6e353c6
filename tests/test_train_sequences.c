// Training over batch files in this process: labels, documents, pairs and groups under every objective; exact
// methods' losses agree, micro-batches make one step, references stay what they were, and what belongs together
// stays together.
#define _GNU_SOURCE // nftw, mkdtemp, asprintf
#include "harness/files/folder.h"
#include "tests/training_run.h"
#include "tests/training_sequences.h"

enum { STEPS = 20 };

static void open_run(struct training_run *run, const struct scratch *scratch, const char *file, const char *keys)
{
    char *json;
    assert_true(asprintf(&json, "{" MODEL ", 'data': {'batch': '%s/%s'}, 'dtype': 'f64', %s}", scratch->folder,
                         file, keys) > 0);
    training_run_open(run, json);
    free(json);
}

// Every objective on every kind of file that it can be of.
static const struct {
    const char *objective, *group;
    unsigned with;
} asked[] = {
    {"'token-mean'", "", WITH_DOCUMENTS},
    {"'sequence-mean'", "", WITH_DOCUMENTS},
    {"'weighted-mean'", "", WITH_NUMBERS},
    {"'dft'", "", 0},
    {"'dpo'", "", WITH_NUMBERS | WITH_DOCUMENTS},
    {"{'name': 'dpo', 'kind': 'ipo', 'sft': 0.3}", "", WITH_NUMBERS},
    {"{'name': 'dpo', 'ld_alpha': 0.4}", "'group': 2,", WITH_NUMBERS},
    {"'orpo'", "'group': 2,", WITH_NUMBERS},
    {"{'name': 'kto', 'kind': 'apo_zero_unpaired'}", "'group': 4,", WITH_NUMBERS},
    {"{'name': 'grpo', 'beta': 0.1}", "", WITH_NUMBERS | WITH_DOCUMENTS},
    {"{'name': 'grpo', 'normaliser': 'grpo', 'policy': 'gspo'}", "'group': 4,", WITH_NUMBERS},
};

static void every_objective_is_there(void **state)
{
    (void)state;
    for (const struct objective *const *o = objectives; *o; o++) {
        size_t i = 0;
        while (i < COUNT(asked) && !strstr(asked[i].objective, (*o)->name))
            i++;
        assert_true(i < COUNT(asked));
    }
}

static void exact_methods_have_the_same_losses(void **state)
{
    struct scratch *scratch = *state;
    for (size_t i = 0; i < COUNT(asked); i++) {
        double losses[STEPS];
        write_file(scratch, "data", 0, ALL, asked[i].with);
        for (const struct method *const *m = methods; *m; m++) {
            struct training_run run;
            char keys[500];
            bool chunks = option_find(&(*m)->options, "chunk");
            if (!(*m)->exact)
                continue;
            snprintf(keys, sizeof keys,
                     "'batch': %d, 'objective': %s, %s 'optimizer': {'name': 'adamw', 'rate': 0.003}, "
                     "'train': {'steps': %d, 'accumulate': 2, 'shuffle': 5}, 'method': {'name': '%s'%s}",
                     *asked[i].group ? 4 : 2, asked[i].objective, asked[i].group, STEPS, (*m)->name,
                     chunks ? ", 'chunk': 7, 'head_chunk': 5" : "");
            open_run(&run, scratch, "data", keys);
            for (size_t s = 0; s < STEPS; s++) {
                double loss = training_run_step(&run);
                if (m == methods)
                    losses[s] = loss;
                else if (!(fabs(loss - losses[s]) <= 1e-9 * fmax(fabs(losses[s]), 0.1)))
                    fail_msg("%s %s: step %zu: loss %.17g, of full %.17g", (*m)->name, asked[i].objective, s + 1,
                             loss, losses[s]);
            }
            assert_true(losses[0] != losses[STEPS - 1]);
            training_run_close(&run);
        }
    }
}

static bool same_metrics(const struct objective_sums *a, const struct objective_sums *b)
{
    bool same = true;
    for (size_t m = 0; m < OBJECTIVE_METRICS; m++)
        same = same && fabs(a->metrics[m] - b->metrics[m]) <= 1e-12 * fmax(1, fabs(b->metrics[m]));
    return same;
}

// A step's sequences, pairs and groups, in one batch or in several.
static void micro_batches_make_one_step(void **state)
{
    struct scratch *scratch = *state;
    for (size_t i = 0; i < COUNT(asked); i++) {
        struct training_run runs[2];
        double *found[2];
        size_t count;
        write_file(scratch, "data", 0, ALL, asked[i].with);
        for (int r = 0; r < 2; r++) {
            char keys[500];
            snprintf(
                keys, sizeof keys,
                "'batch': %d, 'objective': %s, %s 'optimizer': 'adamw', 'method': {'name': 'seco', 'chunk': 5}, "
                "'train': {'steps': 3, 'accumulate': %d, 'shuffle': 7}",
                r ? 12 : 4, asked[i].objective, asked[i].group, r ? 1 : 3);
            open_run(&runs[r], scratch, "data", keys);
            training_run_step(&runs[r]);
            found[r] = training_run_gradients(&runs[r], &count);
        }
        double difference = training_run_norm(found[0], found[1], count),
               size = training_run_norm(found[1], NULL, count);
        if (!(difference <= 1e-13 * size) || !near(runs[0].report.sums.loss, runs[1].report.sums.loss) ||
            !same_metrics(&runs[0].train.sums, &runs[1].train.sums))
            fail_msg("%s: gradients differ by %.2e, losses %.17g and %.17g", asked[i].objective, difference / size,
                     runs[0].report.sums.loss, runs[1].report.sums.loss);
        for (int r = 0; r < 2; r++) {
            free(found[r]);
            training_run_close(&runs[r]);
        }
    }
}

static void evaluation_is_a_steps_loss(void **state)
{
    struct scratch *scratch = *state;
    for (size_t i = 0; i < COUNT(asked); i++) {
        struct training_run run;
        struct status status = {0};
        struct objective_sums found;
        char keys[800];
        write_file(scratch, "data", 0, ALL, asked[i].with);
        snprintf(
            keys, sizeof keys,
            "'batch': 4, 'objective': %s, %s 'optimizer': 'adamw', 'method': {'name': 'streambp', 'chunk': 7}, "
            "'train': {'steps': 2, 'accumulate': 3, 'evaluate': '%s/data'}",
            asked[i].objective, asked[i].group, scratch->folder);
        open_run(&run, scratch, "data", keys);
        assert_true(train_evaluates(&run.train));
        assert_true(train_evaluate(&run.train, &found, &status));
        double first = training_run_step(&run);
        if (!near(first, found.loss) || !same_metrics(&found, &run.train.sums))
            fail_msg("%s: evaluated %.17g, a step's loss is %.17g", asked[i].objective, found.loss, first);
        training_run_close(&run);
    }
}

// Groups walked with one prompt are the sequences one by one; several files are one with all of them.
static void files_and_groups_change_nothing(void **state)
{
    struct scratch *scratch = *state;
    static const char *const files[] = {"data", "data", "folder"}, *const groups[] = {"", "'group': 4,", ""};
    double losses[3][4];
    char *folder;
    write_file(scratch, "data", 0, ALL, WITH_NUMBERS);
    assert_true(asprintf(&folder, "%s/folder", scratch->folder) > 0);
    assert_int_equal(mkdir(folder, 0777), 0);
    write_file(scratch, "folder/b.safetensors", 4, 8, WITH_NUMBERS);
    write_file(scratch, "folder/a.safetensors", 0, 4, WITH_NUMBERS);
    write_file(scratch, "folder/notes", 0, 4, 0); // which is no part of it
    for (int i = 0; i < 3; i++) {
        struct training_run run;
        char keys[400];
        snprintf(keys, sizeof keys,
                 "'batch': 4, 'objective': {'name': 'grpo', 'beta': 0.2}, %s 'optimizer': 'adamw', "
                 "'method': {'name': 'streambp', 'chunk': 6}, 'train': {'steps': 4}",
                 groups[i]);
        open_run(&run, scratch, files[i], keys);
        for (int s = 0; s < 4; s++)
            losses[i][s] = training_run_step(&run);
        training_run_close(&run);
    }
    for (int s = 0; s < 4; s++)
        assert_true(fabs(losses[1][s] - losses[0][s]) <= 1e-12 && losses[2][s] == losses[0][s]);
    free(folder);
}

// The model without its adapter, and a second model that is the same, are what the policy was: it moves, they do
// not.
static void references_stay(void **state)
{
    struct scratch *scratch = *state;
    struct status status = {0};
    struct objective_sums found;
    double losses[2][6];
    char *folder, *keys;
    struct config config = {0};
    assert_true(asprintf(&folder, "%s/model", scratch->folder) > 0);
    struct trial trial = trial_of("{" MODEL ", 'context': 4, 'method': 'full'}");
    config = trial.config;
    assert_true(folder_write(folder, &config, 5, DTYPE_F64, NULL, &status));
    trial_free(&trial);
    write_file(scratch, "data", 0, ALL, 0);
    for (int i = 0; i < 2; i++) {
        struct training_run run;
        assert_true(
            asprintf(&keys,
                     "{'model': '%s', 'data': {'batch': '%s/data'}, 'dtype': 'f64', 'batch': 2, 'objective': "
                     "'dpo', 'reference': '%s', 'lora': {'rank': 2}, 'optimizer': {'name': 'adamw', 'rate': "
                     "0.05}, 'method': {'name': 'streambp', 'chunk': 6}, 'train': {'steps': 6, 'accumulate': 3, "
                     "'shuffle': 3, 'held_out': 0.34, 'evaluate_windows': 3}}",
                     folder, scratch->folder, i ? folder : "adapter-off") > 0);
        training_run_open(&run, keys);
        assert_int_equal(run.train.evaluated, 4); // all of a pair
        assert_true(train_evaluate(&run.train, &found, &status));
        assert_true(near(found.loss, log(2))); // for the adapter begins as nothing
        for (int s = 0; s < 6; s++)
            losses[i][s] = training_run_step(&run);
        assert_true(near(losses[i][0], log(2)) && losses[i][5] < 0.9 * log(2));
        training_run_close(&run);
        free(keys);
    }
    for (int s = 0; s < 6; s++)
        if (!near(losses[0][s], losses[1][s]))
            fail_msg("step %d: %.17g without the adapter, %.17g by a second model", s + 1, losses[0][s],
                     losses[1][s]);
    free(folder);
}

// All bytes and work of a step, also those of the reference's pass, are as planned.
static void plans_are_right(void **state)
{
    struct scratch *scratch = *state;
    static const char *const counts[] = {"peak_bytes", "resident_bytes", "flops", "bytes_moved", "launches"};
    write_file(scratch, "data", 0, ALL, WITH_DOCUMENTS);
    for (const struct method *const *m = methods; *m; m++) {
        json_t *records[2];
        char *json;
        bool chunks = option_find(&(*m)->options, "chunk");
        if (!(*m)->exact)
            continue;
        for (int planned = 0; planned < 2; planned++) {
            assert_true(
                asprintf(&json,
                         "{" MODEL ", 'data': {'batch': '%s/data'}, 'batch': 2, 'objective': 'dpo', 'reference': "
                         "'adapter-off', 'lora': {'rank': 2}, 'optimizer': 'adamw', 'method': {'name': '%s'%s}, "
                         "'dtype': 'f64', 'device': '%s', 'train': {'steps': 1, 'accumulate': 2}, 'measure': "
                         "{'gradient': 'none'}}",
                         scratch->folder, (*m)->name, chunks ? ", 'chunk': 5" : "",
                         planned ? "plan-cpu" : "cpu") > 0);
            records[planned] = record_of(json);
            free(json);
        }
        for (size_t i = 0; i < COUNT(counts); i++)
            if (number(records[0], counts[i]) != number(records[1], counts[i]))
                fail_msg("%s: %s: %.0f, planned %.0f", (*m)->name, counts[i], number(records[0], counts[i]),
                         number(records[1], counts[i]));
        json_decref(records[0]);
        json_decref(records[1]);
    }
}

// Each pair once in an epoch, in another order in the next; whatever was read before.
static void pairs_stay_together(void **state)
{
    struct scratch *scratch = *state;
    struct sequences sequences, held_out;
    struct status status = {0};
    size_t items[2 * ALL];
    char *path;
    write_file(scratch, "data", 0, ALL, 0);
    assert_true(asprintf(&path, "%s/data", scratch->folder) > 0);
    for (uint64_t shuffle = 0; shuffle < 3; shuffle++) {
        assert_true(sequences_open(&sequences, path, 2, VOCAB, shuffle, &status));
        sequences_item(&sequences, 3); // as if it had been read before
        assert_true(sequences_split(&sequences, 0.17, &held_out, &status));
        size_t count = sequences_count(&sequences);
        assert_int_equal(count, 10);
        assert_int_equal(sequences_item(&held_out, 0), 10);
        for (size_t i = 0; i < 2 * count; i++)
            items[i] = sequences_item(&sequences, i);
        for (size_t epoch = 0; epoch < 2; epoch++) {
            unsigned seen = 0;
            for (size_t i = epoch * count; i < (epoch + 1) * count; i++) {
                seen |= 1u << items[i];
                assert_true(items[i] % 2 == i % 2 && (i % 2 == 0 || items[i] == items[i - 1] + 1));
            }
            assert_int_equal(seen, 0x3ff);
        }
        assert_int_equal(memcmp(items, items + count, count * sizeof *items) == 0, shuffle == 0);
        for (size_t i = 3; i-- > 0;)
            assert_int_equal(sequences_item(&sequences, 7 * i), items[7 * i]);
        sequences_close(&held_out);
        sequences_close(&sequences);
    }
    free(path);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv); // the BLAS kernels that the program itself uses
#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_objective_is_there),
        TEST(exact_methods_have_the_same_losses),
        TEST(micro_batches_make_one_step),
        TEST(evaluation_is_a_steps_loss),
        TEST(files_and_groups_change_nothing),
        TEST(references_stay),
        TEST(plans_are_right),
        TEST(pairs_stay_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
