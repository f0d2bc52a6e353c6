// Size text: a number of bytes as messages and tables show it.
#pragma once
#include <stddef.h>

// "23.19 GiB": in the largest binary unit that it has one of.
void size_text(size_t bytes, char *text, size_t text_bytes);
// "byte" of one, "bytes" of any other number.
const char *size_text_unit(size_t bytes);
