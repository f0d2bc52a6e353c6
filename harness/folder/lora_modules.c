#include "harness/folder/lora_modules.h"
#include "harness/folder/adapter_tensors.h"
#include "harness/folder/folder_family.h"
#include "harness/tensors/weight_names.h"
#include "kernels/base/host_memory.h"
#include "kernels/model/model.h"
#include <ctype.h>
#include <math.h>
#include <regex.h>
#include <string.h>

#define ALL_LINEAR "all-linear"
#define NAME_BYTES 112

// --- the regular expressions of Python's re module by which PEFT chooses modules

#define ASCII 128

// A pattern being translated. POSIX has none of Python's escapes, and reads sets by other rules.
struct translation {
    const char *at;
    char *out; // the end of what was written, in room for all
    struct status *status;
    const char *whole;
};

static bool fail(const struct translation *t, const char *what)
{
    return status_set(t->status, STATUS_BAD_INPUT, "%s in the regular expression \"%.200s\"", what, t->whole);
}

// Whether it stands for a class, whose characters are then added.
static bool add_class(bool set[ASCII], char name)
{
    for (int c = 1; c < ASCII; c++) {
        bool in;
        switch (tolower(name)) {
        case 'd':
            in = isdigit(c);
            break;
        case 'w':
            in = isalnum(c) || c == '_';
            break;
        case 's':
            in = isspace(c);
            break;
        default:
            return false;
        }
        set[c] |= in != (isupper(name) != 0);
    }
    return true;
}

// A POSIX set without ranges: in one "]" comes first, "-" last, and "^" not first.
static void write_set(struct translation *t, const bool set[ASCII])
{
    *t->out++ = '[';
    if (set[']'])
        *t->out++ = ']';
    for (int c = 1; c < ASCII; c++)
        if (set[c] && !strchr("]^-", c))
            *t->out++ = (char)c;
    if (set['^']) {
        if (t->out[-1] == '[')
            *t->out++ = '-'; // which no name of a module has
        *t->out++ = '^';
    }
    if (set['-'])
        *t->out++ = '-';
    *t->out++ = ']';
}

// One character of a set, or a class, which has no number: -1; or -2 and a status.
static int read_member(struct translation *t, bool set[ASCII])
{
    int c = (unsigned char)*t->at++;
    if (c == '\\') {
        c = (unsigned char)*t->at;
        if (c && add_class(set, (char)c)) {
            t->at++;
            return -1;
        }
        if (!c || isalnum(c))
            return fail(t, "an escape that is not read"), -2;
        t->at++;
    }
    return c < ASCII ? c : (fail(t, "a character that no name of a module has"), -2);
}

// From behind "[" on.
static bool read_set(struct translation *t)
{
    bool set[ASCII] = {false}, negated = *t->at == '^', any = false;
    t->at += negated;
    for (; *t->at && (*t->at != ']' || !any); any = true) {
        int first = read_member(t, set), last = first;
        if (first >= 0 && t->at[0] == '-' && t->at[1] && t->at[1] != ']') {
            t->at++;
            last = read_member(t, set);
        }
        if (first == -2 || last == -2)
            return false;
        if (last < first)
            return fail(t, "a range that ends before it begins");
        for (int c = first; first > 0 && c <= last; c++)
            set[c] = true;
    }
    if (*t->at++ != ']')
        return fail(t, "a set without an end");
    for (int c = 1; negated && c < ASCII; c++)
        set[c] = !set[c];
    write_set(t, set);
    return true;
}

static bool read_escape(struct translation *t)
{
    bool set[ASCII] = {false};
    char c = *t->at++;
    if (c && add_class(set, c)) {
        write_set(t, set);
    } else if (c == 'A' || c == 'Z') {
        *t->out++ = c == 'A' ? '^' : '$';
    } else if (!c || isalnum((unsigned char)c)) {
        return fail(t, "an escape that is not read");
    } else {
        if (strchr(".[](){}*+?|^$\\", c))
            *t->out++ = '\\';
        *t->out++ = c;
    }
    return true;
}

// From behind "(" on: how a group begins makes no difference to whether a whole name matches.
static bool read_group(struct translation *t)
{
    *t->out++ = '(';
    if (*t->at != '?')
        return true;
    const char *end = strncmp(t->at, "?P<", 3) == 0 ? strchr(t->at, '>') : t->at[1] == ':' ? t->at + 1 : NULL;
    if (!end)
        return fail(t, "a group other than (...), (?:...) and (?P<name>...)");
    t->at = end + 1;
    return true;
}

// From behind a quantifier on.
static bool read_greed(struct translation *t)
{
    if (*t->at == '+')
        return fail(t, "a possessive quantifier");
    t->at += *t->at == '?'; // lazy or not, the same names match
    return !*t->at || !strchr("*+?{", *t->at) || fail(t, "a quantifier of a quantifier");
}

static bool read_one(struct translation *t)
{
    char c = *t->at++;
    if ((unsigned char)c >= ASCII)
        return fail(t, "a character that no name of a module has");
    if (c == '\\')
        return read_escape(t);
    if (c == '[')
        return read_set(t);
    if (c == '(')
        return read_group(t);
    if (strchr("*+?{", c) && strchr("(|^", t->out[-1]))
        return fail(t, "a quantifier without an expression");
    *t->out++ = c;
    return !strchr("*+?}", c) || read_greed(t);
}

// Compiles `before`, the pattern in a group, `after`: both are POSIX extended expressions. Characters, sets,
// classes
// (\d, \w, \s), groups, alternatives and quantifiers are read, as far as they decide what matches and not where.
// False and a message on anything else, such as a look-ahead or a pattern that is none. Release with
// python_pattern_free after a success alone.
static bool python_pattern_compile(regex_t *pattern, const char *before, const char *text, const char *after,
                                   struct status *status)
{
    char *posix = malloc(strlen(before) + (strlen(text) + 1) * (ASCII + 4) + strlen(after) + 4);
    struct translation t = {.at = text, .out = posix, .status = status, .whole = text};
    t.out += sprintf(posix, "%s(", before);
    bool read = true;
    while (read && *t.at)
        read = read_one(&t);
    sprintf(t.out, ")%s", after);
    if (read && regcomp(pattern, posix, REG_EXTENDED | REG_NOSUB) != 0)
        read = fail(&t, "a syntax error");
    free(posix);
    return read;
}

static bool python_pattern_matches(const regex_t *pattern, const char *text)
{
    int error = regexec(pattern, text, 0, NULL, 0);
    if (error == REG_ESPACE)
        host_memory_exhausted("matching a regular expression");
    return error == 0;
}

// --- rules

// Patterns of module names and what each gives the modules that it matches, as PEFT's rank_pattern, alpha_pattern
// and modules_to_save have them.
struct lora_rules {
    size_t count;
    struct lora_rule {
        struct json_field field;
        regex_t pattern;
        struct lora_factors gives; // nothing, of modules_to_save
        bool used;                 // a module goes by it
    } * items;
};

static void lora_rules_free(struct lora_rules *rules)
{
    for (size_t i = 0; i < rules->count; i++)
        regfree(&rules->items[i].pattern);
    free(rules->items);
}

// A pattern that a name ends with, behind a dot or whole; after: a POSIX expression of what follows it. False and a
// status that names the field if it is none.
static bool lora_rules_add(struct lora_rules *rules, struct json_field field, const char *text, const char *after,
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

// The first that the name matches, as PEFT takes it; NULL: none. Two that give it different values are an error
// where that is strict, for there the order of keys is no one's choice.
static bool lora_rules_find(const struct lora_rules *rules, const char *name, bool strict, struct lora_rule **found,
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

// A pattern of a request that no module goes by was meant for one: false and a status.
static bool lora_rules_check_used(const struct lora_rules *rules, struct status *status)
{
    for (size_t i = 0; i < rules->count; i++)
        if (!rules->items[i].used)
            return json_field_fail(rules->items[i].field, status, "matches no module that has factors");
    return true;
}

struct request {
    const struct config *config;
    const struct lora_fields *fields;
    bool strict, all_linear;
    bool *named;                         // of a list of targets those that a module has
    bool *named_parameters;              // and of target_parameters
    regex_t *targets, *exclude, *layers; // NULL: a list, or left out
    struct lora_rules ranks, alphas, saved;
};

static bool is_outside(size_t target)
{
    return 1u << target & (LORA_EMBEDDING | LORA_HEAD);
}

static bool is_parameter(size_t target)
{
    return 1u << target & LORA_PARAMETERS;
}

// ---- patterns

static bool compile(regex_t *pattern, const char *before, struct json_field text, const char *after,
                    struct status *status)
{
    struct status why = {0};
    return python_pattern_compile(pattern, before, json_string_value(text.value), after, &why) ||
           json_field_fail(text, status, "%s", why.message);
}

static bool compile_one(regex_t **pattern, const char *before, struct json_field text, const char *after,
                        struct status *status)
{
    *pattern = malloc(sizeof **pattern);
    if (compile(*pattern, before, text, after, status))
        return true;
    free(*pattern);
    *pattern = NULL;
    return false;
}

static void free_one(regex_t *pattern)
{
    if (pattern)
        regfree(pattern);
    free(pattern);
}

// "q" in a request means "q_proj".
static const char *full_name(const struct request *request, const char *name)
{
    for (size_t i = 0; request->strict && i < LORA_TARGETS; i++)
        if (strcmp(name, lora_target_names[i]) == 0)
            return lora_module_leaf(i);
    return name;
}

// Reads rank_pattern or alpha_pattern, in file order.
static bool read_rules(const struct request *request, struct lora_rules *rules, struct json_field field, bool ranks,
                       struct status *status)
{
    const char *key;
    json_t *value;
    if (!json_field_given(field))
        return true;
    if (!json_is_object(field.value))
        return json_field_expected(field, status, "an object of module names, such as {\"q_proj\": 4}");
    json_object_foreach(field.value, key, value)
    {
        struct lora_factors gives = {0};
        struct json_field member = json_field_get(field, key);
        bool read = ranks ? json_field_count(member, 1, request->config->width, "", &gives.rank, status)
                          : json_field_number(member, LORA_ALPHA_MIN, LORA_ALPHA_MAX, &gives.alpha, status);
        if (!read || !lora_rules_add(rules, member, full_name(request, key), "$", gives, status))
            return false;
    }
    return true;
}

// ---- names

// A module's name in the whole model, as PEFT sees it.
static void whole_name(const struct config *config, size_t layer, size_t target, char key[NAME_BYTES])
{
    char own[NAME_BYTES];
    lora_module_name(own, sizeof own, config, layer, target);
    adapter_name_within(key, NAME_BYTES, config, config->submodule, own);
}

static bool ends_with_name(const char *key, const char *name)
{
    size_t bytes = strlen(key), end = strlen(name);
    return bytes >= end && strcmp(key + bytes - end, name) == 0 && (bytes == end || key[bytes - end - 1] == '.');
}

// Names are a list, or a single text.
static size_t name_count(struct json_field field)
{
    return json_is_string(field.value) ? 1 : json_array_size(field.value);
}

static struct json_field name_at(struct json_field field, size_t i)
{
    return json_is_string(field.value) ? field : json_field_at(field, i);
}

static bool check_names(struct json_field field, struct status *status)
{
    bool names = json_is_string(field.value) || json_is_array(field.value);
    for (size_t i = 0; names && i < json_array_size(field.value); i++)
        names = json_string_length(json_array_get(field.value, i)) > 0;
    return !json_field_given(field) || names || json_field_expected(field, status, "a list of names of modules");
}

// A single text is a regular expression; in a request only if it cannot be a name.
static bool is_pattern(const struct request *request, struct json_field field)
{
    const char *text = json_string_value(field.value);
    return text && !(request->strict && strcspn(text, "*+?()[]|\\^$") == strlen(text));
}

static bool is_named(const struct request *request, const char *key, struct json_field names, size_t i)
{
    return ends_with_name(key, full_name(request, json_string_value(name_at(names, i).value)));
}

// PEFT's target_modules have no parameters; in a request a name that has the whole of its end chooses one, which
// "down" does not.
static bool names_parameter(const struct request *request, struct json_field names, size_t i, size_t target)
{
    const char *name = full_name(request, json_string_value(name_at(names, i).value));
    return request->strict && ends_with_name(name, lora_module_leaf(target));
}

// A projection's weight is a parameter, too.
static bool is_target_parameter(const struct request *request, const char *key, size_t target)
{
    struct json_field names = request->fields->target_parameters;
    char parameter[NAME_BYTES + sizeof ".weight"];
    bool found = false;
    snprintf(parameter, sizeof parameter, "%s%s", key, is_parameter(target) ? "" : ".weight");
    for (size_t i = 0; request->named_parameters && !is_outside(target) && i < name_count(names); i++) {
        bool fits = ends_with_name(parameter, json_string_value(name_at(names, i).value));
        request->named_parameters[i] |= fits;
        found |= fits;
    }
    return found;
}

static bool is_target(const struct request *request, const char *key, size_t target)
{
    struct json_field names = request->fields->target_modules;
    bool own = lora_module_is_own(request->config, target), found = is_target_parameter(request, key, target);
    bool module = !is_parameter(target);
    if (request->targets)
        return found || (own && (module || request->strict) && python_pattern_matches(request->targets, key));
    for (size_t i = 0; request->named && i < name_count(names); i++) {
        bool fits = (own || request->config->fused) && is_named(request, key, names, i) &&
                    (module || names_parameter(request, names, i, target));
        request->named[i] |= fits;
        found |= fits;
    }
    return (found && (own || request->strict)) || (request->all_linear && own && !is_outside(target));
}

static bool is_excluded(const struct request *request, const char *key)
{
    struct json_field exclude = request->fields->exclude_modules;
    for (size_t i = 0; i < request->saved.count; i++)
        if (python_pattern_matches(&request->saved.items[i].pattern, key))
            return true;
    for (size_t i = 0; !request->exclude && i < name_count(exclude); i++)
        if (is_named(request, key, exclude, i))
            return true;
    return request->exclude && python_pattern_matches(request->exclude, key);
}

static bool is_in_layers(const struct request *request, const char *key, size_t layer, size_t target)
{
    struct json_field layers = request->fields->layers_to_transform;
    bool all = !json_field_given(layers) || (json_is_array(layers.value) && json_array_size(layers.value) == 0);
    if (all)
        return true;
    if (is_outside(target) || (request->layers && !python_pattern_matches(request->layers, key)))
        return false;
    if (json_is_integer(layers.value))
        return (size_t)json_integer_value(layers.value) == layer;
    for (size_t i = 0; i < json_array_size(layers.value); i++)
        if ((size_t)json_integer_value(json_array_get(layers.value, i)) == layer)
            return true;
    return false;
}

// ---- the keys

static bool read_layers(const struct request *request, struct status *status)
{
    struct json_field layers = request->fields->layers_to_transform;
    size_t max = request->strict ? request->config->layers - 1 : JSON_INTEGER_MAX, layer;
    if (!json_field_given(layers))
        return true;
    if (request->targets)
        return json_field_fail(
            layers, status,
            "and a regular expression as target_modules exclude each other, in PEFT, too: name the "
            "modules in a list, or the layers in the expression");
    if (!json_is_array(layers.value))
        return json_field_count(layers, 0, max, "", &layer, status);
    for (size_t i = 0; i < json_array_size(layers.value); i++)
        if (!json_field_count(json_field_at(layers, i), 0, max, "", &layer, status))
            return false;
    return true;
}

// One pattern, or several alternatives.
static bool read_layers_pattern(struct request *request, struct status *status)
{
    struct json_field field = request->fields->layers_pattern;
    bool empty = !json_field_given(field) || (json_is_array(field.value) && json_array_size(field.value) == 0) ||
                 (json_is_string(field.value) && json_string_length(field.value) == 0);
    if (empty)
        return true;
    if (!json_field_given(request->fields->layers_to_transform))
        return json_field_fail(field, status, "requires layers_to_transform");
    if (json_is_array(field.value) && json_array_size(field.value) != 1)
        return json_field_expected(field, status, "one pattern, such as \"layers\"");
    field = json_is_array(field.value) ? json_field_at(field, 0) : field;
    return compile_one(&request->layers, "^(.*\\.)?", field, "\\.[0-9]+\\.", status);
}

static bool check_target(struct json_field item, const struct request *request, size_t at, struct status *status)
{
    struct names known = {0};
    size_t index;
    const char *name = full_name(request, json_string_value(item.value));
    for (size_t i = 0; i < at; i++) {
        const char *before = json_string_value(name_at(request->fields->target_modules, i).value);
        if (strcmp(full_name(request, before), name) == 0)
            return json_field_fail(item, status, "\"%s\" is given twice", json_string_value(item.value));
    }
    for (size_t i = 0; i < LORA_TARGETS; i++)
        names_add(&known, lora_target_names[i]);
    names_add(&known, ALL_LINEAR);
    for (size_t i = 0; i < LORA_TARGETS; i++)
        if (ends_with_name(name, lora_module_leaf(i)))
            return true;
    return json_field_choice(item, &known, "projection", &index, status);
}

static bool read_target_parameters(struct request *request, struct status *status)
{
    struct json_field field = request->fields->target_parameters;
    if (!check_names(field, status))
        return false;
    request->named_parameters = calloc(name_count(field) + 1, sizeof *request->named_parameters);
    return true;
}

static bool read_targets(struct request *request, struct status *status)
{
    struct json_field field = request->fields->target_modules;
    const char *text = json_string_value(field.value);
    bool parameters = name_count(request->fields->target_parameters) > 0;
    if (!field.value || (parameters && !text && name_count(field) == 0)) // PEFT writes null or []
        return true;
    if (name_count(field) == 0 || !check_names(field, status))
        return json_field_expected(field, status,
                                   "a list of projections, such as [\"q\", \"v\"], or \"" ALL_LINEAR "\"");
    request->all_linear = text && strcmp(text, ALL_LINEAR) == 0;
    if (request->all_linear || is_pattern(request, field))
        return request->all_linear || compile_one(&request->targets, "^", field, "$", status);
    request->named = calloc(name_count(field), sizeof *request->named);
    for (size_t i = 0; i < name_count(field); i++) {
        struct json_field item = name_at(field, i);
        bool all = request->strict && strcmp(json_string_value(item.value), ALL_LINEAR) == 0;
        request->all_linear |= all;
        request->named[i] = all;
        if (request->strict && !check_target(item, request, i, status))
            return false;
    }
    return true;
}

static bool read_exclude(struct request *request, struct status *status)
{
    struct json_field field = request->fields->exclude_modules;
    return check_names(field, status) &&
           (!is_pattern(request, field) || compile_one(&request->exclude, "^", field, "$", status));
}

static void append_saved(struct lora *lora, const char *name)
{
    size_t count = 0;
    while (lora->saved && lora->saved[count])
        count++;
    lora->saved = realloc(lora->saved, (count + 2) * sizeof *lora->saved);
    lora->saved[count] = strdup(name);
    lora->saved[count + 1] = NULL;
}

// Tells whether the name selects a projection that the base's files fuse with others, or such a part.
static bool saves_fused(const struct request *request, const struct lora *one)
{
    bool any = false;
    for (size_t l = 0; request->config->fused && l < request->config->layers; l++)
        for (size_t i = 0; i < LORA_TARGETS; i++) {
            char module[NAME_BYTES], name[NAME_BYTES + sizeof ".weight"];
            if (!config_has_target(request->config, l, 1u << i))
                continue;
            whole_name(request->config, l, i, module);
            snprintf(name, sizeof name, "%s.weight", module);
            any |= 1u << i & (LORA_FUSED_PARTS | LORA_QKV | LORA_GATE_UP) && lora_saves(one, name);
        }
    return any;
}

// Adds the name; within a larger model, whose other parts have modules with this name, adds the full names that it
// selects here.
static bool add_saved(const struct request *request, struct json_field item, const char *name, struct lora *lora,
                      struct status *status)
{
    const struct lora one = {.saved = (char *[]){(char *)name, NULL}};
    struct config config = *request->config;
    struct model model;
    bool any = false, fused = saves_fused(request, &one);
    config.tied = false; // the head is a module too, even if it shares the embedding's table
    model_list(&model, &config, &(struct lora){0});
    for (size_t i = 0; i < model.parameter_count; i++) {
        char *own = model.parameters[i].name, whole[sizeof model.parameters[i].name + NAME_BYTES];
        weight_name_within(whole, sizeof whole, config.submodule, own);
        bool saves = lora_saves(&one, whole);
        any |= saves;
        if (saves && config.submodule && !lora_saves(lora, own)) {
            *strrchr(own, '.') = '\0'; // ".weight"
            append_saved(lora, own);
        }
    }
    model_close(&model);
    if (!config.submodule)
        append_saved(lora, name);
    if (fused)
        return json_field_fail(
            item, status,
            "%s is, or has in it, a projection that the base's files fuse with others; those "
            "that train whole are saved as they are here, apart: take LoRA on it, or name others",
            name);
    return any || !request->strict ||
           json_field_fail(item, status, "no module of the model has a name that ends in \"%s\"", name);
}

static bool read_saved(struct request *request, struct lora *lora, struct status *status)
{
    struct json_field field = request->fields->modules_to_save;
    size_t count = name_count(field);
    if (!check_names(field, status))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct json_field item = name_at(field, i);
        const char *name = full_name(request, json_string_value(item.value));
        if (!add_saved(request, item, name, lora, status) ||
            !lora_rules_add(&request->saved, item, name, "($|\\..*)", (struct lora_factors){0}, status))
            return false;
    }
    return true;
}

// A table that is both embedding and head: each trains separately as a copy, unless ensure_weight_tying keeps them
// tied.
static bool read_tying(const struct request *request, struct lora *lora, struct status *status)
{
    struct json_field field = request->fields->ensure_weight_tying;
    bool tying = false, saves = lora_saves(lora, "model.embed_tokens.weight") || lora_saves(lora, "lm_head.weight");
    if (!json_field_bool(field, &tying, status))
        return false;
    if (!request->config->tied)
        return true;
    if (tying && lora->targets & (LORA_EMBEDDING | LORA_HEAD))
        return json_field_fail(
            field, status,
            "factors that the embedding and the head share are not supported; leave it out: each "
            "then has its own");
    lora->untied = saves && !tying;
    if (saves && tying && !lora_saves(lora, "model.embed_tokens.weight"))
        append_saved(lora, "model.embed_tokens");
    return true;
}

// ---- the modules

// Whether the family's own modules have other names than a mixture of experts has here, so that an adapter's file
// would not hold their factors.
static bool is_otherwise_in_files(const struct config *c, size_t layer, size_t target)
{
    const struct family *family = config_mlp(c, layer)->chooses ? folder_family_of(c) : NULL;
    if (!family || !family->mixture)
        return false;
    enum expert_files files = family->mixture->files;
    return 1u << target & (files == FILES_GRANITE ? LORA_PARAMETERS : files == FILES_GPT_OSS ? LORA_ROUTER : 0);
}

// Whether "all-linear" leaves the module out, as in peft, which takes it for experts' and finds none of these; and
// gpt-oss's experts, of which no file has projections.
static bool is_no_linear(const struct config *c, size_t layer, size_t target)
{
    bool mixed = config_mlp(c, layer)->chooses;
    return mixed && ((!c->experts.shared_gated && 1u << target & (LORA_GATE | LORA_UP | LORA_DOWN)) ||
                     (c->experts.bias && 1u << target & LORA_PARAMETERS));
}

// pairs: modules whose factors are one pair here.
static bool factors_of(const struct request *request, const struct lora *lora, const char *key, size_t pairs,
                       struct lora_factors *factors, struct status *status)
{
    struct lora_rule *rank, *alpha;
    if (!lora_rules_find(&request->ranks, key, request->strict, &rank, status) ||
        !lora_rules_find(&request->alphas, key, request->strict, &alpha, status))
        return false;
    factors->rank = rank ? rank->gives.rank : pairs * lora->rank;
    factors->alpha = alpha ? alpha->gives.alpha : (double)pairs * lora->alpha;
    return true;
}

static bool fill_table(const struct request *request, struct lora *lora, struct status *status)
{
    const struct config *c = request->config;
    lora->table = calloc(c->layers * LORA_TARGETS, sizeof *lora->table);
    unsigned before = lora->targets;
    bool given = request->fields->target_modules.value || request->fields->target_parameters.value;
    lora->targets = 0;
    for (size_t l = 0; l < c->layers; l++)
        for (size_t i = 0; i < LORA_TARGETS; i++) {
            char own[NAME_BYTES], key[NAME_BYTES + sizeof ".weight"], weight[NAME_BYTES + sizeof ".weight"];
            if ((l > 0 && is_outside(i)) || !config_has_target(c, l, 1u << i))
                continue;
            lora_module_name(own, sizeof own, c, l, i);
            whole_name(c, l, i, key);
            snprintf(weight, sizeof weight, "%s%s", own, is_parameter(i) ? "" : ".weight");
            bool target = given ? is_target(request, key, i) : before >> i & 1;
            bool parameter = is_parameter(i) || is_target_parameter(request, key, i);
            if (parameter && !is_parameter(i))
                snprintf(key + strlen(key), sizeof key - strlen(key), ".weight");
            // PEFT's other keys choose among modules alone.
            bool applies = request->strict || !parameter;
            if (!target || (applies && (is_excluded(request, key) || !is_in_layers(request, key, l, i))))
                continue;
            if (request->all_linear && is_no_linear(c, l, i))
                continue;
            if (is_otherwise_in_files(c, l, i)) {
                if (request->all_linear || !given)
                    continue;
                return json_field_fail(
                    request->fields->target_modules, status,
                    "factors of %s are not supported in this family, whose files have them under "
                    "another name; name other modules",
                    key);
            }
            if (lora_saves(lora, weight))
                return json_field_fail(request->fields->modules_to_save, status,
                                       "and target_modules both name %s, in PEFT an error, too", key);
            size_t pairs = request->all_linear && 1u << i == LORA_EXPERTS_GATE_UP ? 2 : 1;
            if (!factors_of(request, lora, key, pairs, &lora->table[l * LORA_TARGETS + i], status))
                return false;
            lora->targets |= 1u << i;
        }
    return true;
}

// Parts of a fused projection form one pair of factors: not beside factors of the whole, and with one scale.
static bool check_fused(const struct request *request, const struct lora *lora, struct status *status)
{
    static const unsigned groups[][2] = {{LORA_QKV, LORA_Q | LORA_K | LORA_V}, {LORA_GATE_UP, LORA_GATE | LORA_UP}};
    for (size_t l = 0; request->config->fused && l < request->config->layers; l++)
        for (size_t g = 0; g < 2; g++) {
            double scale = NAN;
            for (unsigned i = 0; i < LORA_TARGETS; i++) {
                struct lora_factors part = lora->table[l * LORA_TARGETS + i];
                if (!(groups[g][1] >> i & 1) || !part.rank)
                    continue;
                if (lora_factors_of(lora, l, groups[g][0]).rank)
                    return json_field_fail(request->fields->target_modules, status,
                                           "\"%s\" is a part of a projection that is a target, too",
                                           lora_target_names[i]);
                if (scale == scale && scale != lora_scale(lora, part))
                    return json_field_fail(
                        request->fields->rank_pattern, status,
                        "parts of one fused projection need the same alpha / rank, for PEFT's files "
                        "have one for it");
                scale = lora_scale(lora, part);
            }
        }
    return true;
}

static bool check_named(const struct request *request, struct status *status)
{
    struct json_field field = request->fields->target_modules;
    struct json_field parameters = request->fields->target_parameters;
    for (size_t i = 0; i < name_count(parameters); i++)
        if (!request->named_parameters[i])
            return json_field_fail(name_at(parameters, i), status,
                                   "the model has no parameter of that name that factors can be put on: a router's "
                                   "\"gate.weight\", experts' \"gate_up_proj\" and \"down_proj\"");
    for (size_t i = 0; request->strict && request->named && i < name_count(field); i++)
        if (!request->named[i])
            return json_field_fail(name_at(field, i), status, "the model has no module of that name%s",
                                   request->config->fused ? "" : ", whose family fuses no projections");
    return true;
}

static bool check_any(const struct request *request, const struct lora *lora, struct status *status)
{
    return lora->targets || json_field_fail(request->fields->target_modules, status,
                                            "no module of the model is left to have factors");
}

// Drops the table if every layer has the same values.
static void simplify(const struct config *c, struct lora *lora)
{
    bool uniform = true;
    for (size_t l = 0; l < c->layers; l++)
        for (size_t i = 0; i < LORA_TARGETS; i++) {
            struct lora_factors own = lora->table[l * LORA_TARGETS + i];
            bool has = lora->targets >> i & 1 && (l == 0 || !is_outside(i)) && config_has_target(c, l, 1u << i);
            uniform &= has ? own.rank == lora->rank && own.alpha == lora->alpha : own.rank == 0;
        }
    if (uniform) {
        free(lora->table);
        lora->table = NULL;
    }
}

bool lora_modules_read(struct lora *lora, const struct lora_fields *fields, const struct config *config,
                       bool strict, struct status *status)
{
    struct request request = {.config = config, .fields = fields, .strict = strict};
    bool ok =
        read_target_parameters(&request, status) && read_targets(&request, status) &&
        read_exclude(&request, status) && read_layers(&request, status) && read_layers_pattern(&request, status) &&
        read_rules(&request, &request.ranks, fields->rank_pattern, true, status) &&
        read_rules(&request, &request.alphas, fields->alpha_pattern, false, status) &&
        read_saved(&request, lora, status) && fill_table(&request, lora, status) && check_named(&request, status) &&
        check_any(&request, lora, status) && (!strict || lora_rules_check_used(&request.ranks, status)) &&
        (!strict || lora_rules_check_used(&request.alphas, status)) && check_fused(&request, lora, status) &&
        read_tying(&request, lora, status);
    if (ok)
        simplify(config, lora);
    else
        lora_free(lora);
    free(request.named);
    free(request.named_parameters);
    free_one(request.targets);
    free_one(request.exclude);
    free_one(request.layers);
    lora_rules_free(&request.ranks);
    lora_rules_free(&request.alphas);
    lora_rules_free(&request.saved);
    return ok;
}
