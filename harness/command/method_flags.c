#include "harness/command/method_flags.h"
#include "harness/spec/method_decode.h"
#include "harness/spec/trial_keys.h"
#include <string.h>

static struct trial *add_trial(struct method_trials *trials)
{
    trials->trials = realloc(trials->trials, (trials->count + 1) * sizeof *trials->trials);
    CHECK(trials->trials);
    return &trials->trials[trials->count++];
}

// Without a context at one that the method's options go with: a budget needs its columns, and some columns are too
// many.
static bool decode(const struct trial_flags *flags, const char *method, struct trial *trial, struct status *status)
{
    if (json_object_get(flags->trial, "context"))
        return trial_flags_decode(flags, method, trial, status);
    struct status first = {0};
    bool decoded = false;
    for (int i = -1; i < 31 && !decoded; i++) {
        struct status why = {0};
        size_t context = i < 0 ? 65536 : (size_t)1 << i; // the first one's reason is the one to be shown
        json_object_set_new(flags->trial, "context", json_integer((json_int_t)context));
        decoded = trial_flags_decode(flags, method, trial, &why);
        json_object_del(flags->trial, "context");
        if (!decoded)
            trial_free(trial);
        if (!decoded && first.code == STATUS_OK)
            first = why;
    }
    if (!decoded)
        *status = first;
    return decoded;
}

// With every key that is tried and was not given at a value of its own, from this key on. A value that does not go
// with the others, or changes nothing, is no variant.
static void add_variants(struct method_trials *trials, const struct trial_flags *flags, const char *method,
                         const struct trial_key *key)
{
    while (key->name && (!key->tried || json_object_get(flags->trial, key->name)))
        key++;
    for (size_t i = 0; key->name && key->tried[i]; i++) {
        struct status why = {0};
        json_object_set_new(flags->trial, key->name, json_string(key->tried[i]));
        struct trial *trial = add_trial(trials);
        if (decode(flags, method, trial, &why) &&
            strcmp(trial->canonical, trials->trials[trials->count - 2].canonical) != 0)
            add_variants(trials, flags, method, key + 1);
        else
            trial_free(&trials->trials[--trials->count]);
        json_object_del(flags->trial, key->name);
    }
    if (key->name)
        add_variants(trials, flags, method, key + 1);
}

static bool add_method(struct method_trials *trials, const struct trial_flags *flags, const struct method *method,
                       bool variants, struct status *status)
{
    if (!decode(flags, method->name, add_trial(trials), status))
        return false;
    if (variants)
        add_variants(trials, flags, method->name, trial_keys);
    return true;
}

static bool add_named(struct method_trials *trials, const struct trial_flags *flags, const char *list, bool exact,
                      bool variants, struct status *status)
{
    char *copy = strdup(list), *rest = copy, *name;
    CHECK(copy);
    bool ok = true;
    while (ok && (name = strsep(&rest, ","))) {
        const struct method *method = method_find(name);
        struct names known = {0};
        char hint[512];
        for (size_t i = 0; methods[i]; i++)
            names_add(&known, methods[i]->name);
        names_hint(&known, name, "methods", hint, sizeof hint);
        if (!method)
            ok = status_set(status, STATUS_BAD_INPUT, "--methods: no method \"%.64s\"; %s", name, hint);
        else if (method->exact || !exact)
            ok = add_method(trials, flags, method, variants, status);
    }
    free(copy);
    return ok;
}

// Whether it is an option with this choice.
static bool has_choice(const struct option *option, const char *text)
{
    for (size_t i = 0; option && option->type == OPTION_CHOICE && option->choices[i]; i++)
        if (strcmp(option->choices[i], text) == 0)
            return true;
    return false;
}

// Whether an option was given a choice that this method does not have and another one has.
static bool is_choice_of_others(const struct trial_flags *flags, const struct method *method)
{
    const char *key;
    json_t *value;
    json_object_foreach(flags->method, key, value)
    {
        const char *text = json_string_value(value) ? json_string_value(value) : "";
        bool others = false;
        for (size_t i = 0; methods[i]; i++)
            others |= has_choice(option_find(&methods[i]->options, key), text);
        const struct option *own = option_find(&method->options, key);
        if (others && own && !has_choice(own, text))
            return true;
    }
    return false;
}

// Whether an option was given that this method has, and no exact one.
static bool is_asked_for(const struct trial_flags *flags, const struct method *method)
{
    const char *key;
    json_t *value;
    json_object_foreach(flags->method, key, value)
    {
        bool own = option_find(&method->options, key);
        for (size_t i = 0; own && methods[i]; i++)
            own = !methods[i]->exact || !option_find(&methods[i]->options, key);
        if (own)
            return true;
    }
    return false;
}

// Every option that was given must mean something to some method.
static bool check_used(const struct trial_flags *flags, const struct method_trials *trials, struct status *status)
{
    struct named_tables known = method_tables();
    const char *key;
    json_t *value;
    json_object_foreach(flags->method, key, value)
    {
        bool used = false;
        for (size_t i = 0; i < trials->count; i++)
            used |= option_find(&trials->trials[i].method->options, key) != NULL;
        char knowing[256];
        named_tables_knowing(&known, key, knowing, sizeof knowing);
        if (!used)
            return status_set(status, STATUS_BAD_INPUT, "--%s: none of these methods has that option, but %s", key,
                              knowing);
    }
    return true;
}

// All exact methods, and with `exact` false those that draw columns and were asked for.
static bool add_all(struct method_trials *trials, const struct trial_flags *flags, bool exact, bool variants,
                    struct status *status)
{
    struct status why = {0};
    for (size_t i = 0; methods[i]; i++) {
        if (!methods[i]->exact && (exact || !methods[i]->draw || !is_asked_for(flags, methods[i])))
            continue;
        why = (struct status){0};
        if (add_method(trials, flags, methods[i], variants, &why))
            continue;
        trial_free(&trials->trials[--trials->count]);
        if (!is_choice_of_others(flags, methods[i])) {
            *status = why;
            return false;
        }
        json_array_append_new(trials->left_out,
                              json_pack("{s:s, s:s}", "method", methods[i]->name, "reason", why.message));
    }
    if (trials->count == 0)
        *status = why;
    return trials->count > 0;
}

bool method_trials_decode(struct method_trials *trials, const struct trial_flags *flags, const char *names,
                          bool exact, bool variants, struct status *status)
{
    *trials = (struct method_trials){.left_out = json_array()};
    bool ok = strcmp(names, "all") == 0 ? add_all(trials, flags, exact, variants, status)
                                        : add_named(trials, flags, names, exact, variants, status);
    if (ok && trials->count == 0)
        return status_set(status, STATUS_BAD_INPUT, "--methods: none of %s has an exact gradient", names);
    return ok && check_used(flags, trials, status);
}

void method_trials_free(struct method_trials *trials)
{
    for (size_t i = 0; i < trials->count; i++)
        trial_free(&trials->trials[i]);
    free(trials->trials);
    json_decref(trials->left_out);
    *trials = (struct method_trials){0};
}
