// Compare files: the core of `longbp compare`.
#pragma once
#include "harness/compare/comparison_report.h"

// Writes to stdout how the second of two files compares with the first, or how the values of a key in one or two
// files compare (by; NULL: none). Exit code: 0 same or better, 1 something is worse, 3 changed or undecided; 2 and
// a status for a bad file.
int compare_files(const char *const *paths, size_t count, const char *by, const struct comparison_options *options,
                  enum comparison_format format, bool all, struct status *status);
