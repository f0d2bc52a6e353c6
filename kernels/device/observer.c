#include "kernels/device/observer.h"

const char *work_name(enum work work)
{
    static const char *const names[WORK_COUNT] = {
        [WORK_GEMM] = "GEMM",
        [WORK_ATTENTION_FORWARD] = "attention forward",
        [WORK_ATTENTION_BACKWARD] = "attention backward",
        [WORK_ATTENTION_GLUE] = "attention glue",
        [WORK_CONV] = "convolution",
        [WORK_DELTA_FORWARD] = "delta forward",
        [WORK_DELTA_BACKWARD] = "delta backward",
        [WORK_NORM] = "norm",
        [WORK_ROPE] = "RoPE",
        [WORK_SWIGLU] = "SwiGLU",
        [WORK_ROUTING] = "routing",
        [WORK_BIAS] = "bias",
        [WORK_EMBEDDING] = "embedding",
        [WORK_HEAD] = "head",
        [WORK_COPY] = "copy",
        [WORK_OPTIMIZER] = "optimizer",
        [WORK_IDLE] = "idle",
    };
    CHECK(work < WORK_COUNT);
    return names[work];
}

void observers_push(struct device *device, const struct range *range)
{
    for (struct observer *o = device->observers; o; o = o->next)
        o->push(o, device, range);
}

void observers_pop(struct device *device)
{
    for (struct observer *o = device->observers; o; o = o->next)
        o->pop(o, device);
}

void observer_attach(struct observer *observer, struct device *device)
{
    observer->next = device->observers;
    device->observers = observer;
}

void observer_detach(struct observer *observer, struct device *device)
{
    struct observer **at = &device->observers;
    while (*at != observer) {
        CHECK(*at);
        at = &(*at)->next;
    }
    *at = observer->next;
}
