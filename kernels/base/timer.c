#include "kernels/base/timer.h"
#include <time.h>

static int64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

void device_timer_start(struct device *device)
{
    device->timer_start_ns = now_ns();
    if (device->ops->timer_start) {
        device->ops->timer_start(device);
    }
}

double device_timer_stop_ms(struct device *device)
{
    if (device->ops->timer_stop_ms) {
        return device->ops->timer_stop_ms(device);
    }
    device->ops->synchronize(device);
    return device_timer_asked_ms(device);
}

double device_timer_asked_ms(const struct device *device)
{
    return (double)(now_ns() - device->timer_start_ns) / 1e6;
}
