// Spec doubts: what of an experiment's trials is seldom meant, said on stderr before any of them runs, for each is
// a process of its own.
#pragma once
#include "harness/spec/spec.h"

// Of each batch file what is doubtful about its labels (harness/files/doubtful_labels.h).
void spec_doubts_say_labels(const struct spec *spec);
// Of each model's folder what is left aside in it (harness/files/folder.h).
void spec_doubts_say_folders(const struct spec *spec);
// Of each profile of a card that it is beside the CPU's times or bytes.
void spec_doubts_say_cards(const struct spec *spec);
