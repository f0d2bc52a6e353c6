// BREAD-LoRA: block coordinate descent, and AdamW on the other layers' LoRA factors, W + alpha / rank B A. The
// active layer's own factors are not updated but stay in its products. Algorithm 1; with a higher rate for B
// (ratio, Hayou et al. 2024, arXiv 2402.12354) it is BREAD-LoRA+. As in the paper the factors keep their state when
// the active block changes; the published code zeroes it (factor_state = reset). Factors start like any model's,
// whereas the paper starts with B = 0.
#include "kernels/model/unit_parameters.h"
#include "kernels/optimizers/bread.h"
#include <string.h>

enum { FACTOR_STATE_KEEP, FACTOR_STATE_RESET };

struct bread_lora_options {
    struct bread_options bread;
    double ratio;
    int factor_state;
};

static const struct option rows[] = {
    OPTIONS_BREAD,
    {OPTION("ratio", NUMBER, struct bread_lora_options, ratio), .maximum = 1e9, .initial = 1,
     .help = "ratio of the rates of LoRA's B and A; 16: BREAD-LoRA+"},
    {OPTION("factor_state", CHOICE, struct bread_lora_options, factor_state),
     .choices = OPTION_CHOICES("keep", "reset"),
     .help = "state of LoRA's factors when the active layer changes: kept, or reset to zero"},
    {0}};

static struct role role(const struct trainer *trainer, const struct parameter *p)
{
    const struct bread_lora_options *options = trainer->optimizer_options;
    size_t unit = unit_of(trainer->model, p), active = trainer->active.layer;
    if (unit < unit_of_layer(0) || unit >= unit_of_head(trainer->model))
        return (struct role){0};
    size_t layer = unit - unit_of_layer(0);
    if (!parameter_is_factor(p))
        return (struct role){.trains = layer == active};
    return (struct role){.trains = bread_expands(&options->bread, layer, active),
                         .keeps = options->factor_state == FACTOR_STATE_KEEP};
}

// Counts the updates that the state of each layer's factors has seen before this block.
static void activated(struct trainer *trainer)
{
    const struct bread_lora_options *options = trainer->optimizer_options;
    const struct config *config = &trainer->model->config;
    for (size_t l = 0; l < config->layers; l++)
        trainer->seen[l] = 0;
    for (size_t n = 0; options->factor_state == FACTOR_STATE_KEEP && n < trainer->active.number; n++) {
        size_t active = active_block_layer(options, config, n);
        for (size_t l = 0; l < config->layers; l++)
            trainer->seen[l] += bread_expands(&options->bread, l, active) * options->bread.blocks.interval;
    }
}

static void update(struct trainer *trainer, struct parameter *p)
{
    const struct bread_lora_options *options = trainer->optimizer_options;
    if (!parameter_is_factor(p)) {
        adamw_update(trainer, p);
        return;
    }
    size_t layer = unit_of(trainer->model, p) - unit_of_layer(0);
    double ratio = p->factor == FACTOR_B ? options->ratio : 1;
    adamw_update_aged(trainer, p, ratio, trainer->seen[layer] + trainer->update.age);
}

const struct optimizer optimizer_bread_lora = {
    .name = "bread-lora",
    .summary = "block coordinate descent, with AdamW on the other layers' LoRA factors",
    .source = "Luo et al. 2025 (BREAD), NeurIPS 2025",
    .options = {rows, sizeof(struct bread_lora_options)},
    .lora = LORA_BESIDE,
    .uneven = true,
    .check = active_block_check,
    .active_layer = active_block_layer,
    .role = role,
    .activated = activated,
    .state = adamw_state,
    .update = update,
};
