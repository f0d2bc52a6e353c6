// Plot: selects the figures that recorded results allow, makes their tables and draws them. A picture shows one
// setting (model, dtype, device, ...): records with different settings never share a picture.
#pragma once
#include "harness/plot/picture.h"
#include "harness/record/results.h"
#include <stddef.h>

struct plot_request {
    const char *const *paths; // result files; a trial in several counts as in the last
    size_t path_count;
    const struct results *records; // all records of those files, which keep them; NULL: reads them
    const char *const *conditions; // conditions for the records that count (record_filter.h)
    size_t condition_count;
    const char *series;       // shown series, see series_choice_open
    struct picture_form form; // scripts NULL: see gnuplot_scripts; its series are those above
    const char *figures;      // comma-separated names; NULL: all that can be drawn
    const char *published;    // folder of the published points; NULL: see published_load, if it exists
};

// Writes the names of all figures, separated: by "," as in request->figures.
void plot_figures(const char *separator, char *text, size_t bytes);
// Writes the panels of figures that have several: "memory (memory, host), time (time, per-token)".
void plot_panels(char *text, size_t bytes);
// Draws EXPERIMENT-FIGURE, or for one panel EXPERIMENT-FIGURE-panel-PANEL, in every format and prints each path.
// Figures of one context are drawn for the longest four; others are reported on stderr. Returns false and a status
// if a file is wrong, if nothing can be drawn (with what each figure needs; no failure if pictures are passed on),
// or if drawing failed.
bool plot(const struct plot_request *request, struct status *status);
