// Compare files: what `longbp compare` does with two result files.
#pragma once
#include "harness/compare/comparison_report.h"

// Writes to stdout how the second compares to the first. The exit code: 0 same or better, 1 something is worse, 3
// changed or undecided; 2 and a status for a bad file.
int compare_files(const char *base_path, const char *new_path, const struct comparison_options *options,
                  enum comparison_format format, bool all, struct status *status);
