// Results: the records of several result files, one per trial and experiment: the last one, with the samples of
// earlier rounds of the same measurement (rounds.h).
#pragma once
#include "harness/record/result_file.h"

struct results {
    size_t count;
    const struct record **records; // [count], by first occurrence in the files
    const char **origins;          // [count], paths
    size_t *found, *rounds;        // [count], records of the trial; those whose samples are joined
    struct record **joined;        // [count], the record if it joins several rounds, else NULL
    size_t file_count;
    struct result_file *files;
    bool every;            // every record has its own place
    size_t slots;          // a power of two, or 0
    uint32_t *places;      // [slots], a hash table by trial and experiment: a place + 1; 0: free
    struct line_set lines; // lines of the files
};

// every: keeps all records, also several of one trial. Returns false and a status if a file is wrong. Release with
// results_close, also after a failure.
bool results_open(struct results *results, const char *const *paths, size_t count, bool every,
                  struct status *status);
// The same file by file; takes over the files: results_begin, then results_add.
void results_begin(struct results *results, bool every);
void results_add(struct results *results, const struct result_file *file);
// Takes one record of each trial in its experiment from `all`, or with `every` each. `all` keeps ownership and must
// outlive the result.
void results_of(struct results *results, const struct results *all, bool every);
// The place of this record's trial and experiment, with one record per trial; count: none.
size_t results_place(const struct results *results, const struct record *record);
// Removes all records but those that `keep` selects.
typedef bool results_choice(void *chooser, const struct record *record);
void results_keep(struct results *results, results_choice *keep, void *chooser);
// Number of records that join several rounds, and of records whose trial has others besides.
size_t results_of_rounds(const struct results *results);
size_t results_of_several(const struct results *results);
void results_close(struct results *results);
