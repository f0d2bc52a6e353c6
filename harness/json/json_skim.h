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

// What is left of a text that is read from its beginning on. Each of these steps over what it is called after, and
// returns false, with the cursor anywhere, if that is not there, or takes the same closer look.
struct json_cursor {
    const char *at, *end;
};
void json_cursor_space(struct json_cursor *cursor);
bool json_cursor_take(struct json_cursor *cursor, char sign); // after white space
bool json_cursor_word(struct json_cursor *cursor, const char *word);
bool json_cursor_string(struct json_cursor *cursor);
bool json_cursor_number(struct json_cursor *cursor);
bool json_cursor_value(struct json_cursor *cursor); // any, after white space
