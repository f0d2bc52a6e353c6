#include "harness/framework/run_trial.h"
#include "harness/text/text.h"
#include <string.h>

// Each trainer, as it is where its file says nothing. context 0: its sequences have no such limit.
static const struct trainer_defaults {
    const char *name, *optimizer;
    size_t batch, context, rank;
    bool checkpoint, reentrant, lora, every_linear, autocast, nested_scales;
    const char *quantised; // how a plan has weights beside those of 4 bits
} defaults[] = {
    [TRAINER_TRANSFORMERS] = {"transformers' Trainer", "adamw_torch_fused", 8, 0, 8, false, false, false, false,
                              false, false,
                              "weights that are not quantised, and LoRA's factors, are planned in f32, as peft's "
                              "prepare_model_for_kbit_training leaves them"},
    [TRAINER_OF_TRL] =
        {"TRL", "adamw_torch_fused", 8, 1024, 16, true, false, false, false, true, false,
         "weights that are not quantised are planned as TRL 1.16 leaves them; a TRL that calls peft's "
         "prepare_model_for_kbit_training has them in f32"},
    [TRAINER_LLAMA_FACTORY] =
        {"LLaMA-Factory", "adamw_torch", 8, 2048, 8, true, true, true, true, false, true,
         "LLaMA-Factory's steps with quantised weights were not checked: its other weights are planned in bf16"},
    [TRAINER_AXOLOTL] = {
        "Axolotl", "adamw_torch_fused", 1, 512, 8, false, true, false, false, true, true,
        "Axolotl's steps with quantised weights were not checked: its other weights are planned in bf16"}};

static bool is_among(const char *text, const char *const *names)
{
    while (*names && strcmp(*names, text) != 0)
        names++;
    return *names;
}

// A text that has one of few values; `unsaid` is fine, too.
static bool check_text(const struct run_reading *reading, const char *what, const char *text,
                       const char *const *names, const char *remedy)
{
    if (!text || is_among(text, names))
        return true;
    return status_set(reading->status, STATUS_BAD_INPUT, "%s: %s \"%s\" is not known: %s", reading->path, what,
                      text, remedy);
}

// Names of Trainer's `optim`, and what a plan calls them; optim NULL: AdamW.
static const struct {
    const char *name, *optim, *form;
} optimizers[] = {{"adamw_torch", NULL, NULL},
                  {"adamw_torch_fused", NULL, "fused"},
                  {"adamw_8bit", "adamw_8bit", NULL},
                  {"adamw_bnb_8bit", "adamw_8bit", NULL},
                  {"paged_adamw_8bit", "paged_adamw_8bit", NULL},
                  {"paged_adamw", "paged_adamw_32bit", NULL},
                  {"paged_adamw_32bit", "paged_adamw_32bit", NULL},
                  {"adafactor", "adafactor", NULL},
                  {"sgd", "sgd", NULL},
                  {"none", NULL, NULL},
                  {NULL, NULL, NULL}};

static size_t optimizer_of(const char *name)
{
    size_t i = 0;
    while (optimizers[i].name && strcmp(optimizers[i].name, name) != 0)
        i++;
    return i;
}

static bool check_optimizer(const struct run_reading *reading)
{
    const char *name = reading->facts.optimizer;
    return !name || optimizers[optimizer_of(name)].name ||
           status_set(reading->status, STATUS_BAD_INPUT,
                      "%s: optimizer \"%s\" is not known: adamw_torch, adamw_torch_fused, adamw_8bit, "
                      "paged_adamw_8bit, paged_adamw_32bit, adafactor and sgd are",
                      reading->path, name);
}

static bool is_quantised(const struct run_reading *reading)
{
    return reading->facts.four_bits == SWITCH_ON || reading->facts.bits > 0;
}

// bitsandbytes' configuration has fp4 and products in float32 if it says nothing; trainers' keys have nf4, and
// products in the dtype of the weights.
static bool check_quantised(const struct run_reading *reading)
{
    static const char *const quantisers[] = {"bitsandbytes", "bnb", NULL}, *const values[] = {"nf4", NULL},
                             *const products[] = {"bfloat16", "bf16", "torch.bfloat16", "auto", NULL};
    const struct run_facts *facts = &reading->facts;
    bool axolotl = reading->trainer == TRAINER_AXOLOTL,
         qlora = facts->adapter && strcmp(facts->adapter, "qlora") == 0;
    const char *unsaid_values = facts->has_quantiser ? "fp4" : NULL,
               *unsaid_products = facts->has_quantiser                 ? "float32"
                                  : reading->trainer == TRAINER_OF_TRL ? facts->dtype
                                                                       : NULL;
    if (!check_text(reading, "quantization method", facts->quantiser, quantisers,
                    "give bitsandbytes, with load_in_4bit"))
        return false;
    if (facts->has_quantiser && !facts->four_bits)
        return status_set(reading->status, STATUS_BAD_INPUT,
                          "%s: quantization_config without load_in_4bit is not known: give load_in_4bit",
                          reading->path);
    if (facts->bits && facts->bits != 4)
        return status_set(reading->status, STATUS_BAD_INPUT,
                          "%s: quantization_bit %zu is not known: give 4, with quantization_method bnb",
                          reading->path, facts->bits);
    if (axolotl && qlora != is_quantised(reading))
        return status_set(reading->status, STATUS_BAD_INPUT, "%s: %s; give both or neither", reading->path,
                          qlora ? "adapter \"qlora\" without load_in_4bit"
                                : "load_in_4bit without adapter \"qlora\"");
    return !is_quantised(reading) ||
           (check_text(reading, "bnb_4bit_quant_type", facts->values ? facts->values : unsaid_values, values,
                       "give nf4") &&
            check_text(reading, "bnb_4bit_compute_dtype", facts->products ? facts->products : unsaid_products,
                       products, "give bfloat16, or dtype bfloat16 where a trainer takes it from there"));
}

bool run_trial_check(const struct run_reading *reading)
{
    static const char *const
        dtypes[] = {"bfloat16", "bf16", "auto", "torch.bfloat16", "float32", "torch.float32", NULL},
        *const attentions[] = {"sdpa", "flash_attention_2", "flash_attention_3", "auto", "fa2", "eager", NULL},
        *const losses[] = {"nll", NULL}, *const stages[] = {"sft", "pt", NULL},
        *const kinds[] = {"lora", "full", NULL}, *const adapters[] = {"lora", "qlora", NULL},
        *const strategies[] = {"bfd", "bfd_split", "wrapped", NULL};
    const struct run_facts *facts = &reading->facts;
    return check_text(reading, "dtype", facts->dtype, dtypes, "give bfloat16 or float32") &&
           check_text(reading, "attention", facts->attention, attentions,
                      "give sdpa, flash_attention_2 or eager") &&
           check_optimizer(reading) && check_text(reading, "loss_type", facts->loss, losses, "give nll") &&
           check_text(reading, "stage", facts->stage, stages, "a step of sft or pt is") &&
           check_text(reading, "finetuning_type", facts->kind, kinds, "give lora or full") &&
           check_text(reading, "adapter", facts->adapter, adapters, "give lora or qlora") &&
           check_text(reading, "packing_strategy", facts->packing_strategy, strategies,
                      "give bfd, bfd_split or wrapped") &&
           check_quantised(reading);
}

static bool trains_lora(const struct run_reading *reading)
{
    const struct run_facts *facts = &reading->facts;
    bool named = facts->kind || facts->adapter || facts->lora;
    return named ? (facts->kind && strcmp(facts->kind, "lora") == 0) || facts->adapter || facts->lora == SWITCH_ON
                 : defaults[reading->trainer].lora || reading->facts.has_targets;
}

static bool uses_autocast(const struct run_reading *reading)
{
    const struct run_facts *facts = &reading->facts;
    bool standard = defaults[reading->trainer].autocast && facts->pure != SWITCH_ON;
    return facts->autocast ? facts->autocast == SWITCH_ON : standard;
}

// Scripts around transformers' Trainer call peft's prepare_model_for_kbit_training, as its documents have it.
static bool is_prepared(const struct run_reading *reading)
{
    return reading->trainer == TRAINER_TRANSFORMERS && is_quantised(reading);
}

// LLaMA-Factory makes what trains f32 under autocast; others leave the weights as they are loaded.
static bool has_f32(const struct run_reading *reading)
{
    const char *dtype = reading->facts.dtype;
    return is_prepared(reading) || (dtype && strstr(dtype, "float32")) ||
           (reading->trainer == TRAINER_LLAMA_FACTORY && uses_autocast(reading) && !trains_lora(reading));
}

static void set_lora(const struct run_reading *reading)
{
    const struct run_facts *facts = &reading->facts;
    const struct trainer_defaults *standard = &defaults[reading->trainer];
    json_t *lora = json_object();
    size_t rank = facts->rank ? facts->rank : standard->rank;
    bool every = facts->every_linear == SWITCH_ON || (standard->every_linear && !reading->targets);
    json_object_set_new(lora, "rank", json_integer((json_int_t)rank));
    json_object_set_new(lora, "alpha", json_integer((json_int_t)(facts->alpha ? facts->alpha : 2 * rank)));
    if (every)
        json_object_set_new(lora, "targets", json_pack("[s]", "all-linear"));
    else if (reading->targets)
        json_object_set(lora, "targets", reading->targets);
    json_object_set_new(reading->trial, "lora", lora);
    if (facts->dropout > 0)
        run_reading_note(reading, "lora_dropout", "masks of dropout are not planned");
}

static bool checkpoints(const struct run_reading *reading)
{
    const struct run_facts *facts = &reading->facts;
    return facts->no_checkpoint ? facts->no_checkpoint == SWITCH_OFF
           : facts->checkpoint  ? facts->checkpoint == SWITCH_ON
                                : defaults[reading->trainer].checkpoint;
}

// Documents that share a sequence and do not attend to one another.
static bool keeps_documents_apart(const struct run_reading *reading)
{
    const struct run_facts *facts = &reading->facts;
    bool wrapped = facts->packing_strategy && strcmp(facts->packing_strategy, "wrapped") == 0;
    return facts->padding_free == SWITCH_ON ||
           (reading->trainer == TRAINER_OF_TRL && facts->packing == SWITCH_ON && !wrapped);
}

// A kernel of flash-attn's takes the documents' lengths; others are given a mask of all pairs of tokens.
static void set_attention(const struct run_reading *reading, json_t *framework)
{
    const char *attention = reading->facts.attention;
    bool eager = attention && strcmp(attention, "eager") == 0;
    bool flash = reading->facts.flash == SWITCH_ON ||
                 (attention && (strncmp(attention, "flash", 5) == 0 || strcmp(attention, "fa2") == 0));
    bool apart = keeps_documents_apart(reading);
    if (eager || (apart && !flash))
        json_object_set_new(framework, "attention", json_string(eager ? "eager" : "efficient"));
    if (apart && !flash)
        json_object_set_new(framework, "mask", json_string("padded"));
    if (apart)
        run_reading_note(
            reading, NULL,
            flash ? "documents that share a sequence are planned without their lengths, which the kernel keeps"
                  : "documents that share a sequence are planned with a mask of all pairs of its tokens");
}

static json_t *framework_of(const struct run_reading *reading)
{
    const struct run_facts *facts = &reading->facts;
    const struct trainer_defaults *standard = &defaults[reading->trainer];
    json_t *framework = json_object();
    const char *optimizer = facts->optimizer ? facts->optimizer : standard->optimizer;
    bool unsloth = facts->unsloth_checkpoints == SWITCH_ON;
    bool reentrant = unsloth || (facts->reentrant ? facts->reentrant == SWITCH_ON : standard->reentrant);
    json_object_set_new(framework, "trainer", json_string(reading->trainer == TRAINER_OF_TRL ? "trl" : "hf"));
    json_object_set_new(framework, "reentrant", json_string(reentrant ? "yes" : "no"));
    if (facts->liger == SWITCH_ON)
        json_object_set_new(framework, "loss", json_string("liger"));
    if ((unsloth || facts->offload == SWITCH_ON) && checkpoints(reading))
        json_object_set_new(framework, "offload", json_string("inputs"));
    if (unsloth)
        run_reading_note(reading, "use_unsloth_gc",
                         "Unsloth's checkpoints are planned as those with reentrance, and inputs on the host");
    if (uses_autocast(reading))
        json_object_set_new(framework, "mixed_precision", json_string("bf16"));
    if (is_quantised(reading)) {
        bool nested = facts->nested_scales ? facts->nested_scales == SWITCH_ON : standard->nested_scales;
        json_object_set_new(framework, "quantised", json_string(nested ? "nf4_double" : "nf4"));
        run_reading_note(reading, NULL, standard->quantised);
    }
    // TRL makes the factors beside quantised weights bf16.
    if ((facts->pure == SWITCH_ON && trains_lora(reading)) ||
        (reading->trainer == TRAINER_OF_TRL && is_quantised(reading)))
        json_object_set_new(framework, "adapters", json_string("bf16"));
    if (facts->accumulate > 1)
        json_object_set_new(framework, "gradients", json_string("held"));
    set_attention(reading, framework);
    size_t optim = optimizer_of(optimizer);
    if (optimizers[optim].form)
        json_object_set_new(framework, "optimizer_form", json_string(optimizers[optim].form));
    if (optimizers[optim].optim)
        json_object_set_new(framework, "optim", json_string(optimizers[optim].optim));
    return framework;
}

static void set_step(const struct run_reading *reading)
{
    const struct run_facts *facts = &reading->facts;
    const struct trainer_defaults *standard = &defaults[reading->trainer];
    json_t *trial = reading->trial;
    size_t batch = facts->batch ? facts->batch : standard->batch,
           context = facts->context ? facts->context : standard->context;
    // TRL makes a batch of them one sequence.
    if (keeps_documents_apart(reading) && reading->trainer == TRAINER_OF_TRL) {
        context *= batch;
        batch = 1;
    }
    json_object_set_new(trial, "dtype", json_string(has_f32(reading) ? "f32" : "bf16"));
    json_object_set_new(trial, "batch", json_integer((json_int_t)batch));
    if (context)
        json_object_set_new(trial, "context", json_integer((json_int_t)context));
    json_object_set_new(trial, "method", json_string(checkpoints(reading) ? "checkpoint" : "full"));
    if (!facts->optimizer || strcmp(facts->optimizer, "none") != 0)
        json_object_set_new(trial, "optimizer", json_string("adamw"));
    json_object_set_new(trial, "framework", framework_of(reading));
    bool factory_says = reading->trainer == TRAINER_LLAMA_FACTORY && (facts->autocast || facts->pure);
    if (!facts->dtype && !factory_says && !is_prepared(reading))
        run_reading_note(reading, NULL, "the weights' dtype is not said, and planned as bf16");
    if (batch > 1 && facts->packing != SWITCH_ON && !keeps_documents_apart(reading))
        run_reading_note(
            reading, NULL,
            "the batch is planned as if all its sequences were of the context's length: without a mask");
    if (facts->liger == SWITCH_ON)
        run_reading_note(reading, NULL, "Liger's head is planned; its norms and MLP, which keep less, are not");
}

void run_trial_set(const struct run_reading *reading)
{
    set_step(reading);
    if (trains_lora(reading))
        set_lora(reading);
}
