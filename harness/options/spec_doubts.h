// Spec doubts: warns on stderr, before any trial runs, about settings of an experiment that are seldom intended.
#pragma once
#include "harness/spec/spec.h"

// Reports ignored weights in the folders of models and references (harness/folder/folder.h), doubtful labels of
// each batch file (harness/data/doubtful_labels.h), and format and distinct ids of each file of tokens
// (harness/data/token_summary.h), except bytes for a byte-level model.
void spec_doubts_say(const struct spec *spec);
// The same for one trial, except its files of tokens.
void spec_doubts_say_trial(const struct trial *trial);
// Warns about each card's profile that is used beside the CPU's times or bytes.
void spec_doubts_say_cards(const struct spec *spec);
