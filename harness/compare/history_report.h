// History report: commits, their changes, and the course of every figure, as tables or JSON.
#pragma once
#include "harness/compare/history.h"
#include "harness/table/text_table.h"
#include <stdio.h>

struct history_report {
    enum table_format format; // text, markdown or JSON
    bool all;                 // also figures that never changed
    bool compared;            // only experiments with a trial that several commits have
};

// JSON, an array: {"experiment", "order": "git" or "time",
//  "commits": [{"revision", "dirty", "time", "trials", "comparison": as `compare` writes it, with every trial that
//  changed}], "trials": [{"id", "what", "points": [{"commit": its place in the list, "status", "peak_bytes",
//  "flops", ...,
//              "gradient_hash", "gradient_relative_l2", "time_ms", "spread_ms"}]}]}
void history_report_write(const struct history_report *report, const struct histories *histories, FILE *stream);
