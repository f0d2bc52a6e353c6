// Trial flags: a trial asked for on a command line: its keys and every option of a method as flags. They become the
// JSON that a spec would hold, and the decoder of specs checks it.
#pragma once
#include "harness/options/arguments.h"
#include "harness/spec/trial.h"
#include <jansson.h>

struct trial_flags {
    struct argp_option *options; // for argp: the command's own flags, then the trial's
    json_t *trial, *method;      // what was given
    size_t key_count;            // flags of the trial's own keys, and
    struct trial_flag *keys;     // what each is, in their order
    bool min_memory;             // a card's own defaults, which take more, are left aside
};

// Every key of a trial that has a flag is one, those named in `without` apart, which ends in NULL; so is every
// option of every method. own: the command's other flags, ending in {0}, with keys below 0x1000. Every flag can be
// written with hyphens or, as in specs, with underscores. Release with trial_flags_close.
void trial_flags_open(struct trial_flags *flags, const char *const *without, const struct flag *own);
// In place of a key's default in its help, where that means something else to the command; nothing if it has no
// flag.
void trial_flags_describe(struct trial_flags *flags, const char *name, const char *standard);
// For the command's argp parser: ARGP_ERR_UNKNOWN if the key is not that of one of these flags.
error_t trial_flags_parse(struct trial_flags *flags, int key, const char *text);
// The trial asked for. method: of this name, with those of the given options that it knows; NULL: the method given,
// or full, and an option that it does not know is refused. Release with trial_free, also after a failure.
bool trial_flags_decode(const struct trial_flags *flags, const char *method, struct trial *trial,
                        struct status *status);
// Appends what was given for the trial's keys to a shell's command line (shell.h), those named in `without` apart,
// which ends in NULL; of the method nothing.
void trial_flags_append(const struct trial_flags *flags, const char *const *without, char **command);
// Sets the data of the trial that is asked for to a file of tokens; path NULL: to none. dtype: bytes, u16 or u32;
// NULL: left to the file. False and a status if it is given without a file.
bool trial_flags_set_tokens(struct trial_flags *flags, const char *path, const char *dtype, struct status *status);
void trial_flags_close(struct trial_flags *flags);
