// Options: the options of a method, an objective or an optimizer. Each has a struct and a table of its members in
// its own file; specs, the command line, help, ids and records are made from the table.
#pragma once
#include "kernels/base/index_list.h"
#include <stddef.h>
#include <stdint.h>

enum option_type { OPTION_COUNT, OPTION_NUMBER, OPTION_CHOICE, OPTION_LIST, OPTION_WORDS };

struct option {
    const char *name;
    enum option_type type;
    size_t offset; // of the member in the owner's struct: size_t, double, int, struct index_list, unsigned
    double minimum, maximum; // OPTION_COUNT, OPTION_NUMBER, and of an OPTION_LIST's items
    double initial;          // default; for OPTION_CHOICE the index; lists and words have none
    double card_rows;        // OPTION_COUNT of tokens: the default on a card fills this many rows; 0: `initial`
    const char *const
        *choices;     // OPTION_CHOICE: names in the order of the enum, ending in NULL; OPTION_WORDS: of bits
    const char *help; // one line, with the unit
    bool tokens;      // OPTION_COUNT: of tokens, and may be given as 32K or 1M
    bool share;       // OPTION_COUNT: may be a share of the total, "25%"
    bool draws;       // the number of drawn chunks, which figures show estimates against
    bool telling;     // determines memory and computation: lines and labels show its default, too
    bool unsaid;      // omitted from ids and records at its default, because older records lack it
    // Candidates of a search over methods: sets the value to candidate `index` for a model of this many layers and
    // this context; false: no such candidate. NULL: the search leaves the option alone.
    bool (*nth)(const struct option *option, void *value, size_t index, size_t layers, size_t context);
    // From each candidate to the next, memory does not fall and, by a roofline without waits for copies, time does
    // not rise. A search bisects a table's first such option; if the first candidates of all of them do not fit,
    // none do.
    bool ascending;
};

// An owner's options: rows in the order of labels, ending with a NULL name, and the size of its struct, which owns
// its lists. A zeroed table has no options.
struct option_table {
    const struct option *rows;
    size_t bytes;
};

// The first members of a row: its name, a type less its prefix, and the owner's struct and member.
#define OPTION(option_name, option_type, options, member)                                                          \
    .name = (option_name), .type = OPTION_##option_type, .offset = offsetof(options, member)
// Larger whole numbers have no exact double, and no use.
#define OPTION_COUNT_MAX 9007199254740992.0
#define OPTION_CHOICES(...)                                                                                        \
    (const char *const[])                                                                                          \
    {                                                                                                              \
        __VA_ARGS__, NULL                                                                                          \
    }

// The option of this name, or NULL.
const struct option *option_find(const struct option_table *table, const char *name);
// The option that holds the number of drawn chunks, or NULL.
const struct option *option_draws(const struct option_table *table);
// A struct with all defaults. Release with options_free.
void *options_new(const struct option_table *table);
// An option's default on a card: the largest power of two of tokens that, with `batch` sequences, fills at most
// card_rows rows, but at least `initial`.
size_t option_on_card(double card_rows, size_t initial, size_t batch);
#define OPTION_ON_CARD "%.15g, on a card %.15g over the batch" // both, in words
// Sets the options with a default for cards to it.
void options_suit_card(const struct option_table *table, void *options, size_t batch);
// A deep copy. Release with options_free.
void *options_copy(const struct option_table *table, const void *options);
void options_free(const struct option_table *table, void *options);
// Value of an OPTION_COUNT; `otherwise` if the table has no such option.
size_t options_count(const struct option_table *table, const void *options, const char *name, size_t otherwise);
// Value of an OPTION_NUMBER.
double options_number(const struct option_table *table, const void *options, const char *name, double otherwise);
// Index of an OPTION_CHOICE; `otherwise` if the table has no such option.
int options_choice(const struct option_table *table, const void *options, const char *name, int otherwise);
// Bits of an OPTION_WORDS; 0 if the table has no such option.
unsigned options_words(const struct option_table *table, const void *options, const char *name);
// Tells whether the option is one of choices or words and has this one; NULL: no.
bool option_offers(const struct option *option, const char *word);
// Sets a value written as on the command line: "128", "0.5", "all", "1,3", "inputs,weights". Returns false if there
// is no such option or the value is invalid; the option is then undefined.
bool options_set(const struct option_table *table, void *options, const char *name, const char *value);
