#include "harness/plot/picture_size.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_MM 30.0
#define MOST_MM  2000.0

static const struct unit {
    const char *name;
    double mm;
} units[] = {{"mm", 1}, {"cm", 10}, {"in", 25.4}};

// Digits with a point at most, and the text after them; 0 if there are none.
static double read_number(const char **text)
{
    char digits[24], *end;
    size_t length = strspn(*text, "0123456789.");
    if (!length || length >= sizeof digits)
        return 0;
    snprintf(digits, length + 1, "%s", *text);
    *text += length;
    double value = strtod(digits, &end);
    return *end ? 0 : value;
}

static bool within(double mm)
{
    return mm >= LEAST_MM && mm <= MOST_MM;
}

bool picture_size_parse(const char *text, struct picture_size *size, struct status *status)
{
    const char *at = text;
    double width = read_number(&at), height = 0;
    bool both = *at == 'x';
    if (both) {
        at++;
        height = read_number(&at);
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(at, units[i].name) != 0 || width <= 0 || (both && height <= 0))
            continue;
        *size = (struct picture_size){width * units[i].mm, height * units[i].mm};
        if (within(size->width_mm) && (!both || within(size->height_mm)))
            return true;
        return status_set(status, STATUS_BAD_INPUT,
                          "--size: \"%.40s\": a side has %g mm at least and %g mm at most", text, LEAST_MM,
                          MOST_MM);
    }
    return status_set(status, STATUS_BAD_INPUT,
                      "--size: expected a width, or WIDTHxHEIGHT, in mm, cm or in, such as 170x110mm or 85mm, "
                      "found \"%.40s\"",
                      text);
}
