// Token format: how a file stores its tokens or labels: as raw integers in the format that the user names, or as
// its header says, in NumPy's format (.npy, a 1-D array of any integer dtype) or llm.c's (.bin of GPT-2 and Llama
// 3).
#pragma once
#include "harness/files/known_format.h"
#include "kernels/base/status.h"
#include <stdint.h>

struct token_format {
    size_t width; // bytes of a value; 0: determined by the file
    bool is_signed, big_endian;
    const char *noun;    // "token", "label"
    char text[40];       // "u16", "int64 (.npy)"
    bool described;      // requested: a header may determine the format; found: one did
    size_t start, count; // bytes before the values; number of values in the header, or SIZE_MAX
};

// Replaces the requested format by the file's actual one, from its first bytes: all of the file, or
// KNOWN_FORMAT_BYTES. vocab: the bound of ids; 0: none. Returns false and a status with the remedy if the file has
// another array shape or dtype than requested, a known format without plain integers, text, or wider integers; or
// if nothing determines the format.
bool token_format_find(struct token_format *format, const char *path, const unsigned char *head, size_t count,
                       size_t vocab, struct status *status);
// The value in these `width` bytes. Unsigned 64-bit values above INT64_MAX become INT64_MAX.
int64_t token_format_value(const struct token_format *format, const unsigned char *bytes);
