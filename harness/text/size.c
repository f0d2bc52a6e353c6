#include "harness/text/size.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

// Accepts the usual spelling or all lower case; Gb and Gib are bits.
static bool unit_bytes(const char *unit, double *bytes)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"B", 1},        {"kB", 1e3},     {"KB", 1e3},     {"MB", 1e6},    {"GB", 1e9},
                 {"TB", 1e12},    {"K", 0x1p10},   {"M", 0x1p20},   {"G", 0x1p30},  {"T", 0x1p40},
                 {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
    bool lower = true;
    for (const char *c = unit; *c; c++)
        lower &= islower((unsigned char)*c) != 0;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (!strcmp(units[i].name, unit) || (lower && !strcasecmp(units[i].name, unit))) {
            *bytes = units[i].bytes;
            return true;
        }
    }
    return false;
}

// Accepts digits with at most one point. strtod would also accept "inf", "0x10", "1e5" and a locale's comma.
static const char *read_number(const char *text, double *number)
{
    double place = 1;
    bool point = false, digits = false;
    *number = 0;
    for (; isdigit((unsigned char)*text) || (*text == '.' && !point && digits); text++) {
        if (*text == '.') {
            point = true;
            continue;
        }
        digits = true;
        *number = *number * 10 + (*text - '0');
        place *= point ? 10 : 1;
        if (place > 1e15)
            return NULL;
    }
    *number /= place;
    return digits && text[-1] != '.' ? text : NULL;
}

// Reads a number and its unit, of any size.
static bool read_size(const char *text, double *size)
{
    double number, unit;
    const char *rest = read_number(text, &number);
    if (!rest || !unit_bytes(rest + strspn(rest, " "), &unit))
        return false;
    *size = number * unit;
    return unit != 1 || number == floor(number); // "1.5B": another unit was meant
}

bool size_parse(const char *text, size_t *bytes)
{
    double size;
    if (!read_size(text, &size) || !(size >= 1 && size <= 0x1p53))
        return false;
    *bytes = (size_t)size;
    return true;
}

bool size_parse_tokens(const char *text, size_t *tokens)
{
    double number;
    const char *unit = read_number(text, &number);
    if (!unit || !*unit || unit[1] || !strchr("kKmM", *unit))
        return false;
    number *= strchr("kK", *unit) ? 0x1p10 : 0x1p20;
    *tokens = number <= 0x1p53 ? (size_t)number : 0;
    return number >= 1 && number == (double)*tokens;
}

const char *size_expected(const char *text)
{
    double size;
    return text && read_size(text, &size) ? "a size of 1B to 8192TiB"
                                          : "a size with its unit, such as 24GiB (or 24G, the same), 80GB or 4096B";
}
