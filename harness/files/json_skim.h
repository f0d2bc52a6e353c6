// JSON skim: whether a text is JSON, and where some of it stands, without building it: a hundredth of the time that
// reading it takes, and no memory.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// A value as it stands in the text, quotes and braces included; NULL: there is none.
struct json_slice {
    const char *text;
    size_t bytes;
};

// Looks for `count` members of the object that the text is. False if it is no object, is not JSON, has one of the
// members twice, or has what takes a closer look: other than ASCII, \u, numbers near the largest, deep nesting.
bool json_skim(const char *text, size_t bytes, const char *const *names, struct json_slice *values, size_t count);
// Whether the slice is the string, which needs no escapes.
bool json_slice_is(struct json_slice slice, const char *string);
