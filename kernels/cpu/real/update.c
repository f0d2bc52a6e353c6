// Updates of weights (kernels/base/update.h): AdamW (Loshchilov & Hutter 2019) and SGD. A group of eight weights
// shares its random bits, so that loops over one are what becomes vectors.
#include "kernels/base/update.h"
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/rows.h"

#define GROUP ((size_t)8)

// The weights that move, and where they are stored.
struct target {
    stored *w;
    struct accumulator master; // data NULL: w itself moves
};

static inline real target_get(struct target target, size_t i, bool master)
{
    return master ? accumulator_get(target.master, i) : load(target.w[i]);
}

static inline void target_set(struct target target, size_t i, real value, bool master)
{
    if (master) {
        accumulator_set(target.master, i, value);
    }
    target.w[i] = store(value);
}

// What was stored to nearest is stored as the random bits say. values: of weights [first, end), a group.
static void store_group(struct target target, size_t first, size_t end, const real *values,
                        const struct weight_rounding *rounding)
{
#if REAL_BITS == 16
    struct rounding_bits bits = rounding_bits(rounding, first / GROUP);
    for (size_t i = first; i < end; i++) {
        target.w[i] = store(stochastic_bf16(values[i - first], &bits, i - first));
    }
#else
    (void)target, (void)first, (void)end, (void)values, (void)rounding;
#endif
}

struct adam {
    struct target target;
    struct accumulator g, m, v;
    real b1, b2, unbias1, unbias2, epsilon, rate, before, after;
};

static inline real adam_next(const struct adam *a, size_t i, bool master)
{
    real grad = accumulator_get(a->g, i);
    real first = a->b1 * accumulator_get(a->m, i) + (1 - a->b1) * grad;
    real second = a->b2 * accumulator_get(a->v, i) + (1 - a->b2) * grad * grad;
    accumulator_set(a->m, i, first);
    accumulator_set(a->v, i, second);
    real step = a->rate * (first * a->unbias1) / (real_sqrt(second * a->unbias2) + a->epsilon);
    return (target_get(a->target, i, master) * a->before - step) * a->after;
}

static inline void adam_all(struct adam a, size_t count, bool master)
{
#pragma omp parallel for simd schedule(static) if (count > PARALLEL_ELEMENTS)
    for (size_t i = 0; i < count; i++) {
        target_set(a.target, i, adam_next(&a, i, master), master);
    }
}

static void adam_stochastic(struct adam a, size_t count, const struct weight_rounding *rounding)
{
#pragma omp parallel for schedule(static) if (count > PARALLEL_ELEMENTS)
    for (size_t first = 0; first < count; first += GROUP) {
        real values[GROUP];
        size_t end = first + GROUP < count ? first + GROUP : count;
        for (size_t i = first; i < end; i++) {
            values[i - first] = adam_next(&a, i, a.target.master.data);
            target_set(a.target, i, values[i - first], a.target.master.data);
        }
        store_group(a.target, first, end, values, rounding);
    }
}

void NAME(adamw)(struct device *device, struct tensor w, struct tensor master, struct tensor g, struct tensor m,
                 struct tensor v, const struct adam_step *step)
{
    (void)device;
    struct adam_factors factors = adam_factors(step);
    size_t count = tensor_count(w);
    struct adam adam = {.target = {w.data, accumulator_of(master)},
                        .g = accumulator_of(g),
                        .m = accumulator_of(m),
                        .v = accumulator_of(v),
                        .b1 = (real)step->beta1,
                        .b2 = (real)step->beta2,
                        .unbias1 = (real)factors.unbias1,
                        .unbias2 = (real)factors.unbias2,
                        .epsilon = (real)factors.epsilon,
                        .rate = (real)factors.rate,
                        .before = (real)factors.before,
                        .after = (real)factors.after};
    if (step->rounding.stochastic && REAL_BITS == 16) {
        adam_stochastic(adam, count, &step->rounding);
    } else if (master.data) {
        adam_all(adam, count, true);
    } else {
        adam_all(adam, count, false);
    }
}

struct sgd {
    struct target target;
    struct accumulator g, m;
    real rate, momentum, decay, keep;
};

static inline real sgd_next(const struct sgd *s, size_t i)
{
    real old = target_get(s->target, i, s->target.master.data), direction = accumulator_get(s->g, i);
    direction += s->decay * old;
    if (s->m.data) {
        direction += s->momentum * accumulator_get(s->m, i);
        accumulator_set(s->m, i, direction);
    }
    return old * s->keep - s->rate * direction;
}

void NAME(sgd)(struct device *device, struct tensor w, struct tensor master, struct tensor g, struct tensor m,
               const struct sgd_step *step)
{
    (void)device;
    size_t count = tensor_count(w);
    struct sgd sgd = {.target = {w.data, accumulator_of(master)},
                      .g = accumulator_of(g),
                      .m = accumulator_of(m),
                      .rate = (real)step->rate,
                      .momentum = (real)step->momentum,
                      .decay = (real)(step->decoupled ? 0 : step->decay),
                      .keep = (real)(step->decoupled ? 1 - step->rate * step->decay : 1)};
#pragma omp parallel for schedule(static) if (count > PARALLEL_ELEMENTS)
    for (size_t first = 0; first < count; first += GROUP) {
        real values[GROUP];
        size_t end = first + GROUP < count ? first + GROUP : count;
        for (size_t i = first; i < end; i++) {
            values[i - first] = sgd_next(&sgd, i);
            target_set(sgd.target, i, values[i - first], sgd.target.master.data);
        }
        if (step->rounding.stochastic) {
            store_group(sgd.target, first, end, values, &step->rounding);
        }
    }
}
