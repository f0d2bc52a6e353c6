// Optimizer: how weights move along their gradients, and the state that each keeps for it.
// To add one: a file of its own that ends in one `const struct optimizer`, and its name in optimizer.c.
#pragma once
#include "kernels/base/options.h"
#include "kernels/model/model.h"

struct trainer;

// A parameter's role in a turn. keeps: it has a state also while it does not train, and the same one when the turn
// changes.
struct role {
    bool trains, keeps;
};

// Parameters of a model with LoRA that an optimizer moves: the factors alone; none, for it is for models without
// LoRA; or weights beside the factors, for it is for models with LoRA.
enum optimizer_lora { LORA_ALONE, LORA_NEVER, LORA_BESIDE };

struct optimizer {
    const char *name;
    const char *summary; // one line
    const char *source;
    struct option_table options;
    enum optimizer_lora lora;
    bool uneven; // updates are not alike: some do more than others
    // State and update of some of a parameter's elements, in whole blocks of 256, are those of the whole there:
    // ranks may have shares of them.
    bool by_element;
    // Hooks take options of the optimizer's own struct.
    // Checks the options against a model in a dtype; NULL: any goes. False sets status.
    bool (*check)(const void *options, const struct config *config, enum dtype dtype, struct status *status);
    // The layer of turn number `number`, from 0 on, where layers train by turns; each is of so many updates as the
    // option "interval" says. Among the first turns, as many as the model has layers, is one of every layer that
    // ever has one. NULL: all trains together.
    size_t (*active_layer)(const void *options, const struct config *config, size_t number);
    // The role in the present turn of a parameter that trains in some turn (model_can_train). NULL: the layer's
    // train, and nothing else does.
    struct role (*role)(const struct trainer *trainer, const struct parameter *parameter);
    // Notes what it wants of the turns before the one that it is; the same whatever was the turn before. NULL:
    // nothing.
    void (*turned)(struct trainer *trainer);
    // The shapes and dtypes of the tensors of a parameter's state, of which it knows the meaning; those that it
    // leaves alone are no tensors. NULL: it keeps none.
    void (*state)(const struct trainer *trainer, const struct parameter *parameter,
                  struct tensor state[PARAMETER_STATES]);
    // The shape and dtype of the parameter's projector, of which it knows the meaning, and which is on the device
    // wherever the state is kept; or no tensor. NULL: none has one.
    struct tensor (*projector)(const struct trainer *trainer, const struct parameter *parameter);
    // Whether update t, from 1 on, is made of the sums of the parameter's gradient in its projector's directions,
    // which then are all that the walks make of it. NULL: none is.
    bool (*projects)(const struct trainer *trainer, const struct parameter *parameter, size_t t);
    // Sets what of a new state and projector is not zero. NULL: all of it is.
    void (*start)(struct trainer *trainer, struct parameter *parameter);
    // One update of a parameter that trains, by the trainer's optimizer_options and update.
    void (*update)(struct trainer *trainer, struct parameter *parameter);
};

// All optimizers, ending in NULL.
extern const struct optimizer *const optimizers[];
const struct optimizer *optimizer_find(const char *name);

// Whether a model in the dtype can be trained so, by the optimizer's own check and by what all have: "round". False
// sets status.
bool optimizer_check(const struct optimizer *optimizer, const void *options, const struct config *config,
                     enum dtype dtype, struct status *status);

// Whether a unit is updated within the walk, when its gradient is complete, which is then freed: so by the option
// "when". Then there is one micro-batch, and nothing can be made of all gradients together.
bool optimizer_updates_in_backward(const struct optimizer *optimizer, const void *options);

// Whether after the walks of an update all gradients are there, and whole: they are neither updated in the walk
// nor, by the option "sums", projected in it.
bool optimizer_keeps_gradients(const struct optimizer *optimizer, const void *options);

// Updates of a turn.
size_t optimizer_interval(const struct optimizer *optimizer, const void *options);
// The lowest layers, upwards and at most `most`, that have a turn within the first so many updates (0: any number).
// Returns how many they are; none where all trains together.
size_t optimizer_lowest_active(const struct optimizer *optimizer, const void *options, const struct config *config,
                               size_t updates, size_t layers[], size_t max);
