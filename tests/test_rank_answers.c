// Answers of ranks that did not end in time, and the rank to blame.
#include "harness/process/rank_answers.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void who_does_not_wait_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t ranks;
        bool complete;
        const char *blame;
    } cases[] = {
        {"rank 0 of 3: waits\nrank 2 of 3: computes\nrank 1 of 3: waits\n", 3, true,
         "rank 2 of 3 computed, the others waited"},
        {"rank 0 of 4: computes\nrank 2 of 4: computes\nrank 1 of 4: waits\nrank 3 of 4: waits\n", 4, true,
         "ranks 0, 2 of 4 computed, the others waited"},
        {"a library's: rank 0 of 3: waits\nrank 1 of", 3, false,
         "ranks 1, 2 of 3 did not answer, the others waited"},
        {"rank 0 of 3: computes\nrank 1 of 3: waits\n", 3, false,
         "rank 0 of 3 computed, rank 2 of 3 did not answer, the others waited"},
        {"rank 0 of 2: stays\nrank 1 of 2: stays\n", 2, true, "all 2 ranks waited for each other"},
        {"rank 0 of 2: waits\nrank 1 of 2: waits\n", 2, true, "all 2 ranks were slow: each waited, and went on"},
        {"rank 0 of 2: stays\nrank 1 of 2: waits\n", 2, true, "all 2 ranks were slow: each waited, and went on"},
        {"rank 0 of 2: stays\nrank 1 of 2: computes\n", 2, true, "rank 1 of 2 computed, the others waited"},
        {"rank 0 of 2: computes\nrank 1 of 2: computes\n", 2, true, "all 2 ranks computed"},
        {"", 2, false, "none of 2 ranks answered: does the launcher pass SIGUSR1 on?"},
        {"rank 5 of 2: waits\nrank 0 of 3: waits\nrank 1 of 2: sings\nrank 1 of 2: waits\n", 2, false,
         "rank 0 of 2 did not answer, the others waited"},
        {"rank 0 of 12: waits\n", 12, false,
         "ranks 1, 2, 3, 4, 5, 6, 7, 8 and more of 12 did not answer, the others waited"},
        // The last word counts.
        {"rank 0 of 2: waits\nrank 1 of 2: waits\nrank 0 of 2: computes\n", 2, true,
         "rank 0 of 2 computed, the others waited"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char blame[160] = "";
        rank_answers_blame(cases[i].text, cases[i].ranks, blame, sizeof blame);
        assert_string_equal(blame, cases[i].blame);
        assert_int_equal(rank_answers_complete(cases[i].text, cases[i].ranks), cases[i].complete);
    }
    char little[8];
    rank_answers_blame("", 2, little, sizeof little);
    assert_true(strlen(little) < sizeof little);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_does_not_wait_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
