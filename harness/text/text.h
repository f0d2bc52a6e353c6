// Text: formats words into a buffer of fixed size and cuts off the rest. Control characters, which would break a
// table's row or control the terminal, become spaces.
#pragma once
#include <stddef.h>

// Appends to a buffer of fixed size, whose text a zero ends; what does not fit is cut off. Control characters,
// which would end a row of a table or write to the terminal, become spaces.
void text_append(char *text, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
// The words in a text of their own, to be freed.
char *text_new(const char *format, ...) __attribute__((format(printf, 1, 2)));
