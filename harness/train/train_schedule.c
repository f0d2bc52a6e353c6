#include "harness/train/train_schedule.h"
#include <math.h>

// From 0 to 1.
static double rise(enum ramp ramp, double along)
{
    if (ramp == RAMP_COSINE)
        return 0.5 * (1 - cos(M_PI * along));
    return ramp == RAMP_LINEAR ? along : 1 - sqrt(1 - along);
}

// From 1 to 0.
static double fall(enum ramp ramp, double along, double cycles)
{
    if (ramp == RAMP_COSINE)
        return 0.5 * (1 + cos(M_PI * cycles * 2 * along));
    return ramp == RAMP_LINEAR ? 1 - along : 1 - sqrt(along);
}

static double above(double floor, double factor)
{
    volatile double share = factor * (1 - floor); // rounded before the addition: an fma would give other bits
    return share + floor;
}

static double wsd_factor(const struct training *t, size_t done)
{
    size_t stable = t->stable_steps ? t->stable_steps : t->steps - t->warmup - t->decay_steps;
    if (done < t->warmup)
        return above(t->min_lr_ratio, rise(t->warmup_type, (double)done / (double)t->warmup));
    size_t decayed = done - t->warmup;
    if (decayed < stable)
        return 1;
    decayed -= stable;
    if (decayed >= t->decay_steps)
        return t->min_lr_ratio;
    return above(t->min_lr_ratio, fall(t->decay_type, (double)decayed / (double)t->decay_steps, t->cycles));
}

double train_schedule_factor(const struct training *t, size_t done)
{
    if (t->schedule == SCHEDULE_WSD)
        return wsd_factor(t, done);
    if (done < t->warmup)
        return (double)(done + 1) / (double)t->warmup;
    if (t->schedule == SCHEDULE_CONSTANT)
        return 1;
    enum ramp ramp = t->schedule == SCHEDULE_COSINE ? RAMP_COSINE : RAMP_LINEAR;
    return above(t->min_lr_ratio, fall(ramp, (double)(done - t->warmup) / (double)(t->steps - t->warmup), 0.5));
}

bool train_schedule_evaluates(const struct training *t, size_t done)
{
    return done == 0 || done == t->steps || (t->evaluate_every && done % t->evaluate_every == 0);
}
