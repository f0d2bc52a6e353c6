// Run file: a file from which another program starts a training run, read for the keys of it that change memory:
// arguments of transformers' Trainer and of TRL's trainers (training_args.json, YAML), Axolotl's YAML,
// LLaMA-Factory's YAML.
#pragma once
#include "kernels/base/status.h"
#include <jansson.h>
#include <stdbool.h>

struct run_file {
    json_t *trial;     // keys of a trial, as a spec has them, with "method"
    char *model;       // the name of a model that is neither a folder nor of a preset's; NULL: none
    json_t *unchecked; // texts: what the run does that its plan does not have, or that nobody has checked
};

// Reads a file, or in a folder training_args.json with the config.json and adapter_config.json beside it. Returns
// false and a message that names line and key if a key that changes memory has a value that no plan is known for,
// or the trainer is not known. Release with run_file_close, also after a failure.
bool run_file_read(struct run_file *run, const char *path, struct status *status);
void run_file_close(struct run_file *run);
