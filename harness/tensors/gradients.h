// Gradients: what a step computed, written as safetensors under Hugging Face names, to be held against any other
// program's.
#pragma once
#include "kernels/model/model.h"

// Writes the gradient of everything that trains (LoRA factors under their PEFT names); F64 where gradients are kept
// in f64, F32 otherwise. values: of each of the model's parameters, where others have computed them, NULL for one
// that does not train; NULL: the model's own gradients. False and a status if the device had failed or the file
// cannot be written.
bool gradients_write(const char *path, const struct model *model, const double *const *values,
                     struct status *status);
