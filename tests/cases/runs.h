// Documents of a run for recurrent operations: some begin with it, within it one after another, and behind a prefix
// that ends before it or in it.
#pragma once
#include "tests/cases/cases.h"

enum run_documents { RUN_WHOLE, RUN_DOCUMENTS, RUN_BEGINS, RUN_AFTER_PREFIX, RUN_PREFIX, RUN_KINDS };

struct case_run {
    struct run_shape shape;
    struct operand *starts, *prefixes; // NULL: none
    int32_t *host;                     // what the fronts read
};

// Runs begin at position 9. Release with case_run_free.
struct case_run case_run_new(struct cases *c, size_t tokens, size_t batch, enum run_documents kind);
void case_run_free(struct case_run *run);

// Whether a document begins with a sequence's token, and whether it continues a prefix; whether a prefix
// ends with it.
bool case_run_begins(const struct case_run *run, size_t t, size_t b);
bool case_run_continues(const struct case_run *run, size_t t, size_t b);
bool case_run_ends_prefix(const struct case_run *run, size_t t, size_t b);
