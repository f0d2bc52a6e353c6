// The tables that people read: each number of what `longbp plan`, `max-context`, `advise`, `frontier` and `list`
// print is that of their JSON, in the unit beside it.
#define _GNU_SOURCE // asprintf
#include "kernels/base/size_text.h"
#include "tests/asked.h"

// A line of the table that begins with a name, what is said behind it in words that printf makes.
static void expect_line(const char *table, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void expect_line(const char *table, const char *name, const char *format, ...)
{
    char expected[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(expected, sizeof expected, format, arguments);
    va_end(arguments);
    const char *line = table;
    while (line && !(strncmp(line + strspn(line, " "), name, strlen(name)) == 0))
        line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL;
    const char *behind = line ? line + strspn(line, " ") + strlen(name) : "";
    behind += strspn(behind, " ");
    if (strncmp(behind, expected, strlen(expected)) != 0)
        fail_msg("expected \"%s  %s\" in:\n%s", name, expected, table);
}

static void expect_bytes(const char *table, const char *name, double bytes)
{
    char text[32], line[80];
    size_text((size_t)bytes, text, sizeof text);
    snprintf(line, sizeof line, "%s %16.0f", text, bytes);
    expect_line(table, name, "%s", line);
}

static void plans_print_their_record(void **state)
{
    (void)state;
    static const char setting[] =
        "plan --model llama-3-8b --dtype bf16 --lora r=8 --context 16384 --method checkpoint "
        "--offload inputs --profile rtx-3090 --host-memory 64GiB";
    json_t *json = longbp_json("%s --json", setting);
    char *table;
    assert_int_equal(longbp(&table, setting), 0);
    const json_t *categories = json_object_get(json, "peak_by_category"), *value;
    const char *name;
    json_object_foreach((json_t *)categories, name, value)
    {
        if (json_number_value(value) > 0)
            expect_bytes(table, name, json_number_value(value));
    }
    double peak = number(json, "peak_bytes"), host = number(json, "host_peak_bytes");
    double limit = number(json, "limit_bytes"), host_limit = number(json, "host_limit_bytes");
    expect_bytes(table, "peak ", peak);
    expect_bytes(table, "resident", number(json, "resident_bytes"));
    expect_bytes(table, "lower bound", number(json, "lower_bound_bytes"));
    expect_bytes(table, "limit", limit);
    expect_bytes(table, limit >= peak ? "fits, to spare" : "does not fit, short", fabs(limit - peak));
    expect_bytes(table, "peak on the host", host);
    char *of_host = strstr(table, "peak on the host");
    assert_non_null(of_host);
    expect_bytes(of_host, "limit", host_limit);
    expect_bytes(of_host, "fits, to spare", host_limit - host);
    expect_bytes(table, "copied to the host", number(json, "link_out_bytes"));
    expect_bytes(table, "copied back", number(json, "link_in_bytes"));
    expect_line(table, "counted FLOPs", "%.4g  %.3f of the model FLOPs", number(json, "flops"),
                number(json, "flops") / number(json, "model_flops"));
    expect_line(table, "bytes moved", "%.4g\n", number(json, "bytes_moved"));
    expect_line(table, "launches", "%.0f\n", number(json, "launches"));
    expect_line(table, "time", "%.4g s  from %.4g to %.4g: estimate (scaled rates, profile ",
                number(json, "estimate_ms") / 1e3, number(json, "estimate_low_ms") / 1e3,
                number(json, "estimate_high_ms") / 1e3);
    char bound[80];
    snprintf(bound, sizeof bound, "%.4f of the lower bound", number(json, "peak_over_bound"));
    assert_non_null(strstr(table, bound));
    free(table);
    json_decref(json);
}

// By measured rates a time is a prediction, from as far as samples lay below it to as far as they lay above.
static void predictions_say_how_far_off_they_may_be(void **state)
{
    (void)state;
    static const char setting[] =
        "plan --model tiny --context 512 --method full --like cpu --profile results/host.json";
    json_t *json = longbp_json("%s --json", setting);
    char *table;
    assert_int_equal(longbp(&table, setting), 0);
    expect_line(table, "time", "%.4g s  from %.4g to %.4g: estimate (measured rates, profile ",
                number(json, "estimate_ms") / 1e3, number(json, "estimate_low_ms") / 1e3,
                number(json, "estimate_high_ms") / 1e3);
    free(table);
    json_decref(json);
}

static void ranks_are_rows(void **state)
{
    (void)state;
    static const char setting[] = "plan --model llama-3-8b --dtype bf16 --context 32768 --method seco --chunk 2048 "
                                  "--parallel stage=4 --profile h200-141g";
    json_t *json = longbp_json("%s --json", setting), *ranks = json_object_get(json, "ranks");
    char *table, *rows;
    assert_int_equal(longbp(&table, setting), 0);
    rows = strstr(table, "\nranks\n");
    assert_non_null(rows);
    for (size_t i = 0; i < 4; i++) {
        static const char *const columns[] = {"peak_bytes", "sent_bytes", "received_bytes", "messages"};
        double of_rank[5] = {0};
        char name[8];
        for (size_t c = 0; c < COUNT(columns); c++)
            of_rank[c] = json_number_value(json_array_get(json_object_get(ranks, columns[c]), i));
        of_rank[4] = json_number_value(json_array_get(json_object_get(ranks, "idle_share"), i));
        snprintf(name, sizeof name, "%zu ", i);
        expect_line(rows, name, "%.0f %16.0f %16.0f %10.0f  %.1f %%", of_rank[0], of_rank[1], of_rank[2],
                    of_rank[3], 100 * of_rank[4]);
        assert_true(of_rank[4] > 0.001);
    }
    free(table);
    json_decref(json);
}

static void longest_contexts_print_theirs(void **state)
{
    (void)state;
    static const char setting[] = "max-context --model llama-3-8b --dtype bf16 --lora r=8 --profile rtx-3090 "
                                  "--host-memory 64GiB --offload weights --methods full,seco --chunk 8192";
    json_t *rows = longbp_records(0, "%s --json", setting), *row;
    char *table;
    assert_int_equal(longbp(&table, setting), 0);
    size_t i;
    json_array_foreach(rows, i, row)
    {
        const char *name = method_of(row);
        char peak[32], host[32] = "-", *line = strstr(table, "\nmethod"), *figures = NULL, words[120];
        const json_t *kept = json_object_get(row, "host_peak_bytes");
        size_text((size_t)number(row, "peak_bytes"), peak, sizeof peak);
        if (json_is_number(kept) && json_number_value(kept) > 0)
            size_text((size_t)json_number_value(kept), host, sizeof host);
        for (line = line ? strchr(line + 1, '\n') : NULL; line && strncmp(line + 1, name, strlen(name)) != 0;)
            line = strchr(line + 1, '\n');
        assert_non_null(line);
        snprintf(words, sizeof words, " %12zu %12s %12s", (size_t)extent_found(row), peak, host);
        figures = strstr(line + 1, words);
        if (!figures || figures > strchr(line + 1, '\n'))
            fail_msg("%s: expected \"%s\" in:\n%s", name, words, table);
    }
    assert_int_equal(i, 2);
    free(table);
    json_decref(rows);
}

static void expect_text(const char *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void expect_text(const char *table, const char *format, ...)
{
    char expected[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(expected, sizeof expected, format, arguments);
    va_end(arguments);
    if (!strstr(table, expected))
        fail_msg("expected \"%s\" in:\n%s", expected, table);
}

static const char *word(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

// Each row of the front, and what the limit lacks of the fastest step that any memory would allow.
static void advice_prints_its_pareto_front(void **state)
{
    (void)state;
    static const char setting[] = "advise --model llama-3.2-1b --dtype bf16 --lora r=8 --context 4096 --like cuda "
                                  "--profile rtx-3090";
    json_t *records = longbp_records(0, "%s --memory-limit 2GiB --host-memory 64GiB --json", setting), *row,
           *free_of_limits = longbp_records(0, "%s --memory-limit 10TB --host-memory 64GiB --json", setting);
    char *table, *arguments, peak[32], host[32];
    assert_true(asprintf(&arguments, "%s --memory-limit 2GiB --host-memory 64GiB", setting) > 0);
    assert_int_equal(longbp(&table, arguments), 0);
    size_t i, on_host = 0;
    char *line = strchr(strstr(table, " candidates, "), '\n');
    json_array_foreach(records, i, row)
    {
        const json_t *kept = json_object_get(row, "host_peak_bytes");
        char expected[120], method[40];
        snprintf(host, sizeof host, "-");
        size_text((size_t)number(row, "peak_bytes"), peak, sizeof peak);
        if (json_is_integer(kept))
            size_text((size_t)json_integer_value(kept), host, sizeof host);
        on_host += json_is_integer(kept);
        snprintf(expected, sizeof expected, "\n%12.4g", number(row, "estimate_ms") / 1e3);
        snprintf(method, sizeof method, "  %s", method_of(row));
        assert_memory_equal(line, expected, strlen(expected));
        snprintf(expected, sizeof expected, " %11s %12s%s", peak, host, method);
        assert_memory_equal(line + 14, expected, strlen(expected));
        line = strchr(line + 1, '\n');
    }
    assert_true(on_host > 0);
    const json_t *fastest = json_array_get(free_of_limits, 0);
    size_text((size_t)number(fastest, "peak_bytes") - ((size_t)2 << 30), peak, sizeof peak);
    expect_text(table, "\nlimit     the device's memory: %s ", method_of(fastest));
    expect_text(table, " %.4g s, needs %s more\n", number(fastest, "estimate_ms") / 1e3, peak);
    expect_text(table, " --device cuda ");
    free(arguments);
    free(table);
    json_decref(free_of_limits);
    json_decref(records);
}

// A row for each pair of sizes, a column for each method, and auto's, the furthest of all.
static void frontiers_print_theirs(void **state)
{
    (void)state;
    static const char setting[] =
        "frontier --model tiny --methods seco,checkpoint,full --device-memory 12MiB,24MiB --host-memory 2MiB,3MiB";
    static const char *const methods_in_order[] = {"seco", "checkpoint", "full", "auto"};
    json_t *rows = longbp_records(0, "%s --json", setting), *row;
    char *table;
    assert_int_equal(longbp(&table, setting), 0);
    for (size_t host = 0; host < 3; host++) {
        for (size_t device = 0; device < 2; device++) {
            const double bytes[] = {(double)(12 << 20 << device), host ? (double)((host + 1) << 20) : 0};
            double furthest = 0, found[COUNT(methods_in_order) - 1];
            char line[200], sizes[2][32];
            size_t i;
            json_array_foreach(rows, i, row)
            {
                const json_t *limits = json_object_get(json_object_get(row, "trial"), "limits"),
                             *limit = json_object_get(limits, "host_memory");
                bool here = number(limits, "memory") == bytes[0] && json_number_value(limit) == bytes[1];
                for (size_t m = 0; here && m + 1 < COUNT(methods_in_order); m++)
                    if (strcmp(method_of(row), methods_in_order[m]) == 0)
                        found[m] = extent_found(row);
            }
            for (size_t m = 0; m < 2; m++)
                size_text((size_t)bytes[m], sizes[m], sizeof sizes[m]);
            int end = snprintf(line, sizeof line, "\n%12s %12s", sizes[0], host ? sizes[1] : "-");
            for (size_t m = 0; m < COUNT(methods_in_order); m++) {
                double shown = m + 1 < COUNT(methods_in_order) ? found[m] : furthest;
                end += snprintf(line + end, sizeof line - (size_t)end, " %12.0f", shown);
                furthest = fmax(furthest, shown);
            }
            assert_true(furthest > found[2]);
            expect_text(table, "%s\n", line);
        }
    }
    free(table);
    json_decref(rows);
}

static double value_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(json_object_get(object, key), "value"));
}

static void lists_print_theirs(void **state)
{
    (void)state;
    json_t *models = longbp_json("list models --json"), *profiles = longbp_json("list profiles --json"),
           *interconnect = longbp_json("list interconnects --json"), *row, *level;
    char *table;
    size_t i, l;
    assert_int_equal(longbp(&table, "list models"), 0);
    json_array_foreach(models, i, row)
    {
        expect_text(table, "\n%-16s %6.0f %6.0f %6.0f %8.0f %8.0f %7.0f %8.0f %15.0f %15.0f\n", word(row, "name"),
                    number(row, "layers"), number(row, "width"), number(row, "heads"), number(row, "kv_heads"),
                    number(row, "head_dim"), number(row, "ffn"), number(row, "vocab"), number(row, "parameters"),
                    number(row, "active_parameters"));
        if (strcmp(word(row, "name"), "qwen3-30b-a3b") == 0)
            assert_true(number(row, "parameters") == 30532122624 && number(row, "active_parameters") == 3353032704);
    }
    assert_true(i > 5);
    free(table);
    assert_int_equal(longbp(&table, "list profiles"), 0);
    json_array_foreach(profiles, i, row)
    {
        expect_text(table, "\n%-16s %10.2f %10.2f %16.4g %15.4g %15.4g %7.4g %13.4g  %-8s ", word(row, "name"),
                    value_of(row, "memory_bytes") / 0x1p30,
                    (value_of(row, "usable_bytes") - value_of(row, "reserve_bytes")) / 0x1p30,
                    value_of(row, "bf16_flops_per_s") / 1e12, value_of(row, "f32_flops_per_s") / 1e12,
                    value_of(row, "bandwidth_bytes_per_s") / 1e9, value_of(row, "power_limit_w"),
                    value_of(row, "host_link_bytes_per_s") / 1e9,
                    json_object_get(row, "rates") ? "measured" : "scaled");
        json_array_foreach(json_object_get(row, "interconnect"), l, level)
            expect_text(table, " %s %.4g", word(level, "name"), value_of(level, "bytes_per_s") / 1e9);
    }
    assert_true(i > 3);
    free(table);
    // A device that cannot be opened says why.
    setenv("LONGBP_CUDA", "/nowhere/longbp-cuda.so", 1);
    char *devices;
    assert_int_equal(longbp(&devices, "list devices"), 0);
    unsetenv("LONGBP_CUDA");
    assert_non_null(strstr(devices, "\ncuda         none: "));
    assert_non_null(strstr(devices, "/nowhere/longbp-cuda.so"));
    free(devices);
    assert_int_equal(longbp(&table, "list interconnects"), 0);
    json_array_foreach(interconnect, i, row)
    {
        json_array_foreach(json_object_get(row, "interconnect"), l, level)
        {
            char ranks[40] = "all others";
            if (json_object_get(level, "ranks"))
                snprintf(ranks, sizeof ranks, "up to %.0f ranks", number(level, "ranks"));
            expect_text(table, "  %-24s %-16s %8.4g GB/s  %8.4g us\n", word(level, "name"), ranks,
                        value_of(level, "bytes_per_s") / 1e9, value_of(level, "latency_s") * 1e6);
        }
    }
    assert_true(i > 3);
    free(table);
    json_decref(interconnect);
    json_decref(profiles);
    json_decref(models);
}

// Stopped, for it would take as long as it says.
static void long_plans_say_so(void **state)
{
    (void)state;
    // Until it has said so, or has ended.
    static const char form[] =
        "plan --model llama-3-8b --dtype bf16 --context %s --method streambp --chunk 1000 > /dev/null "
        "2> ${TMPDIR:-/tmp}/told.$$ & while [ ! -s ${TMPDIR:-/tmp}/told.$$ ] && kill -0 $!; do sleep 0.02; done "
        "2> /dev/null; kill $! 2> /dev/null; cat ${TMPDIR:-/tmp}/told.$$; rm ${TMPDIR:-/tmp}/told.$$";
    static const struct {
        const char *context, *says;
    } cases[] = {{"2000000000", "planning 2000000 chunks in each of 32 layers one by one"}, {"200000", ""}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char arguments[512], *text;
        snprintf(arguments, sizeof arguments, form, cases[i].context);
        assert_int_equal(longbp(&text, arguments), 0);
        if (*cases[i].says ? !strstr(text, cases[i].says) : *text)
            fail_msg("context %s:\n%s", cases[i].context, text);
        free(text);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_print_their_record),
        cmocka_unit_test(ranks_are_rows),
        cmocka_unit_test(predictions_say_how_far_off_they_may_be),
        cmocka_unit_test(longest_contexts_print_theirs),
        cmocka_unit_test(advice_prints_its_pareto_front),
        cmocka_unit_test(frontiers_print_theirs),
        cmocka_unit_test(lists_print_theirs),
        cmocka_unit_test(long_plans_say_so),
    };
    return cmocka_run_group_tests_name("tables of plans", tests, NULL, NULL);
}
