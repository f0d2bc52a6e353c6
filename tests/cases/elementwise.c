// Random normals, zero, copy, copy_columns, copy_heads, sum_heads, accumulate, scale and dequantise: lengths of
// less and more than a thread, a block and a grid take.
#include "tests/cases/cases.h"

static const size_t counts[] = {1, 7, 8, 2049, 4096, 5003, 100003};
#define COUNTS (sizeof counts / sizeof *counts)

// Bit by bit what the host draws.
void random_normal_cases(struct cases *c)
{
    static const enum dtype roundings[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    for (size_t i = 0; i < COUNTS && !case_is_too_large(c, (double)counts[i]); i++) {
        for (size_t r = 0; r < 3; r++) {
            c->offset = r == i % 3;
            struct random random = random_named(counts[i], "model.norm.weight");
            struct operand *t = case_output(c, 1, counts[i]);
            CASE_RUN(c, op_random_normal(c->device, t->tensor, random, 1, 0.1, roundings[r]));
            for (size_t j = 0; j < counts[i]; j++) {
                double value = dtype_round(fma(0.1, random_normal(&random, j), 1), roundings[r]);
                t->values[j] = dtype_round(value, t->tensor.dtype);
            }
            case_check(c, t, 0, 0, "rounded to %s", dtype_name(roundings[r]));
            case_end(c);
        }
    }
}

void zero_cases(struct cases *c)
{
    for (size_t i = 0; i < COUNTS && !case_is_too_large(c, (double)counts[i]); i++) {
        c->offset = i % 2;
        struct operand *t = case_output(c, 1, counts[i]);
        CASE_RUN(c, op_zero(c->device, t->tensor));
        for (size_t j = 0; j < counts[i]; j++)
            t->values[j] = 0;
        case_check(c, t, 0, 0, "zero");
        case_end(c);
    }
}

// Between the device's dtype and the one it sums in, both ways.
void copy_cases(struct cases *c)
{
    enum dtype dtypes[2];
    size_t kinds = case_accumulators(c, dtypes);
    for (size_t i = 0; i < COUNTS && !case_is_too_large(c, (double)counts[i]); i++) {
        for (size_t kind = 0; kind < kinds * kinds; kind++) {
            enum dtype from = dtypes[kind / kinds], to = dtypes[kind % kinds];
            c->offset = (i + kind) % 2;
            struct operand *src = case_random_in(c, from, 1, counts[i], 1, "src");
            struct operand *dst = case_output_in(c, to, 1, counts[i]);
            CASE_RUN(c, op_copy(c->device, dst->tensor, src->tensor));
            for (size_t j = 0; j < counts[i]; j++)
                dst->values[j] = dtype_round(src->values[j], to);
            case_check(c, dst, 0, 0, "from %s to %s", dtype_name(from), dtype_name(to));
            case_end(c);
        }
    }
}

// Copies rows of one column and of many, at their ends and between them; all else stays.
void copy_columns_cases(struct cases *c)
{
    static const struct {
        size_t rows, dst_cols, to, src_cols, from, cols;
    } shapes[] = {{1, 1, 0, 1, 0, 1},    {3, 5, 0, 7, 2, 5},       {7, 9, 4, 5, 0, 5},
                  {2049, 3, 1, 2, 1, 1}, {70, 64, 32, 96, 64, 32}, {129, 40, 8, 24, 8, 16}};
    enum dtype dtypes[2];
    size_t kinds = case_accumulators(c, dtypes);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (size_t kind = 0; kind < kinds; kind++) {
            size_t rows = shapes[i].rows, dst_cols = shapes[i].dst_cols, src_cols = shapes[i].src_cols;
            c->offset = (i + kind) % 2;
            struct operand *src = case_random_in(c, dtypes[kind], rows, src_cols, 1, "src");
            struct operand *dst = case_random_in(c, dtypes[kind], rows, dst_cols, 1, "dst");
            CASE_RUN(c, op_copy_columns(c->device, dst->tensor, shapes[i].to, src->tensor, shapes[i].from,
                                        shapes[i].cols));
            for (size_t r = 0; r < rows; r++)
                for (size_t j = 0; j < shapes[i].cols; j++)
                    dst->values[r * dst_cols + shapes[i].to + j] = src->values[r * src_cols + shapes[i].from + j];
            case_check(c, dst, 0, 0, "%zu columns of %zu into %zu, %s", shapes[i].cols, src_cols, dst_cols,
                       dtype_name(dtypes[kind]));
            case_end(c);
        }
    }
}

// Columns that all heads share, at the end of a head and in its middle; the other columns stay as they are.
static const struct {
    size_t rows, heads, head, part, at;
} shared[] = {{1, 1, 1, 1, 0},    {3, 5, 7, 3, 2},        {2049, 2, 3, 1, 2},
              {70, 4, 24, 8, 16}, {37, 16, 192, 64, 128}, {9, 3, 90, 70, 20}};
#define SHARED (sizeof shared / sizeof *shared)

void copy_heads_cases(struct cases *c)
{
    enum dtype dtypes[2];
    size_t kinds = case_accumulators(c, dtypes);
    for (size_t i = 0; i < SHARED; i++) {
        for (size_t kind = 0; kind < kinds; kind++) {
            size_t rows = shared[i].rows, heads = shared[i].heads, head = shared[i].head, part = shared[i].part;
            c->offset = (i + kind) % 2;
            struct operand *src = case_random_in(c, dtypes[kind], rows, part, 1, "src");
            struct operand *dst = case_random_in(c, dtypes[kind], rows, heads * head, 1, "dst");
            CASE_RUN(c, op_copy_heads(c->device, dst->tensor, shared[i].at, src->tensor, heads));
            for (size_t r = 0; r < rows * heads; r++)
                for (size_t j = 0; j < part; j++)
                    dst->values[r * head + shared[i].at + j] = src->values[r / heads * part + j];
            case_check(c, dst, 0, 0, "%zu numbers into %zu heads of %zu, %s", part, heads, head,
                       dtype_name(dtypes[kind]));
            case_end(c);
        }
    }
}

// Equal bits of a sum in the order of heads.
void sum_heads_cases(struct cases *c)
{
    enum dtype dtypes[2];
    size_t kinds = case_accumulators(c, dtypes);
    for (size_t i = 0; i < SHARED; i++) {
        for (size_t kind = 0; kind < kinds * kinds; kind++) {
            enum dtype from = dtypes[kind / kinds], to = dtypes[kind % kinds];
            size_t rows = shared[i].rows, heads = shared[i].heads, head = shared[i].head, part = shared[i].part;
            c->offset = (i + kind) % 2;
            struct operand *src = case_random_in(c, from, rows, heads * head, 1, "src");
            struct operand *dst = case_random_in(c, to, rows, part, 1, "dst");
            CASE_RUN(c, op_sum_heads(c->device, dst->tensor, src->tensor, shared[i].at, heads));
            for (size_t r = 0; r < rows * part; r++) {
                double sum = 0;
                for (size_t h = 0; h < heads; h++) {
                    size_t at = (r / part * heads + h) * head + shared[i].at + r % part;
                    sum = dtype_round(sum + dtype_round(src->values[at], from), case_sums(c));
                }
                sum = dtype_round(sum + dtype_round(dst->values[r], to), case_sums(c));
                dst->values[r] = dtype_round(sum, to);
            }
            case_check(c, dst, 0, 0, "of %zu heads of %zu, from %s to %s", heads, head, dtype_name(from),
                       dtype_name(to));
            case_end(c);
        }
    }
}

// As copies; equal bits of a sum rounded once.
void accumulate_cases(struct cases *c)
{
    enum dtype dtypes[2];
    size_t kinds = case_accumulators(c, dtypes);
    for (size_t i = 0; i < COUNTS && !case_is_too_large(c, (double)counts[i]); i++) {
        for (size_t kind = 0; kind < kinds * kinds; kind++) {
            enum dtype from = dtypes[kind / kinds], to = dtypes[kind % kinds];
            c->offset = (i + kind) % 2;
            struct operand *src = case_random_in(c, from, 1, counts[i], 1, "src");
            struct operand *dst = case_random_in(c, to, 1, counts[i], 1, "dst");
            CASE_RUN(c, op_accumulate(c->device, dst->tensor, src->tensor));
            for (size_t j = 0; j < counts[i]; j++) {
                double sum = dtype_round(dst->values[j], to) + dtype_round(src->values[j], from);
                dst->values[j] = dtype_round(dtype_round(sum, case_sums(c)), to);
            }
            case_check(c, dst, 0, 0, "from %s to %s", dtype_name(from), dtype_name(to));
            case_end(c);
        }
        // A sequence's sums, whatever the device computes in.
        struct operand *src = case_random_in(c, DTYPE_F64, 1, counts[i], 1, "src");
        struct operand *dst = case_random_in(c, DTYPE_F64, 1, counts[i], 1, "dst");
        CASE_RUN(c, op_accumulate(c->device, dst->tensor, src->tensor));
        for (size_t j = 0; j < counts[i]; j++)
            dst->values[j] += src->values[j];
        case_check(c, dst, 0, 0, "f64");
        case_end(c);
    }
}

void scale_cases(struct cases *c)
{
    enum dtype dtypes[2];
    size_t kinds = case_accumulators(c, dtypes);
    for (size_t i = 0; i < COUNTS && !case_is_too_large(c, (double)counts[i]); i++) {
        for (size_t kind = 0; kind < kinds; kind++) {
            c->offset = (i + kind) % 2;
            struct operand *t = case_random_in(c, dtypes[kind], 1, counts[i], 1, "t");
            CASE_RUN(c, op_scale(c->device, t->tensor, -2.3));
            for (size_t j = 0; j < counts[i]; j++)
                t->values[j] *= -2.3;
            case_check(c, t, kind == kinds - 1, 2, "%s", dtype_name(dtypes[kind]));
            case_end(c);
        }
    }
}

void scale_by_cases(struct cases *c)
{
    for (size_t i = 0; i < COUNTS && !case_is_too_large(c, (double)counts[i]); i++) {
        c->offset = i % 2;
        struct operand *t = case_random(c, 1, counts[i], 1, "t"), *factor = case_random(c, 1, 1, 1, "factor");
        CASE_RUN(c, op_scale_by(c->device, t->tensor, factor->tensor));
        for (size_t j = 0; j < counts[i]; j++)
            t->values[j] *= factor->values[0];
        case_check(c, t, 1, 2, "t");
        case_end(c);
    }
}

// Any codes, and scales of either sign or any exponents, to the bit.
void dequantise_cases(struct cases *c)
{
    for (size_t i = 0; i < COUNTS && !case_is_too_large(c, (double)counts[i]); i++) {
        for (enum quantisation q = QUANTISATION_NF4; q < QUANTISATION_COUNT; q++) {
            size_t count = counts[i];
            c->offset = (i + q) % 2;
            struct operand *codes = case_integers(c, quantised_words(q, count), INT32_MIN, INT32_MAX);
            struct operand *scales = case_integers(c, quantised_scale_words(q, count), INT32_MIN, INT32_MAX);
            for (size_t j = 0; j < tensor_count(scales->tensor); j++) {
                int32_t bits = (int32_t)scales->values[j];
                float scale = (float)bits / 1e10f;
                if (q == QUANTISATION_MXFP4)
                    bits = (bits & 0x3f3f3f3f) + 0x40404040;
                else
                    memcpy(&bits, &scale, sizeof bits);
                scales->values[j] = bits;
            }
            struct operand *w = case_output(c, 1, count);
            CASE_RUN(c, op_dequantise(c->device, w->tensor, q, codes->tensor, scales->tensor));
            for (size_t j = 0; j < count; j++) {
                static const double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
                uint32_t word = (uint32_t)(int32_t)codes->values[q == QUANTISATION_INT8 ? j / 4 : j / 8];
                uint32_t code = word >> j % 8 * 4 & 15;
                uint32_t bits = (uint32_t)(int32_t)scales->values[q == QUANTISATION_MXFP4 ? j / 128 : j / 64];
                double level = q == QUANTISATION_NF4    ? (double)nf4_level(code)
                               : q == QUANTISATION_INT8 ? (double)(int8_t)(uint8_t)(word >> j % 4 * 8)
                                                        : (code & 8 ? -1 : 1) * e2m1[code & 7];
                float scale;
                memcpy(&scale, &bits, sizeof scale);
                if (q == QUANTISATION_MXFP4)
                    scale = ldexpf(1, (int)(bits >> j / 32 % 4 * 8 & 255) - 127);
                float product = (float)(level * (double)scale);
                w->values[j] = dtype_round((double)product, w->tensor.dtype);
            }
            case_check(c, w, 0, 0, "%s", quantisation_name(q));
            case_end(c);
        }
    }
}
