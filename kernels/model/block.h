// Block: one of the two halves of a layer, a mixer or an MLP, each between its norms. A kind of mixer or MLP is one
// file that ends in one table, and one row of kernels/layers/block_kinds.c. Everything else asks the tables.
#pragma once
#include "kernels/model/activations.h"
#include "kernels/model/lora.h"
#include "kernels/model/ranks.h"

#define BLOCK_PARAMETERS 11

// Form of a module's weight: a projection [out, in], or with in 0 a norm's gain [1, out]; a gain whatever the
// model's offset; a vector [1, out], under the module's name alone; a filter for each channel, [out, taps] here and
// [out, 1, taps] in files, which no product takes; the matrices of all experts, one below the other, out rows in
// all, under the module's name alone.
enum block_form { FORM_MODULE, FORM_GAIN, FORM_VECTOR, FORM_FILTER, FORM_EXPERTS };
// A module of each layer of the kind, with its weight and perhaps a bias.
struct block_parameter {
    const char *name;        // Hugging Face's, within a layer: "self_attn.q_proj"; NULL: the table ends
    enum lora_target target; // 0: LoRA is not put on it
    size_t joins;            // above 0: only LoRA factors, shared by this many projections before it (fused files)
    enum block_form form;
    double mean, deviation; // of a vector's random values
    bool constant;          // never trains
    bool wide;              // struct parameter's
};
// out 0: models of this configuration have no such module.
struct block_shape {
    size_t out, in;
    bool bias;
};

struct batch;
struct carry;
struct carry_segment;
struct cell_at;
struct model;

// Columns and dtypes of up to two tensors; cols 0: there is no such tensor.
#define CARRY_TENSORS 2
struct pair_shape {
    size_t cols[CARRY_TENSORS];
    enum dtype dtype[CARRY_TENSORS];
};
struct carry_shape {
    struct pair_shape value, grad;
    size_t transition; // columns of what a state's gradient is multiplied by to pass tokens, of grad's dtype
    size_t window;     // a token's cell reads the carry of this many tokens, the last its own; 0: all before it
};

// Properties of both kinds of block.
struct block_kind {
    const char *name;
    // In the model's order. The last one projects what the block adds to its input.
    const struct block_parameter *parameters;
    struct block_shape (*shape)(const struct config *config, size_t layer, size_t parameter);
    // Bytes per token that a lean cell keeps, besides the statistics and outputs of the block's two norms.
    double (*kept_bytes)(const struct model *model, size_t layer);
    // Weights that a token is multiplied by. NULL: those of all projections.
    double (*weights)(const struct config *config, size_t layer);
};

// x: [n, d], the cell's input, of which a mixer reads the norm. n may be 0 where ranks share the tokens: such a
// cell takes part in what the ranks exchange, and does nothing else.
struct mixer {
    struct block_kind kind;
    // Checks the sizes and factors that this mixer takes: false and a status that names the field. NULL: all.
    bool (*check)(const struct config *config, const struct layer_kind *kind, struct status *status);
    struct carry_shape (*carry)(const struct model *model, size_t layer);
    bool at_borders;    // the carry is a state at each chunk's right border, not a row per token
    bool carries_heads; // a row of the carry has kv_heads heads, which ranks can share
    // Shape of the outputs, [n, ..] each; the block's last projection reads the first one, or
    struct pair_shape (*outputs)(const struct model *model, size_t layer);
    // what this makes of it and of what is kept, rows from `row` on: in made, as wide as the first output, or where
    // it is kept. NULL: reads the first output.
    struct tensor (*output)(struct model *model, size_t layer, const struct kept *kept, size_t row,
                            struct tensor made);
    unsigned output_reads; // tensors of kept->own that it reads besides, a bit each

    // Writes the chunk's part of the layer's carry. ahead: also makes what `forward` reads of the same pass over x.
    void (*project)(struct cell_at at, struct tensor x, struct carry carry, struct activations *a, enum keep how,
                    bool ahead);
    // The same in blocks of any rows, from `row` of the chunk on; `finish` completes them. NULL: chunk by chunk.
    void (*project_block)(struct model *model, size_t layer, size_t row, struct tensor x, struct carry carry);
    void (*finish)(struct cell_at at, struct carry carry);
    // Makes the outputs, unless they are written; keeps as `how` says.
    void (*forward)(struct cell_at at, struct tensor x, struct carry carry, struct activations *a, enum keep how);
    // grad_output: the gradient of the first output, is spent. Adds to grad, [n, d], that of x; to the segments'
    // gradients, the last of which holds the chunk's own, complete and spent on return; and to those of weights.
    // The gradient of a state first passes the chunks that are not drawn (struct carry_draw).
    void (*backward)(struct cell_at at, const struct activations *a, struct carry carry,
                     const struct carry_segment *segments, size_t count, struct tensor grad_output,
                     struct tensor grad);

    // For ranks that share the tokens of a sequence (NULL: unsupported): whether so many can, with this exchange,
    // or a reason with a remedy; whether they communicate while cells run, which are then whole; and the rest of
    // `backward`, from the gradient of the chunk's own carry, unless that is a state.
    bool (*shares)(const struct config *config, size_t layer, enum exchange exchange, size_t ranks,
                   struct status *status);
    bool (*sends)(enum exchange exchange);
    void (*project_backward)(struct cell_at at, struct tensor x, struct carry grad_carry, struct tensor grad);

    // FLOPs of a forward of one sequence, besides products with weights. NULL: none.
    double (*flops)(const struct config *config, size_t layer, const struct batch *batch);
};

// y = x + mlp(x), or y = x + norm(mlp(x)).
struct mlp {
    struct block_kind kind;
    // Checks the sizes that this MLP takes: false and a status that names the field. NULL: all.
    bool (*check)(const struct config *config, struct status *status);
    bool chooses; // experts, by cell (kernels/layers/choices.h)
    // y may be x, or no tensor: then only what the backward reads is computed, and with KEEP_NOTHING only choices.
    void (*forward)(struct cell_at at, struct tensor x, struct tensor y, struct kept *kept, enum keep how);
    // grad: that of y, becomes that of x. Adds to gradients of weights; frees what kept has for this alone.
    void (*backward)(struct cell_at at, struct tensor x, struct kept *kept, struct tensor grad);
    // Columns of the widest scratch; cells work in blocks of rows by it.
    size_t (*width)(const struct config *config, size_t layer);
};

// Ending in NULL; those of a zeroed configuration come first.
extern const struct mixer *const mixers[];
extern const struct mlp *const mlps[];
const struct mixer *config_mixer(const struct config *config, size_t layer);
const struct mlp *config_mlp(const struct config *config, size_t layer);
// Weights of a layer's block that a token is multiplied by.
double block_weights(const struct config *config, size_t layer, const struct block_kind *kind);
// Checks that the numbers fit together (heads a multiple of kv_heads, even head_dim, nothing 0 ...). False and a
// status that names the field if not.
bool config_check(const struct config *config, struct status *status);
// The kind of the layers whose queries see all keys before theirs, or kinds[0] if there are none.
const struct layer_kind *config_full_kind(const struct config *config);
// Tells whether some layer's carry is a state per border between chunks.
bool config_has_states(const struct config *config);
// Whether the layer has the module; those that files may join with others count, and what is no layer's.
bool config_has_target(const struct config *config, size_t layer, enum lora_target target);
// The name in its model of a module that the layer has, "model.layers.0.self_attn.q_proj", or, of LORA_PARAMETERS,
// of its parameter. target: a position in lora_target_names.
void lora_module_name(char *name, size_t bytes, const struct config *config, size_t layer, size_t target);
// Number of weights; and of those that a token reads.
size_t config_parameters(const struct config *config);
size_t config_active_parameters(const struct config *config);
// Whether the base's files have the module, where PEFT finds it.
bool lora_module_is_own(const struct config *config, size_t target);
