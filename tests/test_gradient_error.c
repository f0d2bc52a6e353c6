// Gradient errors by hand, hashes of gradients, and what the gradient check lets pass.
#include "harness/run/gradient_error.h"
#include "harness/run/reference.h"
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
    assert_true(isinf(report.tensors[1].error.relative_l2));
    assert_true(report.tensors[1].error.cosine == 0);
    assert_int_equal(report.worst, 1);
    gradient_report_free(&report);
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

// What `full` or `seco` comes to in a dtype, or with another dtype of a sum.
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

// A gradient whose second tensor is off by `error`.
static struct gradient_report off_by(double error)
{
    return compare(VALUES(1, 2, 3), VALUES(3, 4 + 5 * error), VALUES(1, 2, 3), VALUES(3, 4));
}

// What reference_accepts says of it, where another order of sums makes `floor`, and sums in bf16 `of_sums`; 0:
// none.
static struct status verdict(enum dtype dtype, double error, double floor, double of_sums)
{
    struct reference reference = {.gradients = set_of(VALUES(1, 2, 3), VALUES(3, 4)), .floor = off_by(floor)};
    struct gradient_report report = off_by(error), sums = {0};
    if (of_sums != 0)
        sums = off_by(of_sums);
    struct status status = {0};
    bool accepted = reference_accepts(&reference, dtype, &report, &sums, &status);
    assert_int_equal(accepted, status.code == STATUS_OK);
    gradient_report_free(&report);
    gradient_report_free(&sums);
    reference_free(&reference);
    return status;
}

static void check_accepts_rounding_alone(void **state)
{
    (void)state;
    assert_int_equal(verdict(DTYPE_F64, 0, 0, 0).code, STATUS_OK);
    assert_int_equal(verdict(DTYPE_F64, 9e-13, 0, 0).code, STATUS_OK);
    struct status off = verdict(DTYPE_F64, 1.1e-12, 0, 0);
    assert_int_equal(off.code, STATUS_FAILED);
    assert_non_null(strstr(off.message, "tensor 1"));
    assert_int_equal(verdict(DTYPE_F64, 3.1e-6, 1e-7, 0).code, STATUS_OK);
    assert_int_equal(verdict(DTYPE_F64, 3.3e-6, 1e-7, 0).code, STATUS_FAILED);
    // Where another order of sums changes nothing, results are rounded all the same.
    assert_int_equal(verdict(DTYPE_BF16, 0.12, 1e-7, 0).code, STATUS_OK);
    assert_int_equal(verdict(DTYPE_BF16, 0.13, 1e-7, 0).code, STATUS_FAILED);
    assert_int_equal(verdict(DTYPE_F64, NAN, 1e-7, 0).code, STATUS_FAILED);
    assert_int_equal(verdict(DTYPE_F64, INFINITY, 1e-7, 0).code, STATUS_FAILED);
    // Where it changes much, nothing and the opposite are no gradients all the same: half of one is the most.
    assert_int_equal(verdict(DTYPE_BF16, 0.31, 0.01, 0).code, STATUS_OK);
    assert_int_equal(verdict(DTYPE_BF16, 0.33, 0.01, 0).code, STATUS_FAILED);
    assert_int_equal(verdict(DTYPE_BF16, 0.49, 0.05, 0).code, STATUS_OK);
    assert_int_equal(verdict(DTYPE_BF16, 0.51, 0.05, 0).code, STATUS_FAILED);
    // But one that is noise itself, as that of keys' biases is.
    assert_int_equal(verdict(DTYPE_BF16, 3.9, 1, 0).code, STATUS_OK);
    assert_int_equal(verdict(DTYPE_BF16, 4.1, 1, 0).code, STATUS_FAILED);
    // What sums in bf16 change is rounding, too.
    assert_int_equal(verdict(DTYPE_BF16, 0.31, 1e-7, 0.01).code, STATUS_OK);
    assert_int_equal(verdict(DTYPE_BF16, 0.33, 1e-7, 0.01).code, STATUS_FAILED);
}

// Where one tensor is rounded more than all are together, each may be off by so much, but not both at once.
static void check_is_of_all_together(void **state)
{
    (void)state;
    static const double errors[][2] = {{2.5e-6, 0}, {0, 3.1e-6}, {2.5e-6, 3.1e-6}};
    for (size_t i = 0; i < 3; i++) {
        struct reference reference = {.floor = off_by(1e-7)};
        struct gradient_report report = compare(VALUES(1, 2, 3 + sqrt(14) * errors[i][0]),
                                                VALUES(3, 4 + 5 * errors[i][1]), VALUES(1, 2, 3), VALUES(3, 4));
        const struct gradient_report sums = {0};
        struct status status = {0};
        assert_int_equal(reference_accepts(&reference, DTYPE_F64, &report, &sums, &status), i < 2);
        if (i == 2)
            assert_non_null(strstr(status.message, "the gradient is off: relative L2 2.9"));
        gradient_report_free(&report);
        gradient_report_free(&reference.floor);
    }
}

// A gradient that is 0 but for rounding is no smaller than what the others were rounded by.
static void check_accepts_nothing_for_nothing(void **state)
{
    (void)state;
    static const struct {
        enum dtype dtype;
        double value;
        bool accepted;
    } cases[] = {{DTYPE_F64, 1e-16, true}, {DTYPE_F64, 1e-15, false}, {DTYPE_F32, 1e-7, true},
                 {DTYPE_F32, 1e-6, false}, {DTYPE_BF16, 1e-7, true},  {DTYPE_BF16, 1e-6, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double value = cases[i].value;
        struct reference reference = {
            .floor = compare(VALUES(0, 2, 0), VALUES(0, 1e-18), VALUES(0, 2, 0), VALUES(0, 1e-18))};
        struct gradient_report report =
            compare(VALUES(0, 2, 0), VALUES(0, value), VALUES(0, 2, 0), VALUES(0, 1e-18));
        const struct gradient_report sums = {0};
        struct status status = {0};
        assert_int_equal(reference_accepts(&reference, cases[i].dtype, &report, &sums, &status), cases[i].accepted);
        gradient_report_free(&report);
        gradient_report_free(&reference.floor);
    }
}

// So is one that the dtype makes of nothing, 1e-6 long here: what another order of its sums changes is no less.
static void check_accepts_what_rounding_makes_of_nothing(void **state)
{
    (void)state;
    static const struct {
        double value, of_sums;
        bool accepted;
    } cases[] = {
        {3.9e-6, 0, true}, {4.1e-6, 0, false}, {NAN, 0, false}, {3.9e-5, 1e-5, true}, {4.1e-5, 1e-5, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reference reference = {
            .floor = compare(VALUES(0, 2, 0), VALUES(1e-6, 1e-6), VALUES(0, 2, 0), VALUES(1e-6, 0))};
        struct gradient_report report =
            compare(VALUES(0, 2, 0), VALUES(cases[i].value, 0), VALUES(0, 2, 0), VALUES(0, 1e-18));
        struct gradient_report sums = {0};
        if (cases[i].of_sums > 0)
            sums = compare(VALUES(0, 2, 0), VALUES(cases[i].of_sums, cases[i].of_sums), VALUES(0, 2, 0),
                           VALUES(cases[i].of_sums, 0));
        struct status status = {0};
        assert_int_equal(reference_accepts(&reference, DTYPE_F32, &report, &sums, &status), cases[i].accepted);
        gradient_report_free(&report);
        gradient_report_free(&sums);
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
        cmocka_unit_test(check_accepts_rounding_alone),
        cmocka_unit_test(check_is_of_all_together),
        cmocka_unit_test(check_accepts_nothing_for_nothing),
        cmocka_unit_test(check_accepts_what_rounding_makes_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
