// Projectors: the directions that are found lose least, and all of them nothing.
#include "kernels/device/eigen.h"
#include "kernels/layers/projector.h"
#include "tests/fixture.h"
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { BLOCK = 1024, RANK = 4 }; // rows that are converted at a time

static struct tensor random_matrix(struct device *device, size_t rows, size_t cols)
{
    struct tensor t = tensor_new(device, rows, cols, device->ops->dtype, CATEGORY_DATA);
    op_random_normal(device, t, random_named(rows, "matrix"), 0, 1, device->ops->dtype);
    return t;
}

static const size_t shapes[][2] = {{1, 1}, {7, 3}, {3, 7}, {40, 40}, {300, 40}, {40, 300}, {1100, 9}};

// In all directions of its shorter side a matrix is itself: there and back nothing is lost.
static void all_directions_lose_nothing(void **state)
{
    (void)state;
    struct status status = {0};
    struct device *device = device_open("cpu", DTYPE_F64, 0, &status);
    for (size_t i = 0; i < COUNT(shapes); i++) {
        size_t rows = shapes[i][0], cols = shapes[i][1];
        struct tensor g = random_matrix(device, rows, cols);
        struct tensor p = matrix_like(device, projector_shape(rows, cols, 1000));
        struct tensor r = matrix_like(device, projected_shape(rows, cols, 1000));
        struct tensor back = matrix_like(device, g);
        projector_find(device, p, g);
        projector_project(device, r, p, g);
        projector_back(device, back, p, r, rows, 0, 1);
        double *expected = numbers_of(device, g), *found = numbers_of(device, back);
        assert_true(relative_l2(found, expected, rows * cols) < 1e-13);
        free(found);
        free(expected);
        tensor_free(device, &back);
        tensor_free(device, &r);
        tensor_free(device, &p);
        tensor_free(device, &g);
    }
    assert_int_equal(device->status.code, STATUS_OK);
    assert_int_equal(device->host.live_bytes, 0);
    device_close(device);
}

// A matrix of several blocks of rows has the R of one product.
static void blocks_add_up(void **state)
{
    (void)state;
    struct status status = {0};
    struct device *device = device_open("cpu", DTYPE_F64, 0, &status);
    enum { ROWS = 2 * BLOCK + 9, COLS = ROWS + 5 };
    struct tensor g = random_matrix(device, ROWS, COLS), p = random_matrix(device, ROWS, RANK);
    struct tensor r = matrix_like(device, projected_shape(ROWS, COLS, RANK)), at_once = matrix_like(device, r);
    projector_project(device, r, p, g);
    op_gemm(device, at_once, p, TRANSPOSE, g, NO_TRANSPOSE, 1, 0);
    double *found = numbers_of(device, r), *expected = numbers_of(device, at_once);
    assert_true(relative_l2(found, expected, RANK * COLS) < 1e-14);
    free(expected);
    free(found);
    tensor_free(device, &at_once);
    tensor_free(device, &r);
    tensor_free(device, &p);
    tensor_free(device, &g);
    device_close(device);
}

// No other directions leave less: what is left is the sum of the smaller eigenvalues, which those of all directions
// give; and the bits are the same on one thread and on three.
static void the_directions_lose_least(void **state)
{
    (void)state;
    struct status status = {0};
    int threads = omp_get_max_threads();
    struct device *device = device_open("cpu", DTYPE_F32, 0, &status);
    for (size_t i = 0; i < COUNT(shapes); i++) {
        size_t rows = shapes[i][0], cols = shapes[i][1], s = rows < cols ? rows : cols, rank = (s + 1) / 2;
        struct tensor g = random_matrix(device, rows, cols);
        double *all = zeros(eigen_scratch(rows, cols, s)), *some = zeros(eigen_scratch(rows, cols, rank));
        double *again = zeros(eigen_scratch(rows, cols, rank)), *numbers = numbers_of(device, g);
        assert_true(eigen_leading(g, s, false, all, &status));
        omp_set_num_threads(1);
        assert_true(eigen_leading(g, rank, true, some, &status));
        omp_set_num_threads(3);
        assert_true(eigen_leading(g, rank, true, again, &status));
        omp_set_num_threads(threads);
        assert_memory_equal(again, some, s * rank * sizeof *some);
        double before = HUGE_VAL;
        for (size_t k = 0; k < s; k++) {
            double squares = 0; // of what the matrix is along vector k
            for (size_t other = 0; other < rows * cols / s; other++) {
                double sum = 0;
                for (size_t j = 0; j < s; j++)
                    sum += all[k * s + j] * numbers[rows < cols ? j * cols + other : other * cols + j];
                squares += sum * sum;
            }
            assert_true(squares <= before * (1 + 1e-12));
            before = squares;
            for (size_t j = 0; k < rank && j < s; j++)
                assert_true(fabs(some[j * rank + k] - all[k * s + j]) < 1e-10);
            for (size_t other = 0; other <= k; other++) {
                double product = 0;
                for (size_t j = 0; j < s; j++)
                    product += all[k * s + j] * all[other * s + j];
                assert_true(fabs(product - (other == k)) < 1e-13 * (double)(s + 1));
            }
        }
        free(numbers);
        free(again);
        free(some);
        free(all);
        tensor_free(device, &g);
    }
    device_close(device);
}

static void gradients_that_are_not_finite_are_refused(void **state)
{
    (void)state;
    struct status status = {0};
    struct device *device = device_open("cpu", DTYPE_BF16, 0, &status);
    struct tensor g = random_matrix(device, 6, 5), p = matrix_like(device, projector_shape(6, 5, 2));
    double *numbers = numbers_of(device, g);
    numbers[17] = NAN;
    tensor_write(device, g, numbers);
    projector_find(device, p, g);
    assert_int_equal(device->status.code, STATUS_FAILED);
    assert_non_null(strstr(device->status.message, "is not finite"));
    free(numbers);
    tensor_free(device, &p);
    tensor_free(device, &g);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_directions_lose_nothing),
        cmocka_unit_test(blocks_add_up),
        cmocka_unit_test(the_directions_lose_least),
        cmocka_unit_test(gradients_that_are_not_finite_are_refused),
    };
    return cmocka_run_group_tests_name("projectors", tests, NULL, NULL);
}
