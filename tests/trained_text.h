// A text of 600 letters to train on.
#pragma once
#include "tests/program.h"

static inline void write_text(const struct scratch *scratch)
{
    char text[600];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i * i % 26);
    scratch_file(scratch, "text", text, sizeof text);
}
