#include "kernels/measure/timer.h"
#include "kernels/base/clock.h"
#include "kernels/device/observer.h"

void device_synchronize(struct device *device)
{
    if (device->ops->synchronize)
        device->ops->synchronize(device);
}

void device_mark(struct device *device, size_t mark)
{
    CHECK(mark < DEVICE_MARKS);
    if (device->ops->mark) {
        device->ops->mark(device, mark);
        return;
    }
    device_synchronize(device);
    device->marks_ns[mark] = clock_ns();
}

double device_marks_ms(struct device *device, size_t from, size_t to)
{
    if (device->ops->marks_ms)
        return device->ops->marks_ms(device, from, to);
    return (double)(device->marks_ns[to] - device->marks_ns[from]) / 1e6;
}

void device_timer_start(struct device *device)
{
    device->marks_ns[MARK_START] = clock_ns();
    device_mark(device, MARK_START);
    range_push(device, (struct range){.level = RANGE_TIMED, .name = "timed"});
}

double device_timer_stop_ms(struct device *device)
{
    device_mark(device, MARK_STOP);
    range_pop(device);
    return device_marks_ms(device, MARK_START, MARK_STOP);
}

double device_timer_host_launch_ms(const struct device *device)
{
    return (double)(clock_ns() - device->marks_ns[MARK_START]) / 1e6;
}
