// Words: that a text is to hold, such as a report.
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

// The text itself, with every run of spaces as one.
static inline char *squeezed(char *text)
{
    char *out = text;
    for (const char *in = text; *in; in++)
        if (*in != ' ' || (out > text && out[-1] != ' '))
            *out++ = *in;
    *out = 0;
    return text;
}

static inline void expect_words(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (!strstr(text, *words))
            fail_msg("\"%s\" is not in\n%s", *words, text);
}
