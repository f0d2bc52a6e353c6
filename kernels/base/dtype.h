// Dtype: the element types of tensors and files.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum dtype { DTYPE_F64, DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_I32, DTYPE_COUNT };

size_t dtype_bytes(enum dtype dtype);
const char *dtype_name(enum dtype dtype); // "f64", "f32", "bf16", "f16", "i32"
// Finds a dtype by its name. Returns false if there is none.
bool dtype_from_name(const char *name, enum dtype *dtype);
// Unit roundoff: half the distance from 1 to the next larger number. 0 for integers.
double dtype_epsilon(enum dtype dtype);
// What norm statistics, logsumexps and log-probs beside activations of this dtype are held in.
enum dtype dtype_statistic(enum dtype dtype);
// What gradients of a model in this dtype are summed in, unless they are to be in its own.
enum dtype dtype_accumulator(enum dtype dtype);
// value rounded to what f64, f32 or bf16 can hold (to nearest, ties to even), as a double.
double dtype_round(double value, enum dtype dtype);

// bf16 as its 16 bits, to nearest, ties to even; NaN stays NaN. Inline and without branches, so that loops over
// them become vectors.
static inline uint16_t dtype_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}
static inline float dtype_from_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

// Element i of values of a dtype that devices hold.
static inline double dtype_value(const void *values, enum dtype dtype, size_t i)
{
    return dtype == DTYPE_F64    ? ((const double *)values)[i]
           : dtype == DTYPE_F32  ? ((const float *)values)[i]
           : dtype == DTYPE_BF16 ? dtype_from_bf16(((const uint16_t *)values)[i])
                                 : ((const int32_t *)values)[i];
}
