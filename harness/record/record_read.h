// Record read: parses a record from its line.
#pragma once
#include "harness/json/interned.h"
#include "harness/record/record.h"
#include "kernels/base/status.h"

// Parses a record from text that ends in a zero; its texts, JSON and arrays belong to `interned`. Returns false and
// a status that begins with `where` if it is no record of this program's schema.
bool record_read(struct record *record, const char *text, size_t bytes, struct interned *interned,
                 const char *where, struct status *status);
