// Category report: a step's time by category, a table for each record that has it.
#pragma once
#include "harness/record/results.h"
#include "harness/table/text_table.h"
#include <stdio.h>

struct category_report {
    enum table_format format; // text or markdown
    bool operations;          // also operations of each category, and GEMM by shape
};

// Writes the table of one record; returns false if it has none.
bool category_report_table(const struct category_report *report, const struct record *record, FILE *stream);
// Writes the tables of all records under headings; returns their number.
size_t category_report_write(const struct category_report *report, const struct results *results, FILE *stream);
