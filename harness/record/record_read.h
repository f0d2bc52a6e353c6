// Record read: a record from its line.
#pragma once
#include "harness/json/interned.h"
#include "harness/record/record.h"
#include "kernels/base/status.h"

// Reads the record that the text is, after which a zero stands; its texts, JSON and arrays are then of `interned`.
// False and a status that says `where`, and what is wrong, if it is not a record of this program's schema.
bool record_read(struct record *record, const char *text, size_t bytes, struct interned *interned,
                 const char *where, struct status *status);
