// Command: `longbp advise`, the fastest method and options that fit, and what less memory would cost in time.
#include "harness/command/choice_words.h"
#include "harness/command/command.h"
#include "harness/command/plan_flags.h"
#include "harness/command/shell.h"
#include "harness/files/size.h"
#include "harness/results/setting.h"
#include "harness/run/planner.h"
#include "harness/run/provenance.h"
#include "harness/run/ranks_possible.h"
#include <string.h>

// What means nothing here, or has a flag of the command's own.
static const char *const without[] = {"train",  "device", "seed",         "labels",        "reference",
                                      "method", "tf32",   "memory_limit", "deterministic", NULL};
// What the command that runs the choice does not take, or takes as chosen.
static const char *const not_to_run[] = {"profile",           "links",           "optimizer",
                                         "kv_gradient_dtype", "weights",         "place_weights",
                                         "place_gradients",   "place_optimizer", NULL};

static const struct flag own_flags[] = {
    {.name = "methods",
     .flags = OPTION_FIRST,
     TEXT_AT(struct plan_flags, methods),
     .arg = "all|METHOD,METHOD",
     .doc = "among which methods; all: the exact ones, and with an option of theirs those that draw columns (all)"},
    {.name = "exact",
     SET_AT(struct plan_flags, exact),
     .doc = "of the methods that are named those whose gradient is exact alone"},
    PLAN_FLAG_ALSO,
    PLAN_FLAG_LIKE,
    PLAN_FLAG_MEMORY_LIMIT,
    PLAN_FLAG_DEVICE_MEMORY,
    PLAN_FLAG_RESERVE,
    PLAN_FLAG_JSON(""),
    {0}};

// What was asked, and what was found.
struct advice {
    struct method_trials asked;
    json_t *first; // canonical, of what was asked for
    struct space space;
    struct planner planner;
    struct planned_limits limits;
    char limit_what[128];
    struct candidate fastest, unlimited, *front;
    size_t front_count;
};

static error_t parse(int key, char *text, struct argp_state *state)
{
    return plan_flags_parse(state->input, key, text, state);
}

static bool find(struct plan_flags *flags, struct advice *advice, struct status *status)
{
    struct method_trials *asked = &advice->asked;
    const json_t *limits = json_object_get(flags->trial.trial, "limits");
    const struct method_request request = {.names = flags->methods,
                                           .exact = flags->exact,
                                           .variants = true,
                                           .also = flags->also,
                                           .host = json_object_get(limits, "host_memory")};
    if (!method_trials_decode(asked, &flags->trial, &request, status))
        return false;
    const struct trial *first = &asked->trials[0];
    if (!ranks_possible(first, status))
        return false;
    advice->first = json_loads(first->canonical, 0, NULL);
    advice->limits.host_bytes = first->host_memory_limit_bytes;
    if (!plan_flags_limit(flags, first, &advice->limits.device_bytes, advice->limit_what, sizeof advice->limit_what,
                          status))
        return false;
    space_open(&advice->space, asked->trials, asked->count, flags->trial.method);
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

// A candidate as a choice, with its options; to be freed by end_choice.
static struct choice choice_of(const struct advice *advice, const struct candidate *candidate)
{
    return (struct choice){.trial = trial_of(advice, candidate),
                           .options = family_options(&advice->space.families[candidate->family], candidate->rung),
                           .step = &candidate->step};
}

static void end_choice(struct choice *choice)
{
    options_free(&choice->trial->method->options, (void *)choice->options);
}

struct line {
    char text[400];
};

static struct line describe(const struct advice *advice, const struct candidate *candidate)
{
    struct line line = {""};
    struct choice choice = choice_of(advice, candidate);
    choice_describe(&choice, advice->first, line.text, sizeof line.text);
    end_choice(&choice);
    return line;
}

// One step of it, on the device that was planned for.
static char *command_of(const struct plan_flags *flags, const struct advice *advice)
{
    char *command = NULL;
    struct choice choice = choice_of(advice, &advice->fastest);
    shell_append(&command, "longbp");
    shell_append(&command, "grad");
    trial_flags_append(&flags->trial, not_to_run, &command);
    shell_append(&command, "--device");
    shell_append(&command, strcmp(choice.trial->device, "plan-cuda") == 0 ? "cuda" : "cpu");
    choice_append_flags(&choice, &command);
    shell_append(&command, "--out");
    shell_append(&command, "gradients.safetensors");
    end_choice(&choice);
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
    if (!device && step->host_peak_bytes <= limits->host_bytes) {
        snprintf(text, bytes, "%.900s", step->why.message);
        return;
    }
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

static bool draws(const struct advice *advice, const struct candidate *candidate)
{
    struct choice choice = choice_of(advice, candidate);
    bool drawn = choice_draws(&choice);
    end_choice(&choice);
    return drawn;
}

// What was not asked for, and may make room.
static void print_ways_out(const struct plan_flags *flags, const struct advice *advice)
{
    const struct {
        const char *flag;
        bool asked;
    } ways[] = {{"--host-memory", advice->limits.host_bytes > 0},
                {"--also", flags->also},
                {"--parallel", trial_ranks(&advice->asked.trials[0]) > 1}};
    const char *before = "Not asked for, and may make room: ";
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (!ways[i].asked) {
            printf("%s%s", before, ways[i].flag);
            before = ", ";
        }
    }
    printf("%s", strcmp(before, ", ") == 0 ? " (longbp advise --help).\n" : "");
}

static void print_table(const struct plan_flags *flags, const struct advice *advice)
{
    const struct trial *first = &advice->asked.trials[0];
    json_t *setting = json_loads(first->canonical, 0, NULL);
    char text[1024], size[32];
    setting_describe(setting, (double)first->context, text, sizeof text);
    json_decref(setting);
    size_text(advice->limits.device_bytes, size, sizeof size);
    printf("%s\ndevice    %12s  %zu %s (%s)\n", text, size, advice->limits.device_bytes,
           size_text_unit(advice->limits.device_bytes), advice->limit_what);
    size_text(advice->limits.host_bytes, size, sizeof size);
    printf("host      %12s  %zu %s (--host-memory)\n", size, advice->limits.host_bytes,
           size_text_unit(advice->limits.host_bytes));
    printf("\n%12s %12s %12s  of %zu candidates, %zu planned\n", "seconds", "device", "host",
           advice->space.candidates, advice->planner.plans);
    bool drawn = false;
    for (size_t i = 0; i < advice->front_count; i++) {
        print_step(advice, &advice->front[i]);
        drawn |= draws(advice, &advice->front[i]);
    }
    limit_text(advice, text, sizeof text);
    method_trials_print_left_out(&advice->asked, 0);
    if (!advice->fastest.step.fits) {
        printf("\nNothing fits. What comes nearest is limited by %s.\n", text);
        print_ways_out(flags, advice);
        return;
    }
    char *command = command_of(flags, advice);
    printf("\nfastest   %s\nlimit     %s\nrun       %s%s\n", describe(advice, &advice->fastest).text, text, command,
           first->optimizer ? "  # the gradient: without the optimizer" : "");
    printf("Seconds are estimates%s%s%s%s.\n", first->profile ? " by profile " : " for a nominal card, to rank by",
           first->profile ? first->profile->name : "", choice_links(first).text,
           drawn ? "; where columns are drawn, of the largest draw, as bytes are" : "");
    free(command);
}

static json_t *candidate_json(const struct advice *advice, const struct candidate *candidate)
{
    struct choice choice = choice_of(advice, candidate);
    json_t *object = choice_json(&choice, advice->first);
    end_choice(&choice);
    return object;
}

static void print_json(const struct plan_flags *flags, const struct advice *advice)
{
    json_t *front = json_array(), *setting = json_loads(advice->asked.trials[0].canonical, 0, NULL);
    static const char *const varying[] = {"method", "measure", "limits", "data", "labels", "reference", "seed"};
    for (size_t i = 0; i < sizeof varying / sizeof *varying; i++)
        json_object_del(setting, varying[i]);
    for (size_t i = 0; i < advice->front_count; i++)
        json_array_append_new(front, candidate_json(advice, &advice->front[i]));
    char limit[1024], *command = command_of(flags, advice);
    limit_text(advice, limit, sizeof limit);
    struct provenance provenance;
    provenance_take(&provenance);
    bool fits = advice->fastest.step.fits;
    json_int_t host = (json_int_t)advice->limits.host_bytes;
    json_t *object = json_pack(
        "{s:o, s:I, s:s, s:o, s:b, s:o, s:o, s:o, s:O, s:s, s:o, s:I, s:I, s:s, s:o}", "setting", setting,
        "limit_bytes", (json_int_t)advice->limits.device_bytes, "limit", advice->limit_what, "host_limit_bytes",
        host ? json_integer(host) : json_null(), "fits", (int)fits, "choice",
        fits ? candidate_json(advice, &advice->fastest) : json_null(), "nearest",
        fits ? json_null() : candidate_json(advice, &advice->fastest), "front", front, "left_out",
        advice->asked.left_out, "limited_by", limit, "command", fits ? json_string(command) : json_null(),
        "candidates", (json_int_t)advice->space.candidates, "plans", (json_int_t)advice->planner.plans, "revision",
        provenance.revision, "dirty", provenance.dirty < 0 ? json_null() : json_boolean(provenance.dirty));
    command_print(object, JSON_INDENT(2));
    free(command);
}

int command_advise(int argc, char **argv)
{
    struct plan_flags flags;
    plan_flags_open(&flags, NEEDS_CONTEXT | NEEDS_MEMORY, without, own_flags, "none: nothing is kept there");
    flags.methods = "all";
    const struct argp argp = {
        .options = flags.trial.options,
        .parser = parse,
        .doc = "Says which method, with which options, takes the least time for a step that fits the memory, "
               "and what less memory would cost in time: bytes are exact, seconds are estimates. Options that "
               "are given stay as they are.\vThe candidates are every exact method with every choice of keep, "
               "inner, attention and offload, 1, 2, 3, 4, 6, 8, 12 and so on stages, up to the layers, "
               "head_chunk 256 or 2048, and chunks of 128 and its doubles from a 256th of the context on, up to "
               "the context; with --host-memory weights, gradients and optimizer state on the device or on the "
               "host; and with --also other values of keys that change the gradient. No value between them is "
               "tried. The gradient of every candidate but those of --also is that of full backprop, but for the "
               "order of its sums; --methods may name others, which --exact leaves out. The table is the front of "
               "these: none of them has both less time and less memory than a row of it by more than 2 and 5 %. "
               "Where columns are drawn, seconds and bytes are of the draw that takes most; a share of the columns "
               "is of each chunk's own. "
               "Exit code 1: nothing fits."};
    struct status status = {0};
    struct advice advice = {0};
    arguments_parse(&argp, own_flags, argc, argv, &flags);
    bool done = find(&flags, &advice, &status);
    if (!done)
        fprintf(stderr, "%s: %s\n", argv[0], status.message);
    else
        (flags.json ? print_json : print_table)(&flags, &advice);
    bool fits = advice.fastest.step.fits;
    free(advice.front);
    planner_close(&advice.planner);
    space_close(&advice.space);
    json_decref(advice.first);
    method_trials_free(&advice.asked);
    plan_flags_close(&flags);
    return !done ? EXIT_BAD_INPUT : fits ? EXIT_FINE : EXIT_CHECK_FAILED;
}
