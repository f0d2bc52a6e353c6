#include "harness/command/against.h"
#include "harness/spec/framework_decode.h"
#include "harness/step/setup.h"
#include "harness/text/text.h"
#include "kernels/base/size_text.h"
#include "kernels/framework/framework_run.h"
#include <string.h>

// The framework's step.
struct theirs {
    struct trial trial;
    struct setup setup;
    const struct storage *largest;
    size_t largest_count;
};

// The trial of the step with this loss; NULL: as it was asked for. Release with trial_free, also after a failure.
static bool theirs_decode(struct trial *trial, const struct plan_flags *flags, const char *loss,
                          struct status *status)
{
    struct trial_flags own = flags->trial;
    json_t *framework = json_deep_copy(json_object_get(flags->theirs, "framework"));
    if (loss)
        json_object_set_new(framework, "loss", json_string(loss));
    own.trial = json_copy(flags->trial.trial);
    own.method = json_object();
    json_object_set_new(own.trial, "framework", framework);
    json_object_set_new(own.trial, "device", json_string("plan-" FRAMEWORK_NAME));
    const char *method = json_string_value(json_object_get(flags->theirs, "method"));
    bool decoded = trial_flags_decode(&own, method, trial, status);
    json_decref(own.trial);
    json_decref(own.method);
    return decoded;
}

// Plans the step. False and a status if there is none. Release with theirs_close, also after a failure.
static bool theirs_plan(struct theirs *theirs, const struct plan_flags *flags, const char *loss,
                        struct status *status)
{
    *theirs = (struct theirs){0};
    if (!theirs_decode(&theirs->trial, flags, loss, status))
        return false;
    struct setup_options how = setup_options_planned(&theirs->trial);
    bool planned = setup_open(&theirs->setup, &theirs->trial, &how, status);
    if (planned)
        theirs->largest_count = framework_run_largest(theirs->setup.framework, &theirs->largest);
    return planned && status_take(status, &theirs->setup.device->status);
}

static void theirs_close(struct theirs *theirs)
{
    setup_close(&theirs->setup);
    trial_free(&theirs->trial);
}

static void print_line(const struct theirs *theirs, const char *name, const char *what, size_t limit_bytes)
{
    const struct framework_run *run = theirs->setup.framework;
    struct framework_reserved reserved = framework_run_reserved(run);
    char peak[32], low[32], high[32];
    size_text(run->tape.peak_bytes, peak, sizeof peak);
    size_text(reserved.low_bytes, low, sizeof low);
    size_text(reserved.high_bytes, high, sizeof high);
    printf("%-9s %12s  reserved %s to %s: %s; %s\n", name, peak, low, high,
           framework_verdict(run->tape.peak_bytes, reserved, limit_bytes), what);
}

#define TENSORS 3 // told

// "its peak is in backward's log_softmax_backward; the largest tensors there are ..."
static void print_peak(const struct theirs *theirs)
{
    const struct tape *tape = &theirs->setup.framework->tape;
    size_t count = theirs->largest_count < TENSORS ? theirs->largest_count : TENSORS, bytes = 0;
    char size[32];
    for (size_t i = 0; i < count; i++)
        bytes += theirs->largest[i].bytes;
    size_text(bytes, size, sizeof size);
    printf("%-9s its peak is in %s, at %s; %s of it are %zu tensors:\n%-9s", "", tape->peak_moment,
           tape->peak_operation, size, count, "");
    for (size_t i = 0; i < count; i++) {
        const struct storage *storage = &theirs->largest[i];
        size_text(storage->bytes, size, sizeof size);
        printf("%s %s %s of %s (%s)", i ? "," : "", size, dtype_name(storage->dtype),
               category_name(storage->category), storage->made_by);
    }
    printf("\n");
}

static const char *const losses[] = {[LOSS_CHUNKED] = "chunked", [LOSS_LIGER] = "liger", [LOSS_TRL] = "trl"};
static const enum framework_loss others[] = {LOSS_CHUNKED, LOSS_TRL, LOSS_LIGER};

// Texts of what the plan leaves out, and of what nobody has checked.
static void print_unchecked(const struct plan_flags *flags, const struct theirs *theirs)
{
    struct trial trial = theirs->trial;
    trial.unchecked = flags->unchecked;
    json_t *unchecked = framework_trial_unchecked(&trial), *text;
    size_t i;
    json_array_foreach(unchecked, i, text)
    {
        printf("%-9s %s\n", i ? "" : "unchecked", json_string_value(text));
    }
    json_decref(unchecked);
}

// The same step with another head, if that is another one and possible.
static void print_other(const struct plan_flags *flags, int asked, enum framework_loss loss, size_t limit_bytes)
{
    static const char *const words[] = {[LOSS_CHUNKED] = "its loss in chunks of 2,048 tokens",
                                        [LOSS_TRL] = "TRL's fused head, modelled after its source",
                                        [LOSS_LIGER] = "Liger's fused head, modelled after its source"};
    struct theirs theirs;
    struct status status = {0};
    if ((int)loss == asked)
        return;
    if (theirs_plan(&theirs, flags, losses[loss], &status))
        print_line(&theirs, "the same", words[loss], limit_bytes);
    theirs_close(&theirs);
}

void against_print(const struct plan_flags *flags, size_t limit_bytes)
{
    struct theirs theirs;
    struct status status = {0};
    printf("\n");
    if (theirs_plan(&theirs, flags, NULL, &status)) {
        int loss = theirs.trial.framework->loss;
        char *what = text_new(FRAMEWORK_NAME " %s, %s", framework_version_name(theirs.trial.framework),
                              theirs.trial.method->name);
        print_line(&theirs, "their run", what, limit_bytes);
        print_peak(&theirs);
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            print_other(flags, loss, others[i], limit_bytes);
        print_unchecked(flags, &theirs);
        free(what);
    } else {
        printf("their run is not planned: %s\n", status.message);
    }
    theirs_close(&theirs);
}

bool against_record(const struct plan_flags *flags, struct search_records *records, struct status *status)
{
    struct trial trial;
    struct status why = {0};
    bool fine = true, decoded = theirs_decode(&trial, flags, NULL, &why);
    int asked = decoded ? trial.framework->loss : LOSS_DEFAULT;
    if (!decoded)
        fprintf(stderr, "longbp: their run is not planned: %s\n", why.message);
    fine = !decoded || search_records_add_trial(records, "advise", &trial, status);
    trial_free(&trial);
    for (size_t i = 0; decoded && fine && i < sizeof others / sizeof *others; i++) {
        if ((int)others[i] == asked)
            continue;
        if (theirs_decode(&trial, flags, losses[others[i]], &why))
            fine = search_records_add_trial(records, "advise", &trial, status);
        trial_free(&trial);
    }
    return fine;
}
