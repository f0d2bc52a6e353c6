// Adapter tensors: what an adapter's file has for each of a model's parameters that train, under PEFT's names.
#pragma once
#include "harness/files/output_file.h"
#include "kernels/model/model.h"

#define ADAPTER_PREFIX "base_model.model." // of every tensor's name

// A parameter's place in a tensor: its first row and column there.
struct adapter_piece {
    const struct parameter *parameter;
    size_t row, col;
};

// One tensor of the file. Most are one parameter's. The factors of q, k and v of a family that fuses them are those
// of the one projection: A one below the other, B in blocks along the diagonal, and 0 elsewhere.
#define ADAPTER_PIECES 3
struct adapter_tensor {
    char name[160];
    size_t rows, cols;
    bool vector, transposed; // one dimension; [cols, rows] of the parameter
    size_t count;
    struct adapter_piece pieces[ADAPTER_PIECES];
};

// Lists the tensors of a model that was listed or opened, in the order of its parameters; the caller frees them.
// submodule: of the model that the adapter is over, as struct config has it.
struct adapter_tensors {
    size_t count;
    struct adapter_tensor *items;
};
struct adapter_tensors adapter_tensors_of(const struct model *model, const char *submodule);
// Number i of a parameter's values as it is in the tensor's: row-major.
size_t adapter_tensor_index(const struct adapter_tensor *tensor, const struct adapter_piece *piece, size_t i);
// Whether the tensor is the parameter, value by value.
bool adapter_tensor_is_plain(const struct adapter_tensor *tensor);
