// Model: a decoder's weights and their gradients on a device, under their Hugging Face names.
#pragma once
#include "kernels/base/ops.h"
#include "kernels/base/random.h"
#include "kernels/transformer/lora.h"
#include "kernels/transformer/ranks.h"

#define PARAMETER_STATES 5
#define PARAMETER_PARTS  2

struct batch;
struct bucket;
struct lost_updates;
struct optimizer;
struct unit_listener;
// Of LoRA: W + scale B A.
enum factor { FACTOR_NONE, FACTOR_A, FACTOR_B };
struct parameter {
    char name[112]; // "model.layers.0.self_attn.q_proj.weight", or the PEFT name of a LoRA factor
    size_t size;    // all its elements; value, gradient and state may be of some, from number `first` on
    size_t first;
    struct bucket
        *bucket; // of replicas (kernels/transformer/bucket.h), and the block that it begins with; else NULL
    size_t block;
    // Its value, while its unit is acquired; else what it is made of, if it is kept otherwise: codes and scales, or
    // itself on the host; and those while they come from there (kernels/transformer/weights.h). No data of another
    // rank's.
    struct tensor value, kept[PARAMETER_PARTS], fetched[PARAMETER_PARTS];
    // No tensors when frozen, or another rank's; a gradient that lives in the walk alone is one only then. The
    // state is the optimizer's, of which it knows the meaning. far: what they are kept in on the host while they
    // are used on the device (kernels/transformer/training.h).
    struct tensor grad, state[PARAMETER_STATES], far_grad, far_state[PARAMETER_STATES];
    struct tensor unrounded; // what an update that is measured leaves besides, or no tensor (lost_updates.h)
    struct tensor projector; // directions of its gradient (kernels/transformer/projector.h), or no tensor
    bool projected;          // the gradient's sums are those in them: [m, r] or [r, n]
    enum factor factor;      // of LoRA's, which it is
    bool saved;              // trains whole beside LoRA's factors (modules_to_save)
    bool transposed;         // an A of the embedding: [vocab, rank] here, [rank, vocab] in files
    const char *copy_of;     // name of the parameter that it begins as a copy of; NULL: of none
    bool vector;             // a norm's gain or a bias: one dimension in files
    double mean;             // of its random values: a gain is about 1
    bool trains;             // and is this rank's
};
// What an optimizer makes of a parameter. keeps: it has a state also while it does not train, and the same one when
// the turn changes.
struct role {
    bool trains, keeps;
};

// y = x W^T (+ bias) (+ scale * (x A^T) B^T).  W: [out, in], A: [rank, in], B: [out, rank], or rows of a taller
// one, from lora_row on: projections that a family fuses share their A and have B one below the other.
struct projection {
    struct parameter *weight, *bias, *lora_a, *lora_b; // NULL: absent
    size_t lora_row;
    double lora_scale;
};

// Norms, of a block's input and of its output, where they are; else NULL.
struct layer {
    struct parameter *first; // of its parameters, which are one after another
    struct parameter *attention_norm, *attention_out_norm, *mlp_norm, *mlp_out_norm, *q_norm, *k_norm;
    struct projection q, k, v, o, gate, up, down;
    size_t alike; // the lowest layer whose factors have the same ranks
    size_t seen;  // updates that a state which is kept has seen in earlier turns
};

// What of a unit is between the places, and when it is there. Weights: prefetched. Gradients: 0, whatever is kept;
// added to on the device; on their way to the host.
struct transit {
    bool prefetched, zero, adding, offloading;
    struct event in, out;
};

// An optimizer's step: its number, from 1 on, the number of those that the state of what trains has seen with it,
// and what a schedule multiplies the rate by. t 0: there is none now.
struct update {
    size_t t, age;
    double rate_factor;
};

// Whose turn it is, where an optimizer lets layers train by turns.
struct turn {
    bool taken;           // else there are none, and all trains together
    size_t number, layer; // both from 0 on
};

struct model {
    struct config config;
    struct lora lora;
    bool lora_beside;     // weights train, too, and not LoRA's factors alone
    bool without_adapter; // forwards leave LoRA's products out
    struct device *device;
    struct ranks ranks;
    enum dtype kv_gradient_dtype, gradient_dtype;
    bool kv_gradient_stochastic; // sums in bf16 of keys' and values' gradients are rounded by random bits
    uint64_t seed;               // of these
    enum quantisation quantisation;
    bool dequantised;
    enum place weights_place, gradients_place, optimizer_place;
    const struct optimizer *optimizer; // NULL: none
    const void *optimizer_options;     // the optimizer's own struct
    bool updates_in_walk; // a unit's gradient lives from the first sum to its update, when it is complete
    bool adds_more;       // walks of the same update follow: what is kept whole is summed over ranks after the last
    bool keeps_gradients; // after a walk with an update all gradients are there, and whole
    struct update update;
    size_t walk; // of those since the gradients were zeroed, from 0 on
    struct turn turn;
    struct lost_updates *lost_updates; // of the update under way; NULL: nobody asks
    size_t lowest_trained;             // nothing below this layer trains, and a backward pass ends with it
    struct unit_listener *listener;    // kernels/transformer/unit.h; NULL: nobody listens
    size_t parameter_count;
    struct parameter *parameters;
    struct parameter *embedding, *final_norm, *head; // head is embedding when tied
    struct projection input, output;                 // the embedding and the head with LoRA's factors
    struct layer *layers;
    struct transit *transits;          // by unit
    struct bucket *buckets;            // by unit, two of each; NULL: there are no replicas
    struct tensor rope_frequencies[2]; // [1, head_dim / 2] f64; of layers with a window, or no tensor
};

struct model_options {
    struct lora lora;
    enum dtype kv_gradient_dtype, gradient_dtype; // the accumulators
    bool kv_gradient_stochastic;                  // in bf16: rounded by random bits of `seed`, not to nearest
    uint64_t seed;
    enum quantisation quantisation; // of the layers' projections, which then must not train
    bool dequantised;               // they are kept as what the codes stand for: a reference
    bool lora_beside;               // as of the model, which has it from its optimizer, too
    enum place weights_place, gradients_place, optimizer_place; // where they are kept while they are not used
    const struct optimizer *optimizer;                          // whose state is kept; NULL: none
    const void *optimizer_options; // the optimizer's own struct, which stays the caller's
    const struct ranks *ranks;     // NULL: one rank has all
};

// The parameters' names and shapes alone, without a device: for tools that read or write files of weights.
void model_list(struct model *model, const struct config *config, const struct lora *lora);
// Allocates the rank's weights, gradients of what trains, and its optimizer state, which is zeroed. A tied table is
// both ends' of a pipeline. The weights are not yet set. Release with model_close, also after a failure, and after
// model_list. Out of memory is in device->status.
void model_open(struct model *model, const struct config *config, const struct model_options *options,
                struct device *device);
void model_close(struct model *model);

// Sets every weight that the rank has at random, on the device, by its name and the seed: the same bits everywhere,
// rounded to `rounding`, the dtype the values are rounded to before they are stored (so that an f64 reference can
// hold an f32 model's weights). Linear weights N(0, 1/in), embedding N(0, 1/width), gains N(1, 0.1^2), biases
// N(0, 0.02^2), LoRA A N(0, 1/in), B N(0, 0.02^2): no gradient is trivially zero.
void model_randomize(struct model *model, uint64_t seed, enum dtype rounding);
// One parameter of them.
void model_randomize_parameter(struct model *model, struct parameter *parameter, uint64_t seed,
                               enum dtype rounding);
// The same values on the host: `count` of the parameter's rows * cols numbers, from `first` on.
void model_random_values(const struct parameter *parameter, uint64_t seed, enum dtype rounding, size_t first,
                         size_t count, double *values);
// Whether the parameter is this rank's, and whether it can train: is not frozen beside LoRA's factors.
bool model_has(const struct model *model, const struct parameter *parameter);
bool model_can_train(const struct model *model, const struct parameter *parameter);
static inline bool parameter_is_factor(const struct parameter *parameter)
{
    return parameter->factor != FACTOR_NONE;
}
// What becomes of it in the turn that it is.
struct role model_role(const struct model *model, const struct parameter *parameter);
// Parameter by name, NULL if there is none.
struct parameter *model_parameter(const struct model *model, const char *name);
// The model's parameters that train are from here on those whose turn it is, or all: with a gradient and an
// optimizer's state that is zero, unless it is kept.
void model_train(struct model *model);
// Whether a backward pass makes the gradient of the layer's input. Where layers train by turns that of the lowest
// that trains is of no use.
bool model_descends(const struct model *model, size_t layer);
// grad = 0 for everything that trains, of the shape that the update under way sums it in; where there is none, of
// the parameter's.
void model_zero_gradients(struct model *model);
// FLOPs of one forward pass over the batch's sequences, F in methods/README.md; the pairs that the masks leave
// counted exactly. Of the batch its shape and its documents count.
double model_forward_flops(const struct config *config, const struct lora *lora, const struct batch *batch);
// Model FLOPs (methods/README.md): of one full backprop over them, not of what a method runs: forward + gradients
// of all activations + gradients of what trains.
double model_flops(const struct config *config, const struct lora *lora, const struct batch *batch);
