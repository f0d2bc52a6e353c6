#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/chosen_tests.h"

// Runs only the tests of a suite that $LONGBP_TEST names (wildcard *), if the suite has them.
__attribute__((constructor)) static void choose_tests(void)
{
    cmocka_set_test_filter(getenv("LONGBP_TEST"));
}

bool exhaustive(void)
{
    return getenv("LONGBP_EXHAUSTIVE") != NULL;
}

bool is_chosen(size_t number, size_t every)
{
    return number % every == 0 || exhaustive();
}
