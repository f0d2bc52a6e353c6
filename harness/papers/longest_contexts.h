// Longest contexts: what `longbp max-context --json` printed, row by row, and the longest contexts that others
// report of the same model, training and card. What `longbp max-batch --json` printed, likewise.
#pragma once
#include "harness/record/published.h"

struct longest_row {
    char method[32];            // ours; empty: a row of others alone
    char label[160];            // "streambp, chunk 256, segments 6"; "auto: streambp"; or what others call theirs
    char chosen[160];           // of auto, the rest: "chunk 512, segments 6, dKV bf16"
    size_t group;               // from 1
    double extent;              // tokens, or sequences of the batch; NaN: a row of others; 0: nothing fits
    double forwards;            // FLOPs of the step at that extent, in those of a forward pass; NaN: not known
    char limit[160];            // what does not fit beyond; empty: not known
    double published;           // tokens; NaN: none
    const char *mark, *setting; // of a row of others: as in struct published_point, borrowed
    const char *source;         // of a row of others: as in struct published_file, borrowed; else NULL
};

// What is planned for one model and training on one kind of card.
struct longest_group {
    char words[320];  // "llama-3-8b, LoRA rank 8, bf16, on rtx-3090: 23.19 GiB usable"
    char card[64];    // "rtx-3090", the profile; empty: none
    size_t cards;     // that have some of the sequences each
    char alike[320];  // the words, but for how many
    const char *path; // the first of its files, borrowed, of which there are
    size_t path_count;
    size_t batch_sequence; // of max-batch: tokens of each of the sequences that are counted; 0: of max-context
};

struct longest_contexts {
    size_t row_count, group_count;
    struct longest_row *rows; // by group, ours before those of others; at the end those of group 0, of what nothing
                              // here is planned for: none, where none of ours has a published value beside it
    struct longest_group *groups;
    char sources[300], other_sources[400]; // of the published values in rows of ours, and in rows of others
    char revisions[200];                   // that planned
    bool batches_reported;                 // longest contexts are, of the model, training and card of a batch
};

// Reads outputs of max-context and max-batch. Those that follow one another with the same setting and limits are
// one group. A point without a method of ours is a row of the first group that has its model, training, cards,
// quantisation, optimizer and, or not, a host; with one, it stands in the rows of that method and options that have
// no stages, not in those of auto. The points are borrowed. False and a status if a file is none. Release with
// longest_contexts_close, also after a failure.
bool longest_contexts_open(struct longest_contexts *contexts, const char *const *paths, size_t count,
                           const struct published *published, struct status *status);
void longest_contexts_close(struct longest_contexts *contexts);
