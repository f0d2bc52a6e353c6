// Series choice: the series selected by `longbp plot --series`: "full,seco, chunk 128"; and, in tables with panels
// in rows, the panel selected by --panel.
#pragma once
#include "harness/plot/figure_table.h"
#include "kernels/base/status.h"
#include <stdbool.h>
#include <stddef.h>

struct series_choice {
    size_t count;
    char **names; // a method, a label, or a label's beginning up to a comma; no space follows a comma between names
    bool *found;  // some table has it
    char seen[512];        // the labels of all tables
    const char *panel;     // a panel's label, or its beginning up to a comma; NULL: all
    bool panel_found;      // some table has it, or has panels in its script
    char panels_seen[900]; // the labels of panels
};

// list, panel: borrowed; NULL: all. Release with series_choice_close.
void series_choice_open(struct series_choice *choice, const char *list, const char *panel);
// Tells whether the panel of this label is selected, and notes it.
bool series_choice_has_panel(struct series_choice *choice, const char *label);
void series_choice_close(struct series_choice *choice);
// Keeps the rows of selected series and panels, and renumbers series, groups and panels; ranks, which determine the
// look, stay. Returns false if none is left.
bool series_choice_apply(struct series_choice *choice, struct figure_table *table);
// Returns false and a status that lists the series if a name is in no table.
bool series_choice_check(const struct series_choice *choice, struct status *status);
