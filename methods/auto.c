// Auto: a placeholder without a schedule; the harness replaces it by the fastest exact method that fits
// (harness/plan/choice.h).
#include "methods/method.h"

struct auto_options {
    unsigned offload; // fixes the choice's; none: any
};

static const struct option option_rows[] = {OPTION_OFFLOAD(struct auto_options), {0}};

const struct method method_auto = {
    .name = "auto",
    .summary = "the planner's choice: the fastest exact method that fits, with its options",
    .source = "longbp",
    .options = {option_rows, sizeof(struct auto_options)},
    .by_layer = true,
    .parallel = PARALLEL_DATA | PARALLEL_STAGE | PARALLEL_SEQUENCE,
};
