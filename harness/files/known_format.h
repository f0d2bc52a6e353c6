// Known formats: files that are neither tokens nor weights, recognised by their first bytes.
#pragma once
#include "kernels/base/status.h"
#include <stdbool.h>
#include <stddef.h>

#define KNOWN_FORMAT_BYTES 4096 // of a file's beginning, enough to recognise it

struct known_format {
    const char *name;      // "a gzip archive"
    const char *remedy;    // how to get token ids out of it, as an imperative
    const char *elsewhere; // the remedy for an input other than tokens; NULL: name the expected file
    bool is_text;          // characters, whose bytes a byte-level model can use
};

// Recognises a file by its first bytes; NULL if unknown.
const struct known_format *known_format_find(const unsigned char *head, size_t count);
// Tells whether these bytes begin UTF-8 text: valid, without control characters other than white space, and at
// least 16 bytes, so that binary numbers do not match by chance.
bool known_format_is_text(const unsigned char *head, size_t count);
// Returns true and a status that names the format if a file that should be `expected` ("a safetensors file") has a
// known format.
bool known_format_refuse(const char *path, const unsigned char *head, size_t count, const char *expected,
                         struct status *status);
