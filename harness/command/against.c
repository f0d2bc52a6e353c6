#include "harness/command/against.h"
#include "harness/plan/max_context.h"
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

// A change of the step as it was asked for; NULL, 0: none.
struct change {
    char words[120];
    const char *loss, *method, *gradients;
    size_t batch;
};

// The trial of the step with a change. Release with trial_free, also after a failure.
static bool theirs_decode(struct trial *trial, const struct plan_flags *flags, const struct change *change,
                          struct status *status)
{
    struct trial_flags own = flags->trial;
    json_t *framework = json_deep_copy(json_object_get(flags->theirs, "framework"));
    const char *method = json_string_value(json_object_get(flags->theirs, "method"));
    own.trial = json_copy(flags->trial.trial);
    if (framework_quantises(framework)) // as that says
        json_object_del(own.trial, "weights");
    own.method = json_object();
    if (change->loss)
        json_object_set_new(framework, "loss", json_string(change->loss));
    if (change->gradients)
        json_object_set_new(framework, "gradients", json_string(change->gradients));
    if (change->batch)
        json_object_set_new(own.trial, "batch", json_integer((json_int_t)change->batch));
    json_object_set_new(own.trial, "framework", framework);
    json_object_set_new(own.trial, "device", json_string("plan-" FRAMEWORK_NAME));
    bool decoded = trial_flags_decode(&own, change->method ? change->method : method, trial, status);
    json_decref(own.trial);
    json_decref(own.method);
    return decoded;
}

// The step as it was asked for, and changes of it that take less: checkpoints, another head, a smaller batch.
#define CHANGES 6
static size_t list_changes(const struct trial *asked, struct change changes[CHANGES])
{
    static const struct change losses[] = {
        [LOSS_CHUNKED] = {.loss = "chunked", .words = "its loss in chunks of 2,048 tokens"},
        [LOSS_LIGER] = {.loss = "liger", .words = "Liger's fused head, modelled after its source"},
        [LOSS_TRL] = {.loss = "trl", .words = "TRL's fused head, modelled after its source"}};
    static const enum framework_loss order[] = {LOSS_CHUNKED, LOSS_TRL, LOSS_LIGER};
    bool full = strcmp(asked->method->name, "checkpoint") != 0, whole = asked->framework->loss == LOSS_WHOLE;
    const char *method = full ? "checkpoint" : NULL, *with = full ? "checkpoints; " : "";
    size_t count = 0;
    changes[count++] = (struct change){.words = ""};
    if (full)
        changes[count++] = (struct change){.words = "checkpoints", .method = method};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const struct change *loss = &losses[order[i]];
        if (order[i] == (enum framework_loss)asked->framework->loss)
            continue;
        changes[count] = (struct change){.loss = loss->loss, .method = method};
        snprintf(changes[count++].words, sizeof changes->words, "%s%s", with, loss->words);
    }
    if (asked->batch > 1 && asked->data.kind != DATA_BATCH) {
        changes[count] =
            (struct change){.loss = whole ? "chunked" : NULL, .method = method, .gradients = "held", .batch = 1};
        snprintf(changes[count++].words, sizeof changes->words, "%s%s%zu micro-batches of one sequence", with,
                 whole ? "its loss in chunks; " : "", asked->batch);
    }
    return count;
}

// Plans the step. False and a status if there is none. Release with theirs_close, also after a failure.
static bool theirs_plan(struct theirs *theirs, const struct plan_flags *flags, const struct change *change,
                        struct status *status)
{
    *theirs = (struct theirs){0};
    if (!theirs_decode(&theirs->trial, flags, change, status))
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

// "weights 15.11 GiB, activations 5.87 GiB": those of a hundredth of the peak or more.
static void print_categories(const struct theirs *theirs)
{
    const struct arena *arena = &theirs->setup.device->arena;
    const char *before = " in all ";
    char size[32];
    printf("%-9s", "");
    for (int i = 0; i < CATEGORY_COUNT; i++) {
        size_t bytes = arena->peak_by_category[i];
        size_text(bytes, size, sizeof size);
        if (bytes >= arena->peak_bytes / 100)
            printf("%s%s %s", before, category_name((enum category)i), size);
        before = bytes >= arena->peak_bytes / 100 ? ", " : before;
    }
    printf("\n");
}

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

// The longest context whose peak is within the limit.
static size_t longest(const struct plan_flags *flags, const struct change *change, size_t limit_bytes)
{
    struct trial trial;
    struct max_context found = {0};
    struct status status = {0};
    if (!theirs_decode(&trial, flags, change, &status) ||
        !max_context_find(&found, &trial, EXTENT_CONTEXT, limit_bytes, 0, &status))
        found.largest = 0;
    trial_free(&trial);
    return found.largest;
}

static void print_longest(const struct plan_flags *flags, const struct change *changes, size_t count,
                          size_t limit_bytes)
{
    size_t tokens = longest(flags, changes, limit_bytes), most = 0, at = 0;
    for (size_t i = 1; i < count; i++) {
        size_t other = longest(flags, &changes[i], limit_bytes);
        at = other > most ? i : at;
        most = other > most ? other : most;
    }
    printf("%-9s a context of %zu tokens", "at most", tokens);
    if (most > tokens)
        printf(", or with %s %zu", changes[at].words, most);
    printf(": by the peak alone\n");
}

static void print_changes(const struct plan_flags *flags, const struct trial *asked, size_t limit_bytes)
{
    struct change changes[CHANGES];
    size_t count = list_changes(asked, changes);
    for (size_t i = 1; i < count; i++) {
        struct theirs theirs;
        struct status status = {0};
        if (theirs_plan(&theirs, flags, &changes[i], &status))
            print_line(&theirs, "the same", changes[i].words, limit_bytes);
        theirs_close(&theirs);
    }
    if (asked->data.kind != DATA_BATCH)
        print_longest(flags, changes, count, limit_bytes);
}

void against_print(const struct plan_flags *flags, size_t limit_bytes)
{
    static const struct change none;
    struct theirs theirs;
    struct status status = {0};
    printf("\n");
    if (theirs_plan(&theirs, flags, &none, &status)) {
        char *what = text_new(FRAMEWORK_NAME " %s, %s", framework_version_name(theirs.trial.framework),
                              theirs.trial.method->name);
        print_line(&theirs, "their run", what, limit_bytes);
        print_peak(&theirs);
        print_categories(&theirs);
        print_changes(flags, &theirs.trial, limit_bytes);
        print_unchecked(flags, &theirs);
        free(what);
    } else {
        printf("their run is not planned: %s\n", status.message);
    }
    theirs_close(&theirs);
}

bool against_record(const struct plan_flags *flags, struct search_records *records, struct status *status)
{
    static const struct change none;
    struct change changes[CHANGES];
    struct trial asked, trial;
    struct status why = {0};
    bool fine = true, decoded = theirs_decode(&asked, flags, &none, &why);
    if (!decoded)
        fprintf(stderr, "longbp: their run is not planned: %s\n", why.message);
    size_t count = decoded ? list_changes(&asked, changes) : 0;
    for (size_t i = 0; fine && i < count; i++) {
        if (theirs_decode(&trial, flags, &changes[i], &why))
            fine = search_records_add_trial(records, "advise", &trial, status);
        trial_free(&trial);
    }
    trial_free(&asked);
    return fine;
}
