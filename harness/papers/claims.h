// Claims: claims of papers about their methods (experiments/claims.json), compared with records.
//
// A claim has figures (struct claim_figure) against the published form of checkpointing, this core's lean
// checkpoint, the framework's with a chunked loss, or none, and a bound for the deciding figure: the first measured
// one in the file's order, otherwise the first planned one.
#pragma once
#include "harness/json/json_source.h"
#include "harness/papers/claim_figure.h"

enum claim_verdict {
    CLAIM_REPRODUCED,
    CLAIM_NOT_REPRODUCED,
    CLAIM_CANNOT_TELL, // measured, but the bound lies within the figure's range
    CLAIM_PLANNED_ONLY,
    CLAIM_NOT_RUN,
    CLAIM_VERDICTS
};
// "reproduced", "not reproduced", "cannot tell", "planned only", "not run".
const char *claim_verdict_name(enum claim_verdict verdict);

// BASELINE_FRAMEWORK: checkpointing in transformers with a loss in chunks, by what its allocator counts.
enum claim_baseline { BASELINE_NONE, BASELINE_PUBLISHED, BASELINE_LEAN, BASELINE_FRAMEWORK, BASELINE_COUNT };
// "none", "published form", "lean", "framework, chunked".
extern const char *const claim_baseline_names[];

struct claim_judgement {
    enum claim_verdict verdict;
    bool holds; // for a plan: whether the figure meets the bound; else whether it is reproduced
};

#define CLAIM_PICTURES_MAX 16

struct claim {
    const char *id, *paper, *text, *published, *source,
        *cause;                                   // borrowed from the file; cause: "" if there is none
    const char *pictures[CLAIM_PICTURES_MAX + 1]; // that illustrate it (claim_pictures.h), ending in NULL
    bool at_min;                                  // the bound is a minimum, otherwise a maximum
    double bound;
    struct claim_figure figures[BASELINE_COUNT]; // value NaN: not in the claim
    int decided_by;                              // index of the deciding figure; -1: not run
    struct claim_judgement committed, found;
};

struct claims {
    struct json_source source;
    size_t count;
    struct claim *items; // [count]
};

// Paths of records that replace those of equal names in a claims file; other records count as missing.
struct claim_files {
    size_t count;
    const char *const *paths;
};

// Reads the claims and computes their figures. files: NULL: records are searched for in the current folder, then
// beside the program. Returns false and a status with file and line if the claims are wrong, or a file cannot be
// read. Release with claims_close, also after a failure.
bool claims_open(struct claims *claims, const char *path, const struct claim_files *files, struct status *status);
void claims_close(struct claims *claims);
// Tells whether the verdict differs from the file's.
bool claim_changed(const struct claim *claim);
