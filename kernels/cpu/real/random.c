// Random normals, by the same operations as on every device (kernels/base/random.h).
#include "kernels/cpu/real/kernels.h"

#define DRAWN 1024 // numbers at once, on the stack

void NAME(random_normal)(struct device *device, struct tensor t, struct random random, double mean,
                         double deviation, enum dtype rounding)
{
    CHECK(t.dtype == DTYPE_F64 || t.dtype == DTYPE_F32 || t.dtype == DTYPE_BF16);
    size_t count = tensor_count(t);
#pragma omp parallel for schedule(static)
    for (size_t first = 0; first < count; first += DRAWN) {
        double values[DRAWN];
        size_t some = count - first < DRAWN ? count - first : DRAWN;
        random_normals(&random, first, some, mean, deviation, values);
        for (size_t i = 0; i < some; i++) {
            double value = dtype_round(values[i], rounding);
            if (t.dtype == DTYPE_F64)
                ((double *)t.data)[first + i] = value;
            else if (t.dtype == DTYPE_F32)
                ((float *)t.data)[first + i] = (float)value;
            else
                ((uint16_t *)t.data)[first + i] = dtype_bf16((float)value);
        }
    }
}
