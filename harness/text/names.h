// Names: a list of known names, for messages about a wrong one that suggest the name meant. Strings are borrowed.
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
// The name that was misspelt: one edit away, or two from six letters on (inserted, dropped, changed or swapped
// letters: Damerau 1964), or the only name with this prefix. Case and separators do not count; digits are never
// edited, because another number is another thing. NULL if there is none.
const char *names_nearest(const struct names *names, const char *found);
// Writes `did you mean "chunk"? known keys: chunk, keep`; `known` is the middle part. The first half is left out if
// no name is near. found may be NULL.
void names_hint(const struct names *names, const char *found, const char *known, char *text, size_t bytes);
