// Training runs in this process: exact methods' losses agree, micro-batches add up to one step, windows are in
// order, rates and clipping are as configured, evaluation is the loss of a step without update.
#define _GNU_SOURCE // nftw, mkdtemp, asprintf
#include "harness/train/checkpoint.h"
#include "tests/scratch.h"
#include "tests/training_run.h"

#define SHAPE       "'layers': 2, 'width': 16, 'heads': 4, 'kv_heads': 2, 'head_dim': 4, 'ffn': 24, 'vocab': 256"
#define MODEL       "'model': {" SHAPE "%s}"
#define WHOLE_MODEL "'model': {" SHAPE "}"
#define DATA        "'data': {'text': 'experiments/data/king-james.txt'}"
enum { STEPS = 20, CONTEXT = 24 };

// json: a trial's keys besides those of a small model in f64, with ' for ".
static void run_open(struct training_run *run, const char *keys, const char *shape)
{
    char *json;
    assert_true(asprintf(&json, "{" MODEL ", " DATA ", 'dtype': 'f64', 'context': %d, %s}", shape, CONTEXT, keys) >
                0);
    training_run_open(run, json);
    free(json);
}

// Curves agree for as long as rounding has not grown; afterwards they are each one's own.
static void exact_methods_have_the_same_losses(void **state)
{
    (void)state;
    static const char *const updates[] = {
        "'adamw'", "{'name': 'adamw', 'rate': 0.01, 'decay': 0.1}",
        "{'name': 'galore', 'rate': 0.01, 'rank': 3, 'interval': 6}",
        "{'name': 'natural-galore', 'rate': 0.01, 'rank': 3, 'history': 4, 'sums': 'projected'}"};
    double losses[STEPS];
    for (size_t u = 0; u < COUNT(updates); u++) {
        for (const struct method *const *m = methods; *m; m++) {
            struct training_run run;
            char keys[400];
            bool chunks = option_find(&(*m)->options, "chunk");
            if (!(*m)->exact)
                continue;
            snprintf(
                keys, sizeof keys,
                "'batch': 2, 'optimizer': %s, 'train': {'steps': %d, 'accumulate': 2}, 'method': {'name': '%s'%s}",
                updates[u], STEPS, (*m)->name, chunks ? ", 'chunk': 7, 'head_chunk': 5" : "");
            run_open(&run, keys, "");
            for (size_t i = 0; i < STEPS; i++) {
                double loss = training_run_step(&run);
                if (m == methods)
                    losses[i] = loss;
                else if (!(fabs(loss - losses[i]) <= 1e-9 * fabs(losses[i])))
                    fail_msg("%s: step %zu: loss %.17g, of full %.17g", (*m)->name, i + 1, loss, losses[i]);
            }
            assert_true(losses[STEPS - 1] < losses[0]);
            training_run_close(&run);
        }
    }
}

static void check_micro_batches(const struct objective *objective, const char *optimizer)
{
    struct training_run runs[2];
    double *found[2];
    size_t count;
    char keys[400];
    for (int i = 0; i < 2; i++) {
        snprintf(keys, sizeof keys,
                 "'batch': %d, 'objective': '%s', 'optimizer': %s, 'method': {'name': 'seco', 'chunk': 9}, "
                 "'train': {'steps': 4, 'accumulate': %d, 'shuffle': 7}",
                 i ? 6 : 2, objective->name, optimizer, i ? 1 : 3);
        run_open(&runs[i], keys, "");
        training_run_step(&runs[i]);
        found[i] = training_run_gradients(&runs[i], &count);
    }
    assert_true(training_run_norm(found[0], found[1], count) <= 1e-13 * training_run_norm(found[1], NULL, count));
    assert_true(near(runs[0].report.sums.loss, runs[1].report.sums.loss));
    for (int i = 1; i < 4; i++)
        assert_true(fabs(training_run_step(&runs[0]) / training_run_step(&runs[1]) - 1) <= 1e-11);
    for (int i = 0; i < 2; i++) {
        free(found[i]);
        training_run_close(&runs[i]);
    }
}

static void micro_batches_make_one_step(void **state)
{
    (void)state;
    for (const struct objective *const *o = objectives; *o; o++) {
        if (!(*o)->options.rows && objective_of_tokens(*o, NULL)) { // of windows there are no more than tokens
            check_micro_batches(*o, "'adamw'");
            check_micro_batches(*o, "{'name': 'galore', 'rank': 3, 'sums': 'projected'}");
        }
    }
}

// The forward alone gives the loss that a step gives, of every shape of model, whatever its cells.
static void evaluation_is_a_steps_loss(void **state)
{
    (void)state;
    static const char *const shapes[] = {"", ", 'tied': true", ", 'qk_norm': true", ", 'qkv_bias': true"};
    for (size_t s = 0; s < COUNT(shapes); s++) {
        for (const struct objective *const *o = objectives; *o; o++) {
            struct training_run run;
            struct status status = {0};
            struct objective_sums found;
            char keys[500];
            if ((*o)->options.rows || !objective_of_tokens(*o, NULL))
                continue;
            snprintf(keys, sizeof keys,
                     "'batch': 2, 'objective': '%s', 'optimizer': 'adamw', 'train': {'steps': 3, 'accumulate': 3, "
                     "'evaluate': 'experiments/data/king-james.txt', 'evaluate_windows': 6, 'evaluate_every': 2}, "
                     "'method': {'name': 'streambp', 'chunk': 7, 'head_chunk': 5}",
                     (*o)->name);
            run_open(&run, keys, shapes[s]);
            assert_true(train_evaluates(&run.train));
            size_t live = run.setup.device->arena.live_bytes;
            assert_true(train_evaluate(&run.train, &found, &status));
            assert_int_equal(run.setup.device->arena.live_bytes, live);
            assert_true(near(training_run_step(&run), found.loss));
            assert_false(train_evaluates(&run.train));
            training_run_step(&run);
            assert_true(train_evaluates(&run.train));
            training_run_step(&run);
            assert_true(train_evaluates(&run.train)); // the last
            training_run_close(&run);
        }
    }
}

// Without a number of steps between them there are two evaluations.
static void evaluations_are_before_the_first_step_and_after_the_last(void **state)
{
    (void)state;
    struct training_run run;
    run_open(&run,
             "'batch': 2, 'optimizer': 'adamw', 'train': {'steps': 2, 'held_out': 0.5, 'evaluate_windows': 2}, "
             "'method': 'full'",
             "");
    assert_true(train_evaluates(&run.train));
    training_run_step(&run);
    assert_false(train_evaluates(&run.train));
    training_run_step(&run);
    assert_true(train_evaluates(&run.train));
    training_run_close(&run);
}

// The last batch of an evaluation may be smaller than the others: the mean is over all windows.
static void evaluation_is_a_mean_over_all_windows(void **state)
{
    (void)state;
    struct objective_sums found[3];
    for (int i = 0; i < 3; i++) {
        struct training_run run;
        struct status status = {0};
        char keys[300];
        snprintf(keys, sizeof keys,
                 "'batch': %d, 'optimizer': 'adamw', 'method': 'full', "
                 "'train': {'steps': 1, 'held_out': 0.5, 'evaluate_windows': 5}",
                 i + 1);
        run_open(&run, keys, "");
        assert_true(train_evaluate(&run.train, &found[i], &status));
        training_run_close(&run);
    }
    assert_true(near(found[1].loss, found[0].loss) && near(found[2].loss, found[0].loss));
}

struct rated {
    const char *train;
    double factors[6]; // of steps 1 to 6
};

static void rates_follow_the_schedule(void **state)
{
    (void)state;
    double half = sqrt(0.5), far = 0.5 + 0.5 * half, near_end = 0.5 - 0.5 * half;
    const struct rated cases[] = {
        {"'steps': 6", {1, 1, 1, 1, 1, 1}},
        {"'steps': 6, 'warmup': 3", {1.0 / 3, 2.0 / 3, 1, 1, 1, 1}},
        {"'steps': 6, 'warmup': 2, 'schedule': 'linear'", {0.5, 1, 1, 0.75, 0.5, 0.25}},
        {"'steps': 6, 'warmup': 2, 'schedule': 'linear', 'min_lr_ratio': 0.2", {0.5, 1, 1, 0.8, 0.6, 0.4}},
        {"'steps': 6, 'warmup': 2, 'schedule': 'cosine'", {0.5, 1, 1, far, 0.5, near_end}},
        {"'steps': 6, 'warmup': 2, 'schedule': 'cosine', 'min_lr_ratio': 0.5",
         {0.5, 1, 1, 0.5 + far / 2, 0.75, 0.5 + near_end / 2}},
        {"'steps': 6, 'warmup': 6, 'schedule': 'cosine'", {1.0 / 6, 2.0 / 6, 0.5, 4.0 / 6, 5.0 / 6, 1}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct training_run run;
        char keys[300];
        snprintf(keys, sizeof keys,
                 "'optimizer': {'name': 'adamw', 'rate': 0.004}, 'method': 'full', 'train': {%s}", cases[i].train);
        run_open(&run, keys, "");
        for (size_t s = 0; s < 6; s++) {
            training_run_step(&run);
            if (!near(run.train.rate, 0.004 * cases[i].factors[s]))
                fail_msg("%s: step %zu: %.15g", cases[i].train, s + 1, run.train.rate / 0.004);
        }
        training_run_close(&run);
    }
}

static void gradients_are_clipped(void **state)
{
    (void)state;
    static const char keys[] = "'optimizer': 'adamw', 'method': 'full', 'train': {'steps': 1, 'clip': %.17g}";
    double whole = 0;
    for (int i = 0; i < 3; i++) { // not at all; to half its norm; a norm that it does not have
        struct training_run run;
        char text[200];
        size_t count;
        snprintf(text, sizeof text, keys, i == 1 ? whole / 2 : 2 * whole);
        run_open(&run, text, "");
        training_run_step(&run);
        double *found = training_run_gradients(&run, &count), length = training_run_norm(found, NULL, count);
        whole = i ? whole : length;
        assert_true(near(run.train.gradient_norm, whole));
        assert_true(near(length, i == 1 ? whole * (whole / 2 / (whole + 1e-6)) : whole)); // as torch has it
        free(found);
        training_run_close(&run);
    }
}

// A method that draws has a count of FLOPs for each step, which differ; of others one is that of all.
static void check_work(const json_t *record, bool draws)
{
    const json_t *flops = json_object_get(json_object_get(record, "curve"), "flops");
    bool uneven = false;
    assert_int_equal(json_array_size(flops), draws ? 5 : 0);
    for (size_t i = 0; i < json_array_size(flops); i++)
        uneven |= json_number_value(json_array_get(flops, i)) < number(record, "flops") ||
                  json_number_value(json_array_get(flops, i)) > number(record, "flops");
    assert_true(!draws || (uneven && json_number_value(json_array_get(flops, 0)) == number(record, "flops")));
}

// A trial that trains is measured like any other: its steps are the samples, its bytes are as planned, and the
// curve is that of the same run on the command line.
static void trials_record_the_curve(void **state)
{
    (void)state;
    for (const struct method *const *m = methods; *m; m++) {
        char keys[600], *json;
        bool chunks = option_find(&(*m)->options, "chunk"), budget = option_find(&(*m)->options, "budget");
        if (!(*m)->exact && !budget)
            continue;
        snprintf(keys, sizeof keys,
                 "'batch': 2, 'optimizer': 'adamw', 'method': {'name': '%s'%s%s}, "
                 "'train': {'steps': 5, 'accumulate': 2, 'held_out': 0.0002, 'evaluate_every': 2}",
                 (*m)->name, chunks ? ", 'chunk': 7" : "", budget ? ", 'budget': 2" : "");
        assert_true(asprintf(&json, "{" MODEL ", " DATA ", 'dtype': 'f64', 'context': %d, %s}", "", CONTEXT, keys) >
                    0);
        json_t *record = record_of(json);
        free(json);
        assert_true(asprintf(&json, "{" MODEL ", 'dtype': 'f64', 'device': 'plan-cpu', 'context': %d, %s}", "",
                             CONTEXT, keys) > 0);
        json_t *planned = record_of(json);
        free(json);
        static const char *const counts[] = {"peak_bytes", "resident_bytes", "flops", "bytes_moved", "launches"};
        for (size_t i = 0; i < COUNT(counts); i++)
            if (number(record, counts[i]) != number(planned, counts[i]))
                fail_msg("%s: %s: %.0f, planned %.0f", (*m)->name, counts[i], number(record, counts[i]),
                         number(planned, counts[i]));
        assert_true(
            json_equal(json_object_get(record, "peak_by_category"), json_object_get(planned, "peak_by_category")));
        assert_true(json_is_null(json_object_get(planned, "curve")));

        const json_t *curve = json_object_get(record, "curve"), *losses = json_object_get(curve, "loss");
        const json_t *at = json_object_get(curve, "evaluation_step");
        struct training_run run;
        run_open(&run, keys, "");
        assert_int_equal(json_array_size(losses), 5);
        assert_int_equal(json_array_size(json_object_get(curve, "gradient_norm")), 5);
        assert_int_equal(json_array_size(json_object_get(record, "samples_ms")), 5);
        for (size_t i = 0; i < 5; i++)
            assert_true(json_real_value(json_array_get(losses, i)) == training_run_step(&run));
        assert_true(number(record, "loss") == json_real_value(json_array_get(losses, 0)));
        assert_int_equal(json_array_size(at), 4); // 0, 2, 4, 5
        assert_int_equal(json_integer_value(json_array_get(at, 1)), 2);
        assert_int_equal(json_integer_value(json_array_get(at, 3)), 5);
        assert_int_equal(json_array_size(json_object_get(curve, "evaluation_loss")), 4);
        check_work(record, (*m)->draw);
        training_run_close(&run);
        json_decref(planned);
        json_decref(record);
    }
}

// Steps take the first tokens of each window, and an evaluation takes whole windows.
static void steps_take_the_first_tokens_of_a_window(void **state)
{
    enum { WINDOWS = 6, TAKEN = 10, WINDOW = 16 };
    struct scratch *scratch = *state;
    char text[WINDOWS * WINDOW], firsts[WINDOWS * TAKEN];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i * i % 26);
    for (size_t i = 0; i < sizeof firsts; i++)
        firsts[i] = text[i / TAKEN * WINDOW + i % TAKEN];
    char *const data[] = {strdup(scratch_file(scratch, "text", text, sizeof text).text),
                          strdup(scratch_file(scratch, "firsts", firsts, sizeof firsts).text)};
    static const char *const keys[] = {
        "'context': 10, 'train': {'steps': 2, 'shuffle': 5, 'window': 16, 'evaluate'",
        "'context': 10, 'train': {'steps': 2, 'shuffle': 5, 'evaluate'",
        "'context': 16, 'train': {'steps': 2, 'shuffle': 5, 'evaluate'"};
    double losses[COUNT(keys)][2];
    struct objective_sums held_out[COUNT(keys)];
    struct status status = {0};
    for (size_t i = 0; i < COUNT(keys); i++) {
        struct training_run run;
        char *json;
        assert_true(asprintf(&json,
                             "{" MODEL ", 'data': {'text': '%s'}, 'dtype': 'f64', 'optimizer': 'adamw', 'method': "
                             "{'name': 'seco', 'chunk': 4}, %s: '%s'}}",
                             "", data[i == 1], keys[i], data[0]) > 0);
        training_run_open(&run, json);
        free(json);
        assert_true(train_evaluate(&run.train, &held_out[i], &status));
        for (size_t s = 0; s < COUNT(losses[i]); s++)
            losses[i][s] = training_run_step(&run);
        training_run_close(&run);
    }
    assert_memory_equal(losses[0], losses[1], sizeof *losses);
    assert_true(losses[0][0] < losses[2][0] || losses[0][0] > losses[2][0]);
    assert_true(held_out[0].loss == held_out[2].loss);
    assert_true(held_out[1].loss < held_out[2].loss || held_out[1].loss > held_out[2].loss);
    free(data[0]);
    free(data[1]);
}

// Runs that differ in the seed draw otherwise; the default seed's first draw is that of a trial that does not
// train.
static void each_seed_has_draws_of_its_own(void **state)
{
    (void)state;
    enum { SEEDS = 3, FIRST = 6 };
    static const char *const keys = "'seed': %d, 'optimizer': 'adamw', 'train': {'steps': 6}, "
                                    "'method': {'name': 'spaco', 'chunk': 2, 'budget': 3}";
    uint32_t drawn[SEEDS][FIRST][3];
    for (int seed = 0; seed < SEEDS; seed++) {
        struct training_run run;
        char text[300];
        snprintf(text, sizeof text, keys, seed);
        run_open(&run, text, "");
        for (size_t i = 0; i < FIRST; i++) {
            training_run_step(&run);
            assert_int_equal(run.report.drawn_chunks.count, 3);
            memcpy(drawn[seed][i], run.report.drawn_chunks.items, sizeof drawn[seed][i]);
        }
        training_run_close(&run);
    }
    for (int seed = 0; seed < SEEDS; seed++)
        assert_memory_not_equal(drawn[seed], drawn[(seed + 1) % SEEDS], sizeof drawn[seed]);
    json_t *record = record_of("{" WHOLE_MODEL ", " DATA ", 'dtype': 'f64', 'context': 24, "
                               "'method': {'name': 'spaco', 'chunk': 2, 'budget': 3}}");
    const json_t *first = json_object_get(record, "drawn_chunks");
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(json_integer_value(json_array_get(first, i)), drawn[1][0][i]);
    json_decref(record);
}

static double peak_of(const char *device, const char *text, const char *train)
{
    char *json;
    assert_true(asprintf(&json,
                         "{" MODEL
                         ", 'data': {'text': '%s'}, 'dtype': 'f64', 'device': '%s', 'context': %d, 'batch': "
                         "4, 'optimizer': 'sgd', 'train': {'steps': 1, %s}, 'method': {'name': 'seco', 'chunk': 8, "
                         "'head_chunk': 0, 'segments': 2}}",
                         "", text, device, CONTEXT, train) > 0);
    json_t *record = record_of(json);
    double peak = number(record, "peak_bytes");
    json_decref(record);
    free(json);
    return peak;
}

// If fewer windows are evaluated than make a micro-batch, evaluation would take more than a step; plans know this
// for files that they can read, and otherwise assume the maximum.
static void plans_know_what_is_held_out(void **state)
{
    struct scratch *scratch = *state;
    char bytes[10 * CONTEXT], train[2][4200];
    memset(bytes, 'a', sizeof bytes);
    char *data = strdup(scratch_file(scratch, "data", bytes, sizeof bytes).text);
    char *other = strdup(scratch_file(scratch, "other", bytes, 2 * CONTEXT).text);
    assert_true(data && other);
    snprintf(train[0], sizeof train[0], "'evaluate': '%s'", other);
    snprintf(train[1], sizeof train[1], "'held_out': 0.9, 'evaluate_windows': 2");
    const char *const cases[] = {"'held_out': 0.1", "'held_out': 0.5", train[0], train[1],
                                 "'held_out': 0.5, 'window': 60"};
    for (size_t i = 0; i < COUNT(cases); i++) {
        double measured = peak_of("cpu", data, cases[i]), planned = peak_of("plan-cpu", data, cases[i]);
        if (measured != planned)
            fail_msg("%s: %.0f, planned %.0f", cases[i], measured, planned);
    }
    assert_true(peak_of("plan-cpu", data, cases[0]) < peak_of("plan-cpu", data, cases[1]));
    assert_true(peak_of("plan-cpu", data, cases[1]) < peak_of("plan-cpu", data, cases[4])); // two are evaluated
    assert_true(peak_of("plan-cpu", "absent", cases[0]) == peak_of("plan-cpu", data, cases[1]));
    assert_true(peak_of("plan-cpu", "absent", cases[3]) == peak_of("plan-cpu", data, cases[3]));
    free(other);
    free(data);
}

// A run that stops and one that goes on from its checkpoint are one run, whatever the optimizer keeps; also where
// it updates within the walk, or rounds at random.
static void check_stop(const struct scratch *scratch, const char *optimizer, const char *lora, const char *dtype,
                       size_t *checked)
{
    enum { ALL = 6, HALF = 3 };
    char *json, *text;
    double losses[ALL];
    struct status status = {0};
    struct trial trial;
    struct step_report report = {0};
    struct world world;
    world_open_alone(&world);
    assert_true(asprintf(&json,
                         "{" MODEL ", " DATA ", 'context': %d, 'dtype': '%s', 'optimizer': {%s, 'rate': 0.01}, "
                         "'lora': %s, 'train': {'steps': %d}, 'method': {'name': 'streambp', 'chunk': 7}}",
                         "", CONTEXT, dtype, optimizer, lora, ALL) > 0);
    text = quoted(json);
    bool possible = trial_decode(&trial, text, "trial", &status); // not every dtype goes with every option
    for (int run = 0; possible && run < 2; run++) {
        struct setup setup;
        struct train train;
        struct setup_options options = setup_options_of(&trial);
        assert_true(train_open(&train, &trial, &world, false, &status));
        assert_true(setup_open(&setup, &trial, &options, &status));
        train_begin(&train, &setup);
        if (run == 1) {
            train.step = HALF;
            assert_true(checkpoint_read(scratch->folder, HALF, &setup.trainer, &world, &status));
        }
        while (train.step < ALL) {
            assert_true(train_step(&train, &report, &status));
            if (run == 0)
                losses[train.step - 1] = report.sums.loss;
            else if (report.sums.loss != losses[train.step - 1])
                fail_msg("%s: step %zu: %.17g, without a stop %.17g", json, train.step, report.sums.loss,
                         losses[train.step - 1]);
            if (run == 0 && train.step == HALF)
                assert_true(checkpoint_write(scratch->folder, HALF, &setup.model, NULL, &world, &status));
        }
        assert_int_equal(checkpoint_last(scratch->folder), HALF);
        train_close(&train);
        setup_close(&setup);
        ++*checked;
    }
    checkpoint_prune(scratch->folder, 0);
    step_report_free(&report);
    trial_free(&trial);
    free(text);
    free(json);
}

static void state_survives_a_stop(void **state)
{
    static const char *const more[] = {"",
                                       ", 'when': 'backward'",
                                       ", 'state': 'bf16', 'round': 'stochastic'",
                                       ", 'master': 'f32'",
                                       ", 'momentum': 0.9",
                                       ", 'interval': 1",
                                       ", 'interval': 3, 'order': 'random'",
                                       ", 'interval': 1, 'expand': 'above'",
                                       ", 'interval': 2, 'factor_state': 'reset'",
                                       ", 'rank': 3, 'interval': 2, 'state': '8bit'",
                                       ", 'sums': 'projected'",
                                       ", 'rank': 2, 'history': 3"};
    static const char *const dtypes[] = {"f64", "bf16"};
    size_t checked = 0;
    for (const struct optimizer *const *o = optimizers; *o; o++) {
        size_t before = checked;
        for (size_t i = 0; i < COUNT(more) * COUNT(dtypes); i++) {
            char optimizer[200];
            snprintf(optimizer, sizeof optimizer, "'name': '%s'%s", (*o)->name, more[i / 2]);
            check_stop(*state, optimizer, (*o)->lora == LORA_BESIDE ? "{}" : "null", dtypes[i % 2], &checked);
        }
        assert_true(checked >= before + 2);
    }
    assert_true(checked >= 24);
}

static void windows_come_in_order(void **state)
{
    struct scratch *scratch = *state;
    struct scratch_path path = scratch_file(scratch, "text", "aabbccddeeffgghhiijjkkllm", 25);
    struct data_source source = {DATA_BYTES, path.text};
    struct status status = {0};
    struct windows windows, held_out;
    int32_t ids[2 * 30];
    assert_true(windows_open(&windows, &source, 2, 2, 256, 1, 0, &status));
    assert_int_equal(windows.order.count, 12); // what is left over makes none
    assert_true(windows_split(&windows, 0.2, &held_out, &status));
    assert_int_equal(windows.order.count, 10);
    assert_true(windows_read(&windows, 8, 4, ids, &status)); // from the end to the beginning again
    assert_memory_equal(ids, ((int32_t[]){'i', 'i', 'j', 'j', 'a', 'a', 'b', 'b'}), 8 * sizeof *ids);
    assert_true(windows_read(&held_out, 0, 2, ids, &status));
    assert_memory_equal(ids, ((int32_t[]){'k', 'k', 'l', 'l'}), 4 * sizeof *ids);
    windows_close(&held_out);
    windows_close(&windows);

    assert_true(windows_open(&windows, &source, 3, 2, 256, 1, 0, &status)); // two tokens of three
    assert_int_equal(windows.order.count, 8);
    assert_true(windows_split(&windows, 0.13, &held_out, &status));
    assert_true(windows_read(&windows, 1, 2, ids, &status));
    assert_memory_equal(ids, ((int32_t[]){'b', 'c', 'd', 'd'}), 4 * sizeof *ids);
    assert_true(windows_read(&held_out, 0, 1, ids, &status)); // whole
    assert_memory_equal(ids, ((int32_t[]){'k', 'l', 'l'}), 3 * sizeof *ids);
    windows_close(&held_out);
    windows_close(&windows);

    int32_t again[2 * 30], other[2 * 30];
    for (uint64_t seed = 1; seed <= 2; seed++) { // three times through, each time another order
        assert_true(windows_open(&windows, &source, 2, 2, 256, 1, seed, &status));
        assert_true(windows_split(&windows, 0.2, &held_out, &status));
        assert_true(windows_read(&windows, 0, 30, ids, &status));
        assert_true(windows_read(&windows, 25, 5, again, &status) &&
                    windows_read(&windows, 0, 25, again + 10, &status));
        assert_memory_equal(again, ids + 50, 10 * sizeof *ids); // whatever was read before
        assert_memory_equal(again + 10, ids, 50 * sizeof *ids);
        for (int epoch = 0; epoch < 3; epoch++) {
            unsigned seen = 0;
            for (int i = 0; i < 10; i++)
                seen |= 1u << (ids[2 * (10 * epoch + i)] - 'a');
            assert_int_equal(seen, 0x3ff);
        }
        assert_memory_not_equal(ids, ids + 20, 20 * sizeof *ids);
        if (seed == 2)
            assert_memory_not_equal(ids, other, sizeof ids);
        memcpy(other, ids, sizeof ids);
        windows_close(&held_out);
        windows_close(&windows);
    }
    struct epochs two = {.count = 2, .shuffle = 1};
    unsigned firsts = 0;
    for (size_t epoch = 0; epoch < 16; epoch++) // each is the first in some
        firsts |= 1u << epochs_item(&two, 2 * epoch);
    assert_int_equal(firsts, 3);
    epochs_close(&two);
    path = scratch_file(scratch, "text", "ab\xff", 3);
    assert_true(windows_open(&windows, &source, 1, 1, 255, 1, 0, &status));
    assert_false(windows_read(&windows, 2, 1, ids, &status));
    assert_non_null(strstr(status.message, "text: token 2 is 255, expected 0 to 254"));
    windows_close(&windows);
}

// A share is what it says: 0.29 times 100 is below 29 in f64.
static void shares_are_rounded_down(void **state)
{
    (void)state;
    static const struct {
        double share;
        size_t count, part;
    } cases[] = {{0.29, 100, 29}, {0.57, 100, 57}, {0.58, 100, 58}, {0.295, 100, 29},
                 {0.01, 100, 1},  {0.999, 10, 9},  {1.0 / 3, 3, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(epochs_share(cases[i].share, cases[i].count), cases[i].part);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv); // the BLAS kernels that the program itself uses
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_methods_have_the_same_losses),
        cmocka_unit_test(micro_batches_make_one_step),
        cmocka_unit_test(evaluation_is_a_steps_loss),
        cmocka_unit_test(evaluations_are_before_the_first_step_and_after_the_last),
        cmocka_unit_test(evaluation_is_a_mean_over_all_windows),
        cmocka_unit_test(rates_follow_the_schedule),
        cmocka_unit_test(gradients_are_clipped),
        cmocka_unit_test(shares_are_rounded_down),
        cmocka_unit_test(trials_record_the_curve),
        cmocka_unit_test_setup_teardown(steps_take_the_first_tokens_of_a_window, scratch_setup, scratch_teardown),
        cmocka_unit_test(each_seed_has_draws_of_its_own),
        cmocka_unit_test_setup_teardown(plans_know_what_is_held_out, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(state_survives_a_stop, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(windows_come_in_order, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
