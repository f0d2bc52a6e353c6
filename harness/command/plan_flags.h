// Plan flags: what the commands that plan share: which device is planned for, and how much memory it has.
#pragma once
#include "harness/command/trial_flags.h"

struct plan_flags {
    const char *like, *memory_limit; // as given; NULL: not
};

#define PLAN_FLAG_LIKE                                                                                             \
    {                                                                                                              \
        .name = "like", .key = 0x200, .arg = "cpu|cuda", .doc = "the device to plan for (cuda for bf16, else cpu)" \
    }
#define PLAN_FLAG_MEMORY_LIMIT                                                                                     \
    {                                                                                                              \
        .name = "memory-limit", .key = 0x201, .arg = "SIZE",                                                       \
        .doc = "such as 24GiB or 24G, the same, or 80GB (what the profile says is usable)"                         \
    }
// For the command's argp parser: ARGP_ERR_UNKNOWN if the key is neither of the two.
error_t plan_flags_parse(struct plan_flags *flags, int key, const char *text);
// Sets the device of the trial that is asked for. False and a status if there is no such device.
bool plan_flags_device(const struct plan_flags *flags, json_t *trial, struct status *status);
// The memory there is: --memory-limit, else what the trial's profile says is usable, else 0. what: where that comes
// from, in words. False and a status if it is no size.
bool plan_flags_limit(const struct plan_flags *flags, const struct trial *trial, size_t *bytes, char *what,
                      size_t what_bytes, struct status *status);
