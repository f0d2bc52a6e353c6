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
// The dtype of norm statistics, logsumexps and log-probs beside activations of this dtype.
enum dtype dtype_statistic(enum dtype dtype);
// The accumulator dtype of gradients in a model of this dtype, unless its own is requested.
enum dtype dtype_accumulator(enum dtype dtype);
// value rounded to f64, f32 or bf16 (to nearest, ties to even), as a double.
double dtype_round(double value, enum dtype dtype);

// Rounds to the 16 bits of bf16, to nearest, ties to even; NaN stays NaN. Inline and branch-free, so that compilers
// vectorise loops over it.
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

// Element i of an array of a dtype that devices support.
static inline double dtype_value(const void *values, enum dtype dtype, size_t i)
{
    return dtype == DTYPE_F64    ? ((const double *)values)[i]
           : dtype == DTYPE_F32  ? ((const float *)values)[i]
           : dtype == DTYPE_BF16 ? dtype_from_bf16(((const uint16_t *)values)[i])
                                 : ((const int32_t *)values)[i];
}
