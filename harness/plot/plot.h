// Plot: chooses from recorded results the figures that they can draw, writes their tables, and has them drawn.
// A picture is of one setting (model, dtype, device, ...): records that differ in it never share a picture.
#pragma once
#include "harness/plot/picture.h"
#include "harness/record/results.h"
#include <stddef.h>

struct plot_request {
    const char *const *paths; // result files; a trial that is in several counts as in the last
    size_t path_count;
    const struct results *records;        // all of those files, in which they stay; NULL: reads them
    const char *const *max_context_paths; // outputs of `longbp max-context --json`: one picture of all of them
    size_t max_context_count;
    const char *const *advice_paths, *const *frontier_paths; // of `advise` and `frontier --json`: a picture each
    size_t advice_count, frontier_count;
    const char *const *conditions; // of the results' records that count (record_filter.h)
    size_t condition_count;
    const char *series;       // that are shown, as series_choice_open takes them
    struct picture_form form; // scripts NULL: as gnuplot_scripts finds them; its series are those above
    const char *figures;      // names, with commas; NULL: all that can be drawn
    const char *published;    // folder of the published points; NULL: as published_load finds it, if it is there
};

// Writes the names of all figures separated: by "," as request->figures takes them.
void plot_figures(const char *separator, char *text, size_t bytes);
// Writes the panels of the figures that have several: "memory (memory, host), time (time, per-token)".
void plot_panels(char *text, size_t bytes);
// Draws EXPERIMENT-FIGURE, or of one panel EXPERIMENT-FIGURE-panel-PANEL, in every format and prints the path of
// each picture; those of one context are drawn of the longest four, and what is left out is said on stderr. False
// and a status if a file is wrong, if nothing can be drawn (the message says what each figure needs; no failure
// where pictures are taken), or if drawing failed.
bool plot(const struct plot_request *request, struct status *status);
