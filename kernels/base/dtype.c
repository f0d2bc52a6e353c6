#include "kernels/base/dtype.h"

static const struct {
    const char *name;
    size_t bytes;
    double epsilon;
} dtypes[DTYPE_COUNT] = {
    [DTYPE_F64] = {"f64", 8, 0x1p-53}, [DTYPE_F32] = {"f32", 4, 0x1p-24}, [DTYPE_BF16] = {"bf16", 2, 0x1p-8},
    [DTYPE_F16] = {"f16", 2, 0x1p-11}, [DTYPE_I32] = {"i32", 4, 0},
};

size_t dtype_bytes(enum dtype dtype)
{
    return dtypes[dtype].bytes;
}
const char *dtype_name(enum dtype dtype)
{
    return dtypes[dtype].name;
}
double dtype_epsilon(enum dtype dtype)
{
    return dtypes[dtype].epsilon;
}

bool dtype_from_name(const char *name, enum dtype *dtype)
{
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (strcmp(name, dtypes[i].name) == 0) {
            *dtype = i;
            return true;
        }
    }
    return false;
}

enum dtype dtype_statistic(enum dtype dtype)
{
    return dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
}

enum dtype dtype_accumulator(enum dtype dtype)
{
    return dtype == DTYPE_BF16 ? DTYPE_F32 : dtype;
}

double dtype_round(double value, enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F32:
        return (float)value;
    case DTYPE_BF16:
        return dtype_from_bf16(dtype_bf16((float)value));
    default:
        return value;
    }
}
