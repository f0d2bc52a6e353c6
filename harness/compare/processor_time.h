// Processor time: what a trial's own threads took of the processors, which stands in for the time of samples that
// were disturbed by other programs. Waits are not in it, and it is longer than the time where threads work side by
// side.
#pragma once
#include "harness/record/record.h"

// Whether the record has it of each sample, and of work alone: threads that spin while they wait take some, too.
bool processor_time_known(const struct record *record);
// Whether the samples were disturbed: by the machine's load (record_disturbed), or, of one thread whose
// record does not know the load, by what of their time it did not run in.
bool processor_time_wanted(const struct record *record);
