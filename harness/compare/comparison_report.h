// Comparison report: comparisons as a table, as a comment or test results for a pull request, or as JSON.
#pragma once
#include "harness/compare/comparison.h"
#include <stdio.h>

enum comparison_format {
    COMPARISON_TEXT,
    COMPARISON_MARKDOWN,
    COMPARISON_JUNIT, // XML for test runners: a case per trial (worse fails, undecided is skipped) and one for the
                      // verdict, where undecided is an error
    COMPARISON_JSON,
    COMPARISON_FORMATS
};
// COMPARISON_FORMATS for unknown names.
enum comparison_format comparison_format_find(const char *name);

struct titled_comparison {
    const char *title; // NULL: a comparison of two files
    struct comparison comparison;
};

// --- Comparison by a key: compares the settings in one or several files: trials that differ only in this key.
//
// By device, a plan and a measurement may also differ in what only one of them has: the estimates' profile and
// interconnect, what is measured, and a memory limit that no trial of one side has. Their title names the plan's
// profile and the measured card; a note marks plans of no particular card.

struct comparison_by {
    size_t count;
    struct titled_comparison *items; // [count]: the first value in the files against each of the others
    struct interned interned;        // the keys that pair records
};

// key: NULL compares two files by id, as one item without a title; otherwise a key of trials, or an option of their
// method; "method": the method with all its options. Ignores records without the option. Returns false and a status
// if there is no such key, or the files have fewer than two values of it. Release with comparison_by_free, also
// after a failure.
bool comparison_by_make(struct comparison_by *by, const struct result_file *files, size_t file_count,
                        const char *key, const struct comparison_options *options, struct status *status);
void comparison_by_free(struct comparison_by *by);

// --- output

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
// Writes the same, one trial per line, with the title if there is one.
void comparison_json_write(const struct comparison *comparison, bool all, const char *title, FILE *stream);
