// AdamW, also with moments in 8 bits, and SGD: in every form, with and without a master, moments and gradients in
// either dtype, and weights rounded both ways.
#include "kernels/device/dynamic_map.h"
#include "tests/cases/cases.h"
#include <string.h>

// Settings that all optimizers share.
struct setting {
    enum dtype gradient, moment; // of the accumulators'
    bool master, stochastic;
};

static size_t settings(const struct cases *c, struct setting list[16])
{
    enum dtype dtypes[2];
    size_t kinds = case_accumulators(c, dtypes), count = 0;
    for (size_t i = 0; i < kinds * kinds * 4; i++)
        list[count++] = (struct setting){dtypes[i / 4 % kinds], dtypes[i / 4 / kinds], i % 2, i / 2 % 2};
    return count;
}

static struct bf16_rounding rounding(const struct setting *s)
{
    return (struct bf16_rounding){s->stochastic, random_named(7, "w"), 5};
}

// The weights as they are stored, from what they are; by the words of Philox of the group.
static void store(struct cases *c, const struct setting *s, struct operand *w, struct operand *master)
{
    struct bf16_rounding r = rounding(s);
    for (size_t i = 0; i < tensor_count(w->tensor); i++) {
        if (master)
            master->values[i] = w->values[i];
        if (s->stochastic && c->device->ops->dtype == DTYPE_BF16) {
            uint64_t words[2];
            random_words(&r.random, r.first + i / 8, words);
            double u = (double)(words[i % 8 / 4] >> i % 4 * 16 & 0xffff) / 65536, spacing;
            int exponent;
            frexp(w->values[i], &exponent);
            spacing = ldexp(1, exponent - 8);
            double below = floor(fabs(w->values[i]) / spacing), part = fabs(w->values[i]) / spacing - below;
            w->values[i] = copysign((below + (part + u >= 1)) * spacing, w->values[i]);
        }
    }
}

// Stochastic rounding may go the other way where the last bit of what is rounded decides: a neighbour's distance.
static void check_weights(struct cases *c, const struct setting *s, struct operand *w, struct operand *master,
                          const char *name)
{
    if (master)
        case_check(c, master, 0, 100, "%s: master", name);
    case_check(c, w, s->stochastic ? 2 : 1, 100, "%s: w", name);
    if (s->stochastic && !c->is_refused) {
        double *found = case_found(w);
        size_t differ = 0, count = tensor_count(w->tensor);
        for (size_t i = 0; i < count; i++)
            differ += c->device->ops->dtype == DTYPE_BF16 && found[i] != w->values[i];
        case_expect(c, differ * 100 <= count, "stochastic rounding is that of the random bits");
        free(found);
    }
}

void adamw_cases(struct cases *c)
{
    static const char *const forms[] = {"torch", "HF", "bitsandbytes"};
    const double rate = 0.01, b1 = 0.9, epsilon = 1e-3, decay = 0.1;
    struct setting list[16];
    size_t n = 37, d = 101, count = settings(c, list);
    for (size_t k = 0; k < count * 6; k++) {
        const struct setting *s = &list[k / 6];
        enum adam_form form = (enum adam_form)(k % 3);
        size_t t = k / 3 % 2 ? 3 : 1;
        // The first step's moments are what a gradient adds to zero: all that 1 - beta is multiplied by.
        double b2 = t == 1 ? 1 - 1e-7 : 0.999, before = t > 1;
        c->offset = k % 2;
        struct operand *w = case_random(c, n, d, 1, "w"), *g = case_random_in(c, s->gradient, n, d, 1, "g");
        struct operand *m = case_random_in(c, s->moment, n, d, before, "m"),
                       *v = case_random_in(c, s->moment, n, d, before, "v");
        struct operand *master = s->master ? case_random_in(c, case_sums(c), n, d, 1, "master") : NULL;
        struct adam_step step = {rate, b1, b2, epsilon, decay, t, form, rounding(s), t == 1};
        for (size_t i = 0; i < n * d; i++)
            v->values[i] = fabs(v->values[i]);
        CASE_RUN(c, op_adamw(c->device, w->tensor, master ? master->tensor : tensor_none(), g->tensor, m->tensor,
                             v->tensor, &step));
        double rest1 = 1 - pow(b1, (double)t), rest2 = 1 - pow(b2, (double)t);
        for (size_t i = 0; i < n * d; i++) {
            double old = master && t > 1 ? master->values[i] : w->values[i], gradient = g->values[i];
            m->values[i] = b1 * m->values[i] + (1 - b1) * gradient;
            v->values[i] = b2 * v->values[i] + (1 - b2) * gradient * gradient;
            double first = m->values[i], second = v->values[i];
            if (form == ADAM_TORCH) {
                w->values[i] = old - rate * (first / rest1 / (sqrt(second / rest2) + epsilon) + decay * old);
            } else {
                double below = sqrt(second) + (form == ADAM_HF ? epsilon : sqrt(rest2) * epsilon);
                double moved = old - rate * sqrt(rest2) / rest1 * first / below;
                w->values[i] = moved - rate * decay * moved;
            }
        }
        store(c, s, w, master);
        bool narrow = s->moment == c->device->ops->dtype;
        check_weights(c, s, w, master, forms[form]);
        case_check(c, m, narrow, 8, "first moment at step %zu", t);
        case_check(c, v, narrow, 8, "second moment at step %zu", t);
        case_end(c);
    }
}

// The level of a map by its definition, rounded once.
static double level(bool is_signed, int code)
{
    int number = is_signed ? abs(code - 127) : code, shift = is_signed ? 0 : 1, i = 0, below = 0;
    if (code == 255 || number == 0)
        return code == 255;
    while (number > below + (1 << (i + shift))) {
        below += 1 << (i + shift);
        i++;
    }
    double parts = 1 << (i + shift), middle = 0.1 + 0.9 * (number - below - 0.5) / parts;
    return (is_signed && code < 127 ? -1 : 1) * pow(10, i - 6) * middle;
}

// The code of the level nearest to x, of its sign.
static int nearest(const double levels[256], double x)
{
    int best = -1;
    for (int code = 0; code < 256; code++)
        if ((levels[code] < 0) == (x < 0) && (best < 0 || fabs(levels[code] - x) < fabs(levels[best] - x)))
            best = code;
    return best;
}

static int code_at(const double *words, size_t i)
{
    return (uint32_t)(int32_t)words[i / 4] >> i % 4 * 8 & 0xff;
}

// Codes and scales of new moments. Between two levels rounding decides: in f32 a few codes may be the neighbour's.
static void check_codes(struct cases *c, struct operand *codes, struct operand *scales, const double *moments,
                        size_t count, bool is_signed)
{
    double *found = case_found(codes), levels[256];
    size_t differ = 0;
    bool near = true;
    for (int code = 0; code < 256; code++)
        levels[code] = level(is_signed, code);
    for (size_t i = 0; i < count; i++) {
        size_t first = i - i % 256, end = first + 256 < count ? first + 256 : count;
        double *largest = &scales->values[i / 256];
        for (size_t j = first; j < end && i == first; j++)
            *largest = dtype_round(j == first ? fabs(moments[j]) : fmax(*largest, fabs(moments[j])), DTYPE_F32);
        int expected = nearest(levels, moments[i] / *largest), code = code_at(found, i);
        differ += code != expected;
        near &= abs(code - expected) <= 1;
    }
    case_expect(c, near && differ <= (case_sums(c) == DTYPE_F64 ? 0 : count / 100),
                "codes are the nearest levels'");
    memcpy(codes->values, found, tensor_count(codes->tensor) * sizeof *found);
    free(found);
    case_check(c, codes, 0, 0, "codes");
    case_check(c, scales, 0, 16, "scales");
}

void adamw_coded_cases(struct cases *c)
{
    static const size_t counts[] = {1, 6, 255, 256, 5001};
    const double rate = 0.01, b1 = 0.9, b2 = 0.999, epsilon = 1e-3, decay = 0.1;
    enum dtype dtypes[2];
    size_t kinds = case_accumulators(c, dtypes);
    for (size_t k = 0; k < kinds * 2 * sizeof counts / sizeof *counts; k++) {
        size_t n = counts[k / 2 / kinds], words = (n + 3) / 4, blocks = (n + 255) / 256, t = 5;
        struct setting s = {.gradient = dtypes[k % kinds], .stochastic = k / kinds % 2};
        c->offset = k % 3 == 0;
        struct operand *w = case_random(c, 1, n, 1, "w"), *g = case_random_in(c, s.gradient, 1, n, 1, "g");
        c->offset = 0;
        struct operand *m = case_integers(c, words, INT32_MIN, INT32_MAX);
        struct operand *v = case_integers(c, words, INT32_MIN, INT32_MAX);
        struct operand *m_scale = case_random_in(c, DTYPE_F32, blocks, 1, 1, "m_scale");
        struct operand *v_scale = case_random_in(c, DTYPE_F32, blocks, 1, 1, "v_scale");
        for (size_t i = 0; i < blocks; i++) {
            m_scale->values[i] = fabs(m_scale->values[i]);
            v_scale->values[i] = fabs(v_scale->values[i]);
        }
        struct coded_moments moments = {m->tensor, v->tensor, m_scale->tensor, v_scale->tensor};
        struct adam_step step = {rate, b1, b2, epsilon, decay, t, ADAM_BITSANDBYTES, rounding(&s), false};
        CASE_RUN(c, op_adamw_coded(c->device, w->tensor, g->tensor, moments, &step));
        double rest1 = 1 - pow(b1, (double)t), rest2 = 1 - pow(b2, (double)t);
        double *firsts = malloc(2 * n * sizeof *firsts), *seconds = firsts + n;
        CHECK(firsts);
        for (size_t i = 0; i < n; i++) {
            double m_level = (double)map_level(true, code_at(m->values, i)); // rounded: tests/test_optimizer.c
            double v_level = (double)map_level(false, code_at(v->values, i));
            firsts[i] = b1 * m_level * m_scale->values[i / 256] + (1 - b1) * g->values[i];
            seconds[i] = b2 * v_level * v_scale->values[i / 256] + (1 - b2) * g->values[i] * g->values[i];
            double below = sqrt(seconds[i]) + sqrt(rest2) * epsilon;
            double moved = w->values[i] - rate * sqrt(rest2) / rest1 * firsts[i] / below;
            w->values[i] = moved - rate * decay * moved;
        }
        store(c, &s, w, NULL);
        check_codes(c, m, m_scale, firsts, n, true);
        check_codes(c, v, v_scale, seconds, n, false);
        check_weights(c, &s, w, NULL, "8 bits");
        case_end(c);
        free(firsts);
    }
}

void sgd_cases(struct cases *c)
{
    const double rate = 0.01, momentum = 0.9, decay = 0.1;
    struct setting list[16];
    size_t n = 37, d = 101, count = settings(c, list);
    for (size_t k = 0; k < count * 4; k++) {
        const struct setting *s = &list[k / 4];
        bool decoupled = k % 2, moving = k / 2 % 2;
        c->offset = k % 2;
        struct operand *w = case_random(c, n, d, 1, "w"), *g = case_random_in(c, s->gradient, n, d, 1, "g");
        struct operand *m = moving ? case_random_in(c, s->moment, n, d, 1, "m") : NULL;
        struct operand *master = s->master ? case_random_in(c, case_sums(c), n, d, 1, "master") : NULL;
        struct sgd_step step = {rate, momentum, decay, decoupled, rounding(s), moving};
        CASE_RUN(c, op_sgd(c->device, w->tensor, master ? master->tensor : tensor_none(), g->tensor,
                           m ? m->tensor : tensor_none(), &step));
        for (size_t i = 0; i < n * d; i++) {
            double old = master && !moving ? master->values[i] : w->values[i];
            double direction = g->values[i] + (decoupled ? 0 : decay * old);
            if (m)
                direction = m->values[i] = momentum * m->values[i] + direction;
            w->values[i] = old - rate * direction - (decoupled ? rate * decay * old : 0);
        }
        store(c, s, w, master);
        check_weights(c, s, w, master, decoupled ? "decoupled" : "coupled");
        if (m)
            case_check(c, m, s->moment == c->device->ops->dtype, 8, "momentum");
        case_end(c);
    }
}
