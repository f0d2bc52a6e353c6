// Sanitized: under the sanitizers, which take several times as long, long loops over settings take every third one.
// What all of them come to is held without the sanitizers.
#pragma once
#include "tests/chosen_tests.h"
#include <stddef.h>

#ifdef __SANITIZE_ADDRESS__
enum { STRIDE = 3 };
#else
enum { STRIDE = 1 };
#endif

// Of a loop whose settings have much code in common: every third under the sanitizers but for the weekly run, which
// has all of them, as every run without them.
static inline size_t stride(void)
{
    return exhaustive() ? 1 : STRIDE;
}
