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

// Stride of a loop over settings that share much code. Under the sanitizers the loop takes every third setting;
// without them, or in the weekly run, it takes all.
static inline size_t stride(void)
{
    return exhaustive() ? 1 : STRIDE;
}
