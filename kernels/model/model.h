// Model: a decoder's configuration, its parameters under their Hugging Face names, and its layers, which are made
// of these. It computes nothing and stores nothing: cells (cell.h) compute with its layers, and a trainer
// (trainer.h) keeps the parameters' values and gradients.
#pragma once
#include "kernels/device/ops.h"
#include "kernels/model/block.h"
#include "kernels/model/ranks.h"
#include "kernels/model/router_losses.h"

#define PARAMETER_STATES 5
#define PARAMETER_PARTS  2

struct bucket;
struct choices;
struct choices_probe;
struct unit_keeper;
struct unit_listener;
// A factor of LoRA's: W + scale B A.
enum factor { FACTOR_NONE, FACTOR_A, FACTOR_B };
struct parameter {
    char name[112];            // "model.layers.0.self_attn.q_proj.weight", or the PEFT name of a LoRA factor
    size_t size;               // all its elements; ranks that share the experts have some of them in `value`
    struct tensor value, grad; // value while its unit is acquired (unit.h), grad while it trains and is summed
    struct tensor projector;   // directions of its gradient (kernels/layers/projector.h), or no tensor
    bool projected;            // the gradient's sums are those in them: [m, r] or [r, n]
    bool trains;               // now, and on this rank
    enum factor factor;
    bool saved;          // trains whole beside LoRA's factors (modules_to_save)
    bool transposed;     // an A of the embedding: [vocab, rank] here, [rank, vocab] in files
    const char *copy_of; // name of the parameter that it begins as a copy of; NULL: of none
    bool vector;         // a norm's gain or a bias: one dimension in files
    // A projection that some files join with others (Phi-3) has its module "self_attn.q_proj", the joined one's,
    // and its rows in that: the first, and those of all. NULL: it is never joined.
    const char *module, *joined;
    size_t joined_row, joined_rows;
    bool filter;            // of each channel, [channels, taps] here and [channels, 1, taps] in files
    bool constant;          // never trains (a buffer in transformers)
    bool wide;              // of the statistics' dtype, whatever the model's
    size_t experts;         // matrices that this rank holds, one below the other; 0: it is one
    bool in_turn;           // of each in files the rows of gate and up take turns
    double mean, deviation; // of its random values: a gain is about 1; deviation 0: by name and shape

    // Storage of the value (weights.h): codes and scales, or the value itself on the host; and their copies on the
    // device while the unit is prefetched.
    struct tensor kept[PARAMETER_PARTS], fetched[PARAMETER_PARTS];
    enum quantisation quantisation; // of the value
    bool coded;                     // kept as codes and scales, else as what these stand for
    struct bucket *bucket;          // of replicas (bucket.h), and the block that it begins with; else NULL
    size_t block;
    size_t first; // the number of this rank's first element, or of its share's

    // The optimizer's state (trainer.h), of which it knows the meaning.
    struct tensor state[PARAMETER_STATES];
    struct tensor far_grad, far_state[PARAMETER_STATES]; // on the host, while copies are used on the device
    struct tensor unrounded; // what an update that is measured leaves besides, or no tensor (lost_updates.h)
};

// y = x W^T (+ bias) (+ lora_scale * (x A^T) B^T).  W: [out, in], A: [rank, in], B: [out, rank], or rows of a
// taller one, from lora_row on: projections that a family fuses share their A and have B one below the other.
struct projection {
    struct parameter *weight, *bias, *lora_a, *lora_b; // NULL: absent
    size_t lora_row;
    double lora_scale;
    double scale; // of the whole right side; 0: 1
};

struct block {
    // Norms of its input, in parallel layers both blocks', and of its output before that is added; NULL: none
    struct parameter *norm, *out_norm;
    struct projection parameters[BLOCK_PARAMETERS]; // by its kind's table: weight NULL: absent; of a gain it alone
    const struct projection *out;                   // the last of these
};

struct layer {
    struct parameter *first; // of its parameters, which are one after another
    struct block mixer, mlp;
    struct parameter *scalar; // [1, 1], by which its output is multiplied; NULL: none
    size_t alike; // the lowest layer of the same kind, whose factors have the same ranks: its cells cost as much
};

// The parameters' values and gradients are its keeper's to allocate (trainer.h).
struct model {
    struct config config;
    struct lora lora;
    bool lora_beside;     // weights train, too, and not LoRA's factors alone
    bool without_adapter; // forwards leave LoRA's products out
    struct device *device;
    struct ranks ranks;
    size_t parameter_count;
    struct parameter *parameters;
    struct parameter *embedding, *final_norm, *head; // head is embedding when tied
    struct projection input, output;                 // the embedding and the head with LoRA's factors
    struct layer *layers;
    // [1, rotary / 2] f64, longrope's [2, ..], of short and of long documents, by kind; kinds may share one
    struct tensor rope_frequencies[CONFIG_KINDS];
    struct tensor ones;         // [a block of permuted rows, 1], of experts or routers with biases
    size_t rope_longest;        // the longest document that dynamic ones are for; 0: one of the original context
    struct unit_keeper *keeper; // unit.h; NULL: the parameters are listed alone
    struct unit_listener *listener; // unit.h; NULL: none
    struct router_losses router_losses;
    double *router_counts;   // [layers, experts] choices in the update's micro-batches; NULL: nothing reads them
    struct choices *choices; // of the step that runs (kernels/layers/choices.h); NULL: it keeps none
    const struct choices_probe *probe; // of steps' choices (choices.h), for measurements alone; NULL: none
    size_t lowest_trained;             // nothing below this layer trains, and a backward pass ends with it
    bool block_coordinate;             // one block trains at a time
    enum dtype kv_gradient_dtype, gradient_dtype;
    bool kv_gradient_stochastic; // sums in bf16 of keys' and values' gradients are rounded by random bits
    size_t latent_block;         // keys that latent attention projects at once; 0: LATENT_BLOCK
    uint64_t seed;               // of these random bits, with update and micro_batch
    size_t update;               // the current update, from 1 on; 0: none
    size_t micro_batch;          // the pass since the gradients were zeroed, from 0 on
};

// Lists the parameters' names and shapes alone, without a device: for tools that read or write files of weights.
void model_list(struct model *model, const struct config *config, const struct lora *lora);
// The same on a device, with what layers read besides parameters. ranks NULL: one rank has all. Release either with
// model_close, also after a failure. Out of memory is in device->status.
void model_open(struct model *model, const struct config *config, const struct lora *lora,
                const struct ranks *ranks, struct device *device);
void model_close(struct model *model);
// Keys that latent attention projects at once, if ranks do not pass them around a ring; 0: no layer has it.
size_t model_latent_block(const struct model *model);
// Sets dynamic frequencies to those of a step whose longest document has this many tokens.
void model_set_longest(struct model *model, size_t longest);

// Whether ranks share the experts, and this rank has some of the parameter's.
static inline bool model_shares_experts(const struct model *model)
{
    return model->ranks.experts.size > 1;
}
static inline bool parameter_is_part(const struct parameter *parameter)
{
    return tensor_count(parameter->value) < parameter->size;
}
// The parameter with the shape of all ranks' parts.
struct parameter parameter_whole(const struct parameter *parameter);
// Whether the parameter is this rank's, and whether it can train: is not frozen beside LoRA's factors.
bool model_has(const struct model *model, const struct parameter *parameter);
bool model_can_train(const struct model *model, const struct parameter *parameter);
// The dtype of the parameter's values in a model, or of their rounding in a reference, of this dtype.
static inline enum dtype parameter_dtype(const struct parameter *parameter, enum dtype dtype)
{
    return parameter->wide ? dtype_statistic(dtype) : dtype;
}
static inline bool parameter_is_factor(const struct parameter *parameter)
{
    return parameter->factor != FACTOR_NONE;
}
// Parameter by name, NULL if there is none.
struct parameter *model_parameter(const struct model *model, const char *name);
// Whether a backward pass computes the gradient of the layer's input. With one block training at a time, that of
// the lowest trained layer is not needed.
bool model_descends(const struct model *model, size_t layer);
