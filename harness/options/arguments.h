// Arguments: a command's table of flags, and glibc's argp, which parses them.
// argp.h brings in getopt.h, whose `struct option` nobody here uses but whose name the methods' option table has.
#pragma once
#define option getopt_option
#include <argp.h>
#undef option
#include "harness/options/help_text.h"
#include <stdbool.h>
#include <stddef.h>

enum flag_kind {
    FLAG_OWN,   // the command's parser takes it
    FLAG_TEXT,  // const char *
    FLAG_SET,   // bool, which becomes true
    FLAG_COUNT, // size_t
    FLAG_VALUE, // an enum, which becomes `min`
    FLAG_LIST,  // const char *const *, one more each time, and how many; to be freed by the command
};

struct flag {
    const char *name; // OPERANDS: what is no option
    int key;          // a letter, for "-o"; of FLAG_OWN what the command's parser is given, below 0x400; else 0
    const char *arg;  // its argument's name (argument_words.h); NULL: none
    const char *doc;  // of OPERANDS, what is said where there is none; NULL: nothing
    int flags;        // OPTION_HIDDEN, OPTION_ALIAS, OPTION_FIRST
    enum flag_kind kind;
    size_t place, count_place; // of the value in the command's struct, of FLAG_LIST of their number
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

// What stands in argv[1] where a shell asks what may be typed next: the words after it are the command's
// arguments so far, of which the last one, maybe empty, is being typed.
#define ARGUMENTS_COMPLETE "--complete"

// The same flags for argp, with keys from 0x400 on where they have none; to be freed.
struct argp_option *flag_options(const struct flag *flags);
// Parses the arguments into `input`, the command's struct: by the table, ending in a NULL name (NULL: no flags),
// and what it does not take by argp's parser; an operand that this does not take is refused. argp's options: the
// table's and others; NULL: the table's. Ends the program for --help and --help-all, for wrong use, and after
// completing.
void arguments_parse(const struct argp *argp, const struct flag *flags, int argc, char **argv, void *input);
// Refuses what lacks one of two flags, or both: "--model is needed", "--model and --out are needed".
void arguments_need(const struct argp_state *state, const char *a, bool has_a, const char *b, bool has_b);
