// Help text: what `longbp COMMAND --help` says, from the table that its arguments are parsed with. glibc's
// argp_help puts margins into the wrong lines of a long text.
#pragma once
#include <stdio.h>

struct argp; // glibc's <argp.h>

// Usage, the text before the options (of argp's doc what stands before \v), the options, those under a header of
// their own after it and those of a negative group last, the text behind them and the examples, in lines of 79
// columns as far as there are blanks. title: of the command, "longbp run"; examples: lines, or NULL.
void help_text_write(const struct argp *argp, const char *title, const char *examples, FILE *stream);
