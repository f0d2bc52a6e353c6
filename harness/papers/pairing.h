// Pairing: our records of an experiment beside the points that a paper reports for it, curve by curve.
#pragma once
#include "harness/record/published.h"
#include "harness/record/record.h"

// One context or batch of a curve. Memory: bytes. Time: ms, measured or else a profile's estimate. Where the
// paper's are of a sample, ours are the step's over its batch.
struct pair {
    double at;                               // the context or the batch, as the file's axis says
    size_t number;                           // as it came into its curve
    const struct record *record;             // NULL: not run
    const struct published_point *published; // NULL: not reported
    double ours, floor, limit;               // floor: the lower bound, bytes; NaN: there is none
    double drawn_chunks;                     // drawn, mean over the draws of a time; NaN: not drawn
    bool oom, estimated;
};

// Records whose trials differ in nothing but what the file's points run along, measurement, how many chunks are
// drawn, and where the paper's series has no chunk, chunk.
struct curve {
    char label[160]; // without the model; "as autograd": logits at once, and all kept
    json_t *setting; // what the trials have in common, with the method
    const char *model, *method, *kv_gradient_dtype;
    size_t chunk;         // 0: not told apart by it
    bool published_chunk; // the paper tells its series apart by chunk
    bool again;           // an earlier curve is held against the same points
    size_t count;
    struct pair *pairs; // by what they are at
};

struct pairing {
    const struct published_file *file;
    size_t curve_count;
    struct curve *curves; // by model as in the records, then methods as in the program's list, then chunks
    size_t missing;       // points with a counterpart among our methods, but no record
};

// records: of the file's experiment, each trial once. Both are borrowed. Release with pairing_free.
void pairing_make(struct pairing *pairing, const struct published_file *file, const struct record *const *records,
                  size_t count);
void pairing_free(struct pairing *pairing);
