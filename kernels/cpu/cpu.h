// CPU: what its devices share: their memory.
#pragma once
#include "kernels/device/device.h"

// The table of a dtype; NULL if the CPU does not compute in it.
const struct device_ops *cpu_ops(enum dtype dtype);
extern const struct device_ops cpu_ops_bf16, cpu_ops_f32, cpu_ops_f64;
extern const struct device_rules cpu_rules_bf16, cpu_rules_f32, cpu_rules_f64;

// Before the first operation: a heap that keeps its pages.
void cpu_start(void);
// Bytes of memory that the machine could give to this process now, and what sets this limit.
size_t cpu_available_bytes(const char **what);

void *cpu_allocate(struct arena *arena, size_t bytes, struct status *status);
void cpu_release(struct arena *arena, void *pointer, size_t bytes);
// Of the host's place: the same, or with a host_folder a file in it that has no name, mapped.
void *cpu_host_allocate(struct arena *arena, size_t bytes, struct status *status);
// The mapping is kept for the next of its size, so that a step after the first finds its pages there.
void cpu_host_release(struct arena *arena, void *pointer, size_t bytes);
void cpu_host_close(struct arena *arena);
void cpu_upload(struct device *device, struct tensor t, const void *src);
void cpu_download(struct device *device, void *dst, struct tensor t);
size_t cpu_block_rows(const struct device *device, size_t cols);
