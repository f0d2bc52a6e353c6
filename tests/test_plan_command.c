// Plans through the harness and the program: records of planned trials equal measured ones, max-context and plan
// agree to the token, peaks grow as the methods' floors say, and bad input is refused. JSON is written with ' for
// ".
#define _GNU_SOURCE // asprintf
#include "harness/results/result_file.h"
#include "harness/run/calibrate.h"
#include "harness/run/environment.h"
#include "harness/run/max_context.h"
#include "harness/run/trial_run.h"
#include "harness/spec/method_decode.h"
#include "kernels/base/ops.h"
#include "methods/sampler.h"
#include "tests/quoted.h"
#include "tests/scratch.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct trial trial_of(const char *json)
{
    struct trial trial;
    struct status status = {0};
    char *text = quoted(json);
    if (!trial_decode(&trial, text, "trial", &status))
        fail_msg("%s: %s", text, status.message);
    free(text);
    return trial;
}

static json_t *record_of(const char *json)
{
    struct trial trial = trial_of(json);
    char *line = trial_run(&trial, -1);
    json_t *record = json_loads(line, 0, NULL);
    assert_non_null(record);
    if (strcmp(json_string_value(json_object_get(record, "status")), "ok") != 0)
        fail_msg("%s: %s", json, line);
    free(line);
    trial_free(&trial);
    return record;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        fail_msg("%s is no number", key);
    return json_number_value(value);
}

// The program's exit code for a line of arguments; what it wrote on both streams in *out, to be freed.
static int longbp(char **out, const char *arguments)
{
    const char *program = getenv("LONGBP");
    char *command;
    size_t capacity = 0;
    *out = NULL;
    assert_true(asprintf(&command, "'%s' %s 2>&1", program && *program ? program : "build/longbp", arguments) > 0);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    if (getdelim(out, &capacity, 0, pipe) < 0) {
        free(*out);
        *out = strdup("");
    }
    int status = pclose(pipe);
    free(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static json_t *longbp_json(const char *format, ...) __attribute__((format(printf, 1, 2)));
static json_t *longbp_json(const char *format, ...)
{
    char *arguments, *out;
    va_list list;
    va_start(list, format);
    assert_true(vasprintf(&arguments, format, list) > 0);
    va_end(list);
    int code = longbp(&out, arguments);
    json_t *object = json_loads(out, 0, NULL);
    if (code != 0 || !object)
        fail_msg("%s: exit code %d: %s", arguments, code, out);
    free(arguments);
    free(out);
    return object;
}

static void a_planned_record_is_the_measured_one(void **state)
{
    (void)state;
    static const char *const trials[] = {
        "'method': 'full', 'optimizer': 'adamw'",
        "'method': {'name': 'seco', 'chunk': 30}, 'lora': {'rank': 2}, 'batch': 2",
        "'method': {'name': 'spaco', 'chunk': 16, 'budget': 2}, 'dtype': 'f64'",
        // Draws of 1 and 3, of no and 3, of 4 and no columns: the figures are the first one's, whatever comes
        // later.
        "'method': {'name': 'spaco', 'chunk': 16, 'budget': 2, 'sampler': 'bernoulli', 'sampler_seed': 1}",
        "'method': {'name': 'spaco', 'chunk': 16, 'budget': 2, 'sampler': 'bernoulli', 'sampler_seed': 2}",
        "'method': {'name': 'spaco', 'chunk': 16, 'budget': 2, 'sampler': 'bernoulli', 'sampler_seed': 3}",
        "'method': {'name': 'streambp', 'chunk': 33}, 'data': {'text': 'Makefile'}, 'optimizer': 'adamw'",
        "'method': {'name': 'seco', 'chunk': 30}, 'dtype': 'bf16', 'kv_gradient_dtype': 'bf16'",
        "'method': {'name': 'checkpoint', 'offload': 'inputs'}, 'limits': {'host_memory': '1MiB'}",
    };
    static const char *const equal[] = {"peak_bytes",
                                        "peak_by_category",
                                        "resident_bytes",
                                        "lower_bound_bytes",
                                        "peak_over_bound",
                                        "flops",
                                        "model_flops",
                                        "bytes_moved",
                                        "launches",
                                        "columns",
                                        "floor_bytes_per_token",
                                        "host_peak_bytes",
                                        "host_peak_by_category",
                                        "link_out_bytes",
                                        "link_in_bytes"};
    for (size_t i = 0; i < COUNT(trials); i++) {
        char *json;
        json_t *records[2];
        for (size_t d = 0; d < 2; d++) {
            assert_true(asprintf(&json,
                                 "{'model': 'tiny', 'context': 100, 'device': '%s', 'measure': {'samples': 2}, %s}",
                                 d ? "plan-cpu" : "cpu", trials[i]) > 0);
            records[d] = record_of(json);
            free(json);
        }
        json_t *measured = records[0], *planned = records[1];
        for (size_t j = 0; j < COUNT(equal); j++) {
            json_t *a = json_object_get(planned, equal[j]), *b = json_object_get(measured, equal[j]);
            if (!(a && json_equal(a, b)) && strcmp(equal[j], "columns") != 0)
                fail_msg("%s: %s differs", trials[i], equal[j]);
        }
        assert_int_equal(json_is_integer(json_object_get(measured, "host_peak_bytes")),
                         strstr(trials[i], "offload") != NULL);
        // What multiplies in bf16.
        const json_t *blas = json_object_get(json_object_get(measured, "provenance"), "blas");
        assert_int_equal(strstr(json_string_value(blas), "; bf16 ") != NULL, strstr(trials[i], "bf16") != NULL);
        assert_true(json_is_null(json_object_get(planned, "loss")));
        assert_true(json_is_null(json_object_get(planned, "gradient")));
        assert_true(json_is_null(json_object_get(planned, "median_ms")));
        assert_true(json_is_null(json_object_get(planned, "flops_per_s")));
        assert_true(json_is_null(json_object_get(planned, "model_flops_per_s")));
        assert_int_equal(json_array_size(json_object_get(planned, "samples_ms")), 0);
        assert_int_equal(json_array_size(json_object_get(measured, "samples_ms")), 2);
        assert_true(json_is_null(json_object_get(planned, "estimate_ms")));
        json_decref(measured);
        json_decref(planned);
    }
}

static bool near(double x, double y)
{
    return fabs(x - y) <= 1e-12 * fabs(y);
}

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
                             "'measure': {'samples': 1, 'warmup': 0, 'gemm': true}}",
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

// Neither tokens nor weights are read, but the model's config is.
static void a_plan_needs_no_files(void **state)
{
    const struct scratch *scratch = *state;
    json_decref(record_of("{'model': 'tiny', 'context': 9, 'method': 'full', 'device': 'plan',"
                          " 'data': {'text': 'no/such'}, 'labels': 'no/such'}"));
    struct scratch_path model = scratch_path(scratch, "model");
    char *out, *arguments;
    assert_true(asprintf(&arguments, "init --model tiny --out %s", model.text) > 0);
    int code = longbp(&out, arguments);
    if (code != 0)
        fail_msg("%s: %s", arguments, out);
    free(arguments);
    free(out);
    struct scratch_path weights = scratch_path(scratch, "model/model.safetensors");
    assert_int_equal(remove(weights.text), 0);
    json_t *planned = longbp_json("plan --model %s --context 9 --json", model.text);
    json_t *preset = longbp_json("plan --model tiny --context 9 --json");
    assert_true(
        json_equal(json_object_get(planned, "peak_by_category"), json_object_get(preset, "peak_by_category")));
    json_decref(planned);
    json_decref(preset);
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
    static const char *const of_row[] = {"category",    "operation", "shape",      "launches",
                                         "bytes_moved", "flops",     "estimate_ms"};
    json_t *records[2];
    for (size_t i = 0; i < 2; i++) {
        char *json;
        assert_true(
            asprintf(&json,
                     "{'model': 'tiny', 'context': 100, 'device': '%s', 'profile': 'rtx-3090', 'optimizer': "
                     "'adamw', 'method': {'name': 'seco', 'chunk': 30}, 'measure': {'samples': 2, "
                     "'gradient': 'none', 'categories': true}}",
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
        for (size_t j = 0; j < COUNT(of_row); j++)
            assert_true(json_equal(json_object_get(row, of_row[j]), json_object_get(twin, of_row[j])));
        assert_true(json_is_null(json_object_get(twin, "ms")));
        optimized |= strcmp(json_string_value(json_object_get(row, "operation")), "adamw") == 0;
    }
    assert_true(optimized); // its step is the step's
    json_decref(records[0]);
    json_decref(records[1]);

    // Without a profile the CPU's own rates are taken; and without the key there is nothing.
    json_t *own =
        record_of("{'model': 'tiny', 'context': 50, 'method': 'full', 'measure': {'samples': 1, 'gradient': "
                  "'none', 'categories': true}}");
    const json_t *roofline = json_object_get(json_object_get(own, "categories"), "roofline");
    assert_string_equal(json_string_value(json_object_get(roofline, "source")), "measured");
    assert_true(number(roofline, "flops_per_s") > 1e6 && number(roofline, "bytes_per_s") > 1e6);
    json_decref(own);
    json_t *without = record_of("{'model': 'tiny', 'context': 50, 'device': 'plan', 'method': 'full'}");
    assert_true(json_is_null(json_object_get(without, "categories")));
    json_decref(without);
    char *out;
    assert_int_equal(longbp(&out, "plan --model tiny --context 50 --categories --profile rtx-3090"), 0);
    assert_non_null(strstr(out, "ms are estimates (roofline)"));
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
    assert_non_null(strstr(out, "estimate (roofline, profile rtx-3090)"));
    assert_non_null(strstr(out, "fits, to spare"));
    free(out);
    json_t *fast = longbp_json("plan --model llama-3-8b --dtype bf16 --context 512 --profile h100-80g --json");
    json_t *slow = longbp_json("plan --model llama-3-8b --dtype bf16 --context 512 --profile rtx-3090 --json");
    assert_string_equal(json_string_value(json_object_get(fast, "estimate")), "roofline");
    assert_string_equal(json_string_value(json_object_get(fast, "profile")), "h100-80g");
    assert_true(number(fast, "estimate_ms") > 1e3 * number(fast, "flops") / 989e12);
    assert_true(number(fast, "estimate_ms") > 1e3 * number(fast, "bytes_moved") / 3.35e12);
    assert_true(number(slow, "estimate_ms") > 3 * number(fast, "estimate_ms"));
    assert_true(json_is_false(json_object_get(slow, "fits"))); // weights and gradients alone are 45 GiB
    json_decref(fast);
    json_decref(slow);
}

// The estimate of a method that draws its columns is the mean over draws, each the estimate of its own set.
static void an_estimate_over_draws_is_their_mean(void **state)
{
    (void)state;
    static const char head[] =
        "{'model': 'tiny', 'context': 128, 'device': 'plan', 'profile': 'rtx-3090', 'dtype': "
        "'bf16', 'method': {'name': 'spaco', 'chunk': 16, ";
    char *json;
    assert_true(asprintf(&json, "%s'budget': 2, 'sampler': 'bernoulli'}}", head) > 0);
    json_t *record = record_of(json);
    const json_t *counts = json_object_get(record, "sample_columns");
    size_t draws = json_array_size(counts);
    struct trial trial = trial_of(json);
    free(json);
    assert_in_range(draws, 8, 64);
    double mean = 0;
    for (size_t i = 0; i < draws; i++) {
        struct spaco_options *options = options_copy(&trial.method->options, trial.options);
        char columns[64] = "";
        assert_true(trial.method->draw(options, i));
        struct draw draw = sampler_draw(options, 8);
        options_free(&trial.method->options, options);
        assert_int_equal(draw.columns.count, json_integer_value(json_array_get(counts, i)));
        for (size_t j = 0; j < draw.columns.count; j++)
            snprintf(columns + strlen(columns), sizeof columns - strlen(columns), "%s%u", j ? ", " : "",
                     draw.columns.items[j]);
        draw_free(&draw);
        assert_true(asprintf(&json, "%s'sampler': 'fixed', 'columns': [%s]}}", head, columns) > 0);
        json_t *one = record_of(json);
        assert_null(json_object_get(one, "sample_columns"));
        mean += number(one, "estimate_ms") / (double)draws;
        json_decref(one);
        free(json);
    }
    assert_true(fabs(number(record, "estimate_ms") / mean - 1) < 1e-12);
    json_decref(record);
    trial_free(&trial);
}

static void a_time_line_is_a_result_file(void **state)
{
    struct scratch_path path = scratch_path(*state, "timeline.jsonl");
    json_t *plan =
        longbp_json("plan --model tiny --context 100 --method seco --chunk 16 --timeline %s --json", path.text);
    struct result_file file;
    struct status status = {0};
    if (!result_file_read(&file, path.text, &status))
        fail_msg("%s", status.message);
    assert_int_equal(file.count, 1);
    const json_t *record = json_array_get(file.objects, 0), *timeline = json_object_get(record, "timeline");
    const json_t *events = json_object_get(timeline, "events"), *event;
    double highest = 0;
    size_t i;
    json_array_foreach(events, i, event)
    {
        double live = 0;
        for (size_t c = 2; c < json_array_size(event); c++)
            live += json_number_value(json_array_get(event, c));
        highest = live > highest ? live : highest;
    }
    assert_true(highest == number(plan, "peak_bytes"));
    assert_int_equal(strncmp(json_string_value(json_object_get(record, "command")), "longbp plan --model tiny", 24),
                     0);
    result_file_close(&file);
    json_decref(plan);
}

// What max-context finds, plan confirms: it fits, and one token more does not.
static void max_context_and_plan_agree(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "--model tiny --memory-limit 40MiB --chunk 48",
        "--model tiny --memory-limit 40MiB --chunk 48 --batch 3 --optimizer adamw",
        "--model llama-3-8b --dtype bf16 --lora r=8 --profile rtx-3090 --chunk 512",
        "--model qwen3-8b --dtype bf16 --gradient-dtype bf16 --kv-gradient-dtype bf16 --memory-limit 80GB --chunk "
        "500 "
        "--head-chunk 100",
    };
    for (size_t s = 0; s < COUNT(settings); s++) {
        json_t *table = longbp_json("max-context %s --json", settings[s]), *row;
        json_t *rows = json_object_get(table, "methods");
        size_t i;
        assert_int_equal(json_array_size(rows), 4); // without a budget none that draws
        json_array_foreach(rows, i, row)
        {
            const char *name = json_string_value(json_object_get(json_object_get(row, "method"), "name"));
            size_t longest = (size_t)number(row, "max_context");
            bool chunked = option_find(&method_find(name)->options, "chunk");
            assert_true(longest > 100);
            assert_true(json_is_true(json_object_get(row, "memory_bound")));
            for (size_t more = 0; more < 2; more++) {
                char *setting = strdup(settings[s]), *chunk = strstr(setting, "--chunk");
                if (!chunked) // full and checkpoint have no such option
                    memset(chunk, ' ', strcspn(chunk + 8, " ") + 8);
                json_t *plan =
                    longbp_json("plan %s --method %s --context %zu --json", setting, name, longest + more);
                if (json_is_true(json_object_get(plan, "fits")) != (more == 0))
                    fail_msg("%s, %s: context %zu", settings[s], name, longest + more);
                if (more == 0)
                    assert_true(number(plan, "peak_bytes") == number(row, "peak_bytes"));
                json_decref(plan);
                free(setting);
            }
        }
        json_decref(table);
    }
}

// Whatever spaco draws fits into what its largest draw fits into.
static void max_context_holds_for_every_draw(void **state)
{
    (void)state;
    struct trial trial = trial_of("{'model': 'tiny', 'context': 640, 'device': 'plan',"
                                  " 'method': {'name': 'spaco', 'chunk': 64, 'budget': 3}}");
    struct status status = {0};
    struct max_context found;
    const size_t limit_bytes = 20 << 20;
    assert_true(max_context_find(&found, &trial, limit_bytes, &status));
    trial_free(&trial);
    assert_int_equal(found.granularity, 64);
    assert_int_equal(found.context % 64, 0);
    assert_true(found.memory_bound && found.context > 10 * 64 && found.peak_bytes <= limit_bytes);
    size_t largest = 0;
    for (size_t seed = 0; seed < 200; seed++) {
        char *json;
        assert_true(asprintf(&json,
                             "{'model': 'tiny', 'context': %zu, 'device': 'plan',"
                             " 'method': {'name': 'spaco', 'chunk': 64, 'budget': 3, 'sampler_seed': %zu}}",
                             found.context, seed) > 0);
        json_t *record = record_of(json);
        size_t peak = (size_t)number(record, "peak_bytes");
        assert_true(peak <= found.peak_bytes);
        largest = peak > largest ? peak : largest;
        json_decref(record);
        free(json);
    }
    assert_int_equal(largest, found.peak_bytes); // some draw has the last column
}

static void a_model_that_does_not_fit_says_so(void **state)
{
    (void)state;
    char *out;
    assert_int_equal(
        longbp(&out, "max-context --model llama-3-8b --dtype bf16 --optimizer adamw --memory-limit 24GiB"), 0);
    assert_non_null(strstr(out, "The resident bytes alone do not fit the limit."));
    free(out);
    json_t *table = longbp_json("max-context --model llama-3-8b --dtype bf16 --memory-limit 24GiB --json");
    const json_t *resident = json_object_get(table, "resident_by_category");
    // 8,030,261,248 parameters; gradients in f32 by default.
    assert_true(number(resident, "weights") >= 8030261248.0 * 2 &&
                number(resident, "weights") < 8030261248.0 * 2.001);
    assert_true(number(resident, "gradients") >= 8030261248.0 * 4);
    const json_t *row = json_array_get(json_object_get(table, "methods"), 0);
    assert_true(number(row, "max_context") == 0);
    assert_non_null(strstr(json_string_value(json_object_get(row, "reason")), "do not fit"));
    json_decref(table);
}

// How the peak of Llama-3-8B grows per token, over what methods/methods.md derives, between 32,768 and 65,536
// tokens.
static double growth_over_floor(const char *method, const char *kv_gradients)
{
    double peak[2], least[2];
    for (size_t i = 0; i < 2; i++) {
        char *json;
        size_t context = 32768 << i;
        assert_true(asprintf(&json,
                             "{'model': 'llama-3-8b', 'dtype': 'bf16', 'lora': {'rank': 8}, 'device': 'plan',"
                             " 'kv_gradient_dtype': '%s', 'context': %zu, 'method': %s}",
                             kv_gradients, context, method) > 0);
        json_t *record = record_of(json);
        peak[i] = number(record, "peak_bytes");
        least[i] = number(record, "floor_bytes_per_token") * (double)context;
        json_decref(record);
        free(json);
    }
    return (peak[1] - peak[0]) / (least[1] - least[0]);
}

static void peaks_grow_as_the_floors_say(void **state)
{
    (void)state;
    static const struct {
        const char *method, *kv_gradients;
    } cases[] = {
        {"{'name': 'seco', 'chunk': 512}", "f32"},
        {"{'name': 'seco', 'chunk': 512}", "bf16"},
        {"{'name': 'streambp', 'chunk': 512}", "f32"},
        {"{'name': 'streambp', 'chunk': 512}", "bf16"},
        // Loss `all`: the cache reaches to the end, whatever is drawn.
        {"{'name': 'spaco', 'chunk': 512, 'budget': 8, 'loss': 'all'}", "f32"},
        {"{'name': 'spaco', 'chunk': 512, 'budget': 8, 'loss': 'all'}", "bf16"},
        {"'checkpoint'", "f32"},
        {"'checkpoint'", "bf16"},
        {"'full'", "f32"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        double ratio = growth_over_floor(cases[i].method, cases[i].kv_gradients);
        if (!(ratio >= 1 && ratio <= 1.02))
            fail_msg("%s, gradients of keys and values in %s: %.4f", cases[i].method, cases[i].kv_gradients, ratio);
    }
}

// Llama-3-8B with LoRA at 131,072 tokens: what attention's backward moves between its blocks stays below what its
// operands and results are a few times over, and one run over the whole square has next to none, for its workspace.
static void the_glue_of_attention_is_planned(void **state)
{
    (void)state;
    static const struct {
        const char *how;
        double glue_max, workspace_min, workspace_max;
    } cases[] = {{"--method seco --chunk 2048", 6e12, 0, 0x1p29},
                 {"--method seco --chunk 512", 20e12, 0, 0x1p28},
                 {"--method full", 6e12, 0, 0x1p29},
                 {"--method full --whole-attention", 0.5e12, 8 * 0x1p30, 9 * 0x1p30},
                 {"--method checkpoint --whole-attention", 0.5e12, 8 * 0x1p30, 9 * 0x1p30}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *plan = longbp_json("plan --model llama-3-8b --context 131072 --dtype bf16 --like cuda "
                                   "--lora r=8,alpha=16,targets=q,v --json %s",
                                   cases[i].how);
        double glue = number(plan, "attention_glue_bytes");
        double workspace = number(json_object_get(plan, "peak_by_category"), "workspace");
        if (glue <= 0 || glue > cases[i].glue_max)
            fail_msg("%s: %.4g bytes of glue", cases[i].how, glue);
        if (workspace < cases[i].workspace_min || workspace > cases[i].workspace_max)
            fail_msg("%s: %.4g bytes of workspace", cases[i].how, workspace);
        json_decref(plan);
    }
    json_t *cpu = longbp_json("plan --model tiny --context 100 --like cpu --json");
    assert_true(json_is_null(json_object_get(cpu, "attention_glue_bytes")));
    json_decref(cpu);
    char *out;
    assert_int_equal(longbp(&out, "plan --model tiny --context 100 --dtype bf16"), 0);
    assert_non_null(strstr(out, "attention's glue"));
    free(out);
}

// L T B d e on the host, as much over the link in each direction; whether that fits, and what it costs.
static void the_host_is_planned(void **state)
{
    (void)state;
    const char *setting = "--model llama-3-8b --dtype bf16 --context 4096 --method checkpoint --offload inputs "
                          "--lora r=8,alpha=16,targets=q,v";
    const double kept = 32.0 * 4096 * 4096 * 2;
    json_t *plan = longbp_json("plan %s --profile rtx-3090 --host-memory 2GiB --json", setting);
    assert_true(number(plan, "host_peak_bytes") == kept);
    assert_true(number(json_object_get(plan, "host_peak_by_category"), "hidden_checkpoints") == kept);
    assert_true(number(plan, "link_out_bytes") == kept && number(plan, "link_in_bytes") == kept);
    assert_true(number(plan, "host_limit_bytes") == 0x1p31);
    assert_true(json_is_true(json_object_get(plan, "fits")));
    // Behind the operations but for the last copy out and the first one in, which nothing is beside.
    json_t *alone = longbp_json("plan --model llama-3-8b --dtype bf16 --context 4096 --method checkpoint "
                                "--lora r=8,alpha=16,targets=q,v --profile rtx-3090 --json");
    assert_true(json_is_null(json_object_get(alone, "host_peak_bytes")));
    assert_true(json_is_null(json_object_get(alone, "link_out_bytes")));
    assert_true(json_is_null(json_object_get(alone, "host_limit_bytes")));
    assert_true(near(number(plan, "estimate_ms"), number(alone, "estimate_ms")));
    assert_true(number(plan, "peak_bytes") < number(alone, "peak_bytes") - 29.0 * 4096 * 4096 * 2);
    json_decref(alone);
    json_decref(plan);
    plan = longbp_json("plan %s --host-memory 1GB --json", setting);
    assert_true(json_is_false(json_object_get(plan, "fits")));
    json_decref(plan);
    char *out;
    char arguments[256];
    snprintf(arguments, sizeof arguments, "plan %s --host-memory 1GB", setting);
    assert_int_equal(longbp(&out, arguments), 0);
    assert_non_null(strstr(out, "--host-memory"));
    assert_non_null(strstr(out, "73741824\n")); // 2^30 - 10^9 are missing
    free(out);
    // The longest context is the host's to limit, too.
    json_t *table =
        longbp_json("max-context --model tiny --memory-limit 1GiB --host-memory 1MiB --methods checkpoint "
                    "--offload inputs --json");
    json_t *row = json_array_get(json_object_get(table, "methods"), 0);
    // 4 layers of width 128 in f32
    assert_true(number(row, "max_context") == 0x1p20 / (4 * 128 * 4));
    json_decref(table);
}

static void bad_input_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *message;
    } cases[] = {
        {"plan", "--model and --context are needed"},
        {"plan --model tiny", "--model and --context are needed"},
        {"plan --model tiny --context 0", "key \"context\": expected a whole number of tokens >= 1, found 0"},
        {"plan --model tniy --context 5", "did you mean \"tiny\"?"},
        {"plan --model tiny --context 5 --like gpu", "--like is cpu or cuda, not \"gpu\""},
        {"plan --model tiny --context 5 --memory-limit 3x",
         "--memory-limit: expected a size with its unit, such as 24GiB"},
        {"plan --model tiny --context 5 --memory-limit 24",
         "such as 24GiB (or 24G, the same), 80GB or 4096B, found \"24\""},
        {"plan --model tiny --context 5 --profile rtx-3091", "did you mean \"rtx-3090\"?"},
        {"plan --model tiny --context 5 --chunk 3", "method \"full\" has no such option"},
        {"plan --model tiny --context 5 --method spaco", "spaco needs a budget"},
        {"plan --model tiny --context 5 --timeline /no/such/file",
         "/no/such/file: cannot write to its folder /no/such: No such file"},
        {"plan --model tiny --context 5 --device cpu", "unrecognized option '--device"},
        {"grad --model tiny --context 5 --out /dev/null --memory-limit 24",
         "key \"memory\": expected a size with its unit"},
        {"plan --model tiny --context 5 --host-memory 24", "key \"host_memory\": expected a size with its unit"},
        {"max-context --model tiny", "--memory-limit or --profile"},
        {"max-context --memory-limit 1GiB", "--model is needed"},
        {"max-context --model tiny --memory-limit 0", "--memory-limit: expected a size"},
        {"max-context --model tiny --memory-limit 1GiB --methods seco,ful",
         "no method \"ful\"; did you mean \"full\"?"},
        {"max-context --model tiny --memory-limit 1GiB --methods full --chunk 5",
         "--chunk: none of these methods has that option, but streambp, seco, spaco"},
        {"max-context --model tiny --memory-limit 1GiB --methods spaco", "spaco needs a budget"},
        {"max-context --model tiny --memory-limit 1GiB --chunk 0", "key \"chunk\": expected a whole number"},
        {"max-context --model tiny --memory-limit 1GiB --dtype f16", "unknown dtype \"f16\""},
        {"grad --model tiny --context 5 --device plan --out /dev/null", "--device plan-cpu computes no gradient"},
        {"verify --device plan-cpu", "--device plan-cpu computes no gradient"},
        {"verify --shape square", "no shape has \"square\" in its name; the first is \"whole chunks\""},
        {"verify --kv-gradient-dtype bf16", "--kv-gradient-dtype of a model in f64 is f64, not \"bf16\""},
        {"calibrate --out /no/such/file", "/no/such/file: cannot write to its folder /no/such: No such file"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *out;
        int code = longbp(&out, cases[i].arguments);
        if (code != 2 || !strstr(out, cases[i].message))
            fail_msg("%s: exit code %d, expected 2 and \"%s\": %s", cases[i].arguments, code, cases[i].message,
                     out);
        free(out);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// No number of an operand comes twice, but for what rounding makes equal.
static void calibrate_works_on_data(void **state)
{
    (void)state;
    enum { ROWS = 40, COLS = 50, COUNT = ROWS * COLS };
    static const struct {
        enum dtype dtype;
        size_t different;
    } cases[] = {{DTYPE_F32, COUNT * 99 / 100}, {DTYPE_F64, COUNT * 99 / 100}, {DTYPE_BF16, COUNT / 4}};
    for (size_t d = 0; d < 3; d++) {
        struct calibrate_operands operands;
        struct status status = {0};
        double values[2][COUNT];
        assert_true(calibrate_open(&operands, "cpu", cases[d].dtype, ROWS, COLS, &status));
        tensor_read(operands.device, operands.a, values[0]);
        tensor_read(operands.device, operands.b, values[1]);
        for (int i = 0; i < 2; i++) {
            size_t different = 1;
            qsort(values[i], COUNT, sizeof(double), by_value);
            for (size_t j = 1; j < COUNT; j++)
                different += values[i][j] != values[i][j - 1];
            assert_true(different > cases[d].different);
        }
        calibrate_close(&operands);
    }
    struct calibrate_operands operands;
    struct status status = {0};
    assert_false(calibrate_open(&operands, "cpu", DTYPE_F16, ROWS, COLS, &status));
    assert_int_equal(status.code, STATUS_UNSUPPORTED);
    calibrate_close(&operands);
}

static void calibrate_writes_a_profile(void **state)
{
    struct scratch_path path = scratch_path(*state, "host.json");
    char *arguments, *out;
    assert_true(asprintf(&arguments, "calibrate --out %s", path.text) > 0);
    int code = longbp(&out, arguments);
    if (code != 0)
        fail_msg("%s: %s", arguments, out);
    free(out);
    free(arguments);
    struct profile profile;
    struct status status = {0};
    if (!profile_load(&profile, path.text, &status))
        fail_msg("%s", status.message);
    assert_string_equal(profile.name, "host");
    assert_true(profile.flops_per_s[DTYPE_F32].value > profile.flops_per_s[DTYPE_F64].value);
    assert_true(profile.flops_per_s[DTYPE_F64].value > 1e8);
    assert_true(profile.flops_per_s[DTYPE_BF16].value > 1e8);
    assert_true(profile.bandwidth_bytes_per_s.value > 1e8);
    // Written with six digits.
    assert_true(fabs(2 * profile.host_link_bytes_per_s.value / profile.bandwidth_bytes_per_s.value - 1) < 1e-4);
    assert_true(profile.launch_s.value < 1e-3);
    json_t *plan = longbp_json("plan --model tiny --context 64 --profile %s --json", path.text);
    assert_true(number(plan, "estimate_ms") > 0);
    json_decref(plan);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_planned_record_is_the_measured_one),
        cmocka_unit_test(a_rate_names_its_flops),
        cmocka_unit_test_setup_teardown(a_plan_needs_no_files, scratch_setup, scratch_teardown),
        cmocka_unit_test(where_the_time_goes_adds_up),
        cmocka_unit_test(an_estimate_over_draws_is_their_mean),
        cmocka_unit_test(an_estimate_says_that_it_is_one),
        cmocka_unit_test_setup_teardown(a_time_line_is_a_result_file, scratch_setup, scratch_teardown),
        cmocka_unit_test(max_context_and_plan_agree),
        cmocka_unit_test(max_context_holds_for_every_draw),
        cmocka_unit_test(a_model_that_does_not_fit_says_so),
        cmocka_unit_test(peaks_grow_as_the_floors_say),
        cmocka_unit_test(the_glue_of_attention_is_planned),
        cmocka_unit_test(the_host_is_planned),
        cmocka_unit_test(bad_input_is_refused),
        cmocka_unit_test(calibrate_works_on_data),
        cmocka_unit_test_setup_teardown(calibrate_writes_a_profile, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
