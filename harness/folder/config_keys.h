// Config keys: the keys of config.json that transformers reads for each family, and how they are treated here.
#pragma once
#include "harness/json/json_field.h"
#include <stdint.h>

// The families that have the same keys, a bit each.
typedef uint64_t key_set;
#define KEYS_LLAMA         ((key_set)1 << 0)
#define KEYS_MISTRAL       ((key_set)1 << 1)
#define KEYS_MINISTRAL     ((key_set)1 << 2)
#define KEYS_PHI3          ((key_set)1 << 3)
#define KEYS_QWEN2         ((key_set)1 << 4)
#define KEYS_QWEN3         ((key_set)1 << 5)
#define KEYS_OLMO2         ((key_set)1 << 6)
#define KEYS_GEMMA         ((key_set)1 << 7)
#define KEYS_GEMMA3        ((key_set)1 << 8)
#define KEYS_OLMO3         ((key_set)1 << 9)
#define KEYS_GEMMA2        ((key_set)1 << 10)
#define KEYS_GRANITE_SWA   ((key_set)1 << 11)
#define KEYS_SMOLLM3       ((key_set)1 << 12)
#define KEYS_EXAONE4       ((key_set)1 << 13)
#define KEYS_GLM           ((key_set)1 << 14)
#define KEYS_SEED_OSS      ((key_set)1 << 15)
#define KEYS_ERNIE4_5      ((key_set)1 << 16)
#define KEYS_GRANITE       ((key_set)1 << 17)
#define KEYS_QWEN3_5       ((key_set)1 << 18)
#define KEYS_DEEPSEEK_V2   ((key_set)1 << 19)
#define KEYS_DEEPSEEK_V3   ((key_set)1 << 20)
#define KEYS_YOUTU         ((key_set)1 << 21)
#define KEYS_GLM4_MOE_LITE ((key_set)1 << 22)
#define KEYS_KIMI_LINEAR   ((key_set)1 << 23)
#define KEYS_MINICPM3      ((key_set)1 << 24)
#define KEYS_MINISTRAL3    ((key_set)1 << 25)
#define KEYS_INTERNLM3     ((key_set)1 << 26)
#define KEYS_COHERE        ((key_set)1 << 27)
#define KEYS_COHERE2       ((key_set)1 << 28)
#define KEYS_GEMMA4        ((key_set)1 << 29)
#define KEYS_MIXTRAL       ((key_set)1 << 30)
#define KEYS_QWEN3_MOE     ((key_set)1 << 31)
#define KEYS_QWEN2_MOE     ((key_set)1 << 32)
#define KEYS_OLMOE         ((key_set)1 << 33)
#define KEYS_GPT_OSS       ((key_set)1 << 34)
#define KEYS_GLM4_MOE      ((key_set)1 << 35)
#define KEYS_MINIMAX_M2    ((key_set)1 << 36)
#define KEYS_QWEN3_NEXT    ((key_set)1 << 37)
#define KEYS_QWEN3_5_MOE   ((key_set)1 << 38)
#define KEYS_GRANITEMOE    ((key_set)1 << 39)
#define KEYS_ERNIE4_5_MOE  ((key_set)1 << 40)
#define KEYS_DOTS1         ((key_set)1 << 41)
#define KEYS_OLMO_HYBRID   ((key_set)1 << 42)
#define KEYS_ALL           (((key_set)1 << 43) - 1)

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
    key_set sets;
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
const struct config_key *config_key_find(key_set set, const char *name);
// Refuses refused keys of `root`. model_type: the family's name in messages.
bool config_keys_check(struct json_field root, key_set set, const char *model_type, struct status *status);
