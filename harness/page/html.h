// HTML: words of records, which may hold anything, written so that a browser takes them for nothing but words.
#pragma once
#include <stdio.h>

// As text between tags, and as the value of an attribute in double quotes.
void html_text(FILE *stream, const char *text);
void html_bytes(FILE *stream, const char *text, size_t bytes);
