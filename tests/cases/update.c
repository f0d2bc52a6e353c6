// AdamW and SGD: in every form, with and without a master, moments and gradients in either dtype, and weights
// rounded both ways.
#include "tests/cases/cases.h"

// What of an update is the same whatever the optimizer.
struct setting {
    enum dtype gradient, moment; // of the accumulators'
    bool master, stochastic;
};

static size_t settings(const struct cases *c, struct setting list[16])
{
    enum dtype dtypes[2];
    size_t kinds = case_accumulators(c, dtypes), count = 0;
    for (size_t i = 0; i < kinds * kinds * 4; i++) {
        list[count++] = (struct setting){dtypes[i / 4 % kinds], dtypes[i / 4 / kinds], i % 2, i / 2 % 2};
    }
    return count;
}

static struct weight_rounding rounding(const struct setting *s)
{
    return (struct weight_rounding){s->stochastic, random_named(7, "w"), 5};
}

// The weights as they are stored, from what they are; by the words of Philox of the group.
static void store(struct cases *c, const struct setting *s, struct operand *w, struct operand *master)
{
    struct weight_rounding r = rounding(s);
    for (size_t i = 0; i < tensor_count(w->tensor); i++) {
        if (master) {
            master->values[i] = w->values[i];
        }
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
    if (master) {
        case_check(c, master, 0, 100, "%s: master", name);
    }
    case_check(c, w, s->stochastic ? 2 : 1, 100, "%s: w", name);
    if (s->stochastic && !c->is_refused) {
        double *found = case_found(w);
        size_t differ = 0, count = tensor_count(w->tensor);
        for (size_t i = 0; i < count; i++) {
            differ += c->device->ops->dtype == DTYPE_BF16 && found[i] != w->values[i];
        }
        case_expect(c, differ * 100 <= count, "stochastic rounding is that of the random bits");
        free(found);
    }
}

void adamw_cases(struct cases *c)
{
    static const char *const forms[] = {"torch", "HF", "bitsandbytes"};
    const double rate = 0.01, b1 = 0.9, b2 = 0.999, epsilon = 1e-3, decay = 0.1;
    struct setting list[16];
    size_t n = 37, d = 101, count = settings(c, list);
    for (size_t k = 0; k < count * 6; k++) {
        const struct setting *s = &list[k / 6];
        enum adam_form form = (enum adam_form)(k % 3);
        size_t t = k / 3 % 2 ? 3 : 1;
        c->offset = k % 2;
        struct operand *w = case_random(c, n, d, 1, "w"), *g = case_random_in(c, s->gradient, n, d, 1, "g");
        struct operand *m = case_random_in(c, s->moment, n, d, 1, "m"),
                       *v = case_random_in(c, s->moment, n, d, 1, "v");
        struct operand *master = s->master ? case_random_in(c, case_sums(c), n, d, 1, "master") : NULL;
        struct adam_step step = {rate, b1, b2, epsilon, decay, t, form, rounding(s)};
        for (size_t i = 0; i < n * d; i++) {
            v->values[i] = fabs(v->values[i]);
        }
        CASE_RUN(c, op_adamw(c->device, w->tensor, master ? master->tensor : tensor_none(), g->tensor, m->tensor,
                             v->tensor, &step));
        double rest1 = 1 - pow(b1, (double)t), rest2 = 1 - pow(b2, (double)t);
        for (size_t i = 0; i < n * d; i++) {
            double old = master ? master->values[i] : w->values[i], gradient = g->values[i];
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
        struct sgd_step step = {rate, momentum, decay, decoupled, rounding(s)};
        CASE_RUN(c, op_sgd(c->device, w->tensor, master ? master->tensor : tensor_none(), g->tensor,
                           m ? m->tensor : tensor_none(), &step));
        for (size_t i = 0; i < n * d; i++) {
            double old = master ? master->values[i] : w->values[i];
            double direction = g->values[i] + (decoupled ? 0 : decay * old);
            if (m) {
                direction = m->values[i] = momentum * m->values[i] + direction;
            }
            w->values[i] = old - rate * direction - (decoupled ? rate * decay * old : 0);
        }
        store(c, s, w, master);
        check_weights(c, s, w, master, decoupled ? "decoupled" : "coupled");
        if (m) {
            case_check(c, m, s->moment == c->device->ops->dtype, 8, "momentum");
        }
        case_end(c);
    }
}
