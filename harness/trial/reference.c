// Reference: unmeasured steps, each on a device opened for it.
#include "harness/trial/reference.h"
#include "harness/step/rounding.h"
#include "harness/step/setup.h"
#include <math.h>
#include <string.h>

// Orders of sums with which the f64 reference is compared. A single one can miss the direction in which a model
// amplifies errors most (harness/step/rounding.md).
#define NOISE_ORDERS 3

// Gradients of one step and, if requested, its loss. probe NULL: none.
static bool gradients_of(struct gradient_set *set, double *loss, const struct trial *trial,
                         const struct setup_options *options, const struct choices_probe *probe,
                         const struct method *method, const void *method_options, struct status *status)
{
    struct setup setup;
    struct status reason = {0};
    struct step_report report = {0};
    bool done = setup_open(&setup, trial, options, &reason);
    if (done) {
        struct training_step step = {
            .trainer = &setup.trainer, .method = method, .batch = &setup.batch, .options = method_options};
        setup.model.probe = probe;
        training_step_take(&step, &report);
        done = setup.device->status.code == STATUS_OK;
        if (done)
            gradient_set_take(set, &setup.model);
        else
            reason = setup.device->status;
    }
    if (loss)
        *loss = report.sums.loss;
    setup_close(&setup);
    step_report_free(&report);
    // The check failed, not the method, whatever the kind of failure.
    return done ||
           status_set(status, STATUS_FAILED, "the reference gradient (%s, %s on %s) could not be computed: %.800s",
                      method->name, dtype_name(options->dtype), options->device, reason.message);
}

static bool full_gradients(struct gradient_set *set, double *loss, const struct trial *trial,
                           const struct setup_options *options, const struct choices_probe *probe,
                           struct status *status)
{
    const struct method *full = method_find("full");
    void *defaults = options_new(&full->options);
    bool done = gradients_of(set, loss, trial, options, probe, full, defaults, status);
    options_free(&full->options, defaults);
    return done;
}

const struct kept_choices *reference_choices(const struct trial *trial, const struct kept_choices *taken)
{
    return taken->whole && trial->dtype != DTYPE_F64 ? taken : NULL;
}

static struct setup_options exact_options(const struct trial *trial)
{
    struct setup_options exact = setup_options_reference();
    exact.lora_beside = setup_options_of(trial).lora_beside;
    return exact;
}

bool reference_route(struct gradient_set *set, struct kept_choices *taken, const struct trial *trial,
                     struct status *status)
{
    struct setup_options exact = exact_options(trial);
    return full_gradients(set, NULL, trial, &exact, &(struct choices_probe){.taken = taken}, status);
}

bool reference_take(struct reference *reference, const struct trial *trial, const struct kept_choices *given,
                    struct status *status)
{
    *reference = (struct reference){0};
    struct setup_options exact = exact_options(trial), own = setup_options_of(trial);
    const struct choices_probe probe = {.given = given};
    own.optimizer = NULL;
    own.memory_limit_bytes = 0; // the limit is for the measured method
    bool done = full_gradients(&reference->gradients, &reference->loss, trial, &exact, &probe, status);
    struct gradient_set forward = {0}, reverse = {0};
    for (unsigned order = NOISE_ORDERS; done && order > 0; order--) { // order 1 stays in `reverse`
        gradient_set_free(&reverse);
        exact.reverse_sums = order;
        done = full_gradients(&reverse, NULL, trial, &exact, &probe, status);
        if (done)
            reference->noise = fmax(reference->noise, gradient_relative_l2(&reverse, &reference->gradients));
    }
    // An f64 trial on the CPU is its own reference.
    if (done && strcmp(own.device, exact.device) == 0 && own.dtype == exact.dtype &&
        own.kv_gradient_dtype == exact.kv_gradient_dtype && own.gradient_dtype == exact.gradient_dtype &&
        trial->group <= 1) {
        gradient_compare(&reference->floor, &reverse, &reference->gradients);
    } else if (done) {
        gradient_set_free(&reverse);
        done = full_gradients(&forward, NULL, trial, &own, &probe, status);
        own.tf32 = false; // to show what that rounds
        own.reverse_sums = 1;
        done = done && full_gradients(&reverse, NULL, trial, &own, &probe, status);
        if (done)
            gradient_compare(&reference->floor, &reverse, &forward);
    }
    gradient_set_free(&forward);
    gradient_set_free(&reverse);
    return done;
}

bool reference_sums(struct gradient_report *sums, const struct gradient_set *set, const struct trial *trial,
                    const void *options, struct status *status)
{
    *sums = (struct gradient_report){0};
    struct setup_options wide = setup_options_of(trial);
    if (wide.kv_gradient_dtype != DTYPE_BF16 && wide.gradient_dtype != DTYPE_BF16)
        return true;
    wide.kv_gradient_dtype = wide.gradient_dtype = DTYPE_F32;
    wide.optimizer = NULL;
    wide.memory_limit_bytes = 0;
    struct gradient_set gradients = {0};
    bool done = gradients_of(&gradients, NULL, trial, &wide, NULL, trial->method, options, status);
    if (done)
        gradient_compare(sums, set, &gradients);
    gradient_set_free(&gradients);
    return done;
}

void reference_free(struct reference *reference)
{
    gradient_set_free(&reference->gradients);
    gradient_report_free(&reference->floor);
}

// Raises the verdict's share of the bound to an error's, and fails beyond the bound, also for NaN.
static void check(struct rounding_verdict *verdict, double l2, double floor_l2, double limit,
                  const struct gradient_error *error, const char *what, const struct trial *trial,
                  struct status *status)
{
    double scale = gradient_scale(error), shares[] = {l2 / limit, floor_l2 / limit};
    for (size_t i = 0; i < 2; i++)
        if (!(shares[i] <= verdict->bound_share))
            verdict->bound_share = isnan(verdict->bound_share) ? NAN : shares[i];
    if (!(l2 <= limit))
        status_set(status, STATUS_FAILED,
                   "%s is off: relative L2 %.3g against full f64, where rounding in %s explains %.3g", what,
                   l2 / scale, dtype_name(trial->dtype), limit / scale);
    else if (!(floor_l2 <= limit))
        status_set(status, STATUS_FAILED,
                   "%s depends on the order of sums: full summed in another order is off by relative L2 %.3g, "
                   "where rounding in %s explains %.3g; this build computes with less than %s has",
                   what, floor_l2 / scale, dtype_name(trial->dtype), limit / scale, dtype_name(trial->dtype));
}

bool reference_judge(struct rounding_verdict *verdict, const struct reference *reference, const struct trial *trial,
                     const struct gradient_report *report, struct status *status)
{
    struct rounding rounding = rounding_of(trial, reference->noise);
    const struct gradient_error *whole = &report->overall;
    double limit = rounding_whole(&rounding, whole);
    *verdict = (struct rounding_verdict){.bound = limit / gradient_scale(whole)};
    check(verdict, whole->l2, reference->floor.overall.l2, limit, whole, "the gradient", trial, status);
    for (size_t i = 0, j = 0; i < report->count; i++, j++) {
        const struct tensor_error *tensor = &report->tensors[i];
        while (strcmp(tensor->name, reference->floor.tensors[j].name) != 0) // skips frozen parameters
            j++;
        char what[160];
        snprintf(what, sizeof what, "the gradient of %s", tensor->name);
        check(verdict, tensor->error.l2, reference->floor.tensors[j].error.l2,
              rounding_tensor(&rounding, &tensor->error), &tensor->error, what, trial, status);
    }
    bool within = verdict->bound_share <= 1;
    verdict->name = !within ? "beyond" : rounding.decides ? "within" : "undecided";
    return within;
}
