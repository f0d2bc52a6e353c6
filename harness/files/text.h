// Text: words put together in a buffer of fixed size; what does not fit is cut off.
#pragma once
#include <stddef.h>

// text: ended by a zero.
void text_append(char *text, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
