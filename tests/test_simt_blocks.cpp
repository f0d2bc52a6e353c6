// The CUDA device's own kernels outside its table of operations: attention's backward besides cuDNN
// (attention_blocks.h), and copies between any two dtypes; run on the CPU by tests/simt, in f64, f32 and bf16.
#include "kernels/cuda/kernels/attention_blocks.h"
#include "tests/simt/array.h"
#include "tests/simt/device.h"
#include <cuda_bf16.h>

namespace
{

const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
struct device *simt_device; // of any dtype: what is tested here goes by dtypes of tensors
// Dtype of sums over numbers of a dtype, and a possible accumulator.
enum dtype wide(enum dtype dtype)
{
    return dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
}

void test_bf16(void **)
{
    // Ties go to even, and NaN stays NaN.
    assert_int_equal(__float2bfloat16(0x1.01p0f).bits, 0x3f80);
    assert_int_equal(__float2bfloat16(0x1.03p0f).bits, 0x3f82);
    assert_int_equal(__float2bfloat16(0x1.010002p0f).bits, 0x3f81);
    assert_true(isnan(__bfloat162float(__float2bfloat16(NAN))));
}

void test_copy(void **)
{
    const size_t counts[] = {1, 7, 8, 1003, 256 * 8 + 1};
    for (enum dtype from : dtypes)
        for (enum dtype to : dtypes)
            for (size_t count : counts) {
                array src(1, count, from, "src", count % 2), dst(1, count, to, nullptr);
                run_both_orders({&dst}, [&] { cuda_copy(simt_device, dst.t, src.t); });
                for (size_t i = 0; i < count; i++)
                    ((double *)dst.r.data)[i] = src.expected(i);
                dst.check(0, "copy");
            }
}

void test_accumulate(void **)
{
    for (enum dtype dtype : dtypes)
        for (enum dtype sum : {dtype, wide(dtype)})
            for (size_t offset : {0, 1})
                for (size_t count : {1, 2}) {
                    array dst(37, 57, sum, "dst"), src(37, 57, dtype, "src", offset);
                    array other_dst(37, 57, sum, "other dst"), other_src(37, 57, dtype, "other src");
                    run_both_orders({&dst, &other_dst}, [&] {
                        struct tensor to[] = {dst.t, other_dst.t}, from[] = {src.t, other_src.t};
                        cuda_accumulate_each(simt_device, to, from, count);
                    });
                    for (size_t i = 0; i < tensor_count(dst.r); i++) {
                        ((double *)dst.r.data)[i] += src.expected(i);
                        ((double *)other_dst.r.data)[i] += count == 2 ? other_src.expected(i) : 0;
                    }
                    dst.check(1, "accumulate");
                    other_dst.check(1, "accumulate's second");
                }
}

// Folded position of column `col` of row `row`.
size_t folded(struct attention_shape s, size_t row, size_t col)
{
    size_t group = s.heads / s.kv_heads, t = row / s.batch, b = row % s.batch, head = col / s.head_dim;
    size_t r = (t * group + head % group) * s.batch + b;
    return r * s.kv_heads * s.head_dim + head / group * s.head_dim + col % s.head_dim;
}

void test_fold(void **)
{
    const struct attention_shape shapes[] = {
        {1, 0, 1, 1, 1, 8, 0, {}, 0, 0},  {5, 0, 1, 4, 4, 16, 0, {}, 0, 0},   {7, 0, 3, 6, 2, 40, 0, {}, 0, 0},
        {3, 0, 2, 14, 2, 8, 0, {}, 0, 0}, {300, 0, 1, 4, 1, 24, 0, {}, 0, 0}, {2, 0, 1, 32, 8, 128, 0, {}, 0, 0}};
    for (struct attention_shape s : shapes)
        for (size_t offset : {0, 1}) {
            size_t rows = s.queries * s.batch, cols = s.heads * s.head_dim, group = s.heads / s.kv_heads;
            array q(rows, cols, DTYPE_BF16, "q", offset), o(rows, cols, DTYPE_BF16, "o");
            array grad_o(rows, cols, DTYPE_BF16, "grad_o"), sum(rows * group, cols / group, DTYPE_F32, "sum");
            array to_q(rows * group, cols / group, DTYPE_BF16, nullptr);
            array to_o(rows * group, cols / group, DTYPE_BF16, nullptr);
            array to_grad_o(rows * group, cols / group, DTYPE_BF16, nullptr);
            array grad_q(rows, cols, DTYPE_BF16, offset ? "grad_q" : nullptr); // accumulated or not
            array logsumexp(rows, s.heads, DTYPE_F32, "logsumexp"), stats(rows, s.heads, DTYPE_F32, nullptr);
            run_both_orders({&to_q, &to_o, &to_grad_o, &grad_q, &stats}, [&] {
                struct tensor to[] = {to_q.t, to_o.t, to_grad_o.t}, from[] = {q.t, o.t, grad_o.t};
                cuda_fold(simt_device, to, from, s, s.batch);
                cuda_unfold(simt_device, grad_q.t, offset == 1, sum.t, o.t, s, s.batch);
                cuda_fold_logsumexp(simt_device, stats.t, logsumexp.t, s, s.batch, 0, s.queries);
            });
            for (size_t row = 0; row < rows; row++) {
                for (size_t col = 0; col < cols; col++) {
                    size_t i = row * cols + col, at = folded(s, row, col);
                    ((double *)to_q.r.data)[at] = q.expected(i);
                    ((double *)to_o.r.data)[at] = o.expected(i);
                    ((double *)to_grad_o.r.data)[at] = grad_o.expected(i);
                    double before = offset ? grad_q.expected(i) : 0;
                    ((double *)grad_q.r.data)[i] = before + sum.expected(at) + o.expected(i);
                }
                for (size_t head = 0; head < s.heads; head++) {
                    size_t t = row / s.batch, b = row % s.batch, g = head / group;
                    size_t at = ((b * s.kv_heads + g) * s.queries + t) * group + head % group;
                    ((double *)stats.r.data)[at] = logsumexp.expected(row * s.heads + head);
                }
            }
            to_q.check(0, "fold's q");
            to_o.check(0, "fold's o");
            to_grad_o.check(0, "fold's grad_o");
            grad_q.check(1, "unfold");
            stats.check(0, "fold_logsumexp");
        }
}

} // namespace

int main()
{
    simt_device = simt_device_open(DTYPE_F32);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bf16), cmocka_unit_test(test_copy),
                                       cmocka_unit_test(test_accumulate), cmocka_unit_test(test_fold)};
    int failed = cmocka_run_group_tests(tests, nullptr, nullptr);
    simt_device_close(simt_device);
    return failed;
}
