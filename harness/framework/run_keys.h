// Run keys: the keys of trainers' files, and what a plan makes of each.
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum run_switch { SWITCH_UNSET, SWITCH_OFF, SWITCH_ON };

// The facts that files state, whoever wrote them. Texts are borrowed; NULL, 0: not said.
struct run_facts {
    const char *model, *dtype, *attention, *optimizer, *adapter, *loss, *stage, *kind, *base, *packing_strategy,
        *quantiser, *values, *products; // values: of 4 bits; products: their dtype; kind: full, lora, freeze; base:
                                        // the model of an adapter
    size_t batch, context, accumulate, rank, alpha, bits;
    enum run_switch checkpoint, no_checkpoint, reentrant, liger, autocast, pure, offload, unsloth_checkpoints,
        packing, padding_free, flash, lora, every_linear, four_bits, nested_scales;
    double dropout;
    bool has_targets;   // of LoRA
    bool has_quantiser; // a configuration of bitsandbytes', with its defaults
};

enum run_use {
    USE_TEXT,
    USE_COUNT,
    USE_NUMBER,
    USE_SWITCH,    // read into a fact
    USE_TARGETS,   // of LoRA, a list or a text
    USE_PARTS,     // an object of further keys
    USE_QUANTISER, // likewise, bitsandbytes' configuration
    USE_REFUSED,   // refused unless it is off
    USE_UNCHECKED, // named unless it is off
    USE_NONE,      // does not change a step's memory
};

struct run_key {
    const char *name;
    enum run_use use;
    size_t place;    // in struct run_facts
    const char *why; // of a refusal, or what is not checked
    double neutral;  // another number that means off
};

// NULL: nobody knows it.
const struct run_key *run_key_find(const char *name);
