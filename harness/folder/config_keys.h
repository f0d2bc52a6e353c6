// Config keys: of each family the keys of config.json that transformers reads, and what becomes of them here.
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
    KEYS_ALL = 1023
};

// A key is read; or it changes nothing that is computed; or it is refused, unless its value is the one that does
// not.
enum key_use { KEY_READ, KEY_HARMLESS, KEY_REFUSED };
// Values of a refused key that change nothing. NEUTRAL_FULL: a list of "full_attention" alone. null is one of them
// everywhere but in NEUTRAL_TRUE.
enum key_neutral { NEUTRAL_NULL, NEUTRAL_FALSE, NEUTRAL_TRUE, NEUTRAL_ZERO, NEUTRAL_ONE, NEUTRAL_FULL };

struct config_key {
    unsigned sets; // of enum key_set
    enum key_use use;
    const char *const *names; // ending in NULL
    enum key_neutral neutral;
    const char *why; // it changes nothing, or is refused; NULL: it is read by transformers in other families alone
};
// Ending with NULL names.
extern const struct config_key config_keys[];

// The key's value; null counts as left out, as it does in transformers.
struct json_field config_key_of(struct json_field object, const char *key);
// NULL: nothing is known of such a key in these families. transformers does not read it then, and it is passed
// over.
const struct config_key *config_key_find(enum key_set set, const char *name);
// Refuses what is to be refused among the keys of `root`. model_type: as messages name the family.
bool config_keys_check(struct json_field root, enum key_set set, const char *model_type, struct status *status);
