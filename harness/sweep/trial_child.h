// Trial child: the child's side of child.h: reads the trial's JSON from stdin, runs it and writes its record to
// stdout.
#pragma once
#include "harness/spec/trial.h"

// The child's input: the trial's JSON, and in a second line what its record says beside it. To be freed.
char *trial_child_input(const struct trial *trial);
// Dies with its parent. The exit code. store: whether REFERENCE_STORE is one. ranked: it is one rank of several.
int trial_child_main(bool store, bool ranked);
