// Predicted trial: what is known of a trial in advance: its exact peak (the largest over draws and ranks; with
// method auto of the current choice), and an estimated step time if its profile allows one.
#pragma once
#include "harness/spec/trial.h"

struct predicted_trial {
    enum {
        PREDICTED_UNKNOWN, // cannot be planned
        PREDICTED_UNSUPPORTED,
        PREDICTED_OOM,
        PREDICTED_OK
    } outcome;
    double peak_bytes, step_seconds; // NaN: unknown
    char reason[1024];               // why it is unsupported; "": it is supported
};

struct predicted_trial trial_predict(const struct trial *trial);

struct predicted_words {
    char peak[32], step[32]; // "5.21 MiB" or why there is none, "0.2 s"; "-"
};
struct predicted_words predicted_words(const struct predicted_trial *predicted);
