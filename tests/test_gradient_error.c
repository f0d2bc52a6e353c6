// Gradient errors by hand, hashes of gradients, the bound on rounding, and the gradient check's tolerance.
#include "harness/step/gradient_error.h"
#include "harness/step/rounding.h"
#include "harness/trial/reference.h"
#include "tests/fixture.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

// A set of two tensors, of 3 and 2 elements; release with gradient_set_free.
static struct gradient_set set_of(const double a[3], const double b[2])
{
    struct gradient_set set = {.count = 2, .tensors = calloc(2, sizeof *set.tensors)};
    const double *values[] = {a, b};
    for (size_t i = 0; i < 2; i++) {
        struct gradient_tensor *tensor = &set.tensors[i];
        snprintf(tensor->name, sizeof tensor->name, "tensor %zu", i);
        tensor->size = i == 0 ? 3 : 2;
        tensor->values = malloc(tensor->size * sizeof(double));
        memcpy(tensor->values, values[i], tensor->size * sizeof(double));
    }
    return set;
}

static struct gradient_report compare(const double a[3], const double b[2], const double ra[3], const double rb[2])
{
    struct gradient_set set = set_of(a, b), reference = set_of(ra, rb);
    struct gradient_report report;
    gradient_compare(&report, &set, &reference);
    gradient_set_free(&set);
    gradient_set_free(&reference);
    return report;
}

#define VALUES(...)        ((const double[]){__VA_ARGS__})
#define assert_close(a, b) assert_true(fabs((a) - (b)) <= 1e-15 * (1 + fabs(b)))

static void measures_by_hand(void **state)
{
    (void)state;
    struct gradient_report report =
        compare(VALUES(1, 2, 0.5), VALUES(3, 4), VALUES(1, 2, 0), VALUES(3, 4.5)); // differences 0.5 and -0.5
    double g = sqrt(1 + 4 + 0.25 + 9 + 16), r = sqrt(1 + 4 + 9 + 20.25);
    assert_close(report.overall.relative_l2, sqrt(0.5) / r);
    assert_close(report.overall.max_abs, 0.5);
    assert_close(report.overall.cosine, (1 + 4 + 9 + 18) / (g * r));
    assert_close(report.overall.decimals, -log10(0.5));
    assert_close(report.overall.mean_abs, 0.2);
    assert_close(report.overall.mean_relative, 0.5 / 4.5 / 4); // the element with r = 0 has none
    assert_close(report.tensors[0].error.relative_l2, 0.5 / sqrt(5));
    assert_close(report.tensors[1].error.relative_l2, 0.5 / sqrt(9 + 20.25));
    assert_int_equal(report.worst, 0);
    gradient_report_free(&report);
}

static void zero_references(void **state)
{
    (void)state;
    struct gradient_report report = compare(VALUES(0, 0, 0), VALUES(1, 0), VALUES(0, 0, 0), VALUES(0, 0));
    assert_true(report.tensors[0].error.relative_l2 == 0);
    assert_true(report.tensors[0].error.cosine == 1);
    assert_true(isinf(report.tensors[0].error.decimals));
    // Nothing has a norm: 1 is the whole gradient's, which two of five elements share.
    assert_close(report.overall.relative_l2, 1.);
    assert_close(report.tensors[1].error.relative_l2, 1 / sqrt(2. / 5));
    assert_true(report.tensors[1].error.cosine == 0);
    assert_int_equal(report.worst, 1);
    gradient_report_free(&report);
    // One tensor is 0 but for f64's rounding, and another not quite.
    static const double nothing[] = {0, 4e-12, 7e-12};
    for (size_t i = 0; i < 3; i++) {
        report = compare(VALUES(3, 4, 0), VALUES(0, nothing[i] + 1e-6), VALUES(3, 4, 0), VALUES(0, nothing[i]));
        double share = 5 * sqrt(2. / 5), scale = nothing[i] < 1e-12 * share ? share : nothing[i];
        assert_int_equal(gradient_vanishes(&report.tensors[1].error), scale == share);
        assert_close(report.tensors[1].error.share_l2, share);
        assert_true(fabs(report.tensors[1].error.relative_l2 * scale - 1e-6) < 1e-15);
        assert_true(report.tensors[0].error.relative_l2 == 0);
        gradient_report_free(&report);
    }
}

static void not_a_number_reaches_every_measure(void **state)
{
    (void)state;
    struct gradient_report report =
        compare(VALUES(1, NAN, 9), VALUES(7, 4), VALUES(1, 2, 3), VALUES(3, 4)); // larger differences follow it
    const struct gradient_error *e = &report.overall;
    assert_true(isnan(e->relative_l2) && isnan(e->max_abs) && isnan(e->cosine));
    assert_true(isnan(e->decimals) && isnan(e->mean_abs) && isnan(e->mean_relative));
    assert_int_equal(report.worst, 0);
    gradient_report_free(&report);
}

// The gradient of `full` or `seco` in a dtype, or with another accumulator dtype.
static struct gradient_set taken(enum dtype dtype, const char *method, bool reverse_sums)
{
    struct fixture fixture = fixture_default();
    void *options = fixture_options(method_find(method), "chunk=4");
    struct gradient_set set;
    struct step_report report = {0};
    fixture.dtype = dtype;
    fixture_open(&fixture);
    fixture.device->reverse_sums = reverse_sums;
    free(fixture_step(&fixture, method, options, &report));
    options_free(&method_find(method)->options, options);
    gradient_set_take(&set, &fixture.model);
    // By their definition: of the device's bytes, and of a text of them.
    char text[8192] = "";
    for (size_t i = 0; i < set.count; i++) {
        const struct tensor grad = model_parameter(&fixture.model, set.tensors[i].name)->grad;
        assert_true(set.tensors[i].hash == XXH3_64bits(grad.data, tensor_bytes(grad)));
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s %016" PRIx64 "\n", set.tensors[i].name,
                 set.tensors[i].hash);
    }
    assert_true(set.count > 2 && set.hash == XXH3_64bits(text, strlen(text)));
    fixture_close(&fixture);
    return set;
}

static void hashes_tell_bits_apart(void **state)
{
    (void)state;
    struct gradient_set sets[] = {taken(DTYPE_F32, "full", false), taken(DTYPE_F32, "full", false),
                                  taken(DTYPE_F64, "full", false), taken(DTYPE_F32, "full", true),
                                  taken(DTYPE_F32, "seco", false)};
    for (size_t i = 1; i < sizeof sets / sizeof *sets; i++)
        assert_int_equal(sets[0].hash == sets[i].hash, i == 1);
    struct gradient_report report;
    gradient_compare(&report, &sets[0], &sets[2]);
    assert_true(report.hash == sets[0].hash);
    for (size_t i = 0; i < report.count; i++)
        assert_true(report.tensors[i].hash == sets[0].tensors[i].hash);
    gradient_report_free(&report);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        gradient_set_free(&sets[i]);
}

// A trial of a model whose numbers the bound is computed from by hand.
static struct trial trial_in(enum dtype dtype)
{
    return (struct trial){.method = method_find("full"),
                          .config = {.layers = 3, .width = 32, .ffn = 48, .vocab = 67},
                          .dtype = dtype,
                          .kv_gradient_dtype = dtype_accumulator(dtype),
                          .gradient_dtype = dtype_accumulator(dtype),
                          .context = 64,
                          .batch = 2,
                          .objective = objective_find("token-mean")};
}

// sigma of 3 layers: 4 (4 L + 28) results that are stored, 64 (L + 1) sums of 2^levels terms.
static double by_hand(double stored, double sum, double levels)
{
    return 0.4247 * sqrt(160 * stored * stored + 256 * levels * sum * sum);
}

static bool is(double value, double expected)
{
    return fabs(value / expected - 1) < 1e-12;
}

static void the_bound_follows_from_dtype_and_shape(void **state)
{
    (void)state;
    static const struct {
        enum dtype dtype;
        double stored, sum;
    } cases[] = {{DTYPE_F64, 0x1p-53, 0x1p-53}, {DTYPE_F32, 0x1p-24, 0x1p-24}, {DTYPE_BF16, 0x1p-8, 0x1p-24}};
    double f64 = by_hand(0x1p-53, 0x1p-53, 7);
    for (size_t i = 0; i < 3; i++) {
        struct trial trial = trial_in(cases[i].dtype);
        double own = by_hand(cases[i].stored, cases[i].sum, 7), sums = by_hand(cases[i].sum, cases[i].sum, 7);
        static const double noise[][2] = {{0, 5},    {0.49, 5},   {0.6, 6},
                                          {2.3, 23}, {24.9, 249}, {30, 300}}; // in sigma
        for (size_t j = 0; j < 6; j++) {
            struct rounding rounding = rounding_of(&trial, noise[j][0] * f64);
            assert_true(is(rounding.relative, noise[j][1] * own));
            assert_true(is(rounding.cancelled, noise[j][1] * sums));
            assert_int_equal(rounding.decides, noise[j][1] <= (cases[i].dtype == DTYPE_BF16 ? 6 : 249));
        }
    }
    struct trial trial = trial_in(DTYPE_F32);
    trial.tf32 = true;
    assert_true(is(rounding_of(&trial, 0).relative, 5 * by_hand(0x1p-11, 0x1p-24, 7)));
    trial.tf32 = false;
    trial.config.vocab = 1 << 14;
    assert_true(is(rounding_of(&trial, 0).relative, 5 * by_hand(0x1p-24, 0x1p-24, 14)));
}

// Sums in bf16 get a part of each chunk, of the head's if that is shorter.
static void the_bound_counts_parts_of_sums_in_bf16(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        double parts;
    } cases[] = {{"chunk=8 head_chunk=0", 8}, {"chunk=30", 3}, {"chunk=8 head_chunk=2", 32}};
    for (size_t i = 0; i < 3; i++) {
        struct trial trial = trial_in(DTYPE_BF16);
        double wide = rounding_of(&trial, 0).relative, part = 5 * 0.4247 * 0x1p-8;
        trial.method = method_find("seco");
        void *options = fixture_options(trial.method, cases[i].options);
        trial.options = options;
        assert_true(rounding_of(&trial, 0).relative == wide);
        trial.gradient_dtype = DTYPE_BF16;
        assert_true(is(rounding_of(&trial, 0).relative, sqrt(wide * wide + part * part * cases[i].parts / 2)));
        options_free(&trial.method->options, options);
    }
}

// Errors of the two tensors of a gradient and of a noise floor, as multiples of the bound. verdict() returns how
// reference_judge judges them against a reference of (3, 4, 0) and (0, second).
struct off {
    double first, second; // of the gradient
    double floor_first, floor_second;
};
static struct status verdict(enum dtype dtype, double second, struct off off)
{
    struct trial trial = trial_in(dtype);
    double bound = rounding_of(&trial, 0).relative;
    struct reference reference = {.floor = compare(VALUES(3, 4, bound * off.floor_first),
                                                   VALUES(bound * off.floor_second, second), VALUES(3, 4, 0),
                                                   VALUES(0, second))};
    struct gradient_report report = compare(VALUES(3, 4, bound * off.first), VALUES(bound * off.second, second),
                                            VALUES(3, 4, 0), VALUES(0, second));
    struct status status = {0};
    struct rounding_verdict judged;
    bool accepted = reference_judge(&judged, &reference, &trial, &report, &status);
    assert_int_equal(accepted, status.code == STATUS_OK);
    assert_string_equal(judged.name, accepted ? "within" : "beyond");
    gradient_report_free(&report);
    gradient_report_free(&reference.floor);
    return status;
}

static void errors_and_floor_are_held_against_the_bound(void **state)
{
    (void)state;
    static const struct {
        double second;
        struct off off;
        const char *message; // NULL: accepted
    } cases[] = {
        {12, {0, 0, 0, 0}, NULL},
        {12, {12.9, 0, 12.9, 0}, NULL}, // of 13
        {12, {13.1, 0, 0, 0}, "the gradient is off: relative L2"},
        {12, {0, 0, 13.1, 0}, "the gradient depends on the order of sums: full summed in another order is off"},
        {12, {NAN, 0, 0, 0}, "the gradient is off: relative L2 nan"},
        {12, {0, INFINITY, 0, 0}, "the gradient is off: relative L2 inf"},
        {12, {9.5, 9.5, 0, 0}, "the gradient is off"}, // each is good, both are not
        // A tensor's is three times as large: of its norm, 1.2, or of a tenth of sqrt(2 / 5) of 5.
        {1.2, {0, 3.5, 0, 3.5}, NULL},
        {1.2, {0, 3.7, 0, 0}, "the gradient of tensor 1 is off"},
        {1.2, {0, 0, 0, 3.7}, "the gradient of tensor 1 depends on the order of sums"},
        {0.01, {0, 0.94, 0, 0}, NULL},
        {0.01, {0, 0.96, 0, 0}, "the gradient of tensor 1 is off"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct status status = verdict(DTYPE_BF16, cases[i].second, cases[i].off);
        const char *expected = cases[i].message;
        if ((status.code == STATUS_OK) != !expected || (expected && !strstr(status.message, expected)))
            fail_msg("%zu: expected \"%s\": %s", i, expected ? expected : "nothing", status.message);
    }
}

// A tensor that is 0 has what the dtype of statistics leaves of its share, more than of one that is small in bf16;
// and a gradient that is 0 altogether has that of 1.
static void what_vanishes_is_held_against_its_share(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    for (size_t i = 0; i < 3; i++) // of all together, 5 is the most
        assert_int_equal(verdict(dtypes[i], 0, (struct off){0, 4.9, 0, 4.9}).code,
                         dtypes[i] == DTYPE_BF16 ? STATUS_FAILED : STATUS_OK);
    struct trial trial = trial_in(DTYPE_BF16);
    double bound = rounding_of(&trial, 0).cancelled;
    for (int over = 0; over < 2; over++) {
        double error = bound * (over ? 1.01 : 0.99);
        struct reference reference = {.floor =
                                          compare(VALUES(0, 0, 0), VALUES(0, 0), VALUES(0, 0, 0), VALUES(0, 0))};
        struct gradient_report report =
            compare(VALUES(error, 0, 0), VALUES(0, 0), VALUES(0, 1e-16, 0), VALUES(0, 0));
        struct status status = {0};
        struct rounding_verdict judged;
        assert_int_equal(reference_judge(&judged, &reference, &trial, &report, &status), !over);
        assert_true(is(judged.bound, bound) && is(judged.bound_share, over ? 1.01 : 0.99));
        gradient_report_free(&report);
        gradient_report_free(&reference.floor);
    }
}

// A bound above a quarter of the gradient leaves what is within it undecided, and so does a reference that moves by
// more than 25 sigma of f64; what is beyond a bound fails whatever it is.
static void a_bound_that_cannot_tell_leaves_it_undecided(void **state)
{
    (void)state;
    static const struct {
        enum dtype dtype;
        double noise, error; // of the bound
        const char *name;
    } cases[] = {{DTYPE_BF16, 0, 0.9, "within"},      {DTYPE_BF16, 1.2, 0.9, "undecided"},
                 {DTYPE_BF16, 1.2, 1.1, "beyond"},    {DTYPE_F32, 24.9, 0.9, "within"},
                 {DTYPE_F32, 25.1, 0.9, "undecided"}, {DTYPE_F32, 25.1, 1.1, "beyond"},
                 {DTYPE_F32, 0, NAN, "beyond"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trial trial = trial_in(cases[i].dtype);
        struct reference reference = {.noise = cases[i].noise * by_hand(0x1p-53, 0x1p-53, 7)};
        double bound = rounding_of(&trial, reference.noise).relative;
        reference.floor = compare(VALUES(3, 4, 0), VALUES(0, 12), VALUES(3, 4, 0), VALUES(0, 12));
        struct gradient_report report =
            compare(VALUES(3, 4, 0), VALUES(0, 12 + 13 * bound * cases[i].error), VALUES(3, 4, 0), VALUES(0, 12));
        struct status status = {0};
        struct rounding_verdict judged;
        bool accepted = reference_judge(&judged, &reference, &trial, &report, &status);
        assert_string_equal(judged.name, cases[i].name);
        assert_int_equal(accepted, strcmp(cases[i].name, "beyond") != 0);
        assert_true(is(judged.bound, bound));
        assert_true(isnan(cases[i].error) ? isnan(judged.bound_share)
                                          : fabs(judged.bound_share / cases[i].error - 1) < 1e-9);
        gradient_report_free(&report);
        gradient_report_free(&reference.floor);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measures_by_hand),
        cmocka_unit_test(zero_references),
        cmocka_unit_test(not_a_number_reaches_every_measure),
        cmocka_unit_test(hashes_tell_bits_apart),
        cmocka_unit_test(the_bound_follows_from_dtype_and_shape),
        cmocka_unit_test(the_bound_counts_parts_of_sums_in_bf16),
        cmocka_unit_test(errors_and_floor_are_held_against_the_bound),
        cmocka_unit_test(what_vanishes_is_held_against_its_share),
        cmocka_unit_test(a_bound_that_cannot_tell_leaves_it_undecided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
