#include "harness/trial/routing.h"
#include <math.h>
#include <string.h>

// A step's gradient and choices.
struct routed_step {
    struct gradient_set gradients;
    struct kept_choices choices;
};

static void routed_step_free(struct routed_step *step)
{
    gradient_set_free(&step->gradients);
    kept_choices_free(&step->choices);
}

// The error against the reference; NaN: there is none.
static double error_of(const struct run *run, const struct routed_step *step)
{
    return run->record.gradient.given ? gradient_relative_l2(&step->gradients, &run->reference.gradients) : NAN;
}

static bool take(struct run *run, struct routed_step *step, struct choices_probe probe)
{
    probe.taken = &step->choices;
    if (!run_for_gradients(run, &probe))
        return false;
    gradient_set_take(&step->gradients, &run->setup.model);
    return true;
}

static bool compare_reference(struct run *run, const struct routed_step *first, struct record_routing *routing)
{
    struct routed_step own = {0};
    if (!run->record.gradient.given || run->trial->group > 1)
        return true;
    bool done = reference_route(&own.gradients, &own.choices, run->trial, &run->status);
    if (done) {
        routing->reference_flips = kept_choices_compare(&first->choices, &own.choices).all;
        routing->reference_relative_l2 = gradient_relative_l2(&first->gradients, &own.gradients);
    }
    routed_step_free(&own);
    return done;
}

bool routing_measure(struct run *run)
{
    struct routed_step first = {0}, kept = {0}, anew = {0};
    struct record_routing routing = {.given = true, .reference_flips = NAN, .reference_relative_l2 = NAN};
    // Given what the first step chose, devices whose bits differ from run to run start alike.
    struct choices_probe probe = {.given = &first.choices,
                                  .reverse_sums = run->trial->measure.routing == ROUTING_REVERSED};
    bool done = take(run, &first, (struct choices_probe){0}) && take(run, &kept, probe);
    probe.anew = true;
    done = done && take(run, &anew, probe) && compare_reference(run, &first, &routing);
    if (done) {
        struct choice_shares flips = kept_choices_compare(&first.choices, &anew.choices);
        routing.flips = flips.all;
        routing.flips_max = flips.largest;
        routing.relative_l2 = error_of(run, &anew);
        routing.kept_relative_l2 = error_of(run, &kept);
        struct record_routing *part = malloc(sizeof *part);
        CHECK(part);
        *part = routing;
        run->record.routing = part;
    }
    routed_step_free(&anew);
    routed_step_free(&kept);
    routed_step_free(&first);
    return done;
}
