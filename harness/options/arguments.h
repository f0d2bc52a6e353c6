// Arguments: a command's table of flags, and glibc's argp, which parses them. argp.h includes getopt.h, whose
// unused `struct option` has the name of the methods' option table.
#pragma once
#define option getopt_option
#include <argp.h>
#undef option
#include "harness/options/help_text.h"
#include <stdbool.h>
#include <stddef.h>

enum flag_kind {
    FLAG_OWN,   // handled by the command's parser
    FLAG_TEXT,  // const char *
    FLAG_SET,   // bool, set to true
    FLAG_COUNT, // size_t
    FLAG_VALUE, // an enum, set to `min`
    FLAG_LIST,  // const char *const * with a count, one more each time; freed by the command
};

struct flag {
    const char *name; // OPERANDS: the command's operands
    int key;          // a letter, for "-o"; for FLAG_OWN the parser's key, below 0x400; else 0
    const char *arg;  // its argument's name (argument_words.h); NULL: none
    const char *doc;  // for OPERANDS, the message if there are none; NULL: optional
    int flags;        // OPTION_HIDDEN, OPTION_ALIAS, OPTION_FIRST
    enum flag_kind kind;
    size_t place, count_place; // offsets in the command's struct: of the value, and of FLAG_LIST's count
    size_t min, max;           // FLAG_COUNT; max 0: any
};
#define OPERANDS ""

#define TEXT_AT(type, member)         .kind = FLAG_TEXT, .place = offsetof(type, member)
#define SET_AT(type, member)          .kind = FLAG_SET, .place = offsetof(type, member)
#define VALUE_AT(type, member, value) .kind = FLAG_VALUE, .place = offsetof(type, member), .min = (value)
#define LIST_AT(type, member, count)                                                                               \
    .kind = FLAG_LIST, .place = offsetof(type, member), .count_place = offsetof(type, count)
#define COUNT_AT(type, member, from, to)                                                                           \
    .kind = FLAG_COUNT, .place = offsetof(type, member), .min = (from), .max = (to)

// argv[1] when a shell requests completions: the following words are the command's arguments so far; the last one,
// possibly empty, is being typed.
#define ARGUMENTS_COMPLETE "--complete"

// The flags for argp, with keys from 0x400 on for those without one; to be freed.
struct argp_option *flag_options(const struct flag *flags);
// Parses the arguments into `input`, the command's struct, by the table, which ends in a NULL name (NULL: no
// flags), and the rest by argp's parser; refuses operands that neither takes. argp's options: the table's and
// others; NULL: the table's. Ends the program for --help and --help-all, for wrong use, and after completions.
void arguments_parse(const struct argp *argp, const struct flag *flags, int argc, char **argv, void *input);
// Reports missing flags: "--model is needed", "--model and --out are needed".
void arguments_need(const struct argp_state *state, const char *a, bool has_a, const char *b, bool has_b);
