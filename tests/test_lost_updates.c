// Lost updates: measuring them changes no bit of a training run, the shares are those of the weights and gradients
// themselves, and rounding loses the expected part: rounding to nearest all small updates, stochastic rounding
// none in the mean.
#define _GNU_SOURCE // asprintf
#include "tests/training_run.h"

#define MODEL                                                                                                      \
    "'model': {'layers': 2, 'width': 64, 'heads': 4, 'kv_heads': 2, 'ffn': 90, 'vocab': 256}, 'context': 24, "     \
    "'data': {'text': 'experiments/data/king-james.txt'}, 'method': {'name': 'streambp', 'chunk': 7}, "            \
    "'train': {'steps': 5}"

// dtype, optimizer, whether it is measured, and what else there is; to be freed.
static char *asked(const char *dtype, const char *optimizer, bool measured, const char *rest)
{
    char *json;
    assert_true(asprintf(&json, "{" MODEL ", 'dtype': '%s', 'optimizer': {%s}, 'measure': {'lost_updates': %s}%s}",
                         dtype, optimizer, measured ? "true" : "false", rest) > 0);
    return json;
}

static void run_open(struct training_run *run, const char *optimizer, bool measured, const char *rest)
{
    char *json = asked("bf16", optimizer, measured, rest);
    training_run_open(run, json);
    free(json);
}

// All weights, to be freed.
static double *weights_of(struct training_run *run, size_t *count)
{
    struct model *model = &run->setup.model;
    double *values = NULL;
    *count = 0;
    for (size_t i = 0; i < model->parameter_count; i++) {
        size_t n = tensor_count(model->parameters[i].value);
        values = realloc(values, (*count + n + 1) * sizeof *values);
        assert_non_null(values);
        tensor_read(model->device, model->parameters[i].value, values + *count);
        *count += n;
    }
    return values;
}

static const char *const roundings[] = {"", ", 'round': 'stochastic'", ", 'master': 'f32'",
                                        ", 'master': 'f32', 'round': 'stochastic'"};

static void measuring_changes_no_bit(void **state)
{
    (void)state;
    size_t known = 0;
    for (const struct optimizer *const *o = optimizers; *o; o++) {
        known += lost_updates_known(*o);
        for (size_t r = 0; lost_updates_known(*o) && r < COUNT(roundings); r++) {
            char optimizer[160];
            double *weights[2];
            size_t count;
            snprintf(optimizer, sizeof optimizer, "'name': '%s', 'rate': 0.001%s", (*o)->name, roundings[r]);
            for (int measured = 0; measured < 2; measured++) {
                struct training_run run;
                run_open(&run, optimizer, measured, "");
                size_t live = run.setup.device->arena.live_bytes;
                for (size_t i = 0; i < 5; i++)
                    training_run_step(&run);
                assert_int_equal(run.setup.device->arena.live_bytes, live);
                assert_int_equal(run.train.lost_updates.moved > 0, measured);
                weights[measured] = weights_of(&run, &count);
                training_run_close(&run);
            }
            assert_memory_equal(weights[0], weights[1], count * sizeof *weights[0]);
            free(weights[0]);
            free(weights[1]);
        }
    }
    assert_true(known >= 2);
}

// SGD's update is the gradient's: what becomes of it is counted here from both.
static void shares_are_those_of_the_weights(void **state)
{
    (void)state;
    const double rate = 0.03;
    for (int stochastic = 0; stochastic < 2; stochastic++) {
        struct training_run run;
        size_t count, moved = 0, unchanged = 0;
        double asked_for = 0, taken = 0;
        run_open(&run,
                 stochastic ? "'name': 'sgd', 'rate': 0.03, 'round': 'stochastic'" : "'name': 'sgd', 'rate': 0.03",
                 true, "");
        double *before = weights_of(&run, &count);
        training_run_step(&run);
        double *after = weights_of(&run, &count), *gradients = training_run_gradients(&run, &count);
        for (size_t i = 0; i < count; i++) {
            double u = (double)(float)(before[i] - rate * gradients[i]) - before[i];
            moved += u != 0;
            unchanged += u != 0 && after[i] == before[i];
            asked_for += u * u;
            taken += u * (after[i] - before[i]);
        }
        double share = (double)unchanged / (double)moved;
        assert_true(share > 0.1 && share < 0.99); // else it says little
        assert_true(fabs(lost_updates_unchanged(&run.train.lost_updates) - share) <= 1e-4);
        assert_true(fabs(lost_updates_lost(&run.train.lost_updates) - (1 - taken / asked_for)) <= 1e-4);
        free(gradients);
        free(after);
        free(before);
        training_run_close(&run);
    }
}

struct shares {
    double unchanged, lost;
};

// Means over the steps.
static struct shares shares_of(const char *optimizer, const char *rest)
{
    struct training_run run;
    struct shares shares = {0, 0};
    run_open(&run, optimizer, true, rest);
    for (size_t i = 0; i < 5; i++) {
        training_run_step(&run);
        shares.unchanged += lost_updates_unchanged(&run.train.lost_updates) / 5;
        shares.lost += lost_updates_lost(&run.train.lost_updates) / 5;
    }
    training_run_close(&run);
    return shares;
}

// With weights N(0, 1 / 64) and updates of 1e-5, those below 2^-8 change, and these few by much; a rate of 0.1
// changes all that have a gradient. A stochastic step's error is the root of the spacing over the sum of the
// updates: here about 0.06.
static void rounding_loses_what_is_small(void **state)
{
    (void)state;
    static const char *const rests[] = {"", ", 'lora': {'rank': 8, 'alpha': 16, 'targets': ['q', 'down']}"};
    for (size_t i = 0; i < COUNT(rests); i++) {
        bool lora = i > 0; // B begins with 0, which any update moves
        struct shares nearest = shares_of("'name': 'adamw', 'rate': 1e-5", rests[i]),
                      stochastic = shares_of("'name': 'adamw', 'rate': 1e-5, 'round': 'stochastic'", rests[i]),
                      master = shares_of("'name': 'adamw', 'rate': 1e-5, 'master': 'f32'", rests[i]),
                      large = shares_of("'name': 'adamw', 'rate': 0.1, 'decay': 0", rests[i]);
        assert_true(lora ? nearest.lost > 0.2 && nearest.lost < 0.8 : nearest.lost > 0.9);
        assert_true(nearest.unchanged > (lora ? 0.2 : 0.9));
        assert_true(fabs(stochastic.lost) < 0.2 && stochastic.unchanged > 0.2);
        assert_true(master.lost == 0 && master.unchanged > 0.2);
        assert_true(fabs(large.lost) < 0.01 && large.unchanged < 0.01);
    }
}

// Measured bytes are planned ones with it, too; and what has none of it, does not.
static void records_have_the_shares(void **state)
{
    (void)state;
    static const char adamw[] = "'name': 'adamw'", galore[] = "'name': 'galore', 'rank': 4";
    static const struct {
        const char *dtype, *optimizer;
        bool measured;
        size_t count;
    } cases[] = {
        {"bf16", adamw, true, 5}, {"bf16", adamw, false, 0}, {"f32", adamw, true, 0}, {"bf16", galore, true, 0}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *json = asked(cases[i].dtype, cases[i].optimizer, cases[i].measured, "");
        json_t *record = record_of(json);
        free(json);
        json = asked(cases[i].dtype, cases[i].optimizer, cases[i].measured, ", 'device': 'plan-cpu'");
        json_t *planned = record_of(json);
        free(json);
        const json_t *curve = json_object_get(record, "curve"), *lost = json_object_get(curve, "lost_updates"),
                     *unchanged = json_object_get(curve, "unchanged_weights");
        assert_int_equal(json_array_size(lost), cases[i].count);
        assert_int_equal(json_array_size(unchanged), cases[i].count);
        assert_true(number(record, "peak_bytes") == number(planned, "peak_bytes"));
        for (size_t step = 0; step < cases[i].count; step++) {
            assert_true(json_number_value(json_array_get(unchanged, step)) > 0);
            assert_true(json_number_value(json_array_get(lost, step)) > 0);
        }
        json_decref(planned);
        json_decref(record);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measuring_changes_no_bit),
        cmocka_unit_test(shares_are_those_of_the_weights),
        cmocka_unit_test(rounding_loses_what_is_small),
        cmocka_unit_test(records_have_the_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
