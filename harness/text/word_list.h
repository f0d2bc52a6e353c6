// Word list: words of a command line with commas between them, "svg,png".
#pragma once
#include "kernels/base/status.h"
#include <stdbool.h>
#include <stddef.h>

// Bytes of the list's first word: up to a comma that stands in no brackets, or to the end.
size_t word_list_first(const char *list);
bool word_list_has(const char *list, const char *word);
// Whether the word is one of the known ones, "svg,png" or "svg|png"; else a status that names the option ("": none)
// and says which was meant.
bool word_check(const char *word, const char *known, const char *option, struct status *status);
// The same of every word of a list.
bool word_list_check(const char *list, const char *known, const char *option, struct status *status);
