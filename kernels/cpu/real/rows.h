// Rows: how operations over [n, d] are shared among threads: rows for outputs by row, columns for sums over rows.
#pragma once
#include <stddef.h>

// Below this many elements a parallel region costs more than it saves.
#define PARALLEL_ELEMENTS 16384
// A sum over rows runs down a strip of this many columns, in row order: one thread per strip, one order per sum.
#define STRIP 64
