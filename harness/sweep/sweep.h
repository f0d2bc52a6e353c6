// Sweep: measures the trials of a spec, each in its own process, and appends one record per trial as it ends. A
// trial that the result file already has is not measured again, so a sweep that was stopped resumes where it was. A
// sweep of several rounds goes through all trials as often, each time in another order: a trial then has a record
// from each, taken at different times, of which a neighbour on the machine disturbs only some. And it may measure
// another build of this program beside this one, trial by trial in turn: what changes about the machine then
// changes for both.
#pragma once
#include "harness/spec/spec.h"
#include "harness/sweep/progress.h"

struct sweep_options {
    const char *out;     // the result file
    const char *rerun;   // the command that measures one trial again, without its --trial
    const char *against; // the other build's program; NULL: none
    const char *against_out;
    const char *launch; // what starts a trial's ranks (harness/process/launch.h); NULL: mpirun
    bool fresh;         // measure everything; what the file holds moves to OUT.bak (result_log.h)
    bool retry;         // measure again what is not ok
    enum progress_detail detail;
    size_t rounds; // records that each trial is to have; at least 1
};

// Runs what is left to do, says on stderr how it goes, and writes to stdout what all trials came to, as a table.
// The exit code: 0, also where trials ran out of memory or time, for those are results; 1 if a gradient was wrong
// or a trial crashed, if no trial of the spec is ok, now or from before, or, with a status, if the results were
// removed meanwhile; 2 and a status for what stopped it.
int sweep_run(const struct spec *spec, const struct sweep_options *options, struct status *status);
// One trial's record, to be freed; NULL if it was interrupted before it had one. `interrupted` may come with a
// record.
struct sweep_trial {
    char *line;
    enum record_status status;
    bool interrupted;
};
// Measures one trial in `program` (NULL: this one). round: from 1; 0: of none. launch: as above. store: of
// references; -1: none. signals: of child_signals_open. False and a status if no process could be started.
bool sweep_trial(const struct spec *spec, const struct trial *trial, size_t round, const char *program,
                 const char *launch, const char *rerun, int store, int signals, struct sweep_trial *outcome,
                 struct status *status);
