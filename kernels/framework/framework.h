// Framework: how another program runs a training step on the models that this one knows. So far transformers: its
// version, its trainer's loss, and what its scripts hold on to.
#pragma once
#include "kernels/base/options.h"
#include "kernels/base/status.h"
#include "kernels/model/lora.h"

enum framework_version { TRANSFORMERS_5_24, TRANSFORMERS_4_56, TRANSFORMERS_4_51, TRANSFORMERS_4_46 };
enum framework_trainer { TRAINER_HF, TRAINER_TRL, TRAINER_PLAIN };
// DEFAULT: as the trainer, or the version, has it.
enum framework_loss { LOSS_DEFAULT, LOSS_WHOLE, LOSS_CHUNKED, LOSS_LIGER, LOSS_TRL };
enum framework_outputs { OUTPUTS_DEFAULT, OUTPUTS_RELEASED, OUTPUTS_KEPT };
enum framework_reentrant { REENTRANT_DEFAULT, REENTRANT_NO, REENTRANT_YES };
enum framework_mask { MASK_NONE, MASK_PADDED };
enum framework_attention { FRAMEWORK_FLASH, FRAMEWORK_EFFICIENT, FRAMEWORK_EAGER };
enum framework_gradients { GRADIENTS_FRESH, GRADIENTS_HELD };
enum framework_adapters { ADAPTERS_F32, ADAPTERS_BF16 };
enum framework_offload { FRAMEWORK_OFFLOAD_NONE, FRAMEWORK_OFFLOAD_INPUTS };
// Stages of ZeRO, 0 to 3: cards divide among themselves one of these with all that are before it.
enum framework_shards { SHARDS_NONE, SHARDS_STATES, SHARDS_GRADIENTS, SHARDS_ALL };
enum framework_quantised { QUANTISED_NONE, QUANTISED_NF4, QUANTISED_NF4_DOUBLE };
enum framework_optim {
    OPTIM_ADAMW,
    OPTIM_ADAMW_8BIT,
    OPTIM_PAGED_ADAMW_8BIT,
    OPTIM_PAGED_ADAMW_32BIT,
    OPTIM_ADAFACTOR,
    OPTIM_SGD
};
enum framework_optimizer { OPTIMIZER_FOREACH, OPTIMIZER_FUSED };
enum framework_mixed_precision { MIXED_PRECISION_NO, MIXED_PRECISION_BF16 };
enum framework_head { HEAD_BF16, HEAD_F32 };
// Bits of `inferred`.
enum framework_inferred { INFERRED_HEAD = 1, INFERRED_ADAPTERS = 2 };

struct framework {
    int version, trainer, loss, outputs, mask, attention, reentrant, gradients, adapters, optimizer_form, head,
        mixed_precision, optim, offload, quantised, shards;
    size_t loss_rows, ranks;
    unsigned inferred;
};
extern const struct option_table framework_options;

// The framework's counterpart of a method of this program.
enum framework_walk { WALK_NONE, WALK_FULL, WALK_CHECKPOINT };

// Replaces defaults that depend on the trainer and the version.
void framework_resolve(struct framework *framework);
// Tells whether its step is known for this model. Otherwise sets the status: unsupported, or bad input where keys
// do not go together.
bool framework_check(const struct framework *framework, const struct config *config, const struct lora *lora,
                     struct status *status);
// The parts of it that nobody has checked against PyTorch, in words, and those that nobody states.
#define FRAMEWORK_UNCHECKED 20
struct framework_unchecked {
    size_t count;
    const char *parts[FRAMEWORK_UNCHECKED];
};
struct framework_unchecked framework_unchecked(const struct framework *framework, const struct config *config,
                                               const struct lora *lora, bool optimizer);
// "5.24.0"; and the PyTorch and the day that its walk was checked with.
const char *framework_version_name(const struct framework *framework);
#define FRAMEWORK_NAME    "transformers"
#define FRAMEWORK_TORCH   "2.15"
#define FRAMEWORK_CHECKED "2026-11-28"
