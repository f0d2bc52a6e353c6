// Size: a number of bytes as people write it.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// "24GiB", "24 GiB", "512 MiB", "1.5 GB", "1024": KiB, MiB, GiB, TiB are powers of 1024, kB, MB, GB, TB of 1000;
// none, or B, is bytes. Fractions are rounded down to a byte. False if the text is anything else, 0, or above 2^53
// bytes.
bool size_parse(const char *text, size_t *bytes);
// "23.19 GiB": in the largest binary unit that it has one of.
void size_text(size_t bytes, char *text, size_t text_bytes);
