// Record: one line of JSON per trial of a sweep, appended and synced when the trial ends.
//
// {"schema": 2, "id": "<32 hex>", "experiment": "context-sweep",
//  "status": "ok|oom|timeout|crash|unsupported|failed", "reason": "" ,
//  "trial": {"model": "tiny", "dtype": "f32", "device": "cpu", "batch": 1, "context": 1024, "seed": 1,
//           "data": {"text": PATH} | {"tokens": PATH, "dtype": "u16"|"u32"} | "random", "labels": null | PATH,
//           "lora": null | {"rank": 8, "alpha": 16, "targets": ["q", "v"]},
//           "optimizer": null | {"name": "adamw", "rate": 1e-4, "decay": 0.01},
//           "kv_gradient_dtype": "f32", "gradient_dtype": "f32",
//           "method": {"name": "seco", "chunk": 128, ...every option the method knows},
//           "measure": {"warmup": 1, "samples": 5, "max_seconds": 60, "gradient": "full-f64"|"none",
//                       "timeline": false, "gemm": false, "bias": false, "categories": false},
//           "limits": {"memory": null | BYTES},
//           "profile": null | NAME | PATH (of a device profile),
//           "deterministic": false, "tf32": false, "whole_attention": false},
//           (every key, its default spelled out; the id is a hash of what differs from the defaults)
//  "loss": 5.5, "columns": [1, 3]                      (columns: spaco only, the columns of draw 0),
//  "samples_ms": [..], "median_ms": 1.0,
//  "sample_columns": [2, 0, ..]        (of a method that draws its columns, else left out: how many each sample had
//                                      drawn. Sample i walks draw i (methods/method.h); of a plan, what the
//                                      estimate is the mean of)
//  "mean_ms": null | X, "mean_error_ms": null | X      (of draws: the estimate of the expectation, and its standard
//                                      error)
//  "asked_ms": null | X                (the host's time until it had asked for all of a step, median or mean as
//                                      above: near it the host is what limits; null on the CPU)
//  "energy_j": null | X                (of a step, by the card's sensors over all samples; null on the CPU, where
//                                      there is no NVML, and of samples shorter than 500 ms together)
//  "sm_clock_mhz": null | {"min": X, "median": X, "max": X}   (every 100 ms while the samples ran; likewise null)
//  "estimate_ms": null | X, "profile": null | NAME     (what the profile's roofline makes of a step: an estimate)
//  "flops_per_s": null | X             (counted FLOPs over the median: methods/methods.md; of draws
//                                      those of draw 0 over its sample),
//  "model_flops_per_s": null | X       (model FLOPs over the median; null for a method that is not exact),
//  "gemm_flops_per_s": null | X        (of a large GEMM on the same device right after the samples),
//  "model_flops_share": null | X       (model_flops_per_s over it),
//  "peak_bytes": N, "peak_by_category": {"weights": N, ...}, "resident_bytes": N  (live before the step),
//  "device_used_bytes": null | N      (of the card's memory, as its driver counts them after the steps),
//  "device_reserved_bytes": null | N  (the most of it that this process's allocator held; both null on the CPU),
//  "floor_bytes_per_token": X,     (per token of context, from methods/methods.md) "lower_bound_bytes": N,
//  "peak_over_bound": X,   (resident + floor * context * batch) "flops": X, "model_flops": X, "bytes_moved": X,
//  "attention_glue_bytes": null | X   (what attention's backward moves besides those, where it runs in blocks),
//  "launches": N, "gradient": null | {"relative_l2": X, "max_abs": X, "cosine": X, "decimals": X, "mean_abs": X,
//                      "mean_relative": X, "noise_floor": X, "worst_tensor": NAME, "worst_relative_l2": X,
//                      "hash": "<16 hex>"     (XXH3 of "NAME HASH\n" of each tensor, in the model's order),
//                      "tensors": {NAME: {"relative_l2": X, "max_abs": X,
//                                         "hash": "<16 hex>"   (XXH3 of its bytes as the device holds them)},
//                                  ...}},
//  "bias": null | {"relative_l2": X  (of the expectation), "rms_error": X (root of E||g-r||^2, over ||r||),
//                  "subsets": N},
//  "timeline": null | {"category_order": [...], "events": [[ms, flops, bytes per category ...], ...]},
//  "categories": null | {"step_ms": null | X  (of the step that was taken apart, one of its own after the samples;
//                                             null: planned),
//                        "roofline": null | {"source": NAME of the profile | "measured", "flops_per_s": X,
//                                            "bytes_per_s": X, "launch_s": X},
//                        "rows": [{"category": "GEMM", "operation": "gemm", "shape": null | [m, n, k],
//                                  "launches": N, "flops": X, "bytes_moved": X, "ms": null | X,
//                                  "estimate_ms": null | X}, ...]}
//                       (the ms of all rows are step_ms; category "idle": the device waited for the host)
//  "provenance": {"revision", "dirty", "compiler", "flags", "blas", "cpu", "card" (null on the CPU),
//                 "host_memory_bytes", "threads", "kernel", "clock_mhz_before", "clock_mhz_after", "time" (UTC, ISO
//                 8601), "version"},
//  "wall_s": X, "command": "longbp run SPEC --trial ID"}
//
// Where columns are drawn all but the times is of draw 0, the one that sampler_seed names: a plan's bytes and
// counts are then those of the run, and two runs' are equal. A number that is not finite is null (decimals of an
// exact gradient too). What a trial did not come to is null. A planned trial ("device": "plan-cpu" or "plan-cuda")
// has no loss, no samples and no gradient; its bytes and counts are those of a step on the device that it is like.
#pragma once
#include <jansson.h>

#define RECORD_SCHEMA 2

enum record_status {
    RECORD_OK,
    RECORD_OOM,
    RECORD_TIMEOUT,
    RECORD_CRASH,
    RECORD_UNSUPPORTED,
    RECORD_FAILED,
    RECORD_STATUS_COUNT
};
const char *record_status_name(enum record_status status);
// RECORD_STATUS_COUNT if there is no such status.
enum record_status record_status_from_name(const char *name);

// The name of the card that a record was measured on, without the driver and the libraries behind it; "" on the
// CPU.
void record_card(const json_t *record, char *name, size_t size);
// A JSON string; bad UTF-8, which a crashed program may print, becomes '?'.
json_t *record_text(const char *value);
// Checks that `line` is the record of trial `id` and fills in experiment and command. The new line, to be freed;
// its status in *status. NULL if it is not such a record.
char *record_complete(const char *line, const char *id, const char *experiment, const char *command,
                      enum record_status *status);
