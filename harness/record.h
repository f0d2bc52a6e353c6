// Record: one line of JSON per cell of a sweep, appended and synced when the cell ends.
//
// {"schema": 1, "id": "<32 hex>", "experiment": "context-sweep",
//  "status": "ok|oom|timeout|crash|unsupported|failed", "reason": "" ,
//  "cell": {"model": "tiny", "dtype": "f32", "device": "cpu", "batch": 1, "context": 1024, "seed": 1,
//           "data": {"text": PATH} | {"tokens": PATH, "dtype": "u16"|"u32"} | "random", "labels": null | PATH,
//           "lora": null | {"rank": 8, "alpha": 16, "targets": ["q", "v"]},
//           "optimizer": null | {"name": "adamw", "rate": 1e-4, "decay": 0.01},
//           "kv_gradient_dtype": "f32", "gradient_dtype": "f32",
//           "method": {"name": "seco", "chunk": 128, ...every option the method knows},
//           "measure": {"warmup": 1, "samples": 5, "max_seconds": 60, "gradient": "full-f64"|"none",
//                       "timeline": false, "bias": false},
//           "limits": {"memory": null | BYTES}},
//  "loss": 5.5, "columns": [1, 3]                      (columns: spaco only, the columns drawn),
//  "samples_ms": [..], "median_ms": 1.0,
//  "peak_bytes": N, "peak_by_category": {"weights": N, ...}, "resident_bytes": N  (live before the step),
//  "floor_bytes_per_token": X,     (per token of context, from methods.md)
//  "lower_bound_bytes": N, "peak_over_bound": X,   (resident + floor * context * batch)
//  "flops": X, "model_flops": X, "bytes_moved": X, "launches": N,
//  "gradient": null | {"relative_l2": X, "max_abs": X, "cosine": X, "decimals": X, "mean_abs": X, "mean_relative": X,
//                      "noise_floor": X, "worst_tensor": NAME, "worst_relative_l2": X,
//                      "tensors": {NAME: {"relative_l2": X, "max_abs": X}, ...}},
//  "bias": null | {"relative_l2": X  (of the expectation), "rms_error": X (root of E||g-r||^2 / ||r||), "subsets": N},
//  "timeline": null | {"category_order": [...], "events": [[ms, flops, bytes per category ...], ...]},
//  "provenance": {"revision", "dirty", "compiler", "flags", "blas", "cpu", "host_memory_bytes", "threads", "kernel",
//                 "clock_mhz_before", "clock_mhz_after", "time" (UTC, ISO 8601), "version"},
//  "wall_s": X, "command": "longbp run SPEC --cell ID"}
#pragma once
#define RECORD_SCHEMA 1
