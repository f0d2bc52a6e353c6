// Longest report: longest contexts as tables, ours beside reported ones.
#pragma once
#include "harness/papers/longest_contexts.h"
#include "harness/table/text_table.h"
#include <stdio.h>

void longest_report_write(const struct longest_contexts *contexts, enum table_format format, FILE *stream);
