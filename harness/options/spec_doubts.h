// Spec doubts: what of an experiment's trials is seldom meant, said on stderr before any of them runs, for each is
// a process of its own.
#pragma once
#include "harness/spec/spec.h"

// Says what is doubtful about each batch file's labels (harness/data/doubtful_labels.h); how each file of tokens
// is read and how many ids of the vocabulary it has (harness/data/token_summary.h), but for the bytes of a model
// of bytes.
void spec_doubts_say_data(const struct spec *spec);
// Says what is left aside in the folder of each model and reference (harness/folder/folder.h); likewise of one
// trial.
void spec_doubts_say_folders(const struct spec *spec);
void spec_doubts_say_trial_folders(const struct trial *trial);
// Of each profile of a card that it is beside the CPU's times or bytes.
void spec_doubts_say_cards(const struct spec *spec);
