// Expert weights: the parameters of a mixture of experts in a folder's files. Files name the block, its router and
// its shared expert as their family does, and have a tensor for each projection of each expert (Mixtral, Qwen,
// DeepSeek), or one for all experts (Granite; gpt-oss, transposed or in MXFP4, gate's and up's rows in turn).
// Qwen3-Next has the projections of Gated DeltaNet in two tensors, by heads of keys.
#pragma once
#include "harness/tensors/shards.h"
#include "kernels/model/model.h"

// A parameter's values in the files: the rows of the parts, one below the other; or those of one part, whose last
// two dimensions are transposed, or which is in blocks of MXFP4.
struct expert_source {
    const struct parameter *parameter;
    enum expert_order { ORDER_ROWS, ORDER_TRANSPOSED, ORDER_MXFP4 } order;
    bool in_turn; // gate's and up's rows of an expert, which the parameter has one after another
    size_t rows;  // of an expert
    size_t count; // of parts; those that are missing have no data
    struct safetensors_tensor *parts; // MXFP4: blocks, then scales
};

struct expert_weights {
    size_t count;
    struct expert_source *sources;
    size_t layers, experts;
    bool short_names; // Mixtral's: block_sparse_moe.experts.0.w1
};

// Takes the tensors of experts and those of fused deltas out of the shards, and gives others of the block their
// parameters' names. Leaves tensors that the model has no parameter for. False and a status that names a tensor
// that is there twice, of another shape or unreadable. Close it in any case, before the shards.
bool expert_weights_take(struct expert_weights *weights, struct shards *shards, const struct model *model,
                         struct status *status);
void expert_weights_close(struct expert_weights *weights);
// The parameter's source; NULL: the shards have it under its name.
const struct expert_source *expert_weights_find(const struct expert_weights *weights, const struct parameter *p);
// Calls `add` with the name of each tensor that the source lacks.
void expert_weights_missing(const struct expert_weights *weights, const struct expert_source *source,
                            void (*add)(void *context, const char *name), void *context);
// Values [start, start + count) of the parameter, exactly.
void expert_source_values(const struct expert_source *source, size_t start, size_t count, double *values);

// The tensors that a file has for a parameter, as transformers writes them: names, which are to be freed, and
// shapes.
struct file_tensors {
    size_t count;
    struct safetensors_item *items;
};
void file_tensors_add(struct file_tensors *tensors, const struct config *config, const struct parameter *p,
                      enum dtype dtype);
void file_tensors_free(struct file_tensors *tensors);
// Rows of the parameter that the file has in another order, those of an expert, or the row of all experts' biases:
// file_order puts their values, which are row by row, into the file's. 0: the file has the parameter's order.
size_t file_order_rows(const struct config *config, const struct parameter *p);
void file_order(const struct config *config, const struct parameter *p, const double *values, double *ordered);
