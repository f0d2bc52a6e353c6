#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

// Of a suite the test that $LONGBP_TEST names (or those: *) alone, if it is there.
__attribute__((constructor)) static void choose_tests(void)
{
    cmocka_set_test_filter(getenv("LONGBP_TEST"));
}
