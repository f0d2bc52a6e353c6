// Plan flags: flags shared by the planning commands: the trial's flags, the device to plan for, its memory, the
// methods, and the output format.
#pragma once
#include "harness/options/method_flags.h"
#include "harness/options/trial_flags.h"

// Required flags besides the model.
enum plan_need { NEEDS_CONTEXT = 1, NEEDS_MEMORY = 2 };

struct plan_flags {
    struct trial_flags trial;
    int needs;
    // As given; NULL: not given. memory_flag: the name of the flag that set memory.
    const char *like, *from, *against, *memory, *memory_flag, *reserve, *methods, *also, *out;
    bool exact, json;
    bool compares;     // a framework's step is planned beside this program's own, and --from is of that one
    json_t *theirs;    // keys of that one apart from the trial's, "framework" and "method"; NULL: none is planned
    json_t *unchecked; // texts: what the file of --from has that its plan does not, or that nobody has checked
};

// Parser keys from 0x200 on. The other flags are stored in struct plan_flags, which must be first in the command's
// struct.
enum plan_flag { PLAN_MEMORY_LIMIT = 0x200, PLAN_DEVICE_MEMORY };
// clang-format off
#define PLAN_FLAG_LIKE \
    {"like", TEXT_AT(struct plan_flags, like), .arg = "cpu|cuda|transformers", \
     .doc = "the device to plan for, or the framework whose step on a card (cuda for bf16, else cpu)"}
#define PLAN_FLAG_FROM \
    {"from", TEXT_AT(struct plan_flags, from), .arg = "FILE|DIR", \
     .doc = "plan transformers' step of a run as its own file asks for it: a folder with training_args.json, config.json " \
            "and adapter_config.json, or YAML of TRL, Axolotl or LLaMA-Factory; options given beside it go before it (none)"}
#define PLAN_FLAG_AGAINST \
    {"against", TEXT_AT(struct plan_flags, against), .arg = "transformers", \
     .doc = "plan transformers' step beside it, with checkpoints or as --from has it, and as --framework has it, and say " \
            "what its peak is made of and what would change it; with --json and --out as records (none)"}
#define PLAN_FLAG_MEMORY_LIMIT \
    {"memory-limit", .flags = OPTION_FIRST, .key = PLAN_MEMORY_LIMIT, .arg = "SIZE", \
     .doc = "memory limit of the device, such as 24GiB or 24G, the same, or 80GB (the profile's usable memory, less --reserve)"}
#define PLAN_FLAG_DEVICE_MEMORY \
    {"device-memory", .flags = OPTION_FIRST, .key = PLAN_DEVICE_MEMORY, .arg = "SIZE", .doc = "the same as --memory-limit (the profile's usable memory, less --reserve)"}
#define PLAN_FLAG_RESERVE \
    {"reserve", TEXT_AT(struct plan_flags, reserve), .arg = "SIZE", \
     .doc = "device memory to leave free for the device's context, kernels and memory pool; 0: none (the profile's reserve_bytes; 0 with a given memory limit)"}
#define PLAN_FLAG_ALSO \
    {"also", TEXT_AT(struct plan_flags, also), .arg = "kv-gradient-dtype|weights,weights", \
     .doc = "keys with values to try although they change the gradient, when a method is chosen: " \
            "kv-gradient-dtype (bf16), weights (nf4, int8) (none)"}
#define PLAN_FLAGS_RECORDS \
    {"out", .flags = OPTION_FIRST, .key = 'o', TEXT_AT(struct plan_flags, out), .arg = "FILE", \
     .doc = "append a planned record of each choice to a result file, for report, plot and compare (none)"}, \
    PLAN_FLAG_JSON(": a record per line, in place of the table")
#define PLAN_FLAG_JSON(what) {"json", .flags = OPTION_FIRST, SET_AT(struct plan_flags, json), .doc = "print JSON" what}
// clang-format on

// As trial_flags_open. host: the meaning of an absent --host-memory.
void plan_flags_open(struct plan_flags *flags, int needs, const char *const *without, const struct flag *own,
                     const char *host);
void plan_flags_close(struct plan_flags *flags);
// For the command's argp parser, with all keys that are not its own; at the end checks required flags and sets the
// device.
error_t plan_flags_parse(struct plan_flags *flags, int key, const char *text, struct argp_state *state);
#define PLAN_LIMIT_BYTES (PROFILE_NAME_BYTES + 64) // of a limit's description, which names its profile

// The available memory: as given, else the usable bytes of the trial's profile, else 0; less the reserve. what: its
// source in words. Returns false and a status if it is no size or the reserve leaves nothing. Warns on stderr if a
// card's profile is planned as the CPU without --like (not with JSON, which names the device).
bool plan_flags_limit(const struct plan_flags *flags, const struct trial *trial, size_t *bytes, char *what,
                      size_t what_bytes, struct status *status);
