#include "harness/files/folder_family.h"
#include <math.h>

const struct family families[] = {
    {"llama", "LlamaForCausalLM", .norm_epsilon = 1e-6, .rope_theta = 10000, .max_context = 2048,
     .sizes = {4096, 32, 32, 11008, 32000}},
    {"mistral", "MistralForCausalLM", .kv_heads = 8, .norm_epsilon = 1e-6, .rope_theta = 10000,
     .sliding = SLIDING_ALL, .max_context = 131072, .sizes = {4096, 32, 32, 14336, 32000}},
    // Written as one of those above, which compute the same.
    {"phi3", "Phi3ForCausalLM", .kv_heads = 32, .norm_epsilon = 1e-5, .rope_theta = 10000, .sliding = SLIDING_GIVEN,
     .max_context = 4096},
    {"qwen2", "Qwen2ForCausalLM", .qkv_bias = true, .kv_heads = 32, .norm_epsilon = 1e-6, .rope_theta = 10000,
     .sliding = SLIDING_SOME, .max_context = 32768, .sizes = {4096, 32, 32, 22016, 151936}},
    {"qwen3", "Qwen3ForCausalLM", .qk_norm = true, .kv_heads = 32, .head_dim = 128, .norm_epsilon = 1e-6,
     .rope_theta = 10000, .sliding = SLIDING_SOME, .max_context = 32768, .sizes = {4096, 32, 32, 22016, 151936}},
    {"olmo2", "Olmo2ForCausalLM", .qk_norm = true, .whole_qk_norm = true, .norms = NORMS_AFTER,
     .norm_epsilon = 1e-5, .rope_theta = 10000, .max_context = 2048},
    {"gemma", "GemmaForCausalLM", .unit_offset = true, .tied = true, .activation = ACTIVATION_GELU_TANH,
     .scales_embedding = true, .kv_heads = 16, .head_dim = 256, .norm_epsilon = 1e-6, .rope_theta = 10000,
     .max_context = 8192, .sizes = {3072, 28, 16, 24576, 256000}},
    {"gemma3_text",
     "Gemma3ForCausalLM",
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
     .max_context = 131072,
     .sizes = {2304, 26, 8, 9216, 262208}},
    {"olmo3", "Olmo3ForCausalLM", .qk_norm = true, .whole_qk_norm = true, .norms = NORMS_AFTER,
     .norm_epsilon = 1e-5, .rope_theta = 5e5, .local_rope_theta = 5e5, .sliding = SLIDING_PATTERN, .full_each = 4,
     .max_context = 2048},
    // Written as Qwen2 and Qwen3, which compute the same.
    {"qwen2_vl_text", "Qwen2ForCausalLM", .qkv_bias = true, .kv_heads = 8, .norm_epsilon = 1e-5, .rope_theta = 1e6,
     .sliding = SLIDING_SOME, .max_context = 32768, .axes = true, .sizes = {8192, 80, 64, 29568, 152064}},
    {"qwen2_5_vl_text", "Qwen2ForCausalLM", .qkv_bias = true, .kv_heads = 8, .norm_epsilon = 1e-5,
     .rope_theta = 1e6, .sliding = SLIDING_SOME, .max_context = 32768, .axes = true,
     .sizes = {8192, 80, 64, 29568, 152064}},
    {"qwen3_vl_text", "Qwen3ForCausalLM", .qk_norm = true, .kv_heads = 32, .head_dim = 128, .norm_epsilon = 1e-6,
     .rope_theta = 5e5, .max_context = 128000, .axes = true, .sizes = {4096, 32, 32, 22016, 151936}},
    {0},
};

const struct composite composites[] = {
    {"gemma3", "gemma3_text", .fixed = true, .tied = true},
    {"llava", "llama", .tied_by_text = true},
    {"llava_next", .text_type = "llama"},
    {"llava_onevision", "qwen2", .tied_by_text = true},
    {"vipllava", .text_type = "llama"},
    {"mistral3", "mistral", .tied = true},
    {"internvl", "qwen2", .tied = true},
    {"idefics3", "llama", .norm_epsilon = 1e-5},
    {"smolvlm", "llama", .norm_epsilon = 1e-5},
    {"qwen2_audio", .text_type = "qwen2"},
    {"qwen2_vl", "qwen2_vl_text", .fixed = true, .flat = true, .tied_by_text = true},
    {"qwen2_5_vl", "qwen2_5_vl_text", .fixed = true, .flat = true, .tied_by_text = true},
    {"qwen3_vl", "qwen3_vl_text", .fixed = true},
    {0},
};

const struct unread_family unread_families[] = {
    {"gemma2", "caps the scores of attention by a tanh (attn_logit_softcapping), which attention's kernels do not"},
    {"paligemma", "lets the tokens of a prompt see later ones, which attention's kernels do not"},
    {"mllama", "has layers of cross-attention to an image, which are not computed"},
    {"olmo", "has norms without a gain, which are not read"},
    {"mixtral", "is a mixture of experts, which are not computed"},
    {"qwen2_moe", "is a mixture of experts, which are not computed"},
    {"qwen3_moe", "is a mixture of experts, which are not computed"},
    {"gpt_oss", "is a mixture of experts, which are not computed"},
    {"gpt2", "has learned positions and norms with a bias, which are not computed"},
    {0},
};

const char *const family_activations[] = {"silu", "gelu_pytorch_tanh", NULL};
const char *const family_layer_types[] = {"full_attention", "sliding_attention", NULL};

double family_query_scale(const struct config *c, double scalar)
{
    return scalar == (double)c->head_dim ? 0 : sqrt((double)c->head_dim / scalar);
}

double family_query_scalar(const struct config *c)
{
    return c->query_scale > 0 ? (double)c->head_dim / (c->query_scale * c->query_scale) : (double)c->head_dim;
}
