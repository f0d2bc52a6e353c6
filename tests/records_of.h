// The records of a result file.
#pragma once
#include "tests/program.h"
#include <jansson.h>

// An array, a record per line.
static inline json_t *records(const struct scratch *scratch, const char *name)
{
    json_t *all = json_array();
    char *text = text_of(scratch, name), *rest = text, *line;
    while ((line = strsep(&rest, "\n")))
        if (*line)
            json_array_append_new(all, json_loads(line, 0, NULL));
    free(text);
    return all;
}
