// Options: what a method can be asked, as one table that specs, the command line and the help are made from.
#pragma once
#include "kernels/base/status.h"
#include "kernels/transformer/cell.h"
#include "methods/index_list.h"
#include <stddef.h>
#include <stdint.h>

enum sampler { SAMPLER_UNIFORM, SAMPLER_BERNOULLI, SAMPLER_SEQUENTIAL, SAMPLER_FIXED };
enum compensation { COMPENSATION_NONE, COMPENSATION_PAPER, COMPENSATION_CAPPED, COMPENSATION_SEQUENTIAL };
enum loss_scope { LOSS_ALL, LOSS_SAMPLED };
enum inner { INNER_NONE, INNER_CHECKPOINT };
enum behaviour { BEHAVIOUR_OK, BEHAVIOUR_FAIL, BEHAVIOUR_HANG, BEHAVIOUR_OOM, BEHAVIOUR_CRASH };

#define COLUMNS_MAX 4096 // that may be drawn from

struct method_options {
    size_t chunk;      // tokens per column
    size_t head_chunk; // tokens per block of logits; 0: the whole column
    enum keep keep;
    enum inner inner;
    // spaco
    size_t budget;
    enum sampler sampler;
    enum compensation compensation;
    double cap;     // of `capped`
    double minimum; // least probability of `sequential`; 0: half of budget / columns
    enum loss_scope loss;
    size_t sampler_seed;
    struct index_list columns; // of `fixed`
    // null
    enum behaviour behaviour;
    double seconds;
};

enum option_type { OPTION_COUNT, OPTION_NUMBER, OPTION_CHOICE, OPTION_LIST };

struct option {
    const char *name;
    enum option_type type;
    size_t offset;              // of the value in struct method_options: size_t, double, int, struct index_list
    double minimum, maximum;    // OPTION_COUNT and OPTION_NUMBER
    double initial;             // default; for OPTION_CHOICE the index
    const char *const *choices; // OPTION_CHOICE: names in the order of the enum, ending in NULL
    const char *help;           // one line, with the unit
};

// Every option there is, ending with a NULL name. A method lists those it knows by name.
extern const struct option method_option_table[];
const struct option *option_find(const char *name);
// All defaults: lists are empty, and nothing need be released.
void options_init(struct method_options *options);
// A copy with lists of its own. Release with options_free.
struct method_options options_copy(const struct method_options *options);
// Releases the lists.
void options_free(struct method_options *options);
