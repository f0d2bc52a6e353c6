// Profile: a device's memory and peak rates, each with its source; time estimates of plans use it. Files:
// experiments/devices/NAME.json.
#pragma once
#include "harness/files/named_file.h"
#include "harness/profile/interconnect.h"
#include "harness/profile/profile_rates.h"

#define PROFILE_NAME_BYTES 160

struct profile {
    char name[PROFILE_NAME_BYTES];
    struct profile_number memory_bytes, usable_bytes; // usable: what a process can allocate
    struct profile_number reserve_bytes;            // part of usable that the process needs beside a step; 0: none
    struct profile_number flops_per_s[DTYPE_COUNT]; // dense GEMM; f64, f32 and bf16 (f32 accumulators)
    struct profile_number bandwidth_bytes_per_s;    // of the device's own memory
    struct profile_number multiprocessors;          // determines the blocks of rows of a GEMM on CUDA
    struct profile_number compute_capability;       // 8.6; determines the heads that cuDNN supports
    struct profile_number power_limit_w;            // scales rates measured on another card
    struct profile_number launch_s;                 // time of an empty operation
    struct profile_number host_link_bytes_per_s;    // to the host's memory, in each direction at once
    struct interconnect interconnect;               // to other cards
    struct rates rates[DTYPE_COUNT]; // by operation and shape: measured, or else scaled from PROFILE_MEASURED
    char rates_source[256];          // how they were measured
};

#define PROFILE_MEASURED "h200-141g" // the card that rates are scaled from

// Lists the profiles that come with the program.
void profile_list_read(struct named_files *list);
// Loads a profile by name from experiments/devices (see share_resolve) or, if the text has a "/" or ends in
// ".json", from that file. Every key must be known; every number must be finite and positive and have a source.
// Overrides for another card may follow: "rtx-3090,memory_bytes=12GiB,bandwidth_bytes_per_s=360e9". The memory that
// the driver keeps stays as in the profile unless usable_bytes is given, and a given rate replaces the measured
// rates. Returns false and a status that names file, line and column, or the number, on failure.
bool profile_load(struct profile *profile, const char *name, struct status *status);
// The default limit of a step's device memory, in bytes: usable_bytes less reserve_bytes.
size_t profile_limit_bytes(const struct profile *profile);
// The rates of operations in this dtype and of copies to and from the host; without a host rate copies have no
// estimate. Measured rates are borrowed from the profile. Returns false and a status (bad input) if the profile has
// none.
bool profile_roofline(const struct profile *profile, enum dtype dtype, struct roofline *roofline,
                      struct status *status);
// Source of the estimates in a dtype: "measured rates" or "scaled rates".
const char *profile_estimate_source(const struct profile *profile, enum dtype dtype);
// The profile as the text of a file, to be freed. Absent numbers are left out.
char *profile_text(const struct profile *profile);
