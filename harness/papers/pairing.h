// Pairing: our records of an experiment beside a paper's points, curve by curve.
#pragma once
#include "harness/record/published.h"
#include "harness/record/record.h"

// One context or batch of a curve. Memory in bytes; time in ms, measured or else estimated. If the paper's values
// are per sample, ours are the step's divided by its batch.
struct pair {
    double at;                               // the context or the batch, according to the file's axis
    size_t number;                           // order of addition to its curve
    const struct record *record;             // NULL: not run
    const struct published_point *published; // NULL: not reported
    double ours, floor, limit;               // floor: the lower bound in bytes; NaN: none
    double drawn_chunks;                     // mean number of drawn chunks of a time; NaN: not drawn
    bool oom, estimated;
};

// Records whose trials differ only in the axis of the file's points, the measurement, the number of drawn chunks
// and, if the paper's series has no chunk, the chunk.
struct curve {
    // Without the model; "as autograd": all logits at once, everything kept; "transformers 5.24.0, head inferred".
    char label[160];
    json_t *setting; // common part of the trials, with the method
    const char *model, *method, *kv_gradient_dtype;
    const struct record_framework *framework; // whose step it is; not given: this program's
    size_t chunk;                             // 0: not distinguished by chunk
    bool published_chunk;                     // the paper distinguishes its series by chunk
    bool again;                               // an earlier curve is compared with the same points
    size_t count;
    struct pair *pairs; // by axis value
};

struct pairing {
    const struct published_file *file;
    size_t curve_count;
    struct curve *curves; // by model in the records' order, then methods in the program's order, then chunks
    size_t missing;       // points with one of our methods, but no record
};

// records: of the file's experiment, one per trial. Both are borrowed. Release with pairing_free.
void pairing_make(struct pairing *pairing, const struct published_file *file, const struct record *const *records,
                  size_t count);
void pairing_free(struct pairing *pairing);
