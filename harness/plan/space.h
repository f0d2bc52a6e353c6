// Space: what a search over methods goes through: for each trial it is given every value that the table of its
// method's options offers (options.h, `nth`). A family is one pick of all of them but the ascending option, whose
// values are the family's candidates.
#pragma once
#include "harness/spec/trial.h"
#include <jansson.h>

#define PICKS_MAX 8

struct family {
    const struct trial *trial;      // borrowed
    const json_t *given;            // borrowed: options that stay, of which shares are counted at each candidate
    void *options;                  // of the method, at the highest candidate
    const struct option *ascending; // NULL: one candidate
    size_t candidates;
    size_t picks[PICKS_MAX]; // which value each other option that is tried has, in the table's order
    // The family of the same options whose trial, the first of those that differ in places alone, keeps least on
    // the host: none of its candidates takes more time than this family's.
    size_t dominating;
    size_t min; // the family like this one but for the first values of all ascending options
};

struct space {
    const json_t *given; // borrowed
    struct family *families;
    size_t count;
    size_t candidates; // candidates of all families
};

// Of trials that differ in the method or in other keys, at one context and batch. given: options that stay as the
// trials have them, by name, but for shares, which are of each candidate's own; NULL: none. Both must outlive it.
// Release with space_close.
void space_open(struct space *space, const struct trial *trials, size_t count, const json_t *given);
void space_close(struct space *space);
// The options at a candidate, counted from 0. Release with options_free.
void *family_options(const struct family *family, size_t index);
