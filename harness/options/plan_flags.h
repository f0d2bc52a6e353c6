// Plan flags: what the commands that plan share: the trial's flags, which device is planned for, how much memory
// there is, which methods, and how the result is printed; with one parser and one set of messages.
#pragma once
#include "harness/options/method_flags.h"
#include "harness/options/trial_flags.h"

// What must be given besides the model.
enum plan_need { NEEDS_CONTEXT = 1, NEEDS_MEMORY = 2 };

struct plan_flags {
    struct trial_flags trial;
    int needs;
    // As given; NULL: not. memory_flag: the name under which memory was.
    const char *like, *memory, *memory_flag, *reserve, *methods, *also;
    bool exact, json;
};

// Of a command's own flags, keys from 0x200 on are these. The others have their place here: this struct comes first
// in the command's.
enum plan_flag { PLAN_MEMORY_LIMIT = 0x200, PLAN_DEVICE_MEMORY };
// clang-format off
#define PLAN_FLAG_LIKE \
    {"like", TEXT_AT(struct plan_flags, like), .arg = "cpu|cuda", .doc = "the device to plan for (cuda for bf16, else cpu)"}
#define PLAN_FLAG_MEMORY_LIMIT \
    {"memory-limit", .flags = OPTION_FIRST, .key = PLAN_MEMORY_LIMIT, .arg = "SIZE", \
     .doc = "memory limit of the device, such as 24GiB or 24G, the same, or 80GB (the profile's usable memory, less --reserve)"}
#define PLAN_FLAG_DEVICE_MEMORY \
    {"device-memory", .flags = OPTION_FIRST, .key = PLAN_DEVICE_MEMORY, .arg = "SIZE", .doc = "the same as --memory-limit (the profile's usable memory, less --reserve)"}
#define PLAN_FLAG_RESERVE \
    {"reserve", TEXT_AT(struct plan_flags, reserve), .arg = "SIZE", \
     .doc = "device memory to leave free for context, kernels and the memory pool; 0: none (the profile's reserve_bytes; of a memory limit that is given, 0)"}
#define PLAN_FLAG_ALSO \
    {"also", TEXT_AT(struct plan_flags, also), .arg = "kv-gradient-dtype|weights,weights", \
     .doc = "keys whose other values a choice of method tries too, though they change the gradient: " \
            "kv-gradient-dtype (bf16), weights (nf4, int8) (none)"}
#define PLAN_FLAG_JSON(what) {"json", .flags = OPTION_FIRST, SET_AT(struct plan_flags, json), .doc = "print JSON" what}
// clang-format on

// As trial_flags_open. host: what the absence of --host-memory means.
void plan_flags_open(struct plan_flags *flags, int needs, const char *const *without, const struct flag *own,
                     const char *host);
void plan_flags_close(struct plan_flags *flags);
// For the command's argp parser, with all keys that are not its own; at the end what is needed must be there, and
// the device is set.
error_t plan_flags_parse(struct plan_flags *flags, int key, const char *text, struct argp_state *state);
#define PLAN_LIMIT_BYTES (PROFILE_NAME_BYTES + 64) // of a limit's words, which name its profile

// The memory there is: what was given, else what the trial's profile says is usable, else 0; less the reserve.
// what: where that comes from, in words. False and a status if it is no size, or the reserve leaves nothing. Says
// on stderr where a card's profile is planned as the CPU, which was not asked for (not beside JSON, which has the
// device).
bool plan_flags_limit(const struct plan_flags *flags, const struct trial *trial, size_t *bytes, char *what,
                      size_t what_bytes, struct status *status);
