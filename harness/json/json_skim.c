#include "harness/json/json_skim.h"
#include <string.h>

#define DEPTH_MAX 32

static bool take(struct json_cursor *cursor, char sign)
{
    if (cursor->at == cursor->end || *cursor->at != sign)
        return false;
    cursor->at++;
    return true;
}

void json_cursor_space(struct json_cursor *cursor)
{
    while (cursor->at < cursor->end &&
           (*cursor->at == ' ' || *cursor->at == '\t' || *cursor->at == '\n' || *cursor->at == '\r'))
        cursor->at++;
}

bool json_cursor_take(struct json_cursor *cursor, char sign)
{
    json_cursor_space(cursor);
    return take(cursor, sign);
}

bool json_cursor_word(struct json_cursor *cursor, const char *word)
{
    size_t bytes = strlen(word);
    if ((size_t)(cursor->end - cursor->at) < bytes || memcmp(cursor->at, word, bytes) != 0)
        return false;
    cursor->at += bytes;
    return true;
}

bool json_cursor_string(struct json_cursor *cursor)
{
    static const char escapes[] = "\"\\/bfnrt";
    if (!take(cursor, '"'))
        return false;
    for (; cursor->at < cursor->end; cursor->at++) {
        if (*cursor->at == '"')
            return take(cursor, '"');
        if ((signed char)*cursor->at < ' ') // or above ASCII
            return false;
        if (*cursor->at == '\\' &&
            (++cursor->at == cursor->end || !memchr(escapes, *cursor->at, sizeof escapes - 1)))
            return false;
    }
    return false;
}

static size_t skip_digits(struct json_cursor *cursor)
{
    const char *first = cursor->at;
    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9')
        cursor->at++;
    return (size_t)(cursor->at - first);
}

#define DIGITS_MAX          18 // of what surely fits into 64 bits
#define EXPONENT_DIGITS_MAX 2

bool json_cursor_number(struct json_cursor *cursor)
{
    take(cursor, '-');
    bool zero = cursor->at < cursor->end && *cursor->at == '0';
    size_t digits = skip_digits(cursor);
    if (digits == 0 || digits > DIGITS_MAX || (zero && digits > 1) ||
        (take(cursor, '.') && skip_digits(cursor) == 0))
        return false;
    if (!take(cursor, 'e') && !take(cursor, 'E'))
        return true;
    if (!take(cursor, '+'))
        take(cursor, '-');
    digits = skip_digits(cursor);
    return digits > 0 && digits <= EXPONENT_DIGITS_MAX;
}

static bool skip_value(struct json_cursor *cursor, size_t depth);

// Behind the opening sign, up to the closing one.
static bool skip_parts(struct json_cursor *cursor, char closing, size_t depth)
{
    json_cursor_space(cursor);
    if (take(cursor, closing))
        return true;
    do {
        json_cursor_space(cursor);
        if (closing == '}' && !json_cursor_string(cursor))
            return false;
        json_cursor_space(cursor);
        if (closing == '}' && !take(cursor, ':'))
            return false;
        if (!skip_value(cursor, depth))
            return false;
        json_cursor_space(cursor);
    } while (take(cursor, ','));
    return take(cursor, closing);
}

static bool skip_value(struct json_cursor *cursor, size_t depth)
{
    json_cursor_space(cursor);
    if (cursor->at == cursor->end)
        return false;
    switch (*cursor->at) {
    case '"':
        return json_cursor_string(cursor);
    case '{':
    case '[':
        cursor->at++;
        return depth < DEPTH_MAX && skip_parts(cursor, cursor->at[-1] == '{' ? '}' : ']', depth + 1);
    case 't':
        return json_cursor_word(cursor, "true");
    case 'f':
        return json_cursor_word(cursor, "false");
    case 'n':
        return json_cursor_word(cursor, "null");
    default:
        return json_cursor_number(cursor);
    }
}

bool json_cursor_value(struct json_cursor *cursor)
{
    return skip_value(cursor, 0);
}

bool json_slice_is(struct json_slice slice, const char *string)
{
    size_t bytes = strlen(string);
    return slice.text && slice.bytes == bytes + 2 && *slice.text == '"' &&
           memcmp(slice.text + 1, string, bytes) == 0;
}

bool json_skim(const char *text, size_t bytes, const char *const *names, struct json_slice *values, size_t count)
{
    struct json_cursor cursor = {text, text + bytes};
    memset(values, 0, count * sizeof *values);
    json_cursor_space(&cursor);
    if (!take(&cursor, '{'))
        return false;
    do {
        json_cursor_space(&cursor);
        struct json_slice key = {cursor.at, 0};
        if (!json_cursor_string(&cursor))
            return false;
        key.bytes = (size_t)(cursor.at - key.text);
        json_cursor_space(&cursor);
        if (!take(&cursor, ':'))
            return false;
        json_cursor_space(&cursor);
        const char *value = cursor.at;
        if (!skip_value(&cursor, 0))
            return false;
        for (size_t i = 0; i < count; i++) {
            if (!json_slice_is(key, names[i]))
                continue;
            if (values[i].text)
                return false;
            values[i] = (struct json_slice){value, (size_t)(cursor.at - value)};
        }
        json_cursor_space(&cursor);
    } while (take(&cursor, ','));
    if (!take(&cursor, '}'))
        return false;
    json_cursor_space(&cursor);
    return cursor.at == cursor.end;
}
