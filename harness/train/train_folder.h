// Train folder: a training run's files, from which it can resume after any interruption:
//   training.json      what was asked for
//   steps.jsonl        a line of JSON per step and per evaluation
//   checkpoint-000100  weights and optimizer state after a step (harness/train/checkpoint.h)
//   model.safetensors  and config.json, or a PEFT adapter, or both: the weights after the last step, written when
//   it
//                      is done
#pragma once
#include "harness/spec/trial.h"
#include "kernels/comm/world.h"
#include <jansson.h>
#include <stdio.h>

struct train_folder {
    const char *path;
    int lock; // -1: not open
    FILE *steps;
    size_t step;   // of the last whole checkpoint; 0: none
    bool finished; // the last step's weights are there
    bool made, ours,
        begun; // by this process: created the folder, wrote its settings; began the run, which has lines to keep
};

// Creates the folder, or with resume opens one in which such a run began. The trial's train_settings must be equal,
// except the number of steps: it may be any number above the completed ones with the same rates up to the last
// checkpoint, and then defines the run. Removes lines of steps after the last checkpoint. Returns false and a
// status: another process trains there (bad input), with resume after waiting two seconds; the folder holds
// something else, without resume anything (bad input); it cannot be written to (io). Release with
// train_folder_close, also after a failure.
bool train_folder_open(struct train_folder *folder, const char *path, const struct trial *trial, bool resume,
                       struct status *status);
// The settings of the folder's run, a new reference; NULL: no run, or unreadable.
json_t *train_folder_settings(const char *path);
// Appends a line on rank 0.
bool train_folder_note(struct train_folder *folder, const char *line, struct status *status);
// For a run over several ranks: call on rank 0 after train_folder_open, on others instead. They share rank 0's
// folder and write only their parts of checkpoints.
void train_folder_share(struct train_folder *folder, const char *path, const struct world *world);
// Writes the checkpoint after `step`, with the lines so far synced to disk; keeps only the last `keep`. All ranks.
bool train_folder_checkpoint(struct train_folder *folder, size_t step, size_t keep, struct model *model,
                             const char *base, const struct world *world, struct status *status);
// Writes the weights after the last step. All ranks.
bool train_folder_finish(struct train_folder *folder, struct model *model, const char *base,
                         const struct world *world, struct status *status);
// Removes everything if this process began the run and wrote no line.
void train_folder_close(struct train_folder *folder);
