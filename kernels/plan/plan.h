// Plan: a device whose tensors have no data. The same schedules run on it and allocate the same bytes from the same
// arena, so it gives the exact peak, FLOPs, bytes moved and launches of a step on the device that it describes, on
// any machine.
#pragma once
#include "kernels/device/device.h"

// A struct device_ops: a plan in a dtype, with the rules of the device that it describes.
#define PLAN_OPS(device_name, element, device_rules)                                                               \
    {                                                                                                              \
        .name = device_name, .dtype = element, .rules = device_rules, .source = PLAN_MEMORY,                       \
        .host_source = PLAN_MEMORY, .dataless = true                                                               \
    }
#define PLAN_MEMORY                                                                                                \
    {                                                                                                              \
        .allocate = plan_allocate, .release = plan_release                                                         \
    }

// Addresses that are never read but differ, as those of live tensors must.
void *plan_allocate(struct arena *arena, size_t bytes, struct status *status);
void plan_release(struct arena *arena, void *pointer, size_t bytes);
