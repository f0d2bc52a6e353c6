#include "harness/options/argument_words.h"
#include "harness/options/command.h"
#include "harness/options/option_words.h"
#include "harness/plot/plot.h"
#include "harness/profile/profile.h"
#include "harness/record/record_fields.h"
#include "harness/spec/method_decode.h"
#include "harness/spec/trial_keys.h"
#include "harness/text/text.h"
#include "kernels/device/device.h"
#include <ctype.h>
#include <string.h>

#define ITEM_BYTES 256

typedef void visit_word(void *visitor, const char *word, const char *about);

static void visit_methods(visit_word *visit, void *visitor)
{
    for (size_t i = 0; methods[i]; i++)
        visit(visitor, methods[i]->name, methods[i]->summary);
    visit(visitor, method_auto.name, method_auto.summary);
}

static void visit_objectives(visit_word *visit, void *visitor)
{
    for (size_t i = 0; objectives[i]; i++)
        visit(visitor, objectives[i]->name, objectives[i]->summary);
}

static void visit_optimizers(visit_word *visit, void *visitor)
{
    for (size_t i = 0; optimizers[i]; i++)
        visit(visitor, optimizers[i]->name, optimizers[i]->summary);
}

static void visit_presets(visit_word *visit, void *visitor)
{
    for (const struct config *config = config_presets; config->name[0]; config++)
        visit(visitor, config->name, "a preset");
}

static void visit_profiles(visit_word *visit, void *visitor)
{
    struct named_files list;
    profile_list_read(&list);
    for (size_t i = 0; i < list.names.count; i++)
        visit(visitor, list.names.items[i], "a device profile");
}

static void visit_interconnects(visit_word *visit, void *visitor)
{
    struct named_files list;
    interconnect_list(&list);
    for (size_t i = 0; i < list.names.count; i++)
        visit(visitor, list.names.items[i], "interconnect of ranks");
}

static void visit_devices(visit_word *visit, void *visitor)
{
    for (const char *const *name = device_names(); *name; name++)
        visit(visitor, *name, "a device");
}

static void visit_dtypes(visit_word *visit, void *visitor)
{
    for (int i = 0; i <= DTYPE_BF16; i++)
        visit(visitor, dtype_name((enum dtype)i), "a dtype");
}

static void visit_figures(visit_word *visit, void *visitor)
{
    char names[512], *rest = names, *name;
    plot_figures(",", names, sizeof names);
    while ((name = strsep(&rest, ",")))
        visit(visitor, name, "a figure");
}

// The words of method options of this type.
static void visit_targets(visit_word *visit, void *visitor)
{
    struct names seen = {0};
    for (size_t i = 0; methods[i]; i++)
        for (const struct option *option = methods[i]->options.rows; option->name; option++)
            for (size_t w = 0; option->type == OPTION_WORDS && option->choices[w]; w++) {
                if (names_find(&seen, option->choices[w]) < seen.count)
                    continue;
                names_add(&seen, option->choices[w]);
                visit(visitor, option->choices[w], "an offload target");
            }
}

static void visit_keys(visit_word *visit, void *visitor)
{
    for (const struct trial_key *key = trial_keys; key->name; key++)
        visit(visitor, key->name, key->meaning);
    const struct option *option;
    for (size_t i = 0; (option = methods_option(i)); i++)
        visit(visitor, option->name, option->help);
}

static void visit_columns(visit_word *visit, void *visitor)
{
    visit_keys(visit, visitor);
    for (const struct record_field *field = record_fields; field->name; field++)
        visit(visitor, field->name, field->meaning ? field->meaning : "");
}

static void visit_commands(visit_word *visit, void *visitor)
{
    for (const struct command *command = commands; command->name; command++)
        if (command->summary)
            visit(visitor, command->name, command->summary);
}

static void visit_files(visit_word *visit, void *visitor)
{
    visit(visitor, NULL, ":file");
}

static void visit_folders(visit_word *visit, void *visitor)
{
    visit(visitor, NULL, ":folder");
}

static const struct kind {
    const char *name;
    void (*visit)(visit_word *visit, void *visitor);
} kinds[] = {{"METHOD", visit_methods},       {"OBJECTIVE", visit_objectives},
             {"OPTIMIZER", visit_optimizers}, {"PRESET", visit_presets},
             {"PROFILE", visit_profiles},     {"DEVICE", visit_devices},
             {"DTYPE", visit_dtypes},         {"FIGURE", visit_figures},
             {"TARGET", visit_targets},       {"KEY", visit_keys},
             {"COLUMN", visit_columns},       {"COMMAND", visit_commands},
             {"DIR", visit_folders},          {"FILE", visit_files},
             {"PROGRAM", visit_files},        {"SPEC", visit_files},
             {"RESULTS", visit_files},        {"BASE", visit_files},
             {"CLAIMS", visit_files},         {"INTERCONNECT", visit_interconnects}};

static const struct kind *kind_find(const char *name)
{
    size_t bytes = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"); // "COLUMN[:desc]", "RESULTS..."
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strlen(kinds[i].name) == bytes && strncmp(kinds[i].name, name, bytes) == 0)
            return &kinds[i];
    return NULL;
}

struct offer {
    struct typed_word typed;
    const char *end;
    FILE *stream;
};

static void offer_word(void *visitor, const char *word, const char *about)
{
    const struct offer *offer = visitor;
    if (word)
        typed_word_offer(offer->typed, word, offer->end, about, offer->stream);
    else
        fprintf(offer->stream, "%s\n", about);
}

// Tells whether a list has the word, or a value of it, before the item being typed.
static bool is_listed(struct typed_word typed, const char *word)
{
    size_t length = strlen(word);
    const char *end = typed.text + typed.kept, *start = typed.text;
    if (typed.kept == 0 || end[-1] != ',')
        return false;
    for (const char *at = start; at < end; at++) {
        bool first = at == start || at[-1] == ',' || at[-1] == '=';
        if (first && strncmp(at, word, length) == 0 && strchr(",=", at[length]) && at[length])
            return true;
    }
    return false;
}

void typed_word_offer(struct typed_word typed, const char *word, const char *end, const char *about, FILE *stream)
{
    const char *begun = typed.text + typed.kept;
    if (strncmp(word, begun, strlen(begun)) == 0 && !is_listed(typed, word))
        fprintf(stream, "%.*s%s%s\t%s\n", (int)typed.kept, typed.text, word, end, about);
}

// Offers a word, or the words of a kind, followed by `end`.
static void offer_named(struct offer offer, const char *name)
{
    const struct kind *kind = kind_find(name);
    if (kind)
        kind->visit(offer_word, &offer);
    else if (!isupper((unsigned char)*name))
        offer_word(&offer, name, "");
}

// Offers the values of a trial's key or of a method's option.
static void offer_values(struct offer offer, const char *key)
{
    const struct option *option = methods_option_find(key);
    const struct trial_key *row = trial_key_named(key);
    char *argument = option ? option_argument(option) : strdup(row && row->argument ? row->argument : "N");
    argument_words_write(offer.typed, argument, offer.stream);
    free(argument);
}

// Offers one of an item's alternatives: "text", "METHOD", "KEY=VALUE", "folder=DIR".
static void offer_alternative(struct offer offer, char *alternative)
{
    const char *begun = offer.typed.text + offer.typed.kept, *value = strchr(begun, '=');
    char name[ITEM_BYTES], *equals = strchr(alternative, '=');
    if (!equals) {
        offer_named(offer, alternative);
        return;
    }
    *equals = 0;
    if (!value) {
        offer.end = "=";
        offer_named(offer, alternative);
        return;
    }
    snprintf(name, sizeof name, "%.*s", (int)(value - begun), begun);
    offer.typed.kept += (size_t)(value + 1 - begun);
    if (strcmp(alternative, "KEY") == 0)
        offer_values(offer, name);
    else if (strcmp(alternative, name) == 0)
        offer_named(offer, equals + 1);
}

void argument_words_write(struct typed_word typed, const char *argument, FILE *stream)
{
    const char *comma, *item = argument;
    while ((comma = strchr(typed.text + typed.kept, ','))) {
        typed.kept = (size_t)(comma + 1 - typed.text);
        if (!strchr(argument, ',')) // not a list
            return;
        item = strchr(item, ',') ? strchr(item, ',') + 1 : item;
    }
    char alternatives[ITEM_BYTES], *rest = alternatives, *alternative;
    snprintf(alternatives, sizeof alternatives, "%.*s", (int)strcspn(item, ","), item);
    const struct offer offer = {typed, "", stream};
    while ((alternative = strsep(&rest, "|")))
        offer_alternative(offer, alternative);
}

struct listing {
    const char *last;
    char *text;
    size_t bytes;
};

static void list_word(void *visitor, const char *word, const char *about)
{
    (void)about;
    struct listing *listing = visitor;
    if (listing->last)
        text_append(listing->text, listing->bytes, "%s%s", *listing->text ? ", " : "", listing->last);
    listing->last = word;
}

void argument_words_list(const char *kind, char *text, size_t bytes)
{
    const struct kind *row = kind_find(kind);
    struct listing listing = {.text = text, .bytes = bytes};
    *text = 0;
    if (!row)
        return;
    row->visit(list_word, &listing);
    text_append(text, bytes, " or %s", listing.last);
}
