// LoRA rules: patterns of module names and what each gives the modules that it matches, as PEFT's rank_pattern,
// alpha_pattern and modules_to_save have them.
#pragma once
#include "harness/folder/python_pattern.h"
#include "harness/json/json_field.h"
#include "kernels/model/lora.h"

// A pattern of rank_pattern or alpha_pattern and what it gives; or one of modules_to_save.
struct lora_rule {
    struct json_field field;
    struct python_pattern pattern;
    struct lora_factors gives;
    bool used; // a module goes by it
};

struct lora_rules {
    size_t count;
    struct lora_rule *items;
};

// A pattern that a name ends with, behind a dot or whole; after: a POSIX expression of what follows it. False and a
// status that names the field if it is none.
bool lora_rules_add(struct lora_rules *rules, struct json_field field, const char *text, const char *after,
                    struct lora_factors gives, struct status *status);
// The first that the name matches, as PEFT takes it; NULL: none. Two that give it different values are an error
// where that is strict, for there the order of keys is no one's choice.
bool lora_rules_find(const struct lora_rules *rules, const char *name, bool strict, struct lora_rule **found,
                     struct status *status);
// A pattern of a request that no module goes by was meant for one: false and a status.
bool lora_rules_check_used(const struct lora_rules *rules, struct status *status);
void lora_rules_free(struct lora_rules *rules);
