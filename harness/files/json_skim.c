#include "harness/files/json_skim.h"
#include <string.h>

#define DEPTH_MAX 32

// What is left of the text.
struct skim {
    const char *at, *end;
};

static bool take(struct skim *skim, char sign)
{
    if (skim->at == skim->end || *skim->at != sign)
        return false;
    skim->at++;
    return true;
}

static void skip_space(struct skim *skim)
{
    while (skim->at < skim->end &&
           (*skim->at == ' ' || *skim->at == '\t' || *skim->at == '\n' || *skim->at == '\r'))
        skim->at++;
}

static bool skip_word(struct skim *skim, const char *word)
{
    size_t bytes = strlen(word);
    if ((size_t)(skim->end - skim->at) < bytes || memcmp(skim->at, word, bytes) != 0)
        return false;
    skim->at += bytes;
    return true;
}

static bool skip_string(struct skim *skim)
{
    if (!take(skim, '"'))
        return false;
    for (; skim->at < skim->end; skim->at++) {
        if (*skim->at == '"')
            return take(skim, '"');
        if ((signed char)*skim->at < ' ') // or above ASCII
            return false;
        if (*skim->at == '\\' && (++skim->at == skim->end || !strchr("\"\\/bfnrt", *skim->at)))
            return false;
    }
    return false;
}

static size_t skip_digits(struct skim *skim)
{
    const char *first = skim->at;
    while (skim->at < skim->end && *skim->at >= '0' && *skim->at <= '9')
        skim->at++;
    return (size_t)(skim->at - first);
}

#define DIGITS_MAX          18 // of what surely fits into 64 bits
#define EXPONENT_DIGITS_MAX 2

static bool skip_number(struct skim *skim)
{
    take(skim, '-');
    bool zero = skim->at < skim->end && *skim->at == '0';
    size_t digits = skip_digits(skim);
    if (digits == 0 || digits > DIGITS_MAX || (zero && digits > 1) || (take(skim, '.') && skip_digits(skim) == 0))
        return false;
    if (!take(skim, 'e') && !take(skim, 'E'))
        return true;
    if (!take(skim, '+'))
        take(skim, '-');
    digits = skip_digits(skim);
    return digits > 0 && digits <= EXPONENT_DIGITS_MAX;
}

static bool skip_value(struct skim *skim, size_t depth);

// Behind the opening sign, up to the closing one.
static bool skip_parts(struct skim *skim, char closing, size_t depth)
{
    skip_space(skim);
    if (take(skim, closing))
        return true;
    do {
        skip_space(skim);
        if (closing == '}' && !skip_string(skim))
            return false;
        skip_space(skim);
        if (closing == '}' && !take(skim, ':'))
            return false;
        if (!skip_value(skim, depth))
            return false;
        skip_space(skim);
    } while (take(skim, ','));
    return take(skim, closing);
}

static bool skip_value(struct skim *skim, size_t depth)
{
    skip_space(skim);
    if (skim->at == skim->end)
        return false;
    switch (*skim->at) {
    case '"':
        return skip_string(skim);
    case '{':
    case '[':
        skim->at++;
        return depth < DEPTH_MAX && skip_parts(skim, skim->at[-1] == '{' ? '}' : ']', depth + 1);
    case 't':
        return skip_word(skim, "true");
    case 'f':
        return skip_word(skim, "false");
    case 'n':
        return skip_word(skim, "null");
    default:
        return skip_number(skim);
    }
}

bool json_slice_is(struct json_slice slice, const char *string)
{
    size_t bytes = strlen(string);
    return slice.text && slice.bytes == bytes + 2 && *slice.text == '"' &&
           memcmp(slice.text + 1, string, bytes) == 0;
}

bool json_skim(const char *text, size_t bytes, const char *const *names, struct json_slice *values, size_t count)
{
    struct skim skim = {text, text + bytes};
    memset(values, 0, count * sizeof *values);
    skip_space(&skim);
    if (!take(&skim, '{'))
        return false;
    do {
        skip_space(&skim);
        struct json_slice key = {skim.at, 0};
        if (!skip_string(&skim))
            return false;
        key.bytes = (size_t)(skim.at - key.text);
        skip_space(&skim);
        if (!take(&skim, ':'))
            return false;
        skip_space(&skim);
        const char *value = skim.at;
        if (!skip_value(&skim, 0))
            return false;
        for (size_t i = 0; i < count; i++) {
            if (!json_slice_is(key, names[i]))
                continue;
            if (values[i].text)
                return false;
            values[i] = (struct json_slice){value, (size_t)(skim.at - value)};
        }
        skip_space(&skim);
    } while (take(&skim, ','));
    if (!take(&skim, '}'))
        return false;
    skip_space(&skim);
    return skim.at == skim.end;
}
