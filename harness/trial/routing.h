// Routing: what rebuilds that choose their experts anew would change. A trial's own steps never do: their rebuilds
// read what the first pass chose (kernels/layers/choices.h).
#pragma once
#include "harness/trial/run_steps.h"

// Adds the trial's routing to the record, by steps that nothing else sees. Returns false and a status on failure.
bool routing_measure(struct run *run);
