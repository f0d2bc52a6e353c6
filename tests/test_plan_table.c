// The tables that people read: each number of what `longbp plan` and `longbp max-context` print is that of their
// JSON, in the unit beside it.
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
    expect_line(table, "time", "%.4g s  estimate (roofline, profile ", number(json, "estimate_ms") / 1e3);
    char bound[80];
    snprintf(bound, sizeof bound, "%.4f of the lower bound", number(json, "peak_over_bound"));
    assert_non_null(strstr(table, bound));
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
                                  "--host-memory 64GiB --offload kv --methods full,seco --chunk 512";
    json_t *json = longbp_json("%s --json", setting), *methods = json_object_get(json, "methods"), *row;
    char *table;
    assert_int_equal(longbp(&table, setting), 0);
    size_t i;
    json_array_foreach(methods, i, row)
    {
        const char *name = json_string_value(json_object_get(json_object_get(row, "method"), "name"));
        char peak[32], host[32] = "-", *line = strstr(table, "\nmethod"), *figures = NULL, words[120];
        const json_t *kept = json_object_get(row, "host_peak_bytes");
        size_text((size_t)number(row, "peak_bytes"), peak, sizeof peak);
        if (json_is_number(kept) && json_number_value(kept) > 0)
            size_text((size_t)json_number_value(kept), host, sizeof host);
        for (line = line ? strchr(line + 1, '\n') : NULL; line && strncmp(line + 1, name, strlen(name)) != 0;)
            line = strchr(line + 1, '\n');
        assert_non_null(line);
        snprintf(words, sizeof words, " %12zu %12s %12s", (size_t)number(row, "max_context"), peak, host);
        figures = strstr(line + 1, words);
        if (!figures || figures > strchr(line + 1, '\n'))
            fail_msg("%s: expected \"%s\" in:\n%s", name, words, table);
    }
    assert_int_equal(i, 2);
    free(table);
    json_decref(json);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_print_their_record),
        cmocka_unit_test(ranks_are_rows),
        cmocka_unit_test(longest_contexts_print_theirs),
    };
    return cmocka_run_group_tests_name("tables of plans", tests, NULL, NULL);
}
