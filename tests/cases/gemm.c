// GEMM: one tile, several, and tiles with a remainder; every transpose, alpha, beta; sums into either dtype.
#include "tests/cases/cases.h"
#include <string.h>

// c->values = alpha * op(a) * op(b) + beta * c->values
static void reference(struct operand *c, const struct operand *a, bool transpose_a, const struct operand *b,
                      bool transpose_b, double alpha, double beta)
{
    size_t m = c->tensor.rows, n = c->tensor.cols, k = transpose_a ? a->tensor.rows : a->tensor.cols;
    double *right = malloc((k * n + 1) * sizeof *right); // op(b)
    CHECK(right);
    for (size_t i = 0; i < k * n; i++)
        right[i] = b->values[transpose_b ? i % n * k + i / n : i];
#pragma omp parallel for schedule(static) if (m * n * k > 100000)
    for (size_t i = 0; i < m; i++) {
        double *row = c->values + i * n;
        for (size_t j = 0; j < n; j++)
            row[j] = beta == 0 ? 0 : beta * row[j];
        for (size_t l = 0; l < k; l++) {
            double factor = alpha * a->values[transpose_a ? l * m + i : i * k + l];
            for (size_t j = 0; j < n; j++)
                row[j] += factor * right[l * n + j];
        }
    }
    free(right);
}

void gemm_cases(struct cases *c)
{
    static const size_t shapes[][3] = {{1, 1, 1},        {3, 5, 7},     {64, 33, 129},  {300, 260, 70},
                                       {1030, 260, 5},   {17, 400, 60}, {256, 8, 4096}, {8, 4096, 256},
                                       {2048, 512, 512}, {1, 4096, 64}};
    enum dtype dtypes[2];
    size_t kinds = case_accumulators(c, dtypes);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        size_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
        for (size_t variant = 0; variant < 16 && !case_is_too_large(c, (double)(m * n)); variant++) {
            bool ta = variant & 1, tb = variant & 2, reverse = variant == 5 || variant == 10;
            double alpha = variant & 4 ? 0.5 : 1, beta = variant & 8 ? 1 : 0;
            for (size_t kind = 0; kind < kinds; kind++) {
                c->offset = s % 3 == 1;
                struct operand *a = case_random(c, ta ? k : m, ta ? m : k, 1, "a");
                struct operand *b = case_random(c, tb ? n : k, tb ? k : n, 1, "b");
                struct operand *to = beta == 0 ? case_output_in(c, dtypes[kind], m, n)
                                               : case_random_in(c, dtypes[kind], m, n, 1, "c");
                c->device->reverse_sums = reverse ? 1 + s % 3 : 0;
                CASE_RUN(c, op_gemm(c->device, to->tensor, a->tensor, ta, b->tensor, tb, alpha, beta));
                c->device->reverse_sums = 0;
                reference(to, a, ta, b, tb, alpha, beta);
                // Parts of a reversed sum meet in the result's dtype.
                bool narrow = dtypes[kind] == c->device->ops->dtype;
                double added = c->product_roundings * ((beta != 0) + reverse);
                case_check(c, to, narrow * (1.0 + reverse + added), case_growth(k), "to %s, k %zu variant %zu",
                           dtype_name(dtypes[kind]), k, variant);
                case_end(c);
            }
        }
    }
    c->offset = 0;
    // Rows of a larger matrix.
    struct operand *all = case_random(c, 70, 33, 1, "all"), *b = case_random(c, 33, 65, 1, "b");
    struct operand *to = case_output(c, 40, 65);
    struct tensor rows = tensor_rows(all->tensor, 7, 40);
    CASE_RUN(c, op_gemm(c->device, to->tensor, rows, NO_TRANSPOSE, b->tensor, NO_TRANSPOSE, 1, 0));
    struct operand view = {.tensor = rows, .values = all->values + 7 * all->tensor.cols};
    reference(to, &view, false, b, false, 1, 0);
    case_check(c, to, 1, case_growth(33), "of a view");
    case_end(c);
    // With no terms c = beta * c, and beta = 0 does not read c.
    for (size_t variant = 0; variant < 8; variant++) {
        bool ta = variant & 1, tb = variant & 2;
        double beta = variant < 4 ? 0 : 0.5;
        for (size_t kind = 0; kind < kinds; kind++) {
            struct operand *none = case_random(c, ta ? 0 : 17, ta ? 17 : 0, 1, "a");
            struct operand *nothing = case_random(c, tb ? 33 : 0, tb ? 0 : 33, 1, "b");
            struct operand *as_was = beta == 0 ? case_output_in(c, dtypes[kind], 17, 33)
                                               : case_random_in(c, dtypes[kind], 17, 33, 1, "c");
            CASE_RUN(c, op_gemm(c->device, as_was->tensor, none->tensor, ta, nothing->tensor, tb, 1, beta));
            reference(as_was, none, ta, nothing, tb, 1, beta);
            case_check(c, as_was, 0, 0, "of no terms, beta %g, to %s", beta, dtype_name(dtypes[kind]));
            case_end(c);
        }
    }
    // Factors of 10 bits, where the device has units for it; f32 alone knows it.
    bool f32 = c->device->ops->dtype == DTYPE_F32;
    struct operand *left = case_random(c, 300, 70, 1, "a"), *right = case_random(c, 70, 260, 1, "b");
    struct operand *product = case_output(c, 300, 260);
    c->device->tf32 = true;
    CASE_RUN(c, op_gemm(c->device, product->tensor, left->tensor, NO_TRANSPOSE, right->tensor, NO_TRANSPOSE, 1, 0));
    c->device->tf32 = false;
    reference(product, left, false, right, false, 1, 0);
    case_check(c, product, 1, f32 ? 0x1p-10 / dtype_epsilon(DTYPE_F32) : case_growth(70), "in tf32");
    case_end(c);
}

// The addend keeps its values, even if the product has no terms (k = 0).
void gemm_onto_cases(struct cases *c)
{
    enum dtype dtypes[2];
    size_t kinds = case_accumulators(c, dtypes);
    for (size_t variant = 0; variant < 12; variant++) {
        size_t m = 70, n = 65, k = variant >= 8 ? 0 : 33;
        bool ta = variant & 1, tb = variant & 2, reverse = variant & 4;
        for (size_t kind = 0; kind < kinds; kind++) {
            c->offset = variant % 3 == 1;
            struct operand *a = case_random(c, ta ? k : m, ta ? m : k, 1, "a");
            struct operand *b = case_random(c, tb ? n : k, tb ? k : n, 1, "b");
            struct operand *from = case_random_in(c, dtypes[kind], m, n, 1, "c");
            struct operand *to = case_output_in(c, dtypes[kind], m, n);
            c->device->reverse_sums = reverse;
            CASE_RUN(c, op_gemm_onto(c->device, to->tensor, from->tensor, a->tensor, ta, b->tensor, tb));
            c->device->reverse_sums = false;
            memcpy(to->values, from->values, m * n * sizeof *to->values);
            reference(to, a, ta, b, tb, 1, 1);
            bool narrow = dtypes[kind] == c->device->ops->dtype;
            case_check(c, to, k ? narrow * (1.0 + reverse + c->product_roundings * (1.0 + reverse)) : 0,
                       k ? case_growth(k) : 0, "onto another, to %s, k %zu variant %zu", dtype_name(dtypes[kind]),
                       k, variant);
            case_check(c, from, 0, 0, "what it is onto, variant %zu", variant);
            case_end(c);
        }
    }
}

// A product alone, a gradient alone, and both in one pass.
enum { PRODUCT = 1, GRADIENT = 2 };

static void low_rank_case(struct cases *c, size_t rows, size_t cols, size_t rank, enum transpose transpose,
                          int wanted, enum dtype sums)
{
    bool whole = transpose, own = c->device->ops->dtype == DTYPE_BF16;
    size_t f_rows = whole ? rank : cols, f_cols = whole ? cols : rank;
    double alpha = whole ? 1 : 0.5;
    struct operand *wide = case_random(c, rows, cols, 1, "wide");
    struct operand *factor = case_random(c, f_rows, f_cols, 1, "factor");
    struct operand *coefficients = case_random(c, rows, rank, 1, "coefficients");
    struct operand *product = case_output(c, rows, rank);
    struct operand *grad = case_random_in(c, sums, f_rows, f_cols, 1, "grad");
    CASE_RUN(c, op_low_rank(c->device, wanted & PRODUCT ? product->tensor : tensor_none(),
                            wanted & GRADIENT ? grad->tensor : tensor_none(), wide->tensor, factor->tensor,
                            transpose, wanted & GRADIENT ? coefficients->tensor : tensor_none(), alpha));
    if (wanted & PRODUCT) {
        reference(product, wide, false, factor, whole, alpha, 0);
        case_check(c, product, 1, case_growth(cols), "product of %zu x %zu, rank %zu, form %d", rows, cols, rank,
                   wanted + 4 * transpose);
    }
    if (wanted & GRADIENT) {
        reference(grad, whole ? coefficients : wide, true, whole ? wide : coefficients, false, alpha, 1);
        double roundings = sums != c->device->ops->dtype ? 0 : own ? 1 + rows / 1000 : 1 + c->product_roundings;
        case_check(c, grad, roundings, case_growth(rows), "gradient in %s of %zu x %zu, rank %zu, form %d",
                   dtype_name(sums), rows, cols, rank, wanted + 4 * transpose);
    }
    case_end(c);
}

// Rows, columns and ranks of less than a tile, a tile, and tiles with a rest; several strips of columns and several
// groups of rows; rows that begin off an aligned address; ranks and gradients that are left to GEMM.
void low_rank_cases(struct cases *c)
{
    static const size_t shapes[][3] = {{1, 1, 1},     {0, 40, 3},    {5, 7, 2},     {16, 512, 8}, {17, 520, 8},
                                       {40, 64, 16},  {12, 513, 1},  {8, 1200, 5},  {33, 96, 32}, {130, 72, 17},
                                       {300, 24, 24}, {600, 16, 8},  {3, 1030, 31}, {20, 70, 33}, {9, 33, 64},
                                       {4, 16, 512},  {4200, 5, 32}, {1100, 8, 8},  {1, 4096, 8}, {2048, 4096, 16}};
    enum dtype dtypes[2];
    size_t kinds = case_accumulators(c, dtypes);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        size_t rows = shapes[s][0], cols = shapes[s][1], rank = shapes[s][2];
        const struct device_rules *rules = c->device->ops->rules;
        if (c->omit && rows == 0) // nothing to do wrong
            continue;
        bool taken = rules->takes_low_rank && rules->takes_low_rank(c->device, cols, rank);
        if ((!taken && !c->device->ops->gemm) || case_is_too_large(c, (double)(rows * cols)))
            continue;
        for (int form = 0; form < 6; form++) {
            c->offset = s % 3 == 1;
            low_rank_case(c, rows, cols, rank, form % 2 ? TRANSPOSE : NO_TRANSPOSE, 1 + form / 2,
                          dtypes[(form / 2 + s) % kinds]);
        }
    }
    c->offset = 0;
}
