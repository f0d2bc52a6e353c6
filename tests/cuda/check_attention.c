// The graphs that attention hands to cuDNN, run by an interpreter on the CPU (interpreter.c), against the CPU
// device's attention in f64; with blocks of 16 queries and 32 keys, so that few tokens cross many of their borders.
// Outputs are poisoned; key gradients start from known values.
#include "kernels/base/ops.h"
#include "kernels/base/random.h"
#include "kernels/cuda/attention_blocks.h"
#include "kernels/cuda/attention_cudnn.h"
#include "kernels/cuda/workspace.h"
#include <math.h>
#include <string.h>

// ---- the little of CUDA that attention uses, on the CPU

static double value_at(struct tensor t, size_t i)
{
    return t.dtype == DTYPE_BF16 ? dtype_from_bf16(((unsigned short *)t.data)[i]) : ((float *)t.data)[i];
}

static void set_value(struct tensor t, size_t i, double value)
{
    if (t.dtype == DTYPE_BF16) {
        ((unsigned short *)t.data)[i] = dtype_bf16((float)value);
    } else {
        ((float *)t.data)[i] = (float)value;
    }
}

void cuda_accumulate(struct tensor dst, struct tensor src, cudaStream_t stream)
{
    (void)stream;
    for (size_t i = 0; i < tensor_count(dst); i++) {
        set_value(dst, i, value_at(dst, i) + value_at(src, i));
    }
}

void cuda_copy(struct tensor dst, struct tensor src, cudaStream_t stream)
{
    (void)stream;
    for (size_t i = 0; i < tensor_count(dst); i++) {
        set_value(dst, i, value_at(src, i));
    }
}

void cuda_transpose(struct tensor dst, struct tensor src, cudaStream_t stream)
{
    (void)stream;
    for (size_t i = 0; i < tensor_count(src); i++) {
        set_value(dst, i % src.cols * src.rows + i / src.cols, value_at(src, i));
    }
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    memset(to, value, bytes);
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    (void)error;
    return "";
}

// ---- checks

static struct device *cpu;
static size_t checks, failures;

// The same numbers for cuDNN, in a dtype, and for the CPU in f64.
struct both {
    struct tensor narrow, wide;
};

static struct both both_new(size_t rows, size_t cols, enum dtype dtype, const char *name)
{
    struct both b = {{malloc(rows * cols * 4 + 1), dtype, CATEGORY_ACTIVATIONS, rows, cols},
                     tensor_new(cpu, rows, cols, DTYPE_F64, CATEGORY_ACTIVATIONS)};
    struct random random = random_named(rows, name ? name : "");
    CHECK(b.narrow.data && b.wide.data);
    for (size_t i = 0; i < rows * cols; i++) {
        set_value(b.narrow, i, name ? random_normal(&random, i) : NAN);
        ((double *)b.wide.data)[i] = value_at(b.narrow, i);
    }
    return b;
}

static void both_free(struct both *b)
{
    free(b->narrow.data);
    tensor_free(cpu, &b->wide);
}

static void both_check(const struct both *b, double bound, const char *what, struct attention_shape s)
{
    double worst = 0;
    for (size_t i = 0; i < tensor_count(b->wide); i++) {
        double error = fabs(value_at(b->narrow, i) - ((double *)b->wide.data)[i]);
        worst = error <= worst ? worst : error; // NaN too
    }
    checks++;
    if (!(worst <= bound)) {
        failures++;
        printf("FAIL %s: off by %.3g, queries %zu, start %zu, batch %zu, heads %zu:%zu of %zu\n", what, worst,
               s.queries, s.start, s.batch, s.heads, s.kv_heads, s.head_dim);
    }
}

// Segments: keys [first, first + count) take gradients, and from `own` on all.
static void check(struct attention_cudnn *attention, struct attention_shape s, size_t first, size_t count,
                  size_t own, enum dtype sums)
{
    size_t rows = s.queries * s.batch, keys = s.start + s.queries, B = s.batch;
    size_t q_cols = s.heads * s.head_dim, k_cols = s.kv_heads * s.head_dim, segment_count = count ? 2 : 1;
    struct status status = {0};
    struct both q = both_new(rows, q_cols, DTYPE_BF16, "q"), k = both_new(keys * B, k_cols, DTYPE_BF16, "k");
    struct both v = both_new(keys * B, k_cols, DTYPE_BF16, "v"), o = both_new(rows, q_cols, DTYPE_BF16, NULL);
    struct both logsumexp = both_new(rows, s.heads, DTYPE_F32, NULL);
    struct both grad = both_new(rows, q_cols, DTYPE_BF16, "grad_o");
    struct both grads[4] = {
        both_new(count * B, k_cols, sums, "grad_k"), both_new(count * B, k_cols, sums, "grad_v"),
        both_new((keys - own) * B, k_cols, sums, "grad_k"), both_new((keys - own) * B, k_cols, sums, "grad_v")};
    struct key_segment narrow[2] = {{first, count, grads[0].narrow, grads[1].narrow},
                                    {own, keys - own, grads[2].narrow, grads[3].narrow}};
    struct key_segment wide[2] = {{first, count, grads[0].wide, grads[1].wide},
                                  {own, keys - own, grads[2].wide, grads[3].wide}};
    size_t bytes = cuda_attention_backward_workspace(s, DTYPE_BF16);
    struct tensor workspace = {malloc(bytes), DTYPE_F32, CATEGORY_WORKSPACE, 1, bytes / sizeof(float)};
    CHECK(workspace.data);
    memset(workspace.data, 0xff, bytes); // NaN

    bool done =
        attention_cudnn_forward(attention, s, o.narrow, logsumexp.narrow, q.narrow, k.narrow, v.narrow, &status);
    op_attention_forward(cpu, s, o.wide, logsumexp.wide, q.wide, k.wide, v.wide);
    both_check(&o, 2e-2, "o", s);
    both_check(&logsumexp, 1e-5, "logsumexp", s);
    done = done && attention_cudnn_backward(attention, s, grad.narrow, narrow + 2 - segment_count, segment_count,
                                            grad.narrow, o.narrow, logsumexp.narrow, q.narrow, k.narrow, v.narrow,
                                            workspace, &status);
    op_attention_backward(cpu, s, grad.wide, wide + 2 - segment_count, segment_count, grad.wide, o.wide,
                          logsumexp.wide, q.wide, k.wide, v.wide);
    CHECK(done);
    both_check(&grad, 1e-1, "grad_q", s);
    for (size_t i = 0; i < 4; i++) {
        both_check(&grads[i], 2e-1, i % 2 ? "grad_v" : "grad_k", s);
        both_free(&grads[i]);
    }
    struct both *owned[] = {&q, &k, &v, &o, &logsumexp, &grad};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        both_free(owned[i]);
    }
    free(workspace.data);
}

int main(void)
{
    struct status status = {0};
    cpu = device_open("cpu", DTYPE_F64, 0, &status);
    struct attention_cudnn *attention = attention_cudnn_open(NULL, &status);
    CHECK(cpu && attention);
    static const size_t spans[][2] = {{1, 0},  {1, 5},   {16, 0},  {16, 16}, {16, 100}, {17, 31},
                                      {33, 0}, {40, 64}, {7, 121}, {70, 3},  {64, 64},  {100, 27}};
    static const size_t heads[][3] = {{4, 2, 8}, {3, 3, 16}, {6, 1, 8}};
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        for (size_t j = 0; j < sizeof heads / sizeof *heads; j++) {
            size_t start = spans[i][1];
            struct attention_shape s = {spans[i][0], start, 1 + (i + j) % 3, heads[j][0], heads[j][1], heads[j][2]};
            check(attention, s, 0, 0, 0, DTYPE_F32);                              // every key
            check(attention, s, start / 3, start / 3, start, DTYPE_F32);          // a gap before the queries' own
            check(attention, s, 0, start / 2, start + s.queries / 2, DTYPE_BF16); // ending among them
        }
    }
    printf("attention's graphs: %zu checks of what they compute, %zu failed; %zu graphs\n", checks, failures,
           attention_cudnn_totals(attention).graphs);
    attention_cudnn_close(attention);
    device_close(cpu);
    return failures > 0;
}
