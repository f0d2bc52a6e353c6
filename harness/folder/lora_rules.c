#include "harness/folder/lora_rules.h"
#include <stdlib.h>

void lora_rules_free(struct lora_rules *rules)
{
    for (size_t i = 0; i < rules->count; i++)
        python_pattern_free(&rules->items[i].pattern);
    free(rules->items);
}

bool lora_rules_add(struct lora_rules *rules, struct json_field field, const char *text, const char *after,
                    struct lora_factors gives, struct status *status)
{
    struct status why = {0};
    rules->items = realloc(rules->items, (rules->count + 1) * sizeof *rules->items);
    struct lora_rule *rule = &rules->items[rules->count];
    *rule = (struct lora_rule){.field = field, .gives = gives};
    if (!python_pattern_compile(&rule->pattern, "^(.*\\.)?", text, after, &why))
        return json_field_fail(field, status, "%s", why.message);
    rules->count++;
    return true;
}

bool lora_rules_find(const struct lora_rules *rules, const char *name, bool strict, struct lora_rule **found,
                     struct status *status)
{
    *found = NULL;
    for (size_t i = 0; i < rules->count; i++) {
        struct lora_rule *rule = &rules->items[i];
        if ((*found && !strict) || !python_pattern_matches(&rule->pattern, name))
            continue;
        if (*found && ((*found)->gives.rank != rule->gives.rank || (*found)->gives.alpha != rule->gives.alpha))
            return json_field_fail(rule->field, status, "and another pattern give %s two values", name);
        *found = *found ? *found : rule;
        rule->used = true;
    }
    return true;
}

bool lora_rules_check_used(const struct lora_rules *rules, struct status *status)
{
    for (size_t i = 0; i < rules->count; i++)
        if (!rules->items[i].used)
            return json_field_fail(rules->items[i].field, status, "matches no module that has factors");
    return true;
}
