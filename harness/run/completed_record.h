// Completed record: the line that a trial prints, with what only its sweep knows.
#pragma once
#include "harness/results/record.h"

// Checks that `line` is the record of trial `id` and fills in experiment and command. The new line, to be freed;
// its status in *status. NULL if it is not such a record.
char *completed_record(const char *line, const char *id, const char *experiment, const char *command,
                       enum record_status *status);
