#include "harness/folder/folder_family.h"
#include <fnmatch.h>
#include <math.h>

const struct family families[] = {
    {"llama", "LlamaForCausalLM", KEYS_LLAMA, .norm_epsilon = 1e-6, .rope_theta = 10000, .max_context = 2048,
     .sizes = {4096, 32, 32, 11008, 32000}},
    {"mistral", "MistralForCausalLM", KEYS_MISTRAL, .kv_heads = 8, .norm_epsilon = 1e-6, .rope_theta = 10000,
     .sliding = SLIDING_ALL, .max_context = 131072, .sizes = {4096, 32, 32, 14336, 32000}},
    {"ministral", "MinistralForCausalLM", KEYS_MINISTRAL, .kv_heads = 8, .norm_epsilon = 1e-6, .rope_theta = 10000,
     .sliding = SLIDING_LISTED, .max_context = 131072, .sizes = {4096, 32, 32, 14336, 32000}},
    {"ministral3", "Ministral3ForCausalLM", KEYS_MINISTRAL3, .kv_heads = 8, .head_dim = 128, .norm_epsilon = 1e-5,
     .rope_theta = 10000, .sliding = SLIDING_GIVEN, .scales_positions = true, .max_context = 262144, .padded = true,
     .pad = 11, .sizes = {4096, 34, 32, 14336, 131072}},
    // Written as a family above that computes the same.
    {"internlm3", "InternLM3ForCausalLM", KEYS_INTERNLM3, .kv_heads = 2, .head_dim = 128, .norm_epsilon = 1e-5,
     .rope_theta = 10000, .max_context = 32768, .padded = true, .pad = 2, .sizes = {4096, 48, 32, 10240, 128512}},
    {"phi3", "Phi3ForCausalLM", KEYS_PHI3, .fused = true, .partial = 1, .norm_epsilon = 1e-5, .rope_theta = 10000,
     .sliding = SLIDING_GIVEN, .default_rope = true, .original_context = 4096, .max_context = 4096, .padded = true,
     .pad = 32000},
    {"qwen2", "Qwen2ForCausalLM", KEYS_QWEN2, .qkv_bias = true, .kv_heads = 32, .norm_epsilon = 1e-6,
     .rope_theta = 10000, .sliding = SLIDING_SOME, .max_context = 32768, .sizes = {4096, 32, 32, 22016, 151936}},
    {"qwen3", "Qwen3ForCausalLM", KEYS_QWEN3, .qk_norm = true, .kv_heads = 32, .head_dim = 128,
     .norm_epsilon = 1e-6, .rope_theta = 10000, .sliding = SLIDING_SOME, .max_context = 32768,
     .sizes = {4096, 32, 32, 22016, 151936}},
    {"olmo2", "Olmo2ForCausalLM", KEYS_OLMO2, .qk_norm = true, .whole_qk_norm = true, .norms = NORMS_AFTER,
     .norm_epsilon = 1e-5, .rope_theta = 10000, .max_context = 2048, .padded = true, .pad = 1},
    {"gemma", "GemmaForCausalLM", KEYS_GEMMA, .unit_offset = true, .tied = true, .activation = ACTIVATION_GELU_TANH,
     .gelu_is_tanh = true, .scales_embedding = true, .kv_heads = 16, .head_dim = 256, .norm_epsilon = 1e-6,
     .rope_theta = 10000, .max_context = 8192, .padded = true, .sizes = {3072, 28, 16, 24576, 256000}},
    {"gemma2",
     "Gemma2ForCausalLM",
     KEYS_GEMMA2,
     .unit_offset = true,
     .tied = true,
     .norms = NORMS_AROUND,
     .activation_key = "hidden_activation",
     .activation = ACTIVATION_GELU_TANH,
     .scales_embedding = true,
     .scales_queries = true,
     .cap = 50,
     .logit_cap = 30,
     .kv_heads = 4,
     .head_dim = 256,
     .norm_epsilon = 1e-6,
     .rope_theta = 10000,
     .sliding = SLIDING_PATTERN,
     .full_each = 2,
     .max_context = 8192,
     .padded = true,
     .sizes = {2304, 26, 8, 9216, 256000}},
    {"gemma3_text",
     "Gemma3ForCausalLM",
     KEYS_GEMMA3,
     .qk_norm = true,
     .unit_offset = true,
     .tied = true,
     .norms = NORMS_AROUND,
     .activation_key = "hidden_activation",
     .activation = ACTIVATION_GELU_TANH,
     .scales_embedding = true,
     .scales_queries = true,
     .kv_heads = 4,
     .head_dim = 256,
     .norm_epsilon = 1e-6,
     .rope_theta = 1e6,
     .local_rope_theta = 10000,
     .local_rope_key = "rope_local_base_freq",
     .sliding = SLIDING_PATTERN,
     .full_each = 6,
     .pattern_key = "sliding_window_pattern",
     .max_context = 131072,
     .padded = true,
     .sizes = {2304, 26, 8, 9216, 262208}},
    {"gemma4_text",
     "Gemma4ForCausalLM",
     KEYS_GEMMA4,
     .qk_norm = true,
     .layer_scalars = true,
     .tied = true,
     .norms = NORMS_AROUND,
     .activation_key = "hidden_activation",
     .activation = ACTIVATION_GELU_TANH,
     .scales_embedding = true,
     .caps_logits = true,
     .global_heads = true,
     .kv_heads = 4,
     .head_dim = 256,
     .norm_epsilon = 1e-6,
     .rope_theta = 1e6,
     .proportional = 0.25,
     .local_rope_theta = 10000,
     .sliding = SLIDING_PATTERN,
     .window = 512,
     .full_each = 6,
     .full_last = true,
     .max_context = 131072,
     .padded = true,
     .sizes = {2304, 30, 8, 9216, 262144}},
    {"cohere", "CohereForCausalLM", KEYS_COHERE, .centred = true, .parallel = true, .tied = true,
     .rope = ROPE_INTERLEAVED, .logits_scale = 0.0625, .epsilon_key = "layer_norm_eps", .norm_epsilon = 1e-5,
     .rope_theta = 5e5, .max_context = 8192, .padded = true, .sizes = {8192, 40, 64, 22528, 256000}},
    {"cohere2", "Cohere2ForCausalLM", KEYS_COHERE2, .centred = true, .parallel = true, .tied = true,
     .rope = ROPE_INTERLEAVED, .no_rope = NO_ROPE_UNWINDOWED, .logits_scale = 0.0625,
     .epsilon_key = "layer_norm_eps", .norm_epsilon = 1e-5, .rope_theta = 10000, .sliding = SLIDING_PATTERN,
     .full_each = 4, .pattern_key = "sliding_window_pattern", .max_context = 8192, .padded = true,
     .sizes = {8192, 40, 64, 22528, 256000}},
    {"olmo3", "Olmo3ForCausalLM", KEYS_OLMO3, .qk_norm = true, .whole_qk_norm = true, .norms = NORMS_AFTER,
     .norm_epsilon = 1e-5, .rope_theta = 5e5, .local_rope_theta = 5e5, .sliding = SLIDING_PATTERN, .full_each = 4,
     .max_context = 2048, .padded = true, .pad = 1},
    {"granite_swa", "GraniteSWAForCausalLM", KEYS_GRANITE_SWA, .tied = true, .sinks = true, .multiplies = true,
     .kv_heads = 4, .norm_epsilon = 1e-5, .rope_theta = 10000, .sliding = SLIDING_PATTERN, .window = 128,
     .full_each = 4, .full_first = true, .max_context = 8192, .sizes = {2560, 24, 20, 8192, 100352}},
    {"smollm3", "SmolLM3ForCausalLM", KEYS_SMOLLM3, .tied = true, .no_rope = NO_ROPE_LISTED, .kv_heads = 4,
     .norm_epsilon = 1e-6, .rope_theta = 2e6, .max_context = 32768, .padded = true, .pad = 128004,
     .sizes = {2048, 36, 16, 11008, 128256}},
    {"exaone4", "Exaone4ForCausalLM", KEYS_EXAONE4, .qk_norm = true, .norms = NORMS_AFTER, .no_rope = NO_ROPE_FULL,
     .kv_heads = 32, .norm_epsilon = 1e-5, .rope_theta = 10000, .sliding = SLIDING_PATTERN, .full_each = 4,
     .pattern_key = "sliding_window_pattern", .max_context = 2048, .sizes = {4096, 32, 32, 16384, 102400}},
    {"seed_oss", "SeedOssForCausalLM", KEYS_SEED_OSS, .qkv_bias = true, .kv_heads = 8, .head_dim = 128,
     .norm_epsilon = 1e-6, .rope_theta = 10000, .max_context = 524288, .padded = true, .pad = 1,
     .sizes = {4096, 64, 80, 27648, 155136}},
    {"ernie4_5", "Ernie4_5ForCausalLM", KEYS_ERNIE4_5, .tied = true, .rope = ROPE_INTERLEAVED, .kv_heads = 2,
     .head_dim = 128, .norm_epsilon = 1e-5, .rope_theta = 5e5, .max_context = 131072, .padded = true,
     .sizes = {1024, 18, 16, 3072, 103424}},
    {"granite", "GraniteForCausalLM", KEYS_GRANITE, .multiplies = true, .norm_epsilon = 1e-6, .rope_theta = 10000,
     .max_context = 2048, .sizes = {4096, 32, 32, 11008, 32000}},
    {"glm", "GlmForCausalLM", KEYS_GLM, .qkv_bias = true, .gate_up_fused = true, .rope = ROPE_INTERLEAVED,
     .partial = 0.5, .kv_heads = 2, .head_dim = 128, .norm_epsilon = 1.5625e-7, .rope_theta = 10000,
     .max_context = 131072, .padded = true, .pad = 151329, .sizes = {4096, 40, 32, 13696, 151552}},
    {"glm4", "Glm4ForCausalLM", KEYS_GLM, .qkv_bias = true, .gate_up_fused = true, .norms = NORMS_AROUND,
     .glm_norms = true, .rope = ROPE_INTERLEAVED, .partial = 0.5, .kv_heads = 2, .head_dim = 128,
     .norm_epsilon = 1.5625e-7, .rope_theta = 10000, .max_context = 131072, .padded = true, .pad = 151329,
     .sizes = {4096, 40, 32, 13696, 151552}},
    {"deepseek_v3", "DeepseekV3ForCausalLM", KEYS_DEEPSEEK_V3, .rope = ROPE_INTERLEAVED, .interleaves = true,
     .latent = {1536, 512, 128, 64, 128}, .experts = EXPERTS_BEHIND, .dense_layers = 3, .kv_heads = 128,
     .norm_epsilon = 1e-6, .rope_theta = 10000, .max_context = 4096},
    {"deepseek_v2", "DeepseekV2ForCausalLM", KEYS_DEEPSEEK_V2, .rope = ROPE_INTERLEAVED,
     .latent = {1536, 512, 128, 64, 128}, .experts = EXPERTS_BEHIND, .norm_epsilon = 1e-6, .rope_theta = 10000,
     .max_context = 2048},
    {"youtu", "YoutuForCausalLM", KEYS_YOUTU, .tied = true, .rope = ROPE_INTERLEAVED, .interleaves = true,
     .latent = {1536, 512, 128, 64, 128}, .kv_heads = 16, .norm_epsilon = 1e-6, .rope_theta = 10000,
     .max_context = 131072},
    {"glm4_moe_lite", "Glm4MoeLiteForCausalLM", KEYS_GLM4_MOE_LITE, .rope = ROPE_INTERLEAVED, .interleaves = true,
     .latent = {768, 512, 192, 64, 256}, .experts = EXPERTS_LISTED, .dense_layers = 1, .kv_heads = 20,
     .norm_epsilon = 1e-5, .rope_theta = 10000, .max_context = 202752},
    {"kimi_linear", "KimiLinearForCausalLM", KEYS_KIMI_LINEAR, .rope = ROPE_NONE, .kda = true,
     .latent = {0, 512, 128, 64, 128}, .experts = EXPERTS_LISTED, .dense_layers = 1, .kv_heads = 32,
     .norm_epsilon = 1e-5, .rope_theta = 10000, .max_context = 1048576, .padded = true, .pad = 163839},
    {"minicpm3", "MiniCPM3ForCausalLM", KEYS_MINICPM3, .tied = true, .latent = {768, 256, 64, 32, 0},
     .depth_scaled = true, .kv_heads = 40, .norm_epsilon = 1e-5, .rope_theta = 10000, .max_context = 32768},
    // Written as Qwen2 and Qwen3, which compute the same.
    {"qwen2_vl_text", "Qwen2ForCausalLM", KEYS_QWEN2, .qkv_bias = true, .kv_heads = 8, .norm_epsilon = 1e-5,
     .rope_theta = 1e6, .sliding = SLIDING_SOME, .max_context = 32768, .axes = true,
     .sizes = {8192, 80, 64, 29568, 152064}},
    {"qwen2_5_vl_text", "Qwen2ForCausalLM", KEYS_QWEN2, .qkv_bias = true, .kv_heads = 8, .norm_epsilon = 1e-5,
     .rope_theta = 1e6, .sliding = SLIDING_SOME, .max_context = 32768, .axes = true,
     .sizes = {8192, 80, 64, 29568, 152064}},
    {"qwen3_vl_text", "Qwen3ForCausalLM", KEYS_QWEN3, .qk_norm = true, .kv_heads = 32, .head_dim = 128,
     .norm_epsilon = 1e-6, .rope_theta = 5e5, .max_context = 128000, .axes = true,
     .sizes = {4096, 32, 32, 22016, 151936}},
    {"qwen3_5_text", "Qwen3_5ForCausalLM", KEYS_QWEN3_5, .qk_norm = true, .unit_offset = true, .gated = true,
     .delta = true, .partial = 0.25, .full_each = 4, .kv_heads = 4, .head_dim = 256, .norm_epsilon = 1e-6,
     .rope_theta = 10000, .max_context = 32768, .axes = true, .sizes = {4096, 32, 16, 12288, 248320}},
    {"olmo_hybrid", "OlmoHybridForCausalLM", KEYS_OLMO_HYBRID, .qk_norm = true, .whole_qk_norm = true,
     .norms = NORMS_AFTER, .no_rope = NO_ROPE_NULL_THETA, .delta = true, .split = true, .full_each = 4,
     .norm_epsilon = 1e-6, .rope_theta = 10000, .max_context = 65536, .padded = true, .pad = 100277},
    {0},
};

const struct bias_key bias_keys[] = {
    {KEYS_LLAMA | KEYS_QWEN3 | KEYS_OLMO2 | KEYS_OLMO3 | KEYS_GEMMA | KEYS_GEMMA2 | KEYS_GEMMA3 | KEYS_GRANITE |
         KEYS_GRANITE_SWA | KEYS_SMOLLM3 | KEYS_QWEN3_5 | KEYS_DEEPSEEK_V2 | KEYS_DEEPSEEK_V3 | KEYS_YOUTU |
         KEYS_GLM4_MOE_LITE | KEYS_KIMI_LINEAR | KEYS_MINICPM3 | KEYS_COHERE | KEYS_COHERE2 | KEYS_GEMMA4 |
         KEYS_OLMO_HYBRID,
     "attention_bias", .qkv = true, .o = true},
    {KEYS_INTERNLM3, "attention_bias", .qkv = true, .o = true},
    {KEYS_INTERNLM3, "qkv_bias", .qkv = true, .o = true},
    {KEYS_INTERNLM3, "mlp_bias", .mlp = true},
    {KEYS_INTERNLM3, "bias", .mlp = true},
    {KEYS_GLM | KEYS_SEED_OSS, "attention_bias", .qkv = true},
    {KEYS_SEED_OSS, "attention_out_bias", .o = true},
    {KEYS_LLAMA | KEYS_GRANITE | KEYS_GRANITE_SWA | KEYS_SMOLLM3 | KEYS_SEED_OSS | KEYS_DEEPSEEK_V2 | KEYS_MINICPM3,
     "mlp_bias", .mlp = true},
    {KEYS_ERNIE4_5, "use_bias", .qkv = true, .o = true, .mlp = true},
    {0},
};

bool family_bias(const struct bias_key *key, const struct config *c)
{
    return key->qkv ? c->qkv_bias : key->o ? c->o_bias : c->mlp_bias;
}

void family_set_bias(const struct bias_key *key, struct config *c, bool bias)
{
    c->qkv_bias = key->qkv ? bias : c->qkv_bias;
    c->o_bias = key->o ? bias : c->o_bias;
    c->mlp_bias = key->mlp ? bias : c->mlp_bias;
}

const struct composite composites[] = {
    {"gemma3", "gemma3_text", .fixed = true, .tied = true},
    {"gemma4", "gemma4_text", .fixed = true, .tied = true},
    {"llava", "llama", .tied_by_text = true},
    {"llava_next", .text_type = "llama"},
    {"llava_onevision", "qwen2", .tied_by_text = true},
    {"vipllava", .text_type = "llama"},
    {"mistral3", "mistral", .tied = true},
    {"internvl", "qwen2", .tied = true},
    {"idefics3", "llama", .norm_epsilon = 1e-5, .submodule = "text_model"},
    {"smolvlm", "llama", .norm_epsilon = 1e-5, .submodule = "text_model"},
    {"qwen2_audio", .text_type = "qwen2"},
    {"qwen2_vl", "qwen2_vl_text", .fixed = true, .flat = true, .tied_by_text = true},
    {"qwen2_5_vl", "qwen2_5_vl_text", .fixed = true, .flat = true, .tied_by_text = true},
    {"qwen3_vl", "qwen3_vl_text", .fixed = true},
    {"qwen3_5", "qwen3_5_text", .fixed = true},
    {"minicpmv4_6", .text_type = "qwen3_5_text"},
    {0},
};

#define TYPES(...)                                                                                                 \
    (const char *const[])                                                                                          \
    {                                                                                                              \
        __VA_ARGS__, NULL                                                                                          \
    }

// Known decoders that are not read, by what is missing of them.
static const struct unread_family {
    const char *why;
    const char *const *model_types; // patterns, ending in NULL
} unread_families[] = {
    {"has the norm of its MLP under a name of its own (pre_feedforward_layernorm), which is not read",
     TYPES("vaultgemma")},
    {"lets the tokens of a prompt see later ones, which attention's kernels do not compute", TYPES("paligemma")},
    {"has layers of cross-attention to an image, which are not computed", TYPES("mllama")},
    {"is a mixture of experts, which is not computed",
     TYPES("afmoe", "arctic", "aria", "aria_text", "axk1", "beam", "cohere2_moe", "dbrx", "deepseek",
           "deepseek_vl2", "doge", "dots1", "ernie4_5_moe", "ernie4_5_vl_moe", "ernie4_5_vl_moe_text", "exaone_moe",
           "flex_olmo", "flint", "glm4_moe", "glm4v_moe", "glm4v_moe_text", "gpt_oss", "granitemoe",
           "granitemoe_swa", "granitemoeshared", "grok-1", "hunyuan_v1_moe", "hy_v3", "jetmoe", "kimi_k2",
           "kimi_k25", "kolibri1", "laguna", "llama4", "llama4_text", "longcat_flash", "mellum", "mimo_v2_flash",
           "minimax_m2", "mistral4", "mistral_large4", "mistral_large4_text", "mixtral", "olmoe", "phimoe",
           "qwen2_moe", "qwen3_moe", "qwen3_omni_moe", "qwen3_omni_moe_talker_text", "qwen3_omni_moe_text",
           "qwen3_omni_moe_thinker", "qwen3_vl_moe", "qwen3_vl_moe_text", "sarvam_mla", "sarvam_moe", "solar_open",
           "step3p5", "step3p7", "zaya")},
    {"is a mixture of experts with sparse attention, neither of which is computed",
     TYPES("axk2", "deepseek_ref", "deepseek_v32", "deepseek_v4", "dots3_note", "dots3_note_text", "glm_moe_dsa",
           "hy_v4", "hy_v4_vl", "hy_v4_vl_text", "minimax_m3", "minimax_m3_vl", "minimax_m3_vl_text")},
    {"has state space layers (Mamba), which are not computed",
     TYPES("bamba", "falcon_h1", "falcon_mamba", "granitemoehybrid", "jamba", "mamba", "mamba2", "nemotron_h",
           "nemotron_h_omni", "zamba", "zamba2")},
    {"has layers of linear attention, which are not computed",
     TYPES("bailing_hybrid", "glm5_next", "glm5_next_text", "lara_mini", "minimax", "qwen4_exp", "qwen4_exp_text")},
    {"is a mixture of experts between layers of Gated DeltaNet; experts are not computed",
     TYPES("qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next")},
    {"is a mixture of experts with layers of Kimi Delta Attention (KDA), neither of which is computed",
     TYPES("kimi_k3")},
    {"has layers of short convolutions, which are not computed",
     TYPES("inkling2", "inkling2_loop", "inkling2_loop_text", "inkling2_text", "inkling_mm_model", "inkling_text",
           "lfm2", "lfm2_moe", "lfm2_vl", "lfm3", "lfm3_vl")},
    {"is recurrent, with no attention in some or all of its layers, which is not computed",
     TYPES("recurrent_gemma", "rwkv", "xlstm")},
    {"has learned positions and norms with a bias, which are not computed",
     TYPES("biogpt", "gpt-sw3", "gpt2", "gpt_bigcode", "gpt_neo", "openai-gpt", "opt")},
    {"has ALiBi, sinusoidal or relative positions in place of rotary ones, which are not computed",
     TYPES("bloom", "cpmant", "ctrl", "mpt", "reformer", "transfo-xl", "xglm")},
    {"has norms with a bias (LayerNorm), which are not computed",
     TYPES("codegen", "falcon", "gpt_neox", "gpt_neox_japanese", "gptj", "jais2", "nemotron", "persimmon", "phi",
           "stablelm", "starcoder2")},
    {"has LayerNorm without a gain, which is not computed", TYPES("olmo")},
    {"has LayerNorm and projections under keys and names of its own, which are not read",
     TYPES("modernbert-decoder")},
    {"has an MLP without a gate, which is not computed", TYPES("apertus", "apertus1p5_text", "arcee", "nanochat")},
    {"rotates neighbouring channels of a head, which is read of other types only", TYPES("helium")},
    {"multiplies embeddings, the residual stream or the logits by factors, which are read of other types only",
     TYPES("hyperclovax", "minicpm")},
    {"runs its layers several times, which is not computed", TYPES("dory", "hrm_text")},
    {"has norms of queries and keys behind the rotation, which are not computed", TYPES("hunyuan_v1_dense")},
    {"has layers with a window that its layer_types name, which are read of other types only", TYPES("cwm")},
    {"has norms within its projections and ternary weights, which are not computed", TYPES("bitnet")},
    {"subtracts one attention from another, which is not computed", TYPES("diffllama")},
    {"has layers of several shapes, and some without attention, which are not computed", TYPES("nemotron-nas")},
    {"has embeddings of each layer and sparse activations, which are not computed",
     TYPES("diffusion_gemma", "diffusion_gemma_text", "gemma3n", "gemma3n_text")},
    {"is a Gemma 4 under another name, which is not read", TYPES("gemma4_unified", "gemma4_unified_text")},
    {"drafts for another model, whose hidden states or keys and values it reads, which is not computed",
     TYPES("gemma4_assistant", "gemma4_unified_assistant", "muse_glimmer_assistant")},
    {"is made of patches of bytes, by an encoder and a decoder of its own, which are not computed",
     TYPES("blt", "blt_global_transformer", "blt_local_decoder", "blt_local_encoder", "blt_patcher")},
    {"is a Llama under keys and defaults of its own, which are not read", TYPES("exaone", "iquestcoder")},
    {"is a model whose code is kept beside its weights, under keys and names of tensors of its own, which are not "
     "read",
     TYPES("aquila", "baichuan", "chatglm", "decilm", "internlm", "internlm2", "orion", "qwen", "xverse")},
    {"is a multimodal model (images or sound beside text) whose language model is not read",
     TYPES("*_ocr*", "*multimodal*", "blip*", "chameleon*", "cohere_compass_text", "deepseek_vl*",
           "falcon_perception", "fuyu", "glm46v", "glm4v", "glm4v_text", "granite*_docling", "hunyuan_vl*",
           "idefics*", "instructblip*", "internvl_chat", "kosmos*", "llava_next_video", "locateanything",
           "minicpmv*", "molmo*", "ovis2", "qwen2_5_omni*", "qwen3_asr", "video_llama_3", "video_llava",
           "voxtral*")},
    {"is an encoder, a model of images or sound, or a part of a larger model, which is not computed by itself",
     TYPES("*audio*", "*bert*", "ernie", "xlm", "*clip*", "*decoder*", "*encoder*", "*_text_model", "*vision*",
           "*vit*", "bart", "mimi", "pixtral", "t5*", "wav2vec2*", "whisper")},
    {0},
};

const char *const family_activations[] = {"silu", "gelu_pytorch_tanh", NULL};
const char *const family_layer_types[] = {"full_attention", "sliding_attention", NULL};

double family_query_scale(const struct layer_kind *kind, double scalar)
{
    return scalar == (double)kind->head_dim ? 0 : sqrt((double)kind->head_dim / scalar);
}

double family_query_scalar(const struct layer_kind *kind)
{
    double scale = kind->query_scale > 0 ? kind->query_scale : 1;
    return (double)kind->head_dim / (scale * scale);
}

double family_score_scale(double factor, double mscale_all_dim)
{
    double scale = 1 + mscale_all_dim * (rope_yarn_gain(factor) - 1);
    return scale == 1 ? 0 : scale * scale;
}

double family_mscale_all_dim(const struct layer_kind *kind)
{
    return kind->query_scale > 0 ? (sqrt(kind->query_scale) - 1) / (rope_yarn_gain(kind->rope_scaling.factor) - 1)
                                 : 0;
}

const char *family_unread(const char *model_type)
{
    for (const struct unread_family *family = unread_families; family->why; family++)
        for (const char *const *type = family->model_types; *type; type++)
            if (fnmatch(*type, model_type, 0) == 0)
                return family->why;
    return NULL;
}
