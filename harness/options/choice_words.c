#include "harness/options/choice_words.h"
#include "harness/options/shell.h"
#include "harness/spec/method_decode.h"
#include "harness/spec/trial_keys.h"
#include <string.h>

struct words {
    const struct choice *choice;
    const json_t *first; // NULL: for a command line, which gets every value that is not a default
    bool trains;         // the command trains
    void (*word)(void *visitor, const char *name, const char *value);
    void *visitor;
};

static void visit_value(const struct words *words, const char *name, const json_t *value)
{
    char *text = named_option_words(value, 0), *shown = text;
    if (*text == '[' && !words->first) { // lists in flags have no brackets
        text[strlen(text) - 1] = 0;
        shown++;
    }
    words->word(words->visitor, name, shown);
    free(text);
}

// grad has no optimizer.
static void forget_optimizer(json_t *offload)
{
    for (size_t i = json_array_size(offload); i-- > 0;)
        if (strcmp(json_string_value(json_array_get(offload, i)), "optimizer") == 0)
            json_array_remove(offload, i);
}

static void visit_options(const struct words *words)
{
    const struct trial *trial = words->choice->trial;
    json_t *method = method_json(trial->method, words->choice->options),
           *defaults = method_json(trial->method, NULL);
    if (!words->first && !words->trains)
        forget_optimizer(json_object_get(method, "offload"));
    for (const struct option *option = trial->method->options.rows; option->name; option++) {
        const json_t *value = json_object_get(method, option->name);
        bool telling = option->telling && words->first;
        if (value &&
            (telling || !json_equal(value, json_object_get(defaults, option->name)))) // absent: an unsaid default
            visit_value(words, option->name, value);
    }
    json_decref(defaults);
    json_decref(method);
}

static void visit_keys(const struct words *words)
{
    json_t *canonical = json_loads(words->choice->trial->canonical, 0, NULL);
    const struct trial_key *tried[TRIAL_KEYS_MAX];
    size_t count = trial_keys_tried(tried);
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_object_get(canonical, tried[i]->name);
        bool asked = words->first && json_equal(value, json_object_get(words->first, tried[i]->name));
        if (json_is_string(value) && !asked) // null: none
            visit_value(words, tried[i]->name, value);
    }
    json_decref(canonical);
}

struct line {
    char *text;
    size_t bytes;
};

static void add_word(void *visitor, const char *name, const char *value)
{
    struct line *line = visitor;
    size_t used = strlen(line->text);
    snprintf(line->text + used, line->bytes - used, " %s=%s", name, value);
}

void choice_describe(const struct choice *choice, const json_t *first, char *text, size_t bytes)
{
    struct line line = {text, bytes};
    const struct words words = {choice, first, false, add_word, &line};
    snprintf(text, bytes, "%s", choice->trial->method->name);
    visit_options(&words);
    visit_keys(&words);
}

static void add_flag(void *visitor, const char *name, const char *value)
{
    shell_append_flag(visitor, name, value);
}

void choice_append_flags(const struct choice *choice, bool trains, char **command)
{
    const struct words words = {choice, NULL, trains, add_flag, command};
    add_flag(command, "method", choice->trial->method->name);
    visit_options(&words);
    visit_keys(&words);
}

bool choice_draws(const struct choice *choice)
{
    const struct method *method = choice->trial->method;
    void *options = options_copy(&method->options, choice->options);
    bool drawn = method->draw && method->draw(options, 0);
    options_free(&method->options, options);
    return drawn;
}

void choice_set_keys(const struct choice *choice, json_t *trial)
{
    json_t *canonical = json_loads(choice->trial->canonical, 0, NULL);
    const struct trial_key *tried[TRIAL_KEYS_MAX];
    size_t count = trial_keys_tried(tried);
    for (size_t i = 0; i < count; i++)
        json_object_set(trial, tried[i]->name, json_object_get(canonical, tried[i]->name));
    json_decref(canonical);
}

struct interconnect_words choice_interconnect(const struct trial *trial)
{
    struct interconnect_words words = {""};
    const struct interconnect *interconnect = trial_interconnect(trial);
    bool untimed = trial->profile || !trial_times_ranks(trial); // otherwise a nominal card has nominal links
    if (trial_ranks(trial) > 1 && interconnect)
        snprintf(words.text, sizeof words.text, ", interconnect %s", interconnect->name);
    else if (trial_ranks(trial) > 1 && untimed)
        snprintf(words.text, sizeof words.text, ", without communication between ranks (--interconnect)");
    return words;
}
