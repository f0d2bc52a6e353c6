// Word list: comma-separated words of a command line, "svg,png".
#pragma once
#include "kernels/base/status.h"
#include <stdbool.h>
#include <stddef.h>

// Bytes of the list's first word, up to a comma outside quotes and brackets or to the end.
size_t word_list_first(const char *list);
bool word_list_has(const char *list, const char *word);
// Checks that the word is one of the known ones, "svg,png" or "svg|png". Otherwise returns false and a status that
// names the option ("": none) and suggests a word.
bool word_check(const char *word, const char *known, const char *option, struct status *status);
// Checks every word of a list.
bool word_list_check(const char *list, const char *known, const char *option, struct status *status);
