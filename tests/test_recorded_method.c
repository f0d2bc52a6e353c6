// Tests of harness/record/recorded_method: properties of a record's method, and matches with a paper's points.
// JSON is written with ' for ".
#include "harness/record/recorded_method.h"
#include "tests/quoted.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static json_t *entry_of(const char *text)
{
    char *json = quoted(text);
    json_t *entry = json_loads(json, 0, NULL);
    assert_non_null(entry);
    free(json);
    return entry;
}

static void what_is_drawn(void **state)
{
    (void)state;
    static const struct {
        const char *entry;
        bool draws;
    } cases[] = {
        {"{'name': 'spaco', 'budget': 2}", true},
        {"{'name': 'spaco', 'budget': 2, 'sampler': 'bernoulli'}", true},
        {"{'name': 'spaco', 'sampler': 'fixed', 'drawn_chunks': [1, 3]}", false},
        {"{'name': 'seco', 'chunk': 4}", false},
        {"{'name': 'null'}", false},
        {"{'name': 'of another program', 'sampler': 'bernoulli'}", false},
        {"{'name': 'spaco', 'sampler': 'of another program'}", false},
        {"{}", false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *entry = entry_of(cases[i].entry);
        if (recorded_method_draws(entry) != cases[i].draws)
            fail_msg("%s", cases[i].entry);
        json_decref(entry);
    }
    assert_false(recorded_method_draws(NULL));
}

static void what_a_point_matches(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        size_t chunk, budget, context;
        const char *entry;
        bool matches;
    } cases[] = {
        {"seco", 64, 0, 512, "{'name': 'seco', 'chunk': 64}", true},
        {"seco", 0, 0, 512, "{'name': 'seco', 'chunk': 64}", true},
        {"seco", 32, 0, 512, "{'name': 'seco', 'chunk': 64}", false},
        {"full", 0, 0, 512, "{'name': 'seco', 'chunk': 64}", false},
        {"full", 64, 0, 512, "{'name': 'full'}", false}, // it has no chunks
        {"seco", 64, 8, 512, "{'name': 'seco', 'chunk': 64}", false},
        {"spaco", 64, 8, 1024, "{'name': 'spaco', 'chunk': 64, 'budget': 8}", true},
        {"spaco", 64, 8, 1024, "{'name': 'spaco', 'chunk': 64, 'budget': 7}", false},
        // At most four of four chunks are drawn.
        {"spaco", 64, 8, 256, "{'name': 'spaco', 'chunk': 64, 'budget': 4}", true},
        {"spaco", 64, 8, 256, "{'name': 'spaco', 'chunk': 64, 'budget': 3}", false},
        {"spaco", 64, 8, 0, "{'name': 'spaco', 'chunk': 64, 'budget': 4}", false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct published_point point = {.chunk = cases[i].chunk};
        snprintf(point.method, sizeof point.method, "%s", cases[i].method);
        if (cases[i].budget) {
            point.options[0].option = methods_option_find("budget");
            snprintf(point.options[0].value, sizeof point.options[0].value, "%zu", cases[i].budget);
            point.option_count = 1;
        }
        json_t *entry = entry_of(cases[i].entry);
        if (recorded_method_is(entry, &point, cases[i].context) != cases[i].matches)
            fail_msg("%zu: %s", i, cases[i].entry);
        json_decref(entry);
    }
}

// The baseline of an estimate's time is a method, and exact.
static void who_is_estimated(void **state)
{
    (void)state;
    for (size_t i = 0; methods[i]; i++) {
        const struct method *whole = methods[i]->estimates ? method_find(methods[i]->estimates) : NULL;
        assert_true(!methods[i]->estimates || (whole && whole->exact && !methods[i]->exact));
        assert_true(!methods[i]->draw || methods[i]->estimates);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_drawn),
        cmocka_unit_test(what_a_point_matches),
        cmocka_unit_test(who_is_estimated),
    };
    return cmocka_run_group_tests_name("recorded method", tests, NULL, NULL);
}
