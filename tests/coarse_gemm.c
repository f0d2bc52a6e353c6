// A build whose GEMM has coarse accumulators, in every method and in the noise floor alike: what `longbp run` is to
// find (tests/check_rounding).
#include "kernels/device/device.h"

extern gemm_op __real_gemm_f32, __wrap_gemm_f32, __real_gemm_bf16, __wrap_gemm_bf16;

// Rounds values in f32 to nearest, ties to even, with so many bits fewer of significand.
static void drop_bits(struct tensor c, unsigned bits)
{
    uint32_t *values = c.data, half = (UINT32_C(1) << (bits - 1)) - 1;
    for (size_t i = 0; i < tensor_count(c); i++)
        values[i] = (values[i] + half + (values[i] >> bits & 1)) >> bits << bits;
}

// f32: 16 bits of significand, 8 fewer than it has.
void __wrap_gemm_f32(struct device *device, struct tensor c, struct tensor a, enum transpose transpose_a,
                     struct tensor b, enum transpose transpose_b, double alpha, double beta)
{
    __real_gemm_f32(device, c, a, transpose_a, b, transpose_b, alpha, beta);
    drop_bits(c, 8);
}

// bf16: products over tokens, gradients of weights, are rounded to bf16 after every 32 terms.
void __wrap_gemm_bf16(struct device *device, struct tensor c, struct tensor a, enum transpose transpose_a,
                      struct tensor b, enum transpose transpose_b, double alpha, double beta)
{
    bool over_tokens = transpose_a && !transpose_b;
    size_t max = over_tokens ? 32 : a.rows;
    for (size_t first = 0; first < a.rows; first += max) {
        size_t terms = a.rows - first < max ? a.rows - first : max;
        struct tensor right = over_tokens ? tensor_rows(b, first, terms) : b;
        __real_gemm_bf16(device, c, tensor_rows(a, first, terms), transpose_a, right, transpose_b, alpha,
                         first > 0 ? 1 : beta);
        if (over_tokens && c.dtype == DTYPE_F32)
            drop_bits(c, 16);
    }
}
