#include "kernels/model/config.h"
#include "kernels/model/router_losses.h"
#include <math.h>
#include <string.h>
#include <strings.h>

const char *const norms_names[] = {"before", "after", "around", NULL};
const char *const activation_names[] = {"silu", "gelu-tanh", NULL};
const char *const router_names[] = {"softmax", "sigmoid", NULL};
const char *const router_loss_names[] = {"global", "layer", "sequence", NULL};
const char *const router_counts_names[] = {"step", "cell", NULL};
const char *const rope_names[] = {"halves", "interleaved", "none", "proportional", NULL};
// layers, width, heads, kv_heads, head_dim, ffn, vocab
#define SIZES(l, d, h, g, D, f, v) .layers = l, .width = d, HEADS(0, h, g, D), .ffn = f, .vocab = v
#define HEADS(k, h, g, D)          .kinds[k].heads = h, .kinds[k].kv_heads = g, .kinds[k].head_dim = D
#define CONSTANTS(theta, epsilon, context)                                                                         \
    .kinds[0].rope_theta = theta, .norm_epsilon = epsilon, .max_context = context
// Layers 1, 3 .. 41.
#define EACH_SECOND                                                                                                \
    0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, \
        1, 0, 1, 0, 1
// Every sixth layer, of 26, 34 and 62, has no window.
#define FULL_26 [5] = 1, [11] = 1, [17] = 1, [23] = 1
#define FULL_34 FULL_26, [29] = 1
#define FULL_62 FULL_34, [35] = 1, [41] = 1, [47] = 1, [53] = 1, [59] = 1

// Each second of 24 layers.
#define SECOND_24                                                                                                  \
    [1] = 1, [3] = 1, [5] = 1, [7] = 1, [9] = 1, [11] = 1, [13] = 1, [15] = 1, [17] = 1, [19] = 1, [21] = 1,       \
    [23] = 1

// Each fourth of 36 layers.
#define FOURTH_36 [3] = 1, [7] = 1, [11] = 1, [15] = 1, [19] = 1, [23] = 1, [27] = 1, [31] = 1, [35] = 1

// Layers of Gated DeltaNet: value and key heads, and their lengths; three of each four layers.
#define DELTA(h, g, k, v)                                                                                          \
    .kinds[CONFIG_DELTA] = {                                                                                       \
        .mixer = MIXER_DELTA, .heads = h, .kv_heads = g, .head_dim = k, .value_dim = v, .gate_epsilon = 1e-6}
#define THREE(l) [l] = CONFIG_DELTA, [l + 1] = CONFIG_DELTA, [l + 2] = CONFIG_DELTA
#define DELTA_32 THREE(0), THREE(4), THREE(8), THREE(12), THREE(16), THREE(20), THREE(24), THREE(28)
#define DELTA_40 DELTA_32, THREE(32), THREE(36)
#define DELTA_64 DELTA_32, THREE(32), THREE(36), THREE(40), THREE(44), THREE(48), THREE(52), THREE(56), THREE(60)

// Latent attention: ranks of queries, and of keys and values; numbers of a key that heads share; of a value.
#define LATENT(q, kv, shared, value)                                                                               \
    .kinds[0].mixer = MIXER_LATENT, .kinds[0].q_rank = q, .kinds[0].kv_rank = kv, .kinds[0].rotary = shared,       \
    .kinds[0].value_dim = value

// Experts in layers of kind 0: their number, those of a token, width; normalised or not; the weights' factor.
#define SCALED_EXPERTS(e, k, f, sums, s)                                                                           \
    .kinds[0].mlp = MLP_EXPERTS, .experts.routing.experts = e, .experts.routing.chosen = k,                        \
    .experts.routing.normalised = sums, .experts.routing.scale = s, .experts.width = f
#define EXPERTS(e, k, f, sums) SCALED_EXPERTS(e, k, f, sums, 1)

// DeepSeek-V3's attention, in layers with experts and without.
#define DEEPSEEK(k)                                                                                                \
    .kinds[k].mixer = MIXER_LATENT, .kinds[k].q_rank = 1536, .kinds[k].kv_rank = 512, .kinds[k].rotary = 64,       \
    .kinds[k].value_dim = 128, .kinds[k].rope = ROPE_INTERLEAVED, .kinds[k].query_scale = 1.8738542070926265,      \
    .kinds[k].rope_scaling = {.factor = 40,                                                                        \
                              .low_freq_factor = 1,                                                                \
                              .high_freq_factor = 32,                                                              \
                              .original_context = 4096,                                                            \
                              .attention_factor = 1}
// gpt-oss: windows in every second layer, the lowest too.
#define GPT_OSS_ROPE                                                                                               \
    {                                                                                                              \
        .factor = 32, .low_freq_factor = 1, .high_freq_factor = 32, .original_context = 4096,                      \
        .attention_factor = 1.3465735902799727, .untruncated = true                                                \
    }
#define GPT_OSS(e)                                                                                                 \
    CONSTANTS(150000, 1e-5, 131072), EXPERTS(e, 4, 2880, true),                                                    \
        .experts.router_bias = true, .experts.bias = true, .experts.alpha = 1.702, .experts.limit = 7,             \
        .kinds[0].window = 128, .kinds[0].sinks = true, .kinds[0].rope_scaling = GPT_OSS_ROPE,                     \
        HEADS(1, 64, 8, 64), .kinds[1].mlp = MLP_EXPERTS, .kinds[1].sinks = true, .kinds[1].rope_theta = 150000,   \
        .kinds[1].rope_scaling = GPT_OSS_ROPE, .qkv_bias = true, .o_bias = true
#define BY_SIGMOID                                                                                                 \
    .experts.routing.score = ROUTER_SIGMOID, .experts.routing.added = 1e-20, .experts.correction_bias = true

// Shapes as published in each model's config.json; `tiny` is ours, for tests and experiments on a laptop.
const struct config config_presets[] = {
    {.name = "tiny", SIZES(4, 128, 4, 2, 32, 352, 256), CONSTANTS(10000, 1e-5, 131072)},
    {.name = "llama-3-8b", SIZES(32, 4096, 32, 8, 128, 14336, 128256), CONSTANTS(500000, 1e-5, 8192)},
    {.name = "llama-3-70b", SIZES(80, 8192, 64, 8, 128, 28672, 128256), CONSTANTS(500000, 1e-5, 8192)},
    {.name = "llama-3.1-8b",
     SIZES(32, 4096, 32, 8, 128, 14336, 128256),
     CONSTANTS(500000, 1e-5, 131072),
     .kinds[0].rope_scaling = {.factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 8192}},
    {.name = "mistral-large-2", SIZES(88, 12288, 96, 8, 128, 28672, 32768), CONSTANTS(1000000, 1e-5, 131072)},
    {.name = "llama-3.2-1b",
     SIZES(16, 2048, 32, 8, 64, 8192, 128256),
     CONSTANTS(500000, 1e-5, 131072),
     .tied = true,
     .kinds[0]
         .rope_scaling = {.factor = 32, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 8192}},
    {.name = "mistral-7b",
     SIZES(32, 4096, 32, 8, 128, 14336, 32000),
     CONSTANTS(10000, 1e-5, 32768),
     .kinds[0].window = 4096},
    {.name = "phi-3-mini",
     SIZES(32, 3072, 32, 32, 96, 8192, 32064),
     CONSTANTS(10000, 1e-5, 4096),
     .kinds[0].window = 2047},
    {.name = "qwen2.5-0.5b",
     SIZES(24, 896, 14, 2, 64, 4864, 151936),
     CONSTANTS(1000000, 1e-6, 32768),
     .tied = true,
     .qkv_bias = true},
    {.name = "qwen2.5-7b",
     SIZES(28, 3584, 28, 4, 128, 18944, 152064),
     CONSTANTS(1000000, 1e-6, 131072),
     .qkv_bias = true},
    {.name = "qwen3-0.6b",
     SIZES(28, 1024, 16, 8, 128, 3072, 151936),
     CONSTANTS(1000000, 1e-6, 40960),
     .tied = true,
     .qk_norm = true},
    {.name = "qwen3-4b",
     SIZES(36, 2560, 32, 8, 128, 9728, 151936),
     CONSTANTS(1000000, 1e-6, 40960),
     .tied = true,
     .qk_norm = true},
    {.name = "qwen3-8b",
     SIZES(36, 4096, 32, 8, 128, 12288, 151936),
     CONSTANTS(1000000, 1e-6, 40960),
     .qk_norm = true},
    {.name = "qwen3-14b",
     SIZES(40, 5120, 40, 8, 128, 17408, 151936),
     CONSTANTS(1000000, 1e-6, 40960),
     .qk_norm = true},
    {.name = "qwen3-32b",
     SIZES(64, 5120, 64, 8, 128, 25600, 151936),
     CONSTANTS(1000000, 1e-6, 40960),
     .qk_norm = true},
    {.name = "olmo-2-7b",
     SIZES(32, 4096, 32, 32, 128, 11008, 100352),
     CONSTANTS(500000, 1e-6, 4096),
     .qk_norm = true,
     .whole_qk_norm = true,
     .norms = NORMS_AFTER},
    {.name = "gemma-2-9b",
     SIZES(42, 3584, 16, 8, 256, 14336, 256000),
     CONSTANTS(10000, 1e-6, 8192),
     .tied = true,
     .unit_offset = true,
     .norms = NORMS_AROUND,
     .activation = ACTIVATION_GELU_TANH,
     .embedding_scale = 59.86651818838306, // sqrt(3584)
     .logit_cap = 30,
     .kinds[0].cap = 50,
     .kinds[0].window = 4096,
     HEADS(1, 16, 8, 256),
     .kinds[1].rope_theta = 10000,
     .kinds[1].cap = 50,
     .kind_of = {EACH_SECOND}},
    {.name = "gemma-3-1b",
     SIZES(26, 1152, 4, 1, 256, 6912, 262144),
     CONSTANTS(10000, 1e-6, 32768),
     .tied = true,
     .qk_norm = true,
     .unit_offset = true,
     .norms = NORMS_AROUND,
     .activation = ACTIVATION_GELU_TANH,
     .embedding_scale = 33.94112549695428, // sqrt(1152)
     .kinds[0].window = 512,
     HEADS(1, 4, 1, 256),
     .kinds[1].rope_theta = 1000000,
     .kind_of = {FULL_26}},
    {.name = "gemma-3-4b",
     SIZES(34, 2560, 8, 4, 256, 10240, 262208),
     CONSTANTS(10000, 1e-6, 131072),
     .tied = true,
     .qk_norm = true,
     .unit_offset = true,
     .norms = NORMS_AROUND,
     .activation = ACTIVATION_GELU_TANH,
     .embedding_scale = 50.59644256269407, // sqrt(2560)
     .kinds[0].window = 1024,
     HEADS(1, 8, 4, 256),
     .kinds[1].rope_theta = 1000000,
     .kinds[1].rope_scaling = {.factor = 8},
     .kind_of = {FULL_34}},
    {.name = "gemma-3-27b",
     SIZES(62, 5376, 32, 16, 128, 21504, 262208),
     CONSTANTS(10000, 1e-6, 131072),
     .tied = true,
     .qk_norm = true,
     .unit_offset = true,
     .norms = NORMS_AROUND,
     .activation = ACTIVATION_GELU_TANH,
     .embedding_scale = 73.32121111929344, // sqrt(5376)
     .kinds[0].window = 1024,
     HEADS(1, 32, 16, 128),
     .kinds[1].rope_theta = 1000000,
     .kinds[1].rope_scaling = {.factor = 8},
     .kinds[0].query_scale = 0.8728715609439694, // sqrt(128 / 168)
     .kinds[1].query_scale = 0.8728715609439694,
     .kind_of = {FULL_62}},
    {.name = "gemma-4-31b",
     SIZES(60, 5376, 32, 16, 256, 21504, 262144),
     CONSTANTS(10000, 1e-6, 262144),
     .tied = true,
     .qk_norm = true,
     .layer_scalars = true,
     .norms = NORMS_AROUND,
     .activation = ACTIVATION_GELU_TANH,
     .embedding_scale = 73.32121111929344, // sqrt(5376)
     .logit_cap = 30,
     .kinds[0].window = 1024,
     .kinds[0].v_norm = true,
     .kinds[0].query_scale = 16,
     HEADS(1, 32, 4, 512),
     .kinds[1].rope = ROPE_PROPORTIONAL,
     .kinds[1].rotary = 128,
     .kinds[1].rope_theta = 1000000,
     .kinds[1].v_norm = true,
     .kinds[1].k_is_v = true,
     .kinds[1].query_scale = 22.627416997969522, // sqrt(512)
     .kind_of = {FULL_62}},
    {.name = "smollm3-3b",
     SIZES(36, 2048, 16, 4, 128, 11008, 128256),
     CONSTANTS(5000000, 1e-6, 65536),
     .tied = true,
     HEADS(1, 16, 4, 128),
     .kinds[1].rope = ROPE_NONE,
     .kinds[1].rope_theta = 5000000,
     .kind_of = {FOURTH_36}},
    {.name = "qwen3.5-9b",
     SIZES(32, 4096, 16, 4, 256, 12288, 248320),
     CONSTANTS(10000000, 1e-6, 262144),
     .kinds[0].rotary = 64,
     .kinds[0].gated = true,
     DELTA(32, 16, 128, 128),
     .kind_of = {DELTA_32},
     .qk_norm = true,
     .unit_offset = true},
    {.name = "qwen3.5-27b",
     SIZES(64, 5120, 24, 4, 256, 17408, 248320),
     CONSTANTS(10000000, 1e-6, 262144),
     .kinds[0].rotary = 64,
     .kinds[0].gated = true,
     DELTA(48, 16, 128, 128),
     .kind_of = {DELTA_64},
     .qk_norm = true,
     .unit_offset = true},
    {.name = "qwen3-30b-a3b",
     SIZES(48, 2048, 32, 4, 128, 6144, 151936),
     CONSTANTS(1000000, 1e-6, 40960),
     EXPERTS(128, 8, 768, true),
     .qk_norm = true},
    {.name = "qwen3-235b-a22b",
     SIZES(94, 4096, 64, 4, 128, 12288, 151936),
     CONSTANTS(1000000, 1e-6, 40960),
     EXPERTS(128, 8, 1536, true),
     .qk_norm = true},
    {.name = "mixtral-8x7b",
     SIZES(32, 4096, 32, 8, 128, 14336, 32000),
     CONSTANTS(1000000, 1e-5, 32768),
     EXPERTS(8, 2, 14336, true)},
    {.name = "olmoe-7b",
     SIZES(16, 2048, 16, 16, 128, 1024, 50304),
     CONSTANTS(10000, 1e-5, 4096),
     EXPERTS(64, 8, 1024, false),
     .qk_norm = true,
     .whole_qk_norm = true},
    {.name = "qwen3.5-35b-a3b",
     SIZES(40, 2048, 16, 2, 256, 0, 248320),
     CONSTANTS(10000000, 1e-6, 262144),
     .kinds[0].rotary = 64,
     .kinds[0].gated = true,
     DELTA(32, 16, 128, 128),
     .kinds[CONFIG_DELTA].mlp = MLP_EXPERTS,
     .kind_of = {DELTA_40},
     EXPERTS(256, 8, 512, true),
     .experts.shared_width = 512,
     .experts.shared_gated = true,
     .qk_norm = true,
     .unit_offset = true},
    {.name = "deepseek-v3",
     SIZES(61, 7168, 128, 128, 192, 18432, 129280),
     CONSTANTS(10000, 1e-6, 163840),
     DEEPSEEK(0),
     SCALED_EXPERTS(256, 8, 2048, true, 2.5),
     BY_SIGMOID,
     .experts.routing.groups = 8,
     .experts.routing.top_groups = 4,
     .experts.routing.group_best = 2,
     .experts.shared_width = 2048,
     HEADS(1, 128, 128, 192),
     .kinds[1].rope_theta = 10000,
     DEEPSEEK(1),
     .kind_of = {1, 1, 1}},
    {.name = "gpt-oss-20b", SIZES(24, 2880, 64, 8, 64, 2880, 201088), GPT_OSS(32), .kind_of = {SECOND_24}},
    {.name = "gpt-oss-120b",
     SIZES(36, 2880, 64, 8, 64, 2880, 201088),
     GPT_OSS(128),
     .kind_of = {SECOND_24, [25] = 1, [27] = 1, [29] = 1, [31] = 1, [33] = 1, [35] = 1}},
    {.name = "glm-4.5-air",
     SIZES(46, 4096, 96, 8, 128, 10944, 151552),
     CONSTANTS(1000000, 1e-5, 131072),
     .kinds[0].rotary = 64,
     EXPERTS(128, 8, 1408, true),
     BY_SIGMOID,
     .experts.shared_width = 1408,
     HEADS(1, 96, 8, 128),
     .kinds[1].rope_theta = 1000000,
     .kinds[1].rotary = 64,
     .kind_of = {1},
     .qkv_bias = true},
    {.name = "youtu-llm-2b",
     SIZES(32, 2048, 16, 16, 192, 6144, 128256),
     CONSTANTS(1600000, 1e-6, 131072),
     LATENT(1536, 512, 64, 128),
     .kinds[0].rope = ROPE_INTERLEAVED,
     .tied = true},
    {.name = ""},
};

// Models of one shape, RoPE and longest context have one preset.
const struct config_alias config_aliases[] = {
    {"meta-llama/Meta-Llama-3-8B", "llama-3-8b"},
    {"meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"},
    {"meta-llama/Meta-Llama-3-70B", "llama-3-70b"},
    {"meta-llama/Meta-Llama-3-70B-Instruct", "llama-3-70b"},
    {"meta-llama/Llama-3.1-8B", "llama-3.1-8b"},
    {"meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"},
    {"meta-llama/Meta-Llama-3.1-8B", "llama-3.1-8b"},
    {"meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"},
    {"meta-llama/Llama-3.2-1B", "llama-3.2-1b"},
    {"meta-llama/Llama-3.2-1B-Instruct", "llama-3.2-1b"},
    {"mistralai/Mistral-7B-v0.1", "mistral-7b"},
    {"mistralai/Mistral-7B-Instruct-v0.1", "mistral-7b"},
    {"mistralai/Mistral-Large-Instruct-2407", "mistral-large-2"},
    {"microsoft/Phi-3-mini-4k-instruct", "phi-3-mini"},
    {"Qwen/Qwen2.5-0.5B", "qwen2.5-0.5b"},
    {"Qwen/Qwen2.5-0.5B-Instruct", "qwen2.5-0.5b"},
    {"Qwen/Qwen2.5-7B", "qwen2.5-7b"},
    {"Qwen/Qwen3-0.6B", "qwen3-0.6b"},
    {"Qwen/Qwen3-4B", "qwen3-4b"},
    {"Qwen/Qwen3-8B", "qwen3-8b"},
    {"Qwen/Qwen3-14B", "qwen3-14b"},
    {"Qwen/Qwen3-32B", "qwen3-32b"},
    {"Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"},
    {"Qwen/Qwen3-235B-A22B", "qwen3-235b-a22b"},
    {"mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"},
    {"mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"},
    {"allenai/OLMoE-1B-7B-0924", "olmoe-7b"},
    {"allenai/OLMoE-1B-7B-0924-Instruct", "olmoe-7b"},
    {"Qwen/Qwen3.5-9B", "qwen3.5-9b"},
    {"Qwen/Qwen3.5-27B", "qwen3.5-27b"},
    {"Qwen/Qwen3.5-35B-A3B", "qwen3.5-35b-a3b"},
    {"deepseek-ai/DeepSeek-R1", "deepseek-v3"},
    {"deepseek-ai/DeepSeek-V3", "deepseek-v3"},
    {"openai/gpt-oss-20b", "gpt-oss-20b"},
    {"openai/gpt-oss-120b", "gpt-oss-120b"},
    {"zai-org/GLM-4.5-Air", "glm-4.5-air"},
    {"allenai/OLMo-2-1124-7B", "olmo-2-7b"},
    {"allenai/OLMo-2-1124-7B-Instruct", "olmo-2-7b"},
    {"google/gemma-2-9b", "gemma-2-9b"},
    {"google/gemma-2-9b-it", "gemma-2-9b"},
    {"google/gemma-3-1b-it", "gemma-3-1b"},
    {"google/gemma-3-1b-pt", "gemma-3-1b"},
    {"google/gemma-3-4b-it", "gemma-3-4b"},
    {"google/gemma-3-4b-pt", "gemma-3-4b"},
    {"google/gemma-3-27b-it", "gemma-3-27b"},
    {"google/gemma-3-27b-pt", "gemma-3-27b"},
    {"tencent/Youtu-LLM-2B", "youtu-llm-2b"},
    {"tencent/Youtu-LLM-2B-Base", "youtu-llm-2b"},
    {"google/gemma-4-31B", "gemma-4-31b"},
    {"google/gemma-4-31B-it", "gemma-4-31b"},
    {"HuggingFaceTB/SmolLM3-3B", "smollm3-3b"},
    {"HuggingFaceTB/SmolLM3-3B-Base", "smollm3-3b"},
    {0},
};

const struct config *config_preset(const char *name)
{
    for (const struct config_alias *alias = config_aliases; alias->hub_name; alias++)
        if (strcasecmp(alias->hub_name, name) == 0)
            name = alias->preset;
    for (const struct config *preset = config_presets; preset->name[0]; preset++)
        if (strcasecmp(preset->name, name) == 0)
            return preset;
    return NULL;
}

bool config_check_size(const char *name, size_t value, size_t max, struct status *status)
{
    return (value >= 1 && value <= max) ||
           status_set(status, STATUS_BAD_INPUT, "%s must be from 1 to %zu, found %zu", name, max, value);
}

bool config_check_number(const char *name, double value, bool positive, struct status *status)
{
    return (value >= 0 && (value > 0 || !positive) && isfinite(value)) ||
           status_set(status, STATUS_BAD_INPUT, "%s must be a positive number, found %g", name, value);
}

static bool check_longrope(const struct config *c, const struct layer_kind *kind, struct status *status)
{
    const struct rope_scaling *r = &kind->rope_scaling;
    size_t pairs = rope_rotary(kind) / 2;
    bool positive =
        r->factor == 1 && r->original_context > 0 && r->attention_factor > 0 && isfinite(r->attention_factor);
    for (size_t j = 0; positive && j < pairs && j < LONGROPE_PAIRS; j++)
        positive = c->short_factors[j] > 0 && isfinite(c->short_factors[j]) && c->long_factors[j] > 0 &&
                   isfinite(c->long_factors[j]);
    return (positive && pairs <= LONGROPE_PAIRS && kind->rope != ROPE_PROPORTIONAL) ||
           status_set(
               status, STATUS_BAD_INPUT,
               "longrope needs an original_context, an attention_factor and a short and a long factor above 0 "
               "for each of at most %d frequencies, which are not proportional",
               LONGROPE_PAIRS);
}

static bool check_dynamic(const struct layer_kind *kind, struct status *status)
{
    const struct rope_scaling *r = &kind->rope_scaling;
    bool whole = r->low_freq_factor == 0 && r->high_freq_factor == 0 && r->attention_factor == 0;
    return (whole && r->factor >= 1 && isfinite(r->factor) && r->original_context > 0 && rope_rotary(kind) != 2 &&
            kind->rope != ROPE_PROPORTIONAL) ||
           status_set(status, STATUS_BAD_INPUT,
                      "dynamic rope_scaling needs factor >= 1, an original_context above 0 and two frequencies or "
                      "more, which are not proportional");
}

static bool check_scaling(const struct rope_scaling *r, struct status *status)
{
    bool linear = r->low_freq_factor == 0 && r->high_freq_factor == 0 && r->attention_factor == 0 &&
                  r->factor >= 1 && isfinite(r->factor);
    bool blended = r->attention_factor >= 0 && isfinite(r->attention_factor) && r->factor >= 1 &&
                   isfinite(r->factor) && r->low_freq_factor > 0 && r->high_freq_factor > r->low_freq_factor &&
                   isfinite(r->high_freq_factor) && r->original_context > 0;
    return r->factor == 0 || linear || blended ||
           status_set(status, STATUS_BAD_INPUT,
                      "rope_scaling needs factor >= 1, 0 < low_freq_factor < high_freq_factor (of yarn "
                      "beta_slow < beta_fast) and an original_context above 0");
}

static bool check_positions(const struct config *c, const struct layer_kind *kind, struct status *status)
{
    const struct position_scale *scale = &kind->position_scale;
    if (scale->length > 0 && !config_check_number("beta of position_scale", scale->beta, true, status))
        return false;
    if (kind->chunked && kind->window == 0)
        return status_set(status, STATUS_BAD_INPUT, "chunked attention needs a window, the length of its chunks");
    return kind->rope_scaling.longrope  ? check_longrope(c, kind, status)
           : kind->rope_scaling.dynamic ? check_dynamic(kind, status)
                                        : check_scaling(&kind->rope_scaling, status);
}

bool config_check_scores(const struct config *c, const struct layer_kind *kind, struct status *status)
{
    if (kind->head_dim % 2 || kind->head_dim > 512) {
        return status_set(status, STATUS_BAD_INPUT, "head_dim must be even and at most 512, found %zu",
                          kind->head_dim);
    }
    if (kind->rotary % 2 || kind->rotary > kind->head_dim) {
        return status_set(status, STATUS_BAD_INPUT, "rotary must be even and at most head_dim, found %zu of %zu",
                          kind->rotary, kind->head_dim);
    }
    const struct rope_scaling *scaling = &kind->rope_scaling;
    if (kind->rope == ROPE_PROPORTIONAL && (scaling->high_freq_factor > 0 || scaling->attention_factor > 0))
        return status_set(status, STATUS_BAD_INPUT, "proportional RoPE takes no rope_scaling but linear");
    return config_check_number("rope_theta", kind->rope_theta, true, status) &&
           config_check_number("query_scale", kind->query_scale, false, status) &&
           config_check_number("attention_cap", kind->cap, false, status) && check_positions(c, kind, status);
}

bool config_has_kind(const struct config *c, size_t kind)
{
    bool found = false;
    for (size_t l = 0; l < c->layers && !found; l++)
        found = config_kind(c, l) == &c->kinds[kind];
    return found;
}

size_t config_max_window(const struct config *c)
{
    size_t max = 0;
    for (size_t l = 0; l < c->layers; l++)
        max = config_kind(c, l)->window > max ? config_kind(c, l)->window : max;
    return max;
}

size_t config_chunk(const struct config *c)
{
    size_t chunk = 0;
    for (size_t l = 0; l < c->layers && chunk == 0; l++)
        chunk = config_kind(c, l)->chunked ? config_kind(c, l)->window : 0;
    return chunk;
}

void config_add_window(struct config *c, size_t window, struct local_layers local)
{
    struct layer_kind *kind = &c->kinds[0];
    if (!config_has_kind(c, 0)) {
        memset(c->kind_of, 0, sizeof c->kind_of);
        return;
    }
    if (config_has_kind(c, 1))
        c->kinds[1] = *kind;
    kind->window = window;
    kind->k_is_v = false;
    if (local.rope_theta > 0) {
        kind->rope_theta = local.rope_theta;
        kind->rope_scaling = (struct rope_scaling){0};
        kind->rotary = kind->rope == ROPE_PROPORTIONAL ? 0 : kind->rotary;
        kind->rope = kind->rope == ROPE_PROPORTIONAL ? ROPE_HALVES : kind->rope;
    }
    if (local.head_dim > 0 && local.head_dim != kind->head_dim) {
        double scale = kind->query_scale > 0 ? kind->query_scale : 1;
        kind->query_scale = scale / sqrt((double)kind->head_dim) * sqrt((double)local.head_dim);
        kind->head_dim = local.head_dim;
    }
    kind->kv_heads = local.kv_heads > 0 ? local.kv_heads : kind->kv_heads;
}

// The first of attention's kinds that no layer has, from `from` on; CONFIG_DELTA: there is none.
static size_t unused_kind(const struct config *c, size_t from)
{
    while (from < CONFIG_DELTA && config_has_kind(c, from))
        from++;
    return from;
}

// Gives these layers kinds of their own, `split`, copied where other layers have the same.
static bool split_kinds(struct config *c, const bool layers[CONFIG_KIND_LAYERS], bool split[CONFIG_KINDS])
{
    size_t to[CONFIG_KINDS], last = c->layers < CONFIG_KIND_LAYERS ? c->layers : CONFIG_KIND_LAYERS, next = 0;
    memset(split, 0, CONFIG_KINDS * sizeof *split);
    for (size_t k = 0; k < CONFIG_KINDS; k++) {
        size_t with = c->layers - last, without = 0; // layers above the last are of kind 0
        with = k > 0 ? 0 : with;
        for (size_t l = 0; l < last; l++)
            *(layers[l] ? &without : &with) += c->kind_of[l] == k;
        to[k] = k;
        if (without > 0 && with > 0) {
            to[k] = next = unused_kind(c, next);
            if (next++ == CONFIG_DELTA)
                return false;
            c->kinds[to[k]] = c->kinds[k];
        }
        if (without > 0)
            split[to[k]] = true;
    }
    for (size_t l = 0; l < last; l++)
        c->kind_of[l] = (uint8_t)(layers[l] ? to[c->kind_of[l]] : c->kind_of[l]);
    return true;
}

bool config_remove_positions(struct config *c, const bool layers[CONFIG_KIND_LAYERS])
{
    bool split[CONFIG_KINDS], ok = split_kinds(c, layers, split);
    for (size_t k = 0; ok && k < CONFIG_KINDS; k++)
        c->kinds[k].rope = split[k] ? ROPE_NONE : c->kinds[k].rope;
    return ok;
}

bool config_set_mlp(struct config *c, const bool layers[CONFIG_KIND_LAYERS], size_t mlp)
{
    bool split[CONFIG_KINDS], ok = split_kinds(c, layers, split);
    for (size_t k = 0; ok && k < CONFIG_KINDS; k++)
        c->kinds[k].mlp = split[k] ? mlp : c->kinds[k].mlp;
    return ok;
}

size_t config_active_width(const struct config *c, size_t layer)
{
    const struct experts *e = &c->experts;
    bool mixed = config_kind(c, layer)->mlp == MLP_EXPERTS && e->routing.experts > 0;
    return mixed ? e->routing.chosen * e->width + e->shared_width : c->ffn;
}

static bool check_groups(const struct routing *r, struct status *status)
{
    if (r->groups == 0)
        return true;
    if (r->groups > ROUTING_GROUPS_MAX || r->experts % r->groups) {
        return status_set(status, STATUS_BAD_INPUT,
                          "expert_groups must be at most %d and divide experts, found %zu of %zu",
                          ROUTING_GROUPS_MAX, r->groups, r->experts);
    }
    size_t size = r->experts / r->groups;
    return config_check_size("top_groups", r->top_groups, r->groups, status) &&
           config_check_size("group_best", r->group_best, size, status) &&
           (r->chosen <= r->top_groups * size ||
            status_set(status, STATUS_BAD_INPUT,
                       "experts_per_token must be at most the experts of top_groups groups, found %zu of %zu",
                       r->chosen, r->top_groups * size));
}

bool config_check_experts(const struct experts *e, struct status *status)
{
    const struct routing *r = &e->routing;
    if (!config_check_size("experts", r->experts, ROUTING_EXPERTS_MAX, status) ||
        !config_check_size("experts_per_token", r->chosen, r->experts, status) ||
        !config_check_size("expert_width", e->width, CONFIG_SIZE_MAX, status) || !check_groups(r, status))
        return false;
    if (e->shared_width > CONFIG_SIZE_MAX)
        return config_check_size("shared_expert_width", e->shared_width, CONFIG_SIZE_MAX, status);
    if (e->shared_gated && e->shared_width == 0)
        return status_set(status, STATUS_BAD_INPUT, "shared_expert_gated requires a shared_expert_width");
    if (e->limit > 0 && e->alpha == 0)
        return status_set(status, STATUS_BAD_INPUT, "swiglu_limit requires a swiglu_alpha");
    if ((r->added > 0 || r->least > 0) && !r->normalised)
        return status_set(status, STATUS_BAD_INPUT, "a sum of chosen scores requires normalised_weights");
    return config_check_number("expert_scale", r->scale, true, status) &&
           config_check_number("score_sum_added", r->added, false, status) &&
           config_check_number("score_sum_least", r->least, false, status) &&
           config_check_number("swiglu_alpha", e->alpha, false, status) &&
           config_check_number("swiglu_limit", e->limit, e->alpha > 0, status);
}

double rope_yarn_gain(double factor)
{
    return 0.1 * log(factor) + 1;
}

double rope_longrope_gain(double factor, size_t original_context)
{
    return factor > 1 ? sqrt(1 + log(factor) / log((double)original_context)) : 1;
}

double rope_gain(const struct layer_kind *kind)
{
    return kind->rope_scaling.attention_factor > 0 ? kind->rope_scaling.attention_factor : 1;
}

size_t rope_rotary(const struct layer_kind *kind)
{
    size_t rotary = kind->rotary > 0 && kind->rope != ROPE_PROPORTIONAL ? kind->rotary : kind->head_dim;
    return kind->rope == ROPE_NONE ? 0 : rotary;
}

// Pairs of a head from this one on have frequency 0.
static size_t turning_pairs(const struct layer_kind *kind)
{
    return kind->rope == ROPE_PROPORTIONAL && kind->rotary > 0 ? kind->rotary / 2 : kind->head_dim;
}

bool rope_is_same(const struct layer_kind *kind, const struct layer_kind *other)
{
    const struct rope_scaling *r = &kind->rope_scaling, *s = &other->rope_scaling;
    return rope_rotary(kind) == rope_rotary(other) && turning_pairs(kind) == turning_pairs(other) &&
           kind->rope_theta == other->rope_theta && r->factor == s->factor &&
           r->low_freq_factor == s->low_freq_factor && r->high_freq_factor == s->high_freq_factor &&
           r->original_context == s->original_context && r->attention_factor == s->attention_factor &&
           r->untruncated == s->untruncated && r->longrope == s->longrope && r->dynamic == s->dynamic;
}

// How much of frequency j is kept where those between are blended: by its turns in the original context.
static double kept_by_turns(const struct rope_scaling *r, double frequency)
{
    double turns = (double)r->original_context * frequency / (2 * M_PI);
    return (turns - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
}

// Likewise in yarn: by its place between the two that turn so often, rounded outwards unless untruncated.
static double kept_by_place(const struct layer_kind *kind, size_t j)
{
    const struct rope_scaling *r = &kind->rope_scaling;
    double places[2], turns[] = {r->high_freq_factor, r->low_freq_factor};
    for (int i = 0; i < 2; i++)
        places[i] = rope_rotary(kind) * log((double)r->original_context / (turns[i] * 2 * M_PI)) /
                    (2 * log(kind->rope_theta));
    for (int i = 0; i < 2 && !r->untruncated; i++)
        places[i] = i ? ceil(places[i]) : floor(places[i]);
    double first = fmax(places[0], 0), last = fmin(places[1], (double)rope_rotary(kind) - 1);
    last += first == last ? 0.001 : 0; // as those who made the models have it
    return 1 - ((double)j - first) / (last - first);
}

// As transformers has it (_compute_dynamic_ntk_parameters), for a model that has seen no longer document.
static double dynamic_theta(const struct layer_kind *kind, size_t context)
{
    const struct rope_scaling *r = &kind->rope_scaling;
    double length = context > r->original_context ? (double)context : (double)r->original_context;
    double share = r->factor * length / (double)r->original_context - (r->factor - 1);
    double rotary = (double)rope_rotary(kind);
    return kind->rope_theta * pow(share, rotary / (rotary - 2));
}

void rope_frequencies(const struct config *config, const struct layer_kind *kind, size_t context,
                      double *frequencies)
{
    const struct rope_scaling *r = &kind->rope_scaling;
    const double *factors = context > r->original_context ? config->long_factors : config->short_factors;
    double theta = r->dynamic ? dynamic_theta(kind, context) : kind->rope_theta;
    size_t rotary = rope_rotary(kind);
    for (size_t j = 0; j < rotary / 2; j++) {
        double frequency = j < turning_pairs(kind) ? pow(theta, -(2.0 * j) / rotary) : 0;
        if (r->longrope) {
            frequency /= factors[j];
        } else if (r->dynamic) {
            // theta says it all
        } else if (r->factor != 0 && r->high_freq_factor == 0) {
            frequency /= r->factor;
        } else if (r->factor != 0) {
            // Long wavelengths are stretched by the factor, short ones kept, those between blended.
            double blend = r->attention_factor > 0 ? kept_by_place(kind, j) : kept_by_turns(r, frequency);
            blend = blend < 0 ? 0 : blend > 1 ? 1 : blend;
            frequency *= blend + (1 - blend) / r->factor;
        }
        frequencies[j] = frequency;
    }
}
