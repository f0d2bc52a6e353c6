// Word list: words of a command line with commas between them, "svg,png".
#pragma once
#include "kernels/base/status.h"
#include <stdbool.h>
#include <stddef.h>

// Bytes of the list's first word: up to a comma that stands in no brackets, or to the end.
size_t word_list_first(const char *list);
bool word_list_has(const char *list, const char *word);
// False and a status that names the option if the list is empty or a word of it is not among the known ones, a list
// itself.
bool word_list_check(const char *list, const char *known, const char *option, struct status *status);
