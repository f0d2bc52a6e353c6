// Auto: a placeholder without a schedule; the harness replaces it by the fastest exact method that fits
// (harness/plan/choice.h).
#include "methods/method.h"

static const struct option option_rows[] = {{0}};

const struct method method_auto = {
    .name = "auto",
    .summary = "the planner's choice: the fastest exact method that fits, with its options",
    .source = "longbp",
    .options = {option_rows, 1},
    .by_layer = true,
    .parallel = PARALLEL_DATA | PARALLEL_STAGE | PARALLEL_SEQUENCE,
};
