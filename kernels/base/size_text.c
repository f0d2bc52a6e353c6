#include "kernels/base/size_text.h"
#include <stdio.h>

void size_text(size_t bytes, char *text, size_t text_bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    double value = (double)bytes;
    for (; value >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
        value /= 1024;
    snprintf(text, text_bytes, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
}

const char *size_text_unit(size_t bytes)
{
    return bytes == 1 ? "byte" : "bytes";
}
