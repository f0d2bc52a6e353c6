// Every own kernel of the CUDA device except attention (test_simt_attention.cpp), run on the CPU by tests/simt, in
// f64, f32 and bf16, against the CPU device in f64 on the same rounded inputs. Outputs are poisoned first; +=
// operands start from known values; rows are shorter than, as long as, and longer than what a thread, a warp and a
// block take at once, aligned for 16-byte accesses and not.
#include "kernels/cuda/plugin/attention_blocks.h"
#include "tests/simt/array.h"
#include <cuda_bf16.h>

namespace
{

const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
struct device *cpu;
alignas(16) unsigned char scratch[CUDA_SCRATCH_BYTES];

// What numbers of a dtype are summed in, and may be accumulated in.
enum dtype wide(enum dtype dtype)
{
    return dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
}

// Integers on both sides: tensors whose data is the vector's.
struct tensor integers(std::vector<int32_t> &values, size_t count, int32_t first, int32_t bound)
{
    struct random random = random_named(count, "integers");
    values.resize(count);
    for (size_t i = 0; i < count; i++)
        values[i] = first + (int32_t)random_below(&random, i, (uint64_t)(bound - first));
    return {values.data(), DTYPE_I32, CATEGORY_DATA, count, 1};
}

void test_bf16(void **)
{
    // Ties go to even, and NaN stays NaN.
    assert_int_equal(__float2bfloat16(0x1.01p0f).bits, 0x3f80);
    assert_int_equal(__float2bfloat16(0x1.03p0f).bits, 0x3f82);
    assert_int_equal(__float2bfloat16(0x1.010002p0f).bits, 0x3f81);
    assert_true(isnan(__bfloat162float(__float2bfloat16(NAN))));
}

void test_copy_and_scale(void **)
{
    const size_t counts[] = {1, 7, 8, 1003, 256 * 8 + 1};
    for (enum dtype from : dtypes)
        for (enum dtype to : dtypes)
            for (size_t count : counts) {
                array src(1, count, from, "src", count % 2), dst(1, count, to, nullptr);
                run_both_orders({&dst}, [&] { cuda_copy(dst.t, src.t, nullptr); });
                op_copy(cpu, dst.r, src.r);
                dst.check(0, "copy");
                dst.set([&](size_t i) { return dst.expected(i); }); // what the reference did not round
                run_both_orders({&dst}, [&] { cuda_scale(dst.t, -2.5, nullptr); });
                op_scale(cpu, dst.r, -2.5);
                dst.check(2, "scale");
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
                        cuda_accumulate(to, from, count, nullptr);
                    });
                    for (size_t i = 0; i < tensor_count(dst.r); i++) {
                        ((double *)dst.r.data)[i] += src.expected(i);
                        ((double *)other_dst.r.data)[i] += count == 2 ? other_src.expected(i) : 0;
                    }
                    dst.check(1, "accumulate");
                    other_dst.check(1, "accumulate's second");
                }
}

// Where column `col` of row `row` is, folded.
size_t folded(struct attention_shape s, size_t row, size_t col)
{
    size_t group = s.heads / s.kv_heads, t = row / s.batch, b = row % s.batch, head = col / s.head_dim;
    size_t r = (t * group + head % group) * s.batch + b;
    return r * s.kv_heads * s.head_dim + head / group * s.head_dim + col % s.head_dim;
}

void test_fold(void **)
{
    const struct attention_shape shapes[] = {{1, 0, 1, 1, 1, 8},  {5, 0, 1, 4, 4, 16},   {7, 0, 3, 6, 2, 40},
                                             {3, 0, 2, 14, 2, 8}, {300, 0, 1, 4, 1, 24}, {2, 0, 1, 32, 8, 128}};
    for (struct attention_shape s : shapes)
        for (size_t offset : {0, 1}) {
            size_t rows = s.queries * s.batch, cols = s.heads * s.head_dim, group = s.heads / s.kv_heads;
            array q(rows, cols, DTYPE_BF16, "q", offset), o(rows, cols, DTYPE_BF16, "o");
            array grad_o(rows, cols, DTYPE_BF16, "grad_o"), sum(rows * group, cols / group, DTYPE_F32, "sum");
            array to_q(rows * group, cols / group, DTYPE_BF16, nullptr);
            array to_o(rows * group, cols / group, DTYPE_BF16, nullptr);
            array to_grad_o(rows * group, cols / group, DTYPE_BF16, nullptr);
            array grad_q(rows, cols, DTYPE_BF16, nullptr);
            array logsumexp(rows, s.heads, DTYPE_F32, "logsumexp"), stats(rows, s.heads, DTYPE_F32, nullptr);
            run_both_orders({&to_q, &to_o, &to_grad_o, &grad_q, &stats}, [&] {
                struct tensor to[] = {to_q.t, to_o.t, to_grad_o.t}, from[] = {q.t, o.t, grad_o.t};
                cuda_fold(to, from, s, nullptr);
                cuda_unfold(grad_q.t, sum.t, o.t, s, nullptr);
                cuda_fold_logsumexp(stats.t, logsumexp.t, s, nullptr);
            });
            for (size_t row = 0; row < rows; row++) {
                for (size_t col = 0; col < cols; col++) {
                    size_t i = row * cols + col, at = folded(s, row, col);
                    ((double *)to_q.r.data)[at] = q.expected(i);
                    ((double *)to_o.r.data)[at] = o.expected(i);
                    ((double *)to_grad_o.r.data)[at] = grad_o.expected(i);
                    ((double *)grad_q.r.data)[i] = sum.expected(at) + o.expected(i);
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

void test_adamw(void **)
{
    for (enum dtype dtype : dtypes)
        for (enum dtype gradient : {dtype, wide(dtype)})
            for (size_t offset : {0, 1}) {
                array w(37, 51, dtype, "w", offset), g(37, 51, gradient, "g"), m(37, 51, gradient, "m");
                array v(37, 51, gradient, "v");
                v.set([&](size_t i) { return fabs(v.expected(i)); });
                run_both_orders({&w, &m, &v},
                                [&] { cuda_adamw(w.t, m.t, v.t, g.t, 0.01, 0.9, 0.999, 1e-8, 0.1, 3, nullptr); });
                op_adamw(cpu, w.r, g.r, m.r, v.r, 0.01, 0.9, 0.999, 1e-8, 0.1, 3);
                w.check(32, "adamw");
                m.check(4, "adamw's first moment");
                v.check(4, "adamw's second moment");
            }
}

void test_bias(void **)
{
    const size_t shapes[][2] = {{1, 1}, {3, 65}, {64, 256}, {500, 72}, {70, 1030}, {5000, 16}};
    for (enum dtype dtype : dtypes)
        for (enum dtype gradient : {dtype, wide(dtype)})
            for (auto [n, d] : shapes) {
                array y(n, d, dtype, "y"), bias(1, d, dtype, "bias"), grad(1, d, gradient, "grad");
                run_both_orders({&grad}, [&] { cuda_bias_backward(grad.t, y.t, scratch, nullptr); });
                op_bias_backward(cpu, grad.r, y.r);
                grad.check((double)n, "bias_backward");
                run_both_orders({&y}, [&] { cuda_bias_forward(y.t, bias.t, nullptr); });
                op_bias_forward(cpu, y.r, bias.r);
                y.check(1, "bias_forward");
            }
}

enum alias { SEPARATE, GRAD_Y, X, ACCUMULATE };

void check_rmsnorm(enum dtype dtype, enum dtype gradient, size_t n, size_t d, enum alias alias)
{
    const double epsilon = 1e-5;
    bool accumulate = alias == ACCUMULATE;
    array x(n, d, dtype, "x", alias == GRAD_Y), gain(1, d, dtype, "gain"), grad_y(n, d, dtype, "grad_y");
    array y(n, d, dtype, nullptr), rstd(n, 1, wide(dtype), nullptr), grad_gain(1, d, gradient, "grad_gain");
    array grad_x(n, d, dtype, accumulate ? "grad_x" : nullptr);
    if (accumulate)
        grad_gain.none();
    run_both_orders({&y, &rstd}, [&] { cuda_rmsnorm_forward(y.t, rstd.t, x.t, gain.t, epsilon, nullptr); });
    op_rmsnorm_forward(cpu, y.r, rstd.r, x.r, gain.r, epsilon);
    double growth = 8 + (double)d / 64;
    y.check(growth, "rmsnorm_forward");
    rstd.check(growth, "rmsnorm_forward's rstd");

    rstd.set([&](size_t i) { return rstd.expected(i); });
    array &out = alias == GRAD_Y ? grad_y : alias == X ? x : grad_x;
    std::vector<array *> changed = {&out};
    if (!accumulate)
        changed.push_back(&grad_gain);
    run_both_orders(changed, [&] {
        cuda_rmsnorm_backward(out.t, accumulate, grad_gain.t, grad_y.t, x.t, gain.t, rstd.t, scratch, nullptr);
    });
    op_rmsnorm_backward(cpu, out.r, accumulate, grad_gain.r, grad_y.r, x.r, gain.r, rstd.r);
    out.check(4 * growth, "rmsnorm_backward");
    if (!accumulate)
        grad_gain.check((double)n, "rmsnorm_backward's grad_gain");
    if (alias == SEPARATE) { // in place, without rstd
        run_both_orders({&x}, [&] { cuda_rmsnorm_forward(x.t, tensor_none(), x.t, gain.t, epsilon, nullptr); });
        op_rmsnorm_forward(cpu, x.r, tensor_none(), x.r, gain.r, epsilon);
        x.check(growth, "rmsnorm_forward in place");
    }
}

void test_rmsnorm(void **)
{
    const size_t shapes[][2] = {{1, 2}, {5, 64}, {300, 130}, {9, 1024}, {7, 2056}, {3, 1111}};
    for (enum dtype dtype : dtypes)
        for (enum alias alias : {SEPARATE, GRAD_Y, X, ACCUMULATE})
            for (auto [n, d] : shapes)
                check_rmsnorm(dtype, alias == X ? dtype : wide(dtype), n, d, alias);
}

void test_rope(void **)
{
    const size_t starts[] = {0, 63, 1000, 1 << 20};
    const size_t halves[] = {1, 6, 16, 64, 156};
    for (enum dtype dtype : dtypes)
        for (size_t start : starts)
            for (size_t half : halves) {
                size_t tokens = 5, batch = 2, heads = 3;
                array x(tokens * batch, heads * 2 * half, dtype, "x"), frequencies(1, half, DTYPE_F64, nullptr);
                frequencies.set([&](size_t j) { return pow(10000, -(double)j / (double)half); });
                for (int direction : {1, -1}) {
                    run_both_orders({&x}, [&] { cuda_rope(x.t, frequencies.t, start, batch, direction, nullptr); });
                    // The reference's angle has itself a rounding of `start` epsilon, in f64.
                    op_rope(cpu, x.r, frequencies.r, start, batch, direction);
                    x.check(dtype == DTYPE_F64 ? 512 : 16, "rope"); // the reference carries sines over 64 positions
                    x.set([&](size_t i) { return x.found(i); });
                }
            }
}

void test_swiglu(void **)
{
    const size_t shapes[][2] = {{1, 1}, {3, 7}, {1, 2048}, {40, 103}};
    for (enum dtype dtype : dtypes)
        for (size_t offset : {0, 1})
            for (auto [n, f] : shapes) {
                array gate(n, f, dtype, "gate"), up(n, f, dtype, "up", offset), grad(n, f, dtype, "grad");
                array y(n, f, dtype, nullptr);
                size_t last = n * f - 1; // saturated, no NaN
                gate.set([&](size_t i) { return i == last ? -100 : i == 0 ? 100 : gate.expected(i); });
                run_both_orders({&y}, [&] { cuda_swiglu_forward(y.t, gate.t, up.t, nullptr); });
                op_swiglu_forward(cpu, y.r, gate.r, up.r);
                y.check(16, "swiglu_forward");
                run_both_orders({&gate, &up, &grad}, [&] { cuda_swiglu_backward(gate.t, up.t, grad.t, nullptr); });
                op_swiglu_backward(cpu, gate.r, up.r, grad.r);
                gate.check(16, "swiglu_backward's gate");
                up.check(16, "swiglu_backward's up");
                grad.check(16, "swiglu_backward's product");
            }
}

void check_embedding(enum dtype dtype, enum dtype gradient, size_t n, int32_t vocab, size_t d)
{
    std::vector<int32_t> values;
    struct tensor ids = integers(values, n, 0, vocab);
    array table((size_t)vocab, d, dtype, "table"), y(n, d, dtype, nullptr), grad_y(n, d, dtype, "grad_y");
    array grad((size_t)vocab, d, gradient, "grad");
    run_both_orders({&y}, [&] { cuda_embedding_forward(y.t, table.t, ids, nullptr); });
    op_embedding_forward(cpu, y.r, table.r, ids);
    for (size_t i = 0; i < n * d; i++)
        assert_true(y.found(i) == y.expected(i));
    run_both_orders({&grad}, [&] { cuda_embedding_backward(grad.t, grad_y.t, ids, nullptr); });
    op_embedding_backward(cpu, grad.r, grad_y.r, ids);
    grad.check((double)n, "embedding_backward");
}

void test_embedding(void **)
{
    for (enum dtype dtype : dtypes)
        for (enum dtype gradient : {dtype, wide(dtype)}) {
            check_embedding(dtype, gradient, 1, 1, 1);
            check_embedding(dtype, gradient, 9, 4, 72);
            check_embedding(dtype, gradient, 5, 3, 1100); // strips
            check_embedding(dtype, gradient, 100, 30, 65);
        }
    check_embedding(DTYPE_F32, DTYPE_F32, 4500, 700, 3); // slices
}

// The host's bits, in every dtype and rounding.
void test_random_normal(void **)
{
    const struct random random = random_named(3, "model.norm.weight");
    for (enum dtype dtype : dtypes)
        for (enum dtype rounding : dtypes)
            for (size_t offset : {0, 1})
                for (size_t count : {1, 7, 5003}) {
                    array t(1, count, dtype, nullptr, offset);
                    run_both_orders({&t}, [&] { cuda_random_normal(t.t, random, 1, 0.1, rounding, nullptr); });
                    for (size_t i = 0; i < count; i++)
                        assert_true(
                            t.found(i) ==
                            dtype_round(dtype_round(fma(0.1, random_normal(&random, i), 1), rounding), dtype));
                }
}

void test_cross_entropy(void **)
{
    const size_t shapes[][2] = {{1, 1}, {5, 33}, {20, 8200}, {1100, 24}, {1030, 1100}};
    for (enum dtype dtype : dtypes)
        for (auto [n, vocab] : shapes) {
            std::vector<int32_t> values;
            struct tensor targets = integers(values, n, -1, (int32_t)vocab); // some rows without a target
            array logits(n, vocab, dtype, "logits"), loss(1, 1, DTYPE_F64, nullptr);
            // Far beyond what exp holds in f32, if the maximum were not taken off.
            logits.set([&](size_t i) { return logits.expected(i) * (i % 13 ? 1 : 100); });
            loss.set([](size_t) { return 2.5; });
            run_both_orders({&logits, &loss},
                            [&] { cuda_cross_entropy(logits.t, loss.t, targets, 0.25, 3, scratch, nullptr); });
            op_cross_entropy(cpu, logits.r, targets, loss.r, 0.25, 3);
            logits.check(512, "cross_entropy"); // exp(-300) has 300 epsilon
            double error = fabs(loss.found(0) - loss.expected(0));
            assert_true(error <= 64 * dtype_epsilon(wide(dtype)) * loss.expected(0));
        }
}

void test_objective(void **)
{
    const size_t shapes[][2] = {{1, 1}, {5, 33}, {20, 8200}, {1100, 24}, {1030, 1100}};
    for (enum dtype dtype : dtypes)
        for (auto [n, vocab] : shapes)
            for (enum row_objective objective : {ROW_LIKELIHOOD, ROW_DFT}) {
                std::vector<int32_t> values;
                struct tensor targets = integers(values, n, -1, (int32_t)vocab); // some rows without a target
                array logits(n, vocab, dtype, "logits"), weights(n, 1, wide(dtype), "weights"),
                    loss(1, 1, DTYPE_F64, nullptr), log_prob(n, 1, wide(dtype), nullptr),
                    logsumexp(n, 1, wide(dtype), nullptr), grad(n, 1, wide(dtype), nullptr);
                logits.set([&](size_t i) { return logits.expected(i) * (i % 13 ? 1 : 100); });
                loss.set([](size_t) { return 2.5; });
                if (n % 2)
                    weights.none();
                run_both_orders({&log_prob, &logsumexp},
                                [&] { cuda_log_prob(log_prob.t, logsumexp.t, logits.t, targets, nullptr); });
                op_log_prob(cpu, log_prob.r, logsumexp.r, logits.r, targets);
                log_prob.check(4, "log_prob");
                logsumexp.check(4, "log_prob's logsumexp");
                run_both_orders({&grad, &loss}, [&] {
                    cuda_objective_rows(grad.t, loss.t, log_prob.t, weights.t, targets, objective, 0.25, 3,
                                        nullptr);
                });
                op_objective_rows(cpu, objective, grad.r, loss.r, log_prob.r, weights.r, targets, 0.25, 3);
                grad.check(512, "objective_rows");
                double error = fabs(loss.found(0) - loss.expected(0)), size = 2.5 + (double)n; // of the terms
                assert_true(error <= 64 * dtype_epsilon(wide(dtype)) * size);
                run_both_orders({&logits},
                                [&] { cuda_log_prob_backward(logits.t, logsumexp.t, targets, grad.t, nullptr); });
                op_log_prob_backward(cpu, logits.r, logsumexp.r, targets, grad.r);
                logits.check(1024, "log_prob_backward"); // exp(-300) has 300 epsilon, and logsumexp as many
            }
}

} // namespace

int main()
{
    struct status status = {};
    cpu = device_open("cpu", DTYPE_F64, 0, &status);
    CHECK(cpu);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bf16),          cmocka_unit_test(test_copy_and_scale),
        cmocka_unit_test(test_accumulate),    cmocka_unit_test(test_fold),
        cmocka_unit_test(test_adamw),         cmocka_unit_test(test_bias),
        cmocka_unit_test(test_rmsnorm),       cmocka_unit_test(test_rope),
        cmocka_unit_test(test_swiglu),        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_cross_entropy), cmocka_unit_test(test_objective),
        cmocka_unit_test(test_random_normal),
    };
    int failed = cmocka_run_group_tests(tests, nullptr, nullptr);
    device_close(cpu);
    return failed;
}
