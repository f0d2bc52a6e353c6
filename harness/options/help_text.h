// Help text: what `longbp COMMAND --help` says, from the table that its arguments are parsed with. glibc's
// argp_help puts margins into the wrong lines of a long text.
#pragma once
#include <stdbool.h>
#include <stdio.h>

struct argp; // glibc's <argp.h>

// A flag of argp's options that argp does not know: --help shows these alone, and --help-all the others, too. A
// command without any shows all.
#define OPTION_FIRST 0x100

// Usage, the text before the options (of argp's doc what stands before \v), the options, the text behind them and
// the examples, in lines of help_text_width as far as there are blanks. The options are those that people use first
// (OPTION_FIRST), if any is one, with `all` then the others, those under a header of their own after it, and those
// of a negative group last. title: of the command, "longbp run"; examples: lines, or NULL.
void help_text_write(const struct argp *argp, const char *title, const char *examples, bool all, FILE *stream);
// Words in lines that begin at the margin, the first one at `column`, where the stream is; ends the last one.
void help_text_words(const char *text, size_t bytes, size_t column, size_t margin, FILE *stream);
// Columns of the terminal that stdout is, else of $COLUMNS, else 80; from 60 to 120.
size_t help_text_width(void);
