// Interned: texts and parsed JSON that many records share, kept in memory once.
#pragma once
#include <jansson.h>
#include <stddef.h>

struct interned_item; // a text

// Zeroed: empty.
struct interned {
    size_t count, capacity;
    struct interned_item **items; // [capacity], a hash table; NULL: free
    void *blocks;                 // memory of the items; each block links to the one filled before it
    size_t left;                  // free bytes of the current block
};

// Copies `bytes` bytes of text, adds a zero, and returns the same pointer for the same text until interned_free.
// Any bytes are allowed; the copy is aligned for pointers and doubles.
const char *interned_text(struct interned *interned, const char *text, size_t bytes);
// The text's JSON value, borrowed until interned_free; NULL if it is no JSON or has a duplicate key.
const json_t *interned_json(struct interned *interned, const char *text, size_t bytes);
// Interns a text whose value is parsed on first use by interned_item_json.
struct interned_item *interned_item(struct interned *interned, const char *text, size_t bytes);
const json_t *interned_item_json(struct interned_item *item);
// Frees the lookup tables: nothing may be added from now on.
void interned_finish(struct interned *interned);
void interned_free(struct interned *interned);
