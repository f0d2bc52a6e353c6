// Profile: what a card or a machine holds and how fast it is at best, each number beside where it comes from; plans
// make their time estimates from it. Files: experiments/devices/NAME.json.
#pragma once
#include "harness/files/named_file.h"
#include "harness/profile/interconnect.h"
#include "harness/profile/profile_rates.h"

#define PROFILE_NAME_BYTES 160

struct profile {
    char name[PROFILE_NAME_BYTES];
    struct profile_number memory_bytes, usable_bytes; // usable: what a process can have of it
    struct profile_number reserve_bytes;              // of it, what the process needs beside a step; 0: none
    struct profile_number flops_per_s[DTYPE_COUNT];   // dense GEMM; f64, f32 and bf16 (sums in f32)
    struct profile_number bandwidth_bytes_per_s;      // of its own memory
    struct profile_number multiprocessors;            // a GEMM's blocks of rows on CUDA follow from it
    struct profile_number compute_capability;         // 8.6; heads that cuDNN takes follow from it
    struct profile_number power_limit_w;              // by which what was measured on another card is scaled
    struct profile_number launch_s;                   // of an operation that does nothing
    struct profile_number host_link_bytes_per_s;      // to the host's memory, in each direction at once
    struct interconnect interconnect;                 // to other cards
    struct rates rates[DTYPE_COUNT]; // by operation and shape: measured, or else scaled from PROFILE_MEASURED
    char rates_source[256];          // how they were measured
};

#define PROFILE_MEASURED "h200-141g" // the card that rates are scaled from

// The names of the profiles that come with the program.
void profile_list_read(struct named_files *list);
// Loads a profile by its name, from experiments/devices as share_resolve finds it, or, if the text has a "/" or
// ends in ".json", from that file. Every key is known, every number is finite, positive and has a source. Numbers
// of another card may follow: "rtx-3090,memory_bytes=12GiB,bandwidth_bytes_per_s=360e9"; what the driver keeps of
// its memory is then as much as in the profile, unless usable_bytes is given, too, and no
// measured rate stays where a rate is given. False and a status that names file, line and column, or the number, if
// not.
bool profile_load(struct profile *profile, const char *name, struct status *status);
// The default limit of a step's device memory, in bytes: usable_bytes less reserve_bytes.
size_t profile_limit_bytes(const struct profile *profile);
// The rates for operations in this dtype and for copies to and from the host; without the latter what is copied has
// no estimate. What was measured is borrowed from the profile. False and a status (bad input) if the profile has
// none.
bool profile_roofline(const struct profile *profile, enum dtype dtype, struct roofline *roofline,
                      struct status *status);
// Source of the estimates in a dtype: "measured rates" or "scaled rates".
const char *profile_estimate_source(const struct profile *profile, enum dtype dtype);
// The file's text, to be freed. Numbers that are not given are left out.
char *profile_text(const struct profile *profile);
