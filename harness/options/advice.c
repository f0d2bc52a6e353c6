#include "harness/options/advice.h"
#include "harness/step/ranks_possible.h"
#include "harness/text/size.h"

bool advice_open(struct advice *advice, const struct plan_flags *flags, struct status *status)
{
    struct method_trials *asked = &advice->asked;
    const json_t *given = json_object_get(flags->trial.trial, "limits");
    const struct method_request request = {.names = flags->methods,
                                           .exact = flags->exact,
                                           .variants = true,
                                           .also = flags->also,
                                           .host = json_object_get(given, "host_memory")};
    if (!method_trials_decode(asked, &flags->trial, &request, status))
        return false;
    const struct trial *first = &asked->trials[0];
    advice->first = json_loads(first->canonical, 0, NULL);
    advice->range = estimate_range_of(first);
    space_open(&advice->space, asked->trials, asked->count, flags->trial.method);
    return ranks_possible(first, status);
}

bool advice_find(struct advice *advice, size_t device_bytes, struct status *status)
{
    advice->limits = (struct planned_limits){device_bytes, advice->asked.trials[0].host_memory_limit_bytes};
    return planner_open(&advice->planner, &advice->space, advice->limits, status) &&
           planner_fastest(&advice->planner, &advice->fastest, status);
}

void advice_close(struct advice *advice)
{
    planner_close(&advice->planner);
    space_close(&advice->space);
    json_decref(advice->first);
    method_trials_free(&advice->asked);
}

struct choice advice_choice(const struct advice *advice, const struct candidate *candidate)
{
    return (struct choice){.trial = advice->space.families[candidate->family].trial,
                           .options = family_options(&advice->space.families[candidate->family], candidate->index),
                           .step = &candidate->step};
}

void advice_choice_end(struct choice *choice)
{
    options_free(&choice->trial->method->options, (void *)choice->options);
}

struct advice_words advice_describe(const struct advice *advice, const struct candidate *candidate)
{
    struct advice_words words = {""};
    struct choice choice = advice_choice(advice, candidate);
    choice_describe(&choice, advice->first, words.text, sizeof words.text);
    advice_choice_end(&choice);
    return words;
}

bool advice_tells_apart(const struct advice *advice, const struct candidate *a, const struct candidate *b)
{
    return estimates_tell_apart(advice->range, a->step.seconds, b->step.seconds);
}

struct advice_words advice_missing(const struct advice *advice, const struct candidate *candidate)
{
    const struct planned_limits *limits = &advice->limits;
    const struct planned_step *step = &candidate->step;
    struct advice_words words;
    bool device = step->peak_bytes > limits->device_bytes;
    if (!device && step->host_peak_bytes <= limits->host_bytes) {
        snprintf(words.text, sizeof words.text, "%.900s", step->why.message);
        return words;
    }
    size_t missing = device ? step->peak_bytes - limits->device_bytes : step->host_peak_bytes - limits->host_bytes;
    char size[32];
    size_text(missing, size, sizeof size);
    bool unsure = advice->fastest.step.fits && !advice_tells_apart(advice, candidate, &advice->fastest);
    snprintf(words.text, sizeof words.text, "%s memory: %.800s, which %s %.4g s, needs %s more",
             device ? "the device's" : "the host's", advice_describe(advice, candidate).text,
             unsure ? "may be no faster by its" : "would take", step->seconds, size);
    return words;
}
