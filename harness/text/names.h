// Names: the names that are known where a wrong one was found, so that a message can say which was meant and
// which there are. The strings are borrowed.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define NAMES_MAX 512

struct names {
    size_t count;
    const char *items[NAMES_MAX];
};

void names_add(struct names *names, const char *name);
// Adds an array that ends in NULL.
void names_add_all(struct names *names, const char *const *all);
// Position of a name, or names->count if it is not there.
size_t names_find(const struct names *names, const char *name);
// The name that was misspelt: one edit away, two from six letters on (inserted, dropped, changed or swapped
// neighbours: Damerau 1964), or the only one that begins so. Case and the kind of separator are no edits; digits
// are never edited, as another number is another thing. NULL if there is none.
const char *names_nearest(const struct names *names, const char *found);
// Writes `did you mean "chunk"? known keys: chunk, keep`; `known` is that middle part. The first half is left out
// if no name is near. found may be NULL.
void names_hint(const struct names *names, const char *found, const char *known, char *text, size_t bytes);
