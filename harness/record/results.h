// Results: the records of several result files together; of an experiment's trial that has several, the last one,
// with the samples of those before it that are rounds of one measurement (rounds.h).
#pragma once
#include "harness/record/result_file.h"

struct results {
    size_t count;
    const struct record **records; // [count], in the order in which the files first have them
    const char **origins;          // [count], paths
    size_t *found, *rounds;        // [count], of the trial; of them, those whose samples the record has
    struct record **joined;        // [count], the record if it is of several rounds, else NULL
    size_t file_count;
    struct result_file *files;
    bool every;            // every record has its own place
    size_t slots;          // a power of two, or 0
    uint32_t *places;      // [slots], a hash table by trial and experiment: a place and 1; 0: free
    struct line_set lines; // of the files
};

// every: all records, also those of one trial. False and a status if a file is wrong. Release with results_close,
// also after a failure.
bool results_open(struct results *results, const char *const *paths, size_t count, bool every,
                  struct status *status);
// The same file by file, which they take over: results_begin, then results_add.
void results_begin(struct results *results, bool every);
void results_add(struct results *results, const struct result_file *file);
// Takes one record of each trial in its experiment from `all`, or with `every` each; they stay with `all`, which is
// closed later.
void results_of(struct results *results, const struct results *all, bool every);
// Where the record of that trial in that experiment stands, of one of each trial; count: nowhere.
size_t results_place(const struct results *results, const struct record *record);
// Leaves out all records but those that `keep` takes.
typedef bool results_choice(void *chooser, const struct record *record);
void results_keep(struct results *results, results_choice *keep, void *chooser);
// How many of them have the samples of several rounds, and how many are of a trial that has others besides.
size_t results_of_rounds(const struct results *results);
size_t results_of_several(const struct results *results);
void results_close(struct results *results);
