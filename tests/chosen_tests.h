// Which tests of a suite run, and how much of each.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// Whether $LONGBP_EXHAUSTIVE is set. Tests over a product of settings then run all of it, as they do every week;
// else a part in which each setting, and each pair that is computed in a way of its own, is met.
bool exhaustive(void);
// Whether combination `number` of such a product is run: every `every`-th, or all.
bool is_chosen(size_t number, size_t every);
