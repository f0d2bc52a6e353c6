#include "harness/folder/python_pattern.h"
#include "kernels/base/host_memory.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define ASCII 128

// A pattern being translated. POSIX has none of Python's escapes, and reads sets by other rules.
struct translation {
    const char *at;
    char *out; // the end of what was written, in room for all
    struct status *status;
    const char *whole;
};

static bool fail(const struct translation *t, const char *what)
{
    return status_set(t->status, STATUS_BAD_INPUT, "%s in the regular expression \"%.200s\"", what, t->whole);
}

// Whether it stands for a class, whose characters are then added.
static bool add_class(bool set[ASCII], char name)
{
    for (int c = 1; c < ASCII; c++) {
        bool in;
        switch (tolower(name)) {
        case 'd':
            in = isdigit(c);
            break;
        case 'w':
            in = isalnum(c) || c == '_';
            break;
        case 's':
            in = isspace(c);
            break;
        default:
            return false;
        }
        set[c] |= in != (isupper(name) != 0);
    }
    return true;
}

// A POSIX set without ranges: in one "]" comes first, "-" last, and "^" not first.
static void write_set(struct translation *t, const bool set[ASCII])
{
    *t->out++ = '[';
    if (set[']'])
        *t->out++ = ']';
    for (int c = 1; c < ASCII; c++)
        if (set[c] && !strchr("]^-", c))
            *t->out++ = (char)c;
    if (set['^']) {
        if (t->out[-1] == '[')
            *t->out++ = '-'; // which no name of a module has
        *t->out++ = '^';
    }
    if (set['-'])
        *t->out++ = '-';
    *t->out++ = ']';
}

// One character of a set, or a class, which has no number: -1; or -2 and a status.
static int read_member(struct translation *t, bool set[ASCII])
{
    int c = (unsigned char)*t->at++;
    if (c == '\\') {
        c = (unsigned char)*t->at;
        if (c && add_class(set, (char)c)) {
            t->at++;
            return -1;
        }
        if (!c || isalnum(c))
            return fail(t, "an escape that is not read"), -2;
        t->at++;
    }
    return c < ASCII ? c : (fail(t, "a character that no name of a module has"), -2);
}

// From behind "[" on.
static bool read_set(struct translation *t)
{
    bool set[ASCII] = {false}, negated = *t->at == '^', any = false;
    t->at += negated;
    for (; *t->at && (*t->at != ']' || !any); any = true) {
        int first = read_member(t, set), last = first;
        if (first >= 0 && t->at[0] == '-' && t->at[1] && t->at[1] != ']') {
            t->at++;
            last = read_member(t, set);
        }
        if (first == -2 || last == -2)
            return false;
        if (last < first)
            return fail(t, "a range that ends before it begins");
        for (int c = first; first > 0 && c <= last; c++)
            set[c] = true;
    }
    if (*t->at++ != ']')
        return fail(t, "a set without an end");
    for (int c = 1; negated && c < ASCII; c++)
        set[c] = !set[c];
    write_set(t, set);
    return true;
}

static bool read_escape(struct translation *t)
{
    bool set[ASCII] = {false};
    char c = *t->at++;
    if (c && add_class(set, c)) {
        write_set(t, set);
    } else if (c == 'A' || c == 'Z') {
        *t->out++ = c == 'A' ? '^' : '$';
    } else if (!c || isalnum((unsigned char)c)) {
        return fail(t, "an escape that is not read");
    } else {
        if (strchr(".[](){}*+?|^$\\", c))
            *t->out++ = '\\';
        *t->out++ = c;
    }
    return true;
}

// From behind "(" on: how a group begins makes no difference to whether a whole name matches.
static bool read_group(struct translation *t)
{
    *t->out++ = '(';
    if (*t->at != '?')
        return true;
    const char *end = strncmp(t->at, "?P<", 3) == 0 ? strchr(t->at, '>') : t->at[1] == ':' ? t->at + 1 : NULL;
    if (!end)
        return fail(t, "a group other than (...), (?:...) and (?P<name>...)");
    t->at = end + 1;
    return true;
}

// From behind a quantifier on.
static bool read_greed(struct translation *t)
{
    if (*t->at == '+')
        return fail(t, "a possessive quantifier");
    t->at += *t->at == '?'; // lazy or not, the same names match
    return !*t->at || !strchr("*+?{", *t->at) || fail(t, "a quantifier of a quantifier");
}

static bool read_one(struct translation *t)
{
    char c = *t->at++;
    if ((unsigned char)c >= ASCII)
        return fail(t, "a character that no name of a module has");
    if (c == '\\')
        return read_escape(t);
    if (c == '[')
        return read_set(t);
    if (c == '(')
        return read_group(t);
    if (strchr("*+?{", c) && strchr("(|^", t->out[-1]))
        return fail(t, "a quantifier of nothing");
    *t->out++ = c;
    return !strchr("*+?}", c) || read_greed(t);
}

bool python_pattern_compile(struct python_pattern *pattern, const char *before, const char *text, const char *after,
                            struct status *status)
{
    char *posix = malloc(strlen(before) + (strlen(text) + 1) * (ASCII + 4) + strlen(after) + 4);
    struct translation t = {.at = text, .out = posix, .status = status, .whole = text};
    t.out += sprintf(posix, "%s(", before);
    bool read = true;
    while (read && *t.at)
        read = read_one(&t);
    sprintf(t.out, ")%s", after);
    if (read && regcomp(&pattern->regex, posix, REG_EXTENDED | REG_NOSUB) != 0)
        read = fail(&t, "a syntax error");
    free(posix);
    return read;
}

bool python_pattern_matches(const struct python_pattern *pattern, const char *text)
{
    int error = regexec(&pattern->regex, text, 0, NULL, 0);
    if (error == REG_ESPACE)
        host_memory_exhausted("matching a regular expression");
    return error == 0;
}

void python_pattern_free(struct python_pattern *pattern)
{
    regfree(&pattern->regex);
}
