// Tests of harness/folder, its config.json: each key's meaning in each family, and refused keys.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/folder/folder.h"
#include "tests/config_text.h"

static void families_and_defaults(void **state)
{
    struct scratch *scratch = *state;
    struct config c = config_of(scratch, LLAMA "}");
    assert_true(c.layers == 2 && c.width == 32 && c.kinds[0].heads == 4 && c.kinds[0].kv_heads == 4 &&
                c.kinds[0].head_dim == 8);
    assert_true(c.ffn == 48 && c.vocab == 64 && c.max_context == 2048);
    assert_true(c.kinds[0].rope_theta == 10000 && c.norm_epsilon == 1e-6 && c.kinds[0].rope_scaling.factor == 0);
    assert_false(c.tied || c.qkv_bias || c.qk_norm);
    assert_non_null(strstr(scratch->folder, c.name));
    assert_memory_equal(c.name, "longbp-test-", 12);

    c = config_of(scratch,
                  LLAMA ", \"num_key_value_heads\": 2, \"head_dim\": 16, \"rope_theta\": 500000.0, "
                        "\"rms_norm_eps\": 1e-05, \"tie_word_embeddings\": true, \"rope_scaling\": null, "
                        "\"attention_bias\": false, \"mlp_bias\": false, \"hidden_act\": \"silu\", "
                        "\"max_position_embeddings\": 4096, \"pretraining_tp\": 1, \"eos_token_id\": [1]}");
    assert_true(c.kinds[0].kv_heads == 2 && c.kinds[0].head_dim == 16 && c.kinds[0].rope_theta == 500000 &&
                c.norm_epsilon == 1e-5 && c.tied);
    assert_true(c.max_context == 4096);

    c = config_of(scratch,
                  QWEN2 ", \"use_sliding_window\": false, \"sliding_window\": 4096, \"rope_theta\": 1000000}");
    assert_true(c.qkv_bias && !c.qk_norm && c.kinds[0].kv_heads == 2 && c.kinds[0].head_dim == 8 &&
                c.kinds[0].rope_theta == 1e6);
    c = config_of(scratch, QWEN3 ", \"attention_bias\": false, \"layer_types\": [\"full_attention\", "
                                 "\"full_attention\"]}");
    assert_true(c.qk_norm && !c.qkv_bias && c.kinds[0].head_dim == 128);
    c = config_of(scratch, "{\"model_type\": \"phi3\", " SIZES "}");
    assert_int_equal(c.kinds[0].kv_heads, 4);
    c = config_of(scratch,
                  LLAMA ", \"architectures\": [\"LLaMAForCausalLM\"], \"residual_multiplier\": 1.0, \"own\": {}}");
    c = config_of(scratch, MISTRAL ", \"sliding_window\": null, \"head_dim\": null}");
    assert_true(!c.qk_norm && !c.qkv_bias && c.kinds[0].head_dim == 8);
    c = config_of(scratch, "{\"model_type\": \"qwen2\", \"num_key_value_heads\": null, " SIZES "}");
    assert_int_equal(c.kinds[0].kv_heads, 4);
}

// As transformers reads them: Mistral's is every layer's, Qwen's of the layers from max_window_layers on, or as
// listed.
static void sliding_windows(void **state)
{
    static const struct {
        const char *json;
        size_t windows[2]; // by layer
    } cases[] = {
        {LLAMA "}", {0, 0}},
        {MISTRAL "}", {4096, 4096}},
        {MISTRAL ", \"sliding_window\": 7, \"layer_types\": [\"sliding_attention\", \"full_attention\"]}",
         {7, 0}}, // which transformers takes for a Ministral
        {MISTRAL ", \"sliding_window\": 7, \"layer_types\": null}", {7, 7}},
        {MISTRAL ", \"sliding_window\": 7, \"use_sliding_window\": false}", {7, 7}},
        {"{\"model_type\": \"ministral\", " SIZES ", \"num_key_value_heads\": 2}", {4096, 4096}},
        {PHI3 "}", {0, 0}},
        {PHI3 ", \"sliding_window\": null}", {0, 0}},
        {PHI3 ", \"sliding_window\": 7}", {7, 7}},
        {QWEN2 ", \"sliding_window\": 7}", {0, 0}},
        {QWEN2 ", \"use_sliding_window\": true, \"sliding_window\": null}", {0, 0}},
        {QWEN2 ", \"use_sliding_window\": true}", {0, 0}}, // the first 28 layers have none
        {QWEN2 ", \"use_sliding_window\": true, \"max_window_layers\": 0}", {4096, 4096}},
        {QWEN3 ", \"use_sliding_window\": true, \"sliding_window\": 9, \"max_window_layers\": 1}", {0, 9}},
        {QWEN3 ", \"use_sliding_window\": true, \"sliding_window\": 9, \"max_window_layers\": 0, "
               "\"layer_types\": [\"sliding_attention\", \"full_attention\"]}",
         {9, 0}},
    };
    struct scratch *scratch = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config c = config_of(scratch, cases[i].json), again;
        struct status status = {0};
        assert_true(folder_write_config(scratch->folder, &c, DTYPE_F32, &status));
        assert_true(folder_read_config(scratch->folder, &again, &status));
        for (size_t l = 0; l < 2; l++) {
            assert_int_equal(config_kind(&c, l)->window, cases[i].windows[l]);
            assert_int_equal(config_kind(&again, l)->window, cases[i].windows[l]);
        }
    }
    struct config c = config_of(scratch, MISTRAL "}");
    c.kind_of[1] = 1;
    c.kinds[1] = c.kinds[0];
    c.kinds[1].window = 0;
    expect_same_again(scratch, &c);
}

static void norms_activations_and_scales(void **state)
{
    struct scratch *scratch = *state;
    struct config c = config_of(scratch, OLMO2 "}");
    assert_true(c.norms == NORMS_AFTER && c.qk_norm && c.whole_qk_norm && !c.unit_offset && !c.tied);
    assert_true(c.norm_epsilon == 1e-5 && c.kinds[0].kv_heads == 4 && c.kinds[0].head_dim == 8 &&
                c.activation == ACTIVATION_SILU);
    assert_true(c.embedding_scale == 0 && c.kinds[0].query_scale == 0 && config_max_window(&c) == 0);
    expect_same_again(scratch, &c);

    c = config_of(scratch, GEMMA ", \"hidden_act\": \"gelu\"}"); // published so, and meant so
    assert_true(c.activation == ACTIVATION_GELU_TANH);
    c = config_of(scratch, GEMMA "}");
    assert_true(c.norms == NORMS_BEFORE && !c.qk_norm && c.unit_offset && c.tied);
    assert_true(c.activation == ACTIVATION_GELU_TANH && c.embedding_scale == sqrt(32) &&
                c.kinds[0].query_scale == 0);
    expect_same_again(scratch, &c);

    c = config_of(scratch, GEMMA2 ", \"query_pre_attn_scalar\": 25, \"sliding_window\": 7}");
    assert_true(c.norms == NORMS_AROUND && !c.qk_norm && c.unit_offset && c.tied);
    assert_true(c.logit_cap == 30 && c.embedding_scale == sqrt(32) && c.activation == ACTIVATION_GELU_TANH);
    for (size_t l = 0; l < 2; l++) {
        const struct layer_kind *kind = config_kind(&c, l);
        assert_true(kind->cap == 50 && kind->query_scale == 0.8 && kind->window == (l ? 0 : 7));
        assert_true(kind->rope_theta == 1e4 && !kind->sinks && !kind->gated);
    }
    expect_same_again(scratch, &c);
    c = config_of(scratch, GEMMA2 ", \"query_pre_attn_scalar\": 16, \"attn_logit_softcapping\": null, "
                                  "\"final_logit_softcapping\": 12.5}");
    assert_true(c.logit_cap == 12.5 && c.kinds[0].cap == 0 && c.kinds[1].cap == 0);
    expect_same_again(scratch, &c);

    c = config_of(scratch, GRANITE_SWA "}"); // attention's own scale is 1
    assert_true(c.norms == NORMS_BEFORE && c.tied && !c.qk_norm && c.embedding_scale == 0 && c.logit_cap == 0);
    for (size_t l = 0; l < 2; l++) {
        const struct layer_kind *kind = config_kind(&c, l);
        assert_true(kind->sinks && kind->cap == 0 && kind->window == (l ? 128 : 0));
        assert_true(fabs(kind->query_scale - sqrt(8)) < 1e-15);
    }
    expect_same_again(scratch, &c);
    c = config_of(scratch, GRANITE_SWA ", \"attention_multiplier\": 0.5, \"embedding_multiplier\": 12, "
                                       "\"sliding_window\": 5, \"layer_types\": [\"sliding_attention\", "
                                       "\"full_attention\"], \"layer_rope_theta\": [7, 7]}");
    assert_true(c.kinds[0].rope_theta == 7 && c.kinds[1].rope_theta == 7);
    assert_true(c.embedding_scale == 12 && fabs(c.kinds[0].query_scale - sqrt(2)) < 1e-15);
    assert_true(config_kind(&c, 0)->window == 5 && config_kind(&c, 1)->window == 0);
    expect_same_again(scratch, &c);

    c = config_of(scratch, GEMMA3
                  ", \"query_pre_attn_scalar\": 25, \"sliding_window\": 7, "
                  "\"sliding_window_pattern\": 2, \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8}}");
    assert_true(c.norms == NORMS_AROUND && c.qk_norm && !c.whole_qk_norm && c.unit_offset && c.tied);
    const struct layer_kind *windowed = config_kind(&c, 0), *full = config_kind(&c, 1);
    assert_true(windowed->window == 7 && full->window == 0);
    assert_true(windowed->query_scale == 0.8 && full->query_scale == 0.8);
    assert_true(windowed->rope_theta == 1e4 && windowed->rope_scaling.factor == 0);
    assert_true(full->rope_theta == 1e6 && full->rope_scaling.factor == 8);
    expect_same_again(scratch, &c);
    double global[8], local[8];
    rope_frequencies(&c, full, 0, global);
    rope_frequencies(&c, windowed, 0, local);
    assert_true(global[0] == 1. / 8 && local[0] == 1 && fabs(local[4] - 0.01) < 1e-15);

    c = config_of(scratch, GEMMA3 ", \"sliding_window_pattern\": 2, \"query_pre_attn_scalar\": 16}");
    assert_true(config_kind(&c, 0)->window == 4096 && config_kind(&c, 1)->window == 0 &&
                c.kinds[0].query_scale == 0);
    assert_true(config_kind(&c, 0)->rope_theta == 1e4 && config_kind(&c, 1)->rope_theta == 1e6);
    expect_same_again(scratch, &c);
    c = config_of(scratch,
                  GEMMA3 ", \"layer_types\": [\"full_attention\", \"sliding_attention\"], "
                         "\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 2, "
                         "\"rope_theta\": 7.0}, \"sliding_attention\": {\"rope_type\": \"default\", "
                         "\"rope_theta\": 5.0}}}");
    full = config_kind(&c, 0), windowed = config_kind(&c, 1);
    assert_true(full->window == 0 && full->rope_theta == 7 && full->rope_scaling.factor == 2);
    assert_true(windowed->window == 4096 && windowed->rope_theta == 5);
    c = config_of(scratch,
                  LLAMA ", \"hidden_act\": \"gelu_pytorch_tanh\", \"rope_scaling\": {\"type\": \"linear\", "
                        "\"factor\": 2}}");
    assert_true(c.activation == ACTIVATION_GELU_TANH && c.kinds[0].rope_scaling.factor == 2);
    expect_same_again(scratch, &c);
}

// Layers without positions, parts of heads, biases and factors; what is written is read again.
static void positions_biases_and_factors(void **state)
{
    struct scratch *scratch = *state;
    struct config c = config_of(scratch, SMOLLM3 ", \"no_rope_layer_interval\": 2, \"mlp_bias\": true}");
    assert_true(config_kind(&c, 0)->rope == ROPE_HALVES && config_kind(&c, 1)->rope == ROPE_NONE);
    assert_true(c.kinds[0].rope_theta == 2e6 && c.mlp_bias && !c.o_bias && !c.qkv_bias && c.tied);
    expect_same_again(scratch, &c);
    c = config_of(scratch, SMOLLM3 ", \"no_rope_layers\": [0, 1, 0], \"attention_bias\": true}");
    assert_true(config_kind(&c, 0)->rope == ROPE_NONE && config_kind(&c, 1)->rope == ROPE_HALVES);
    assert_true(c.qkv_bias && c.o_bias);
    expect_same_again(scratch, &c);

    c = config_of(scratch, EXAONE4 ", \"sliding_window_pattern\": 2, \"sliding_window\": 9}");
    assert_true(config_kind(&c, 0)->rope == ROPE_HALVES && config_kind(&c, 0)->window == 9);
    assert_true(config_kind(&c, 1)->rope == ROPE_NONE && config_kind(&c, 1)->window == 0);
    assert_true(c.norms == NORMS_AFTER && c.qk_norm && !c.whole_qk_norm);
    expect_same_again(scratch, &c);
    c = config_of(scratch, EXAONE4 ", \"sliding_window\": null}");
    assert_true(config_kind(&c, 1)->rope == ROPE_HALVES && config_max_window(&c) == 0);
    expect_same_again(scratch, &c);

    c = config_of(scratch, "{\"model_type\": \"glm4\", \"head_dim\": 16, " SIZES "}");
    assert_true(c.kinds[0].rope == ROPE_INTERLEAVED && c.kinds[0].rotary == 8 && c.kinds[0].kv_heads == 2);
    assert_true(c.norms == NORMS_AROUND && c.glm_norms && c.qkv_bias && c.norm_epsilon == 1.5625e-7);
    struct status status = {0};
    assert_false(folder_write_config(scratch->folder, &c, DTYPE_F32, &status)); // gate and up are one tensor there
    assert_int_equal(status.code, STATUS_UNSUPPORTED);

    c = config_of(scratch,
                  "{\"model_type\": \"granite\", \"attention_multiplier\": 0.5, \"embedding_multiplier\": 12, "
                  "\"residual_multiplier\": 0.22, \"logits_scaling\": 8, " SIZES "}");
    assert_true(c.kinds[0].query_scale == sqrt(8) / 2 && c.embedding_scale == 12 && c.residual_scale == 0.22);
    assert_true(c.logits_scale == 0.125);
    expect_same_again(scratch, &c);
    c = config_of(scratch, "{\"model_type\": \"seed_oss\", \"head_dim\": 8, \"num_key_value_heads\": 2, "
                           "\"attention_out_bias\": true, " SIZES "}");
    assert_true(c.qkv_bias && c.o_bias && !c.mlp_bias);
    c = config_of(scratch, "{\"model_type\": \"ernie4_5\", \"head_dim\": 8, \"use_bias\": true, " SIZES "}");
    assert_true(c.qkv_bias && c.o_bias && c.mlp_bias && c.kinds[0].rope == ROPE_INTERLEAVED &&
                c.kinds[0].rotary == 0);
    expect_same_again(scratch, &c);
}

// Widths, scales and positions of latent attention; what is written is read again.
static void latents_are_read(void **state)
{
    struct scratch *scratch = *state;
    struct config c = config_of(scratch, DEEPSEEK_V3 "}");
    const struct layer_kind *kind = &c.kinds[0];
    assert_true(kind->mixer == MIXER_LATENT && kind->q_rank == 1536 && kind->kv_rank == 512);
    assert_true(kind->head_dim == 192 && kind->rotary == 64 && kind->value_dim == 128 && kind->heads == 4);
    assert_true(kind->rope == ROPE_INTERLEAVED && kind->query_scale == 0 && !c.qkv_bias && !c.o_bias);
    expect_same_again(scratch, &c);
    c = config_of(scratch,
                  DEEPSEEK_V3 ", \"q_lora_rank\": null, \"kv_lora_rank\": 24, \"qk_nope_head_dim\": 10, "
                              "\"qk_rope_head_dim\": 6, \"v_head_dim\": 5, \"rope_interleave\": null, "
                              "\"attention_bias\": true, \"head_dim\": 6, \"rope_scaling\": {\"type\": \"yarn\", "
                              "\"factor\": 4, \"mscale\": 1, \"mscale_all_dim\": 0.5}}");
    double gain = 0.1 * log(4) + 1, all = 0.05 * log(4) + 1;
    assert_true(kind->q_rank == 0 && kind->kv_rank == 24 && kind->head_dim == 16 && kind->rotary == 6);
    assert_true(kind->value_dim == 5 && kind->rope == ROPE_HALVES && c.qkv_bias && c.o_bias);
    assert_true(fabs(kind->query_scale - all * all) < 1e-15);
    assert_true(fabs(kind->rope_scaling.attention_factor - gain / all) < 1e-15);
    expect_same_again(scratch, &c);
    c = config_of(scratch,
                  "{\"model_type\": \"deepseek_v2\", \"first_k_dense_replace\": 2, \"mlp_bias\": true, " SIZES "}");
    assert_true(kind->kv_heads == 4 && kind->rope == ROPE_INTERLEAVED && c.mlp_bias && c.max_context == 2048);
    expect_same_again(scratch, &c);
    c = config_of(scratch, "{\"model_type\": \"youtu\", \"num_key_value_heads\": 4, " SIZES "}");
    assert_true(kind->q_rank == 1536 && c.tied);
    c = config_of(scratch, "{\"model_type\": \"glm4_moe_lite\", \"num_key_value_heads\": 4, \"head_dim\": 32, "
                           "\"mlp_layer_types\": [\"dense\", \"dense\"], " SIZES "}");
    assert_true(kind->q_rank == 768 && kind->head_dim == 224 && kind->rotary == 32 && kind->value_dim == 256);
    c = config_of(scratch,
                  "{\"model_type\": \"kimi_linear\", \"num_key_value_heads\": 4, \"first_k_dense_replace\": 2, "
                  "\"linear_attn_config\": {\"kda_layers\": [], \"full_attn_layers\": [1, 2]}, " SIZES "}");
    assert_true(kind->q_rank == 0 && kind->rope == ROPE_NONE && kind->rotary == 64 && c.norm_epsilon == 1e-5);
    expect_same_again(scratch, &c);
    c = config_of(scratch,
                  "{\"model_type\": \"minicpm3\", \"num_key_value_heads\": 4, \"dim_model_base\": 8, " SIZES "}");
    assert_true(kind->rope == ROPE_HALVES && kind->value_dim == 8 && kind->head_dim == 96 && kind->rotary == 32);
    assert_true(c.embedding_scale == 12 && c.residual_scale == 1.4 / sqrt(2) && c.logits_scale == 0.25);
    c = config_of(scratch, "{\"model_type\": \"minicpm3\", \"num_key_value_heads\": 4, \"scale_emb\": 1, "
                           "\"scale_depth\": null, \"dim_model_base\": null, " SIZES "}");
    assert_true(c.embedding_scale == 0 && c.residual_scale == 0 && c.logits_scale == 0);
}

// Norms that subtract the mean, blocks side by side, and heads by layer.
static void cohere_and_gemma4(void **state)
{
    struct scratch *scratch = *state;
    struct config c = config_of(scratch, COHERE2 ", \"sliding_window_pattern\": 2, \"logit_scale\": 0.25}");
    assert_true(c.centred && c.parallel && c.tied && c.norm_epsilon == 1e-5 && c.logits_scale == 0.25);
    assert_true(config_kind(&c, 0)->rope == ROPE_INTERLEAVED && config_kind(&c, 0)->window == 4096);
    assert_true(config_kind(&c, 1)->rope == ROPE_NONE && config_kind(&c, 1)->window == 0);
    expect_same_again(scratch, &c);
    c = config_of(scratch,
                  "{\"model_type\": \"cohere\", \"rms_norm_eps\": 0.5, \"layer_norm_eps\": 0.125, " SIZES "}");
    assert_true(c.norm_epsilon == 0.125 && c.logits_scale == 0.0625 && c.kinds[0].rope_theta == 5e5 &&
                c.kinds[0].kv_heads == 4);
    expect_same_again(scratch, &c);

    c = config_of(scratch,
                  GEMMA4 ", \"attention_k_eq_v\": true, \"num_global_key_value_heads\": 1, "
                         "\"use_bidirectional_attention\": \"vision\", \"final_logit_softcapping\": 20.0}");
    const struct layer_kind *windowed = config_kind(&c, 0), *full = config_kind(&c, 1);
    assert_true(windowed->window == 512 && windowed->head_dim == 16 && windowed->kv_heads == 2 &&
                !windowed->k_is_v);
    assert_true(full->window == 0 && full->head_dim == 24 && full->kv_heads == 1 && full->k_is_v);
    assert_true(windowed->v_norm && full->v_norm && c.layer_scalars && c.qk_norm && !c.unit_offset && c.tied);
    assert_true(c.logit_cap == 20 && fabs(windowed->query_scale - 4) < 1e-15 && full->query_scale == sqrt(24));
    assert_true(full->rope == ROPE_PROPORTIONAL && full->rotary == 6 && full->rope_theta == 1e6);
    assert_true(windowed->rope == ROPE_HALVES && windowed->rotary == 0 && windowed->rope_theta == 10000);
    expect_same_again(scratch, &c);
    // As newer transformers writes it.
    struct config again = config_of(
        scratch, "{\"model_type\": \"gemma4_text\", \"num_key_value_heads\": 2, \"head_dim\": 16, "
                 "\"hidden_size_per_layer_input\": 0, \"attention_k_eq_v\": true, \"final_logit_softcapping\": 20, "
                 "\"per_layer_config\": {\"1\": {\"head_dim\": 24, \"num_key_value_heads\": 1}}, " SIZES "}");
    assert_memory_equal(&again, &c, sizeof c);
    c = config_of(scratch, GEMMA4 ", \"num_global_key_value_heads\": 1}"); // of keys that are values alone
    assert_true(config_kind(&c, 1)->kv_heads == 2 && !config_kind(&c, 1)->k_is_v && c.logit_cap == 0);
    expect_same_again(scratch, &c);
    c = config_of(scratch, "{\"model_type\": \"gemma4\", \"text_config\": {\"hidden_size_per_layer_input\": 0}}");
    assert_true(c.width == 2304 && config_kind(&c, 5)->head_dim == 512 && config_kind(&c, 4)->head_dim == 256);
}

#define TEXT(type) "{\"model_type\": \"" type "\", \"text_config\": {\"num_key_value_heads\": 2, " SIZES

// Models of images or sound: their language model, with what its class in transformers assumes.
static void text_configs_are_read(void **state)
{
    struct scratch *scratch = *state;
    struct config c = config_of(scratch, "{\"model_type\": \"llava\", \"text_config\": {\"vocab_size\": 32064}}");
    assert_true(c.width == 4096 && c.layers == 32 && c.kinds[0].heads == 32 && c.kinds[0].kv_heads == 32 &&
                c.ffn == 11008);
    assert_true(c.vocab == 32064 && !c.tied && c.norm_epsilon == 1e-6);
    c = config_of(scratch,
                  "{\"model_type\": \"gemma3\", \"text_config\": {\"num_hidden_layers\": 34, "
                  "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8.0}, \"sliding_window\": 1024}}");
    assert_true(c.width == 2304 && c.layers == 34 && c.kinds[0].heads == 8 && c.kinds[0].kv_heads == 4 &&
                c.kinds[0].head_dim == 256);
    assert_true(c.vocab == 262208 && c.tied && config_kind(&c, 0)->window == 1024);
    assert_true(config_kind(&c, 5)->window == 0 && config_kind(&c, 5)->rope_scaling.factor == 8);
    c = config_of(scratch, TEXT("gemma3") "}, \"tie_word_embeddings\": false}");
    assert_false(c.tied);
    c = config_of(scratch, TEXT("llava") ", \"model_type\": \"qwen2\", \"tie_word_embeddings\": true}}");
    assert_true(c.qkv_bias && c.tied);
    c = config_of(scratch, TEXT("llava_next") ", \"model_type\": \"mistral\", "
                                              "\"tie_word_embeddings\": true}}");
    assert_true(c.kinds[0].kv_heads == 2 && !c.tied);
    c = config_of(scratch, TEXT("smolvlm") "}}");
    assert_true(c.norm_epsilon == 1e-5);
    c = config_of(
        scratch, TEXT("qwen3_vl") ", \"rope_scaling\": {\"mrope_interleaved\": true, \"mrope_section\": [2, 1, 1], "
                                  "\"rope_type\": \"default\"}, \"head_dim\": 8}}");
    assert_true(c.qk_norm && c.kinds[0].rope_theta == 5e5 && c.kinds[0].head_dim == 8 && !c.tied);
    c = config_of(scratch, TEXT("minicpmv4_6") ", \"tie_word_embeddings\": true}}");
    assert_true(config_kind(&c, 0)->mixer == MIXER_DELTA && !c.tied);
    // As they were written before text_config.
    c = config_of(
        scratch,
        "{\"model_type\": \"qwen2_vl\", \"num_key_value_heads\": 2, \"rope_scaling\": {\"type\": \"mrope\", "
        "\"mrope_section\": [2, 1, 1]}, \"tie_word_embeddings\": true, \"vision_config\": {}, " SIZES "}");
    assert_true(c.qkv_bias && c.tied && c.kinds[0].rope_theta == 1e6 && c.kinds[0].rope_scaling.factor == 0 &&
                c.norm_epsilon == 1e-5);
}

// Layers of Gated DeltaNet, whose norms stand before their blocks, and attention with norms behind, of positions
// unless rope_theta is null.
static void olmo_hybrid_is_read_as_transformers_reads_it(void **state)
{
    struct scratch *scratch = *state;
    struct config c = config_of(scratch, OLMO_HYBRID ", \"rope_parameters\": {\"rope_theta\": null}}");
    const struct layer_kind *delta = config_kind(&c, 0), *full = config_kind(&c, 1);
    assert_true(delta->mixer == MIXER_DELTA_SPLIT && full->mixer == MIXER_ATTENTION);
    assert_true(config_norms(&c, 0) == NORMS_BEFORE && config_norms(&c, 1) == NORMS_AFTER);
    assert_true(delta->heads == 4 && delta->kv_heads == 4 && delta->head_dim == 6 && delta->value_dim == 12);
    assert_true(delta->beta_scale == 2 && delta->gate_epsilon == 1e-5 && c.norm_epsilon == 1e-6);
    assert_true(full->rope == ROPE_NONE && full->kv_heads == 4 && c.whole_qk_norm && c.max_context == 65536);
    expect_same_again(scratch, &c);
    c = config_of(scratch, OLMO_HYBRID ", \"rope_theta\": null, \"linear_num_key_heads\": 2, "
                                       "\"linear_key_head_dim\": 5, \"linear_allow_neg_eigval\": false}");
    assert_true(full->rope == ROPE_NONE && delta->heads == 4 && delta->kv_heads == 2);
    assert_true(delta->head_dim == 5 && delta->value_dim == 10 && delta->beta_scale == 0);
    expect_same_again(scratch, &c);
    c = config_of(scratch, OLMO_HYBRID ", \"attention_bias\": true, \"rope_theta\": null, \"rope_parameters\": "
                                       "{\"rope_theta\": 50}, \"layer_types\": [\"full_attention\", "
                                       "\"linear_attention\"]}");
    assert_true(config_kind(&c, 0)->rope == ROPE_HALVES && config_kind(&c, 0)->rope_theta == 50 && c.o_bias);
    assert_true(config_kind(&c, 1)->mixer == MIXER_DELTA_SPLIT);
    expect_same_again(scratch, &c);
    c = config_of(scratch, OLMO_HYBRID "}");
    assert_true(config_kind(&c, 1)->rope == ROPE_HALVES && config_kind(&c, 1)->rope_theta == 10000);
}

// Those that transformers has.
static void presets_are_written_and_read(void **state)
{
    struct scratch *scratch = *state;
    for (const struct config *preset = config_presets; preset->name[0]; preset++) {
        struct config c = *preset;
        memset(c.name, 0, sizeof c.name);
        snprintf(c.name, sizeof c.name, "%s", strrchr(scratch->folder, '/') + 1);
        expect_same_again(scratch, &c);
    }
}

#define V3_EXPERTS "{\"model_type\": \"deepseek_v3\", \"num_key_value_heads\": 4, \"first_k_dense_replace\": 1"
#define KIMI       "{\"model_type\": \"kimi_linear\", \"num_key_value_heads\": 4, \"first_k_dense_replace\": 2"

// reason: how the message begins after the path, position included.
static const struct {
    const char *json, *reason;
} wrong_configs[] = {
    {"", "config.json:"},
    {"{\"model_type\": \"llama\",}", "config.json:1:"},
    {"[]", "expected an object, found a list"},
    {"{}", "key \"model_type\": expected the type of a model, such as llama, found nothing"},
    {"{\"model_type\": 3}",
     "expected one of: llama, mistral, ministral, ministral3, internlm3, phi3, qwen2, qwen3, olmo2, gemma,"},
    {"{\"model_type\": \"gpt3\"}", "config.json:1:16: key \"model_type\": unknown model type \"gpt3\""},
    {"{\"model_type\": \"vaultgemma\"}", "key \"model_type\": vaultgemma has the norm of its MLP under a name"},
    {GRANITE_SWA ", \"residual_multiplier\": 0.2}", "key \"residual_multiplier\""},
    {GRANITE_SWA ", \"layer_rope_theta\": [0, 10000]}",
     "key \"layer_rope_theta[0]\": layers with a RoPE of their own"},
    {GRANITE_SWA ", \"layer_rope_theta\": [5, 10000]}",
     "key \"layer_rope_theta[1]\": layers with a RoPE of their own"},
    {GRANITE_SWA ", \"layer_rope_theta\": [5]}", "key \"layer_rope_theta\": expected a list of 2 numbers"},
    {GEMMA2 ", \"attn_logit_softcapping\": 0}", "key \"attn_logit_softcapping\": expected"},
    {"{\"model_type\": \"phimoe\"}",
     "key \"model_type\": phimoe is a mixture of experts of a kind that is not read"},
    {GEMMA3 ", \"final_logit_softcapping\": 30.0}", "key \"final_logit_softcapping\": transformers caps"},
    {GEMMA3 ", \"use_bidirectional_attention\": true}",
     "key \"use_bidirectional_attention\": queries see no later"},
    {GEMMA3 ", \"hidden_activation\": \"relu\"}", "key \"hidden_activation\": expected silu or gelu_pytorch_tanh"},
    {GEMMA3 ", \"sliding_window\": null}", "key \"sliding_window\": expected a whole number"},
    {GEMMA3 ", \"rope_parameters\": {\"sliding_attention\": {\"rope_type\": \"linear\", \"factor\": 2}}}",
     "expected default in layers with a window, found \"linear\""},
    {PHI3 ", \"rope_scaling\": {\"type\": \"longrope\"}}", "key \"short_factor\": expected a list of 4 numbers"},
    {PHI3 ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, \"short_factor\": [1, 1, 1, 0]}}",
     "key \"short_factor[3]\": expected a number"},
    {PHI3 ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}}",
     "key \"type\": expected default or longrope"},
    {MINISTRAL3 ", \"rope_scaling\": {\"rope_type\": \"default\"}}",
     "key \"original_max_position_embeddings\": expected a number of tokens"},
    {MINISTRAL3 ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 2, \"low_freq_factor\": 1, "
                "\"high_freq_factor\": 4}}",
     "key \"llama_4_scaling_beta\": expected a number"},
    {INTERNLM3 ", \"qkv_bias\": true}", "key \"qkv_bias\": transformers takes biases of all projections"},
    {INTERNLM3 ", \"bias\": true}", "key \"bias\": transformers takes biases of all projections"},
    {PHI3 ", \"original_max_position_embeddings\": 1, \"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": "
          "[1, 1, 1, 1], "
          "\"long_factor\": [1, 1, 1, 1]}}",
     "key \"original_max_position_embeddings\": expected a number above 1"},
    {LLAMA ", \"partial_rotary_factor\": 0.75}",
     "key \"partial_rotary_factor\": expected 1: whole heads are rotated"},
    {"{\"model_type\": \"deepseek_v2\", " SIZES "}",
     "key \"num_experts_per_tok\": expected a whole number above 0: transformers has no default"},
    {"{\"model_type\": \"deepseek_v2\", \"num_experts_per_tok\": 3, \"topk_method\": \"noaux_tc\", " SIZES "}",
     "key \"topk_method\": expected greedy or group_limited_greedy"},
    {"{\"model_type\": \"deepseek_v2\", \"num_experts_per_tok\": 3, \"topk_method\": "
     "\"group_limited_greedy\", \"topk_group\": 2, " SIZES "}",
     "key \"n_group\": expected a whole number above 0: transformers has no default"},
    {V3_EXPERTS ", \"n_group\": 3, " SIZES "}",
     "key \"n_group\": expected a number of groups of equal size, at least 2 of 256 experts"},
    {V3_EXPERTS ", \"n_group\": 8, \"topk_group\": 9, " SIZES "}",
     "key \"topk_group\": expected at most 8 groups that have 8 experts together"},
    {V3_EXPERTS ", \"n_group\": 128, " SIZES "}", "key \"n_group\": expected a whole number"},
    {V3_EXPERTS ", \"n_group\": 64, \"topk_group\": 1, " SIZES "}",
     "key \"topk_group\": expected at most 64 groups that have 8 experts together"},
    {V3_EXPERTS ", \"moe_layer_freq\": 2, " SIZES "}", "key \"moe_layer_freq\": must be 1"},
    {V3_EXPERTS ", \"num_local_experts\": 8, \"n_routed_experts\": 16, " SIZES "}",
     "key \"num_local_experts\": n_routed_experts is there, too, with another value: keep one of them"},
    {"{\"model_type\": \"mixtral\", \"num_experts_per_tok\": 9, " SIZES "}",
     "key \"num_experts_per_tok\": expected at most 8, all experts, found 9"},
    {"{\"model_type\": \"mixtral\", \"num_experts_per_tok\": 0, " SIZES "}",
     "key \"num_experts_per_tok\": expected a whole number"},
    {"{\"model_type\": \"mixtral\", \"router_jitter_noise\": 0.1, " SIZES "}",
     "key \"router_jitter_noise\": must be 0: noise on the router's input is not computed"},
    {"{\"model_type\": \"mixtral\", \"attention_bias\": true, " SIZES "}",
     "key \"attention_bias\": belongs to other model types"},
    {"{\"model_type\": \"olmoe\", \"clip_qkv\": 8.0, " SIZES "}",
     "key \"clip_qkv\": clipped queries, keys and values are not computed"},
    {"{\"model_type\": \"qwen3_moe\", \"num_key_value_heads\": 4, \"mlp_only_layers\": [-1], " SIZES "}",
     "key \"mlp_only_layers[0]\": expected a whole number"},
    {"{\"model_type\": \"qwen3_moe\", \"num_key_value_heads\": 4, \"decoder_sparse_step\": 0, " SIZES "}",
     "key \"decoder_sparse_step\": expected a whole number"},
    {"{\"model_type\": \"glm4_moe_lite\", \"num_key_value_heads\": 4, \"mlp_layer_types\": [\"dense\"], " SIZES "}",
     "key \"mlp_layer_types\": expected a list of 2 types"},
    {"{\"model_type\": \"glm4_moe_lite\", \"num_key_value_heads\": 4, \"head_dim\": 32, \"qk_rope_head_dim\": "
     "64, " SIZES "}",
     "key \"head_dim\": expected 64, as qk_rope_head_dim is"},
    {DEEPSEEK_V3 ", \"head_dim\": 192}", "key \"head_dim\": expected 64, as qk_rope_head_dim is, found 192"},
    {DEEPSEEK_V3 ", \"head_dim\": null}", "key \"head_dim\": expected a whole number"},
    {"{\"model_type\": \"minicpm3\", \"num_key_value_heads\": 3, \"hidden_size\": 32, \"num_hidden_layers\": 2, "
     "\"num_attention_heads\": 3, \"intermediate_size\": 48, \"vocab_size\": 64}",
     "key \"num_attention_heads\": 3 heads do not divide hidden_size 32"},
    {OLMO_HYBRID ", \"layer_types\": [\"linear_attention\", \"linear_attention\"]}",
     "key \"layer_types\": expected layers of both types"},
    {OLMO_HYBRID ", \"layer_types\": [\"full_attention\", \"full_attention\"]}",
     "key \"layer_types\": expected layers of both types"},
    {OLMO_HYBRID ", \"hidden_act\": \"gelu_pytorch_tanh\"}", "key \"hidden_act\": expected silu"},
    {OLMO_HYBRID ", \"rope_parameters\": {\"linear_attention\": {\"rope_theta\": 10}}}",
     "key \"linear_attention\": transformers reads no RoPE by type of layer here"},
    {"{\"model_type\": \"kimi_linear\", \"num_key_value_heads\": 4, " SIZES "}",
     "key \"layer_types\": layers of Kimi Delta Attention (KDA) are not computed"},
    {"{\"model_type\": \"kimi_linear\", \"num_key_value_heads\": 4, \"linear_attn_config\": {\"kda_layers\": [1], "
     "\"full_attn_layers\": [2]}, " SIZES "}",
     "key \"kda_layers\": layers of Kimi Delta Attention"},
    {KIMI ", \"linear_attn_config\": {\"kda_layers\": \"all\", \"full_attn_layers\": 5}, " SIZES "}",
     "key \"kda_layers\": expected a list of layers"},
    {KIMI ", \"linear_attn_config\": {\"kda_layers\": [], \"full_attn_layers\": 5}, " SIZES "}",
     "key \"full_attn_layers\": expected a list of each layer from 1 to 2"},
    {KIMI ", \"linear_attn_config\": {\"kda_layers\": [], \"full_attn_layers\": [1]}, " SIZES "}",
     "key \"full_attn_layers\": expected a list of each layer from 1 to 2"},
    {KIMI ", \"linear_attn_config\": {\"kda_layers\": [], \"full_attn_layers\": [1, 2.5]}, " SIZES "}",
     "key \"full_attn_layers\": expected a list of each layer from 1 to 2"},
    {KIMI ", \"linear_attn_config\": null, \"layer_types\": [\"full_attention\", \"full_attention\"], " SIZES "}",
     "key \"linear_attn_config\": expected an object"},
    {DEEPSEEK_V3 ", \"qk_nope_head_dim\": 6, \"qk_rope_head_dim\": 2, \"rope_scaling\": {\"type\": \"longrope\", "
                 "\"factor\": 4, \"mscale_all_dim\": 1, \"short_factor\": [1], \"long_factor\": [2]}}",
     "key \"mscale_all_dim\": expected 0: it scales scores beside linear, dynamic, llama3 and yarn alone"},
    {"{\"model_type\": \"minicpm3\", \"num_key_value_heads\": 4, \"rope_scaling\": {\"rope_type\": "
     "\"proportional\", "
     "\"mscale_all_dim\": 1}, " SIZES "}",
     "key \"mscale_all_dim\": expected 0"},
    {DEEPSEEK_V3 ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4, \"mscale_all_dim\": 1e200}}",
     "key \"mscale_all_dim\": expected a number from 0 to 1000000"},
    {"{\"model_type\": \"deepseek_v3\", " SIZES "}",
     "key \"num_key_value_heads\": expected 4, as num_attention_heads"},
    {DEEPSEEK_V3 ", \"qk_rope_head_dim\": 7}", "key \"qk_rope_head_dim\": expected an even number"},
    {DEEPSEEK_V3 ", \"qk_nope_head_dim\": 15}",
     "key \"qk_nope_head_dim\": expected a number with which head_dim is even and at most 512, where it is 79"},
    {DEEPSEEK_V3 ", \"qk_rope_head_dim\": 448}", "key \"qk_rope_head_dim\": expected a number with which head_dim"},
    {DEEPSEEK_V3 ", \"partial_rotary_factor\": 0.5}",
     "key \"partial_rotary_factor\": expected 1: qk_rope_head_dim"},
    {"{\"model_type\": \"kimi_k2\"}", "key \"model_type\": kimi_k2 is a mixture of experts"},
    {"{\"model_type\": \"lama\"}", "did you mean \"llama\"?"},
    {"{\"model_type\": \"llama\"}", "key \"hidden_size\": expected a whole number above 0, found nothing"},
    {"{\"model_type\": \"llama\", \"hidden_size\": \"32\"}", "key \"hidden_size\": expected a whole number"},
    {"{\"model_type\": \"llama\",\n  \"hidden_size\": 0}", "config.json:2:18: key \"hidden_size\": expected"},
    {"{\"model_type\": \"llama\", \"hidden_size\": 1e99}", "key \"hidden_size\": expected a whole number"},
    {"{\"model_type\": \"llama\", \"hidden_size\": 99999999999}", "from 1 to 16777216, found 99999999999"},
    {LLAMA ", \"num_key_value_heads\": 3}", "heads must be a multiple of kv_heads, found 4 and 3"},
    {LLAMA ", \"head_dim\": 7}", "head_dim must be even"},
    {LLAMA ", \"tie_word_embeddings\": 1}", "key \"tie_word_embeddings\": expected true or false, found 1"},
    {LLAMA ", \"rms_norm_eps\": \"tiny\"}", "key \"rms_norm_eps\": expected a number"},
    {LLAMA ", \"rms_norm_eps\": 0}", "key \"rms_norm_eps\": expected a number"},
    {LLAMA ",\n  \"rms_norm_eps\": NaN}",
     "config.json:2:19: key \"rms_norm_eps\": expected a number from 1e-300 to 1, found NaN"},
    {LLAMA ", \"rope_theta\": Infinity}",
     "key \"rope_theta\": expected a number from 1e-300 to 1e+300, found Infinity"},
    {LLAMA ", \"rope_theta\": 1e999}", "found 1e999"},
    {LLAMA ", \"max_position_embeddings\": 1000000000000000019884624838656}",
     "key \"max_position_embeddings\": expected a whole number >= 1, found 1000000000000000019884624838656"},
    {LLAMA ", \"max_position_embeddings\": 9007199254740993}", "up to 2^53"},
    {LLAMA ", \"hidden_act\": NaN}", "key \"hidden_act\": expected silu"},
    {LLAMA ", \"rope_scaling\": {\"type\": -Infinity}}", "found -Infinity"},
    {LLAMA ", \"time_step_limit\": [0.0, Infinity],\n \"eps\": 0..1}", "config.json:2:"},
    {LLAMA ", NaN: 1}", "config.json:1:"},
    {LLAMA ", \"a\": +Infinity}", "config.json:1:"},
    {LLAMA ", \"rope_theta\": -1}", "key \"rope_theta\": expected a number"},
    {MISTRAL ", \"attention_bias\": true}", "key \"attention_bias\": belongs to other model types"},
    {QWEN3 ", \"mlp_bias\": true}", "key \"mlp_bias\": belongs to other model types"},
    {PHI3 ", \"partial_rotary_factor\": 0.1}", "key \"partial_rotary_factor\": expected a share of head_dim 8"},
    {SMOLLM3 ", \"use_sliding_window\": true}", "key \"use_sliding_window\": windows of layers without positions"},
    {SMOLLM3 ", \"no_rope_layers\": [1]}", "key \"no_rope_layers\": expected a list of 2 numbers"},
    {SMOLLM3 ", \"no_rope_layers\": [1, 2]}", "key \"no_rope_layers[1]\": expected 0 or 1"},
    {EXAONE4 ", \"sliding_window\": null, \"layer_types\": [\"full_attention\", \"sliding_attention\"]}",
     "expected \"full_attention\": sliding_window is null"},
    {COHERE2 ", \"sliding_window\": null}", "key \"sliding_window\": expected a whole number"},
    {"{\"model_type\": \"cohere\", \"use_qk_norm\": true}", "key \"use_qk_norm\": norms with a gain for each head"},
    {"{\"model_type\": \"gemma4_text\", " SIZES "}",
     "key \"hidden_size_per_layer_input\": missing, which means 256"},
    {"{\"model_type\": \"gemma4_text\", \"hidden_size_per_layer_input\": null, " SIZES "}",
     "key \"hidden_size_per_layer_input\": must be 0"},
    {GEMMA4 ", \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\"}}}",
     "key \"sliding_attention\": expected an object: transformers has no default"},
    {GEMMA4 ", \"rope_parameters\": {\"sliding_attention\": {\"rope_type\": \"default\"}}}",
     "key \"full_attention\": expected an object: transformers has no default"},
    {GEMMA3 ", \"rope_parameters\": 3}", "key \"rope_parameters\": expected an object or null"},
    {COHERE2 ", \"logit_scale\": null}", "key \"logit_scale\": expected a number"},
    {GEMMA4 ", \"num_kv_shared_layers\": 1}", "key \"num_kv_shared_layers\": layers that share keys and values"},
    {GEMMA4 ", \"enable_moe_block\": true}", "key \"enable_moe_block\": experts are not computed"},
    {GEMMA4 ", \"use_bidirectional_attention\": \"all\"}", "key \"use_bidirectional_attention\": expected null"},
    {GEMMA4 ", \"rope_theta\": 5}", "key \"rope_theta\": transformers reads rope_parameters alone"},
    {GEMMA4 ", \"per_layer_config\": {\"0\": {\"head_dim\": 8}}}", "expected the same head_dim"},
    {GEMMA4 ", \"per_layer_config\": {\"1\": {}, \"2\": {}}}", "expected layers from 0 to 1 alone"},
    {GEMMA4 ", \"attention_k_eq_v\": true, \"num_global_key_value_heads\": 3}",
     "key \"num_global_key_value_heads\": expected a number that divides num_attention_heads 4"},
    {GEMMA4 ", \"per_layer_config\": {\"1\": {\"head_dim\": 31}}}",
     "key \"head_dim\": expected a number with which"},
    {GEMMA4 ", \"per_layer_config\": null}", "key \"per_layer_config\": expected an object"},
    {GEMMA4 ", \"per_layer_config\": {\"1\": null}}", "key \"1\": expected an object"},
    {GEMMA4 ", \"per_layer_config\": {\"1\": 3}}", "key \"1\": expected an object"},
    {GEMMA4 ", \"per_layer_config\": {\"1\": {\"head_dim\": null}}}", "key \"head_dim\": expected a whole number"},
    {GEMMA4 ", \"per_layer_config\": {\"1\": {\"head_dim\": 8, \"intermediate_size\": 48}}}",
     "key \"intermediate_size\": unknown key"},
    {LLAMA ", \"hidden_act\": \"gelu\"}", "key \"hidden_act\": expected silu or gelu_pytorch_tanh"},
    {LLAMA ", \"quantization_config\": {}}", "key \"quantization_config\": quantized weights"},
    {LLAMA ", \"partial_rotary_factor\": 0.5}", "key \"partial_rotary_factor\": expected 1"},
    {LLAMA ", \"rope_scaling\": 2}", "key \"rope_scaling\": expected an object or null, found 2"},
    {LLAMA ", \"rope_scaling\": {\"type\": \"linear\"}}", "factor\": expected a number, found nothing"},
    {LLAMA ", \"rope_scaling\": {\"rope_type\": \"ntk\"}}",
     "expected default, linear, dynamic, llama3, yarn, longrope or proportional, found \"ntk\""},
    {LLAMA ", \"rope_scaling\": {\"rope_type\": \"dynamic\"}}", "factor\": expected a number, found nothing"},
    {LLAMA ", \"head_dim\": 2, \"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2}}",
     "dynamic rope_scaling needs factor >= 1, an original_context above 0 and two frequencies"},
    {LLAMA ", \"rope_scaling\": {\"rope_type\": \"yarn\"}}", "factor\": expected a number, found nothing"},
    {LLAMA ", \"rope_scaling\": {\"rope_type\": \"proportional\", \"partial_rotary_factor\": 0.2}}",
     "key \"partial_rotary_factor\": expected a share of head_dim 8 that has a pair"},
    {LLAMA ", \"rope_scaling\": {\"rope_type\": \"proportional\", \"partial_rotary_factor\": 1.5}}",
     "key \"partial_rotary_factor\": expected a number from 0 to 1"},
    {GEMMA3 ", \"rope_parameters\": {\"sliding_attention\": {\"rope_type\": \"proportional\"}}}",
     "expected default in layers with a window"},
    {LLAMA ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"truncate\": 0}}",
     "key \"truncate\": expected true or false"},
    {OLMO3 ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"truncate\": false}}",
     "key \"truncate\": expected true: transformers reads it in no RoPE by type of layer"},
    {LLAMA ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"beta_fast\": 1}}",
     "config.json: rope_scaling needs"},
    {LLAMA ", \"rope_scaling\": {\"rope_type\": \"llama3\"}}", "factor\": expected a number, found nothing"},
    {LLAMA ", \"rope_scaling\": " LLAMA3 ", \"factor\": 3}}", "twice"},
    {LLAMA ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, "
           "\"high_freq_factor\": 4}}",
     "config.json: rope_scaling needs"},
    {LLAMA ", \"rope_parameters\": {\"partial_rotary_factor\": 0.5}}", "expected 1: whole heads"},
    {LLAMA ", \"use_sliding_window\": true}", "key \"use_sliding_window\": belongs to other model types"},
    {LLAMA ", \"is_causal\": false}", "key \"is_causal\": queries see no later keys"},
    {QWEN3 ", \"is_causal\": null}",
     "key \"is_causal\": queries see no later keys"}, // which transformers takes for false
    {QWEN2 ", \"per_layer_config\": {\"0\": {\"intermediate_size\": 16}}}", "key \"per_layer_config\": layers of"},
    {QWEN3 ", \"rope_parameters\": {\"full_attention\": {\"rope_theta\": 5}}}",
     "key \"full_attention\": transformers reads no RoPE by type of layer here"},
    {GEMMA3 ", \"rope_parameters\": {\"rope_theta\": 5}}", "key \"rope_theta\": belongs in full_attention"},
    {GEMMA3 ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}",
     "key \"type\": transformers reads rope_type alone"},
    {GEMMA3 ", \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2}, \"rope_parameters\": "
            "{\"full_attention\": {}}}",
     "key \"rope_scaling\": rope_parameters is there, too"},
    {LLAMA ", \"rope_scaling\": " LLAMA3 "}, \"original_max_position_embeddings\": null}",
     "key \"original_max_position_embeddings\": expected a whole number"},
    {LLAMA ", \"architectures\": [\"LlamaForCausalLMEagle3\"]}",
     "expected a class that transformers makes of a llama"},
    {LLAMA ", \"residual_multiplier\": 0.2}", "key \"residual_multiplier\": belongs to other model types"},
    {QWEN2 ", \"use_sliding_window\": true, \"sliding_window\": 0}",
     "key \"sliding_window\": expected a whole number"},
    {QWEN2 ", \"use_sliding_window\": true, \"max_window_layers\": -1}",
     "key \"max_window_layers\": expected a whole"},
    {QWEN2 ", \"layer_types\": [\"full_attention\"]}", "expected a list of 2 types, one per layer"},
    {QWEN2 ", \"layer_types\": [\"full_attention\", \"linear_attention\"]}", "linear_attention"},
    {QWEN3 ", \"layer_types\": [\"full_attention\", \"sliding_attention\"]}",
     "\"full_attention\": use_sliding_window is not true"},
    {QWEN3 ", \"use_sliding_window\": true, \"sliding_window\": null, \"layer_types\": [\"full_attention\", "
           "\"sliding_attention\"]}",
     "\"full_attention\": sliding_window is null"},
    {LLAMA ", \"rope_scaling\": {\"type\": \"mrope\"}}", "key \"type\""},
    {"{\"model_type\": \"llava\"}", "key \"text_config\": expected an object"},
    {"{\"model_type\": \"llava\", \"text_config\": {\"model_type\": \"phimoe\"}}",
     "phimoe is a mixture of experts"},
    {"{\"model_type\": \"llava\", \"text_config\": {\"num_hidden_layers\": 0}}", "key \"num_hidden_layers\""},
    {"{\"model_type\": \"llava\", \"text_config\": {}, \"quantization_config\": {}}", "quantized weights"},
    {"{\"model_type\": \"llava\", \"text_config\": {\"quantization_config\": {}}}", "quantized weights"},
    {MISTRAL ", \"sliding_window\": \"4096\"}", "key \"sliding_window\": expected a whole number"},
    {"{\"model_type\": \"llama\", \"hidden_size\": 30, \"num_hidden_layers\": 1, \"num_attention_heads\": 4, "
     "\"intermediate_size\": 1, \"vocab_size\": 1}",
     "4 heads do not divide hidden_size 30, and there is no head_dim"},
};

static void wrong_configs_are_refused(void **state)
{
    struct scratch *scratch = *state;
    for (size_t i = 0; i < sizeof wrong_configs / sizeof *wrong_configs; i++) {
        struct config config;
        struct status status = {0};
        bool ok = read_config(scratch, wrong_configs[i].json, &config, &status);
        if (ok || status.code != STATUS_BAD_INPUT || !strstr(status.message, wrong_configs[i].reason) ||
            !strstr(status.message, "config.json")) {
            fail_msg("%s\nexpected \"%s\", got %s: %s", wrong_configs[i].json, wrong_configs[i].reason,
                     status_name(status.code), status.message);
        }
    }
    struct config config;
    struct status status = {0};
    assert_false(folder_read_config(scratch_path(scratch, "none").text, &config, &status));
    assert_int_equal(status.code, STATUS_IO);
}

static void numbers_of_python_under_keys_that_nobody_reads_are_left(void **state)
{
    struct config plain = config_of(*state, LLAMA "}");
    struct config odd =
        config_of(*state, LLAMA ", \"time_step_limit\": [0.0, Infinity], \"a\": -Infinity,\"b\":NaN, "
                                "\"model_max_length\": 1000000000000000019884624838656, "
                                "\"c\": 9007199254740993, \"d\": \"\\\"NaN, Infinity\", \"e\": 1e999}");
    assert_memory_equal(&plain, &odd, sizeof plain);
}

// Model types that are not read: each is refused with its reason, and none with a hint at another. Those of more
// published files are in test_published_configs.
static void known_model_types_say_why_they_are_not_read(void **state)
{
    static const struct {
        const char *type, *why;
    } cases[] = {
        {"gemma4_unified", "another name"},
        {"llama4_text", "experts"},
        {"bert", "encoder"},
        {"t5", "encoder"},
        {"whisper", "sound"},
        {"mamba2", "Mamba"},
        {"gpt2", "learned"},
        {"falcon", "norms with a bias"},
        {"olmo", "LayerNorm without a gain"},
    };
    struct scratch *scratch = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config config;
        struct status status = {0};
        char json[100];
        snprintf(json, sizeof json, "{\"model_type\": \"%s\"}", cases[i].type);
        assert_false(read_config(scratch, json, &config, &status));
        if (!strstr(status.message, cases[i].why) || strstr(status.message, "did you mean"))
            fail_msg("%s: %s", cases[i].type, status.message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(families_and_defaults, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(latents_are_read, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(cohere_and_gemma4, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(text_configs_are_read, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(sliding_windows, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(norms_activations_and_scales, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(positions_biases_and_factors, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(olmo_hybrid_is_read_as_transformers_reads_it, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(presets_are_written_and_read, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(numbers_of_python_under_keys_that_nobody_reads_are_left, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(known_model_types_say_why_they_are_not_read, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(wrong_configs_are_refused, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
