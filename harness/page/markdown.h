// Markdown as HTML: what our reports write as markdown, and no more of it: headings (##), bold lines, tables,
// lines.
#pragma once
#include <stdio.h>

void markdown_to_html(const char *markdown, FILE *stream);
