// Predicted trial: what is known of a trial before it runs: its peak, exact and of draws and ranks the largest, of
// method auto that of what it would choose now, and where its profile says so the time of a step.
#pragma once
#include "harness/spec/trial.h"

struct predicted_trial {
    enum {
        PREDICTED_UNKNOWN, // it cannot be planned
        PREDICTED_UNSUPPORTED,
        PREDICTED_OOM,
        PREDICTED_OK
    } outcome;
    double peak_bytes, step_seconds; // NaN: not known
    char reason[1024];               // why it is unsupported; "": it is not
};

struct predicted_trial trial_predict(const struct trial *trial);

struct predicted_words {
    char peak[32], step[32]; // "5.21 MiB" or why it has none, "0.2 s"; "-"
};
struct predicted_words predicted_words(const struct predicted_trial *predicted);
