// Strides of long loops over settings that share much code: every second setting in a run of every change, every
// third under the sanitizers, which take several times as long, and all in the weekly run.
#pragma once
#include "tests/chosen_tests.h"
#include <stddef.h>

// Under the sanitizers as many settings, or tokens, are left out whatever the run.
#ifdef __SANITIZE_ADDRESS__
enum { STRIDE = 3 };
#else
enum { STRIDE = 1 };
#endif

static inline size_t stride(void)
{
    return exhaustive() ? 1 : STRIDE > 1 ? STRIDE : 2;
}
