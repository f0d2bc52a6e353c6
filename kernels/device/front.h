// Front: shared code of the operations' fronts (ops.h): cost and range of an operation, and cuts of tensors longer
// than the device takes. Only for ops.c, attention.c and memory.c.
#pragma once
#include "kernels/device/device.h"
#include "kernels/device/observer.h"
#include "kernels/device/rates.h"

static inline bool failed(const struct device *device)
{
    return device->status.code != STATUS_OK;
}

// Tells whether tensors have data to read or write.
static inline bool holds_data(const struct device *device)
{
    return !failed(device) && !device->ops->dataless;
}

// An operation's time by the roofline.
static inline double roofline_s(const struct roofline *roof, const struct cost *cost)
{
    double compute_s = (cost->flops - cost->f32_counted) / roof->flops_per_s,
           memory_s = cost->bytes / roof->bytes_per_s;
    if (cost->f32_done > 0)
        compute_s += cost->f32_done / roof->f32_flops_per_s;
    return (compute_s > memory_s ? compute_s : memory_s) + (1 + cost->further_launches) * roof->launch_s;
}

// An operation's time by its measured rate; without one, and for f32 work without one, at least the roofline's.
static inline double estimate_s(const struct roofline *roof, const struct range *range, const struct cost *cost)
{
    double measured_s = roof->rates ? rates_seconds(roof->rates, range, cost, roof->min) : 0;
    bool known = measured_s > 0 && rates_known(roof->rates, range, cost);
    double min_s = known ? 0 : roofline_s(roof, cost);
    return measured_s > min_s ? measured_s : min_s;
}

static inline void count(struct device *device, const struct range *range, struct cost cost)
{
    const struct roofline *roof = &device->roofline;
    if (roof->bytes_per_s > 0) {
        double seconds = estimate_s(roof, range, &cost);
        device->counters.estimate_s += seconds;
        device->counters.clock_s[QUEUE_COMPUTE] += seconds;
    }
    device->counters.flops += cost.flops;
    device->counters.bytes_moved += cost.bytes;
    device->counters.launches++;
}

static inline struct range operation(enum work work, const char *name)
{
    return (struct range){.level = RANGE_OPERATION, .name = name, .work = work};
}

// Counts an operation and begins its range. Returns true if the device must run it, after which the range is
// popped; false without data, where the operation is complete.
static inline bool begin_cost(struct device *device, struct range range, struct cost cost)
{
    count(device, &range, cost);
    range_push(device, range);
    if (device->ops->dataless) {
        range_pop(device);
        return false;
    }
    return true;
}

static inline bool begin(struct device *device, struct range range, double flops, double bytes)
{
    return begin_cost(device, range, (struct cost){.flops = flops, .bytes = bytes});
}

// Counts an operation of no FLOPs that moves so many bytes, and has the device run it.
#define RUN(device, work, name, moved, ...)                                                                        \
    do {                                                                                                           \
        if (begin(device, operation(work, #name), 0, moved)) {                                                     \
            (device)->ops->name(device, __VA_ARGS__);                                                              \
            range_pop(device);                                                                                     \
        }                                                                                                          \
    } while (0)

// Bytes of an operand, which is on the device.
static inline double bytes(struct tensor t)
{
    CHECK(t.place == PLACE_DEVICE);
    return t.data ? (double)tensor_bytes(t) : 0;
}
static inline bool same_shape(struct tensor a, struct tensor b)
{
    return a.rows == b.rows && a.cols == b.cols;
}

// Checks the documents of `rows` rows of `batch` sequences.
static inline void check_documents(const struct documents *documents, size_t rows, size_t batch)
{
    struct tensor starts = documents->device_starts, prefixes = documents->device_prefixes;
    CHECK(!starts.data || (starts.dtype == DTYPE_I32 && tensor_count(starts) == rows));
    CHECK(!prefixes.data || (starts.data && prefixes.dtype == DTYPE_I32 && tensor_count(prefixes) == batch));
}

// Parts have a multiple of this many rows if that fits, to keep tiles and blocks whole.
#define PART_ROWS 2048

// Rows of a part of tensors with up to `cols` columns and `rows` rows.
static inline size_t part_rows(const struct device *device, size_t rows, size_t cols)
{
    size_t max = device->ops->rules->elements_max;
    if (max == 0 || rows <= max / cols)
        return rows;
    max /= cols;
    return max < PART_ROWS ? max : max / PART_ROWS * PART_ROWS;
}

static inline size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}
static inline size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

// Returns false and a status if the tensor, which cannot be cut, is too long.
static inline bool holds(struct device *device, struct tensor t, const char *what)
{
    size_t max = device->ops->rules->elements_max;
    return max == 0 || tensor_count(t) <= max ||
           status_set(&device->status, STATUS_UNSUPPORTED,
                      "%s on device %s takes matrices of at most %zu elements, not of %zu x %zu", what,
                      device->ops->name, max, t.rows, t.cols);
}
