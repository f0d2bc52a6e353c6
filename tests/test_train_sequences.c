// Training over batch files in this process: labels, documents, pairs and groups under every objective; exact
// methods' losses agree, micro-batches add up to one step, references do not change, and pairs and groups stay
// together.
#define _GNU_SOURCE // nftw, mkdtemp, asprintf
#include "harness/data/sequences.h"
#include "harness/folder/folder.h"
#include "harness/plan/predicted_trial.h"
#include "tests/training_run.h"
#include "tests/training_sequences.h"
#include <fcntl.h>
#include <sys/stat.h>

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
// not. All have RoPE for the longest document of all micro-batches, which are of other lengths.
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
    config.kinds[0].rope_scaling = (struct rope_scaling){.factor = 8, .original_context = 4, .dynamic = true};
    assert_true(folder_write(folder, &config, 5, DTYPE_F64, NULL, &status));
    trial_free(&trial);
    write_file(scratch, "data", 0, ALL, 0);
    for (int i = 0; i < 2; i++) {
        struct training_run run;
        assert_true(
            asprintf(
                &keys,
                "{'model': '%s', 'data': {'batch': '%s/data'}, 'dtype': 'f64', 'batch': 2, 'objective': "
                "'dpo', 'group': 2, 'reference': '%s', 'lora': {'rank': 2}, 'optimizer': {'name': 'adamw', 'rate': "
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

#define PLANNED_RUN                                                                                                \
    "{" MODEL ", 'data': {'batch': '%s/data'}, 'dtype': 'f64', 'device': '%s', 'batch': %d, 'objective': %s, %s "  \
    "'measure': {'gradient': 'none'}, %s, 'method': %s%s}"

static json_t *planned_run(const struct scratch *scratch, const char *device, size_t objective, const char *keys,
                           const char *method, const char *limit)
{
    char *json;
    assert_true(asprintf(&json, PLANNED_RUN, scratch->folder, device, *asked[objective].group ? 4 : 2,
                         asked[objective].objective, asked[objective].group, keys, method, limit) > 0);
    json_t *record = record_of(json);
    free(json);
    return record;
}

// Holds a run's record against that of its plan; the bytes of the peak.
static double check_record(const struct scratch *scratch, size_t objective, const char *keys, const char *method)
{
    static const char *const counts[] = {"peak_bytes", "resident_bytes", "flops", "bytes_moved", "launches"};
    json_t *measured = planned_run(scratch, "cpu", objective, keys, method, ""),
           *planned = planned_run(scratch, "plan-cpu", objective, keys, method, "");
    for (size_t i = 0; i < COUNT(counts); i++)
        if (number(measured, counts[i]) != number(planned, counts[i]))
            fail_msg("%s, %s, %s: %s: %.0f, planned %.0f", asked[objective].objective, keys, method, counts[i],
                     number(measured, counts[i]), number(planned, counts[i]));
    for (int host = 0; host < 2; host++) {
        const char *key = host ? "host_peak_by_category" : "peak_by_category";
        assert_true(json_equal(json_object_get(measured, key), json_object_get(planned, key)));
    }
    assert_false(json_is_integer(json_object_get(planned, "unplanned_micro_batches")));
    double peak = number(measured, "peak_bytes");
    json_decref(planned);
    json_decref(measured);
    return peak;
}

// And against what is predicted before it runs.
static void check_plan(const struct scratch *scratch, size_t objective, const char *keys, const char *method)
{
    char *json;
    double peak = check_record(scratch, objective, keys, method);
    assert_true(asprintf(&json, PLANNED_RUN, scratch->folder, "cpu", *asked[objective].group ? 4 : 2,
                         asked[objective].objective, asked[objective].group, keys, method, "") > 0);
    struct trial trial = trial_of(json);
    struct predicted_trial predicted = trial_predict(&trial);
    if (predicted.peak_bytes != peak)
        fail_msg("%s: %.0f, predicted %.0f", json, peak, predicted.peak_bytes);
    trial_free(&trial);
    free(json);
}

// Prompts, completions and documents of each micro-batch have other lengths; those of the first are not the
// longest.
static void plans_are_of_all_steps(void **state)
{
    struct scratch *scratch = *state;
    static const char *const trained[] = {
        "'optimizer': 'adamw', 'train': {'steps': 7, 'accumulate': 2, 'shuffle': 5}",
        "'optimizer': {'name': 'adamw', 'when': 'backward'}, 'train': {'steps': 1}",
        "'optimizer': 'sgd', 'train': {'steps': 2, 'held_out': 0.67, 'evaluate_every': 1}",
        "'optimizer': 'adam8bit', 'train': {'steps': 3, 'shuffle': 2, 'clip': 1, 'held_out': 0.34}",
        "'optimizer': 'adamw', 'train': {'steps': 4, 'accumulate': 3}",
    };
    static const char *const walked[] = {"'full'", "{'name': 'full', 'keep': 'all'}", "'checkpoint'",
                                         "{'name': 'streambp', 'chunk': 5, 'head_chunk': 3}"};
    for (size_t i = 0; i < COUNT(asked); i++) {
        write_file(scratch, "data", GROUP, ALL, asked[i].with); // longer prompts first
        for (size_t t = 0; t < COUNT(trained); t++)
            for (size_t m = (i + t) % 2; m < COUNT(walked); m += 2)
                check_plan(scratch, i, trained[t], walked[m]);
        check_plan(scratch, i, trained[0], "{'name': 'seco', 'chunk': 5}");
        check_plan(scratch, i, trained[4], "{'name': 'full', 'offload': ['gradients', 'optimizer']}");
    }
}

// The pass of the model without its adapter is a part of each step.
static void plans_have_the_references_pass(void **state)
{
    struct scratch *scratch = *state;
    size_t pairs = 0;
    while (strcmp(asked[pairs].objective, "'dpo'") != 0)
        pairs++;
    write_file(scratch, "data", 0, ALL, WITH_DOCUMENTS);
    for (const struct method *const *m = methods; *m; m++) {
        char method[100];
        bool chunks = option_find(&(*m)->options, "chunk");
        snprintf(method, sizeof method, "{'name': '%s'%s}", (*m)->name, chunks ? ", 'chunk': 5" : "");
        if ((*m)->exact)
            check_plan(
                scratch, pairs,
                "'reference': 'adapter-off', 'lora': {'rank': 2}, 'optimizer': 'adamw', 'train': {'steps': 2, "
                "'accumulate': 2}",
                method);
    }
}

// A choice for the first micro-batch alone would not fit a later one.
static void auto_fits_all_steps(void **state)
{
    struct scratch *scratch = *state;
    const size_t groups = COUNT(asked) - 1;
    static const char train[] = "'optimizer': 'adamw', 'train': {'steps': 3, 'shuffle': 5}";
    write_file(scratch, "data", GROUP, ALL, asked[groups].with);
    json_t *full = planned_run(scratch, "plan-cpu", groups, train, "{'name': 'full', 'keep': 'all'}", "");
    for (double share = 1; share > 0.85; share -= 0.02) {
        char limit[80];
        size_t bytes = (size_t)(share * number(full, "peak_bytes")) - 1;
        snprintf(limit, sizeof limit, ", 'limits': {'memory': %zu}", bytes);
        json_t *run = planned_run(scratch, "cpu", groups, train, "'auto'", limit);
        assert_true(number(run, "peak_bytes") <= (double)bytes);
        json_decref(run);
    }
    json_decref(full);
}

// With drawn chunks each micro-batch may take other memory; the record counts those that are not planned.
static void record_counts_what_is_not_planned(void **state)
{
    struct scratch *scratch = *state;
    static const char method[] = "{'name': 'spaco', 'chunk': 3, 'budget': 2, 'sampler': 'bernoulli'}";
    write_file(scratch, "data", 0, ALL, asked[0].with);
    check_record(scratch, 0, "'optimizer': 'sgd', 'train': {'steps': 30}", method);
    json_t *planned =
        planned_run(scratch, "plan-cpu", 0, "'optimizer': 'sgd', 'train': {'steps': 100}", method, "");
    assert_int_equal(number(planned, "unplanned_micro_batches"), 100 - TRAIN_SHAPES_MAX);
    json_decref(planned);
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

// The second file of a folder is written to in place: its hash, by which --resume knows the data, is another, and
// whoever has it open is told; the first one is as it was.
static void the_second_file_is_noticed(void **state)
{
    struct scratch *scratch = *state;
    struct status status = {0};
    struct sequences sequences;
    struct batch_data data;
    char *folder, *second;
    assert_true(asprintf(&folder, "%s/folder", scratch->folder) > 0);
    assert_true(asprintf(&second, "%s/b.safetensors", folder) > 0);
    assert_int_equal(mkdir(folder, 0777), 0);
    write_file(scratch, "folder/a.safetensors", 0, 4, 0);
    write_file(scratch, "folder/b.safetensors", 4, 4, 0);
    // Not within the tick of the clock in which it is written to.
    assert_int_equal(utimensat(AT_FDCWD, second, (const struct timespec[2]){{1, 0}, {1, 0}}, 0), 0);
    uint64_t hash = sequences_hash(folder);
    assert_true(hash && sequences_open(&sequences, folder, 1, 256, 0, &status));
    assert_true(sequences_read(&sequences, 0, 8, &data, &status));
    batch_data_free(&data);
    FILE *file = fopen(second, "r+b");
    assert_true(file && fseek(file, -4, SEEK_END) == 0 && fputc(3, file) == 3 && fclose(file) == 0);
    assert_true(sequences_hash(folder) != hash);
    assert_true(sequences_read(&sequences, 0, 4, &data, &status));
    batch_data_free(&data);
    assert_false(sequences_read(&sequences, 4, 1, &data, &status));
    batch_data_free(&data);
    assert_int_equal(status.code, STATUS_BAD_INPUT);
    assert_non_null(strstr(status.message, "folder/b.safetensors: changed while it was read"));
    sequences_close(&sequences);
    free(second);
    free(folder);
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
        TEST(the_second_file_is_noticed),
        TEST(references_stay),
        TEST(plans_are_of_all_steps),
        TEST(plans_have_the_references_pass),
        TEST(auto_fits_all_steps),
        TEST(record_counts_what_is_not_planned),
        TEST(pairs_stay_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
