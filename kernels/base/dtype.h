// Dtype: the element types of tensors and files.
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum dtype { DTYPE_F64, DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_I32, DTYPE_COUNT };

size_t dtype_bytes(enum dtype dtype);
const char *dtype_name(enum dtype dtype); // "f64", "f32", "bf16", "f16", "i32"
// Finds a dtype by its name. Returns false if there is none.
bool dtype_from_name(const char *name, enum dtype *dtype);
// Unit roundoff: half the distance from 1 to the next larger number. 0 for integers.
double dtype_epsilon(enum dtype dtype);
// value rounded to what f64, f32 or bf16 can hold (to nearest, ties to even), as a double.
double dtype_round(double value, enum dtype dtype);
// bf16 as its 16 bits; NaN stays NaN.
unsigned short dtype_bf16(float value);
float dtype_from_bf16(unsigned short bits);
