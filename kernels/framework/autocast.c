#include "kernels/framework/autocast.h"
#include <stdlib.h>

void autocast_enter(struct autocast *autocast)
{
    autocast->depth += autocast->on;
}

void autocast_exit(struct autocast *autocast, struct tape *tape)
{
    autocast->depth -= autocast->on;
    for (size_t i = 0; !autocast->depth && i < autocast->count; i++)
        tape_drop(tape, &autocast->casts[i].to);
    autocast->count = autocast->depth ? autocast->count : 0;
}

void autocast_close(struct autocast *autocast)
{
    CHECK(!autocast->depth && !autocast->count);
    free(autocast->casts);
}

static struct value *cast_of(struct autocast *autocast, struct value x)
{
    size_t i = 0;
    while (i < autocast->count && autocast->casts[i].of != x.storage)
        i++;
    return i < autocast->count ? &autocast->casts[i].to : NULL;
}

static void keep(struct autocast *autocast, struct value x, struct value cast)
{
    if (autocast->count == autocast->capacity) {
        autocast->capacity = autocast->capacity ? 2 * autocast->capacity : 64;
        autocast->casts = realloc(autocast->casts, autocast->capacity * sizeof *autocast->casts);
        CHECK(autocast->casts);
    }
    autocast->casts[autocast->count++] = (struct cast){x.storage, tape_share(cast)};
}

// Casts of leaves are kept: of those in f32 that need a gradient.
struct value autocast_narrow(struct autocast *autocast, struct tape *tape, struct value x)
{
    bool leaf = tape_is_leaf(tape, x);
    const struct value *kept = autocast->depth && leaf ? cast_of(autocast, x) : NULL;
    if (kept)
        return tape_share(*kept);
    if (!autocast->depth || !x.storage || x.dtype != DTYPE_F32)
        return tape_share(x);
    struct value cast = aten_to(tape, x, DTYPE_BF16, x.storage->category);
    if (leaf)
        keep(autocast, x, cast);
    return cast;
}

// Arguments are cast from the last one on, as compilers evaluate them.
struct value autocast_linear(struct autocast *autocast, struct tape *tape, struct value x, struct value weight,
                             struct value bias, enum category category)
{
    struct value of_bias = autocast_narrow(autocast, tape, bias);
    struct value of_weight = autocast_narrow(autocast, tape, weight);
    struct value of_x = autocast_narrow(autocast, tape, x);
    struct value y = aten_linear(tape, of_x, of_weight, of_bias, category);
    tape_drop(tape, &of_x);
    tape_drop(tape, &of_weight);
    tape_drop(tape, &of_bias);
    return y;
}
