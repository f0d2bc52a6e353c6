// Comparison report: comparisons as a table for people, as a comment or as test results for a pull request, or as
// JSON for programs.
#pragma once
#include "harness/compare/comparison.h"
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

// --- Comparison by a key: the settings of one file, or of several together, held against each other: trials that
// differ in this key alone.
//
// By device, a plan and what was measured may differ besides in what either alone has: the profile and the
// interconnect that estimates are made from, what is measured, and a limit of memory that no trial of one side has.
// Their title says the plan's profile and the card that was measured, and a note that a plan of no card in
// particular is one.

struct comparison_by {
    size_t count;
    struct titled_comparison *items; // [count]: the first value that the files have, and each of the others
    struct interned interned;        // what pairs the records
};

// key: NULL compares two files by id, as one item without a title; else of a trial, or an option of its method;
// "method": the method with all its options. Records without the option are left out. False and a status if there
// is no such key, or the files have fewer than two values of it. Release with comparison_by_free, also after a
// failure.
bool comparison_by_make(struct comparison_by *by, const struct result_file *files, size_t file_count,
                        const char *key, const struct comparison_options *options, struct status *status);
void comparison_by_free(struct comparison_by *by);

// --- in words

// Writes the changes and a summary of each comparison; all: every trial.
void comparison_write(const struct titled_comparison *comparisons, size_t count, enum comparison_format format,
                      bool all, FILE *stream);
// {"verdict", "reason", "trials": {"both", "base_only", "new_only", and how many have each verdict}, "note": what
//  besides is to be known, null, a number for each of comparison.h's counts: "let_pass", "news", "older", ...,
//  "left_out_rounds": {"base": [numbers of rounds that are held against none, 64 for all from 64 on], "new":
//  [...]}, "gradient_bits": {"known", "changed", "not_the_same": [keys of the record and its provenance]} (trials),
//  "time": {"verdict", "threshold", "timed", "judged", "rounds", "rounds_wanted", "paired", "error", "disturbed",
//           "all": GROUP, "groups": [GROUP...]},
//  "changed": [{"id", "what", "command", "verdict", "status": {"base", "new", "verdict"}, "inputs": verdict,
//               "quantities": [{"name", "base", "new", "verdict", "allowance"}...],
//               "gradient_bits": null | {"tensors", "changed", "first"},
//               "time": null | {"verdict", "reason", "ratio", "low", "high", "rounds", "processor_time", "base_ms",
//                               "new_ms"}}...]}
// A verdict is one of verdict.h's names. base_ms and new_ms are those of the fastest round. allowance: what --allow
// said, null. GROUP is {"axis", "name", "trials", "verdict", "ratio", "low", "high"}.
// Comparisons with a title are an array, each with its "title". New reference.
json_t *comparison_json(const struct comparison *comparison, bool all);
// Writes the same, a trial a line, with its title if it has one.
void comparison_json_write(const struct comparison *comparison, bool all, const char *title, FILE *stream);
