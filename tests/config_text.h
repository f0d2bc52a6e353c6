// Config texts: config.json of small models of each family, to which a test adds keys, and what is read of them.
#pragma once
#include "harness/folder/folder.h"
#include "tests/scratch.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define SIZES                                                                                                      \
    "\"hidden_size\": 32, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"intermediate_size\": 48, "       \
    "\"vocab_size\": 64"
#define LLAMA       "{\"model_type\": \"llama\", " SIZES
#define QWEN2       "{\"model_type\": \"qwen2\", \"num_key_value_heads\": 2, " SIZES
#define QWEN3       "{\"model_type\": \"qwen3\", \"num_key_value_heads\": 2, " SIZES
#define OLMO3       "{\"model_type\": \"olmo3\", " SIZES
#define MINISTRAL3  "{\"model_type\": \"ministral3\", \"num_key_value_heads\": 2, " SIZES
#define INTERNLM3   "{\"model_type\": \"internlm3\", " SIZES
#define OLMO2       "{\"model_type\": \"olmo2\", " SIZES
#define OLMO_HYBRID "{\"model_type\": \"olmo_hybrid\", " SIZES
#define GEMMA       "{\"model_type\": \"gemma\", \"num_key_value_heads\": 1, \"head_dim\": 16, " SIZES
#define GEMMA2      "{\"model_type\": \"gemma2\", \"num_key_value_heads\": 2, \"head_dim\": 16, " SIZES
#define GEMMA3      "{\"model_type\": \"gemma3_text\", \"num_key_value_heads\": 2, \"head_dim\": 16, " SIZES
#define GRANITE_SWA "{\"model_type\": \"granite_swa\", \"num_key_value_heads\": 2, " SIZES
#define PHI3        "{\"model_type\": \"phi3\", \"num_key_value_heads\": 2, " SIZES
#define SMOLLM3     "{\"model_type\": \"smollm3\", \"num_key_value_heads\": 2, " SIZES
#define EXAONE4     "{\"model_type\": \"exaone4\", \"num_key_value_heads\": 2, " SIZES
#define COHERE2     "{\"model_type\": \"cohere2\", \"num_key_value_heads\": 2, " SIZES
#define GEMMA4                                                                                                     \
    "{\"model_type\": \"gemma4_text\", \"num_key_value_heads\": 2, \"head_dim\": 16, \"global_head_dim\": 24, "    \
    "\"hidden_size_per_layer_input\": 0, " SIZES
#define MISTRAL "{\"model_type\": \"mistral\", \"num_key_value_heads\": 2, " SIZES
#define DEEPSEEK_V3                                                                                                \
    "{\"model_type\": \"deepseek_v3\", \"num_key_value_heads\": 4, \"first_k_dense_replace\": 2, " SIZES
#define LLAMA3                                                                                                     \
    "{\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4, "             \
    "\"original_max_position_embeddings\": 8192"

static inline bool read_config(const struct scratch *scratch, const char *json, struct config *config,
                               struct status *status)
{
    scratch_file(scratch, "config.json", json, strlen(json));
    return folder_read_config(scratch->folder, config, status);
}

static inline struct config config_of(const struct scratch *scratch, const char *json)
{
    struct config config;
    struct status status = {0};
    if (!read_config(scratch, json, &config, &status))
        fail_msg("%s\n%s", json, status.message);
    return config;
}

// Writing and reading gives the same shape.
static inline void expect_same_again(const struct scratch *scratch, const struct config *c)
{
    struct config again;
    struct status status = {0};
    if (!folder_write_config(scratch->folder, c, DTYPE_F32, &status) ||
        !folder_read_config(scratch->folder, &again, &status))
        fail_msg("%s", status.message);
    for (size_t k = 0; k < CONFIG_KINDS; k++) {
        double *scale = &again.kinds[k].query_scale;
        if (!config_has_kind(c, k)) {
            again.kinds[k] = c->kinds[k];
            continue;
        }
        assert_true(fabs(*scale - c->kinds[k].query_scale) < 1e-12);
        *scale = c->kinds[k].query_scale;
    }
    assert_memory_equal(&again, c, sizeof again);
}
