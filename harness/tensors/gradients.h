// Gradients: writes a step's gradients as safetensors under Hugging Face names, to compare with other programs.
#pragma once
#include "harness/tensors/safetensors.h"
#include "kernels/model/model.h"

// The form of a parameter in files.
static inline enum safetensors_form parameter_form(const struct parameter *p)
{
    return p->filter ? SAFETENSORS_FILTERS : p->vector ? SAFETENSORS_VECTOR : SAFETENSORS_MATRIX;
}

// Whether files hold its numbers in another order: an embedding's factor A is transposed; experts' factor B,
// [experts out, rank] here, is [out, rank experts] there, an expert's numbers `experts` apart, and gpt-oss's rows
// of gate and up take turns.
static inline bool parameter_is_reordered(const struct parameter *p)
{
    return p->transposed || (p->factor == FACTOR_B && p->experts);
}
// The row in turn, of an expert's rows that have those of gate before those of up.
static inline size_t row_in_turn(size_t row, size_t rows)
{
    return row < rows / 2 ? 2 * row : 2 * (row - rows / 2) + 1;
}
// Rows in files, and the index there of its number i.
size_t parameter_file_rows(const struct parameter *p);
size_t parameter_file_index(const struct parameter *p, size_t i);

// Writes the gradients of all trainable parameters (LoRA factors under their PEFT names), in F64 if they are kept
// in f64, else in F32. values: gradients computed elsewhere, one per parameter, NULL for a frozen one; NULL: the
// model's own. Returns false and a status if the device has failed or the file cannot be written.
bool gradients_write(const char *path, const struct model *model, const double *const *values,
                     struct status *status);
