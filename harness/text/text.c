#include "harness/text/text.h"
#include "kernels/base/status.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_append(char *text, size_t bytes, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, bytes - used, format, arguments);
    va_end(arguments);
    for (char *c = text + used; *c; c++)
        memset(c, ' ', control_character(c));
}

char *text_new(const char *format, ...)
{
    char *text;
    va_list arguments;
    va_start(arguments, format);
    CHECK(vasprintf(&text, format, arguments) >= 0);
    va_end(arguments);
    return text;
}
