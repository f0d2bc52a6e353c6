// Deferred over every draw of a small model in f64: each draw's gradient is the sum of its chains of chunks, which
// SpaCO's gradients of all subsets give by inclusion and exclusion; the mean over the draws is the exact gradient.
#include "harness/machine/environment.h"
#include "methods/method.h"
#include "tests/fixture.h"
#include "tests/sanitized.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define CHUNKS       6
#define CHUNK        4
#define SETS         (1u << CHUNKS)

static const struct method *deferred(void)
{
    return method_find("deferred");
}

static unsigned bits_of(const struct index_list *chunks)
{
    unsigned bits = 0;
    for (size_t i = 0; i < chunks->count; i++)
        bits |= 1u << chunks->items[i];
    return bits;
}

static double *step_of(struct fixture *f, const char *name, const char *text, struct step_report *report)
{
    const struct method *method = method_find(name);
    void *options = fixture_options(method, "%s", text);
    double *found = fixture_step(f, name, options, report);
    options_free(&method->options, options);
    return found;
}

// The gradients of all chains: h[C] that of the last chunk of set C, through keys and values of the others from the
// right to the left. SpaCO's estimate without compensation of a set S is K / |S| times the sum over the subsets of
// S.
static double **chains_of(struct fixture *f)
{
    double **h = calloc(SETS, sizeof *h);
    struct step_report report = {0};
    for (unsigned set = 1; set < SETS; set++) {
        char text[96] = "chunk=4 sampler=fixed compensation=none drawn_chunks=";
        size_t count = 0;
        for (unsigned c = 0; c < CHUNKS; c++)
            if (set >> c & 1)
                sprintf(text + strlen(text), "%s%u", count++ ? "," : "", c);
        h[set] = step_of(f, "spaco", text, &report);
        for (size_t i = 0; i < f->gradient_count; i++)
            h[set][i] *= (double)count / CHUNKS;
    }
    for (unsigned bit = 1; bit < SETS; bit *= 2)
        for (unsigned set = SETS; set-- > 1;)
            for (size_t i = 0; set & bit && set != bit && i < f->gradient_count; i++)
                h[set][i] -= h[set ^ bit][i];
    step_report_free(&report);
    return h;
}

// A set of options, and the probabilities that they say.
struct form {
    const char *text;
    double later[CHUNKS], share;
    size_t draws;
};
static const struct form forms[] = {
    {"deferral=0.5 deferral_shape=flat", {.5, .5, .5, .5, .5, 0}, 1, 32},
    {"deferral=0.25 deferral_shape=flat", {.25, .25, .25, .25, .25, 0}, 1, 32},
    {"", {5 / 6., 4 / 6., 3 / 6., 2 / 6., 1 / 6., 0}, 1, 32},
    // The first chunk has the most that there is, and the others the rest of 5 * 0.7.
    {"deferral=0.7", {1, 1, .75, .5, .25, 0}, 1, 8},
    {"deferral=0.6 deferral_shape=flat backward_share=0.75", {.6, .6, .6, .6, .6, 0}, .75, 2 * 243},
    {"deferral=0.24 backward_share=0.4", {.4, .32, .24, .16, .08, 0}, .4, 2 * 2 * 81},
    {"deferral=0 backward_share=0.5", {0}, .5, 64},
    {"deferral=0", {0}, 1, 1},
    {"deferral=1", {1, 1, 1, 1, 1, 0}, 1, 1},
};

struct draws {
    struct fixture *f;
    const struct form *form;
    double **chains, *mean, *sum, *exact;
    double loss, total, squares; // squares: the mean of |draw - exact|^2
    size_t count, every;
};

// The sum of the chains that reach the draw: none of whose chunks is skipped, and all but the last are deferred.
static void add_chains(struct draws *d, unsigned later, unsigned skipped, double *sum)
{
    for (unsigned set = 1; set < SETS; set++) {
        unsigned last = CHUNKS - 1;
        while (!(set >> last & 1))
            last--;
        unsigned through = set ^ 1u << last;
        double weight = skipped >> last & 1 || (through & ~later) ? 0 : 1 / d->form->share;
        for (unsigned c = 0; weight != 0 && c < last; c++)
            weight /= through >> c & 1 ? d->form->later[c] : 1;
        for (size_t i = 0; weight != 0 && i < d->f->gradient_count; i++)
            sum[i] += weight * d->chains[set][i];
    }
}

static bool add_draw(void *visitor, const void *options, double probability)
{
    struct draws *d = visitor;
    size_t count = d->f->gradient_count;
    struct step_report report = {0};
    double *found = fixture_step(d->f, "deferred", options, &report), expected = 1, squares = 0, norm = 0;
    unsigned later = bits_of(&report.drawn_chunks), skipped = bits_of(&report.skipped_chunks);
    for (unsigned c = 0; d->form && c < CHUNKS; c++)
        expected *= later >> c & 1     ? d->form->later[c]
                    : skipped >> c & 1 ? 1 - d->form->share
                                       : d->form->share - d->form->later[c];
    if (d->form && !(fabs(probability - expected) <= 1e-15))
        fail_msg("%s: later %x, skipped %x have probability %.17g, not %.17g", d->form->text, later, skipped,
                 expected, probability);
    if (d->chains && d->count % d->every == 0) {
        double *sum = calloc(count, sizeof *sum);
        add_chains(d, later, skipped, sum);
        // Chains are differences of gradients, and count up to 6,000 times.
        double error = skipped + 1 == SETS ? largest_difference(found, sum, count) : relative_l2(found, sum, count);
        if (!(error <= 1e-11))
            fail_msg("%s: later %x, skipped %x: off its chains by %.2e", d->form->text, later, skipped, error);
        free(sum);
    }
    for (size_t i = 0; i < count; i++) {
        d->mean[i] += probability * found[i];
        squares += (found[i] - d->exact[i]) * (found[i] - d->exact[i]);
        norm += d->exact[i] * d->exact[i];
    }
    d->squares += probability * squares / norm;
    d->loss += probability * report.sums.loss;
    d->total += probability;
    d->count++;
    free(found);
    step_report_free(&report);
    return true;
}

// The mean over all draws is the exact gradient, and so is that of the loss. Returns the relative RMS error.
static double check_mean(struct fixture *f, const char *text, struct draws *d, const char *what)
{
    struct step_report report = {0};
    struct status status = {0};
    void *options = fixture_options(deferred(), "%s", text);
    d->f = f;
    d->exact = fixture_step(f, "full", NULL, &report);
    d->mean = calloc(f->gradient_count, sizeof *d->mean);
    assert_true(deferred()->check(options, &f->config, f->context, &status));
    assert_true(deferred()->each_draw(options, f->context, 4096, add_draw, d, &status));
    assert_true(fabs(d->total - 1) <= 1e-14);
    double error = relative_l2(d->mean, d->exact, f->gradient_count);
    bool biased = strstr(text, "deferral=0 ") || strcmp(text, "chunk=4 deferral=0") == 0;
    if (!(biased ? error > 0.01 : error <= 1e-13))
        fail_msg("%s%s: the mean is off by %.2e", what, text, error);
    if (!(fabs(d->loss - report.sums.loss) <= 1e-13 * fabs(report.sums.loss)))
        fail_msg("%s%s: the mean loss is %.17g, not %.17g", what, text, d->loss, report.sums.loss);
    options_free(&deferred()->options, options);
    step_report_free(&report);
    free(d->mean);
    free(d->exact);
    return sqrt(d->squares);
}

static struct fixture small(void)
{
    struct fixture f = fixture_default();
    f.context = CHUNKS * CHUNK - 1; // a shorter last chunk
    f.batch_size = 1;
    return f;
}

static void draws_are_their_chains(void **state)
{
    (void)state;
    struct fixture f = small();
    fixture_open(&f);
    double **chains = chains_of(&f);
    for (size_t i = 0; i < COUNT(forms); i++) {
        char text[96];
        snprintf(text, sizeof text, "chunk=4 %s", forms[i].text);
        struct draws d = {.form = &forms[i], .chains = chains, .every = forms[i].draws > 100 ? 5 : 1};
        double rms = check_mean(&f, text, &d, "");
        assert_int_equal(d.count, forms[i].draws);
        assert_true(strcmp(forms[i].text, "deferral=1") == 0 ? rms <= 1e-13 : rms > 0.01);
        printf("%-52s %3zu draws, relative RMS error %.3g\n", text, d.count, rms);
    }
    for (unsigned set = 0; set < SETS; set++)
        free(chains[set]);
    free(chains);
    fixture_close(&f);
}

// Every kind of layer that carries no state, in chunks of which the last is shorter: the mean is the exact
// gradient.
static void every_family_is_unbiased(void **state)
{
    (void)state;
    size_t families = fixture_families();
    for (size_t i = 0; i < families + 5; i += STRIDE) {
        struct fixture f = fixture_default();
        const char *what = i < families ? fixture_choose_family(&f, i) : "further";
        f.context = 23;
        f.batch_size = 2;
        f.document = i == families ? 7 : 0;
        f.config.tied |= i == families + 1;
        if (i == families + 2)
            f.lora = (struct lora){.rank = 2, .alpha = 4, .targets = LORA_Q | LORA_K | LORA_UP};
        if (i == families + 3)
            fixture_set_experts(&f.config, 6, 4, 2);
        if (i == families + 4) {
            fixture_choose(&f, "DeepSeek");
            f.lora = (struct lora){.rank = 2, .alpha = 4, .targets = LORA_Q | LORA_KV_A | LORA_KV_B};
        }
        if (config_has_states(&f.config))
            continue;
        fixture_open(&f);
        struct draws d = {0};
        check_mean(&f, i % 2 ? "chunk=6 deferral_shape=flat" : "chunk=6 deferral=0.4 backward_share=0.9", &d, what);
        fixture_close(&f);
    }
}

// All deferred is SeCO; none is the sum of the chunks' gradients, each with its own loss and its own keys alone.
static void the_ends_are_seco_and_no_gradient_of_keys(void **state)
{
    (void)state;
    struct fixture f = small();
    fixture_open(&f);
    struct step_report report = {0};
    double *seco = step_of(&f, "seco", "chunk=4", &report), *alone = calloc(f.gradient_count, sizeof *alone);
    double *all = step_of(&f, "deferred", "chunk=4 deferral=1", &report);
    assert_true(relative_l2(all, seco, f.gradient_count) <= 1e-13);
    struct status status = {0};
    void *options = fixture_options(deferred(), "chunk=4 deferral=0.25 deferral_shape=flat sampler_seed=7");
    deferred()->make_exact(options, f.context);
    assert_true(deferred()->check(options, &f.config, f.context, &status)); // no option has become effectless
    double *made = fixture_step(&f, "deferred", options, &report);
    assert_true(relative_l2(made, seco, f.gradient_count) <= 1e-13);
    options_free(&deferred()->options, options);
    free(made);
    double *none = step_of(&f, "deferred", "chunk=4 deferral=0", &report);
    for (unsigned c = 0; c < CHUNKS; c++) {
        char text[96];
        snprintf(text, sizeof text, "chunk=4 sampler=fixed compensation=none drawn_chunks=%u", c);
        double *own = step_of(&f, "spaco", text, &report);
        for (size_t i = 0; i < f.gradient_count; i++)
            alone[i] += own[i] / CHUNKS;
        free(own);
    }
    assert_true(relative_l2(none, alone, f.gradient_count) <= 1e-13);
    assert_true(relative_l2(none, seco, f.gradient_count) > 0.05);
    free(none);
    free(all);
    free(alone);
    free(seco);
    step_report_free(&report);
    fixture_close(&f);
}

// Seeds draw what they say as often as they say, and a fixed draw repeats each, to the bit; so do other ways of
// running the same cells.
static void seeds_follow_probabilities(void **state)
{
    (void)state;
    struct fixture f = small();
    f.config.layers = 1;
    fixture_open(&f);
    size_t later[CHUNKS] = {0}, skipped[CHUNKS] = {0};
    const size_t draws = 600;
    for (size_t seed = 1; seed <= draws; seed++) {
        struct step_report report = {0}, again = {0};
        char text[160];
        snprintf(text, sizeof text, "chunk=4 deferral=0.4 backward_share=0.8 sampler_seed=%zu", seed);
        double *found = step_of(&f, "deferred", text, &report);
        for (size_t c = 0; c < CHUNKS; c++) {
            later[c] += bits_of(&report.drawn_chunks) >> c & 1;
            skipped[c] += bits_of(&report.skipped_chunks) >> c & 1;
        }
        static const char *const ways[] = {"", " offload=kv", " inner=checkpoint"};
        void *options =
            fixture_options(deferred(), "chunk=4 deferral=0.4 backward_share=0.8 draw=fixed%s", ways[seed % 3]);
        const struct option *rows[] = {option_find(&deferred()->options, "later_chunks"),
                                       option_find(&deferred()->options, "skipped_chunks")};
        *(struct index_list *)(void *)((char *)options + rows[0]->offset) = index_list_copy(&report.drawn_chunks);
        *(struct index_list *)(void *)((char *)options + rows[1]->offset) = index_list_copy(&report.skipped_chunks);
        double *repeated = seed < 30 ? fixture_step(&f, "deferred", options, &again) : NULL;
        assert_true(!repeated || memcmp(repeated, found, f.gradient_count * sizeof *found) == 0);
        options_free(&deferred()->options, options);
        free(repeated);
        free(found);
        step_report_free(&again);
        step_report_free(&report);
    }
    static const double expected[CHUNKS] = {2 / 3., 1.6 / 3, .4, .8 / 3, .4 / 3, 0};
    for (size_t c = 0; c < CHUNKS; c++) { // seeds are fixed: this holds or does not, always
        double p = expected[c], deviation = sqrt(p * (1 - p) / draws);
        assert_true(fabs((double)later[c] / draws - p) <= 4 * deviation);
        assert_true(fabs((double)skipped[c] / draws - .2) <= 4 * sqrt(.16 / draws));
    }
    fixture_close(&f);
}

// Objectives whose slopes are sums over all tokens are refused, unless every chunk is deferred; and draws beyond a
// limit.
static void some_objectives_are_refused(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    for (size_t n = 0; fixture_choose_objective(&f, n); n++) {
        fixture_open_objective(&f);
        for (int all = 0; all < 2; all++) {
            struct status status = {0};
            void *options = fixture_options(deferred(), "deferral=%d", all);
            bool sums = objective_has_sums(f.objective, f.objective_settings);
            bool passes = method_check_objective(deferred(), options, f.objective, f.objective_settings, &status);
            assert_int_equal(passes, all || !sums);
            assert_true(passes || strstr(status.message, "use seco"));
            options_free(&deferred()->options, options);
        }
        fixture_close_objective(&f);
    }
    struct draws none = {0};
    struct status status = {0};
    void *options = fixture_options(deferred(), "chunk=4");
    assert_false(deferred()->each_draw(options, CHUNKS * CHUNK, 31, add_draw, &none, &status));
    assert_non_null(strstr(status.message, "more than 31 draws of 6 chunks"));
    options_free(&deferred()->options, options);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv); // the BLAS kernels that the program itself uses
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_are_their_chains),
        cmocka_unit_test(every_family_is_unbiased),
        cmocka_unit_test(the_ends_are_seco_and_no_gradient_of_keys),
        cmocka_unit_test(seeds_follow_probabilities),
        cmocka_unit_test(some_objectives_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
