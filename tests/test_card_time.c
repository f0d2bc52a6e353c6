// A card's model of time: compared with every timed step of an H200, with the power limit's factor from one of
// them and from others; built by its command from the operations alone; and scaled to cards without measurements.
#define _GNU_SOURCE // asprintf
#include "harness/plan/planned_step.h"
#include "harness/stats/sample.h"
#include "methods/sampler.h"
#include "tests/asked.h"
#include "tests/scratch.h"

#define RECORDS_MAX 32
// The profile was made when a step was planned as the recorded ones had run, to the byte; what has been saved since
// is no part of them.
#define SINCE 0.03

static const char *word(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

// One timed step, and what the model makes of it without a power limit.
struct held {
    const char *file;
    bool full;
    double measured_s, seconds, flops;
};

static const char *const files[] = {"results/cuda-chunk.jsonl", "results/cuda-llama.jsonl",
                                    "results/pytorch-speed-cuda.json"};

// Fixes the chunks of a spaco trial to those of one draw.
static void fix_draw(json_t *trial, size_t draw)
{
    char *text = json_dumps(trial, 0);
    struct trial drawn = trial_of(text);
    json_t *method = json_object_get(trial, "method"), *chunks = json_array();
    struct spaco_options *options = options_copy(&drawn.method->options, drawn.options);
    assert_true(drawn.method->draw(options, draw));
    struct draw taken = sampler_draw(options, drawn.context / (size_t)number(method, "chunk"));
    for (size_t i = 0; i < taken.chunks.count; i++)
        json_array_append_new(chunks, json_integer(taken.chunks.items[i]));
    json_object_set_new(method, "drawn_chunks", chunks);
    json_object_set_new(method, "sampler", json_string("fixed"));
    json_object_del(method, "budget");
    draw_free(&taken);
    options_free(&drawn.method->options, options);
    trial_free(&drawn);
    free(text);
}

static void add_planned(struct held *held, const json_t *trial, double share)
{
    char *text = json_dumps(trial, 0);
    struct trial planned = trial_of(text);
    struct planned_step step;
    struct planned_memos memos;
    struct status status = {0};
    planned.profile->rates[DTYPE_BF16].power.factor = 1;
    planned_memos_open(&memos);
    const struct planned_limits limits = {NO_LIMIT, NO_LIMIT};
    if (!planned_step(&step, &planned, planned.options, limits, &memos, &status))
        fail_msg("%s: %s", text, status.message);
    held->seconds += share * step.seconds;
    held->flops += share * step.flops;
    planned_memos_close(&memos);
    trial_free(&planned);
    free(text);
}

// draws: 0, or the means of the first ones. Takes over the trial.
static struct held hold(const char *file, json_t *trial, double measured_ms, size_t draws)
{
    struct held held = {.file = file, .measured_s = 1e-3 * measured_ms};
    json_object_set_new(trial, "device", json_string("plan-cuda"));
    json_object_set_new(trial, "profile", json_string("h200-141g"));
    json_object_set_new(trial, "unfused", json_true()); // as all steps were then, and their blocks
    json_object_set_new(trial, "whole_keys", json_true());
    json_object_set_new(trial, "attention_queries", json_integer(2048));
    json_object_set_new(json_object_get(trial, "method"), "head_chunk", json_integer(256));
    held.full = strcmp(word(json_object_get(trial, "method"), "name"), "full") == 0;
    for (size_t draw = 0; draw < draws; draw++) {
        json_t *drawn = json_deep_copy(trial);
        fix_draw(drawn, draw);
        add_planned(&held, drawn, 1 / (double)draws);
        json_decref(drawn);
    }
    if (draws == 0)
        add_planned(&held, trial, 1);
    json_decref(trial);
    return held;
}

static size_t read_records(struct held *held, const char *path)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0, count = 0;
    assert_non_null(file);
    for (; getline(&line, &capacity, file) > 0; count++) {
        json_t *record = json_loads(line, 0, NULL);
        size_t draws = json_array_size(json_object_get(record, "sample_chunks"));
        double ms = number(record, draws ? "mean_ms" : "median_ms");
        held[count] = hold(path, json_incref(json_object_get(record, "trial")), ms, draws);
        json_decref(record);
    }
    free(line);
    fclose(file);
    return count;
}

// Reads the times of our steps from a file of tools/compare_with_pytorch_speed.py.
static size_t read_comparison(struct held *held, const char *path)
{
    json_t *rows = json_load_file(path, 0, NULL);
    assert_non_null(rows);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *times = json_object_get(row, "ours_ms");
        static const char *const same[] = {"model", "method", "context", "dtype"};
        json_t *trial = json_pack("{s:s}", "gradient_dtype", "bf16");
        double ms[8];
        for (size_t k = 0; k < COUNT(same); k++)
            json_object_set(trial, same[k], json_object_get(row, same[k]));
        assert_in_range(json_array_size(times), 1, COUNT(ms));
        for (size_t t = 0; t < json_array_size(times); t++)
            ms[t] = json_number_value(json_array_get(times, t));
        held[i] = hold(path, trial, sample_quantile(ms, json_array_size(times), 0.5), 0);
    }
    size_t count = json_array_size(rows);
    json_decref(rows);
    return count;
}

static double error_of(const struct held *held, const struct power_limit *power)
{
    const struct rates rates = {.power = *power};
    return fabs(rates_limited_s(&rates, held->seconds, held->flops) / held->measured_s - 1);
}

// By the steps of method full in a file alone.
static struct power_limit fitted(const struct held *held, size_t count, const char *file, double flops_per_s)
{
    double ratios[RECORDS_MAX];
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        if (held[i].full && held[i].file == file)
            ratios[found++] = held[i].measured_s / held[i].seconds;
    assert_true(found > 0);
    return (struct power_limit){flops_per_s, sample_quantile(ratios, found, 0.5)};
}

static void expect_errors(const struct held *held, size_t count, const char *without, bool without_full,
                          const struct power_limit *power, size_t expected)
{
    double sum = 0, worst = 0;
    size_t taken = 0;
    for (size_t i = 0; i < count; i++) {
        if (held[i].file == without && (!without_full || held[i].full))
            continue;
        double error = error_of(&held[i], power);
        sum += error;
        worst = fmax(worst, error);
        taken++;
    }
    print_message("%zu records, factor %.3f: mean error %.1f %%, worst %.1f %%\n", taken, power->factor,
                  100 * sum / (double)taken, 100 * worst);
    assert_int_equal(taken, expected);
    assert_true(sum <= 0.05 * (double)taken && worst <= 0.12);
}

// The profile's factor is that of full in cuda-chunk.jsonl, which is not counted then; with the factor of one file
// the model holds in the others.
static void the_model_holds_against_all_records(void **state)
{
    (void)state;
    static struct held held[RECORDS_MAX];
    static struct profile profile;
    struct status status = {0};
    size_t chunk = read_records(held, files[0]), llama = read_records(held + chunk, files[1]),
           speed = read_comparison(held + chunk + llama, files[2]), count = chunk + llama + speed;
    assert_int_equal(count, 19);
    assert_true(profile_load(&profile, "h200-141g", &status));
    const struct power_limit *power = &profile.rates[DTYPE_BF16].power;
    struct power_limit of_chunk = fitted(held, count, files[0], power->flops_per_s),
                       of_speed = fitted(held, count, files[2], power->flops_per_s);
    assert_true(fabs(of_chunk.factor / power->factor - 1) < SINCE);
    expect_errors(held, count, NULL, false, power, 19);
    expect_errors(held, count, files[0], true, power, 18);
    expect_errors(held, count, files[0], false, &of_chunk, llama + speed);
    expect_errors(held, count, files[2], false, &of_speed, chunk + llama);
}

// Nobody typed the rates in: they are the operations' alone, and the power limit's factor that of full.
static void a_command_makes_the_rates(void **state)
{
    (void)state;
    static const char *const same[] = {"source", "launch_s", "bytes_per_s", "operations"};
    json_t *made = longbp_json("calibrate --operations results/cuda-operations.json --steps "
                               "results/cuda-chunk.jsonl --profile h200-141g"),
           *kept = json_load_file("experiments/devices/h200-141g.json", 0, NULL);
    assert_non_null(kept);
    const json_t *by_command = json_object_get(json_object_get(made, "rates"), "bf16"),
                 *by_file = json_object_get(json_object_get(kept, "rates"), "bf16");
    for (size_t i = 0; i < COUNT(same); i++)
        assert_true(json_equal(json_object_get(by_command, same[i]), json_object_get(by_file, same[i])));
    const json_t *power[] = {json_object_get(by_command, "power"), json_object_get(by_file, "power")};
    assert_true(number(power[0], "flops_per_s") == number(power[1], "flops_per_s"));
    assert_true(fabs(number(power[0], "factor") / number(power[1], "factor") - 1) < SINCE);
    json_decref(kept);
    json_decref(made);
}

// If the file says that own kernels summed dK and dV over query heads, attention's backward had less glue beside
// its engines, whose rate is lower then; other words are refused.
static void head_sums_are_glue(void **state)
{
    struct scratch_path path = scratch_path(*state, "operations.json");
    json_t *operations = json_load_file("results/cuda-operations.json", 0, NULL);
    static const char *const by[] = {"cuDNN", "own kernels", "nobody"};
    double rates[COUNT(by)] = {0};
    assert_non_null(operations);
    for (size_t i = 0; i < COUNT(by); i++) {
        char *arguments, *out;
        json_object_set_new(json_object_get(operations, "context"), "head_sums", json_string(by[i]));
        assert_int_equal(json_dump_file(operations, path.text, 0), 0);
        assert_true(asprintf(&arguments,
                             "calibrate --operations %s --steps results/cuda-chunk.jsonl --profile h200-141g",
                             path.text) > 0);
        int code = longbp(&out, arguments);
        json_t *made = json_loads(out, 0, NULL);
        if (i == 2) {
            assert_true(code == 2 && strstr(out, "key \"head_sums\": expected \"own kernels\" or \"cuDNN\""));
        } else {
            const json_t *all =
                json_object_get(json_object_get(json_object_get(made, "rates"), "bf16"), "operations");
            rates[i] = json_number_value(
                json_array_get(json_object_get(json_object_get(all, "attention_backward_causal"), "values"), 0));
        }
        json_decref(made);
        free(out);
        free(arguments);
    }
    assert_true(rates[1] > 0 && rates[1] < rates[0]);
    json_decref(operations);
}

// How attention ran a file says or, without a word, is older than that: windows give the rate of own kernels if
// those ran them.
static void a_file_says_how_attention_ran(void **state)
{
    static const struct {
        const char *key, *by, *expected; // expected: of what is said; NULL: the rates as without a word
    } cases[] = {{"masked_attention", "own kernels", NULL},
                 {"attention_keys", "whole", "key \"attention_keys\": expected \"ranges\""},
                 {"masked_attention", "cuDNN",
                  "ran by cuDNN, and own kernels' rate is that of windows; run bench_ops with "
                  "LONGBP_MASKED_ATTENTION=own"},
                 {"masked_attention", "cudnn", "key \"masked_attention\": expected \"own kernels\" or \"cuDNN\""}};
    struct scratch_path path = scratch_path(*state, "operations.json");
    json_t *operations = json_load_file("results/cuda-operations.json", 0, NULL),
           *kept = json_load_file("experiments/devices/h200-141g.json", 0, NULL);
    assert_non_null(operations);
    assert_non_null(kept);
    const json_t *rates = json_object_get(json_object_get(json_object_get(kept, "rates"), "bf16"), "operations");
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *arguments, *out;
        json_t *context = json_object_get(operations, "context");
        json_object_set_new(context, cases[i].key, json_string(cases[i].by));
        assert_int_equal(json_dump_file(operations, path.text, 0), 0);
        assert_true(asprintf(&arguments,
                             "calibrate --operations %s --steps results/cuda-chunk.jsonl --profile h200-141g",
                             path.text) > 0);
        int code = longbp(&out, arguments);
        if (cases[i].expected) {
            assert_int_equal(code, 2);
            if (!strstr(out, cases[i].expected))
                fail_msg("%s", out);
        } else {
            json_t *made = json_loads(out, 0, NULL);
            if (!made)
                fail_msg("%s", out);
            assert_true(json_equal(
                json_object_get(json_object_get(json_object_get(made, "rates"), "bf16"), "operations"), rates));
            json_decref(made);
        }
        json_object_del(context, cases[i].key);
        free(out);
        free(arguments);
    }
    json_decref(kept);
    json_decref(operations);
}

// The same shares of another card's peaks: half of all that counts takes twice as long, whatever the shapes.
static void other_cards_have_its_shares(void **state)
{
    (void)state;
    static struct profile measured, half, cooler;
    struct status status = {0};
    assert_true(profile_load(&measured, "h200-141g", &status));
    assert_true(profile_load(&half,
                             "h200-141g,bf16_flops_per_s=494.5e12,f32_flops_per_s=33.5e12,bandwidth_bytes_per_s="
                             "2.4e12,power_limit_w=350,launch_s=6e-6",
                             &status));
    assert_true(profile_load(&cooler, "h200-141g,power_limit_w=350", &status));
    const struct rates *all = &measured.rates[DTYPE_BF16], *rates = &half.rates[DTYPE_BF16];
    assert_true(!all->scaled && rates->scaled && rates->low == SCALED_LOW && rates->high == SCALED_HIGH);
    assert_int_equal(all->count, rates->count);
    for (size_t i = 0; i < all->count; i++)
        assert_true(near(rates->items[i].values[0], all->items[i].values[0] / 2));
    assert_true(near(rates->power.flops_per_s, all->power.flops_per_s / 2));
    assert_true(near(rates->power.factor, all->power.factor));
    assert_true(near(rates->launch_s, 2 * all->launch_s) && near(rates->bytes_per_s, all->bytes_per_s / 2));
    rates = &cooler.rates[DTYPE_BF16]; // half of the power for as many FLOPs
    assert_true(near(rates->power.flops_per_s, all->power.flops_per_s / 2));
    assert_true(near(rates->power.factor, all->power.factor * cbrt(2)));
}

static void an_estimate_says_its_range_and_source(void **state)
{
    (void)state;
    static const struct {
        const char *profile, *source;
    } cases[] = {{"h200-141g", "measured rates"}, {"h100-80g", "scaled rates"}, {"l4", "scaled rates"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *plan = longbp_json("plan --model llama-3-8b --dtype bf16 --lora r=8 --context 8192 --method full "
                                   "--profile %s --json",
                                   cases[i].profile);
        double ms = number(plan, "estimate_ms");
        assert_string_equal(word(plan, "estimate"), cases[i].source);
        assert_true(number(plan, "estimate_low_ms") < ms && ms < number(plan, "estimate_high_ms"));
        json_t *advice =
            longbp_records(0,
                           "advise --model llama-3-8b --dtype bf16 --lora r=8 --context 4096 --methods full "
                           "--memory 1TiB --profile %s --json",
                           cases[i].profile);
        const json_t *fastest = json_array_get(advice, 0);
        assert_string_equal(word(fastest, "estimate"), cases[i].source);
        assert_true(number(fastest, "estimate_low_ms") < number(fastest, "estimate_ms"));
        assert_true(number(fastest, "estimate_high_ms") > number(fastest, "estimate_ms"));
        json_decref(advice);
        json_decref(plan);
    }
}

// A step within the limit takes as long as without one, one beyond it `factor` times, and none less than one of
// fewer FLOPs.
static void the_power_limit_rises(void **state)
{
    (void)state;
    const struct rates rates = {.power = {100, 1.25}};
    assert_true(rates_limited_s(&rates, 2, 200) == 2 && rates_limited_s(&rates, 2, 100) == 2);
    assert_true(near(rates_limited_s(&rates, 2, 400), 2.5) && near(rates_limited_s(&rates, 2, 220), 2.2));
    assert_true(rates_limited_s(NULL, 2, 400) == 2 && rates_limited_s(&(struct rates){0}, 2, 400) == 2);
    for (double s = 1; s < 4; s += 0.1)
        assert_true(rates_limited_s(&rates, s, 220) <= rates_limited_s(&rates, s + 0.1, 220));
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_holds_against_all_records),
        cmocka_unit_test(a_command_makes_the_rates),
        cmocka_unit_test_setup_teardown(head_sums_are_glue, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_file_says_how_attention_ran, scratch_setup, scratch_teardown),
        cmocka_unit_test(other_cards_have_its_shares),
        cmocka_unit_test(an_estimate_says_its_range_and_source),
        cmocka_unit_test(the_power_limit_rises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
