// Claims report: claims as a table: the published value, our figures against each baseline, and the verdict.
#pragma once
#include "harness/papers/claims.h"
#include "harness/table/text_table.h"
#include <stdio.h>

// Titles of the columns of figures: "ours", "over a lean checkpoint".
extern const char *const claim_figure_titles[BASELINE_COUNT];

struct claim_words {
    char text[96];
};
// "4.32", "1.18 (planned)", "-".
struct claim_words claim_figure_words(const struct claim_figure *figure);
// format: text, markdown or JSON.
void claims_report_write(const struct claims *claims, enum table_format format, FILE *stream);
