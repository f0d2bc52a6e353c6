// Autocast: torch.autocast in bf16. Products and attention take what they read in bf16; the casts of weights that
// train are kept until the outermost region ends.
#pragma once
#include "kernels/framework/aten.h"

struct autocast {
    bool on;      // otherwise regions change nothing
    size_t depth; // of regions, one in the other; 0: none is open
    struct cast {
        const struct storage *of;
        struct value to;
    } * casts; // [count]
    size_t count, capacity;
};

void autocast_enter(struct autocast *autocast);
// The outermost one drops all casts.
void autocast_exit(struct autocast *autocast, struct tape *tape);
void autocast_close(struct autocast *autocast);

// x as products and attention take it.
struct value autocast_narrow(struct autocast *autocast, struct tape *tape, struct value x);
struct value autocast_linear(struct autocast *autocast, struct tape *tape, struct value x, struct value weight,
                             struct value bias, enum category category);
