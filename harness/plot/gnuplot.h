// Gnuplot: runs the program that draws, one script of plots/ at a time.
// Scripts get their table and words as variables and draw to stdout; they can be run by hand in the same way.
#pragma once
#include "kernels/base/status.h"
#include <stdbool.h>
#include <stddef.h>

struct gnuplot_variable {
    const char *name, *value; // a string
};

// The folder of the scripts: `given` if not NULL, else $LONGBP_PLOTS, else plots/ as share_find finds it. A string
// to be freed; NULL and a status if style.gp is not there.
char *gnuplot_scripts(const char *given, struct status *status);
// The picture that folder/NAME.gp draws of a table, to be freed. NULL and a status if gnuplot is not installed or
// the script failed; only then are gnuplot's own messages shown, on stderr.
char *gnuplot_draw(const char *folder, const char *name, const struct gnuplot_variable *variables, size_t count,
                   const char *table, size_t *bytes, struct status *status);
