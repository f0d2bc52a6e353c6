// Run reading: what has been read of a run's file, or of several in a folder.
#pragma once
#include "harness/framework/run_keys.h"
#include "kernels/base/status.h"
#include <jansson.h>

enum trainer { TRAINER_UNKNOWN, TRAINER_TRANSFORMERS, TRAINER_OF_TRL, TRAINER_LLAMA_FACTORY, TRAINER_AXOLOTL };

struct run_reading {
    json_t *trial, *unchecked; // of the run file
    const char *path;
    struct run_facts facts;
    enum trainer trainer;
    json_t *targets; // of LoRA
    struct status *status;
};

// Adds what a plan does not have of the run. key: that says it; NULL: none.
void run_reading_note(const struct run_reading *reading, const char *key, const char *why);
