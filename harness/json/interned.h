// Interned: texts, arrays, and JSON by its text, that many records have in common, in memory once.
#pragma once
#include <jansson.h>
#include <stddef.h>

struct interned_item; // a text

// Zeroed: empty.
struct interned {
    size_t count, capacity;
    struct interned_item **items; // [capacity], a hash table; NULL: free
    void *blocks;                 // what the items are in, each after the one that was filled before it
    size_t left;                  // bytes of the block that is being filled
};

// The text, of so many bytes, with a zero after it; the same pointer for the same text, until interned_free. It may
// be the bytes of any array, and is aligned for pointers and doubles.
const char *interned_text(struct interned *interned, const char *text, size_t bytes);
// The value that the text is, borrowed until interned_free; NULL: it is no JSON, or has a key twice.
const json_t *interned_json(struct interned *interned, const char *text, size_t bytes);
// The text whose value may be asked for later, which makes it then.
struct interned_item *interned_item(struct interned *interned, const char *text, size_t bytes);
const json_t *interned_item_json(struct interned_item *item);
// Releases what looking up takes: nothing may be added from now on.
void interned_finish(struct interned *interned);
void interned_free(struct interned *interned);
