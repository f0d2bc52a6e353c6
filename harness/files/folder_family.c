#include "harness/files/folder_family.h"
#include <math.h>

const struct family families[] = {
    {"llama", "LlamaForCausalLM", .norm_epsilon = 1e-6, .rope_theta = 10000, .max_context = 2048},
    {"mistral", "MistralForCausalLM", .kv_heads = 8, .norm_epsilon = 1e-6, .rope_theta = 10000,
     .sliding = SLIDING_ALL, .max_context = 131072},
    // Written as one of those above, which compute the same.
    {"phi3", "Phi3ForCausalLM", .kv_heads = 32, .norm_epsilon = 1e-5, .rope_theta = 10000, .sliding = SLIDING_GIVEN,
     .max_context = 4096},
    {"qwen2", "Qwen2ForCausalLM", .qkv_bias = true, .kv_heads = 32, .norm_epsilon = 1e-6, .rope_theta = 10000,
     .sliding = SLIDING_SOME, .max_context = 32768},
    {"qwen3", "Qwen3ForCausalLM", .qk_norm = true, .kv_heads = 32, .head_dim = 128, .norm_epsilon = 1e-6,
     .rope_theta = 10000, .sliding = SLIDING_SOME, .max_context = 32768},
    {"olmo2", "Olmo2ForCausalLM", .qk_norm = true, .whole_qk_norm = true, .norms = NORMS_AFTER,
     .norm_epsilon = 1e-5, .rope_theta = 10000, .max_context = 2048},
    {"gemma", "GemmaForCausalLM", .unit_offset = true, .tied = true, .activation = ACTIVATION_GELU_TANH,
     .scales_embedding = true, .kv_heads = 16, .head_dim = 256, .norm_epsilon = 1e-6, .rope_theta = 10000,
     .max_context = 8192},
    {"gemma3_text", "Gemma3ForCausalLM", .qk_norm = true, .unit_offset = true, .tied = true, .norms = NORMS_AROUND,
     .activation_key = "hidden_activation", .activation = ACTIVATION_GELU_TANH, .scales_embedding = true,
     .scales_queries = true, .kv_heads = 4, .head_dim = 256, .norm_epsilon = 1e-6, .rope_theta = 1e6,
     .local_rope_theta = 10000, .local_rope_key = "rope_local_base_freq", .sliding = SLIDING_PATTERN,
     .full_each = 6, .max_context = 131072},
    {"olmo3", "Olmo3ForCausalLM", .qk_norm = true, .whole_qk_norm = true, .norms = NORMS_AFTER,
     .norm_epsilon = 1e-5, .rope_theta = 5e5, .local_rope_theta = 5e5, .sliding = SLIDING_PATTERN, .full_each = 4,
     .max_context = 2048},
    {0},
};

const struct unread_family unread_families[] = {
    {"gemma2", "caps the scores of attention by a tanh (attn_logit_softcapping), which attention's kernels do not"},
    {"gemma3", "is a model of text and images; save its language model alone, of model_type gemma3_text"},
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
