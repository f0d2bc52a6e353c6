#include "harness/framework/run_file.h"
#include "harness/framework/run_keys.h"
#include "harness/framework/yaml_file.h"
#include "harness/text/text.h"
#include "kernels/model/config.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum trainer { TRAINER_UNKNOWN, TRAINER_TRANSFORMERS, TRAINER_OF_TRL, TRAINER_LLAMA_FACTORY, TRAINER_AXOLOTL };

// The reading of a file, or of several in a folder.
struct reading {
    struct run_file *run;
    const char *path;
    struct run_facts facts;
    enum trainer trainer;
    json_t *targets; // of LoRA
    struct status *status;
};

static void note(const struct reading *reading, const char *key, const char *why)
{
    char *text = key ? text_new("key \"%s\": %s", key, why) : strdup(why);
    json_array_append_new(reading->run->unchecked, json_string(text));
    free(text);
}

static bool is_off(const json_t *value, double neutral)
{
    static const char *const words[] = {"", "none", "no", "false", "disabled", "off"};
    const char *key;
    json_t *member;
    if (json_is_object(value)) {
        json_object_foreach((json_t *)value, key, member) if (!is_off(member, neutral)) return false;
        return true;
    }
    if (json_is_number(value)) {
        double number = json_number_value(value);
        return (number >= 0 && number <= 0) || (number >= neutral && number <= neutral);
    }
    for (size_t i = 0; json_is_string(value) && i < sizeof words / sizeof *words; i++)
        if (strcmp(json_string_value(value), words[i]) == 0)
            return true;
    return json_is_null(value) || json_is_false(value) || (json_is_array(value) && json_array_size(value) == 0);
}

static bool read_switch(const struct yaml_file *file, const char *key, const json_t *value, enum run_switch *fact,
                        struct status *status)
{
    const char *text = json_string_value(value);
    if (text && strcmp(text, "auto") != 0)
        return yaml_file_error(file, key, status, "expected true or false, found \"%s\", which is not known", text);
    if (!text && !json_is_boolean(value))
        return yaml_file_error(file, key, status, "expected true or false");
    *fact = text || json_is_true(value) ? SWITCH_ON : SWITCH_OFF;
    return true;
}

static bool read_targets(struct reading *reading, const struct yaml_file *file, const char *key,
                         const json_t *value)
{
    json_t *targets = json_array();
    if (json_is_string(value)) {
        char *words = strdup(json_string_value(value)), *rest = words;
        for (char *word; (word = strsep(&rest, ", "));)
            if (*word)
                json_array_append_new(targets, json_string(word));
        free(words);
    } else {
        json_array_extend(targets, (json_t *)value);
    }
    json_decref(reading->targets);
    reading->targets = targets;
    for (size_t i = 0; i < json_array_size(targets); i++) {
        const char *name = json_string_value(json_array_get(targets, i)),
                   *end = name ? strstr(name, "_proj") : NULL;
        if (!name)
            return yaml_file_error(file, key, reading->status, "expected names of modules");
        if (strcmp(name, "all") == 0)
            json_array_set_new(targets, i, json_string("all-linear"));
        else if (end && !end[strlen("_proj")])
            json_array_set_new(targets, i, json_stringn(name, (size_t)(end - name)));
    }
    return true;
}

// Reads a value that is on; the key is a member of `outer`, or of the file.
static bool read_value(struct reading *reading, const struct yaml_file *file, const struct run_key *key,
                       const char *outer, const json_t *value);

static bool read_member(struct reading *reading, const struct yaml_file *file, const char *outer, const char *name,
                        const json_t *value)
{
    const struct run_key *key = run_key_find(name);
    bool flag = key && (key->use == USE_SWITCH || key->use == USE_COUNT || key->use == USE_NUMBER);
    bool parts = key && key->use == USE_PARTS && json_is_object(value);
    if (json_is_null(value) || (!flag && !parts && is_off(value, key ? key->neutral : 0)))
        return true;
    if (!key) {
        note(reading, name, "is not known, and was not read");
        return true;
    }
    return read_value(reading, file, key, outer ? outer : name, value);
}

static bool read_value(struct reading *reading, const struct yaml_file *file, const struct run_key *key,
                       const char *outer, const json_t *value)
{
    char *place = (char *)&reading->facts + key->place;
    const char *name;
    json_t *member;
    switch (key->use) {
    case USE_TEXT:
        if (!json_is_string(value))
            return yaml_file_error(file, outer, reading->status, "expected a text");
        *(const char **)(void *)place = json_string_value(value);
        return true;
    case USE_COUNT:
        if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > 1 << 30)
            return yaml_file_error(file, outer, reading->status, "expected a whole number from 1 on");
        *(size_t *)(void *)place = (size_t)json_integer_value(value);
        return true;
    case USE_NUMBER:
        if (!json_is_number(value))
            return yaml_file_error(file, outer, reading->status, "expected a number");
        *(double *)(void *)place = json_number_value(value);
        return true;
    case USE_SWITCH:
        return read_switch(file, outer, value, (enum run_switch *)(void *)place, reading->status);
    case USE_TARGETS:
        return read_targets(reading, file, outer, value);
    case USE_QUANTISER:
        reading->facts.has_quantiser = true;
        // fall through
    case USE_PARTS:
        if (!json_is_object(value))
            return yaml_file_error(file, outer, reading->status, "expected keys and values");
        json_object_foreach((json_t *)value, name,
                            member) if (!read_member(reading, file, outer, name, member)) return false;
        return true;
    case USE_REFUSED:
        return yaml_file_error(file, outer, reading->status, "%s", key->why);
    case USE_UNCHECKED:
        note(reading, key->name, key->why);
        return true;
    case USE_NONE:
        return true;
    }
    return true;
}

static bool read_keys(struct reading *reading, const struct yaml_file *file)
{
    const char *name;
    json_t *value;
    json_object_foreach(file->root, name, value) if (!read_member(reading, file, NULL, name, value)) return false;
    return true;
}

// ---- the trainer

static bool has_one(const struct yaml_file *file, const char *const *names)
{
    while (*names && !json_object_get(file->root, *names))
        names++;
    return *names;
}

static enum trainer trainer_of(const struct yaml_file *file)
{
    static const char *const axolotl[] = {"base_model", "micro_batch_size", "sequence_len", NULL},
                             *const factory[] = {"finetuning_type", "cutoff_len", "stage", NULL},
                             *const trl[] = {"max_length",   "max_seq_length",      "completion_only_loss",
                                             "dataset_name", "assistant_only_loss", NULL},
                             *const hf[] = {"per_device_train_batch_size", "gradient_accumulation_steps", "optim",
                                            NULL};
    return has_one(file, axolotl)   ? TRAINER_AXOLOTL
           : has_one(file, factory) ? TRAINER_LLAMA_FACTORY
           : has_one(file, trl)     ? TRAINER_OF_TRL
           : has_one(file, hf)      ? TRAINER_TRANSFORMERS
                                    : TRAINER_UNKNOWN;
}

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

// ---- from facts to a trial

// "meta-llama/Meta-Llama-3-8B-Instruct" is of the shape of the preset "llama-3-8b".
static char *preset_of(const char *model)
{
    static const char *const endings[] = {"-instruct", "-base", "-chat", "-it", "-hf"};
    const char *slash = strrchr(model, '/'), *own = slash ? slash + 1 : model;
    char *name = strdup(strncasecmp(own, "meta-", 5) == 0 ? own + 5 : own);
    for (char *c = name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t length = strlen(name), ending = strlen(endings[i]);
        if (length > ending && strcmp(name + length - ending, endings[i]) == 0)
            name[length - ending] = 0;
    }
    if (!config_preset(name)) {
        free(name);
        return NULL;
    }
    return name;
}

static bool is_file(const char *folder, const char *name)
{
    struct stat found;
    char *path = text_new("%s/%s", folder, name);
    bool is = stat(path, &found) == 0;
    free(path);
    return is;
}

static void set_model(struct reading *reading, const char *folder)
{
    const char *model = reading->facts.model ? reading->facts.model : reading->facts.base;
    json_t *trial = reading->run->trial;
    char *preset;
    if (model && is_file(model, "config.json"))
        json_object_set_new(trial, "model", json_string(model));
    else if (is_file(folder, "config.json"))
        json_object_set_new(trial, "model", json_string(folder));
    else if (model && (preset = preset_of(model))) {
        char *why = text_new("model \"%s\" is planned by the shape of the preset %s", model, preset);
        json_object_set_new(trial, "model", json_string(preset));
        note(reading, NULL, why);
        free(why);
        free(preset);
    } else if (model) {
        reading->run->model = strdup(model);
    }
}

static bool is_among(const char *text, const char *const *names)
{
    while (*names && strcmp(*names, text) != 0)
        names++;
    return *names;
}

// A text that has one of few values; `unsaid` is fine, too.
static bool check_text(const struct reading *reading, const char *what, const char *text, const char *const *names,
                       const char *remedy)
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

static bool check_optimizer(const struct reading *reading)
{
    const char *name = reading->facts.optimizer;
    return !name || optimizers[optimizer_of(name)].name ||
           status_set(reading->status, STATUS_BAD_INPUT,
                      "%s: optimizer \"%s\" is not known: adamw_torch, adamw_torch_fused, adamw_8bit, "
                      "paged_adamw_8bit, paged_adamw_32bit, adafactor and sgd are",
                      reading->path, name);
}

static bool is_quantised(const struct reading *reading)
{
    return reading->facts.four_bits == SWITCH_ON || reading->facts.bits > 0;
}

// bitsandbytes' configuration has fp4 and products in float32 if it says nothing; trainers' keys have nf4, and
// products in the dtype of the weights.
static bool check_quantised(const struct reading *reading)
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

static bool check_texts(const struct reading *reading)
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

static bool trains_lora(const struct reading *reading)
{
    const struct run_facts *facts = &reading->facts;
    bool named = facts->kind || facts->adapter || facts->lora;
    return named ? (facts->kind && strcmp(facts->kind, "lora") == 0) || facts->adapter || facts->lora == SWITCH_ON
                 : defaults[reading->trainer].lora || reading->facts.has_targets;
}

static bool uses_autocast(const struct reading *reading)
{
    const struct run_facts *facts = &reading->facts;
    bool standard = defaults[reading->trainer].autocast && facts->pure != SWITCH_ON;
    return facts->autocast ? facts->autocast == SWITCH_ON : standard;
}

// Scripts around transformers' Trainer call peft's prepare_model_for_kbit_training, as its documents have it.
static bool is_prepared(const struct reading *reading)
{
    return reading->trainer == TRAINER_TRANSFORMERS && is_quantised(reading);
}

// LLaMA-Factory makes what trains f32 under autocast; others leave the weights as they are loaded.
static bool has_f32(const struct reading *reading)
{
    const char *dtype = reading->facts.dtype;
    return is_prepared(reading) || (dtype && strstr(dtype, "float32")) ||
           (reading->trainer == TRAINER_LLAMA_FACTORY && uses_autocast(reading) && !trains_lora(reading));
}

static void set_lora(struct reading *reading)
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
    json_object_set_new(reading->run->trial, "lora", lora);
    if (facts->dropout > 0)
        note(reading, "lora_dropout", "masks of dropout are not planned");
}

static bool checkpoints(const struct reading *reading)
{
    const struct run_facts *facts = &reading->facts;
    return facts->no_checkpoint ? facts->no_checkpoint == SWITCH_OFF
           : facts->checkpoint  ? facts->checkpoint == SWITCH_ON
                                : defaults[reading->trainer].checkpoint;
}

// Documents that share a sequence and do not attend to one another.
static bool keeps_documents_apart(const struct reading *reading)
{
    const struct run_facts *facts = &reading->facts;
    bool wrapped = facts->packing_strategy && strcmp(facts->packing_strategy, "wrapped") == 0;
    return facts->padding_free == SWITCH_ON ||
           (reading->trainer == TRAINER_OF_TRL && facts->packing == SWITCH_ON && !wrapped);
}

// A kernel of flash-attn's takes the documents' lengths; others are given a mask of all pairs of tokens.
static void set_attention(const struct reading *reading, json_t *framework)
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
        note(reading, NULL,
             flash ? "documents that share a sequence are planned without their lengths, which the kernel keeps"
                   : "documents that share a sequence are planned with a mask of all pairs of its tokens");
}

static json_t *framework_of(const struct reading *reading)
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
        note(reading, "use_unsloth_gc",
             "Unsloth's checkpoints are planned as those with reentrance, and inputs on the host");
    if (uses_autocast(reading))
        json_object_set_new(framework, "mixed_precision", json_string("bf16"));
    if (is_quantised(reading)) {
        bool nested = facts->nested_scales ? facts->nested_scales == SWITCH_ON : standard->nested_scales;
        json_object_set_new(framework, "quantised", json_string(nested ? "nf4_double" : "nf4"));
        note(reading, NULL, standard->quantised);
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

// Reads the dtype of the weights where the run leaves it to the model.
static bool read_dtype(struct reading *reading, struct yaml_file *config)
{
    const char *model = json_string_value(json_object_get(reading->run->trial, "model"));
    bool there = !reading->facts.dtype && model && is_file(model, "config.json");
    char *path = there ? text_new("%s/config.json", model) : NULL;
    bool read = !there || yaml_file_open(config, path, reading->status);
    const json_t *newer = json_object_get(config->root, "dtype"),
                 *older = json_object_get(config->root, "torch_dtype");
    if (there && read)
        reading->facts.dtype = json_string_value(newer ? newer : older);
    free(path);
    return read;
}

static void set_step(struct reading *reading)
{
    const struct run_facts *facts = &reading->facts;
    const struct trainer_defaults *standard = &defaults[reading->trainer];
    json_t *trial = reading->run->trial;
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
        note(reading, NULL, "the weights' dtype is not said, and planned as bf16");
    if (batch > 1 && facts->packing != SWITCH_ON && !keeps_documents_apart(reading))
        note(reading, NULL,
             "the batch is planned as if all its sequences were of the context's length: without a mask");
    if (facts->liger == SWITCH_ON)
        note(reading, NULL, "Liger's head is planned; its norms and MLP, which keep less, are not");
}

// ---- files

static bool read_file(struct reading *reading, struct yaml_file *file, const char *path)
{
    if (!yaml_file_open(file, path, reading->status))
        return false;
    reading->trainer = trainer_of(file);
    if (reading->trainer == TRAINER_UNKNOWN)
        return status_set(
            reading->status, STATUS_BAD_INPUT,
            "%s: the trainer is not known: expected arguments of transformers' Trainer or TRL's SFTTrainer, "
            "Axolotl's YAML or LLaMA-Factory's",
            path);
    return read_keys(reading, file);
}

// Reads PEFT's configuration in a folder, if it is there.
static bool read_adapter(struct reading *reading, struct yaml_file *file, const char *folder)
{
    char *path = text_new("%s/adapter_config.json", folder);
    bool there = is_file(folder, "adapter_config.json");
    bool read = !there || (yaml_file_open(file, path, reading->status) && read_keys(reading, file));
    if (there)
        reading->facts.lora = SWITCH_ON;
    free(path);
    return read;
}

bool run_file_read(struct run_file *run, const char *path, struct status *status)
{
    struct stat found;
    struct yaml_file file = {0}, adapter = {0}, config = {0};
    struct reading reading = {.run = run, .path = path, .status = status};
    bool is_folder = stat(path, &found) == 0 && S_ISDIR(found.st_mode);
    char *inner = is_folder ? text_new("%s/training_args.json", path) : strdup(path);
    const char *slash = strrchr(path, '/');
    char *folder = is_folder ? strdup(path) : slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    *run = (struct run_file){.trial = json_object(), .unchecked = json_array()};
    bool read = read_file(&reading, &file, inner) && (!is_folder || read_adapter(&reading, &adapter, folder));
    reading.facts.has_targets = reading.targets || reading.facts.every_linear == SWITCH_ON;
    if (read)
        set_model(&reading, folder);
    read = read && read_dtype(&reading, &config) && check_texts(&reading);
    if (read) {
        set_step(&reading);
        if (trains_lora(&reading))
            set_lora(&reading);
    }
    json_decref(reading.targets);
    yaml_file_close(&file);
    yaml_file_close(&adapter);
    yaml_file_close(&config);
    free(folder);
    free(inner);
    return read;
}

void run_file_close(struct run_file *run)
{
    json_decref(run->trial);
    json_decref(run->unchecked);
    free(run->model);
    *run = (struct run_file){0};
}
