#include "harness/options/method_flags.h"
#include "harness/spec/method_decode.h"
#include "harness/spec/trial_keys.h"
#include "harness/step/ranks_possible.h"
#include <string.h>

static struct trial *add_trial(struct method_trials *trials)
{
    trials->trials = realloc(trials->trials, (trials->count + 1) * sizeof *trials->trials);
    return &trials->trials[trials->count++];
}

// Without a given context, searches one that fits the method's options: a budget needs enough chunks, and some
// options limit them.
static bool decode(const struct trial_flags *flags, const char *method, struct trial *trial, struct status *status)
{
    bool said = json_object_get(json_object_get(flags->trial, "data"), "batch"); // given by a batch file
    if (said || json_object_get(flags->trial, "context"))
        return trial_flags_decode(flags, method, trial, status);
    const char *key;
    json_t *value;
    *trial = (struct trial){0};
    json_object_foreach(flags->method, key, value)
    {
        const char *text = json_string_value(value) ? json_string_value(value) : "";
        if (*text && text[strlen(text) - 1] == '%') {
            status_set(status, STATUS_BAD_INPUT, "--%s: a share needs a single context; give a number of chunks",
                       key);
            return false;
        }
    }
    struct status first = {0};
    bool decoded = false;
    for (int i = -1; i < 31 && !decoded; i++) {
        struct status why = {0};
        size_t context = i < 0 ? 65536 : (size_t)1 << i; // the first reason is the one to show
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

// A search: the requested trials and the keys with tried values.
struct search {
    struct method_trials *trials;
    const struct trial_flags *flags;
    struct method_request request;
    const struct trial_key *tried[TRIAL_KEYS_MAX];
    size_t tried_count;
};

static const char *flag_of(const struct trial_key *key)
{
    return key->flag ? key->flag : key->name;
}

// Tells whether the list has this name, with hyphens or underscores.
static bool is_listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *item = list; item; item = strchr(item, ',') ? strchr(item, ',') + 1 : NULL) {
        size_t i = 0;
        while (i < length && (item[i] == name[i] || (item[i] == '-' && name[i] == '_')))
            i++;
        if (i == length && (item[i] == ',' || !item[i]))
            return true;
    }
    return false;
}

static bool is_tried(const struct search *search, const struct trial_key *key)
{
    return !json_object_get(search->flags->trial, key->name) && is_listed(search->request.also, flag_of(key));
}

// Tells whether the last trial equals an earlier one from `first` on.
static bool is_known(const struct method_trials *trials, size_t first)
{
    for (size_t i = first; i + 1 < trials->count; i++)
        if (strcmp(trials->trials[i].canonical, trials->trials[trials->count - 1].canonical) == 0)
            return true;
    return false;
}

// First tried values of the options of the trial's method.
static json_t *first_values(const struct trial *trial, const json_t *given)
{
    const struct option_table *table = &trial->method->options;
    void *options = options_copy(table, trial->options);
    json_t *values = json_object();
    for (const struct option *option = table->rows; option && option->name; option++)
        if (option->nth && !json_object_get(given, option->name))
            option->nth(option, (char *)options + option->offset, 0, trial->config.layers, trial_row_tokens(trial));
    json_t *method = method_json(trial->method, options);
    for (const struct option *option = table->rows; option && option->name; option++)
        if (option->nth && !json_object_get(given, option->name))
            json_object_set(values, option->name, json_object_get(method, option->name));
    json_decref(method);
    options_free(table, options);
    return values;
}

// If the defaults do not fit the given values, decodes with the first tried values.
static bool decode_tried(const struct search *search, const char *method, struct trial *trial,
                         struct status *status)
{
    json_t *given = search->flags->method, *first, *value;
    const char *key;
    struct status why = {0};
    if (decode(search->flags, method, trial, &why))
        return true;
    if (!search->request.variants || !trial->unsupported) {
        *status = why;
        return false;
    }
    first = first_values(trial, given);
    trial_free(trial);
    json_object_update(given, first);
    bool decoded = decode(search->flags, method, trial, status);
    json_object_foreach(first, key, value)
    {
        json_object_del(given, key);
    }
    json_decref(first);
    return decoded;
}

// Adds a variant unless its values conflict or change nothing. `first`: the method's first trial.
static bool add_variant(struct search *search, const char *method, size_t first)
{
    struct status why = {0};
    struct trial *trial = add_trial(search->trials);
    if (decode_tried(search, method, trial, &why) && !is_known(search->trials, first) && ranks_fit(trial, &why))
        return true;
    trial_free(&search->trials->trials[--search->trials->count]);
    return false;
}

// Adds variants that offload more of what the trainer keeps, from target `next` on.
static void add_offloads(struct search *search, const char *method, size_t first, const json_t *offload,
                         size_t next)
{
    static const char *const targets[] = {"weights", "gradients", "optimizer"};
    for (; next < sizeof targets / sizeof *targets; next++) {
        json_t *more = json_copy((json_t *)offload);
        json_array_append_new(more, json_string(targets[next]));
        json_object_set(search->flags->method, "offload", more);
        if (add_variant(search, method, first))
            add_offloads(search, method, first, more, next + 1);
        json_decref(more);
    }
}

// Adds variants with each further value of the tried keys, from key `next` on, then with further offload targets.
static void add_variants(struct search *search, const char *method, size_t first, size_t next)
{
    json_t *given = search->flags->method;
    if (next == search->tried_count && search->request.host && !json_object_get(given, "offload")) {
        json_t *none = json_array();
        add_offloads(search, method, first, none, 0);
        json_object_del(given, "offload");
        json_decref(none);
    }
    if (next == search->tried_count)
        return;
    const struct trial_key *key = search->tried[next];
    for (size_t i = 0; is_tried(search, key) && key->tried[i]; i++) {
        json_object_set_new(search->flags->trial, key->name, json_string(key->tried[i]));
        if (add_variant(search, method, first))
            add_variants(search, method, first, next + 1);
        json_object_del(search->flags->trial, key->name);
    }
    add_variants(search, method, first, next + 1);
}

static bool add_method(struct search *search, const struct method *method, struct status *status)
{
    size_t first = search->trials->count;
    struct trial *trial = add_trial(search->trials);
    if (!decode_tried(search, method->name, trial, status) ||
        (search->request.variants && !ranks_fit(trial, status)))
        return false;
    if (search->request.variants)
        add_variants(search, method->name, first, 0);
    return true;
}

// Refuses methods listed twice.
static bool is_added(const struct search *search, const struct method *method)
{
    bool added = false;
    for (size_t i = 0; i < search->trials->count; i++)
        added |= search->trials->trials[i].method == method;
    return added;
}

// Tells whether the word is a choice of this option that only other methods have.
static bool only_others_offer(const struct option *own, const char *word)
{
    bool others = false;
    for (size_t i = 0; word && methods[i]; i++)
        others |= option_offers(option_find(&methods[i]->options, own->name), word);
    return others && !option_offers(own, word);
}

// Tells whether an option was given a choice, or a word, that only other methods have.
static bool is_choice_of_others(const struct trial_flags *flags, const struct method *method)
{
    const char *key;
    json_t *value, *word;
    size_t i;
    json_object_foreach(flags->method, key, value)
    {
        const struct option *own = option_find(&method->options, key);
        bool found = own && only_others_offer(own, json_string_value(value));
        json_array_foreach(value, i, word)
        {
            found |= own && only_others_offer(own, json_string_value(word));
        }
        if (found)
            return true;
    }
    return false;
}

// Tells whether an option was given that this method has and no exact method has.
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

// Checks that every given option applies to some method.
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

// Adds all exact methods and, unless only these are requested, methods that draw chunks if their options were
// given.
static bool add_all(struct search *search, struct status *status)
{
    struct method_trials *trials = search->trials;
    struct status why = {0};
    for (size_t i = 0; methods[i]; i++) {
        bool wanted = methods[i]->exact ||
                      (!search->request.exact && methods[i]->draw && is_asked_for(search->flags, methods[i]));
        if (!wanted || is_added(search, methods[i]))
            continue;
        why = (struct status){0};
        if (add_method(search, methods[i], &why))
            continue;
        struct trial *refused = &trials->trials[--trials->count];
        bool passed_over = why.code == STATUS_UNSUPPORTED || is_choice_of_others(search->flags, methods[i]);
        if (passed_over)
            json_array_append_new(trials->left_out,
                                  json_pack("{s:s, s:s}", "method", methods[i]->name, "reason",
                                            refused->unsupported ? refused->unsupported : why.message));
        trial_free(refused);
        if (!passed_over) {
            *status = why;
            return false;
        }
    }
    if (trials->count == 0)
        *status = why;
    return trials->count > 0;
}

static bool add_named(struct search *search, const char *name, struct status *status)
{
    const struct method *method = method_find(name);
    struct names known = {0};
    char hint[512];
    for (size_t i = 0; methods[i]; i++)
        names_add(&known, methods[i]->name);
    names_add(&known, "all");
    names_hint(&known, name, "methods", hint, sizeof hint);
    if (!method)
        return status_set(status, STATUS_BAD_INPUT, "--methods: no method \"%.64s\"; %s", name, hint);
    if (is_added(search, method) || (search->request.exact && !method->exact))
        return true;
    if (search->request.variants && method->no_gradient)
        return status_set(status, STATUS_BAD_INPUT, "--methods: %s computes no gradient", name);
    return add_method(search, method, status);
}

static bool add_list(struct search *search, struct status *status)
{
    char *copy = strdup(search->request.names), *rest = copy, *name;
    bool ok = true;
    while (ok && (name = strsep(&rest, ",")))
        ok = strcmp(name, "all") == 0 ? add_all(search, status) : add_named(search, name, status);
    free(copy);
    return ok;
}

// Checks that every key of --also is tried only if named.
static bool check_also(const struct search *search, struct status *status)
{
    char *copy = strdup(search->request.also ? search->request.also : ""), *rest = copy, *name, hint[512];
    struct names known = {0};
    for (size_t i = 0; i < search->tried_count; i++)
        names_add(&known, flag_of(search->tried[i]));
    while (search->request.also && (name = strsep(&rest, ","))) {
        bool found = false;
        for (size_t i = 0; i < search->tried_count; i++)
            found |= is_listed(name, flag_of(search->tried[i]));
        names_hint(&known, name, "known keys", hint, sizeof hint);
        if (!found)
            status_set(status, STATUS_BAD_INPUT, "--also: unknown key \"%.64s\"; %s", name, hint);
    }
    free(copy);
    return status->code == STATUS_OK;
}

bool method_trials_decode(struct method_trials *trials, const struct trial_flags *flags,
                          const struct method_request *request, struct status *status)
{
    *trials = (struct method_trials){.left_out = json_array()};
    struct search search = {.trials = trials, .flags = flags, .request = *request};
    search.tried_count = trial_keys_tried(search.tried);
    if (!check_also(&search, status))
        return false;
    bool ok = add_list(&search, status);
    if (ok && trials->count == 0)
        return status_set(status, STATUS_BAD_INPUT, "--methods: none of %s has an exact gradient", request->names);
    return ok && check_used(flags, trials, status);
}

void method_trials_print_left_out(const struct method_trials *trials, int columns, FILE *stream)
{
    for (size_t i = 0; i < json_array_size(trials->left_out); i++) {
        const json_t *left_out = json_array_get(trials->left_out, i);
        fprintf(stream, "%-*s left out: %s\n", columns, json_string_value(json_object_get(left_out, "method")),
                json_string_value(json_object_get(left_out, "reason")));
    }
}

void method_trials_free(struct method_trials *trials)
{
    for (size_t i = 0; i < trials->count; i++)
        trial_free(&trials->trials[i]);
    free(trials->trials);
    json_decref(trials->left_out);
    *trials = (struct method_trials){0};
}
