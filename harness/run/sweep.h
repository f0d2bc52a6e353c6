// Sweep: measures the cells of a spec, each in its own process, and appends one record per cell as it ends. A cell
// that the result file already has is not measured again, so a sweep that was stopped resumes where it was. A sweep
// of several rounds goes through all cells as often, each time in another order: a cell then has a record from
// each, taken at different times, of which a neighbour on the machine disturbs only some. And it may measure
// another build of this program beside this one, cell by cell in turn: what changes about the machine then changes
// for both.
#pragma once
#include "harness/run/progress.h"
#include "harness/spec/spec.h"

struct sweep_options {
    const char *out;     // the result file
    const char *rerun;   // the command that measures one cell again, without its --cell
    const char *against; // the other build's program; NULL: none
    const char *against_out;
    bool fresh;    // measure everything; what the file holds moves to OUT.bak
    bool retry;    // measure again what is not ok
    size_t rounds; // records that each cell is to have; at least 1
};

// Runs what is left to do and says on stderr how it goes. The exit code: 0, also where cells ran out of memory or
// time, for those are results; 1 if a gradient was wrong or a cell crashed, if no cell of the spec is ok, now or
// from before, or, with a status, if the results were removed meanwhile; 2 and a status for what stopped it.
int sweep_run(const struct spec *spec, const struct sweep_options *options, struct status *status);
// One cell's record, to be freed; NULL if it was interrupted before it had one. `interrupted` may come with a
// record.
struct sweep_cell {
    char *line;
    enum record_status status;
    bool interrupted;
};
// Measures one cell in `program` (NULL: this one). signals: of child_signals_open. False and a status if no process
// could be started.
bool sweep_cell(const struct spec *spec, const struct cell *cell, const char *program, const char *rerun,
                int signals, struct sweep_cell *outcome, struct status *status);
