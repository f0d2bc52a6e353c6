// Memory of a host's device under test: NaN when it is given out, with a fence behind it, which is looked at when
// it is given back.
#pragma once
#include "kernels/device/arena.h"

#ifdef __cplusplus
extern "C" {
#endif
extern const struct arena_source fenced_memory;
#ifdef __cplusplus
}
#endif
