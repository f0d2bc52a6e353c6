#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/chosen_tests.h"

// Of a suite the test that $LONGBP_TEST names (or those: *) alone, if it is there.
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
