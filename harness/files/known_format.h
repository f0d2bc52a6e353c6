// Known formats: files that are neither tokens nor weights, named by the bytes that they begin with.
#pragma once
#include "kernels/base/status.h"
#include <stdbool.h>
#include <stddef.h>

#define KNOWN_FORMAT_BYTES 4096 // of a file's beginning, which are enough to tell

struct known_format {
    const char *name;      // "a gzip archive"
    const char *remedy;    // how token ids come out of it, as an imperative
    const char *elsewhere; // what to do where another file than one of tokens is expected; NULL: give that
    bool is_text;          // characters, whose bytes a byte-level model may well be given
};

// What a file is that begins with these bytes; NULL: nothing that is known.
const struct known_format *known_format_find(const unsigned char *head, size_t count);
// Whether these bytes are the beginning of UTF-8 text: valid, without control characters but white space, and long
// enough (16 bytes) that binary numbers are not so by chance.
bool known_format_is_text(const unsigned char *head, size_t count);
// Whether a file that should be `expected` ("a safetensors file") begins with the bytes of a known format: then a
// status that names it.
bool known_format_refuse(const char *path, const unsigned char *head, size_t count, const char *expected,
                         struct status *status);
