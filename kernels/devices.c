// Devices: which devices this program has. The only file of kernels/ that names them all.
#include "kernels/base/device.h"
#include "kernels/cpu/cpu.h"
#include <string.h>

const char *const *device_names(void)
{
    static const char *const names[] = {"cpu", NULL};
    return names;
}

struct device *device_open(const char *name, enum dtype dtype, size_t limit_bytes, struct status *status)
{
    const struct device_ops *ops = NULL;
    if (strcmp(name, "cpu") == 0) {
        ops = dtype == DTYPE_F64 ? &cpu_ops_f64 : dtype == DTYPE_F32 ? &cpu_ops_f32 : NULL;
        if (!ops) {
            status_set(status, STATUS_UNSUPPORTED, "the cpu device computes in f32 and f64, not in %s",
                       dtype_name(dtype));
            return NULL;
        }
        cpu_start();
        limit_bytes = limit_bytes ? limit_bytes : cpu_available_bytes();
    } else {
        status_set(status, STATUS_UNSUPPORTED, "this program has no device \"%s\"; it has: cpu", name);
        return NULL;
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
