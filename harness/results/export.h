// Export: records as a table for other programs, a row each, its columns named as in `longbp list fields`.
#pragma once
#include "kernels/base/status.h"
#include <stdio.h>

enum export_format {
    EXPORT_CSV,  // RFC 4180: a header, lines that end in CR LF, what needs it in quotes; a null is empty, lists are
                 // JSON
    EXPORT_JSON, // an array of objects, a line each
};

struct export_request {
    const char *const *paths; // result files, each record a row, in their order; they are read twice
    size_t path_count;
    const char *fields; // "id,trial.context,peak_bytes"; NULL: all that are no tables themselves
    enum export_format format;
};

// Writes the table. False and a status, and nothing written, if a file is wrong or no regular file, or a field is
// not known: neither in the table of record_fields.h nor a key that a record has in an object that is free, such as
// trial.method.chunk.
bool export_write(const struct export_request *request, FILE *stream, struct status *status);
