// Longest report: the longest contexts as tables, ours beside what others report.
#pragma once
#include "harness/results/longest_contexts.h"
#include "harness/results/text_table.h"
#include <stdio.h>

void longest_report_write(const struct longest_contexts *contexts, enum table_format format, FILE *stream);
