// Rows: how operations over [n, d] are distributed over threads: by rows for outputs per row, by columns for sums
// over rows.
#pragma once
#include <stddef.h>

// Below this many elements a parallel region costs more than it saves.
#define PARALLEL_ELEMENTS 16384
// Sums over rows process strips of this many columns in row order: one thread per strip, one order per sum.
#define STRIP 64
