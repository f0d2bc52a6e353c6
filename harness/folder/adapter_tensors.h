// Adapter tensors: the tensors of an adapter's file for a model's trainable parameters, under PEFT's names.
#pragma once
#include "harness/files/output_file.h"
#include "harness/tensors/gradients.h"

#define ADAPTER_PREFIX "base_model.model." // of every tensor's name

// PEFT's name for that of a module that has factors, or of one of their tensors: within `submodule`, and where all
// tokens take a shared expert as it is, with its module's name in families that have one, "mlp.shared_experts".
void adapter_name_within(char *text, size_t bytes, const struct config *config, const char *submodule,
                         const char *name);

// A parameter's position in a tensor: its first row and column.
struct adapter_piece {
    const struct parameter *parameter;
    size_t row, col;
};

// One tensor of the file, usually one parameter. If a family fuses q, k and v, the tensor has the factors of all
// three: A stacked, B as diagonal blocks with 0 elsewhere.
#define ADAPTER_PIECES 3
struct adapter_tensor {
    char name[160];
    size_t rows, cols;
    enum safetensors_form form;
    size_t count;
    struct adapter_piece pieces[ADAPTER_PIECES];
};

// Lists the tensors of a listed or opened model, in the order of its parameters; the caller frees them. submodule:
// see struct config.
struct adapter_tensors {
    size_t count;
    struct adapter_tensor *items;
};
struct adapter_tensors adapter_tensors_of(const struct model *model, const char *submodule);
// Index of a parameter's value i in the tensor, row-major.
size_t adapter_tensor_index(const struct adapter_tensor *tensor, const struct adapter_piece *piece, size_t i);
// Tells whether the tensor equals the parameter, value by value.
bool adapter_tensor_is_plain(const struct adapter_tensor *tensor);
