// Comparison report: a comparison as a table for people, or as JSON for programs.
#pragma once
#include "harness/results/comparison.h"

// What changed and a summary; all: every trial.
void comparison_print(const struct comparison *comparison, bool all);
// {"verdict", "reason", "trials": {"both", "base_only", "new_only", "worse", "open", "better", "allowed", "same"},
//  "gradient_bits": {"known", "changed", "not_the_same": [keys of the provenance]}   (trials),
//  "time": {"verdict", "reason", "threshold", "measured", "judged", "unsteady", "spread", "shared",
//           "all": GROUP, "groups": [GROUP...]},
//  "changed": [{"id", "what", "command", "change", "status": {"base", "new", "change"},
//               "quantities": [{"name", "base", "new", "change"}...],
//               "gradient_bits": null | {"tensors", "changed", "first"},
//               "time": null | {"verdict", "reason", "ratio", "low", "high", "p", "p_holm", "regression", "open",
//                               "base_samples", "new_samples", "draws", "base_ms", "new_ms"}}...]}
// base_ms and new_ms are medians, of draws means. draws: 0 of a method that draws nothing.
// GROUP is {"axis", "name", "trials", "verdict", "ratio", "low", "high", "regression", "open"}. New reference.
json_t *comparison_json(const struct comparison *comparison, bool all);
