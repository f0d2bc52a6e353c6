// Longest contexts: the records of max-context and max-batch (struct record_search) as rows, beside longest
// contexts reported elsewhere for the same model, training and card.
#pragma once
#include "harness/record/published.h"
#include "harness/record/results.h"

struct longest_row {
    char method[32]; // ours; empty: another method
    // "streambp, chunk 256, segments 6"; "auto: streambp"; "checkpoint, transformers 5.24.0"; or the reported name.
    char label[160];
    char chosen[160];           // for auto and another framework, the other options: "chunk 512, dKV bf16"
    size_t group;               // from 1
    double extent;              // tokens, or sequences of the batch; NaN: another method; 0: nothing fits
    double forwards;            // FLOPs of the step at that extent, in units of a forward pass; NaN: unknown
    char limit[160];            // what does not fit beyond; empty: unknown
    double published;           // tokens; NaN: none
    const char *origin;         // of a row of ours: the path of its file, borrowed; else NULL
    const char *mark, *setting; // of a row of others: as in struct published_point, borrowed
    const char *source;         // of a row of others: as in struct published_file, borrowed; else NULL
};

// Plans for one model and training on one kind of card.
struct longest_group {
    char words[320];       // "llama-3-8b, LoRA rank 8, bf16, on rtx-3090: 23.19 GiB usable"
    char card[64];         // "rtx-3090", the profile; empty: none
    size_t cards;          // that have some of the sequences each
    char alike[320];       // the words, but for how many
    char step[320];        // the words without keys that another framework's step has not
    size_t batch_sequence; // of max-batch: tokens of each of the sequences that are counted; 0: of max-context
};

struct longest_contexts {
    size_t row_count, group_count;
    struct longest_row *rows; // by group, ours first; at the end group 0, for points that match no plan here; empty
                              // if no row of ours has a published value
    struct longest_group *groups;
    char sources[300], other_sources[400]; // of published values in rows of ours, and in other rows
    char revisions[200];                   // of the planning programs
    bool batches_reported;                 // longest contexts are reported for a batch's model, training and card
};

// Takes the records of such searches. Consecutive records with the same setting and limits form one group, which
// begins with all records of another framework's steps of the same setting, but for dtypes of gradients. A point
// without a method of ours is a row of the first group with its model, training, cards, quantisation, optimizer and
// use of the host; other points are in the rows of their method and options without segments, not in those of auto.
// Records and points are borrowed. Release with longest_contexts_close.
void longest_contexts_open(struct longest_contexts *contexts, const struct results *results,
                           const struct published *published);
void longest_contexts_close(struct longest_contexts *contexts);
