// Trial child: the child's side of child.h: reads the trial's JSON from stdin, runs it and writes its record to
// stdout.
#pragma once
#include <stdbool.h>

// Dies with its parent. The exit code. store: whether REFERENCE_STORE is one. ranked: it is one rank of several.
int trial_child_main(bool store, bool ranked);
