// Clock: the host's monotonic clock, used for all timing and timeouts.
#pragma once
#include <stdint.h>
#include <time.h>

static inline int64_t clock_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static inline double clock_s(void)
{
    return 1e-9 * (double)clock_ns();
}
