#include "harness/run/calibrate.h"
#include "harness/run/calibrate_rates.h"
#include "harness/run/calibrate_steps.h"
#include "harness/run/provenance.h"
#include "kernels/base/clock.h"
#include "kernels/base/ops.h"
#include "kernels/base/timer.h"
#include <math.h>
#include <string.h>

#define PEAK_SECONDS 2.0 // the best of what fits into it; at least three runs
#define GEMM_SIZE    ((size_t)2048)
#define GEMM_LEAST   ((size_t)128)  // where time is short
#define CARD_SIZE    ((size_t)4096) // a card takes the smaller one in microseconds, of which launches are a part
#define COPY_COLS    ((size_t)1024)
#define COPY_BYTES   ((size_t)256 << 20) // far above any cache
#define COPY_LEAST   ((size_t)1 << 20)   // where time is short
#define LAUNCHES     1000
#define STEPS_SHARE  0.15              // of the time for rates
#define DRAWN        ((size_t)1 << 20) // numbers of an operand, at least

// drawn: how many rows are; the others repeat them.
static void fill(struct device *device, struct tensor numbers, size_t drawn, const char *name, double deviation)
{
    size_t first = drawn < numbers.rows ? drawn : numbers.rows;
    op_random_normal(device, tensor_rows(numbers, 0, first), random_named(0, name), 0, deviation, numbers.dtype);
    for (size_t row = first, count; row < numbers.rows; row += count) {
        count = first < numbers.rows - row ? first : numbers.rows - row;
        op_copy(device, tensor_rows(numbers, row, count), tensor_rows(numbers, 0, count));
    }
}

bool calibrate_open(struct calibrate_operands *o, const char *name, enum dtype dtype, size_t rows, size_t cols,
                    struct status *status)
{
    struct device *device = device_open(name, dtype, 0, status);
    *o = (struct calibrate_operands){.device = device};
    if (!device)
        return false;
    struct tensor *operands[] = {&o->a, &o->b, &o->c};
    for (size_t i = 0; i < 3; i++)
        *operands[i] = tensor_new(device, rows, cols, dtype, CATEGORY_WORKSPACE);
    if (device->status.code == STATUS_OK) {
        fill(device, o->a, DRAWN / cols + 1, "activations", 1);
        fill(device, o->b, DRAWN / cols + 1, "weights", 1 / sqrt((double)cols));
    }
    return device->status.code == STATUS_OK ||
           status_set(status, device->status.code, "%s", device->status.message);
}

void calibrate_close(struct calibrate_operands *o)
{
    if (!o->device)
        return;
    tensor_free(o->device, &o->a);
    tensor_free(o->device, &o->b);
    tensor_free(o->device, &o->c);
    device_close(o->device);
}

static void run_gemm(const struct calibrate_operands *o)
{
    op_gemm(o->device, o->c, o->a, NO_TRANSPOSE, o->b, TRANSPOSE, 1, 0);
}

static void run_copy(const struct calibrate_operands *o)
{
    op_copy(o->device, o->c, o->a);
}

static void run_launches(const struct calibrate_operands *o)
{
    for (size_t i = 0; i < LAUNCHES; i++)
        op_swiglu_forward(o->device, o->c, o->a, o->b, ACTIVATION_SILU);
}

// Seconds of the fastest run within `seconds` over three tensors of [rows, cols]; the first run, which touches
// memory anew, is not counted. 0 and a status if they do not fit.
static double fastest(const char *name, enum dtype dtype, size_t rows, size_t cols,
                      void (*run)(const struct calibrate_operands *operands), double seconds, struct status *status)
{
    struct calibrate_operands o;
    double best_s = 0;
    if (calibrate_open(&o, name, dtype, rows, cols, status)) {
        struct device *device = o.device;
        run(&o);
        double start_s = clock_s();
        for (int i = 0; device->status.code == STATUS_OK && (i < 3 || clock_s() - start_s < seconds); i++) {
            device_timer_start(device);
            run(&o);
            double took_s = 1e-3 * device_timer_stop_ms(device);
            best_s = i == 0 || took_s < best_s ? took_s : best_s;
        }
        if (device->status.code != STATUS_OK)
            status_set(status, device->status.code, "%s", device->status.message);
    }
    calibrate_close(&o);
    return status->code == STATUS_OK ? best_s : 0;
}

// Rows of the largest matrices of which two products fit into the time.
static size_t gemm_size(const char *device, enum dtype dtype, double seconds, struct status *status)
{
    size_t n = GEMM_LEAST;
    if (strcmp(device, "cpu") != 0)
        return CARD_SIZE;
    while (n < GEMM_SIZE && 2 * 8 * fastest(device, dtype, n, n, run_gemm, 0, status) < seconds)
        n *= 2;
    return n;
}

// Bytes of the largest copy of which a few fit into the time.
static size_t copy_size(const char *device, enum dtype dtype, double seconds, struct status *status)
{
    size_t bytes = COPY_LEAST;
    while (bytes < COPY_BYTES &&
           4 * 16 * fastest(device, dtype, bytes / dtype_bytes(dtype) / COPY_COLS, COPY_COLS, run_copy, 0, status) <
               seconds)
        bytes *= 16;
    return bytes;
}

// size: rows of its matrices.
static double gemm_rate(const char *device, enum dtype dtype, double seconds, size_t *size, struct status *status)
{
    size_t n = *size = gemm_size(device, dtype, seconds, status);
    double took_s = fastest(device, dtype, n, n, run_gemm, seconds, status);
    return took_s > 0 ? 2.0 * (double)n * (double)n * (double)n / took_s : 0;
}

// size: the copy's bytes.
static double copy_rate(const char *device, enum dtype dtype, double seconds, size_t *size, struct status *status)
{
    size_t bytes = *size = copy_size(device, dtype, seconds, status), rows = bytes / dtype_bytes(dtype) / COPY_COLS;
    double took_s = fastest(device, dtype, rows, COPY_COLS, run_copy, seconds, status);
    return took_s > 0 ? 2.0 * (double)bytes / took_s : 0;
}

double calibrate_gemm(const char *device, enum dtype dtype, double seconds, struct status *status)
{
    size_t size;
    return gemm_rate(device, dtype, fmin(PEAK_SECONDS, seconds), &size, status);
}

double calibrate_copy(const char *device, enum dtype dtype, double seconds, struct status *status)
{
    size_t size;
    return copy_rate(device, dtype, fmin(PEAK_SECONDS, seconds), &size, status);
}

// Memory that is free now is what a step could take.
static size_t usable_bytes(struct status *status)
{
    struct device *device = device_open("cpu", DTYPE_F32, 0, status);
    size_t bytes = device ? device->arena.limit_bytes : 0;
    device_close(device);
    return bytes;
}

static void note(struct profile_number *number, double value, const char *source, const char *where)
{
    number->value = value;
    snprintf(number->source, sizeof number->source, "%s; %.120s", source, where);
}

static bool add_rates(struct profile *profile, const struct calibrate_request *request, const char *where,
                      struct status *status)
{
    bool fine = true;
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
        if (fine && request->rated[dtype])
            fine =
                calibrate_rates(&profile->rates[dtype], "cpu", (enum dtype)dtype,
                                (1 - STEPS_SHARE) * request->seconds, status) &&
                calibrate_steps(&profile->rates[dtype], "cpu", (enum dtype)dtype,
                                1 / profile->bandwidth_bytes_per_s.value, STEPS_SHARE * request->seconds, status);
    snprintf(profile->rates_source, sizeof profile->rates_source, "measured: medians; %.120s", where);
    return fine;
}

bool calibrate(struct profile *profile, const struct calibrate_request *request, struct status *status)
{
    struct provenance machine;
    provenance_take(&machine);
    *profile = (struct profile){.name = "host"};
    size_t usable = usable_bytes(status);
    double peak_s = fmin(PEAK_SECONDS, request->seconds);
    static const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    double gemm_flops[3];
    size_t sizes[3], copied;
    for (size_t i = 0; i < 3; i++)
        gemm_flops[i] = gemm_rate("cpu", dtypes[i], peak_s, &sizes[i], status);
    double copy_bytes = copy_rate("cpu", DTYPE_F32, peak_s, &copied, status);
    double launches_s = fastest("cpu", DTYPE_F32, 1, 1, run_launches, peak_s, status);
    if (status->code != STATUS_OK)
        return false;
    char where[128];
    snprintf(where, sizeof where, "%.80s, %d threads", machine.cpu, machine.threads);
    note(&profile->memory_bytes, (double)machine.host_memory_bytes, "the machine's memory", where);
    note(&profile->usable_bytes, (double)usable, "what was available when this was measured", where);
    char how[64];
    for (size_t i = 0; i < 3; i++) {
        snprintf(how, sizeof how, "measured: GEMM of %zu x %zu x %zu in %s", sizes[i], sizes[i], sizes[i],
                 dtype_name(dtypes[i]));
        note(&profile->flops_per_s[dtypes[i]], gemm_flops[i], how, where);
    }
    snprintf(how, sizeof how, "measured: a copy of %zu MiB, read and written", copied >> 20);
    note(&profile->bandwidth_bytes_per_s, copy_bytes, how, where);
    snprintf(how, sizeof how, "measured: a copy of %zu MiB in the host's memory", copied >> 20);
    note(&profile->host_link_bytes_per_s, copy_bytes / 2, how, where);
    note(&profile->launch_s, launches_s / LAUNCHES, "measured: an operation on one number", where);
    return add_rates(profile, request, where, status);
}

void calibrate_roofline(enum dtype dtype, double gemm_flops_per_s, double seconds, struct roofline *roofline)
{
    struct status why = {0};
    double gemm = gemm_flops_per_s > 0 ? gemm_flops_per_s : calibrate_gemm("cpu", dtype, seconds, &why);
    double copy = calibrate_copy("cpu", dtype, seconds, &why);
    if (why.code == STATUS_OK)
        *roofline = (struct roofline){.flops_per_s = gemm, .bytes_per_s = copy, .link_bytes_per_s = copy / 2};
}
