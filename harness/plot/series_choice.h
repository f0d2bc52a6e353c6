// Series choice: the series that pictures show, as `longbp plot --series` names them: "full,seco, chunk 128"; and
// of tables whose rows say their panel the one that --panel names.
#pragma once
#include "harness/plot/figure_table.h"
#include "kernels/base/status.h"
#include <stdbool.h>
#include <stddef.h>

struct series_choice {
    size_t count;
    char *
        *names;  // a method, a label, or what a label begins with up to a comma; a comma between names has no space
    bool *found; // whether any table had it
    char seen[512];        // the labels of all tables
    const char *panel;     // a panel's label, or what it begins with up to a comma; NULL: all
    bool panel_found;      // whether any table has it, or has panels by its script alone
    char panels_seen[900]; // the labels of panels
};

// list, panel: borrowed; NULL: all. Release with series_choice_close.
void series_choice_open(struct series_choice *choice, const char *list, const char *panel);
// Whether the panel of this label is chosen; notes that there is one.
bool series_choice_has_panel(struct series_choice *choice, const char *label);
void series_choice_close(struct series_choice *choice);
// Leaves the rows of a picture's table whose series and panel are chosen: series, groups and panels are counted
// anew, ranks, which say the look, stay. False: there is none.
bool series_choice_apply(struct series_choice *choice, struct figure_table *table);
// False and a status that says which series there were if a name is in no table.
bool series_choice_check(const struct series_choice *choice, struct status *status);
