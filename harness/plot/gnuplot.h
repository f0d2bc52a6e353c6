// Gnuplot: draws pictures with the scripts of plots/. Scripts get their table and words as variables and draw to
// stdout; they can be run by hand in the same way.
#pragma once
#include "kernels/base/status.h"
#include <stdbool.h>
#include <stddef.h>

struct gnuplot_variable {
    const char *name, *value; // a string
};

// The scripts' folder: `given` if not NULL, else $LONGBP_PLOTS, else plots/ as share_find finds it. To be freed;
// NULL and a status if style.gp is missing.
char *gnuplot_scripts(const char *given, struct status *status);
// The picture that folder/NAME.gp draws from a table, to be freed. Returns NULL and a status if gnuplot is missing
// or the script failed, and then shows gnuplot's messages on stderr.
char *gnuplot_draw(const char *folder, const char *name, const struct gnuplot_variable *variables, size_t count,
                   const char *table, size_t *bytes, struct status *status);
