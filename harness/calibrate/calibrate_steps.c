#include "harness/calibrate/calibrate_steps.h"
#include "harness/calibrate/calibrate_rates.h"
#include "harness/machine/reference_kernel.h"
#include "harness/stats/sample.h"
#include "harness/step/setup.h"
#include "harness/text/text.h"
#include "kernels/base/clock.h"
#include "kernels/measure/timer.h"
#include <math.h>
#include <stdlib.h>

// The model and tokens of the steps if this many seconds are available. On a card they are long enough for the host
// to run ahead, with head sizes for which attention's kernels are compiled.
struct step_size {
    double seconds;
    size_t width, heads, kv_heads, head_dim, ffn, context;
    size_t chunks[3]; // of streambp and seco
};
static const struct step_size sizes_of[REFERENCE_KERNEL_SIZES][4] = {
    [REFERENCE_KERNEL_CPU] = {{1, 320, 5, 5, 64, 832, 768, {128, 256, 64}},
                              {0.1, 320, 5, 5, 64, 832, 192, {128, 256, 64}},
                              {0, 64, 1, 1, 64, 176, 48, {128, 256, 64}}},
    [REFERENCE_KERNEL_CARD] = {{3, 2048, 32, 8, 128, 7168, 4096, {2048, 2048, 1024}},
                               {0, 2048, 32, 8, 128, 7168, 512, {512, 512, 512}}},
    [REFERENCE_KERNEL_SLOW_CARD] = {{0, 64, 1, 1, 64, 176, 48, {48, 48, 16}}},
};

// Methods with few and with many bytes per operation; -1: without chunks.
static const struct timed_method {
    const char *name;
    int chunk;
} methods_timed[] = {{"full", -1}, {"checkpoint", -1}, {"streambp", 0}, {"seco", 1}, {"seco", 2}};
#define STEPS (sizeof methods_timed / sizeof *methods_timed)
_Static_assert(STEPS <= CALIBRATE_STEPS_MAX, "as many as are weighed");

// A timed step on the device.
struct timed_step {
    struct trial trial;
    struct setup setup;
    double seconds[CALIBRATE_ROUNDS_MAX],
        around_s[CALIBRATE_ROUNDS_MAX]; // per round; and the reference kernel's times around each
    struct calibrated_step found;
};

static bool open_trial(struct trial *trial, const struct calibrated *what, const struct timed_method *method,
                       const struct step_size *size, struct status *status)
{
    char chunk[48] = "";
    if (method->chunk >= 0)
        snprintf(chunk, sizeof chunk, ", \"chunk\": %zu", size->chunks[method->chunk]);
    char *json = text_new(
        "{\"model\": {\"layers\": 2, \"width\": %zu, \"heads\": %zu, \"kv_heads\": %zu, \"head_dim\": %zu, "
        "\"ffn\": %zu, \"vocab\": 320}, \"context\": %zu, \"device\": \"%s\", \"dtype\": \"%s\", "
        "\"method\": {\"name\": \"%s\"%s}}",
        size->width, size->heads, size->kv_heads, size->head_dim, size->ffn, size->context, what->device,
        dtype_name(what->dtype), method->name, chunk);
    bool fine = trial_decode(trial, json, "calibrate", status);
    free(json);
    return fine;
}

// Returns its seconds.
static double take_step(struct timed_step *step)
{
    struct step_report report = {0};
    struct training_step training = setup_step(&step->setup, &step->trial);
    training_step_take(&training, &report);
    step_report_free(&report);
    device_synchronize(step->setup.device); // the reference kernel and other steps have their own queues
    return 1e-3 * report.ms;
}

// Counts the first run, which is not timed.
static bool open_step(struct timed_step *step, const struct rates *rates, const struct calibrated *what,
                      const struct timed_method *method, const struct step_size *size, struct status *status)
{
    if (!open_trial(&step->trial, what, method, size, status))
        return false;
    struct setup_options how = setup_options_of(&step->trial);
    if (!setup_open(&step->setup, &step->trial, &how, status))
        return false;
    struct device *opened = step->setup.device;
    opened->roofline = (struct roofline){.flops_per_s = INFINITY, .bytes_per_s = INFINITY, .rates = rates};
    opened->counters = (struct counters){0};
    take_step(step);
    step->found =
        (struct calibrated_step){.estimate_s = opened->counters.estimate_s, .bytes = opened->counters.bytes_moved};
    opened->roofline = (struct roofline){0};
    return status_take(status, &opened->status);
}

static bool time_step(struct timed_step *step, struct reference_kernel *reference_kernel, size_t round,
                      struct status *status)
{
    double before_s = reference_kernel_s(reference_kernel, 1);
    step->seconds[round] = take_step(step);
    step->around_s[round] = (before_s + reference_kernel_s(reference_kernel, 1)) / 2;
    return status_take(status, &step->setup.device->status);
}

double calibrate_s_per_byte(const struct calibrated_step *steps, size_t count, double memory_s_per_byte)
{
    double of_step[CALIBRATE_STEPS_MAX];
    for (size_t i = 0; i < count; i++)
        of_step[i] = (steps[i].seconds - steps[i].estimate_s) / steps[i].bytes;
    return fmin(fmax(sample_quantile(of_step, count, 0.5), 0), memory_s_per_byte);
}

bool calibrate_steps(struct rates *rates, const struct calibrated *what, double memory_s_per_byte,
                     struct status *status)
{
    struct timed_step *steps = calloc(STEPS, sizeof *steps);
    struct reference_kernel *reference_kernel =
        reference_kernel_open(what->device, what->dtype, what->size, status);
    struct calibrated_step found[STEPS];
    size_t rounds = 0;
    bool fine = reference_kernel;
    const struct step_size *size = sizes_of[what->size];
    while (what->seconds < size->seconds)
        size++;
    rates->s_per_byte = 0;
    for (size_t i = 0; fine && i < STEPS; i++)
        fine = open_step(&steps[i], rates, what, &methods_timed[i], size, status);
    for (double start_s = clock_s();
         fine && (rounds == 0 || (rounds < CALIBRATE_ROUNDS_MAX && clock_s() - start_s < what->seconds)); rounds++)
        for (size_t i = 0; fine && i < STEPS; i++)
            fine = time_step(&steps[i], reference_kernel, rounds, status);
    for (size_t i = 0; fine && i < STEPS; i++) {
        found[i] = steps[i].found;
        found[i].seconds =
            calibrate_steady_s(steps[i].seconds, steps[i].around_s, rounds, rates->reference_kernel_s);
    }
    if (fine)
        rates->s_per_byte = calibrate_s_per_byte(found, STEPS, memory_s_per_byte);
    for (size_t i = 0; i < STEPS; i++) {
        setup_close(&steps[i].setup);
        trial_free(&steps[i].trial);
    }
    reference_kernel_close(reference_kernel);
    free(steps);
    return fine;
}
