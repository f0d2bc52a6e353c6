// Tests of plans beyond 2^24 positions, where not every number is an f32, and 2^32 elements, which are more than an
// unsigned int: a peak grows by as many bytes from each context to the next, and work as a polynomial of the second
// degree, as they do where sizes are small. For every exact method.
#define _GNU_SOURCE // asprintf
#include "methods/method.h"
#include "tests/asked.h"

#define STEP   ((size_t)1 << 23) // tokens from one context to the next
#define POINTS 4

static double number_in(const json_t *record, const char *name)
{
    return json_number_value(json_object_get(record, name));
}

static void sizes_go_on_as_they_began(void **state)
{
    (void)state;
    static const char *const linear[] = {"peak_bytes", "resident_bytes", "launches"};
    static const char *const quadratic[] = {"flops", "model_flops", "bytes_moved"};
    size_t checked = 0;
    for (size_t m = 0; methods[m]; m++) {
        json_t *records[POINTS];
        if (!methods[m]->exact)
            continue;
        for (size_t i = 0; i < POINTS; i++) {
            char *json;
            assert_true(
                asprintf(&json,
                         "{'model': 'tiny', 'device': 'plan-cpu', 'context': %zu, 'method': {'name': '%s'%s}}",
                         (i + 1) * STEP, methods[m]->name,
                         option_find(&methods[m]->options, "chunk") ? ", 'chunk': 1048576" : "") > 0);
            records[i] = record_of(json);
            free(json);
        }
        for (size_t i = 0; i < COUNT(linear); i++) {
            double a = number_in(records[1], linear[i]), b = number_in(records[2], linear[i]);
            if (number_in(records[3], linear[i]) != 2 * b - a)
                fail_msg("%s: %s are %.0f, %.0f and %.0f", methods[m]->name, linear[i], a, b,
                         number_in(records[3], linear[i]));
        }
        for (size_t i = 0; i < COUNT(quadratic); i++) {
            double values[POINTS];
            for (size_t p = 0; p < POINTS; p++)
                values[p] = number_in(records[p], quadratic[i]);
            double expected = 3 * values[2] - 3 * values[1] + values[0];
            if (!(fabs(values[3] / expected - 1) < 1e-12))
                fail_msg("%s: %s are %.17g, not %.17g", methods[m]->name, quadratic[i], values[3], expected);
        }
        assert_true(number_in(records[3], "peak_bytes") > 0x1p32);
        for (size_t i = 0; i < POINTS; i++)
            json_decref(records[i]);
        checked++;
    }
    assert_true(checked >= 4);
}

static void expect_told(const char *arguments, int code, const char *words)
{
    char *out;
    int found = longbp(&out, arguments);
    if (found != code || !strstr(out, words))
        fail_msg("%s: exit code %d: %s", arguments, found, out);
    free(out);
}

#define LARGE "plan --model llama-3-70b --dtype bf16 --context "

static void what_cannot_be_addressed_is_told(void **state)
{
    (void)state;
    // One tensor, or all that live together.
    expect_told(LARGE "2147483647 --batch 1048576 --method full", 1, "are more than can be addressed");
    expect_told(LARGE "2147483647 --batch 1048576 --method seco --chunk 2147483647", 1,
                "are more than can be addressed");
    expect_told(LARGE "2147483647 --batch 1048576 --method spaco --chunk 2147483647 --budget 1", 1,
                "are more than can be addressed");
    expect_told("plan --model qwen3-30b-a3b --dtype bf16 --lora r=8 --context 268435456 --method full", 2,
                "experts take at most 2147483647 rows at a time, not 268435456 tokens that take 8 experts each");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_go_on_as_they_began),
                                       cmocka_unit_test(what_cannot_be_addressed_is_told)};
    return cmocka_run_group_tests_name("large_sizes", tests, NULL, NULL);
}
