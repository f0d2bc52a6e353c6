// Token format: how the integers of a file of tokens or labels are stored: raw, as whoever reads it says; or as the
// file's own header says, of NumPy (.npy, a 1-D array of any integer dtype) or of llm.c (its GPT-2 and Llama 3
// .bin).
#pragma once
#include "harness/files/known_format.h"
#include "kernels/base/status.h"
#include <stdint.h>

struct token_format {
    size_t width;               // bytes of a value; 0: whatever the file says
    bool is_signed, big_endian; //
    const char *noun;           // "token", "label"
    char text[40];              // "u16", "int64 (.npy)"
    bool described;             // whether a header may say it (asked for), or says it (found)
    size_t start, count;        // bytes before the values; how many a header says there are, or SIZE_MAX
};

// Makes of a format that is asked for the one that the file has, by its first bytes: all of it, or
// KNOWN_FORMAT_BYTES. vocab: what ids are held against; 0: nothing. False and a status that names the remedy if the
// file is something else: another array or dtype than was asked for, a known format that holds no plain integers,
// text, or integers that are plainly wider; or if nothing says what its values are.
bool token_format_find(struct token_format *format, const char *path, const unsigned char *head, size_t count,
                       size_t vocab, struct status *status);
// The value in these `width` bytes. Unsigned ones of 64 bits that no int64 holds become INT64_MAX.
int64_t token_format_value(const struct token_format *format, const unsigned char *bytes);
