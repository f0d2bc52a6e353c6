// Quoted: JSON in tests, written with ' for ", so that it can be read.
#pragma once
#include <stdlib.h>
#include <string.h>

// A copy with every ' as ", to be freed.
static inline char *quoted(const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        abort();
    for (char *c = copy; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    return copy;
}
