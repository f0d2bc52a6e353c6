// Command: `longbp advise`, the fastest method and options that fit, and what less memory would cost in time.
#define _GNU_SOURCE // asprintf
#include "harness/command/command.h"
#include "harness/command/method_flags.h"
#include "harness/command/plan_flags.h"
#include "harness/command/shell.h"
#include "harness/files/size.h"
#include "harness/results/setting.h"
#include "harness/run/planner.h"
#include "harness/run/provenance.h"
#include "harness/spec/method_decode.h"
#include "harness/spec/trial_keys.h"
#include <math.h>
#include <string.h>

enum flag { FLAG_METHODS = 0x100, FLAG_EXACT, FLAG_JSON };

// What means nothing here, or has a flag of the command's own.
static const char *const without[] = {"train", "device",       "seed",          "labels",   "reference", "method",
                                      "tf32",  "memory_limit", "deterministic", "parallel", NULL};
// What the command that runs the choice does not take.
static const char *const not_to_run[] = {"profile", "optimizer", "kv_gradient_dtype", NULL};

static const struct argp_option own_flags[] = {
    {.name = "methods", .key = FLAG_METHODS, .arg = "all|NAME,NAME", .doc = "among which methods (all exact ones)"},
    {.name = "exact", .key = FLAG_EXACT, .doc = "only among methods whose gradient is exact, whatever is named"},
    PLAN_FLAG_LIKE,
    PLAN_FLAG_MEMORY_LIMIT,
    {.name = "device-memory", .flags = OPTION_ALIAS},
    {.name = "json", .key = FLAG_JSON, .doc = "print JSON"},
    {0}};

struct arguments {
    struct trial_flags flags;
    struct plan_flags plan;
    const char *methods;
    bool exact, json;
};

// What was asked, and what was found.
struct advice {
    struct method_trials asked;
    struct space space;
    struct planner planner;
    struct planned_limits limits;
    char limit_what[128];
    struct candidate fastest, unlimited, *front;
    size_t front_count;
};

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case FLAG_METHODS:
        arguments->methods = text;
        return 0;
    case FLAG_EXACT:
        arguments->exact = true;
        return 0;
    case FLAG_JSON:
        arguments->json = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected \"%s\"", text);
        return 0;
    case ARGP_KEY_END:
        if (!json_object_get(arguments->flags.trial, "model") ||
            !json_object_get(arguments->flags.trial, "context"))
            argp_error(state, "--model and --context are needed");
        if (!arguments->plan.memory_limit && !json_object_get(arguments->flags.trial, "profile"))
            argp_error(state, "say how much memory there is: --device-memory or --profile");
        return 0;
    default:
        if (plan_flags_parse(&arguments->plan, key, text) == 0)
            return 0;
        return trial_flags_parse(&arguments->flags, key, text);
    }
}

static bool find(const struct arguments *arguments, struct advice *advice, struct status *status)
{
    struct method_trials *asked = &advice->asked;
    if (!plan_flags_device(&arguments->plan, arguments->flags.trial, status) ||
        !method_trials_decode(asked, &arguments->flags, arguments->methods, arguments->exact, true, status))
        return false;
    const struct trial *first = &asked->trials[0];
    advice->limits.host_bytes = first->host_memory_limit_bytes;
    if (!plan_flags_limit(&arguments->plan, first, &advice->limits.device_bytes, advice->limit_what,
                          sizeof advice->limit_what, status))
        return false;
    space_open(&advice->space, asked->trials, asked->count, arguments->flags.method);
    struct planner *planner = &advice->planner;
    return planner_open(planner, &advice->space, advice->limits, status) &&
           planner_fastest(planner, &advice->fastest, status) &&
           planner_unlimited(planner, &advice->unlimited, status) &&
           planner_front(planner, &advice->fastest, &advice->front, &advice->front_count, status);
}

static const struct trial *trial_of(const struct advice *advice, const struct candidate *candidate)
{
    return advice->space.families[candidate->family].trial;
}

static json_t *method_of(const struct advice *advice, const struct candidate *candidate)
{
    const struct trial *trial = trial_of(advice, candidate);
    void *options = family_options(&advice->space.families[candidate->family], candidate->rung);
    json_t *method = method_json(trial->method, options);
    options_free(&trial->method->options, options);
    return method;
}

// Calls `word` with each option that differs from its default or tells most, and with each key that was tried.
static void each_word(const struct advice *advice, const struct candidate *candidate, bool command,
                      void (*word)(void *, const char *name, const char *value), void *visitor)
{
    const struct trial *trial = trial_of(advice, candidate);
    json_t *method = method_of(advice, candidate), *defaults = method_json(trial->method, NULL), *value;
    const char *key;
    json_object_foreach(method, key, value)
    {
        const struct option *option = option_find(&trial->method->options, key);
        if (!option || (json_equal(value, json_object_get(defaults, key)) && !(option->telling && !command)))
            continue;
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        word(visitor, key, json_is_string(value) ? json_string_value(value) : text);
        free(text);
    }
    json_t *canonical = json_loads(trial->canonical, 0, NULL),
           *first = json_loads(advice->asked.trials[0].canonical, 0, NULL);
    for (size_t i = 0; i < trial_key_count(); i++) {
        const char *name = trial_keys[i].name;
        value = json_object_get(canonical, name);
        if (trial_keys[i].tried && (command || !json_equal(value, json_object_get(first, name))))
            word(visitor, name, json_string_value(value));
    }
    json_decref(first);
    json_decref(canonical);
    json_decref(defaults);
    json_decref(method);
}

struct line {
    char text[400];
};

static void add_word(void *visitor, const char *name, const char *value)
{
    struct line *line = visitor;
    size_t used = strlen(line->text);
    snprintf(line->text + used, sizeof line->text - used, " %s=%s", name, value);
}

static struct line describe(const struct advice *advice, const struct candidate *candidate)
{
    struct line line = {""};
    snprintf(line.text, sizeof line.text, "%s", trial_of(advice, candidate)->method->name);
    each_word(advice, candidate, false, add_word, &line);
    return line;
}

static void add_flag(void *visitor, const char *name, const char *value)
{
    char *flag;
    CHECK(asprintf(&flag, "--%s", name) > 0);
    for (char *c = flag; *c; c++)
        *c = *c == '_' ? '-' : *c;
    shell_append(visitor, flag);
    shell_append(visitor, value);
    free(flag);
}

// One step of it, on the device that was planned for.
static char *command_of(const struct arguments *arguments, const struct advice *advice)
{
    char *command = NULL;
    const struct trial *trial = trial_of(advice, &advice->fastest);
    shell_append(&command, "longbp");
    shell_append(&command, "grad");
    trial_flags_append(&arguments->flags, not_to_run, &command);
    add_flag(&command, "device", strcmp(trial->device, "plan-cuda") == 0 ? "cuda" : "cpu");
    add_flag(&command, "method", trial->method->name);
    each_word(advice, &advice->fastest, true, add_flag, &command);
    add_flag(&command, "out", "gradients.safetensors");
    return command;
}

// What keeps the choice from being faster: nothing, or what the fastest of all would need.
static void limit_text(const struct advice *advice, char *text, size_t bytes)
{
    const struct planned_step *free_of_limits = &advice->unlimited.step;
    const struct planned_limits *limits = &advice->limits;
    bool device = free_of_limits->peak_bytes > limits->device_bytes,
         host = free_of_limits->host_peak_bytes > limits->host_bytes;
    if (advice->fastest.step.fits && !device && !host) {
        snprintf(text, bytes, "nothing: with any memory it would be the fastest");
        return;
    }
    const struct candidate *wanted = advice->fastest.step.fits ? &advice->unlimited : &advice->fastest;
    const struct planned_step *step = &wanted->step;
    device = step->peak_bytes > limits->device_bytes;
    size_t missing = device ? step->peak_bytes - limits->device_bytes : step->host_peak_bytes - limits->host_bytes;
    char size[32];
    size_text(missing, size, sizeof size);
    snprintf(text, bytes, "%s memory: %s, which would take %.4g s, needs %s more",
             device ? "the device's" : "the host's", describe(advice, wanted).text, step->seconds, size);
}

static void print_step(const struct advice *advice, const struct candidate *candidate)
{
    const struct planned_step *step = &candidate->step;
    char peak[32], host[32] = "-";
    size_text(step->peak_bytes, peak, sizeof peak);
    if (step->host_peak_bytes)
        size_text(step->host_peak_bytes, host, sizeof host);
    printf("%12.4g %12s %12s  %s\n", step->seconds, peak, host, describe(advice, candidate).text);
}

static void print_table(const struct arguments *arguments, const struct advice *advice)
{
    const struct trial *first = &advice->asked.trials[0];
    json_t *setting = json_loads(first->canonical, 0, NULL);
    char text[1024], size[32];
    setting_describe(setting, (double)first->context, text, sizeof text);
    json_decref(setting);
    size_text(advice->limits.device_bytes, size, sizeof size);
    printf("%s\ndevice    %12s  %zu bytes (%s)\n", text, size, advice->limits.device_bytes, advice->limit_what);
    size_text(advice->limits.host_bytes, size, sizeof size);
    printf("host      %12s  %zu bytes (--host-memory)\n", size, advice->limits.host_bytes);
    printf("\n%12s %12s %12s  of %zu candidates, %zu planned\n", "seconds", "device", "host",
           advice->space.candidates, advice->planner.plans);
    for (size_t i = 0; i < advice->front_count; i++)
        print_step(advice, &advice->front[i]);
    limit_text(advice, text, sizeof text);
    if (!advice->fastest.step.fits) {
        printf("\nNothing fits. What comes nearest is limited by %s.\n", text);
        return;
    }
    char *command = command_of(arguments, advice);
    printf("\nfastest   %s\nlimit     %s\nrun       %s\n", describe(advice, &advice->fastest).text, text, command);
    printf("Seconds are estimates%s%s.\n", first->profile ? " by profile " : " for a nominal card, to rank by",
           first->profile ? first->profile->name : "");
    free(command);
}

static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *candidate_json(const struct advice *advice, const struct candidate *candidate)
{
    const struct planned_step *step = &candidate->step;
    const struct trial *trial = trial_of(advice, candidate);
    json_t *object =
        json_pack("{s:o, s:o, s:I, s:I, s:f, s:f, s:s}", "method", method_of(advice, candidate), "estimate_ms",
                  number_or_null(1e3 * step->seconds), "peak_bytes", (json_int_t)step->peak_bytes,
                  "host_peak_bytes", (json_int_t)step->host_peak_bytes, "flops", step->flops,
                  "floor_bytes_per_token", step->floor_bytes_per_token, "label", describe(advice, candidate).text);
    json_t *canonical = json_loads(trial->canonical, 0, NULL);
    for (size_t i = 0; i < trial_key_count(); i++)
        if (trial_keys[i].tried)
            json_object_set(object, trial_keys[i].name, json_object_get(canonical, trial_keys[i].name));
    json_decref(canonical);
    CHECK(object);
    return object;
}

static void print_json(const struct arguments *arguments, const struct advice *advice)
{
    json_t *front = json_array(), *setting = json_loads(advice->asked.trials[0].canonical, 0, NULL);
    static const char *const varying[] = {"method", "measure", "limits", "data", "labels", "reference", "seed"};
    for (size_t i = 0; i < sizeof varying / sizeof *varying; i++)
        json_object_del(setting, varying[i]);
    for (size_t i = 0; i < advice->front_count; i++)
        json_array_append_new(front, candidate_json(advice, &advice->front[i]));
    char limit[1024], *command = command_of(arguments, advice);
    limit_text(advice, limit, sizeof limit);
    struct provenance provenance;
    provenance_take(&provenance);
    bool fits = advice->fastest.step.fits;
    json_int_t host = (json_int_t)advice->limits.host_bytes;
    json_t *object = json_pack(
        "{s:o, s:I, s:s, s:o, s:b, s:o, s:o, s:o, s:s, s:o, s:I, s:I, s:s, s:o}", "setting", setting, "limit_bytes",
        (json_int_t)advice->limits.device_bytes, "limit", advice->limit_what, "host_limit_bytes",
        host ? json_integer(host) : json_null(), "fits", (int)fits, "choice",
        fits ? candidate_json(advice, &advice->fastest) : json_null(), "nearest",
        fits ? json_null() : candidate_json(advice, &advice->fastest), "front", front, "limited_by", limit,
        "command", fits ? json_string(command) : json_null(), "candidates", (json_int_t)advice->space.candidates,
        "plans", (json_int_t)advice->planner.plans, "revision", provenance.revision, "dirty",
        provenance.dirty < 0 ? json_null() : json_boolean(provenance.dirty));
    CHECK(object && json_dumpf(object, stdout, JSON_INDENT(2)) == 0);
    putchar('\n');
    json_decref(object);
    free(command);
}

int command_advise(int argc, char **argv)
{
    struct arguments arguments = {.methods = "all"};
    trial_flags_open(&arguments.flags, without, own_flags);
    const struct argp argp = {
        .options = arguments.flags.options,
        .parser = parse,
        .doc = "Says which method, with which options, takes the least time for a step that fits the memory, "
               "and what less memory would cost in time: bytes are exact, seconds are estimates. Options that "
               "are given stay as they are.\vThe candidates are every exact method with every choice of keep, "
               "inner and offload, 1, 2, 3, 4, 6, 8, 12 and so on stages, up to the layers, head_chunk 256 or "
               "2048, and chunks of 128 and its doubles from a 256th of the context on, up to the context; of "
               "a model in bf16 with the sums of dKV in f32 or bf16. No value between them is tried. The table"
               " is the front of these: none of them has both less time and less memory than a row of it by "
               "more than 2 and 5 %. Without --host-"
               "memory nothing is kept on the host. Exit code 1: nothing fits."};
    struct status status = {0};
    struct advice advice = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    bool done = find(&arguments, &advice, &status);
    if (!done)
        fprintf(stderr, "%s: %s\n", argv[0], status.message);
    else
        (arguments.json ? print_json : print_table)(&arguments, &advice);
    bool fits = advice.fastest.step.fits;
    free(advice.front);
    planner_close(&advice.planner);
    space_close(&advice.space);
    method_trials_free(&advice.asked);
    trial_flags_close(&arguments.flags);
    return !done ? EXIT_BAD_INPUT : fits ? EXIT_FINE : EXIT_CHECK_FAILED;
}
