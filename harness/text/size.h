// Size: a number of bytes as people write it.
#pragma once
#include "kernels/base/size_text.h"
#include <stdbool.h>
#include <stddef.h>

// Parses "24GiB", "24 GiB", "24G", "1.5 GB" or "1024B". KiB, MiB, GiB, TiB and K, M, G, T are powers of 1024, as in
// `docker --memory` and systemd; kB, MB, GB, TB are powers of 1000. Fractions are rounded down to a byte. Returns
// false if the text is anything else, has no unit, is 0, or exceeds 2^53 bytes.
bool size_parse(const char *text, size_t *bytes);

// Parses a number of tokens, "32K" or "1.5m": K is 1,024, M 1,048,576. Returns false if the text is anything else
// or no whole number.
bool size_parse_tokens(const char *text, size_t *tokens);

// For messages: what was expected instead of a text that is no size; NULL: no text was given.
const char *size_expected(const char *text);
