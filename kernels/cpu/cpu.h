// CPU: memory functions shared by its devices.
#pragma once
#include "kernels/device/device.h"

// The table of a dtype; NULL if the CPU does not support it.
const struct device_ops *cpu_ops(enum dtype dtype);
extern const struct device_ops cpu_ops_bf16, cpu_ops_f32, cpu_ops_f64;
extern const struct device_rules cpu_rules_bf16, cpu_rules_f32, cpu_rules_f64;

// Call before the first operation: configures the heap to keep its pages.
void cpu_start(void);
// Bytes of memory available to this process, and the source of this limit.
size_t cpu_available_bytes(const char **what);

void *cpu_allocate(struct arena *arena, size_t bytes, struct status *status);
void cpu_release(struct arena *arena, void *pointer, size_t bytes);
// Allocates host tensors: like device tensors or, with a host_folder, as a mapped file without a name.
void *cpu_host_allocate(struct arena *arena, size_t bytes, struct status *status);
// Keeps the mapping for the next allocation of its size, so that steps after the first find its pages.
void cpu_host_release(struct arena *arena, void *pointer, size_t bytes);
void cpu_host_close(struct arena *arena);
size_t cpu_block_rows(const struct device *device, size_t cols);
