// Sweep: measures the trials of a spec, each in a process of its own, and appends a record as each ends. Trials
// already in the result file are skipped, so a stopped sweep resumes. With several rounds each trial is measured
// once per round, in another order each time, so that a disturbance affects only some of its records. Another build
// of this program can be measured alongside, alternating trial by trial, so that changes of the machine affect
// both.
// changes for both.
#pragma once
#include "harness/spec/spec.h"
#include "harness/sweep/progress.h"

struct sweep_options {
    const char *out;     // the result file
    const char *rerun;   // the command that measures one trial again, without its --trial
    const char *against; // the other build's program; NULL: none
    const char *against_out;
    const char *launch; // command that starts a trial's ranks (harness/process/launch.h); NULL: mpirun
    bool fresh;         // measure everything; the old file moves to OUT.bak (result_log.h)
    bool retry;         // measure again what is not ok
    enum progress_detail detail;
    size_t rounds; // records per trial; at least 1
};

// Runs the trials that are left, reports progress on stderr and writes a table of all trials to stdout. Returns the
// exit code: 0, also if trials ran out of memory or time, which are results; 1 if a gradient was wrong, a trial
// crashed, no trial of the spec is ok, or, with a status, the results were removed meanwhile; 2 and a status for
// anything that stopped it.
int sweep_run(const struct spec *spec, const struct sweep_options *options, struct status *status);
// One trial's record, to be freed; NULL if it was interrupted before it had one. `interrupted` may come with a
// record.
struct sweep_trial {
    char *line;
    enum record_status status;
    bool interrupted;
};
// Measures one trial in `program` (NULL: this one). round: from 1; 0: none. launch: as above. store: of references;
// -1: none. signals: of child_signals_open. Returns false and a status if no process could be started.
bool sweep_trial(const struct spec *spec, const struct trial *trial, size_t round, const char *program,
                 const char *launch, const char *rerun, int store, int signals, struct sweep_trial *outcome,
                 struct status *status);
