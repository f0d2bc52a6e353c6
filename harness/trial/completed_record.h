// Completed record: the line that a trial prints, with what only its sweep knows.
#pragma once
#include "harness/record/record.h"
#include "harness/spec/trial.h"

// Checks that `line` is the trial's record and fills in experiment, command and round (0: of none), and what was
// asked for as shares. The new line, to be freed; its status in *status. NULL if it is not such a record.
char *completed_record(const char *line, const struct trial *trial, const char *experiment, const char *command,
                       size_t round, enum record_status *status);
