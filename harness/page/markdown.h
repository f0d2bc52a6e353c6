// Markdown as HTML: the subset of markdown that our reports use: headings (##), bold lines, tables, lines.
#pragma once
#include <stdio.h>

void markdown_to_html(const char *markdown, FILE *stream);
