// Reference store: caches references between trials of a sweep with the same setting. Trials mostly differ in the
// method, on which the reference does not depend.
//
// A file in memory that the sweep opens and its processes, one at a time, inherit; it vanishes with them. A process
// that dies while adding leaves the store unchanged.
#pragma once
#include "harness/trial/reference.h"

// A new, empty store; -1 if unavailable: every trial then computes its own reference.
int reference_store_open(void);
// Finds the reference that reference_take would compute with these choices; returns false if the store (-1: none)
// lacks it. Release with reference_free.
bool reference_store_find(int store, const struct trial *trial, const struct kept_choices *given,
                          struct reference *reference);
// Stores a copy, unless the store would exceed a sixteenth of the machine's memory.
void reference_store_add(int store, const struct trial *trial, const struct kept_choices *given,
                         const struct reference *reference);
