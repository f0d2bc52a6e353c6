// Claims: what papers say of their methods (experiments/claims.json), held against records.
//
// A claim has figures (claim_figure.h), against the published form of checkpointing, against this core's lean
// checkpoint, or against neither, and a bound for the one that decides it: the first, in the file's order, that is
// measured; if none is, the first that is planned.
#pragma once
#include "harness/json/json_source.h"
#include "harness/papers/claim_figure.h"

enum claim_verdict {
    CLAIM_REPRODUCED,
    CLAIM_NOT_REPRODUCED,
    CLAIM_CANNOT_TELL, // measured, but the bound lies within what the figure may be
    CLAIM_PLANNED_ONLY,
    CLAIM_NOT_RUN,
    CLAIM_VERDICTS
};
// "reproduced", "not reproduced", "cannot tell", "planned only", "not run".
const char *claim_verdict_name(enum claim_verdict verdict);

enum claim_baseline { BASELINE_NONE, BASELINE_PUBLISHED, BASELINE_LEAN, BASELINE_COUNT };
// "none", "published form", "lean".
extern const char *const claim_baseline_names[];

struct claim_judgement {
    enum claim_verdict verdict;
    bool holds; // of a plan: whether the figure keeps the bound; else whether it is reproduced
};

#define CLAIM_PICTURES_MAX 16

struct claim {
    const char *id, *paper, *text, *published, *source,
        *cause;                                   // borrowed from the file; cause: "" if there is none
    const char *pictures[CLAIM_PICTURES_MAX + 1]; // that are about it (claim_pictures.h), ending in NULL
    bool at_min;                                  // else at most
    double bound;
    struct claim_figure figures[BASELINE_COUNT]; // value NaN: the claim has none
    int decided_by;                              // one of these; -1: not run
    struct claim_judgement committed, found;
};

struct claims {
    struct json_source source;
    size_t count;
    struct claim *items; // [count]
};

// Paths of records that stand for those of the same name in a claims file; of the others nothing is known.
struct claim_files {
    size_t count;
    const char *const *paths;
};

// Reads the claims and takes their figures. files: NULL: records are looked for where the claims say, from the
// folder that longbp is started in, else beside the program. False and a status that names file and line if
// anything in the claims is wrong, or a file cannot be read. Release with claims_close, also after a failure.
bool claims_open(struct claims *claims, const char *path, const struct claim_files *files, struct status *status);
void claims_close(struct claims *claims);
// Whether the verdict is another than the file has it.
bool claim_changed(const struct claim *claim);
