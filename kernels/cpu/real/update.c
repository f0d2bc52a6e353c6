// Updates of weights (kernels/device/update.h): AdamW (Loshchilov & Hutter 2019), also with 8-bit moments, and SGD.
// A group of eight weights shares its random bits, so loops over groups vectorise.
#include "kernels/device/update.h"
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/rows.h"
#include "kernels/device/dynamic_map.h"

#define GROUP ((size_t)8)

// The updated weights and their storage.
struct target {
    stored *w;
    struct accumulator master; // data NULL: w itself is updated
    bool begins;               // initialise the master from w
};

static inline real target_get(struct target target, size_t i, bool master)
{
    return master && !target.begins ? accumulator_get(target.master, i) : load(target.w[i]);
}

static inline void target_set(struct target target, size_t i, real value, bool master)
{
    if (master)
        accumulator_set(target.master, i, value);
    target.w[i] = store(value);
}

// Replaces the nearest rounding of a group by the stochastic one. values: of weights [first, end).
static void store_group(struct target target, size_t first, size_t end, const real *values,
                        const struct bf16_rounding *rounding)
{
#if REAL_BITS == 16
    struct rounding_bits bits = rounding_bits(rounding, first / GROUP);
    for (size_t i = first; i < end; i++)
        target.w[i] = store(stochastic_bf16(values[i - first], &bits, i - first));
#endif
}

struct adam {
    struct target target;
    struct accumulator g, m, v;
    real b1, b2, grad1, grad2; // betas and 1 - beta, computed before rounding beta
    real unbias1, unbias2, epsilon, rate, before, after;
};

static inline real adam_next(const struct adam *a, size_t i, bool master)
{
    real grad = accumulator_get(a->g, i);
    real first = a->b1 * accumulator_get(a->m, i) + a->grad1 * grad;
    real second = a->b2 * accumulator_get(a->v, i) + a->grad2 * grad * grad;
    accumulator_set(a->m, i, first);
    accumulator_set(a->v, i, second);
    real step = a->rate * (first * a->unbias1) / (real_sqrt(second * a->unbias2) + a->epsilon);
    return (target_get(a->target, i, master) * a->before - step) * a->after;
}

static inline void adam_all(struct adam a, size_t count, bool master)
{
#pragma omp parallel for simd schedule(static) if (count > PARALLEL_ELEMENTS)
    for (size_t i = 0; i < count; i++)
        target_set(a.target, i, adam_next(&a, i, master), master);
}

static void adam_stochastic(struct adam a, size_t count, const struct bf16_rounding *rounding)
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

static struct adam adam_of(struct tensor w, struct tensor master, struct tensor g, struct tensor m, struct tensor v,
                           const struct adam_step *step)
{
    struct adam_factors factors = adam_factors(step);
    return (struct adam){.target = {w.data, accumulator_of(master), step->begins},
                         .g = accumulator_of(g),
                         .m = accumulator_of(m),
                         .v = accumulator_of(v),
                         .b1 = (real)step->beta1,
                         .b2 = (real)step->beta2,
                         .grad1 = (real)(1 - step->beta1),
                         .grad2 = (real)(1 - step->beta2),
                         .unbias1 = (real)factors.unbias1,
                         .unbias2 = (real)factors.unbias2,
                         .epsilon = (real)factors.epsilon,
                         .rate = (real)factors.rate,
                         .before = (real)factors.before,
                         .after = (real)factors.after};
}

void NAME(adamw)(struct device *device, struct tensor w, struct tensor master, struct tensor g, struct tensor m,
                 struct tensor v, const struct adam_step *step)
{
    size_t count = tensor_count(w);
    const struct adam adam = adam_of(w, master, g, m, v, step);
    if (step->rounding.stochastic && REAL_BITS == 16)
        adam_stochastic(adam, count, &step->rounding);
    else if (master.data)
        adam_all(adam, count, true);
    else
        adam_all(adam, count, false);
}

// An 8-bit moment: its codes, in the words' byte order, and scales.
struct coded {
    uint8_t *codes;
    float *scales;
    float levels[MAP_LEVELS];
};

static struct coded coded_of(struct tensor codes, struct tensor scales, bool is_signed)
{
    struct coded coded = {.codes = codes.data, .scales = scales.data};
    for (int code = 0; code < MAP_LEVELS; code++)
        coded.levels[code] = map_level(is_signed, code);
    return coded;
}

// Encodes a block's new values and its scale.
static void code_block(const struct coded *to, size_t first, size_t count, const real *values, bool is_signed)
{
    float largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fabsf((float)values[i]) > largest ? fabsf((float)values[i]) : largest;
    to->scales[first / MAP_BLOCK] = largest;
    for (size_t i = 0; i < count; i++) {
        float x = largest > 0 ? (float)values[i] / largest : 0;
        int code = is_signed ? map_nearest_signed(to->levels, x) : map_nearest(to->levels, x);
        to->codes[first + i] = (uint8_t)code;
    }
}

static void adam_block(const struct adam *a, const struct coded *m, const struct coded *v, size_t first,
                       size_t count, const struct bf16_rounding *rounding)
{
    real firsts[MAP_BLOCK], seconds[MAP_BLOCK], values[MAP_BLOCK];
    real m_scale = m->scales[first / MAP_BLOCK], v_scale = v->scales[first / MAP_BLOCK];
    for (size_t i = 0; i < count; i++) {
        real grad = accumulator_get(a->g, first + i);
        firsts[i] = a->b1 * (m->levels[m->codes[first + i]] * m_scale) + a->grad1 * grad;
        seconds[i] = a->b2 * (v->levels[v->codes[first + i]] * v_scale) + a->grad2 * grad * grad;
        real step = a->rate * (firsts[i] * a->unbias1) / (real_sqrt(seconds[i] * a->unbias2) + a->epsilon);
        values[i] = (load(a->target.w[first + i]) * a->before - step) * a->after;
        a->target.w[first + i] = store(values[i]);
    }
    for (size_t i = 0; rounding->stochastic && i < count; i += GROUP) {
        size_t end = i + GROUP < count ? i + GROUP : count;
        store_group(a->target, first + i, first + end, values + i, rounding);
    }
    code_block(m, first, count, firsts, true);
    code_block(v, first, count, seconds, false);
}

void NAME(adamw_coded)(struct device *device, struct tensor w, struct tensor g, struct coded_moments moments,
                       const struct adam_step *step)
{
    size_t count = tensor_count(w);
    const struct adam adam = adam_of(w, tensor_none(), g, tensor_none(), tensor_none(), step);
    const struct coded m = coded_of(moments.m, moments.m_scale, true),
                       v = coded_of(moments.v, moments.v_scale, false);
#pragma omp parallel for schedule(static) if (count > PARALLEL_ELEMENTS)
    for (size_t first = 0; first < count; first += MAP_BLOCK)
        adam_block(&adam, &m, &v, first, count - first < MAP_BLOCK ? count - first : MAP_BLOCK, &step->rounding);
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
    size_t count = tensor_count(w);
    struct sgd sgd = {.target = {w.data, accumulator_of(master), step->begins},
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
        if (step->rounding.stochastic)
            store_group(sgd.target, first, end, values, &step->rounding);
    }
}
