// Devices: which devices this program has. The only file of kernels/ that names them all.
#include "kernels/base/device.h"
#include "kernels/cpu/cpu.h"
#include "kernels/plan/plan.h"
#include <string.h>

static const struct device_ops *cpu_ops(enum dtype dtype)
{
    return dtype == DTYPE_F64 ? &cpu_ops_f64 : dtype == DTYPE_F32 ? &cpu_ops_f32 : NULL;
}

static const struct {
    const char *name, *dtypes;
    const struct device_ops *(*ops)(enum dtype dtype);
    void (*start)(void);
    size_t (*available_bytes)(void); // NULL: no limit
} devices[] = {
    {"cpu", "f32 and f64", cpu_ops, cpu_start, cpu_available_bytes},
    {"plan-cpu", "f32 and f64", plan_ops_like_cpu, NULL, NULL},
    {"plan-cuda", "bf16, f32 and f64", plan_ops_like_cuda, NULL, NULL},
};
#define DEVICES (sizeof devices / sizeof *devices)

const char *const *device_names(void)
{
    static const char *const names[DEVICES + 1] = {"cpu", "plan-cpu", "plan-cuda", NULL};
    return names;
}

struct device *device_open(const char *name, enum dtype dtype, size_t limit_bytes, struct status *status)
{
    size_t i = 0;
    while (i < DEVICES && strcmp(devices[i].name, name) != 0) {
        i++;
    }
    if (i == DEVICES) {
        status_set(status, STATUS_UNSUPPORTED, "this program has no device \"%s\"; it has cpu, plan-cpu, plan-cuda",
                   name);
        return NULL;
    }
    const struct device_ops *ops = devices[i].ops(dtype);
    if (!ops) {
        status_set(status, STATUS_UNSUPPORTED, "device %s computes in %s, not in %s", name, devices[i].dtypes,
                   dtype_name(dtype));
        return NULL;
    }
    if (devices[i].start) {
        devices[i].start();
    }
    if (limit_bytes == 0 && devices[i].available_bytes) {
        limit_bytes = devices[i].available_bytes();
    }
    struct device *device = calloc(1, sizeof *device);
    CHECK(device);
    device->ops = ops;
    arena_open(&device->arena, ops->source, limit_bytes);
    return device;
}

void device_close(struct device *device)
{
    if (device) {
        arena_close(&device->arena);
        free(device);
    }
}
