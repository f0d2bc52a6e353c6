#include "tests/fixture.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

struct fixture fixture_default(void)
{
    return (struct fixture){
        .config = {.name = "test",
                   .layers = 3,
                   .width = 24,
                   .kinds = {{.heads = 4, .kv_heads = 2, .head_dim = 6, .rope_theta = 10000}},
                   .ffn = 40,
                   .vocab = 31,
                   .norm_epsilon = 1e-5},
        .dtype = DTYPE_F64,
        .rounding = DTYPE_F32,
        .context = 23,
        .batch_size = 2,
        .latent_block = 8,
        .seed = 7,
    };
}

void fixture_set_windows(struct config *config, size_t window, size_t full_layers)
{
    config->kinds[0].window = 0;
    for (size_t l = 0; l < config->layers; l++)
        config->kind_of[l] = full_layers >> l & 1;
    config_add_window(config, window, (struct local_layers){0});
}

// Full attention and a window by turns.
static void set_turns(struct config *c, struct local_layers local)
{
    c->kind_of[1] = 1;
    config_add_window(c, 5, local);
}

static void make_olmo2(struct config *c)
{
    c->norms = NORMS_AFTER;
    c->qk_norm = c->whole_qk_norm = true;
}

static void make_gemma(struct config *c)
{
    c->tied = c->unit_offset = true;
    c->activation = ACTIVATION_GELU_TANH;
    c->embedding_scale = sqrt(c->width);
}

static void make_gemma3(struct config *c)
{
    make_gemma(c);
    c->norms = NORMS_AROUND;
    c->qk_norm = true;
    c->kinds[0].query_scale = 0.8;
    c->kinds[0].rope_scaling = (struct rope_scaling){.factor = 4};
    set_turns(c, (struct local_layers){.rope_theta = 100});
}

static void make_gemma2(struct config *c)
{
    make_gemma(c);
    c->norms = NORMS_AROUND;
    c->kinds[0].query_scale = 1.2;
    c->kinds[0].cap = 1.5; // which bends random weights' scores as 50 does a trained model's
    c->logit_cap = 3;
    set_turns(c, (struct local_layers){0});
}

static void make_gpt_oss(struct config *c)
{
    c->qkv_bias = c->kinds[0].sinks = true;
    set_turns(c, (struct local_layers){0});
}

static void make_qwen3_next(struct config *c)
{
    c->qk_norm = c->unit_offset = c->kinds[0].gated = true;
}

static void make_glm4(struct config *c)
{
    c->norms = NORMS_AROUND;
    c->glm_norms = c->qkv_bias = true;
    c->kinds[0].rope = ROPE_INTERLEAVED;
    c->kinds[0].rotary = 4;
    c->kinds[0].rope_scaling = (struct rope_scaling){.factor = 4,
                                                     .low_freq_factor = 1,
                                                     .high_freq_factor = 32,
                                                     .original_context = 16,
                                                     .attention_factor = rope_yarn_gain(4)};
}

// With biases.
static void make_smollm3(struct config *c)
{
    c->tied = c->o_bias = c->mlp_bias = true;
    config_remove_positions(c, (const bool[CONFIG_KIND_LAYERS]){[1] = true});
}

static void make_granite(struct config *c)
{
    c->o_bias = c->mlp_bias = true;
    c->kinds[0].query_scale = 0.7;
    c->embedding_scale = 12;
    c->residual_scale = 0.22;
    c->logits_scale = 0.3;
}

// With dynamic RoPE, beyond its original context but for documents of 9 tokens.
static void make_exaone4(struct config *c)
{
    c->norms = NORMS_AFTER;
    c->qk_norm = true;
    c->kinds[0].rope_scaling = (struct rope_scaling){.factor = 3, .original_context = 10, .dynamic = true};
    set_turns(c, (struct local_layers){0});
    config_remove_positions(c, (const bool[CONFIG_KIND_LAYERS]){[1] = true});
}

// With longrope, as Phi-4-mini has it: documents of the context are long ones, those of 9 tokens short ones.
static void make_ministral3(struct config *c)
{
    c->kinds[0].rotary = 4;
    c->kinds[0].rope_scaling =
        (struct rope_scaling){.factor = 1, .original_context = 12, .attention_factor = 1.2, .longrope = true};
    c->kinds[0].position_scale = (struct position_scale){.beta = 0.4, .length = 4};
    for (size_t j = 0; j < 2; j++)
        c->short_factors[j] = 1 + 0.5 * (double)j, c->long_factors[j] = 3 + (double)j;
}

// Layers with positions see their chunk alone; those without scale queries by position.
static void make_llama4(struct config *c)
{
    c->kinds[0].rope = ROPE_INTERLEAVED;
    set_turns(c, (struct local_layers){0});
    c->kinds[0].chunked = true;
    c->kinds[1].rope = ROPE_NONE;
    c->kinds[1].position_scale = (struct position_scale){.beta = 0.4, .length = 6, .offset = 1};
}

static void make_cohere2(struct config *c)
{
    c->centred = c->parallel = c->tied = true;
    c->logits_scale = 0.4;
    c->kinds[0].rope = ROPE_INTERLEAVED;
    set_turns(c, (struct local_layers){0});
    config_remove_positions(c, (const bool[CONFIG_KIND_LAYERS]){[1] = true});
}

static void make_gemma4(struct config *c)
{
    c->tied = c->qk_norm = c->layer_scalars = true;
    c->norms = NORMS_AROUND;
    c->activation = ACTIVATION_GELU_TANH;
    c->embedding_scale = sqrt(c->width);
    c->logit_cap = 3;
    c->kinds[0].kv_heads = 1;
    c->kinds[0].head_dim = 10;
    c->kinds[0].query_scale = 1.2;
    c->kinds[0].rope = ROPE_PROPORTIONAL;
    c->kinds[0].rotary = 4;
    c->kinds[0].v_norm = c->kinds[0].k_is_v = true;
    set_turns(c, (struct local_layers){.rope_theta = 100, .kv_heads = 2, .head_dim = 6});
}

size_t fixture_mlp(const char *name)
{
    size_t number = 0;
    while (mlps[number] && strcmp(mlps[number]->kind.name, name) != 0)
        number++;
    CHECK(mlps[number]);
    return number;
}

void fixture_set_experts(struct config *config, unsigned layers, size_t experts, size_t chosen)
{
    bool with[CONFIG_KIND_LAYERS] = {false};
    for (size_t l = 0; l < config->layers; l++)
        with[l] = layers >> l & 1;
    config->experts = (struct experts){
        .routing = {.experts = experts, .chosen = chosen, .normalised = true, .scale = 1}, .width = 14};
    CHECK(config_set_mlp(config, with, fixture_mlp("experts")));
}

size_t fixture_mixer(const char *name)
{
    size_t number = 0;
    while (mixers[number] && strcmp(mixers[number]->kind.name, name) != 0)
        number++;
    CHECK(mixers[number]);
    return number;
}

void fixture_set_delta(struct config *config, unsigned layers)
{
    config->kinds[CONFIG_DELTA] = (struct layer_kind){.mixer = fixture_mixer("delta"),
                                                      .heads = 4,
                                                      .kv_heads = 2,
                                                      .head_dim = 12,
                                                      .value_dim = 10,
                                                      .gate_epsilon = 1e-6};
    for (size_t l = 0; l < config->layers; l++)
        config->kind_of[l] = layers >> l & 1 ? CONFIG_DELTA : config->kind_of[l];
}

// Whose keys have no norm: none of the model's have.
static struct layer_kind latent_kind(struct config *c)
{
    c->qk_norm = false;
    return (struct layer_kind){.mixer = fixture_mixer("latent"),
                               .mlp = c->kinds[0].mlp,
                               .heads = 4,
                               .kv_heads = 4,
                               .head_dim = 10,
                               .value_dim = 7,
                               .rotary = 4,
                               .kv_rank = 15,
                               .rope_theta = 10000};
}

static void make_deepseek(struct config *c)
{
    struct layer_kind *kind = &c->kinds[0];
    *kind = latent_kind(c);
    kind->q_rank = 11;
    kind->query_scale = 0.9;
    kind->rope_scaling = (struct rope_scaling){
        .factor = 4, .low_freq_factor = 1, .high_freq_factor = 32, .original_context = 8, .attention_factor = 1.1};
    kind->rope = ROPE_INTERLEAVED;
    c->qkv_bias = c->o_bias = true;
}

// Latent attention, without latents of queries and positions, and attention by turns.
static void make_kimi(struct config *c)
{
    c->kinds[1] = latent_kind(c);
    c->kinds[1].rope = ROPE_NONE;
    for (size_t l = 0; l < c->layers; l += 2)
        c->kind_of[l] = 1;
}

const char *fixture_choose_family(struct fixture *f, size_t index)
{
    static const struct {
        const char *name;
        void (*make)(struct config *config);
    } families[] = {{"OLMo 2", make_olmo2},
                    {"Gemma", make_gemma},
                    {"Gemma 3", make_gemma3},
                    {"Gemma 2", make_gemma2},
                    {"gpt-oss", make_gpt_oss},
                    {"Qwen3-Next", make_qwen3_next},
                    {"GLM-4", make_glm4},
                    {"SmolLM3", make_smollm3},
                    {"Granite", make_granite},
                    {"Exaone 4", make_exaone4},
                    {"Ministral 3", make_ministral3},
                    {"Llama 4", make_llama4},
                    {"DeepSeek", make_deepseek},
                    {"Kimi", make_kimi},
                    {"Cohere 2", make_cohere2},
                    {"Gemma 4", make_gemma4}};
    if (index >= sizeof families / sizeof *families)
        return NULL;
    families[index].make(&f->config);
    return families[index].name;
}

size_t fixture_families(void)
{
    size_t count = 0;
    for (struct fixture f = fixture_default(); fixture_choose_family(&f, count); f = fixture_default())
        count++;
    return count;
}

void fixture_choose(struct fixture *f, const char *family)
{
    struct fixture chosen = *f;
    const char *name;
    size_t index = 0;
    while ((name = fixture_choose_family(&chosen, index++)) && strcmp(name, family) != 0)
        chosen = *f;
    CHECK(name);
    *f = chosen;
}

enum dtype fixture_sums(const struct fixture *f)
{
    return f->narrow ? f->dtype : dtype_accumulator(f->dtype);
}

struct trainer_options fixture_trainer_options(const struct fixture *f)
{
    enum dtype sums = fixture_sums(f);
    return (struct trainer_options){.lora = f->lora,
                                    .kv_gradient_dtype = sums,
                                    .latent_block = f->latent_block,
                                    .router_losses = f->router_losses,
                                    .gradient_dtype = sums,
                                    .quantisation = f->quantisation,
                                    .dequantised = f->dequantised,
                                    .weights_place = f->weights_place,
                                    .gradients_place = f->gradients_place,
                                    .optimizer_place = f->optimizer_place,
                                    .optimizer = f->optimizer,
                                    .optimizer_options = f->optimizer_options};
}

void fixture_open(struct fixture *f)
{
    struct status status = {0};
    CHECK(config_check(&f->config, &status));
    f->device = device_open(f->device_name ? f->device_name : "cpu", f->dtype, 0, &status);
    CHECK(f->device);
    struct trainer_options options = fixture_trainer_options(f);
    options.ranks = f->ranks;
    trainer_open(&f->trainer, &f->model, &f->config, &options, f->device);
    random_weights_set(&f->model, f->seed, f->rounding);
    size_t count = f->context * f->batch_size;
    f->ids = malloc(count * sizeof *f->ids);
    CHECK(f->ids);
    struct random random = random_named(f->seed, "ids");
    for (size_t i = 0; i < count; i++) {
        size_t t = i % f->context, b = i / f->context;
        size_t from = f->group && t < f->prompt ? (b - b % f->group) * f->context + t : i;
        f->ids[i] = (int32_t)random_below(&random, from, f->config.vocab);
    }
    fixture_open_objective(f);
    fixture_open_batch(f, f->device, &f->batch, (struct row_range){0, f->batch_size});
    if (f->sequences.count) {
        struct normaliser all = f->batch.normaliser;
        batch_close(&f->batch, f->device);
        fixture_open_batch(f, f->device, &f->batch, f->sequences);
        f->batch.normaliser = all;
    }
    fixture_share(f, f->device, &f->batch);
    f->gradient_count = 0;
    for (size_t i = 0; i < f->model.parameter_count; i++)
        f->gradient_count += tensor_count(f->model.parameters[i].grad); // 0 of what is another rank's
    CHECK(f->device->status.code == STATUS_OK);
}

void fixture_share(const struct fixture *f, struct device *device, struct batch *batch)
{
    const struct comm *ranks = f->ranks ? &f->ranks->sequence : &comm_self;
    if (ranks->size > 1)
        batch_share(batch, device, ranks->size, ranks->rank);
    if (ranks->size > 1 && f->ranks->exchange == EXCHANGE_RING)
        batch_shift_documents(batch, device);
}

void fixture_close(struct fixture *f)
{
    batch_close(&f->batch, f->device);
    trainer_close(&f->trainer);
    device_close(f->device); // aborts on a leak
    fixture_set_optimizer(f, NULL, "%s", "");
    fixture_close_objective(f);
    free(f->ids);
}

// Tells whether the option is one of the table, with this word if it is one of words.
static bool takes(const struct option *option, const char *value)
{
    char first[32];
    snprintf(first, sizeof first, "%.*s", (int)strcspn(value, ","), value);
    return option && (option->type != OPTION_WORDS || strcmp(value, "none") == 0 || option_offers(option, first));
}

// The defaults with what is given as "chunk=128 keep=all", as far as there are such options.
static void *options_of(const struct option_table *table, const char *given)
{
    void *options = options_new(table);
    char text[256];
    CHECK((size_t)snprintf(text, sizeof text, "%s", given) < sizeof text);
    for (char *rest = text, *name; (name = strsep(&rest, " "));) {
        char *value = strchr(name, '=');
        if (!*name)
            continue;
        CHECK(value);
        *value++ = '\0';
        CHECK(!takes(option_find(table, name), value) || options_set(table, options, name, value));
    }
    return options;
}

void fixture_set_documents(const struct fixture *f, struct device *device, struct batch *batch, size_t first)
{
    size_t count = f->context * batch->batch;
    int32_t *documents = malloc((count + 1) * sizeof *documents);
    CHECK(documents);
    for (size_t i = 0; i < count && f->document; i++)
        documents[i] = (int32_t)((i % f->context + 3 * (first + i / f->context) + 1) / f->document);
    if (f->document)
        batch_set_documents(batch, device, documents);
    batch_set_chunks(batch, device, config_chunk(&f->config));
    batch_block_keys(batch, device, model_latent_block(&f->model));
    free(documents);
}

void fixture_open_batch(const struct fixture *f, struct device *device, struct batch *batch,
                        struct row_range sequences)
{
    size_t row = sequences.start * f->context;
    bool dataless = device->ops->dataless;
    batch_open(batch, device, dataless ? NULL : f->ids + row, dataless || !f->targets ? NULL : f->targets + row,
               f->context, sequences.count);
    fixture_set_documents(f, device, batch, sequences.start);
    fixture_set_objective(f, device, batch, sequences.start);
}

void fixture_open_objective(struct fixture *f)
{
    size_t count = f->context * f->batch_size;
    struct random random = random_named(f->seed, "ids"), noise = random_named(f->seed, "log-probs");
    f->weights = malloc(count * sizeof *f->weights);
    f->old = malloc(count * sizeof *f->old);
    f->reference = malloc(count * sizeof *f->reference);
    f->advantages = malloc(f->batch_size * sizeof *f->advantages);
    f->desirable = malloc(f->batch_size * sizeof *f->desirable);
    f->sampling = malloc(count * sizeof *f->sampling);
    f->token_advantages = malloc(count * sizeof *f->token_advantages);
    CHECK(f->weights && f->old && f->reference && f->advantages && f->desirable && f->sampling &&
          f->token_advantages);
    // About those of a random model, so that ratios lie between all bounds and beyond them.
    double usual = -log((double)f->config.vocab) - 0.5;
    for (size_t i = 0; i < count; i++) {
        f->weights[i] = i % 7 ? random_uniform(&random, i) : 0;
        f->old[i] = usual + random_normal(&noise, 2 * i) / 2;
        f->sampling[i] = f->old[i] + random_normal(&noise, 3 * count + 2 * i) / 3;
        f->token_advantages[i] = i % 9 ? random_normal(&noise, 3 * count + 2 * i + 1) : 0;
        f->reference[i] = usual + random_normal(&noise, 2 * i + 1) / 2;
    }
    for (size_t b = 0; b < f->batch_size; b++) {
        f->desirable[b] = b % 3 != 2;
        f->advantages[b] = (b % 2 ? -1 : 1) * (0.5 + random_uniform(&noise, 2 * count + b));
    }
    const struct objective *objective = f->objective ? f->objective : objectives[0];
    f->objective_settings = options_of(&objective->options, f->settings);
}

void fixture_close_objective(struct fixture *f)
{
    const struct objective *objective = f->objective ? f->objective : objectives[0];
    options_free(&objective->options, f->objective_settings);
    free(f->token_advantages);
    free(f->sampling);
    free(f->desirable);
    free(f->advantages);
    free(f->reference);
    free(f->old);
    free(f->weights);
}

// Another value of an option than its default, as text; number `index` of them. False: there is none.
static bool vary(const struct option *option, size_t index, char *text, size_t bytes)
{
    size_t number = 0;
    double value = option->initial + 0.25 <= option->maximum ? option->initial + 0.25 : option->maximum / 2;
    switch (option->type) {
    case OPTION_CHOICE:
        for (int i = 0; option->choices[i]; i++)
            if (i != (int)option->initial && number++ == index)
                return snprintf(text, bytes, "%s=%s", option->name, option->choices[i]) > 0;
        return false;
    case OPTION_NUMBER:
        return index == 0 && snprintf(text, bytes, "%s=%g", option->name, value) > 0;
    case OPTION_COUNT:
        return index == 0 && snprintf(text, bytes, "%s=%g", option->name, option->initial + 19) > 0;
    case OPTION_WORDS: // the method's own, after the trainer's three
        return option->choices[3] && (index == 0 || (index == 1 && option->choices[4])) &&
               snprintf(text, bytes, "%s=%s%s%s", option->name, option->choices[3], index ? "," : "",
                        index ? option->choices[4] : "") > 0;
    case OPTION_LIST:
        return false;
    }
    return false;
}

static const struct {
    const char *objective, *settings;
} together[] = {
    {"dpo", "kind=robust smoothing=0.1"},
    {"dpo", "kind=ipo sft=0.5"},
    {"dpo", "kind=simpo smoothing=0.2 gamma=0.3"},
    {"dpo", "divergence=alpha alpha=0.2 kind=ipo"},
    {"dpo", "divergence=js smoothing=0.1 sft=0.5"},
    {"dpo", "kind=exo_pair smoothing=0.1 divergence=js"},
    {"dpo", "kind=discopop tau=0.7"},
    {"dpo", "kind=apo_down sft=0.5 ld_alpha=0.3"},
    {"dpo", "ld_alpha=0 sft=0.5"},
    {"dpo", "ld_alpha=0.3 kind=hinge divergence=forward-kl"},
    {"kto", "kind=apo_zero_unpaired desirable_weight=1.5 undesirable_weight=0.5"},
    {"grpo", "beta=0.25 importance=on"},
    {"grpo", "beta=0.25 importance=on estimator=k1"},
    {"grpo", "beta=0.25 importance=on estimator=k2 mask_groups=2"},
    {"grpo", "beta=0.25 estimator=k1"},
    {"grpo", "advantages=tokens"},
    {"grpo", "advantages=tokens policy=gspo normaliser=grpo clip_low=0.03 clip_high=0.03"},
    {"grpo", "advantages=tokens policy=gspo_token normaliser=grpo clip_low=0.03 clip_high=0.03"},
    {"grpo", "policy=gspo_token beta=0.25 clip_low=0.03 clip_high=0.03"},
    {"grpo", "policy=gspo_token normaliser=luspo sampling=sequence_truncate sampling_max=1.5 sampling_min=0.5"},
    {"grpo", "sampling=token_mask sampling_max=1.2 beta=0.25"},
    {"grpo", "sampling=sequence_mask sampling_min=0.2 sampling_max=0 advantages=tokens"},
    {"grpo", "dual=1.5 clip_high=0.28"},
    {"grpo", "normaliser=dr_grpo length=19 policy=cispo ratio_max=0.9"},
    {"grpo", "normaliser=grpo policy=gspo clip_low=0.05 clip_high=0.05"},
    {"grpo", "policy=gspo beta=0.25"},
    {"grpo", "policy=gspo entropy=on"},
    {"grpo", "policy=gspo normaliser=grpo entropy_bonus=0.2 z_loss=0.1"},
    {"grpo", "normaliser=dr_grpo length=19 entropy_bonus=0.2 sampling=token_mask mask_groups=2"},
    {"sequence-mean", "z_loss=0.1 smoothing=0.2"},
    {"weighted-mean", "z_loss=0.1 smoothing=1"},
    {"grpo", "normaliser=luspo policy=gspo"},
};

// Number `index` of one objective's settings that are varied one at a time.
static bool settings_of(const struct objective *objective, size_t index, char *text, size_t bytes)
{
    *text = '\0';
    if (index-- == 0)
        return true;
    for (const struct option *option = objective->options.rows; option && option->name; option++) {
        size_t number = 0;
        for (; vary(option, number, text, bytes); number++)
            if (index-- == 0)
                return true;
    }
    return false;
}

static bool is_possible(const struct objective *objective, const char *settings)
{
    struct fixture f = {.config.vocab = 2, .context = 1, .batch_size = 2, .objective = objective};
    struct status status = {0};
    snprintf(f.settings, sizeof f.settings, "%s", settings);
    fixture_open_objective(&f);
    bool possible = objective_check(objective, f.objective_settings, 2, 1, &status);
    fixture_close_objective(&f);
    return possible;
}

bool fixture_choose_objective(struct fixture *f, size_t index)
{
    for (const struct objective *const *o = objectives; *o; o++) {
        f->objective = *o;
        for (size_t i = 0; settings_of(*o, i, f->settings, sizeof f->settings); i++)
            if (is_possible(*o, f->settings) && index-- == 0)
                return true;
    }
    if (index >= sizeof together / sizeof *together)
        return false;
    f->objective = objective_find(together[index].objective);
    snprintf(f->settings, sizeof f->settings, "%s", together[index].settings);
    return true;
}

void fixture_set_objective(const struct fixture *f, struct device *device, struct batch *batch, size_t first)
{
    if (f->objective) {
        struct batch_values values = {.weights = f->weights + first * f->context,
                                      .old_logprobs = f->old + first * f->context,
                                      .reference_logprobs = f->reference + first * f->context,
                                      .sampling_logprobs = f->sampling + first * f->context,
                                      .advantages = f->advantages + first,
                                      .desirable = f->desirable + first};
        if (strstr(f->settings, "advantages=tokens"))
            values.token_advantages = f->token_advantages + first * f->context;
        batch_set_objective(batch, device, f->objective, f->objective_settings, &values);
    }
}

void *fixture_options(const struct method *method, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    CHECK((size_t)vsnprintf(text, sizeof text, format, arguments) < sizeof text);
    va_end(arguments);
    return options_of(&method->options, text);
}

void fixture_set_optimizer(struct fixture *f, const struct optimizer *optimizer, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    CHECK((size_t)vsnprintf(text, sizeof text, format, arguments) < sizeof text);
    va_end(arguments);
    if (f->optimizer)
        options_free(&f->optimizer->options, f->optimizer_options);
    f->optimizer = optimizer;
    f->optimizer_options = optimizer ? options_of(&optimizer->options, text) : NULL;
}

void fixture_take_step(struct trainer *trainer, const struct method *method, const struct batch *batch,
                       const void *options, size_t update, struct step_report *report)
{
    struct training_step step = {.trainer = trainer,
                                 .method = method,
                                 .batch = batch,
                                 .options = options,
                                 .update = update,
                                 .rate_factor = 1};
    training_step_take(&step, report);
}

double *fixture_step(struct fixture *f, const char *name, const void *options, struct step_report *report)
{
    const struct method *method = method_find(name);
    void *defaults = options_new(&method->options);
    // Earlier values of the gradients must not matter.
    for (size_t i = 0; i < f->model.parameter_count; i++) {
        struct tensor grad = f->model.parameters[i].grad;
        if (grad.data)
            memset(grad.data, 0xff, tensor_bytes(grad)); // NaN in every dtype
    }
    size_t live = f->device->arena.live_bytes;
    fixture_take_step(&f->trainer, method, &f->batch, options ? options : defaults, 0, report);
    options_free(&method->options, defaults);
    CHECK(f->device->status.code == STATUS_OK);
    CHECK(f->device->arena.live_bytes == live); // a walk gives back all that it takes
    return fixture_gradients(f);
}

double *fixture_gradients(struct fixture *f)
{
    double *gradients = malloc((f->gradient_count + 1) * sizeof *gradients), *next = gradients;
    CHECK(gradients);
    for (size_t i = 0; i < f->model.parameter_count; i++) {
        if (f->model.parameters[i].grad.data) {
            tensor_read(f->device, f->model.parameters[i].grad, next);
            next += tensor_count(f->model.parameters[i].grad);
        }
    }
    return gradients;
}

double *zeros(size_t count)
{
    double *numbers = calloc(count + 1, sizeof *numbers);
    CHECK(numbers);
    return numbers;
}

double *numbers_of(struct device *device, struct tensor t)
{
    double *numbers = zeros(tensor_count(t));
    tensor_read(device, t, numbers);
    return numbers;
}

struct tensor matrix_like(struct device *device, struct tensor shape)
{
    return tensor_new(device, shape.rows, shape.cols, device->ops->dtype, CATEGORY_DATA);
}

double relative_l2(const double *a, const double *b, size_t count)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        norm += b[i] * b[i];
    }
    return difference == 0 ? 0 : sqrt(difference / norm); // NaN stays NaN, and fails every bound
}

double largest_difference(const double *a, const double *b, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        double difference = fabs(a[i] - b[i]);
        largest = difference > largest || isnan(difference) ? difference : largest;
    }
    return largest;
}
