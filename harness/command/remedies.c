#include "harness/command/remedies.h"
#include "harness/text/size.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

#define ENOUGH "4096TiB" // host memory if none is known

struct remedies {
    const struct plan_flags *flags;
    const struct advice *advice; // of the original request, for which nothing fits
};

// Copies the request for a change; try_it releases it.
static struct plan_flags copy(const struct remedies *remedies)
{
    struct plan_flags flags = *remedies->flags;
    flags.trial.trial = json_deep_copy(flags.trial.trial);
    flags.trial.method = json_deep_copy(flags.trial.method);
    return flags;
}

static void set(struct plan_flags *flags, const char *key, json_t *value)
{
    json_object_set_new(flags->trial.trial, key, value);
}

static void print(const char *flags, const struct advice *advice)
{
    const struct planned_step *step = &advice->fastest.step;
    char size[32];
    size_text(step->peak_bytes, size, sizeof size);
    if (step->fits)
        printf("  %-32s fits: %s, %.4g s, %s\n", flags, advice_describe(advice, &advice->fastest).text,
               step->seconds, size);
    else
        printf("  %-32s does not: %s\n", flags, advice_missing(advice, &advice->fastest).text);
    fflush(stdout);
}

enum told { TELL_ALWAYS, TELL_IF_FITS };

// Plans a changed request and adds it under these flags if it is possible. Returns whether it fits.
static bool try_it(struct remedies *remedies, struct plan_flags flags, enum told told, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static bool try_it(struct remedies *remedies, struct plan_flags flags, enum told told, const char *format, ...)
{
    struct advice advice = {0};
    struct status status = {0};
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    bool found = advice_open(&advice, &flags, &status) &&
                 advice_find(&advice, remedies->advice->limits.device_bytes, &status),
         fits = found && advice.fastest.step.fits;
    size_t used = strlen(text), host_bytes = advice.fastest.step.host_peak_bytes;
    if (fits && host_bytes && !remedies->advice->limits.host_bytes)
        snprintf(text + used, sizeof text - used, "%s--host-memory %.1fGiB", used ? " " : "",
                 ceil((double)host_bytes / 0x1p30 * 10) / 10);
    else if (!used)
        snprintf(text, sizeof text, "--host-memory SIZE");
    if (found && (fits || told == TELL_ALWAYS))
        print(text, &advice);
    advice_close(&advice);
    json_decref(flags.trial.trial);
    json_decref(flags.trial.method);
    return fits;
}

// Tells whether some method would fit with few enough chunks, or tokens.
static bool may_fit(const struct remedies *remedies, bool tokens)
{
    const struct advice *advice = remedies->advice;
    bool may = false;
    for (size_t f = 0; f < advice->space.count; f++) {
        const struct planned_step *bound = &advice->planner.bounds[f];
        size_t min_bytes = tokens ? bound->resident_bytes : bound->lower_bound_bytes;
        may |= bound->why.code != STATUS_BAD_INPUT && min_bytes < advice->limits.device_bytes;
    }
    return may;
}

// Halves the value until it fits.
static void try_fewer(struct remedies *remedies, const char *key, size_t count)
{
    bool fits = false;
    for (size_t left = count / 2; left >= 1 && !fits; left /= 2) {
        struct plan_flags flags = copy(remedies);
        set(&flags, key, json_integer((json_int_t)left));
        fits = try_it(remedies, flags, TELL_IF_FITS, "--%s %zu", key, left);
    }
}

// Tries other methods, and other values of the given options.
static void try_free(struct remedies *remedies)
{
    const struct plan_flags *asked = remedies->flags;
    struct plan_flags flags = copy(remedies);
    char given[200] = "";
    size_t used = 0;
    const char *option;
    json_t *value;
    json_object_foreach(asked->trial.method, option, value)
    {
        used += (size_t)snprintf(given + used, used < sizeof given ? sizeof given - used : 0, " --%s", option);
    }
    if (strcmp(asked->methods, "all") != 0)
        strncat(given, " --methods", sizeof given - strlen(given) - 1);
    for (char *c = given; *c; c++)
        *c = *c == '_' ? '-' : *c;
    json_object_clear(flags.trial.method);
    flags.methods = "all";
    flags.exact = false;
    try_it(remedies, flags, TELL_ALWAYS, "without%s", given);
}

static void try_all(struct remedies *remedies)
{
    const struct plan_flags *asked = remedies->flags;
    const struct trial *first = &remedies->advice->asked.trials[0];
    bool lora = first->lora.rank > 0, bf16 = first->dtype == DTYPE_BF16, file = first->data.kind == DATA_BATCH;
    struct plan_flags flags;
    if (json_object_size(asked->trial.method) || strcmp(asked->methods, "all") != 0)
        try_free(remedies);
    if (!remedies->advice->limits.host_bytes) {
        flags = copy(remedies);
        set(&flags, "limits", json_pack("{s:s}", "host_memory", ENOUGH));
        try_it(remedies, flags, TELL_ALWAYS, "%s", "");
    }
    if (!json_object_get(asked->trial.method, "chunk") && may_fit(remedies, false)) {
        size_t min = 128; // the smallest value tried
        while (min * 256 < first->context)
            min *= 2;
        flags = copy(remedies);
        json_object_set_new(flags.trial.method, "chunk", json_integer((json_int_t)min / 2));
        try_it(remedies, flags, TELL_ALWAYS, "--chunk %zu", min / 2);
    }
    if (!bf16) {
        flags = copy(remedies);
        set(&flags, "dtype", json_string("bf16"));
        try_it(remedies, flags, TELL_ALWAYS, "--dtype bf16");
    }
    if (!asked->also && (bf16 || lora)) {
        flags = copy(remedies);
        flags.also = lora && bf16 ? "kv-gradient-dtype,weights" : lora ? "weights" : "kv-gradient-dtype";
        try_it(remedies, flags, TELL_ALWAYS, "--also %s", flags.also);
    }
    if (bf16 && !lora && first->gradient_dtype != DTYPE_BF16) {
        flags = copy(remedies);
        set(&flags, "gradient_dtype", json_string("bf16"));
        try_it(remedies, flags, TELL_ALWAYS, "--gradient-dtype bf16");
    }
    if (!lora) {
        flags = copy(remedies);
        set(&flags, "lora", json_pack("{s:i}", "rank", 8));
        try_it(remedies, flags, TELL_ALWAYS, "--lora r=8");
    }
    if (!bf16 && !lora) {
        flags = copy(remedies);
        set(&flags, "dtype", json_string("bf16"));
        set(&flags, "lora", json_pack("{s:i}", "rank", 8));
        try_it(remedies, flags, TELL_ALWAYS, "--dtype bf16 --lora r=8");
    }
    if (trial_ranks(first) == 1) {
        flags = copy(remedies);
        set(&flags, "parallel", json_pack("{s:i, s:i}", "sequence", 2, "zero", 3));
        try_it(remedies, flags, TELL_ALWAYS, "--parallel sequence=2,zero=3");
    }
    if (!file && may_fit(remedies, true)) {
        try_fewer(remedies, "batch", first->batch);
        try_fewer(remedies, "context", first->context);
    }
}

void remedies_print(const struct plan_flags *flags, const struct advice *advice)
{
    struct remedies remedies = {flags, advice};
    printf("Other requests, each planned by itself:\n");
    fflush(stdout);
    try_all(&remedies);
}
