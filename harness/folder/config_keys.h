// Config keys: the keys of config.json that transformers reads for each family, and how they are treated here.
#pragma once
#include "harness/json/json_field.h"

// The families that have the same keys.
enum key_set {
    KEYS_LLAMA = 1,
    KEYS_MISTRAL = 2,
    KEYS_MINISTRAL = 4,
    KEYS_PHI3 = 8,
    KEYS_QWEN2 = 16,
    KEYS_QWEN3 = 32,
    KEYS_OLMO2 = 64,
    KEYS_GEMMA = 128,
    KEYS_GEMMA3 = 256,
    KEYS_OLMO3 = 512,
    KEYS_GEMMA2 = 1024,
    KEYS_GRANITE_SWA = 2048,
    KEYS_SMOLLM3 = 4096,
    KEYS_EXAONE4 = 8192,
    KEYS_GLM = 16384,
    KEYS_SEED_OSS = 32768,
    KEYS_ERNIE4_5 = 65536,
    KEYS_GRANITE = 131072,
    KEYS_QWEN3_5 = 262144,
    KEYS_DEEPSEEK_V2 = 524288,
    KEYS_DEEPSEEK_V3 = 1048576,
    KEYS_YOUTU = 2097152,
    KEYS_GLM4_MOE_LITE = 4194304,
    KEYS_KIMI_LINEAR = 8388608,
    KEYS_MINICPM3 = 16777216,
    KEYS_MINISTRAL3 = 33554432,
    KEYS_INTERNLM3 = 67108864,
    KEYS_COHERE = 134217728,
    KEYS_COHERE2 = 268435456,
    KEYS_GEMMA4 = 536870912,
    KEYS_OLMO_HYBRID = 1073741824,
    KEYS_ALL = 2147483647
};

// A key is read, or does not affect the computation, or is refused unless it has a neutral value.
enum key_use { KEY_READ, KEY_HARMLESS, KEY_REFUSED };
// Neutral values of a refused key. NEUTRAL_FULL: a list of "full_attention" alone. null is neutral too, except for
// NEUTRAL_TRUE and NEUTRAL_GIVEN_ZERO.
enum key_neutral {
    NEUTRAL_NULL,
    NEUTRAL_FALSE,
    NEUTRAL_TRUE,
    NEUTRAL_ZERO,
    NEUTRAL_GIVEN_ZERO,
    NEUTRAL_ONE,
    NEUTRAL_FULL
};

struct config_key {
    unsigned sets; // of enum key_set
    enum key_use use;
    const char *const *names; // ending in NULL
    enum key_neutral neutral;
    const char *why; // why it has no effect or is refused; NULL: transformers reads it for other families only
};
// Ending with NULL names.
extern const struct config_key config_keys[];

// The key's value; null counts as absent, as in transformers.
struct json_field config_key_of(struct json_field object, const char *key);
// NULL: an unknown key in these families. transformers does not read it, so it is ignored.
const struct config_key *config_key_find(enum key_set set, const char *name);
// Refuses refused keys of `root`. model_type: the family's name in messages.
bool config_keys_check(struct json_field root, enum key_set set, const char *model_type, struct status *status);
