// Tests of trial_decode: defaults, and every wrong value refused at its place.
// JSON is written with ' for ".
#define _GNU_SOURCE // nftw, mkdtemp
#include "methods/spaco_options.h"
#include "tests/golden.h"
#include "tests/scratch.h"
#include "tests/trial_of.h"

static void expect_bad(const char *json, const char *origin, const char *message)
{
    struct trial trial;
    struct status status = {0};
    char *text = quoted(json), *expected = quoted(message);
    if (trial_decode(&trial, text, origin, &status))
        fail_msg("accepted: %s", text);
    if (status.code == STATUS_OK || !strstr(status.message, expected))
        fail_msg("expected %s\n   found %s\n   in %s", expected, status.message, text);
    trial_free(&trial);
    free(expected);
    free(text);
}

static void a_trial_has_its_defaults(void **state)
{
    (void)state;
    struct trial trial = trial_of(MINIMAL);
    assert_string_equal(trial.config.name, "tiny");
    assert_null(trial.model_folder);
    assert_string_equal(trial.method->name, "full");
    assert_string_equal(trial.device, "cpu");
    assert_int_equal(trial.dtype, DTYPE_F32);
    assert_int_equal(trial.kv_gradient_dtype, DTYPE_F32);
    assert_int_equal(trial.gradient_dtype, DTYPE_F32);
    assert_int_equal(trial.context, 64);
    assert_int_equal(trial.batch, 1);
    assert_int_equal(trial.seed, 1);
    assert_int_equal(trial.data.kind, DATA_RANDOM);
    assert_null(trial.labels);
    assert_int_equal(trial.lora.rank, 0);
    assert_null(trial.optimizer);
    assert_int_equal(trial.measure.warmup, 1);
    assert_int_equal(trial.measure.samples, 5);
    assert_true(trial.measure.max_seconds == 60);
    assert_int_equal(trial.measure.gradient, GRADIENT_FULL_F64);
    assert_int_equal(trial.memory_limit_bytes, 0);
    assert_int_equal(trial.host_memory_limit_bytes, 0);
    assert_null(trial.host_folder);
    trial_free(&trial);
}

static void a_model_may_be_a_shape(void **state)
{
    (void)state;
    struct trial trial =
        trial_of(MODEL("{'layers': 2, 'width': 48, 'heads': 6, 'ffn': 64, 'vocab': 300, 'tied': true,"
                       "'qkv_bias': true, 'rope_theta': 500000, 'rope_scaling': {'type': 'llama3',"
                       "'factor': 4}}"));
    assert_string_equal(trial.config.name, "custom");
    assert_int_equal(trial.config.kinds[0].kv_heads, 6);
    assert_int_equal(trial.config.kinds[0].head_dim, 8);
    assert_true(trial.config.kinds[0].rope_theta == 500000);
    assert_true(trial.config.tied && trial.config.qkv_bias && !trial.config.qk_norm);
    assert_true(trial.config.kinds[0].rope_scaling.factor == 4 &&
                trial.config.kinds[0].rope_scaling.high_freq_factor == 4);
    assert_int_equal(trial.config.kinds[0].rope_scaling.original_context, 8192);
    trial_free(&trial);
    trial = trial_of(MODEL("{'preset': 'llama-3.2-1b', 'layers': 2, 'rope_scaling': null}"));
    assert_string_equal(trial.config.name, "llama-3.2-1b-custom");
    assert_int_equal(trial.config.width, 2048);
    assert_true(trial.config.tied && trial.config.kinds[0].rope_scaling.factor == 0);
    assert_null(strstr(trial.canonical, "norms")); // what others have is in no shape of Llama's
    trial_free(&trial);
    trial = trial_of(MODEL("{'preset': 'gemma-3-4b', 'ffn': 64, 'activation': 'silu'}"));
    assert_true(trial.config.norms == NORMS_AROUND && trial.config.activation == ACTIVATION_SILU);
    struct trial again = trial_of(trial.canonical); // whole, and no other
    assert_string_equal(again.id, trial.id);
    assert_memory_equal(&again.config, &trial.config, sizeof trial.config);
    trial_free(&again);
    trial_free(&trial);
    trial = trial_of(MODEL("{'preset': 'tiny', 'norms': 'after', 'qk_norm': true, 'whole_qk_norm': true, "
                           "'query_scale': 0.5, 'rope_scaling': {'type': 'linear', 'factor': 3}}"));
    again = trial_of(trial.canonical);
    assert_true(again.config.norms == NORMS_AFTER && again.config.whole_qk_norm &&
                again.config.kinds[0].query_scale == 0.5);
    assert_true(again.config.kinds[0].rope_scaling.factor == 3 &&
                again.config.kinds[0].rope_scaling.high_freq_factor == 0);
    trial_free(&again);
    trial_free(&trial);
    trial = trial_of(MODEL("{'preset': 'tiny', 'attention_cap': 50, 'logit_cap': 30, 'sinks': true, 'gated': true, "
                           "'sliding_window': 64, 'full_layers': [1]}"));
    again = trial_of(trial.canonical);
    assert_memory_equal(&again.config, &trial.config, sizeof trial.config);
    assert_true(again.config.logit_cap == 30);
    for (size_t l = 0; l < 2; l++) {
        const struct layer_kind *kind = config_kind(&again.config, l);
        assert_true(kind->cap == 50 && kind->sinks && kind->gated && kind->window == (l ? 0 : 64));
    }
    trial_free(&again);
    trial_free(&trial);
    // Windows and positions of some layers, in every way: four kinds.
    trial =
        trial_of(MODEL("{'preset': 'tiny', 'sliding_window': 8, 'full_layers': [0, 1], 'no_rope_layers': [0, 2]}"));
    again = trial_of(trial.canonical);
    for (size_t l = 0; l < 4; l++) {
        const struct layer_kind *kind = config_kind(&again.config, l);
        assert_int_equal(kind->mixer, MIXER_ATTENTION);
        assert_int_equal(kind->window, l < 2 ? 0 : 8);
        assert_int_equal(kind->rope == ROPE_NONE, l % 2 == 0);
    }
    assert_memory_equal(&again.config, &trial.config, sizeof trial.config);
    trial_free(&again);
    trial_free(&trial);
    trial =
        trial_of(MODEL("{'preset': 'tiny', 'rotary': 4, 'rope_scaling': {'type': 'longrope', 'short_factor': [1, "
                       "2], 'long_factor': [3, 4], 'original_context': 64, 'attention_factor': 1.25}}"));
    again = trial_of(trial.canonical);
    assert_memory_equal(&again.config, &trial.config, sizeof trial.config);
    assert_true(again.config.long_factors[1] == 4 && again.config.kinds[0].rope_scaling.attention_factor == 1.25);
    trial_free(&again);
    trial_free(&trial);
    trial = trial_of(MODEL("{'preset': 'tiny', 'rope_scaling': {'type': 'dynamic', 'factor': 2, "
                           "'original_context': 64}}"));
    again = trial_of(trial.canonical);
    assert_memory_equal(&again.config, &trial.config, sizeof trial.config);
    assert_true(again.config.kinds[0].rope_scaling.dynamic);
    assert_int_equal(again.config.kinds[0].rope_scaling.original_context, 64);
    trial_free(&again);
    trial_free(&trial);
    trial = trial_of(MODEL("{'preset': 'tiny', 'sliding_window': 8, 'full_layers': [1, 2], 'no_rope_layers': [1], "
                           "'chunked': true, 'position_scale': {'beta': 0.2, 'length': 16, "
                           "'offset': 1, 'no_rope': true}}"));
    again = trial_of(trial.canonical);
    assert_memory_equal(&again.config, &trial.config, sizeof trial.config);
    for (size_t l = 0; l < 4; l++) {
        const struct layer_kind *kind = config_kind(&again.config, l);
        assert_int_equal(kind->chunked, l == 0 || l == 3);
        assert_int_equal(kind->position_scale.length, l == 1 ? 16 : 0);
    }
    trial_free(&again);
    trial_free(&trial);
    trial =
        trial_of(MODEL("{'preset': 'tiny', 'rope': 'proportional', 'rotary': 8, 'qk_norm': true, 'v_norm': true, "
                       "'k_is_v': true, 'layer_scalars': true, 'sliding_window': 8, 'full_layers': [1], "
                       "'local_rope_theta': 100, 'local_kv_heads': 4, 'local_head_dim': 16, 'query_scale': 2}"));
    again = trial_of(trial.canonical);
    assert_memory_equal(&again.config, &trial.config, sizeof trial.config);
    const struct layer_kind *local = config_kind(&again.config, 0), *full = config_kind(&again.config, 1);
    assert_true(full->k_is_v && full->v_norm && full->head_dim == 32 && full->kv_heads == 2 && full->window == 0);
    assert_true(!local->k_is_v && local->v_norm && local->head_dim == 16 && local->kv_heads == 4);
    assert_true(local->window == 8 && local->rope == ROPE_HALVES && local->rope_theta == 100);
    assert_true(fabs(local->query_scale - sqrt(2)) < 1e-15 && again.config.layer_scalars);
    trial_free(&again);
    trial_free(&trial);
    trial = trial_of(MODEL("{'preset': 'tiny', 'centred': true, 'parallel': true}"));
    again = trial_of(trial.canonical);
    assert_memory_equal(&again.config, &trial.config, sizeof trial.config);
    assert_true(again.config.centred && again.config.parallel);
    trial_free(&again);
    trial_free(&trial);
    trial = trial_of(MODEL("{'preset': 'tiny', 'rope': 'proportional', 'rotary': 8}"));
    again = trial_of(trial.canonical);
    assert_memory_equal(&again.config, &trial.config, sizeof trial.config);
    assert_true(again.config.kinds[0].rope == ROPE_PROPORTIONAL && again.config.kinds[0].rotary == 8);
    trial_free(&again);
    trial_free(&trial);
    trial = trial_of(MODEL("{'preset': 'tiny', 'kv_rank': 24, 'q_rank': 16, 'head_dim': 48, 'rotary': 16, "
                           "'value_dim': 20, 'rope': 'interleaved', 'delta': {'layers': [1], 'heads': 4, "
                           "'key_heads': 2, 'key_dim': 8, 'value_dim': 8, 'split': true, 'norms_before': true}}"));
    again = trial_of(trial.canonical);
    assert_memory_equal(&again.config, &trial.config, sizeof trial.config);
    const struct layer_kind *latent = config_full_kind(&again.config);
    assert_int_equal(latent->mixer, MIXER_LATENT);
    assert_true(latent->kv_heads == 4 && latent->kv_rank == 24 && latent->q_rank == 16 && latent->value_dim == 20);
    assert_true(latent->head_dim == 48 && latent->rotary == 16 && latent->rope == ROPE_INTERLEAVED);
    assert_int_equal(config_kind(&again.config, 1)->mixer, MIXER_DELTA_SPLIT);
    assert_true(config_kind(&again.config, 1)->norms_before);
    trial_free(&again);
    trial_free(&trial);
    trial =
        trial_of(MODEL("{'layers': 4, 'width': 32, 'heads': 4, 'ffn': 48, 'vocab': 64, 'experts': 12, "
                       "'experts_per_token': 2, 'expert_width': 20, 'shared_expert_width': 8, "
                       "'shared_expert_gated': true, 'router_score': 'sigmoid', 'normalised_weights': true, "
                       "'score_sum_added': 1e-20, 'expert_groups': 4, 'top_groups': 2, 'group_best': 2, "
                       "'correction_bias': true, 'sliding_window': 8, 'full_layers': [3], 'dense_layers': [0]}"));
    again = trial_of(trial.canonical);
    assert_memory_equal(&again.config, &trial.config, sizeof trial.config);
    const struct experts *experts = &again.config.experts;
    assert_true(experts->routing.experts == 12 && experts->routing.chosen == 2 && experts->routing.groups == 4);
    assert_true(experts->routing.score == ROUTER_SIGMOID && experts->routing.scale == 1 && experts->width == 20);
    assert_true(experts->shared_width == 8 && experts->shared_gated && experts->correction_bias);
    for (size_t l = 0; l < 4; l++) {
        assert_int_equal(config_kind(&again.config, l)->mlp, l == 0 ? MLP_DENSE : MLP_EXPERTS);
        assert_int_equal(config_kind(&again.config, l)->window, l == 3 ? 0 : 8);
    }
    trial_free(&again);
    trial_free(&trial);
    trial = trial_of(MODEL("{'preset': 'qwen3-30b-a3b', 'layers': 2, 'experts': 16, 'dense_layers': [1]}"));
    assert_int_equal(config_kind(&trial.config, 0)->mlp, MLP_EXPERTS);
    assert_int_equal(config_kind(&trial.config, 1)->mlp, MLP_DENSE);
    trial_free(&trial);
    expect_bad(MODEL("{'preset': 'tiny', 'expert_width': 16}"), "c", "expert_width");
    expect_bad(MODEL("{'preset': 'tiny', 'dense_layers': [0]}"), "c", "dense_layers");
    expect_bad(MODEL("{'preset': 'qwen3-30b-a3b', 'experts_per_token': 129}"), "c",
               "experts_per_token must be from 1 to 128, found 129");
    expect_bad(MODEL("{'preset': 'qwen3-30b-a3b', 'swiglu_limit': 7}"), "c",
               "swiglu_limit requires a swiglu_alpha");
    expect_bad(MODEL("{'preset': 'qwen3-30b-a3b', 'normalised_weights': false, 'score_sum_least': 1e-9}"), "c",
               "a sum of chosen scores requires normalised_weights");
    expect_bad(MODEL("{'preset': 'qwen3-30b-a3b', 'expert_groups': 3}"), "c",
               "expert_groups must be at most 64 and divide experts, found 3 of 128");
    expect_bad(MODEL("{'preset': 'qwen3-30b-a3b', 'experts': 2000}"), "c",
               "experts must be from 1 to 1024, found 2000");
    trial =
        trial_of(MODEL("{'preset': 'qwen3-8b', 'rope_scaling': {'type': 'yarn', 'factor': 4, 'original_context': "
                       "32768}}"));
    again = trial_of(trial.canonical);
    const struct rope_scaling *yarn = &again.config.kinds[0].rope_scaling;
    assert_memory_equal(yarn, &trial.config.kinds[0].rope_scaling, sizeof *yarn);
    assert_true(yarn->factor == 4 && yarn->high_freq_factor == 32 && yarn->low_freq_factor == 1);
    assert_true(yarn->original_context == 32768 && fabs(yarn->attention_factor - 1.1386294361119891) < 1e-15);
    trial_free(&again);
    trial_free(&trial);
}

static void a_model_may_be_a_folder(void **state)
{
    (void)state;
    struct scratch scratch = scratch_open();
    char json[600];
    snprintf(json, sizeof json, MODEL("'%s/'"), scratch.folder);
    expect_bad(json, "c", "c:2:1: key 'model': ");
    char *config = quoted("{'model_type': 'llama', 'architectures': ['LlamaForCausalLM'], 'num_hidden_layers': 3,"
                          "'hidden_size': 64, 'num_attention_heads': 4, 'num_key_value_heads': 2,"
                          "'intermediate_size': 96, 'vocab_size': 512, 'rms_norm_eps': 1e-5, 'rope_theta': 10000.0,"
                          "'tie_word_embeddings': false, 'max_position_embeddings': 128, 'hidden_act': 'silu'}");
    scratch_file(&scratch, "config.json", config, strlen(config));
    struct trial trial = trial_of(json);
    assert_string_equal(trial.model_folder, scratch.folder); // without the slash
    assert_int_equal(trial.config.layers, 3);
    assert_int_equal(trial.config.vocab, 512);
    trial_free(&trial);
    free(config);
    scratch_close(&scratch);
}

static void options_reach_the_method(void **state)
{
    (void)state;
    struct trial trial = trial_of(
        "{'model': 'tiny', 'context': 1000, 'method': {'name': 'spaco', 'chunk': 100, 'budget': 3, 'cap': 1.5,"
        " 'sampler': 'fixed', 'drawn_chunks': [0, 4, 9], 'compensation': 'capped', 'loss': 'all'},"
        " 'measure': {'bias': true}}");
    const struct spaco_options *options = trial.options;
    assert_int_equal(options->common.chunk, 100);
    assert_int_equal(options->budget, 3);
    assert_int_equal(options->sampler, SAMPLER_FIXED);
    assert_int_equal(options->compensation, COMPENSATION_CAPPED);
    assert_int_equal(options->loss, LOSS_ALL);
    assert_true(options->cap == 1.5);
    assert_int_equal(options->drawn_chunks.count, 3);
    assert_memory_equal(options->drawn_chunks.items, ((uint32_t[]){0, 4, 9}), 3 * sizeof(uint32_t));
    assert_true(trial.measure.bias);
    expect_id(trial.canonical, trial.id);
    trial_free(&trial);
    trial = trial_of(METHOD("{'name': 'spaco', 'chunk': 16, 'budget': 2, 'sampler': 'sequential', 'minimum': 0.25,"
                            " 'sampler_seed': 7}"));
    assert_int_equal(((const struct spaco_options *)trial.options)->sampler_seed, 7);
    assert_true(((const struct spaco_options *)trial.options)->minimum == 0.25);
    trial_free(&trial);
    trial = trial_of(METHOD("{'name': 'seco', 'inner': 'checkpoint'}"));
    assert_int_equal(((const struct chunk_options *)trial.options)->inner, INNER_CHECKPOINT);
    trial_free(&trial);
}

static void answer(FILE *out, const char *input)
{
    static const char *const forms[][3] = {
        {"with ", "{\"model\": \"tiny\", \"context\": 64, \"method\": \"full\",\n", "}"},
        {"method ", "{\"model\": \"tiny\", \"context\": 64, \"method\":\n", "}"},
        {"model ", "{\"model\":\n", ", \"context\": 64, \"method\": \"full\"}"},
        {"trial ", "", ""},
    };
    size_t form = 0;
    while (form < COUNT(forms) && strncmp(input, forms[form][0], strlen(forms[form][0])) != 0)
        form++;
    if (form == COUNT(forms))
        fail_msg("unknown form: %s", input);
    char json[1000];
    assert_true(snprintf(json, sizeof json, "%s%s%s", forms[form][1], input + strlen(forms[form][0]),
                         forms[form][2]) < (int)sizeof json);
    struct trial trial;
    struct status status = {0};
    if (trial_decode(&trial, json, "c", &status))
        fail_msg("accepted: %s", json);
    trial_free(&trial);
    fputs(status.message, out);
}

static void bad_trials_are_refused(void **state)
{
    (void)state;
    golden_hold(answer);
}

static void models_are_named_as_on_the_hub(void **state)
{
    (void)state;
    static const struct {
        const char *given, *preset;
    } cases[] = {{"meta-llama/Llama-3.1-8B", "llama-3.1-8b"},
                 {"META-LLAMA/llama-3.1-8b-instruct", "llama-3.1-8b"},
                 {"Llama-3-8B", "llama-3-8b"},
                 {"qwen/qwen3-32b", "qwen3-32b"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int member = 0; member < 2; member++) {
            char json[200];
            snprintf(json, sizeof json,
                     member ? "{\"model\": {\"preset\": \"%s\"}, \"context\": 8, \"method\": \"full\"}"
                            : "{\"model\": \"%s\", \"context\": 8, \"method\": \"full\"}",
                     cases[i].given);
            struct trial trial;
            struct status status = {0};
            if (!trial_decode(&trial, json, "c", &status))
                fail_msg("%s", status.message);
            assert_non_null(strstr(trial.canonical, cases[i].preset));
            assert_null(strstr(trial.canonical, "/"));
            trial_free(&trial);
        }
    }
    for (const struct config_alias *alias = config_aliases; alias->hub_name; alias++)
        if (!config_preset(alias->hub_name))
            fail_msg("%s: no preset %s", alias->hub_name, alias->preset);
}

static void tokens_are_counted_in_K_and_M(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        size_t context, prompt, chunk, head_chunk;
    } cases[] = {
        {"{\"model\": \"tiny\", \"context\": \"32K\", \"prompt\": \"1k\", \"method\": {\"name\": \"seco\", "
         "\"chunk\": "
         "\"2k\", \"head_chunk\": \"1.5K\"}}",
         32768, 1024, 2048, 1536},
        {"{\"model\": \"tiny\", \"context\": \"1M\", \"method\": {\"name\": \"seco\", \"chunk\": \"0.5m\"}}",
         1048576, 0, 524288, 256},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trial trial;
        struct status status = {0};
        if (!trial_decode(&trial, cases[i].json, "c", &status))
            fail_msg("%s", status.message);
        assert_int_equal(trial.context, cases[i].context);
        assert_int_equal(trial.prompt, cases[i].prompt);
        const struct option_table *table = &trial.method->options;
        assert_int_equal(options_count(table, trial.options, "chunk", 0), cases[i].chunk);
        assert_int_equal(options_count(table, trial.options, "head_chunk", 0), cases[i].head_chunk);
        trial_free(&trial);
    }
    struct trial trial;
    struct status status = {0};
    assert_true(trial_decode(
        &trial, "{\"model\": \"tiny\", \"context\": 9, \"method\": \"full\", \"documents\": [\"1K\", 3]}", "c",
        &status));
    assert_int_equal(trial.packing.lengths[0], 1024);
    assert_non_null(strstr(trial.canonical, "\"documents\":[1024,3]"));
    trial_free(&trial);
    assert_true(trial_decode(
        &trial, "{\"model\": \"tiny\", \"context\": 9, \"method\": \"full\", \"documents\": {\"mean\": \"2K\"}}",
        "c", &status));
    assert_non_null(strstr(trial.canonical, "\"documents\":{\"mean\":2048}"));
    trial_free(&trial);
}

static void the_command_line_has_no_lines(void **state)
{
    (void)state;
    expect_bad(METHOD("{'name': 'seco', 'chunk': -1}"), "command line",
               "command line: key 'chunk': expected a whole number (tokens");
    expect_bad("{'method': 'full'}", "command line", "command line: key 'model': missing");
    // A long name must not push the reason out.
    char origin[3000];
    memset(origin, 'x', sizeof origin - 1);
    origin[sizeof origin - 1] = '\0';
    expect_bad("{'method': 'full'}", origin, "x:1:1: key 'model': missing");
}

// Rows of a step's group of sequences, how many sequences stay together, and those of the second of two replicas.
static void pairs_and_groups_stay_together(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        size_t rows, together, start, count;
    } cases[] = {{"", 20, 1, 6, 6},
                 {", 'prompt': 15", 20, 1, 6, 6},
                 {", 'objective': 'dpo'", 20, 2, 6, 6},
                 {", 'prompt': 15, 'group': 4", 14 + 4 * 5, 4, 8, 4},
                 {", 'prompt': 15, 'group': 4, 'objective': 'dpo'", 14 + 4 * 5, 4, 8, 4},
                 {", 'prompt': 15, 'group': 3, 'objective': 'dpo'", 14 + 3 * 5, 6, 6, 6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[300];
        snprintf(json, sizeof json,
                 "{'model': 'tiny', 'method': 'full', 'context': 20, 'batch': 12, 'parallel': {'data': 2}%s}",
                 cases[i].keys);
        struct trial trial = trial_of(json);
        struct row_range second = trial_sequences(&trial, 1);
        assert_int_equal(trial_row_tokens(&trial), cases[i].rows);
        assert_int_equal(trial_together(&trial), cases[i].together);
        assert_int_equal(second.start, cases[i].start);
        assert_int_equal(second.count, cases[i].count);
        trial_free(&trial);
    }
}

// A trial that a user asks of a card gets larger defaults, which shrink as the batch grows. A recorded trial and
// given values keep theirs.
static void a_card_has_defaults_of_its_own(void **state)
{
    (void)state;
    static const struct {
        const char *keys, *options;
        bool asked;
        size_t head_chunk, attention_queries;
    } cases[] = {{"'device': 'cpu'", "", true, 256, 2048},
                 {"'device': 'plan-cpu', 'batch': 2", "", true, 256, 2048},
                 {"'device': 'plan', 'dtype': 'bf16'", "", true, 2048, 8192},
                 {"'device': 'plan-cuda'", "", true, 2048, 8192},
                 {"'device': 'cuda'", "", true, 2048, 8192},
                 {"'device': 'cuda:1', 'batch': 2", "", true, 1024, 4096},
                 {"'device': 'cuda', 'batch': 3", "", true, 512, 2048},
                 {"'device': 'cuda', 'batch': 100", "", true, 256, 2048},
                 {"'device': 'cuda', 'attention_queries': '1K'", ", 'head_chunk': 0", true, 0, 1024},
                 {"'device': 'cuda'", "", false, 256, 2048}};
    char id[TRIAL_ID_BYTES] = "";
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct trial trial;
        struct status status = {0};
        char json[300];
        snprintf(json, sizeof json, "{'model': 'tiny', 'context': 64, %s, 'method': {'name': 'full'%s}}",
                 cases[i].keys, cases[i].options);
        char *text = quoted(json);
        if (!(cases[i].asked ? trial_decode_asked : trial_decode)(&trial, text, "c", &status))
            fail_msg("%s\n%s", status.message, text);
        assert_int_equal(options_count(&trial.method->options, trial.options, "head_chunk", 1),
                         cases[i].head_chunk);
        assert_int_equal(trial.attention_queries, cases[i].attention_queries);
        expect_id(trial.canonical, trial.id);
        if (strcmp(cases[i].keys, "'device': 'cuda'") == 0) {
            assert_string_not_equal(trial.id, id); // asked and recorded
            snprintf(id, sizeof id, "%s", trial.id);
        }
        free(text);
        trial_free(&trial);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trial_has_its_defaults),       cmocka_unit_test(a_model_may_be_a_shape),
        cmocka_unit_test(a_model_may_be_a_folder),        cmocka_unit_test(options_reach_the_method),
        cmocka_unit_test(bad_trials_are_refused),         cmocka_unit_test(models_are_named_as_on_the_hub),
        cmocka_unit_test(tokens_are_counted_in_K_and_M),  cmocka_unit_test(the_command_line_has_no_lines),
        cmocka_unit_test(pairs_and_groups_stay_together), cmocka_unit_test(a_card_has_defaults_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
