// A build whose GEMM in f32 rounds its sums to 16 bits of significand, 8 fewer than f32 has, in every method and in
// the noise floor alike: what `longbp run` is to find (tests/check_rounding).
#include "kernels/base/device.h"

extern gemm_op __real_gemm_f32, __wrap_gemm_f32;
void __wrap_gemm_f32(struct device *device, struct tensor c, struct tensor a, enum transpose transpose_a,
                     struct tensor b, enum transpose transpose_b, double alpha, double beta)
{
    __real_gemm_f32(device, c, a, transpose_a, b, transpose_b, alpha, beta);
    uint32_t *bits = c.data;
    for (size_t i = 0; i < c.rows * c.cols; i++)
        bits[i] = (bits[i] + 0x7f + (bits[i] >> 8 & 1)) & ~UINT32_C(0xff); // to nearest, ties to even
}
