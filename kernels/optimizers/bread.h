// BREAD: block coordinate descent in which the other layers move, too, at little cost; what its two forms share.
// Luo, Shen, Peng, Li & Li 2025, "Accelerating Block Coordinate Descent for LLM Finetuning via Landscape
// Expansion", NeurIPS 2025.
#pragma once
#include "kernels/optimizers/active_block.h"
#include "kernels/optimizers/adamw.h"

// In the order of the names below.
enum { EXPAND_ALL, EXPAND_ABOVE };

// What both are asked; their structs begin with this.
struct bread_options {
    struct adamw_options adamw; // of the active layer
    struct block_options blocks;
    int expand;
};

#define OPTIONS_BREAD(options)                                                                                     \
    OPTIONS_ADAMW(1e-5, 0.01, MASTER_KEPT), OPTIONS_BLOCKS(options),                                               \
    {                                                                                                              \
        OPTION("expand", CHOICE, options, expand), .choices = OPTION_CHOICES("all", "above"),                      \
                                                   .help = "the other layers that move: all, or those above the "  \
                                                           "active one, with which a backward pass then ends"      \
    }

// As struct optimizer's hooks.
bool bread_check(const void *options, const struct config *config, enum dtype dtype, struct status *status);
size_t bread_active_layer(const void *options, const struct config *config, size_t number);
// Whether a layer moves while another one is active (equation 6).
bool bread_expands(const struct bread_options *options, size_t layer, size_t active);
