// Longest report: the longest contexts as tables, ours beside what others report.
#pragma once
#include "harness/results/longest_contexts.h"
#include <stdio.h>

void longest_report_write(const struct longest_contexts *contexts, bool markdown, FILE *stream);
