#include "harness/page/html.h"
#include <string.h>

void html_bytes(FILE *stream, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        switch (text[i]) {
        case '&':
            fputs("&amp;", stream);
            break;
        case '<':
            fputs("&lt;", stream);
            break;
        case '>':
            fputs("&gt;", stream);
            break;
        case '"':
            fputs("&quot;", stream);
            break;
        case '\'':
            fputs("&#39;", stream);
            break;
        default:
            fputc(text[i], stream);
        }
    }
}

void html_text(FILE *stream, const char *text)
{
    html_bytes(stream, text, strlen(text));
}
