#include "tests/cases/runs.h"
#include <string.h>

enum { START = 9, BORDERS = 6 };

// Tokens that documents begin with: some alone, one at a block's border, the last; those of the second sequence a
// token later.
static size_t document_before(size_t t, size_t tokens, size_t b)
{
    const size_t borders[BORDERS] = {1 + b, 2 + b, 5 + b, 64, 66 + b, tokens - 1};
    size_t before = SIZE_MAX;
    for (size_t i = 0; i < BORDERS; i++)
        if (borders[i] <= t && (before == SIZE_MAX || borders[i] > before))
            before = borders[i];
    return before;
}

static int32_t start_of(size_t t, size_t tokens, size_t b, enum run_documents kind)
{
    size_t before = document_before(t, tokens, b);
    if (kind == RUN_PREFIX && (before == SIZE_MAX || before <= 1 + b))
        return t < 1 + b ? 0 : (int32_t)(START + 1 + b);
    if (before != SIZE_MAX)
        return (int32_t)(START + before);
    return kind == RUN_BEGINS ? START : kind == RUN_AFTER_PREFIX ? 7 : 2;
}

struct case_run case_run_new(struct cases *c, size_t tokens, size_t batch, enum run_documents kind)
{
    struct case_run run = {.shape = {tokens, kind == RUN_WHOLE ? 3 : START, batch, {0}}};
    size_t rows = tokens * batch;
    if (kind == RUN_WHOLE)
        return run;
    run.host = calloc(rows + batch, sizeof *run.host);
    CHECK(run.host);
    run.starts = case_integers(c, rows, 0, 1);
    for (size_t row = 0; row < rows; row++)
        run.starts->values[row] = run.host[row] = start_of(row / batch, tokens, row % batch, kind);
    run.shape.documents.starts = run.host;
    run.shape.documents.device_starts = run.starts->tensor;
    if (kind == RUN_BEGINS || kind == RUN_DOCUMENTS)
        return run;
    run.prefixes = case_integers(c, batch, 0, 1);
    for (size_t b = 0; b < batch; b++)
        run.prefixes->values[b] = run.host[rows + b] = kind == RUN_PREFIX ? (int32_t)(START + 1 + b) : 4;
    run.shape.documents.prefixes = run.host + rows;
    run.shape.documents.device_prefixes = run.prefixes->tensor;
    return run;
}

void case_run_free(struct case_run *run)
{
    free(run->host);
}

static double start_at(const struct case_run *run, size_t t, size_t b)
{
    return run->starts ? run->starts->values[t * run->shape.batch + b] : 0;
}

bool case_run_begins(const struct case_run *run, size_t t, size_t b)
{
    return start_at(run, t, b) == (double)(run->shape.start + t);
}

bool case_run_continues(const struct case_run *run, size_t t, size_t b)
{
    return run->prefixes && start_at(run, t, b) > 0 && case_run_begins(run, t, b);
}

bool case_run_ends_prefix(const struct case_run *run, size_t t, size_t b)
{
    return run->prefixes && run->prefixes->values[b] == (double)(run->shape.start + t + 1);
}
