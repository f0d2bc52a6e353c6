// Comparison report: comparisons as a table for people, as a comment or as test results for a pull request, or as
// JSON for programs.
#pragma once
#include "harness/results/comparison.h"
#include <stdio.h>

enum comparison_format {
    COMPARISON_TEXT,
    COMPARISON_MARKDOWN,
    COMPARISON_JUNIT, // XML as test runners write it: a case for each trial, of which worse fails and open is
                      // skipped, and one for the verdict, of which "cannot tell" is an error
    COMPARISON_JSON,
    COMPARISON_FORMATS
};
// COMPARISON_FORMATS if there is no such format.
enum comparison_format comparison_format_find(const char *name);

struct titled_comparison {
    const char *title; // NULL: of two files, which needs none
    struct comparison comparison;
};

// What changed and a summary, of each; all: every trial.
void comparison_write(const struct titled_comparison *comparisons, size_t count, enum comparison_format format,
                      bool all, FILE *stream);
// {"verdict", "reason", "trials": {"both", "base_only", "new_only", "worse", "open", "better", "allowed", "other",
//  "same"}, "note": what besides is to be known, null, "other_columns": trials whose two records are of other
//  draws, "gradient_bits": {"known", "changed", "not_the_same": [keys of the record and its provenance]} (trials),
//  "time": {"verdict", "reason", "threshold", "measured", "judged", "unsteady", "spread", "shared",
//           "all": GROUP, "groups": [GROUP...]},
//  "changed": [{"id", "what", "command", "change", "status": {"base", "new", "change"},
//               "quantities": [{"name", "base", "new", "change", "allowance"}...],
//               "gradient_bits": null | {"tensors", "changed", "first"},
//               "time": null | {"verdict", "reason", "ratio", "low", "high", "p", "p_holm", "regression", "open",
//                               "base_samples", "new_samples", "processor_time", "draws", "base_ms",
//                               "new_ms"}}...]}
// base_ms and new_ms are medians, of draws means. draws: 0 of a method that draws nothing. allowance: what --allow
// said, null. GROUP is {"axis", "name", "trials", "verdict", "ratio", "low", "high", "regression", "open"}.
// Comparisons with a title are an array, each with its "title". New reference.
json_t *comparison_json(const struct comparison *comparison, bool all);
// Writes the same, with its title if it has one, so many spaces further in.
void comparison_json_write(const struct comparison *comparison, bool all, const char *title, int depth,
                           FILE *stream);
