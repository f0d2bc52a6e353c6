// Tests of the JSON skim: it finds what jansson finds, and takes no text for JSON that jansson does not.
#include "harness/json/json_skim.h"
#include "kernels/base/random.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const names[] = {"schema", "id", "status"};
static const char record[] =
    "{\"schema\":2,\"id\":\"0123456789abcdef0123456789abcdef\",\"experiment\":\"e\\\"\\\\n\",\"status\":\"ok\","
    "\"trial\":"
    "{\"id\":\"x\",\"a\":[1,-2.5,3e-7,[],{}],\"b\":null},\"ms\":[0.25,1E+2],\"t\":true,\"f\":false,\"x\":-0}";

// What is found is what jansson finds; false if it was left to a closer look.
static bool expect_same(const char *text, size_t bytes)
{
    struct json_slice found[COUNT(names)];
    if (!json_skim(text, bytes, names, found, COUNT(names)))
        return false;
    json_t *whole = json_loadb(text, bytes, 0, NULL);
    if (!json_is_object(whole))
        fail_msg("jansson refuses %.*s", (int)bytes, text);
    for (size_t i = 0; i < COUNT(names); i++) {
        json_t *expected = json_object_get(whole, names[i]);
        json_t *value = found[i].text ? json_loadb(found[i].text, found[i].bytes, JSON_DECODE_ANY, NULL) : NULL;
        if (expected ? !json_equal(value, expected) : value != NULL)
            fail_msg("%s in %.*s", names[i], (int)bytes, text);
        json_decref(value);
    }
    json_decref(whole);
    return true;
}

static void test_members_are_found(void **state)
{
    (void)state;
    assert_true(expect_same(record, strlen(record)));
    assert_true(expect_same(" { \"id\" :\t\"\" , \"a\" : [ 1 , 2 ] } \n", 34));
    static const char *const others[] = {"",   "[]", "{}",          "{\"id\":1,\"id\":1}",  "{\"id\":1}}",
                                         "{",  "1",  "{\"id\":01}", "{\"id\":\"\\u0041\"}", "{\"id\":\"\xc3\xa9\"}",
                                         "{,}"};
    for (size_t i = 0; i < COUNT(others); i++)
        assert_false(expect_same(others[i], strlen(others[i])));
    assert_false(expect_same("{\"id\":\"\\\0\"}", 11)); // a zero is no escape
}

static void test_cut_off_is_no_json(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < strlen(record); bytes++)
        assert_false(expect_same(record, bytes));
}

static void test_changed_bytes_are_judged_as_jansson_does(void **state)
{
    (void)state;
    static const char signs[] = "\"\\{}[]:,0123456789.-+eEtfnu \n\x01\x80";
    struct random random = random_named(1, "bytes");
    size_t same = 0, draw = 0;
    for (size_t i = 0; i < 30000; i++) {
        char text[sizeof record];
        memcpy(text, record, sizeof record);
        for (size_t change = 0; change <= i % 3; change++, draw += 2)
            text[random_below(&random, draw, sizeof record - 1)] =
                signs[random_below(&random, draw + 1, sizeof signs - 1)];
        same += expect_same(text, sizeof record - 1);
    }
    assert_true(same > 3000 && same < 27000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_are_found),
        cmocka_unit_test(test_cut_off_is_no_json),
        cmocka_unit_test(test_changed_bytes_are_judged_as_jansson_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
