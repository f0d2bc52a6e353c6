// SpaCO's estimators over every subset of the chunks of a small model in f64: the mean of bernoulli and of
// sequential is the exact gradient; the bias of uniform has the sign and order that counting the surviving chains
// predicts.
#include "harness/machine/environment.h"
#include "methods/sampler.h"
#include "tests/fixture.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define CHUNKS 6
#define CHUNK  4

struct estimate {
    struct fixture fixture;
    struct step_report report;
    double *exact;
    double exact_loss;
};

static void estimate_open(struct estimate *e)
{
    e->fixture = fixture_default();
    e->fixture.context = CHUNKS * CHUNK - 1; // a ragged last chunk
    e->fixture.batch_size = 1;
    fixture_open(&e->fixture);
    e->report = (struct step_report){0};
    e->exact = fixture_step(&e->fixture, "full", NULL, &e->report);
    e->exact_loss = e->report.sums.loss;
}

static void estimate_close(struct estimate *e)
{
    free(e->exact);
    step_report_free(&e->report);
    fixture_close(&e->fixture);
}

static struct spaco_options spaco_options(enum sampler sampler, size_t budget, enum compensation compensation)
{
    return (struct spaco_options){.common = {.chunk = CHUNK, .head_chunk = 256},
                                  .budget = budget,
                                  .sampler = sampler,
                                  .compensation = compensation,
                                  .cap = 2,
                                  .loss = LOSS_SAMPLED,
                                  .sampler_seed = 1};
}

// The set of subset `bits`, to be released with index_list_free, as the options of sampler fixed that make
// `options`' estimate of it again.
static struct spaco_options fixed_options(const struct spaco_options *options, unsigned bits)
{
    struct spaco_options fixed = *options;
    fixed.sampler = SAMPLER_FIXED;
    if (options->sampler == SAMPLER_SEQUENTIAL)
        fixed.compensation = COMPENSATION_SEQUENTIAL;
    size_t count = 0;
    fixed.drawn_chunks = (struct index_list){0};
    index_list_resize(&fixed.drawn_chunks, CHUNKS);
    for (uint32_t c = 0; c < CHUNKS; c++)
        if (bits >> c & 1)
            fixed.drawn_chunks.items[count++] = c;
    index_list_resize(&fixed.drawn_chunks, count);
    return fixed;
}

// E[gradient] over all subsets, weighted by the sampler's probabilities, which must add up to 1.
static double *expectation(struct estimate *e, const struct spaco_options *options, double *loss)
{
    double *mean = calloc(e->fixture.gradient_count, sizeof *mean), total = 0;
    *loss = 0;
    for (unsigned bits = 0; bits < 1u << CHUNKS; bits++) {
        struct spaco_options fixed = fixed_options(options, bits);
        double p = sampler_probability(options, CHUNKS, &fixed.drawn_chunks);
        total += p;
        if (p > 0) {
            double *gradient = fixture_step(&e->fixture, "spaco", &fixed, &e->report);
            for (size_t i = 0; i < e->fixture.gradient_count; i++)
                mean[i] += p * gradient[i];
            *loss += p * e->report.sums.loss;
            free(gradient);
        }
        index_list_free(&fixed.drawn_chunks);
    }
    assert_true(fabs(total - 1) < 1e-14);
    return mean;
}

static void check_mean(struct estimate e, enum sampler sampler, double minimum, enum loss_scope loss,
                       size_t budgets)
{
    for (size_t budget = 1; budget <= budgets; budget++) {
        struct spaco_options options = spaco_options(sampler, budget, COMPENSATION_PAPER);
        options.minimum = minimum;
        options.loss = loss;
        double mean_loss, *mean = expectation(&e, &options, &mean_loss);
        double bias = relative_l2(mean, e.exact, e.fixture.gradient_count);
        if (!(bias <= 1e-13))
            fail_msg("budget %zu: the mean is off by %.2e", budget, bias);
        assert_true(fabs(mean_loss - e.exact_loss) <= 1e-13 * e.exact_loss);
        free(mean);
    }
    estimate_close(&e);
}

static void check_unbiased(enum sampler sampler, double minimum, enum loss_scope loss)
{
    struct estimate e;
    estimate_open(&e);
    check_mean(e, sampler, minimum, loss, CHUNKS);
}

// A cell gives the projection of keys from latents a gradient for other chunks' tokens, which takes their factors.
static void test_latents_unbiased(void **state)
{
    (void)state;
    static const enum sampler samplers[] = {SAMPLER_BERNOULLI, SAMPLER_SEQUENTIAL};
    for (size_t i = 0; i < 2; i++) {
        struct estimate e = {.fixture = fixture_default()};
        fixture_choose(&e.fixture, i ? "Kimi" : "DeepSeek");
        e.fixture.lora.rank = i ? 2 : 0, e.fixture.lora.alpha = 4;
        e.fixture.lora.targets = LORA_Q | LORA_KV_A | LORA_KV_B;
        e.fixture.context = CHUNKS * CHUNK - 1;
        e.fixture.batch_size = 1;
        fixture_open(&e.fixture);
        e.exact = fixture_step(&e.fixture, "full", NULL, &e.report);
        e.exact_loss = e.report.sums.loss;
        check_mean(e, samplers[i], 0, LOSS_SAMPLED, 3);
    }
}

// Under every objective the mean is the exact gradient: slopes of rows do not depend on the draw, nor do those of
// sums that all chunks have gone into.
static void test_objectives_unbiased(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    for (size_t n = 0; fixture_choose_objective(&f, n); n++) {
        struct estimate e = {.fixture = f};
        e.fixture.context = CHUNKS * CHUNK - 1;
        e.fixture.config.layers = 2;
        bool several = strchr(f.settings, ' ');
        fixture_open_objective(&e.fixture);
        bool sums = objective_has_sums(f.objective, e.fixture.objective_settings);
        fixture_close_objective(&e.fixture);
        if (*f.settings && !(several && sums)) // as each is by default, and some sums
            continue;
        fixture_open(&e.fixture);
        e.exact = fixture_step(&e.fixture, "full", NULL, &e.report);
        e.exact_loss = e.report.sums.loss;
        struct spaco_options options = spaco_options(SAMPLER_BERNOULLI, 2, COMPENSATION_PAPER);
        options.loss = sums ? LOSS_ALL : LOSS_SAMPLED;
        double mean_loss, *mean = expectation(&e, &options, &mean_loss);
        double bias = relative_l2(mean, e.exact, e.fixture.gradient_count);
        if (!(bias <= 1e-12) || !(fabs(mean_loss - e.exact_loss) <= 1e-12 * fmax(1, fabs(e.exact_loss)))) {
            fail_msg("%s %s: the mean is off by %.2e, the loss %.17g of %.17g", f.objective->name, f.settings, bias,
                     mean_loss, e.exact_loss);
        }
        free(mean);
        estimate_close(&e);
    }
}

// An objective of sums is refused unless all chunks go into them.
static void test_sums_of_sampled_chunks(void **state)
{
    (void)state;
    const struct method *spaco = method_find("spaco");
    struct fixture f = fixture_default();
    for (size_t n = 0; fixture_choose_objective(&f, n); n++) {
        fixture_open_objective(&f);
        for (int all = 0; all < 2; all++) {
            struct status status = {0};
            void *options = fixture_options(spaco, "budget=2 loss=%s", all ? "all" : "sampled");
            bool sums = objective_has_sums(f.objective, f.objective_settings);
            bool passes = method_check_objective(spaco, options, f.objective, f.objective_settings, &status);
            assert_int_equal(passes, all || !sums);
            assert_true(passes || strstr(status.message, "use loss \"all\""));
            options_free(&spaco->options, options);
        }
        fixture_close_objective(&f);
    }
}

static void test_bernoulli_unbiased(void **state)
{
    (void)state;
    check_unbiased(SAMPLER_BERNOULLI, 0, LOSS_SAMPLED);
    check_unbiased(SAMPLER_BERNOULLI, 0, LOSS_ALL);
}

static void test_sequential_unbiased(void **state)
{
    (void)state;
    check_unbiased(SAMPLER_SEQUENTIAL, 0, LOSS_SAMPLED);
    check_unbiased(SAMPLER_SEQUENTIAL, 0.3, LOSS_ALL);
}

// weight[p]: the mean weight that an estimator gives to a contribution through p chunks, computed from the
// definition: probability that all p survive, times s * s'^(p - 1). 1 for all p would be unbiased.
static double chain_weight(size_t p, double t, double loss_factor, double kv_factor)
{
    double weight = loss_factor;
    for (size_t i = 0; i < p; i++)
        weight *= (t - i) / (CHUNKS - i) * (i ? kv_factor : 1);
    return weight;
}

// The exact gradient taken apart by the number of chunks that its chains pass: the estimate of all chunks with
// kv_factor z is sum over p of z^(p - 1) G_p, a polynomial, so COLUMNS values of z give every G_p.
static void take_apart(struct estimate *e, double *parts[CHUNKS])
{
    size_t count = e->fixture.gradient_count;
    double *values[CHUNKS], z[CHUNKS];
    for (size_t i = 0; i < CHUNKS; i++) {
        // `capped` with t = K would have factor 1; a budget of 1 has factor K, and the cap is z.
        z[i] = (i + 1.0) / CHUNKS * 1.5;
        struct spaco_options options = spaco_options(SAMPLER_FIXED, 1, COMPENSATION_CAPPED);
        options = fixed_options(&options, (1u << CHUNKS) - 1);
        options.cap = z[i];
        values[i] = fixture_step(&e->fixture, "spaco", &options, &e->report);
        index_list_free(&options.drawn_chunks);
        for (size_t k = 0; k < count; k++)
            values[i][k] /= CHUNKS; // s = K / 1
    }
    // Newton's divided differences, then the coefficients.
    for (size_t level = 1; level < CHUNKS; level++) {
        for (size_t i = CHUNKS - 1; i >= level; i--)
            for (size_t k = 0; k < count; k++)
                values[i][k] = (values[i][k] - values[i - 1][k]) / (z[i] - z[i - level]);
    }
    for (size_t p = 0; p < CHUNKS; p++)
        parts[p] = calloc(count, sizeof **parts);
    for (size_t i = CHUNKS; i-- > 0;) {
        for (size_t k = 0; k < count; k++) {
            for (size_t p = CHUNKS - 1; p > 0; p--)
                parts[p][k] = parts[p - 1][k] - z[i] * parts[p][k];
            parts[0][k] = values[i][k] - z[i] * parts[0][k];
        }
    }
    for (size_t i = 0; i < CHUNKS; i++)
        free(values[i]);
}

static void test_uniform_bias_is_chain_survival(void **state)
{
    (void)state;
    struct estimate e;
    estimate_open(&e);
    size_t count = e.fixture.gradient_count;
    double *parts[CHUNKS], *predicted = malloc(count * sizeof *predicted);
    take_apart(&e, parts);
    // The parts are the whole, and more than one of them matters.
    for (size_t k = 0; k < count; k++) {
        predicted[k] = 0;
        for (size_t p = 0; p < CHUNKS; p++)
            predicted[k] += parts[p][k];
    }
    assert_true(relative_l2(predicted, e.exact, count) < 1e-9);
    assert_true(relative_l2(parts[0], e.exact, count) > 0.05);

    const enum compensation compensations[] = {COMPENSATION_NONE, COMPENSATION_PAPER, COMPENSATION_CAPPED};
    const char *const names[] = {"none", "paper", "capped"};
    for (size_t i = 0; i < 3; i++) {
        double last = INFINITY;
        for (size_t budget = 1; budget <= CHUNKS; budget++) {
            struct spaco_options options = spaco_options(SAMPLER_UNIFORM, budget, compensations[i]);
            double loss, *mean = expectation(&e, &options, &loss);
            double s = (double)CHUNKS / budget;
            double kv = i == 0 ? 1 : i == 1 ? s : fmin(s, 2);
            for (size_t k = 0; k < count; k++) {
                predicted[k] = 0;
                for (size_t p = 0; p < CHUNKS; p++)
                    predicted[k] += chain_weight(p + 1, budget, s, kv) * parts[p][k];
            }
            double bias = relative_l2(mean, e.exact, count);
            printf("uniform, compensation %-6s  t = %zu of %d: relative L2 bias %.4f\n", names[i], budget, CHUNKS,
                   bias);
            // The mean of the estimator is what the survival of chains says, to the roundings of taking it apart.
            assert_true(relative_l2(mean, predicted, count) < 1e-9);
            assert_true(fabs(loss - e.exact_loss) <= 1e-13 * e.exact_loss); // chains of one chunk are unbiased
            assert_true(bias < last);
            last = bias;
            free(mean);
        }
        assert_true(last < 1e-13); // t = K
    }
    for (size_t p = 0; p < CHUNKS; p++)
        free(parts[p]);
    free(predicted);
    estimate_close(&e);
}

// Sampler fixed repeats each sampler's draws, bit for bit; uniform draws exactly t.
static void test_fixed_repeats_any_draw(void **state)
{
    (void)state;
    struct estimate e;
    estimate_open(&e);
    const enum sampler samplers[] = {SAMPLER_UNIFORM, SAMPLER_BERNOULLI, SAMPLER_SEQUENTIAL};
    unsigned sets = 0;
    for (size_t i = 0; i < 3; i++) {
        for (size_t seed = 1; seed <= 8; seed++) {
            struct spaco_options options = spaco_options(samplers[i], 3, COMPENSATION_PAPER);
            options.sampler_seed = seed;
            double *drawn = fixture_step(&e.fixture, "spaco", &options, &e.report);
            unsigned bits = 0;
            for (size_t j = 0; j < e.report.drawn_chunks.count; j++)
                bits |= 1u << e.report.drawn_chunks.items[j];
            sets |= 1u << (bits % 31);
            assert_true(samplers[i] != SAMPLER_UNIFORM || e.report.drawn_chunks.count == 3);
            struct spaco_options fixed = fixed_options(&options, bits);
            double *again = fixture_step(&e.fixture, "spaco", &fixed, &e.report);
            assert_memory_equal(drawn, again, e.fixture.gradient_count * sizeof *drawn);
            index_list_free(&fixed.drawn_chunks);
            free(again);
            free(drawn);
        }
    }
    assert_true(sets & (sets - 1)); // not always the same set
    estimate_close(&e);
}

// Over many seeds each sampler draws each subset as often as it says.
static void test_draws_follow_probabilities(void **state)
{
    (void)state;
    const enum sampler samplers[] = {SAMPLER_UNIFORM, SAMPLER_BERNOULLI, SAMPLER_SEQUENTIAL};
    const size_t draws = 20000;
    for (size_t i = 0; i < 3; i++) {
        struct spaco_options options = spaco_options(samplers[i], 2, COMPENSATION_PAPER);
        size_t seen[1 << CHUNKS] = {0};
        for (size_t seed = 0; seed < draws; seed++) {
            options.sampler_seed = seed;
            struct draw draw = sampler_draw(&options, CHUNKS);
            unsigned bits = 0;
            for (size_t j = 0; j < draw.chunks.count; j++)
                bits |= 1u << draw.chunks.items[j];
            draw_free(&draw);
            seen[bits]++;
        }
        for (unsigned bits = 0; bits < 1u << CHUNKS; bits++) {
            struct spaco_options fixed = fixed_options(&options, bits);
            double p = sampler_probability(&options, CHUNKS, &fixed.drawn_chunks);
            double deviation = sqrt(p * (1 - p) / draws); // seeds are fixed: this holds or does not, always
            assert_true(fabs((double)seen[bits] / draws - p) <= 5 * deviation);
            index_list_free(&fixed.drawn_chunks);
        }
    }
}

// A trial's draws: the first is that of its own seed, all are the same whenever they are made, their seeds can be
// given as options, and together they follow the sampler: t chunks are the mean of bernoulli's.
static void test_draws_of_a_trial(void **state)
{
    (void)state;
    const struct method *spaco = method_find("spaco");
    const size_t draws = 4000;
    for (size_t budget = 1; budget <= CHUNKS; budget++) {
        struct spaco_options asked = spaco_options(SAMPLER_BERNOULLI, budget, COMPENSATION_PAPER), options;
        struct draw draw = {0}, again;
        size_t chunks = 0, seeds = 0, last = 0;
        asked.sampler_seed = budget;
        for (size_t i = 0; i < draws; i++) {
            options = asked;
            assert_true(spaco->draw(&options, i));
            assert_int_equal(options.sampler_seed, sampler_seed_of(budget, i));
            assert_true(options.sampler_seed <= (size_t)option_find(&spaco->options, "sampler_seed")->maximum);
            assert_true(i > 0 || options.sampler_seed == budget);
            seeds += options.sampler_seed != last;
            last = options.sampler_seed;
            draw_free(&draw);
            draw = sampler_draw(&options, CHUNKS);
            chunks += draw.chunks.count;
        }
        assert_int_equal(seeds, draws);
        double p = (double)budget / CHUNKS, deviation = sqrt(CHUNKS * p * (1 - p) / draws);
        assert_true(fabs((double)chunks / draws - budget) <= 5 * deviation);
        options = asked;
        spaco->draw(&options, draws - 1);
        again = sampler_draw(&options, CHUNKS);
        assert_true(index_list_equal(&again.chunks, &draw.chunks));
        draw_free(&again);
        draw_free(&draw);
    }
    struct spaco_options fixed = spaco_options(SAMPLER_FIXED, 1, COMPENSATION_PAPER);
    assert_false(spaco->draw(&fixed, 1));
    for (size_t i = 0; methods[i]; i++) {
        // Who draws is asked for all three.
        assert_true(!methods[i]->draw == !methods[i]->largest_draw);
        assert_true(!methods[i]->draw == !methods[i]->each_draw);
    }
}

struct seen {
    const struct method *method;
    double total;
    size_t draws, max; // most: after which to stop
};

static bool see(void *visitor, const void *options, double probability)
{
    struct seen *seen = visitor;
    void *copy = options_copy(&seen->method->options, options);
    assert_false(seen->method->draw(copy, 1)); // nothing is left to chance
    options_free(&seen->method->options, copy);
    assert_true(probability > 0);
    seen->total += probability;
    return ++seen->draws < seen->max;
}

static void test_each_draw(void **state)
{
    (void)state;
    const struct method *spaco = method_find("spaco");
    const size_t counts[] = {[SAMPLER_UNIFORM] = 20, [SAMPLER_BERNOULLI] = 64, [SAMPLER_SEQUENTIAL] = 42};
    for (enum sampler sampler = SAMPLER_UNIFORM; sampler <= SAMPLER_SEQUENTIAL; sampler++) {
        struct spaco_options options = spaco_options(sampler, 3, COMPENSATION_PAPER);
        struct seen seen = {.method = spaco, .max = SIZE_MAX}, few = {.method = spaco, .max = 5};
        struct status status = {0};
        assert_true(spaco->each_draw(&options, CHUNKS * CHUNK, 64, see, &seen, &status));
        assert_int_equal(seen.draws, counts[sampler]);
        assert_true(fabs(seen.total - 1) < 1e-14);
        assert_true(spaco->each_draw(&options, CHUNKS * CHUNK, 64, see, &few, &status));
        assert_int_equal(few.draws, 5);
        assert_false(spaco->each_draw(&options, CHUNKS * CHUNK, 19, see, &seen, &status));
        assert_non_null(strstr(status.message, "allow more than 19 sets of 6 chunks"));
        assert_int_equal(seen.draws, counts[sampler]);
    }
    struct spaco_options options = spaco_options(SAMPLER_SEQUENTIAL, 3, COMPENSATION_CAPPED);
    struct status status = {0};
    assert_false(spaco->each_draw(&options, CHUNKS * CHUNK, 64, see, NULL, &status));
    assert_int_equal(status.code, STATUS_UNSUPPORTED);
    options = spaco_options(SAMPLER_BERNOULLI, 3, COMPENSATION_PAPER);
    for (size_t chunks = 63; chunks <= 65; chunks++) { // about as many as a word has bits
        struct seen none = {.method = spaco, .max = 1};
        assert_false(spaco->each_draw(&options, chunks * CHUNK, 64, see, &none, &status));
        assert_int_equal(none.draws, 0);
    }
}

// A budget above the chunks asks for all; one below them stays.
static void test_budgets_fit(void **state)
{
    (void)state;
    const struct method *spaco = method_find("spaco");
    static const size_t budgets[][2] = {{1, 1}, {CHUNKS - 1, CHUNKS - 1}, {CHUNKS, CHUNKS}, {CHUNKS + 7, CHUNKS}};
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        struct spaco_options options = spaco_options(SAMPLER_UNIFORM, budgets[i][0], COMPENSATION_PAPER);
        spaco->fit(&options, CHUNKS * CHUNK);
        assert_int_equal(options.budget, budgets[i][1]);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv); // the BLAS kernels that the program itself uses
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objectives_unbiased),
        cmocka_unit_test(test_sums_of_sampled_chunks),
        cmocka_unit_test(test_latents_unbiased),
        cmocka_unit_test(test_bernoulli_unbiased),
        cmocka_unit_test(test_sequential_unbiased),
        cmocka_unit_test(test_uniform_bias_is_chain_survival),
        cmocka_unit_test(test_fixed_repeats_any_draw),
        cmocka_unit_test(test_draws_follow_probabilities),
        cmocka_unit_test(test_draws_of_a_trial),
        cmocka_unit_test(test_each_draw),
        cmocka_unit_test(test_budgets_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
