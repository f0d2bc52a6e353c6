// Trial keys: what a trial can be asked, as one table. Decoding, ids, what records hold, axes, flags of the command
// line, `longbp list keys` and the table in experiments/README.md are made from it, or held against it.
#pragma once
#include "harness/spec/trial_key.h"

#define TRIAL_KEYS_MAX 40
// In the order in which each can be checked against those before it, ending in a NULL name.
extern const struct trial_key trial_keys[];
size_t trial_key_count(void);
// Position of a key, or trial_key_count() if there is none of this name.
size_t trial_key_find(const char *name);
// The row of a key, or of a member of an object, by the path before its name: "" or "measure."; NULL: there is
// none.
const struct trial_key *trial_key_at(const char *parent, const char *name);
// A key of which a search tries values, and the object that it is a member of; NULL: the trial.
struct tried_key {
    const struct trial_key *key, *parent;
};
// In the table's order; their number.
size_t trial_keys_tried(struct tried_key tried[TRIAL_KEYS_MAX]);
// Its value in a trial's canonical JSON, borrowed.
json_t *tried_key_value(struct tried_key tried, const json_t *canonical);
// Adds all names of a table, which ends in a NULL name.
void trial_key_names(struct names *names, const struct trial_key *keys);
