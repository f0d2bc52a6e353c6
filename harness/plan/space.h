// Space: the candidates of a search over methods: for each trial every value that its method's options offer
// (options.h, `nth`). A family is one combination of all options but the ascending one, whose values are the
// family's candidates.
#pragma once
#include "harness/spec/trial.h"
#include <jansson.h>

#define PICKS_MAX 8

struct family {
    const struct trial *trial;      // borrowed
    const json_t *given;            // borrowed: fixed options; shares among them are recomputed per candidate
    void *options;                  // of the method, at the highest candidate
    const struct option *ascending; // NULL: a single candidate
    size_t candidates;
    size_t picks[PICKS_MAX]; // index of each other tried option's value, in the table's order
    // The family with the same options in the trial that keeps least on the host, among trials that differ only in
    // offload targets: its candidates take no more time than this family's.
    size_t dominating;
    size_t min; // the family with the first values of all ascending options
};

struct space {
    const json_t *given; // borrowed
    struct family *families;
    size_t count;
    size_t candidates; // total over all families
};

// Makes the space of trials that differ in the method or other keys, at one context and batch. given: options fixed
// to the trials' values, by name, except shares, which are recomputed per candidate; NULL: none. Both must outlive
// it. Release with space_close.
void space_open(struct space *space, const struct trial *trials, size_t count, const json_t *given);
void space_close(struct space *space);
// The options of a candidate, from 0. Release with options_free.
void *family_options(const struct family *family, size_t index);
