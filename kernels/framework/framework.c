#include "kernels/framework/framework.h"
#include <string.h>

static const char *const versions[] = {"5.24", "4.56", "4.51", "4.46", NULL};
static const char *const version_names[] = {"5.24.0", "4.56.2", "4.51.3", "4.46.3"};
static const char *const trainers[] = {"hf", "trl", "plain", NULL};
static const char *const losses[] = {"default", "whole", "chunked", "liger", "trl", NULL};
static const char *const outputs[] = {"default", "released", "kept", NULL};
static const char *const reentrances[] = {"default", "no", "yes", NULL};
static const char *const masks[] = {"none", "padded", NULL};
static const char *const attentions[] = {"flash", "efficient", "eager", NULL};
static const char *const gradients[] = {"fresh", "held", NULL};
static const char *const adapters[] = {"f32", "bf16", NULL};
static const char *const optimizer_forms[] = {"foreach", "fused", NULL};
static const char *const mixed_precisions[] = {"no", "bf16", NULL};
static const char *const optims[] = {"adamw", "adamw_8bit", "paged_adamw_8bit", "paged_adamw_32bit", "adafactor",
                                     "sgd",   NULL};
static const char *const offloads[] = {"none", "inputs", NULL};
static const char *const quantisations[] = {"none", "nf4", "nf4_double", NULL};
static const char *const shards[] = {"none", "states", "gradients", "all", NULL};
static const char *const heads[] = {"bf16", "f32", NULL};
static const char *const inferences[] = {"head", "adapters", NULL};

static const struct option option_rows[] = {
    {OPTION("version", CHOICE, struct framework, version), .choices = versions, .help = "version of transformers"},
    {OPTION("trainer", CHOICE, struct framework, trainer), .choices = trainers,
     .help = "what calls the model: transformers' Trainer, TRL's trainers, or a script that keeps its outputs"},
    {OPTION("loss", CHOICE, struct framework, loss), .choices = losses,
     .help = "the head's loss: of whole logits, of chunks under checkpoints, Liger's or TRL's fused head; by "
             "default as the trainer has it"},
    {OPTION("loss_rows", COUNT, struct framework, loss_rows), .minimum = 1, .maximum = OPTION_COUNT_MAX,
     .initial = 2048, .tokens = true, .help = "tokens of a chunk of a chunked loss"},
    {OPTION("outputs", CHOICE, struct framework, outputs), .choices = outputs,
     .help = "whether the caller keeps the model's outputs, with its logits, until backward is done"},
    {OPTION("mask", CHOICE, struct framework, mask), .choices = masks,
     .help = "a padded attention_mask becomes a matrix of all pairs of tokens"},
    {OPTION("attention", CHOICE, struct framework, attention), .choices = attentions,
     .help = "the kernel of scaled_dot_product_attention"},
    {OPTION("reentrant", CHOICE, struct framework, reentrant), .choices = reentrances,
     .help = "use_reentrant of checkpoints; by default as the version has it: before 5 yes"},
    {OPTION("gradients", CHOICE, struct framework, gradients), .choices = gradients,
     .help = "gradients before the step: none, or those of an earlier micro-batch"},
    {OPTION("adapters", CHOICE, struct framework, adapters), .choices = adapters,
     .help = "dtype of LoRA's factors: peft's autocast_adapter_dtype"},
    {OPTION("optimizer_form", CHOICE, struct framework, optimizer_form), .choices = optimizer_forms,
     .help = "form of the optimizer's update: foreach makes a list of temporaries"},
    {OPTION("mixed_precision", CHOICE, struct framework, mixed_precision), .choices = mixed_precisions,
     .unsaid = true,
     .help = "bf16: products and attention under autocast, which casts what is in f32 (\"dtype\" is that of the "
             "weights); no: all in the dtype of its weights"},
    {OPTION("optim", CHOICE, struct framework, optim), .choices = optims, .unsaid = true,
     .help = "Trainer's optimizer, if there is one: AdamW, bitsandbytes' with states of 8 bits or of pages on the "
             "host, Adafactor, or SGD without momentum"},
    {OPTION("offload", CHOICE, struct framework, offload), .choices = offloads, .unsaid = true,
     .help =
         "whether checkpoints keep their layer's input on the host: activation_checkpointing_enable(offload=True)"},
    {OPTION("quantised", CHOICE, struct framework, quantised), .choices = quantisations, .unsaid = true,
     .help = "frozen projections as bitsandbytes has them, with LoRA in PEFT's form for them: nf4_double with "
             "bnb_4bit_use_double_quant; \"dtype\" is that of the other weights, f32 after "
             "prepare_model_for_kbit_training"},
    {OPTION("ranks", COUNT, struct framework, ranks), .minimum = 1, .maximum = OPTION_COUNT_MAX, .initial = 1,
     .unsaid = true,
     .help = "cards of a data-parallel run, each with a batch of its own: DDP, or as \"shards\" says"},
    {OPTION("shards", CHOICE, struct framework, shards), .choices = shards, .unsaid = true,
     .help = "what these cards divide among themselves, by ZeRO's stages: nothing (0, DDP), the optimizer's states "
             "(1), "
             "gradients, too (2, FSDP's shard_grad_op), and weights (3, full_shard), gathered layer by layer"},
    {OPTION("head", CHOICE, struct framework, head), .choices = heads, .unsaid = true,
     .help = "dtype of the head's weight, of its input and of its logits, as a script casts them"},
    {OPTION("inferred", WORDS, struct framework, inferred), .choices = inferences, .unsaid = true,
     .help = "keys of these that no source states: chosen because published peaks are met with them"},
    {0}};

const struct option_table framework_options = {option_rows, sizeof(struct framework)};

void framework_resolve(struct framework *framework)
{
    static const enum framework_loss loss_of[] = {
        [TRAINER_HF] = LOSS_WHOLE, [TRAINER_TRL] = LOSS_TRL, [TRAINER_PLAIN] = LOSS_WHOLE};
    if (framework->loss == LOSS_DEFAULT)
        framework->loss = loss_of[framework->trainer];
    if (framework->outputs == OUTPUTS_DEFAULT)
        framework->outputs = framework->trainer == TRAINER_PLAIN ? OUTPUTS_KEPT : OUTPUTS_RELEASED;
    if (framework->reentrant == REENTRANT_DEFAULT)
        framework->reentrant = framework->version == TRANSFORMERS_5_24 ? REENTRANT_NO : REENTRANT_YES;
}

const char *framework_version_name(const struct framework *framework)
{
    return version_names[framework->version];
}

// ---- what is held

static bool is_scaled(double scale)
{
    return scale > 0 && (scale < 1 || scale > 1);
}

// A feature that the models whose step is known do not have; NULL: none.
static const char *kind_beyond(const struct layer_kind *kind)
{
    return kind->mixer != MIXER_ATTENTION                                    ? "layers without attention"
           : kind->chunked                                                   ? "attention within chunks"
           : kind->rope != ROPE_HALVES || rope_rotary(kind) < kind->head_dim ? "partial or interleaved RoPE"
           : kind->sinks || kind->gated || kind->k_is_v || kind->v_norm      ? "sinks, gates or norms of values"
           : kind->position_scale.length > 0                                 ? "queries scaled by position"
                                                                             : NULL;
}

// Presets are shapes alone: that of Phi-3 does not say that its projections are fused, as those of its folders do.
static bool has_fused(const struct config *config)
{
    return config->fused || strcmp(config->name, "phi-3-mini") == 0;
}

static bool has_mixture(const struct config *config)
{
    bool mixture = false;
    for (size_t kind = 0; kind < CONFIG_KINDS; kind++)
        mixture |= config_has_kind(config, kind) && config->kinds[kind].mlp == MLP_EXPERTS;
    return mixture;
}

// A feature that the mixtures of Qwen3, Mixtral and OLMoE do not have.
static const char *experts_beyond(const struct config *config)
{
    const struct experts *experts = &config->experts;
    const struct routing *routing = &experts->routing;
    return routing->score != ROUTER_SOFTMAX || routing->groups > 0 || experts->correction_bias ||
                   is_scaled(routing->scale) || config->residual_scale > 0
               ? "another router"
           : experts->shared_width > 0                                   ? "a shared expert"
           : experts->router_bias || experts->bias || experts->alpha > 0 ? "biases of experts"
           : experts->aux_loss > 0                                       ? "a loss that balances experts"
                                                                         : NULL;
}

static const char *config_beyond(const struct config *config)
{
    const char *beyond = NULL;
    for (size_t l = 0; !beyond && l < config->layers && l < CONFIG_KIND_LAYERS; l++)
        beyond = kind_beyond(config_kind(config, l));
    if (!beyond && has_mixture(config))
        beyond = experts_beyond(config);
    return beyond                                                                ? beyond
           : config->norms == NORMS_AFTER || config->centred                     ? "other norms"
           : config->submodule                                                   ? "images or sound beside text"
           : config->parallel || config->layer_scalars                           ? "parallel blocks"
           : has_fused(config)                                                   ? "fused projections"
           : config->unit_offset != (config->activation == ACTIVATION_GELU_TANH) ? "another activation"
                                                                                 : NULL;
}

// Whether it is more than Llama, Qwen2, Qwen3 and the first Gemma.
static bool is_later_model(const struct config *config)
{
    bool later = config->norms != NORMS_BEFORE || config->o_bias || config->mlp_bias || config->logit_cap > 0 ||
                 is_scaled(config->residual_scale) || is_scaled(config->logits_scale) ||
                 (config->embedding_scale > 0 && !config->unit_offset);
    for (size_t kind = 0; kind < CONFIG_KINDS; kind++)
        later |= config_has_kind(config, kind) && (config->kinds[kind].window > 0 || config->kinds[kind].cap > 0);
    return later;
}

static bool has_caps(const struct config *config)
{
    bool capped = false;
    for (size_t kind = 0; kind < CONFIG_KINDS; kind++)
        capped |= config_has_kind(config, kind) && config->kinds[kind].cap > 0;
    return capped;
}

// transformers 5 passes fewer key heads without a mask, which CUDA's efficient kernel does not take.
static bool has_no_kernel(const struct framework *framework, const struct config *config)
{
    bool grouped = false;
    for (size_t kind = 0; kind < CONFIG_KINDS; kind++)
        grouped |= config_has_kind(config, kind) && config->kinds[kind].heads != config->kinds[kind].kv_heads;
    return grouped && framework->version == TRANSFORMERS_5_24 && framework->mask == MASK_NONE &&
           framework->attention == FRAMEWORK_EFFICIENT;
}

static const char *lora_beyond(const struct lora *lora)
{
    return !lora->rank                         ? NULL
           : lora->saved || lora->untied       ? "modules_to_save"
           : lora->targets >> LORA_PROJECTIONS ? "LoRA on more than a layer's projections"
                                               : NULL;
}

static bool check_shards(const struct framework *framework, struct status *status)
{
    if (framework->shards == SHARDS_NONE)
        return true;
    if (framework->ranks == 1)
        return status_set(status, STATUS_BAD_INPUT,
                          "\"shards\" are of several cards; give their number as \"ranks\", or leave it out");
    if (framework->optim != OPTIM_ADAMW && framework->optim != OPTIM_SGD)
        return status_set(status, STATUS_BAD_INPUT,
                          "shares of the states of \"optim\" %s are not known; give adamw or sgd with \"shards\"",
                          optims[framework->optim]);
    if (framework->shards == SHARDS_ALL && framework->quantised != QUANTISED_NONE)
        return status_set(status, STATUS_BAD_INPUT,
                          "shares of quantised weights are not known; give \"shards\" gradients, or leave "
                          "\"quantised\" out");
    return true;
}

bool framework_check(const struct framework *framework, const struct config *config, const struct lora *lora,
                     struct status *status)
{
    const char *beyond = config_beyond(config);
    if (beyond)
        return status_set(
            status, STATUS_UNSUPPORTED,
            "the step of " FRAMEWORK_NAME
            " is known for models of the shape of Llama, Qwen2, Qwen3, Mistral, Mixtral, OLMoE, Granite and "
            "Gemma, and this one has %s",
            beyond);
    if ((beyond = lora_beyond(lora)))
        return status_set(status, STATUS_UNSUPPORTED, "the step of " FRAMEWORK_NAME " is not known with %s",
                          beyond);
    if (framework->loss != LOSS_WHOLE && framework->outputs == OUTPUTS_KEPT)
        return status_set(
            status, STATUS_BAD_INPUT,
            "\"outputs\" kept are logits, which a loss \"%s\" never has whole; leave one of the two out",
            losses[framework->loss]);
    if (framework->quantised != QUANTISED_NONE && !lora->rank)
        return status_set(status, STATUS_BAD_INPUT,
                          "\"quantised\" weights do not train; give a LoRA, or leave it out");
    if (!check_shards(framework, status))
        return false;
    if (has_mixture(config) &&
        (framework->version != TRANSFORMERS_5_24 || framework->mixed_precision != MIXED_PRECISION_NO ||
         framework->quantised != QUANTISED_NONE))
        return status_set(status, STATUS_BAD_INPUT,
                          "the step of a mixture of experts is known with \"version\" 5.24 and without "
                          "\"mixed_precision\" or quantised weights");
    if (has_no_kernel(framework, config))
        return status_set(
            status, STATUS_BAD_INPUT,
            "the efficient kernel takes as many heads of keys as of queries, and version 5.24 repeats "
            "them with a mask alone; give \"attention\" flash or eager, or \"mask\" padded");
    if (has_caps(config) && framework->attention != FRAMEWORK_EAGER)
        return status_set(status, STATUS_BAD_INPUT,
                          "no kernel of scaled_dot_product_attention caps scores, and " FRAMEWORK_NAME
                          " runs such a model by itself; give \"attention\" eager");
    if (framework->mask == MASK_PADDED && framework->attention == FRAMEWORK_FLASH)
        return status_set(status, STATUS_BAD_INPUT,
                          "flash attention takes no mask; give \"attention\" efficient with \"mask\" padded");
    if (framework->head == HEAD_F32 && config->tied)
        return status_set(status, STATUS_BAD_INPUT,
                          "the head's weight is the embedding's, and in bf16 as that is; leave \"head\" f32 out");
    if (framework->head == HEAD_F32 && (framework->loss == LOSS_LIGER || framework->loss == LOSS_TRL))
        return status_set(status, STATUS_BAD_INPUT,
                          "a fused head in f32 is not known; give \"loss\" whole or chunked with \"head\" f32");
    if ((config->logit_cap > 0 || is_scaled(config->logits_scale)) &&
        (framework->loss == LOSS_LIGER || framework->loss == LOSS_TRL))
        return status_set(status, STATUS_BAD_INPUT,
                          "a fused head with capped or scaled logits is not known; give \"loss\" whole or chunked");
    return true;
}

static void add_part(struct framework_unchecked *unchecked, bool there, const char *part)
{
    CHECK(unchecked->count < FRAMEWORK_UNCHECKED);
    if (there)
        unchecked->parts[unchecked->count++] = part;
}

struct framework_unchecked framework_unchecked(const struct framework *framework, const struct config *config,
                                               const struct lora *lora, bool optimizer)
{
    struct framework_unchecked unchecked = {0};
    bool masked = framework->mask == MASK_PADDED, older = framework->version == TRANSFORMERS_4_46,
         old = framework->version != TRANSFORMERS_5_24;
    add_part(&unchecked, framework->version == TRANSFORMERS_4_56, "version 4.56");
    add_part(&unchecked, older && (framework->loss != LOSS_WHOLE || lora->rank),
             "version 4.46 with anything but whole logits and all weights");
    add_part(&unchecked, old && is_later_model(config), "this family but with version 5.24");
    add_part(&unchecked, has_mixture(config),
             "what sorts, indices and grouped products of experts ask for within an operation");
    add_part(&unchecked, older && masked, "a padded mask with version 4.46");
    add_part(&unchecked, old && framework->offload == FRAMEWORK_OFFLOAD_INPUTS,
             "inputs on the host before version 5.24, as Unsloth's checkpoints have it");
    add_part(&unchecked, old && framework->mixed_precision == MIXED_PRECISION_BF16, "autocast before version 5.24");
    add_part(&unchecked, old && framework->attention == FRAMEWORK_EAGER, "eager attention but with version 5.24");
    add_part(&unchecked, old && framework->attention == FRAMEWORK_EFFICIENT && !masked,
             "efficient attention without a mask but with version 5.24");
    add_part(&unchecked, framework->quantised != QUANTISED_NONE,
             "quantised weights, which are modelled after bitsandbytes' and PEFT's sources");
    add_part(&unchecked, framework->loss == LOSS_LIGER || framework->loss == LOSS_TRL,
             "a fused head, which is modelled after its source");
    add_part(&unchecked,
             optimizer &&
                 (framework->optim == OPTIM_PAGED_ADAMW_8BIT || framework->optim == OPTIM_PAGED_ADAMW_32BIT),
             "how many of the optimizer's pages are on the card: none are counted there");
    add_part(&unchecked, framework->ranks > 1, "a step that cards share, which is divided and was not checked");
    add_part(&unchecked, framework->shards == SHARDS_ALL,
             "weights gathered one layer at a time: nothing is prefetched");
    add_part(&unchecked, optimizer && framework->shards != SHARDS_NONE,
             "an optimizer without f32 copies of the weights, which DeepSpeed keeps for bf16");
    add_part(&unchecked, framework->inferred & INFERRED_HEAD, "the head's dtype, inferred from published peaks");
    add_part(&unchecked, framework->inferred & INFERRED_ADAPTERS,
             "the adapters' dtype, inferred from published peaks");
    return unchecked;
}
