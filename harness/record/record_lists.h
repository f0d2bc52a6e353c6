// Record lists: the records of both sides of a comparison, grouped by key and matched.
#pragma once
#include "harness/record/record.h"

// The records of one key, in their side's order.
struct record_list {
    const char *key;
    size_t count, first;             // first: index in the side of its first record
    const struct record **records;   // [count]
    const struct record_list *match; // the other side's list of this key; NULL: none
};

struct record_lists {
    size_t count;
    struct record_list *lists;           // [count], by key
    const struct record_list **in_order; // [count], by first occurrence in the side
    const struct record **records;       // storage of all lists
};

// The records of one side, borrowed, each with its key.
struct keyed_records {
    size_t count;
    const struct record **records; // [count]
    const char **keys;             // [count]
};
void keyed_records_add(struct keyed_records *keyed, const struct record *record, const char *key);
void keyed_records_free(struct keyed_records *keyed);

// Release with record_lists_free.
void record_lists_make(struct record_lists *lists, const struct keyed_records *side);
// Sets each list's match.
void record_lists_match(struct record_lists *a, struct record_lists *b);
void record_lists_free(struct record_lists *lists);
const struct record *record_list_last(const struct record_list *list);
