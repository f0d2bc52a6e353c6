// Times of a step, measured and estimated: rates, times by category, and the estimate's value and output.
#define _GNU_SOURCE // asprintf
#include "harness/plan/planned_step.h"
#include "methods/sampler.h"
#include "tests/asked.h"

// A step's rate says which FLOPs it is of; one that leaves some of the model's out has no rate of those.
static void a_rate_names_its_flops(void **state)
{
    (void)state;
    static const char *const tried[] = {"{'name': 'seco', 'chunk': 30}",
                                        "{'name': 'spaco', 'chunk': 30, 'budget': 2}"};
    for (size_t i = 0; i < COUNT(tried); i++) {
        char *json;
        assert_true(asprintf(&json,
                             "{'model': 'tiny', 'context': 100, 'device': 'cpu', 'method': %s, "
                             "'measure': {'samples': 1, 'warmup': 0, 'gemm': true, 'max_seconds': 6}}",
                             tried[i]) > 0);
        json_t *record = record_of(json);
        double seconds = 1e-3 * number(record, "median_ms"), model = number(record, "model_flops") / seconds;
        assert_true(near(number(record, "flops_per_s"), number(record, "flops") / seconds));
        if (i == 0) {
            assert_true(number(record, "flops") > 1.1 * number(record, "model_flops"));
            assert_true(near(number(record, "model_flops_per_s"), model));
            assert_true(near(number(record, "model_flops_share"), model / number(record, "gemm_flops_per_s")));
        } else {
            assert_true(json_is_null(json_object_get(record, "model_flops_per_s")));
            assert_true(json_is_null(json_object_get(record, "model_flops_share")));
        }
        json_decref(record);
        free(json);
    }
}

// Keys and values are made of latents a block of keys at a time.
static void smaller_blocks_of_latents_are_more(void **state)
{
    (void)state;
    double launches[2];
    for (size_t i = 0; i < 2; i++) {
        char *json;
        assert_true(
            asprintf(&json,
                     "{'model': {'preset': 'tiny', 'kv_rank': 16, 'rotary': 8, 'value_dim': 16}, 'context': "
                     "2000, 'device': 'plan-cpu', 'method': 'checkpoint', 'latent_block': %d}",
                     i ? 64 : 2000) > 0);
        json_t *record = record_of(json);
        launches[i] = number(record, "launches");
        json_decref(record);
        free(json);
    }
    assert_true(launches[1] > launches[0]);
}

// By measured rates the range is the profile's own, by scaled ones wider, but not what tells two steps apart.
static void the_range_of_estimates_is_that_of_its_rates(void **state)
{
    (void)state;
    struct trial trial = trial_of(
        "{'model': 'tiny', 'context': 100, 'device': 'plan-cuda', 'profile': 'h100-80g', 'method': 'full'}");
    struct estimate_range range = estimate_range_of(&trial);
    trial_free(&trial);
    assert_true(range.low == SCALED_LOW && range.high == SCALED_HIGH && strcmp(range.source, "scaled rates") == 0);
    assert_true(!range.measured && estimates_tell_apart(range, 1, 1.4) && !estimates_tell_apart(range, 1.3, 1));
    trial = trial_of("{'model': 'tiny', 'context': 100, 'device': 'plan-cpu', 'profile': 'results/host.json', "
                     "'method': 'full'}");
    range = estimate_range_of(&trial);
    const struct rates *rates = &trial.profile->rates[DTYPE_F32];
    assert_true(range.measured && range.low == rates->low && range.high == rates->high && range.low < range.high &&
                near(range.apart, range.high / range.low));
    trial_free(&trial);
}

// Sums over the rows of where a step's time goes.
static double rows_sum(const json_t *categories, const char *key)
{
    const json_t *rows = json_object_get(categories, "rows");
    double sum = 0;
    for (size_t i = 0; i < json_array_size(rows); i++)
        sum += number(json_array_get(rows, i), key);
    return sum;
}

static void where_the_time_goes_adds_up(void **state)
{
    (void)state;
    static const char *const counts[] = {"flops", "bytes_moved", "launches"};
    static const char *const of_layer[] = {"category",    "operation", "shape",      "launches",
                                           "bytes_moved", "flops",     "estimate_ms"};
    json_t *records[2];
    for (size_t i = 0; i < 2; i++) {
        char *json;
        assert_true(
            asprintf(&json,
                     "{'model': 'tiny', 'context': 100, 'device': '%s', 'profile': 'rtx-3090', 'optimizer': "
                     "'adamw', 'method': {'name': 'seco', 'chunk': 30}, 'measure': {'samples': 2, "
                     "'gradient': 'none', 'categories': true, 'max_seconds': 6}}",
                     i ? "plan" : "cpu") > 0);
        records[i] = record_of(json);
        free(json);
        const json_t *categories = json_object_get(records[i], "categories");
        for (size_t j = 0; j < COUNT(counts); j++)
            assert_true(rows_sum(categories, counts[j]) == number(records[i], counts[j]));
        double estimate_ms = number(records[i], "estimate_ms");
        assert_true(fabs(rows_sum(categories, "estimate_ms") - estimate_ms) <= 1e-9 * estimate_ms);
        assert_string_equal(json_string_value(json_object_get(json_object_get(categories, "roofline"), "source")),
                            "rtx-3090");
    }
    const json_t *measured = json_object_get(records[0], "categories");
    const json_t *planned = json_object_get(records[1], "categories");
    const json_t *rows = json_object_get(measured, "rows"), *twins = json_object_get(planned, "rows");
    double step_ms = number(measured, "step_ms");
    assert_true(step_ms > 0 && fabs(rows_sum(measured, "ms") - step_ms) <= 1e-9 * step_ms);
    assert_true(json_is_null(json_object_get(planned, "step_ms")));
    assert_int_equal(json_array_size(rows), json_array_size(twins));
    bool optimized = false;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *twin = json_array_get(twins, i);
        for (size_t j = 0; j < COUNT(of_layer); j++)
            assert_true(json_equal(json_object_get(row, of_layer[j]), json_object_get(twin, of_layer[j])));
        assert_true(json_is_null(json_object_get(twin, "ms")));
        optimized |= strcmp(json_string_value(json_object_get(row, "operation")), "adamw") == 0;
    }
    assert_true(optimized); // its step is the step's
    json_decref(records[0]);
    json_decref(records[1]);

    // Without a profile the CPU's own rates are taken; and without the key there is nothing.
    json_t *own =
        record_of("{'model': 'tiny', 'context': 50, 'method': 'full', 'measure': {'samples': 1, 'gradient': "
                  "'none', 'categories': true, 'max_seconds': 6}}");
    const json_t *roofline = json_object_get(json_object_get(own, "categories"), "roofline");
    assert_string_equal(json_string_value(json_object_get(roofline, "source")), "measured");
    assert_true(number(roofline, "flops_per_s") > 1e6 && number(roofline, "bytes_per_s") > 1e6);
    json_decref(own);
    json_t *without = record_of("{'model': 'tiny', 'context': 50, 'device': 'plan', 'method': 'full'}");
    assert_true(json_is_null(json_object_get(without, "categories")));
    json_decref(without);
    char *out;
    assert_int_equal(longbp(&out, "plan --model tiny --context 50 --categories --profile rtx-3090"), 0);
    assert_non_null(strstr(out, "planned: ms are estimates\n"));
    assert_non_null(strstr(out, "\n  gemm 50 x 128 x 128 "));
    free(out);
    assert_int_equal(longbp(&out, "plan --model tiny --context 50"), 0);
    assert_null(strstr(out, "gemm"));
    free(out);
}

static void an_estimate_says_that_it_is_one(void **state)
{
    (void)state;
    char *out;
    assert_int_equal(longbp(&out, "plan --model llama-3-8b --dtype bf16 --lora r=8 --method seco --context 4096"),
                     0);
    assert_null(strstr(out, "estimate"));
    assert_null(strstr(out, "fits"));
    free(out);
    assert_int_equal(longbp(&out, "plan --model llama-3-8b --dtype bf16 --lora r=8 --method seco --context 4096 "
                                  "--profile rtx-3090"),
                     0);
    assert_non_null(strstr(out, "estimate (scaled rates, profile rtx-3090)"));
    assert_non_null(strstr(out, "fits, to spare"));
    free(out);
    json_t *none = longbp_json("plan --model tiny --context 512 --json");
    assert_true(json_is_null(json_object_get(none, "estimate_ms")));
    assert_true(json_is_null(json_object_get(none, "estimate")));
    json_decref(none);
    // A card whose link has no known rate.
    json_t *profile = json_load_file("experiments/devices/rtx-3090.json", 0, NULL);
    assert_int_equal(json_object_del(profile, "host_link_bytes_per_s"), 0);
    char path[] = "/tmp/longbp-profile-XXXXXX.json";
    int file = mkstemps(path, 5);
    assert_true(file >= 0);
    assert_int_equal(json_dumpfd(profile, file, 0), 0);
    close(file);
    json_t *unknown = longbp_json(
        "plan --model tiny --context 512 --method checkpoint --offload inputs --profile %s --json", path);
    assert_true(json_is_null(json_object_get(unknown, "estimate_ms")));
    assert_true(json_is_null(json_object_get(unknown, "estimate")));
    json_decref(unknown);
    json_decref(profile);
    unlink(path);
    json_t *fast = longbp_json("plan --model llama-3-8b --dtype bf16 --context 512 --profile h100-80g --json");
    json_t *slow = longbp_json("plan --model llama-3-8b --dtype bf16 --context 512 --profile rtx-3090 --json");
    assert_string_equal(json_string_value(json_object_get(fast, "estimate")), "scaled rates");
    assert_string_equal(json_string_value(json_object_get(fast, "profile")), "h100-80g");
    assert_true(number(fast, "estimate_ms") > 1e3 * number(fast, "flops") / 989e12);
    assert_true(number(fast, "estimate_ms") > 1e3 * number(fast, "bytes_moved") / 3.35e12);
    assert_true(number(slow, "estimate_ms") > 3 * number(fast, "estimate_ms"));
    assert_true(json_is_false(json_object_get(slow, "fits"))); // weights and gradients alone are 45 GiB
    json_decref(fast);
    json_decref(slow);
}

// The estimate of a method that draws its chunks is the mean over draws, each the estimate of its own set.
static void an_estimate_over_draws_is_their_mean(void **state)
{
    (void)state;
    static const char head[] =
        "{'model': 'tiny', 'context': 128, 'device': 'plan', 'profile': 'rtx-3090', 'dtype': "
        "'bf16', 'method': {'name': 'spaco', 'chunk': 16, ";
    char *json;
    assert_true(asprintf(&json, "%s'budget': 5, 'sampler': 'bernoulli'}}", head) > 0);
    json_t *record = record_of(json);
    const json_t *counts = json_object_get(record, "sample_chunks");
    size_t draws = json_array_size(counts);
    struct trial trial = trial_of(json);
    free(json);
    assert_in_range(draws, 8, 64);
    double mean = 0;
    for (size_t i = 0; i < draws; i++) {
        struct spaco_options *options = options_copy(&trial.method->options, trial.options);
        char chunks[64] = "";
        assert_true(trial.method->draw(options, i));
        struct draw draw = sampler_draw(options, 8);
        options_free(&trial.method->options, options);
        assert_int_equal(draw.chunks.count, json_integer_value(json_array_get(counts, i)));
        assert_true(draw.chunks.count > 0); // a fixed set is not empty
        for (size_t j = 0; j < draw.chunks.count; j++)
            snprintf(chunks + strlen(chunks), sizeof chunks - strlen(chunks), "%s%u", j ? ", " : "",
                     draw.chunks.items[j]);
        draw_free(&draw);
        assert_true(asprintf(&json, "%s'sampler': 'fixed', 'drawn_chunks': [%s]}}", head, chunks) > 0);
        json_t *one = record_of(json);
        assert_null(json_object_get(one, "sample_chunks"));
        mean += number(one, "estimate_ms") / (double)draws;
        json_decref(one);
        free(json);
    }
    assert_true(fabs(number(record, "estimate_ms") / mean - 1) < 1e-12);
    json_decref(record);
    trial_free(&trial);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_names_its_flops),
        cmocka_unit_test(smaller_blocks_of_latents_are_more),
        cmocka_unit_test(where_the_time_goes_adds_up),
        cmocka_unit_test(the_range_of_estimates_is_that_of_its_rates),
        cmocka_unit_test(an_estimate_says_that_it_is_one),
        cmocka_unit_test(an_estimate_over_draws_is_their_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
