#define _GNU_SOURCE // getline
#include "harness/record/revision_order.h"
#include "harness/files/program_output.h"
#include "kernels/base/status.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool revision_order(const char *const *revisions, size_t count, size_t *places)
{
    enum { LEAST = 7 }; // digits of a revision that is cut off
    char *arguments[] = {"git", "rev-list", "--topo-order", "--reverse", "HEAD", NULL};
    pid_t child;
    FILE *stream = program_output_open(&child, arguments);
    if (!stream)
        return false;
    char *line = NULL;
    size_t capacity = 0, found = 0;
    bool *is_found = calloc(count + 1, sizeof *is_found);
    CHECK(is_found);
    for (size_t place = 0; getline(&line, &capacity, stream) > 0; place++)
        for (size_t i = 0; i < count; i++) {
            size_t digits = strlen(revisions[i]);
            if (is_found[i] || digits < LEAST || strncmp(line, revisions[i], digits) != 0)
                continue;
            is_found[i] = true;
            places[i] = place;
            found++;
        }
    free(line);
    free(is_found);
    return program_output_close(stream, child) == 0 && found == count;
}
