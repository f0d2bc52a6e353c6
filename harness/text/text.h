// Text: formats words into a buffer of fixed size and cuts off the rest. Control characters, which would break a
// table's row or control the terminal, become spaces.
#pragma once
#include <stddef.h>

// text: ended by a zero.
void text_append(char *text, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
