// Trial child: the child's side of child.h: reads the trial's JSON from stdin, runs it and writes its record to
// stdout.
#pragma once
#include "harness/spec/trial.h"

// The child's input, to be freed: the trial's JSON and, on a second line, the values added to its record.
char *trial_child_input(const struct trial *trial);
// Ends with its parent. Returns the exit code. store: whether REFERENCE_STORE exists. ranked: one rank of several.
int trial_child_main(bool store, bool ranked);
