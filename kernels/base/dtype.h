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
