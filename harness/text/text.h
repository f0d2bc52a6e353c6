// Text: words put together in a buffer of fixed size; what does not fit is cut off. Control characters, which would
// end a row of a table or write to the terminal, become spaces.
#pragma once
#include <stddef.h>

// text: ended by a zero.
void text_append(char *text, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
