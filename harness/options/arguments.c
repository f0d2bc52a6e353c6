#include "harness/options/arguments.h"
#include "harness/options/argument_words.h"
#include "harness/options/command.h"
#include "harness/text/names.h"
#include "harness/text/word_list.h"
#include "kernels/base/host_memory.h"
#include "kernels/base/status.h"
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// The option written as "--out" or "-o", with aliases resolved; NULL: none.
static const struct argp_option *find(const struct argp_option *options, const char *word, size_t bytes)
{
    const struct argp_option *row = options;
    bool is_long = strncmp(word, "--", 2) == 0, is_short = !is_long && bytes == 2 && *word == '-';
    for (const struct argp_option *option = options; option && (option->name || option->doc); option++) {
        row = option->flags & OPTION_ALIAS ? row : option;
        if (is_long && option->name && strlen(option->name) == bytes - 2 &&
            strncmp(option->name, word + 2, bytes - 2) == 0)
            return row;
        if (is_short && option->key == word[1])
            return row;
    }
    return NULL;
}

static void offer_options(const struct argp_option *options, struct typed_word typed)
{
    for (const struct argp_option *option = options; option && (option->name || option->doc); option++) {
        char name[80];
        snprintf(name, sizeof name, "--%s", option->name ? option->name : "");
        if (option->name && !(option->flags & OPTION_HIDDEN))
            typed_word_offer(typed, name, "", option->doc ? option->doc : "", stdout);
    }
}

// Offers operands by their name in the usage: "[RESULTS...]".
static void offer_operands(const char *usage, struct typed_word typed)
{
    char name[256];
    usage += strspn(usage, "[");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(usage, " ]\n"), usage);
    argument_words_write(typed, name, stdout);
}

// before: the word before the typed one, or NULL.
static void complete(const struct argp *argp, const char *before, const char *text)
{
    struct typed_word typed = {.text = text};
    size_t name_bytes = strcspn(text, "=");
    const struct argp_option *option = before ? find(argp->options, before, strlen(before)) : NULL;
    if (!(option && option->arg) && strncmp(text, "--", 2) == 0 && text[name_bytes]) {
        option = find(argp->options, text, name_bytes);
        typed.kept = name_bytes + 1;
    }
    if (option && option->arg)
        argument_words_write(typed, option->arg, stdout);
    else if (*text == '-')
        offer_options(argp->options, typed);
    else if (argp->args_doc)
        offer_operands(argp->args_doc, typed);
}

#define FLAG_KEYS    0x400
#define KEY_HELP     'h'
#define KEY_USAGE    0x3ff
#define KEY_HELP_ALL 0x3fe

static int key_of(const struct flag *flags, size_t i)
{
    return flags[i].key || flags[i].flags & OPTION_ALIAS ? flags[i].key : FLAG_KEYS + (int)i;
}

struct argp_option *flag_options(const struct flag *flags)
{
    size_t count = 0;
    while (flags && flags[count].name)
        count++;
    struct argp_option *options = calloc(count + 1, sizeof *options);
    for (size_t i = 0, used = 0; i < count; i++)
        if (*flags[i].name)
            options[used++] = (struct argp_option){flags[i].name,  key_of(flags, i), flags[i].arg,
                                                   flags[i].flags, flags[i].doc,     0};
    return options;
}

static size_t count_of(const struct flag *flag, const char *text, struct argp_state *state)
{
    char *end;
    errno = 0;
    unsigned long long count = strtoull(text, &end, 10);
    bool whole = errno == 0 && !*end && *text >= '0' && *text <= '9';
    if (flag->max && (!whole || count < flag->min || count > flag->max))
        argp_error(state, "--%s is a whole number from %zu to %zu, not \"%s\"", flag->name, flag->min, flag->max,
                   text);
    if (!whole || count < flag->min)
        argp_error(state, "--%s is a whole number >= %zu, not \"%s\"", flag->name, flag->min, text);
    return (size_t)count;
}

// Tells whether an argument's name lists alternatives: "text|markdown".
static bool is_choice(const char *name)
{
    return name && strchr(name, '|') && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-|")] == 0;
}

static void check_choice(const char *flag, const char *words, const char *text, const struct argp_state *state)
{
    char option[64] = "";
    struct status status = {0};
    if (flag)
        snprintf(option, sizeof option, "--%s", flag);
    if (!word_check(text, words, option, &status))
        argp_error(state, "%s", status.message);
}

// The row of an argp key; NULL: none.
static const struct flag *row_of(const struct flag *flags, int key)
{
    for (size_t i = 0; flags && flags[i].name; i++) {
        bool operands = !*flags[i].name, alias = flags[i].flags & OPTION_ALIAS;
        if (key == ARGP_KEY_ARG ? operands : !operands && !alias && key_of(flags, i) == key)
            return &flags[i];
    }
    return NULL;
}

static void set(const struct flag *flag, void *input, char *text, struct argp_state *state)
{
    void *place = (char *)input + flag->place;
    const char ***list = place;
    size_t *count = (void *)((char *)input + flag->count_place);
    switch (flag->kind) {
    case FLAG_TEXT:
        *(const char **)place = text;
        break;
    case FLAG_SET:
        *(bool *)place = true;
        break;
    case FLAG_COUNT:
        *(size_t *)place = count_of(flag, text, state);
        break;
    case FLAG_VALUE:
        *(int *)place = (int)flag->min;
        break;
    case FLAG_LIST:
        *list = realloc(*list, (*count + 1) * sizeof **list);
        (*list)[(*count)++] = text;
        break;
    case FLAG_OWN:
        break;
    }
}

// State of parsing a command's arguments.
struct parsing {
    const struct flag *flags;
    argp_parser_t own;
    void *input;
    const char *title; // the command's, such as "longbp run"
    const struct argp *argp;
};

// The command of a title such as "longbp run"; NULL: none.
static const struct command *command_titled(const char *title)
{
    const char *space = strrchr(title, ' ');
    return space ? command_find(space + 1) : NULL;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    const struct parsing *parsing = state->input;
    if (key == KEY_HELP || key == KEY_HELP_ALL) {
        const struct command *command = command_titled(parsing->title);
        help_text_write(parsing->argp, parsing->title, command ? command->examples : NULL, key == KEY_HELP_ALL,
                        stdout);
        exit(EXIT_SUCCESS);
    }
    if (key == KEY_USAGE) {
        argp_help(parsing->argp, stdout, ARGP_HELP_USAGE, state->name);
        exit(EXIT_SUCCESS);
    }
    const struct flag *flag = row_of(parsing->flags, key), *operands = row_of(parsing->flags, ARGP_KEY_ARG);
    bool operand = key == ARGP_KEY_ARG;
    const char *words = operand ? parsing->argp->args_doc : flag ? flag->arg : NULL;
    if (is_choice(words))
        check_choice(operand ? NULL : flag->name, words, text, state);
    if (operand && flag && flag->kind == FLAG_TEXT && state->arg_num > 0)
        argp_error(state, "unexpected \"%s\"", text);
    if (key == ARGP_KEY_END && operands && operands->doc && state->arg_num == 0)
        argp_error(state, "%s", operands->doc);
    if (flag && flag->kind != FLAG_OWN) {
        set(flag, parsing->input, text, state);
        return 0;
    }
    state->input = parsing->input;
    error_t error = parsing->own ? parsing->own(key, text, state) : ARGP_ERR_UNKNOWN;
    state->input = (void *)parsing;
    if (operand && error == ARGP_ERR_UNKNOWN)
        argp_error(state, "unexpected \"%s\"", text);
    return error;
}

// The first unknown long option, without hyphens and value, to be freed. NULL: none, or argp reports another error
// first.
static char *unknown_option(const struct argp_option *options, int argc, char **argv)
{
    size_t count = 0, used = 0;
    while (options[count].name || options[count].doc)
        count++;
    struct getopt_option *known = calloc(count + 1, sizeof *known), *next = known;
    char *letters = calloc(2 * count + 1, 1), **words = calloc((size_t)argc + 1, sizeof *words);
    memcpy(words, argv, (size_t)argc * sizeof *words); // getopt reorders them
    for (const struct argp_option *option = options, *row = options; option < options + count; option++) {
        row = option->flags & OPTION_ALIAS ? row : option;
        if (option->key > ' ' && option->key < 0x7f)
            used += (size_t)sprintf(letters + used, "%c%s", option->key, option->arg ? ":" : "");
        if (option->name)
            *next++ =
                (struct getopt_option){option->name, row->arg ? required_argument : no_argument, NULL, row->key};
    }
    int found;
    opterr = optind = 0;
    while ((found = getopt_long(argc, words, letters, known, NULL)) != -1 && found != '?' && found != KEY_HELP &&
           found != KEY_HELP_ALL)
        ;
    const char *word = found == '?' && optopt == 0 ? words[optind - 1] + strlen("--") : NULL;
    size_t bytes = word ? strcspn(word, "=") : 0;
    for (next = known; word && next->name; next++)
        if (strncmp(next->name, word, bytes) == 0) // a prefix of several
            word = NULL;
    char *unknown = word ? strndup(word, bytes) : NULL;
    free(words);
    free(letters);
    free(known);
    return unknown;
}

// Ends the program at an unknown option and suggests a known one.
static void check_options(const struct argp_option *options, int argc, char **argv)
{
    char *unknown = unknown_option(options, argc, argv);
    struct names names = {0};
    if (!unknown)
        return;
    for (const struct argp_option *option = options; option->name || option->doc; option++)
        if (option->name && !(option->flags & OPTION_HIDDEN))
            names_add(&names, option->name);
    const char *nearest = names_nearest(&names, unknown);
    fprintf(stderr, "%s: unknown option --%s; %s%s%s`%s --help-all` lists them\n", argv[0], unknown,
            nearest ? "did you mean --" : "", nearest ? nearest : "", nearest ? "? " : "", argv[0]);
    exit(EXIT_BAD_INPUT);
}

// The command's options and those of every command; to be freed.
static struct argp_option *with_help(const struct argp_option *options)
{
    static const struct argp_option help[] = {
        {"help", .key = KEY_HELP, .doc = "print the command's purpose and the options used first", .group = -1},
        {"help-all", .key = KEY_HELP_ALL, .doc = "print the command's purpose and all of its options", .group = -1},
        {"usage", .key = KEY_USAGE, .doc = "print the usage", .group = -1},
        {0}};
    size_t count = 0;
    while (options && (options[count].name || options[count].doc))
        count++;
    struct argp_option *all = calloc(count + sizeof help / sizeof *help, sizeof *all);
    if (count)
        memcpy(all, options, count * sizeof *all);
    memcpy(all + count, help, sizeof help);
    return all;
}

void arguments_parse(const struct argp *argp, const struct flag *flags, int argc, char **argv, void *input)
{
    struct argp_option *own = argp->options ? NULL : flag_options(flags),
                       *options = with_help(own ? own : argp->options);
    const struct argp whole = {options, parse, argp->args_doc, argp->doc, NULL, NULL, NULL};
    struct parsing parsing = {flags, argp->parser, input, argv[0], &whole};
    if (argc > 1 && strcmp(argv[1], ARGUMENTS_COMPLETE) == 0) {
        complete(&whole, argc > 3 ? argv[argc - 2] : NULL, argc > 2 ? argv[argc - 1] : "");
        free(options);
        free(own);
        exit(EXIT_SUCCESS);
    }
    check_options(options, argc, argv);
    if (argp_parse(&whole, argc, argv, ARGP_NO_HELP, NULL, &parsing) != 0)
        host_memory_exhausted("arguments were read");
    free(options);
    free(own);
}

void arguments_need(const struct argp_state *state, const char *a, bool has_a, const char *b, bool has_b)
{
    if (!has_a && !has_b)
        argp_error(state, "%s and %s are needed", a, b);
    else if (!has_a || !has_b)
        argp_error(state, "%s is needed", has_a ? b : a);
}
