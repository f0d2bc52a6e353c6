// Interconnect: how ranks are connected, level by level, and how fast each level is; time estimates over several
// ranks use it. It is in a profile under "interconnect" or in a file of its own,
// experiments/interconnects/NAME.json:
// {"name": ..., "interconnect": [{"name": "NVLink", "ranks": 8, "bytes_per_s": ..., "latency_s": ...}, ...]}.
#pragma once
#include "harness/files/named_file.h"
#include "harness/profile/profile_number.h"

#define LINK_LEVELS 4

// A level connects ranks [n i, n (i + 1)), n = `ranks`: those of a node, for example.
struct link_level {
    char name[64];
    size_t ranks;                      // 0: all ranks, only in the last level
    struct profile_number bytes_per_s; // per rank, in each direction at once
    struct profile_number latency_s;   // from sending the last byte to its arrival
};

// Nearest level first. Two ranks communicate over the first level that connects them.
struct interconnect {
    char name[160];
    size_t count; // 0: unknown
    struct link_level levels[LINK_LEVELS];
};

// Reads a list of levels; an absent list has none. Returns false and a status on failure.
bool interconnect_read(struct interconnect *interconnect, struct json_field field, struct status *status);
// A new reference.
json_t *interconnect_json(const struct interconnect *interconnect);
// Lists the interconnects that come with the program.
void interconnect_list(struct named_files *list);
// Loads by name, or by the path of a file. Returns false and a status that names file, line and column on failure.
bool interconnect_load(struct interconnect *interconnect, const char *name, struct status *status);

// The level over which two ranks communicate.
const struct link_level *interconnect_between(const struct interconnect *interconnect, size_t rank, size_t other);
// Checks that the levels connect ranks [0, count).
bool interconnect_reach(const struct interconnect *interconnect, size_t count, struct status *status);
// Seconds in which a rank exchanges data with all others of a group at once, equally with each; bytes are totals.
// first, stride, size: the group that contains it. Levels transfer simultaneously.
double interconnect_seconds(const struct interconnect *interconnect, size_t rank, size_t first, size_t stride,
                            size_t size, double sent_bytes, double received_bytes);
