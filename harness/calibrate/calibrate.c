#include "harness/calibrate/calibrate.h"
#include "harness/calibrate/calibrate_rates.h"
#include "harness/calibrate/calibrate_steps.h"
#include "harness/machine/provenance.h"
#include "harness/spec/device_kind.h"
#include "kernels/base/clock.h"
#include "kernels/device/ops.h"
#include "kernels/device/queue.h"
#include "kernels/measure/timer.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

#define PEAK_SECONDS 2.0 // takes the best run within it; at least three
#define CARD_SECONDS 0.5 // the same for a card, whose clock other programs do not disturb
#define GEMM_SIZE    ((size_t)2048)
#define GEMM_MIN     ((size_t)128)  // under a short time limit
#define CARD_SIZE    ((size_t)4096) // a card takes smaller ones in microseconds, partly launch time
#define CARD_LARGEST ((size_t)8192) // without a time limit
#define COPY_COLS    ((size_t)1024)
#define COPY_BYTES   ((size_t)256 << 20) // far above any cache
#define COPY_CARD    ((size_t)1 << 30)   // the same for a card, whose caches reach 128 MiB
#define COPY_MIN     ((size_t)1 << 20)   // under a short time limit
#define LAUNCHES     1000
#define STEPS_SHARE  0.15              // of the time for rates
#define DRAWN        ((size_t)1 << 20) // numbers of an operand, at least
#define CARD_FLOPS   1e13              // per second; faster cards take large shapes in milliseconds

#define POOL_BYTES ((double)(256 << 20)) // that a card's pool may reserve beyond live tensors

static bool is_card(const char *device)
{
    return device_is_of_card(device);
}

// drawn: number of random rows; the others repeat them.
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
    return status_take(status, &device->status);
}

void calibrate_close(struct calibrate_operands *o)
{
    if (!o->device)
        return;
    tensor_free(o->device, &o->a);
    tensor_free(o->device, &o->b);
    tensor_free(o->device, &o->c);
    tensor_free(o->device, &o->host[0]);
    tensor_free(o->device, &o->host[1]);
    device_close(o->device);
}

// Adds two host tensors with a's numbers.
static bool open_host(struct calibrate_operands *o, struct status *status)
{
    for (size_t i = 0; i < 2; i++) {
        o->host[i] = tensor_new_in(o->device, PLACE_HOST, o->a.rows, o->a.cols, o->a.dtype, CATEGORY_WORKSPACE);
        event_wait(o->device, QUEUE_COMPUTE, copy_out_written(o->device, o->host[i], o->a));
    }
    return status_take(status, &o->device->status);
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

// Copies to and from the host at once, each in its queue; the timed queue of operations waits for both.
static void run_link(const struct calibrate_operands *o)
{
    struct event begun = event_record(o->device, QUEUE_COMPUTE);
    event_wait(o->device, QUEUE_OUT, begun);
    event_wait(o->device, QUEUE_IN, begun);
    copy_out(o->device, o->host[0], o->a);
    copy_in(o->device, o->c, o->host[1]);
    event_wait(o->device, QUEUE_COMPUTE, event_record(o->device, QUEUE_OUT));
    event_wait(o->device, QUEUE_COMPUTE, event_record(o->device, QUEUE_IN));
}

typedef void timed_run(const struct calibrate_operands *operands);

// Seconds of the fastest run within `seconds`, over three tensors of [rows, cols], after an uncounted first run
// that touches memory. Returns 0 and a status if they do not fit.
static double fastest(const char *name, enum dtype dtype, size_t rows, size_t cols, timed_run *run, double seconds,
                      struct status *status)
{
    struct calibrate_operands o;
    double best_s = 0;
    if (calibrate_open(&o, name, dtype, rows, cols, status) && (run != run_link || open_host(&o, status))) {
        struct device *device = o.device;
        run(&o);
        double start_s = clock_s();
        for (int i = 0; device->status.code == STATUS_OK && (i < 3 || clock_s() - start_s < seconds); i++) {
            device_timer_start(device);
            run(&o);
            double took_s = 1e-3 * device_timer_stop_ms(device);
            best_s = i == 0 || took_s < best_s ? took_s : best_s;
        }
        status_take(status, &device->status);
    }
    calibrate_close(&o);
    return status->code == STATUS_OK ? best_s : 0;
}

// Rows of the largest matrices, up to `max`, of which two products fit into the time. A card's sizes grow faster,
// because opening it takes longer than the product.
static size_t gemm_size(const char *device, enum dtype dtype, size_t max, double seconds, struct status *status)
{
    size_t n = GEMM_MIN, times = is_card(device) ? 4 : 2, runs = 2 * times * times * times;
    while (n < max && (double)runs * fastest(device, dtype, n, n, run_gemm, 0, status) < seconds)
        n = times * n < max ? times * n : max;
    return n;
}

static double copy_seconds(const char *device, enum dtype dtype, size_t bytes, timed_run *run, double seconds,
                           struct status *status)
{
    return fastest(device, dtype, bytes / dtype_bytes(dtype) / COPY_COLS, COPY_COLS, run, seconds, status);
}

// Bytes of the largest copy, up to `max`, of which a few fit into the time.
static size_t copy_size(const char *device, enum dtype dtype, size_t max, timed_run *run, double seconds,
                        struct status *status)
{
    size_t bytes = COPY_MIN;
    while (bytes < max && 4 * 16 * copy_seconds(device, dtype, bytes, run, 0, status) < seconds)
        bytes = 16 * bytes < max ? 16 * bytes : max;
    return bytes;
}

// size: rows of the matrices, up to `max`.
static double gemm_rate(const char *device, enum dtype dtype, size_t max, double seconds, size_t *size,
                        struct status *status)
{
    size_t n = *size = gemm_size(device, dtype, max, seconds, status);
    double took_s = fastest(device, dtype, n, n, run_gemm, seconds, status);
    return took_s > 0 ? 2.0 * (double)n * (double)n * (double)n / took_s : 0;
}

// Bytes read and written per second; size: of the copy, up to `max`.
static double copy_rate(const char *device, enum dtype dtype, size_t max, double seconds, size_t *size,
                        struct status *status)
{
    size_t bytes = *size = copy_size(device, dtype, max, run_copy, seconds, status);
    double took_s = copy_seconds(device, dtype, bytes, run_copy, seconds, status);
    return took_s > 0 ? 2.0 * (double)bytes / took_s : 0;
}

// Bytes per second in each direction at once; size: of a copy.
static double link_rate(const char *device, double seconds, size_t *size, struct status *status)
{
    size_t bytes = *size = copy_size(device, DTYPE_F32, COPY_BYTES, run_link, seconds, status);
    double took_s = copy_seconds(device, DTYPE_F32, bytes, run_link, seconds, status);
    return took_s > 0 ? (double)bytes / took_s : 0;
}

double calibrate_gemm(const char *device, enum dtype dtype, double seconds, struct status *status)
{
    size_t size, max = is_card(device) ? CARD_SIZE : GEMM_SIZE;
    return gemm_rate(device, dtype, max, fmin(PEAK_SECONDS, seconds), &size, status);
}

double calibrate_copy(const char *device, enum dtype dtype, double seconds, struct status *status)
{
    size_t size;
    return copy_rate(device, dtype, COPY_BYTES, fmin(PEAK_SECONDS, seconds), &size, status);
}

// --- the profile

#define WHERE_BYTES 176

static void note(struct profile_number *number, double value, const char *source, const char *where)
{
    number->value = value;
    snprintf(number->source, sizeof number->source, "%s; %s", source, where);
}

// "nvidia-h200", from a description that begins with the card's name.
static void name_card(struct profile *profile, const char *description)
{
    size_t length = 0;
    for (const char *c = description; *c && *c != ',' && length + 1 < sizeof profile->name; c++)
        if (isalnum((unsigned char)*c))
            profile->name[length++] = (char)tolower((unsigned char)*c);
        else if (length > 0 && profile->name[length - 1] != '-')
            profile->name[length++] = '-';
    profile->name[length] = 0;
}

static void note_processor(struct profile *profile, const struct device *device, char where[WHERE_BYTES])
{
    struct provenance machine;
    provenance_take(&machine);
    snprintf(where, WHERE_BYTES, "%.80s, %d threads", machine.cpu, machine.threads);
    snprintf(profile->name, sizeof profile->name, "host");
    note(&profile->memory_bytes, (double)machine.host_memory_bytes, "the machine's memory", where);
    note(&profile->usable_bytes, (double)device->arena.limit_bytes, "what was available when this was measured",
         where);
}

static void note_card(struct profile *profile, struct device *device, char where[WHERE_BYTES])
{
    snprintf(where, WHERE_BYTES, "%.*s", WHERE_BYTES - 1, device->description);
    name_card(profile, device->description);
    note(&profile->memory_bytes, (double)device->ops->total_bytes(device), "all of the card's memory", where);
    note(&profile->usable_bytes, (double)device->arena.limit_bytes, "what a step could take when it was opened",
         where);
    note(&profile->reserve_bytes, POOL_BYTES,
         "what its pool may not use: 29 to 248 MiB of an H200, results/cuda-chunk.jsonl", where);
    note(&profile->multiprocessors, (double)device->multiprocessors, "the card's own figure", where);
    note(&profile->compute_capability, (double)device->compute_capability / 10, "the card's own figure", where);
}

// Records the device and its free memory before any measurement, which a step could use. where: in words.
static bool note_device(struct profile *profile, const struct calibrate_request *request, char where[WHERE_BYTES],
                        struct status *status)
{
    bool card = is_card(request->device);
    // A card's libraries use the most memory in bf16.
    struct device *device = device_open(request->device, card ? DTYPE_BF16 : DTYPE_F32, 0, status);
    if (!device)
        return false;
    *profile = (struct profile){.name = ""};
    card ? note_card(profile, device, where) : note_processor(profile, device, where);
    if (request->name)
        snprintf(profile->name, sizeof profile->name, "%s", request->name);
    device_close(device);
    return true;
}

static const enum dtype peak_dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};

static bool note_peaks(struct profile *profile, const struct calibrate_request *request, const char *where,
                       struct status *status)
{
    const char *device = request->device;
    bool card = is_card(device);
    double peak_s = fmin(card ? CARD_SECONDS : PEAK_SECONDS, request->seconds), gemm_flops[3], link_bytes = 0;
    size_t sizes[3], copied, linked = 0;
    for (size_t i = 0; i < 3; i++)
        gemm_flops[i] =
            gemm_rate(device, peak_dtypes[i], card ? CARD_LARGEST : GEMM_SIZE, peak_s, &sizes[i], status);
    double copy_bytes = copy_rate(device, DTYPE_F32, card ? COPY_CARD : COPY_BYTES, peak_s, &copied, status);
    double launches_s = fastest(device, DTYPE_F32, 1, 1, run_launches, peak_s, status);
    if (card)
        link_bytes = link_rate(device, peak_s, &linked, status);
    if (status->code != STATUS_OK)
        return false;
    char how[64];
    for (size_t i = 0; i < 3; i++) {
        snprintf(how, sizeof how, "measured: GEMM of %zu x %zu x %zu in %s", sizes[i], sizes[i], sizes[i],
                 dtype_name(peak_dtypes[i]));
        note(&profile->flops_per_s[peak_dtypes[i]], gemm_flops[i], how, where);
    }
    snprintf(how, sizeof how, "measured: a copy of %zu MiB, read and written", copied >> 20);
    note(&profile->bandwidth_bytes_per_s, copy_bytes, how, where);
    if (card) {
        snprintf(how, sizeof how, "measured: copies of %zu MiB to and from the host", linked >> 20);
        note(&profile->host_link_bytes_per_s, link_bytes, how, where);
    } else {
        snprintf(how, sizeof how, "measured: a copy of %zu MiB in the host's memory", copied >> 20);
        note(&profile->host_link_bytes_per_s, copy_bytes / 2, how, where);
    }
    note(&profile->launch_s, launches_s / LAUNCHES, "measured: an operation on one number", where);
    return true;
}

static bool add_rates(struct profile *profile, const struct calibrate_request *request, double seconds,
                      const char *where, struct status *status)
{
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        struct rates *rates = &profile->rates[dtype];
        struct calibrated what = {.device = request->device, .dtype = (enum dtype)dtype};
        if (!request->rated[dtype])
            continue;
        if (is_card(request->device))
            what.size =
                profile->flops_per_s[dtype].value > CARD_FLOPS ? REFERENCE_KERNEL_CARD : REFERENCE_KERNEL_SLOW_CARD;
        what.seconds = (1 - STEPS_SHARE) * seconds;
        if (!calibrate_rates(rates, &what, status))
            return false;
        what.seconds = STEPS_SHARE * seconds;
        if (!calibrate_steps(rates, &what, 1 / profile->bandwidth_bytes_per_s.value, status))
            return false;
    }
    snprintf(profile->rates_source, sizeof profile->rates_source, "measured: medians; %s", where);
    return true;
}

bool calibrate(struct profile *profile, const struct calibrate_request *request, struct status *status)
{
    char where[WHERE_BYTES];
    double start_s = clock_s(), seconds = request->seconds;
    if (!note_device(profile, request, where, status) || !note_peaks(profile, request, where, status))
        return false;
    if (is_card(request->device)) // peaks and a dtype's rates share the requested time
        seconds = fmax(seconds - (clock_s() - start_s), seconds / 2);
    return add_rates(profile, request, seconds, where, status);
}

void calibrate_roofline(enum dtype dtype, double gemm_flops_per_s, double seconds, struct roofline *roofline)
{
    struct status why = {0};
    double gemm = gemm_flops_per_s > 0 ? gemm_flops_per_s : calibrate_gemm("cpu", dtype, seconds, &why);
    double copy = calibrate_copy("cpu", dtype, seconds, &why);
    if (why.code == STATUS_OK)
        *roofline = (struct roofline){.flops_per_s = gemm, .bytes_per_s = copy, .link_bytes_per_s = copy / 2};
}
