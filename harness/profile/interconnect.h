// Links: how ranks are joined, level by level, and how fast each level is; plans over several ranks make their
// time estimates from it. In a profile under "interconnect", and in files of their own,
// experiments/interconnects/NAME.json:
// {"name": ..., "interconnect": [{"name": "NVLink", "ranks": 8, "bytes_per_s": ..., "latency_s": ...}, ...]}.
#pragma once
#include "harness/files/named_file.h"
#include "harness/profile/profile_number.h"

#define LINK_LEVELS 4

// Ranks [n i, n (i + 1)) are joined by it, n its `ranks`: as many as a node has, or a room.
struct link_level {
    char name[64];
    size_t ranks;                      // 0: all there are, of the last level alone
    struct profile_number bytes_per_s; // of each rank, in each direction at once
    struct profile_number latency_s;   // from the last byte sent to the last one there
};

// The nearest level first. Two ranks speak over the first that joins them.
struct interconnect {
    char name[160];
    size_t count; // 0: none are known
    struct link_level levels[LINK_LEVELS];
};

// A list of levels; left out, there are none. False and a status.
bool interconnect_read(struct interconnect *interconnect, struct json_field field, struct status *status);
// A new reference.
json_t *interconnect_json(const struct interconnect *interconnect);
// The names of those that come with the program.
void interconnect_list(struct named_files *list);
// By the name or the path of a file. False and a status that names file, line and column.
bool interconnect_load(struct interconnect *interconnect, const char *name, struct status *status);

// The level over which two ranks speak.
const struct link_level *interconnect_between(const struct interconnect *interconnect, size_t rank, size_t other);
// Whether they join ranks [0, count). False and a status.
bool interconnect_reach(const struct interconnect *interconnect, size_t count, struct status *status);
// Seconds of a rank that speaks to all others of a group at once, as much to each: bytes in all. first, stride,
// size: the group, of which it is one. Levels work at the same time.
double interconnect_seconds(const struct interconnect *interconnect, size_t rank, size_t first, size_t stride,
                            size_t size, double sent_bytes, double received_bytes);
