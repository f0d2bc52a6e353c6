// Size text: formats a number of bytes for messages and tables.
#pragma once
#include <stddef.h>

// "23.19 GiB": in the largest binary unit not above the size.
void size_text(size_t bytes, char *text, size_t text_bytes);
// "byte" for one, "bytes" for other numbers.
const char *size_text_unit(size_t bytes);
