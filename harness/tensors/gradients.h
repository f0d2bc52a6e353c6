// Gradients: writes a step's gradients as safetensors under Hugging Face names, to compare with other programs.
#pragma once
#include "harness/tensors/safetensors.h"
#include "kernels/model/model.h"

// The form of a parameter in files, but for a transposed one.
static inline enum safetensors_form parameter_form(const struct parameter *p)
{
    return p->filter ? SAFETENSORS_FILTERS : p->vector ? SAFETENSORS_VECTOR : SAFETENSORS_MATRIX;
}

// Writes the gradients of all trainable parameters (LoRA factors under their PEFT names), in F64 if they are kept
// in f64, else in F32. values: gradients computed elsewhere, one per parameter, NULL for a frozen one; NULL: the
// model's own. Returns false and a status if the device has failed or the file cannot be written.
bool gradients_write(const char *path, const struct model *model, const double *const *values,
                     struct status *status);
