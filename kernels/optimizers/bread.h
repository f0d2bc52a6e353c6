// BREAD: block coordinate descent in which the other layers are updated too, cheaply; shared by its two forms. Luo,
// Shen, Peng, Li & Li 2025, "Accelerating Block Coordinate Descent for LLM Finetuning via Landscape Expansion",
// NeurIPS 2025.
#pragma once
#include "kernels/optimizers/active_block.h"

// In the order of the names below.
enum { EXPAND_ALL, EXPAND_ABOVE };

// Common options; both forms' structs begin with this.
struct bread_options {
    struct block_options blocks;
    int expand;
};

#define OPTIONS_BREAD                                                                                              \
    OPTIONS_BLOCKS,                                                                                                \
    {                                                                                                              \
        OPTION("expand", CHOICE, struct bread_options, expand),                                                    \
            .choices = OPTION_CHOICES("all", "above"),                                                             \
            .help = "other layers that are updated: all, or those above the active one, where the backward pass "  \
                    "then ends"                                                                                    \
    }

// Tells whether a layer is updated while another one is active (equation 6).
static inline bool bread_expands(const struct bread_options *options, size_t layer, size_t active)
{
    return options->expand == EXPAND_ABOVE ? layer > active : layer != active;
}
