// Weight options: options that all optimizers share, for weights and state.
#pragma once
#include "kernels/base/options.h"
#include "kernels/model/model.h"

// In the order of the names below.
enum { ROUND_NEAREST, ROUND_STOCHASTIC };
enum { MASTER_NONE, MASTER_KEPT };
enum { UPDATE_AT_END, UPDATE_IN_BACKWARD };
enum { SUMS_WHOLE, SUMS_PROJECTED };
enum { ORDER_ASCENDING, ORDER_DESCENDING, ORDER_RANDOM }; // of blocks (kernels/optimizers/active_block.h)
enum { STATE_AS_GRADIENT, STATE_WIDE, STATE_BF16 };

#define OPTIMIZER_SEED 1 // default

// Index of a parameter's master among its state tensors, for optimizers with that option.
enum { MASTER_STATE = PARAMETER_STATES - 1 };

struct weight_options {
    int round, master, when;
    size_t seed;
};

// Rows, without their braces, for a struct that has members of these names, `weights` a struct weight_options.
#define OPTION_RATE(options, standard)                                                                             \
    OPTION("rate", NUMBER, options, rate), .maximum = 1e6, .initial = (standard), .help = "learning rate"
#define OPTION_DECAY(options, standard)                                                                            \
    OPTION("decay", NUMBER, options, decay), .maximum = 1e6, .initial = (standard),                                \
                                             .help = "weight decay of matrices, not of gains and biases"
#define OPTION_BETA1(options)                                                                                      \
    OPTION("beta1", NUMBER, options, beta1), .maximum = 0.9999999, .initial = 0.9,                                 \
                                             .help = "decay of the first moment"
#define OPTION_BETA2(options)                                                                                      \
    OPTION("beta2", NUMBER, options, beta2), .maximum = 0.9999999, .initial = 0.999,                               \
                                             .help = "decay of the second moment"
#define OPTION_EPSILON(options)                                                                                    \
    OPTION("epsilon", NUMBER, options, epsilon), .maximum = 1, .initial = 1e-8,                                    \
                                                 .help = "added to the root of the second moment"
#define OPTION_FORM(options, standard)                                                                             \
    OPTION("form", CHOICE, options, form),                                                                         \
        .initial = (standard), .choices = OPTION_CHOICES("torch", "hf", "bitsandbytes"),                           \
        .help = "library whose treatment of decay and epsilon is used (kernels/device/update.h)"
#define OPTION_STATE(options)                                                                                      \
    OPTION("state", CHOICE, options, state),                                                                       \
        .choices = OPTION_CHOICES("gradient", "f32", "bf16"),                                                      \
        .help = "dtype of the moments: the gradient's accumulator dtype, f32 (f64 in f64), or bf16 in bf16"
#define OPTION_ROUND(options)                                                                                      \
    OPTION("round", CHOICE, options, weights.round), .choices = OPTION_CHOICES("nearest", "stochastic"),           \
                                                     .help = "rounding of new weights in bf16"
#define OPTION_MASTER(options, standard)                                                                           \
    OPTION("master", CHOICE, options, weights.master),                                                             \
        .initial = (standard), .choices = OPTION_CHOICES("none", "f32"),                                           \
        .help = "weights to update: the model's, or a master copy in f32 (f64 in f64) from which they are rounded"
#define OPTION_WHEN(options, standard)                                                                             \
    OPTION("when", CHOICE, options, weights.when),                                                                 \
        .initial = (standard), .choices = OPTION_CHOICES("end", "backward"),                                       \
        .help = "time of a unit's update: after the backward pass, or within it as soon as its gradient is "       \
                "complete, which is then freed"
#define OPTION_SEED(options)                                                                                       \
    OPTION("seed", COUNT, options, weights.seed), .maximum = OPTION_COUNT_MAX, .initial = OPTIMIZER_SEED,          \
                                                  .help = "seed of the optimizer's random numbers"

// Returns false and a status if a model in the dtype cannot have such a state.
bool state_check(int state, enum dtype dtype, struct status *status);
// A state tensor: its shape and dtype.
struct tensor state_shape(size_t rows, size_t cols, enum dtype dtype);
// The dtype of moments, and of a master.
enum dtype state_dtype(const struct model *model, int state);
enum dtype master_dtype(const struct model *model);
// The tensor updated in place of a parameter's weights, which are then rounded from it, or no tensor: the stored
// master, or a copy to leave besides; and whether an update of that age must initialise it from the weights.
struct tensor weight_master(const struct parameter *parameter);
bool weight_master_begins(const struct parameter *parameter, size_t age);
// The rounding of this update of a parameter.
struct bf16_rounding weight_rounding(const struct model *model, const struct parameter *parameter,
                                     const struct weight_options *options);
