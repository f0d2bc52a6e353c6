// Help text: the text of `longbp COMMAND --help`, from the table of its arguments. glibc's argp_help indents the
// wrong lines of long texts.
#pragma once
#include <stdbool.h>
#include <stdio.h>

struct argp; // glibc's <argp.h>

// An option flag unknown to argp: --help shows only options with it, --help-all shows all. A command without any
// shows all.
#define OPTION_FIRST 0x100

// Writes usage, the text before the options (argp's doc up to \v), the options, the text after them and the
// examples, wrapped to help_text_width. Options: the main ones (OPTION_FIRST), if any; with `all` the others, then
// those under their own header; last those of a negative group. title: "longbp run"; examples: lines, or NULL.
void help_text_write(const struct argp *argp, const char *title, const char *examples, bool all, FILE *stream);
// Wraps words into lines that begin at the margin, the first at `column`, the stream's position; ends the last
// line.
void help_text_words(const char *text, size_t bytes, size_t column, size_t margin, FILE *stream);
// Width of the terminal on stdout, else $COLUMNS, else 80; limited to 60 to 120.
size_t help_text_width(void);
