// Reference store: the references that trials of one sweep have taken, for those after them with the same setting.
// A sweep's trials differ in the method most of all, and none of the reference depends on that.
//
// A file in memory that the sweep opens and each of its processes, one at a time, inherits: nothing is left behind,
// however they end. A process that dies while it adds leaves the store as it was.
#pragma once
#include "harness/trial/reference.h"

// A new, empty store; -1 where there is none to be had: every trial then takes its own reference.
int reference_store_open(void);
// The reference of the trial's setting, as reference_take would take it; false if the store (-1: there is none)
// does not have it. Release with reference_free.
bool reference_store_find(int store, const struct trial *trial, struct reference *reference);
// Keeps a copy, unless the store would grow beyond a sixteenth of the machine's memory.
void reference_store_add(int store, const struct trial *trial, const struct reference *reference);
