// Options: what a method, an objective or an optimizer can be asked. Each has a struct of its own and a table of
// its members, in its own file; specs, the command line, help, ids and records are made from the table.
#pragma once
#include "kernels/base/index_list.h"
#include <stddef.h>
#include <stdint.h>

enum option_type { OPTION_COUNT, OPTION_NUMBER, OPTION_CHOICE, OPTION_LIST };

struct option {
    const char *name;
    enum option_type type;
    size_t offset;              // of the value in the owner's struct: size_t, double, int, struct index_list
    double minimum, maximum;    // OPTION_COUNT, OPTION_NUMBER, and of an OPTION_LIST's items
    double initial;             // default; for OPTION_CHOICE the index; a list's is empty
    double card_rows;           // OPTION_COUNT of tokens: on a card the default fills so many rows; 0: is `initial`
    const char *const *choices; // OPTION_CHOICE: names in the order of the enum, ending in NULL
    const char *help;           // one line, with the unit
    bool tokens;                // OPTION_COUNT: of tokens, and may be given as 32K or 1M
    bool share;                 // OPTION_COUNT: may be given as a share of what there is, "25%"
    bool draws;                 // how many chunks are drawn: what figures show estimates against
    bool telling;               // it says how much is kept and computed: lines and labels show its default, too
    bool unsaid; // left out of ids and records at its default: it came later than records of its owner did
    // What a search over methods tries: sets the value to number `index` of what is worth trying in a model
    // of so many layers at such a context; false: there is no such number. NULL: the value stays as it is.
    bool (*nth)(const struct option *option, void *value, size_t index, size_t layers, size_t context);
    // From each of these values to the next a step takes no less memory and, by a roofline and where nothing waits
    // for copies, no more time: a search bisects those of a table's first such option, and where the first values
    // of all of them do not fit, no others do.
    bool ascending;
};

// What its owner is asked through: its rows, in the order in which labels show them, ending with a NULL name, and
// the bytes of its struct, whose lists belong to it. A zeroed one has no options.
struct option_table {
    const struct option *rows;
    size_t bytes;
};

// The first members of a row: its name, a type less its prefix, and the owner's struct and member.
#define OPTION(option_name, option_type, options, member)                                                          \
    .name = (option_name), .type = OPTION_##option_type, .offset = offsetof(options, member)
// Whole numbers above this have no exact double, and no use.
#define OPTION_COUNT_MAX 9007199254740992.0
#define OPTION_CHOICES(...)                                                                                        \
    (const char *const[])                                                                                          \
    {                                                                                                              \
        __VA_ARGS__, NULL                                                                                          \
    }

// The row of this name, or NULL.
const struct option *option_find(const struct option_table *table, const char *name);
// The row that says how many chunks are drawn, or NULL.
const struct option *option_draws(const struct option_table *table);
// All defaults. Release with options_free.
void *options_new(const struct option_table *table);
// The default of an option that has another one on a card: the largest power of two of tokens that fills at most so
// many rows with a batch of so many sequences, but no less than `initial`.
size_t option_on_card(double card_rows, size_t initial, size_t batch);
#define OPTION_ON_CARD "%.15g, on a card %.15g over the batch" // both, in words
// Gives those that have one that default.
void options_suit_card(const struct option_table *table, void *options, size_t batch);
// A copy with lists of its own. Release with options_free.
void *options_copy(const struct option_table *table, const void *options);
void options_free(const struct option_table *table, void *options);
// A number of OPTION_COUNT; `otherwise` if the table has none of this name.
size_t options_count(const struct option_table *table, const void *options, const char *name, size_t otherwise);
// The same of an OPTION_NUMBER.
double options_number(const struct option_table *table, const void *options, const char *name, double otherwise);
// The index of an OPTION_CHOICE; `otherwise` if the table has none of this name.
int options_choice(const struct option_table *table, const void *options, const char *name, int otherwise);
// Sets a value as the command line writes it: "128", "0.5", "all", "1,3". False if there is no such option; or no
// such value of it, which may then be anything.
bool options_set(const struct option_table *table, void *options, const char *name, const char *value);
