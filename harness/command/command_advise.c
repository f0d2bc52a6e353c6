// Command: `longbp advise`, the fastest method and options that fit, and the time that less memory would cost.
#include "harness/command/against.h"
#include "harness/options/advice.h"
#include "harness/options/command.h"
#include "harness/options/search_records.h"
#include "harness/options/shell.h"
#include "harness/spec/device_kind.h"
#include "harness/spec/method_decode.h"
#include "harness/table/setting.h"
#include "harness/text/size.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

// Keys that do not apply here, or that a flag of the command replaces.
static const char *const without[] = {"train",  "device", "seed",         "labels",        "reference",
                                      "method", "tf32",   "memory_limit", "deterministic", NULL};
// Keys that the suggested command does not take, or takes from the choice.
static const char *const not_to_run[] = {"profile",           "interconnect", "optimizer",
                                         "kv_gradient_dtype", "weights",      NULL};

// The same for the command that trains with the choice.
static const char *const not_to_train[] = {
    "profile", "interconnect", "kv_gradient_dtype", "weights", "labels", "documents", "prompt", NULL};

static const struct flag own_flags[] = {{.name = "methods",
                                         .flags = OPTION_FIRST,
                                         TEXT_AT(struct plan_flags, methods),
                                         .arg = "all|METHOD,METHOD",
                                         .doc = "methods to consider; all: the exact ones, and those that draw "
                                                "chunks if an option of theirs is given (all)"},
                                        {.name = "exact",
                                         SET_AT(struct plan_flags, exact),
                                         .doc = "only those of the named methods with an exact gradient"},
                                        PLAN_FLAG_ALSO,
                                        PLAN_FLAG_LIKE,
                                        PLAN_FLAG_AGAINST,
                                        PLAN_FLAG_FROM,
                                        PLAN_FLAG_MEMORY_LIMIT,
                                        PLAN_FLAG_DEVICE_MEMORY,
                                        PLAN_FLAG_RESERVE,
                                        PLAN_FLAGS_RECORDS,
                                        {0}};

// The advice and the data shown with it.
struct found {
    struct advice advice;
    char limit_what[PLAN_LIMIT_BYTES];
    struct candidate unlimited, *pareto_front;
    size_t pareto_count;
    struct planned_step training; // of the choice
    struct status training_status;
};

static error_t parse(int key, char *text, struct argp_state *state)
{
    return plan_flags_parse(state->input, key, text, state);
}

// Decodes the trial that `longbp train` runs with the choice, with the default optimizer unless one was given.
static bool decode_training(const struct plan_flags *flags, const struct advice *advice, struct trial *trial,
                            struct status *status)
{
    struct choice choice = advice_choice(advice, &advice->fastest);
    struct trial_flags training = flags->trial;
    training.trial = json_deep_copy(flags->trial.trial);
    training.method = method_json(choice.trial->method, choice.options);
    json_object_set_new(training.trial, "train", json_object());
    if (!choice.trial->optimizer)
        json_object_set_new(training.trial, "optimizer", json_string(optimizers[0]->name));
    if (choice.trial->data.kind == DATA_BATCH)
        json_object_set_new(training.trial, "batch", json_integer((json_int_t)choice.trial->batch));
    choice_set_keys(&choice, training.trial);
    bool fine = trial_flags_decode(&training, NULL, trial, status);
    json_decref(training.method);
    json_decref(training.trial);
    advice_choice_end(&choice);
    return fine;
}

static void plan_training(const struct plan_flags *flags, struct found *found)
{
    struct trial trial;
    struct planned_memos memos;
    struct status *status = &found->training_status;
    planned_memos_open(&memos);
    if (decode_training(flags, &found->advice, &trial, status) &&
        planned_step(&found->training, &trial, trial.options, found->advice.limits, &memos, status) &&
        !found->training.fits)
        *status = found->training.why;
    planned_memos_close(&memos);
    trial_free(&trial);
}

// Another framework's step has no estimate of its time.
static bool is_own(const struct trial *trial, struct status *status)
{
    return !trial->framework ||
           status_set(
               status, STATUS_BAD_INPUT,
               "--like transformers: this command chooses among this program's methods by their times; plan, "
               "max-context, max-batch and frontier plan transformers' step");
}

static bool find(struct plan_flags *flags, struct found *found, struct status *status)
{
    struct advice *advice = &found->advice;
    struct planner *planner = &advice->planner;
    size_t device_bytes = 0;
    if (!advice_open(advice, flags, status) || !is_own(&advice->asked.trials[0], status) ||
        !plan_flags_limit(flags, &advice->asked.trials[0], &device_bytes, found->limit_what,
                          sizeof found->limit_what, status) ||
        !advice_find(advice, device_bytes, status))
        return false;
    if (advice->fastest.step.fits)
        plan_training(flags, found);
    return planner_unlimited(planner, &found->unlimited, status) &&
           planner_pareto_front(planner, &advice->fastest, &found->pareto_front, &found->pareto_count, status);
}

// A command line for one step of the choice, on the planned device; or for training with it.
static char *command_of(const struct plan_flags *flags, const struct advice *advice, bool trains)
{
    char *command = NULL, sequences[32];
    struct choice choice = advice_choice(advice, &advice->fastest);
    shell_append(&command, "longbp");
    shell_append(&command, trains ? "train" : "grad");
    trial_flags_append(&flags->trial, trains ? not_to_train : not_to_run, &command);
    if (trains && choice.trial->data.kind == DATA_BATCH) {
        snprintf(sequences, sizeof sequences, "%zu", choice.trial->batch);
        shell_append(&command, "--sequences");
        shell_append(&command, sequences);
    }
    shell_append(&command, "--device");
    shell_append(&command, device_kind_like(trial_is_of_card(choice.trial))->name);
    choice_append_flags(&choice, trains, &command);
    shell_append(&command, "--out");
    shell_append(&command, trains ? "trained" : "gradients.safetensors");
    advice_choice_end(&choice);
    return command;
}

// Explains why the choice is not faster: nothing limits it, or the fastest candidate needs more memory.
static struct advice_words limit_words(const struct found *found)
{
    const struct advice *advice = &found->advice;
    const struct planned_step *unlimited = &found->unlimited.step;
    struct advice_words words = {"nothing: with any memory it would be the fastest"};
    if (!advice->fastest.step.fits)
        return advice_missing(advice, &advice->fastest);
    if (unlimited->peak_bytes > advice->limits.device_bytes ||
        unlimited->host_peak_bytes > advice->limits.host_bytes)
        return advice_missing(advice, &found->unlimited);
    return words;
}

// Tells whether another row may be as fast as the choice, within the estimates' accuracy.
static bool may_be_as_fast(const struct advice *advice, const struct candidate *candidate)
{
    return candidate->step.seconds > advice->fastest.step.seconds &&
           !advice_tells_apart(advice, candidate, &advice->fastest);
}

static void print_step(const struct advice *advice, const struct candidate *candidate)
{
    const struct planned_step *step = &candidate->step;
    char peak[32], host[32] = "-";
    size_text(step->peak_bytes, peak, sizeof peak);
    if (step->host_peak_bytes)
        size_text(step->host_peak_bytes, host, sizeof host);
    printf("%12.4g%c %11s %12s  %s\n", step->seconds, may_be_as_fast(advice, candidate) ? '~' : ' ', peak, host,
           advice_describe(advice, candidate).text);
}

static bool draws(const struct advice *advice, const struct candidate *candidate)
{
    struct choice choice = advice_choice(advice, candidate);
    bool drawn = choice_draws(&choice);
    advice_choice_end(&choice);
    return drawn;
}

// "LoRA   rank 8, alpha 8, of q, v"; nothing if all weights train.
static void print_lora(const json_t *setting)
{
    const json_t *lora = json_object_get(setting, "lora"), *targets = json_object_get(lora, "targets"), *target;
    size_t i;
    if (!lora || !json_is_array(targets))
        return;
    printf("LoRA      rank %lld, alpha %g, of ", (long long)json_integer_value(json_object_get(lora, "rank")),
           json_number_value(json_object_get(lora, "alpha")));
    json_array_foreach(targets, i, target)
    {
        printf("%s%s", i ? ", " : "", json_string_value(target));
    }
    printf("\n");
}

// Prints the accuracy of the seconds.
static void print_range(const struct advice *advice, bool drawn, bool unsure)
{
    const struct trial *first = &advice->asked.trials[0];
    const struct estimate_range *range = &advice->range;
    const struct interconnect_words interconnect = choice_interconnect(first);
    if (range->measured)
        printf("Seconds are estimates by the measured rates of profile %s%s: nine in ten steps of its calibration\n"
               "took %.3g to %.3g times as long",
               first->profile->name, interconnect.text, range->low, range->high);
    else if (first->profile)
        printf("Seconds are estimates by the rates of profile " PROFILE_MEASURED " in bf16, scaled to %s in %s%s, "
               "which was not\nmeasured: a step may take %.3g to %.3g times as long",
               first->profile->name, dtype_name(first->dtype), interconnect.text, range->low, range->high);
    else
        printf("Seconds are for a nominal card, to rank by%s", interconnect.text);
    printf("%s.\n", drawn ? "; where chunks are drawn, of the largest draw, as bytes are" : "");
    if (unsure)
        printf("~ may be as fast: estimates within %.3g times of each other are not told apart.\n", range->apart);
}

static void print_limits(const struct found *found)
{
    const struct planned_limits *limits = &found->advice.limits;
    char size[32];
    size_text(limits->device_bytes, size, sizeof size);
    printf("device    %12s  %zu %s (%s)\n", size, limits->device_bytes, size_text_unit(limits->device_bytes),
           found->limit_what);
    size_text(limits->host_bytes, size, sizeof size);
    printf("host      %12s  %zu %s (--host-memory)\n", size, limits->host_bytes,
           size_text_unit(limits->host_bytes));
}

static void print_commands(const struct plan_flags *flags, const struct found *found)
{
    const struct trial *first = &found->advice.asked.trials[0];
    char *run = command_of(flags, &found->advice, false), *train = command_of(flags, &found->advice, true),
         peak[32];
    const char *optimizer = first->optimizer ? first->optimizer->name : optimizers[0]->name;
    size_text(found->training.peak_bytes, peak, sizeof peak);
    printf("run       %s%s\n", run, first->optimizer ? "  # the gradient: without the optimizer" : "");
    if (found->training_status.code == STATUS_OK)
        printf("train     %s  # %s with %s%s\n", train, peak, optimizer,
               first->data.kind == DATA_BATCH ? "" : "; random tokens: --tokens FILE names yours");
    else if (found->training_status.code == STATUS_OOM)
        printf("train     not with %s (longbp advise --optimizer says what would): %s\n", optimizer,
               found->training_status.message);
    else
        printf("train     not possible: %s\n", found->training_status.message);
    free(train);
    free(run);
}

// --- remedies: changes to a request for which nothing fits, each planned

#define ENOUGH "4096TiB" // host memory if none is known

struct remedies {
    const struct plan_flags *flags;
    const struct advice *advice; // of the original request, for which nothing fits
};

// Copies the request for a change; try_it releases it.
static struct plan_flags copied(const struct remedies *remedies)
{
    struct plan_flags flags = *remedies->flags;
    flags.trial.trial = json_deep_copy(flags.trial.trial);
    flags.trial.method = json_deep_copy(flags.trial.method);
    return flags;
}

static void set_key(struct plan_flags *flags, const char *key, json_t *value)
{
    json_object_set_new(flags->trial.trial, key, value);
}

static void print_remedy(const char *flags, const struct advice *advice)
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
        print_remedy(text, &advice);
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
        struct plan_flags flags = copied(remedies);
        set_key(&flags, key, json_integer((json_int_t)left));
        fits = try_it(remedies, flags, TELL_IF_FITS, "--%s %zu", key, left);
    }
}

// Tries other methods, and other values of the given options.
static void try_free(struct remedies *remedies)
{
    const struct plan_flags *asked = remedies->flags;
    struct plan_flags flags = copied(remedies);
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
        flags = copied(remedies);
        set_key(&flags, "limits", json_pack("{s:s}", "host_memory", ENOUGH));
        try_it(remedies, flags, TELL_ALWAYS, "%s", "");
    }
    if (!json_object_get(asked->trial.method, "chunk") && may_fit(remedies, false)) {
        size_t min = 128; // the smallest value tried
        while (min * 256 < first->context)
            min *= 2;
        flags = copied(remedies);
        json_object_set_new(flags.trial.method, "chunk", json_integer((json_int_t)min / 2));
        try_it(remedies, flags, TELL_ALWAYS, "--chunk %zu", min / 2);
    }
    if (!bf16) {
        flags = copied(remedies);
        set_key(&flags, "dtype", json_string("bf16"));
        try_it(remedies, flags, TELL_ALWAYS, "--dtype bf16");
    }
    if (!asked->also && (bf16 || lora)) {
        flags = copied(remedies);
        flags.also = lora && bf16 ? "kv-gradient-dtype,weights" : lora ? "weights" : "kv-gradient-dtype";
        try_it(remedies, flags, TELL_ALWAYS, "--also %s", flags.also);
    }
    if (bf16 && !lora && first->gradient_dtype != DTYPE_BF16) {
        flags = copied(remedies);
        set_key(&flags, "gradient_dtype", json_string("bf16"));
        try_it(remedies, flags, TELL_ALWAYS, "--gradient-dtype bf16");
    }
    if (!lora) {
        flags = copied(remedies);
        set_key(&flags, "lora", json_pack("{s:i}", "rank", 8));
        try_it(remedies, flags, TELL_ALWAYS, "--lora r=8");
    }
    if (!bf16 && !lora) {
        flags = copied(remedies);
        set_key(&flags, "dtype", json_string("bf16"));
        set_key(&flags, "lora", json_pack("{s:i}", "rank", 8));
        try_it(remedies, flags, TELL_ALWAYS, "--dtype bf16 --lora r=8");
    }
    if (trial_ranks(first) == 1) {
        flags = copied(remedies);
        set_key(&flags, "parallel", json_pack("{s:i, s:i}", "sequence", 2, "zero", 3));
        try_it(remedies, flags, TELL_ALWAYS, "--parallel sequence=2,zero=3");
    }
    if (!file && may_fit(remedies, true)) {
        try_fewer(remedies, "batch", first->batch);
        try_fewer(remedies, "context", first->context);
    }
}

// Prints a line for each remedy: flags that the command line does not have, and the fastest candidate that fits or
// the one with the least missing memory. Numbers of sequences or tokens are halved until they fit. Impossible
// remedies are left out.
static void print_remedies(const struct plan_flags *flags, const struct advice *advice)
{
    struct remedies remedies = {flags, advice};
    printf("Other requests, each planned by itself:\n");
    fflush(stdout);
    try_all(&remedies);
}

// --- the advice

static void print_table(const struct plan_flags *flags, const struct found *found)
{
    const struct advice *advice = &found->advice;
    const struct trial *first = &advice->asked.trials[0];
    json_t *setting = json_loads(first->canonical, 0, NULL);
    char text[1024];
    setting_describe(setting, (double)first->context, text, sizeof text);
    printf("%s\n", text);
    print_lora(setting);
    json_decref(setting);
    print_limits(found);
    if (flags->theirs)
        against_print(flags, advice->limits.device_bytes);
    printf("\n%12s  %11s %12s  of %zu candidates, %zu planned\n", "seconds", "device", "host",
           advice->space.candidates, advice->planner.plans);
    bool drawn = false, unsure = false;
    for (size_t i = 0; i < found->pareto_count; i++) {
        print_step(advice, &found->pareto_front[i]);
        drawn |= draws(advice, &found->pareto_front[i]);
        unsure |= may_be_as_fast(advice, &found->pareto_front[i]);
    }
    method_trials_print_left_out(&advice->asked, 0, stdout);
    if (!advice->fastest.step.fits) {
        printf("\nNothing fits. What comes nearest is limited by %s.\n", limit_words(found).text);
        print_remedies(flags, advice);
        return;
    }
    printf("\nfastest   %s%s\nlimit     %s\n", advice_describe(advice, &advice->fastest).text,
           unsure ? ", by its estimate" : "", limit_words(found).text);
    print_commands(flags, found);
    print_range(advice, drawn, unsure);
}

// The Pareto front from the fastest on; where nothing fits, what comes nearest.
static bool record_all(struct search_records *records, const struct found *found, struct status *status)
{
    const struct advice *advice = &found->advice;
    bool fits = advice->fastest.step.fits, fine = true;
    const struct candidate *candidates = fits ? found->pareto_front : &advice->fastest;
    const struct advice_words limit = limit_words(found);
    for (size_t i = 0; fine && i < (fits ? found->pareto_count : 1); i++) {
        struct choice choice = advice_choice(advice, &candidates[i]);
        const struct record_search search = {.sought = "time",
                                             .among = method_auto.name,
                                             .beyond = i ? NULL : limit.text,
                                             .granularity = NAN,
                                             .memory_bound = -1,
                                             .forward_flops = NAN};
        fine = search_records_add(records, "advise", &choice, advice->first, advice->limits, &search, status);
        advice_choice_end(&choice);
    }
    return fine;
}

int command_advise(int argc, char **argv)
{
    struct plan_flags flags;
    plan_flags_open(&flags, NEEDS_CONTEXT | NEEDS_MEMORY, without, own_flags, "none: nothing is kept there");
    flags.methods = "all";
    flags.compares = true;
    const struct argp argp = {
        .options = flags.trial.options,
        .parser = parse,
        .doc = "Finds the method and options with the fastest step that fits the memory, and the time that less "
               "memory would cost: bytes are exact, seconds are estimates. Given options are fixed.\vThe "
               "candidates are every exact method with every choice of keep, inner, attention and offload, 1, 2, "
               "3, 4, 6, 8, 12 and so on segments, up to the layers, head_chunk 256 or 2048, and chunks of 128 and "
               "its doubles from a 256th of the context on, up to the context; weights, gradients and optimizer "
               "state are offloaded with --host-memory alone; and with --also other values of keys "
               "that change the gradient. Values in between are not tried. Every candidate, except with --also, "
               "computes the gradient of full backprop, with sums in another order; --methods may name other "
               "methods, which --exact leaves out. The table is the Pareto front of the candidates: none has both "
               "less time and less memory than a row by more than 2 and 5 %. Rows with ~ may be as fast as the "
               "choice, because the estimates are too close. If chunks are drawn, seconds and bytes are those of "
               "the largest draw; a share of chunks is recomputed for each chunk size. If nothing fits, changed "
               "requests are planned one by one. Exit code 1: nothing fits."};
    struct status status = {0};
    struct found found = {0};
    struct advice *advice = &found.advice;
    arguments_parse(&argp, own_flags, argc, argv, &flags);
    struct search_records records;
    bool done = search_records_open(&records, &flags, argc, argv, &status) && find(&flags, &found, &status);
    if (done && !flags.json)
        print_table(&flags, &found);
    else if (done)
        method_trials_print_left_out(&advice->asked, 0, stderr);
    done = done && record_all(&records, &found, &status) &&
           (!flags.theirs || against_record(&flags, &records, &status));
    if (!done)
        fprintf(stderr, "%s: %s\n", argv[0], status.message);
    search_records_close(&records);
    bool fits = advice->fastest.step.fits;
    free(found.pareto_front);
    advice_close(advice);
    plan_flags_close(&flags);
    return !done ? EXIT_BAD_INPUT : fits ? EXIT_FINE : EXIT_CHECK_FAILED;
}
