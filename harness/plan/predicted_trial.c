#include "harness/plan/predicted_trial.h"
#include "harness/plan/choice.h"
#include "harness/plan/planned_step.h"
#include "harness/step/ranks_possible.h"
#include "harness/text/size.h"
#include <math.h>

// With method auto, its choice for the memory that is free now; the options then belong to the trial.
static bool choose(struct trial *chosen, const struct trial *trial, struct status *why)
{
    struct world alone;
    *chosen = *trial; // borrowed, except the options
    chosen->options = options_copy(&trial->method->options, trial->options);
    world_open_alone(&alone);
    return choose_within(chosen, &alone, why);
}

struct predicted_trial trial_predict(const struct trial *trial)
{
    struct predicted_trial predicted = {PREDICTED_UNKNOWN, NAN, NAN, ""};
    struct planned_limits limits = {trial->memory_limit_bytes ? trial->memory_limit_bytes : NO_LIMIT,
                                    trial->host_memory_limit_bytes ? trial->host_memory_limit_bytes : NO_LIMIT};
    struct planned_step step = {0};
    struct planned_memos memos;
    struct status why = {0};
    struct trial chosen;
    planned_memos_open(&memos);
    if (!trial->unsupported && ranks_possible(trial, &why)) {
        if (choose(&chosen, trial, &why) && planned_step(&step, &chosen, chosen.options, limits, &memos, &why))
            predicted.outcome = step.fits ? PREDICTED_OK : PREDICTED_OOM;
        options_free(&chosen.method->options, chosen.options);
    }
    planned_memos_close(&memos);
    if (trial->unsupported || why.code == STATUS_UNSUPPORTED) {
        predicted.outcome = PREDICTED_UNSUPPORTED;
        snprintf(predicted.reason, sizeof predicted.reason, "%s",
                 trial->unsupported ? trial->unsupported : why.message);
    } else if (why.code == STATUS_OOM)
        predicted.outcome = PREDICTED_OOM;
    if (predicted.outcome == PREDICTED_OK) {
        predicted.peak_bytes = (double)step.peak_bytes;
        bool estimated =
            trial->profile && isfinite(step.seconds) && (trial_ranks(trial) == 1 || trial_interconnect(trial));
        predicted.step_seconds = estimated ? step.seconds : NAN;
    }
    return predicted;
}

struct predicted_words predicted_words(const struct predicted_trial *predicted)
{
    static const char *const outcomes[] = {"-", "unsupported", "oom", "-"};
    struct predicted_words words = {.step = "-"};
    snprintf(words.peak, sizeof words.peak, "%s", outcomes[predicted->outcome]);
    if (isfinite(predicted->peak_bytes))
        size_text((size_t)predicted->peak_bytes, words.peak, sizeof words.peak);
    if (isfinite(predicted->step_seconds))
        snprintf(words.step, sizeof words.step, "%.3g s", predicted->step_seconds);
    return words;
}
