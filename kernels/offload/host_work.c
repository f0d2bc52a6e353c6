#include "kernels/offload/host_work.h"
#include "kernels/device/queue.h"
#include "kernels/measure/timer.h"

struct tensor host_work_new(struct device *device, size_t rows, size_t cols, enum dtype dtype)
{
    return tensor_new_in(device, PLACE_HOST, rows, cols, dtype, CATEGORY_WORKSPACE);
}

struct tensor host_work_read(struct device *device, struct tensor t)
{
    struct tensor host = host_work_new(device, t.rows, t.cols, t.dtype);
    event_wait(device, QUEUE_COMPUTE, copy_out_written(device, host, t));
    device_synchronize(device);
    return host;
}

bool host_work_wanted(const struct device *device)
{
    return device->status.code == STATUS_OK && !device->ops->dataless;
}

void host_work_write(struct device *device, struct tensor t, struct tensor *from)
{
    event_wait(device, QUEUE_IN, event_record(device, QUEUE_COMPUTE));
    copy_in(device, t, *from);
    event_wait(device, QUEUE_COMPUTE, event_record(device, QUEUE_IN));
    device_synchronize(device);
    tensor_free(device, from);
}
