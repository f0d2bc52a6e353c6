// Python pattern: the regular expressions of Python's re module by which PEFT chooses a model's modules.
#pragma once
#include "kernels/base/status.h"
#include <regex.h>
#include <stdbool.h>

struct python_pattern {
    regex_t regex;
};

// Compiles `before`, the pattern in a group, `after`: both are POSIX extended expressions. Characters, sets,
// classes
// (\d, \w, \s), groups, alternatives and quantifiers are read, as far as they decide what matches and not where.
// False and a message on anything else, such as a look-ahead or a pattern that is none. Release with
// python_pattern_free after a success alone.
bool python_pattern_compile(struct python_pattern *pattern, const char *before, const char *text, const char *after,
                            struct status *status);
bool python_pattern_matches(const struct python_pattern *pattern, const char *text);
void python_pattern_free(struct python_pattern *pattern);
