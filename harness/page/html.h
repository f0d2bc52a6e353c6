// HTML: escapes texts of records, which may contain anything, so that browsers show them as text.
#pragma once
#include <stdio.h>

// For text between tags, and for attribute values in double quotes.
void html_text(FILE *stream, const char *text);
void html_bytes(FILE *stream, const char *text, size_t bytes);
