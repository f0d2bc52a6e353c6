// Train folder: what a training run leaves on the disk, so that it can go on after whatever ended it:
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
    size_t step;            // of the last whole checkpoint; 0: none
    bool finished;          // the last step's weights are there
    bool made, ours, begun; // the folder, its settings by this process; the run: it holds something worth keeping
};

// Makes the folder, or with resume opens one that such a run was begun in. What train_settings says of the trial
// must be as it was, but for the number of steps, which may be another above those that are done, if each step up
// to the last checkpoint has the same rate: then the run is one of that number from its beginning. Lines of steps
// after the last checkpoint are removed. False and a status: another process trains there (bad input), with resume
// for two seconds more; the folder holds something else, without resume anything (bad input); it cannot be written
// to (io). Release with train_folder_close, also after a failure.
bool train_folder_open(struct train_folder *folder, const char *path, const struct trial *trial, bool resume,
                       struct status *status);
// What the run in a folder was begun with, a new reference; NULL: no run was, or nobody can read it.
json_t *train_folder_settings(const char *path);
// Appends a line, on rank 0.
bool train_folder_note(struct train_folder *folder, const char *line, struct status *status);
// Of a run over several ranks: on rank 0 after train_folder_open, on others in its place. Theirs is rank 0's, of
// which they write only their parts of checkpoints.
void train_folder_share(struct train_folder *folder, const char *path, const struct world *world);
// The checkpoint after `step`, with the lines until then on the disk; only the last `keep` stay. All ranks.
bool train_folder_checkpoint(struct train_folder *folder, size_t step, size_t keep, struct model *model,
                             const char *base, const struct world *world, struct status *status);
// The weights after the last step. All ranks.
bool train_folder_finish(struct train_folder *folder, struct model *model, const char *base,
                         const struct world *world, struct status *status);
// Of a run that this process began and never wrote a line of nothing is left.
void train_folder_close(struct train_folder *folder);
