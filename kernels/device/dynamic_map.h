// Dynamic map: 256 levels in [-1, 1] or [0, 1], dense near 0, for optimizer moments in blocks that share a scale
// (Dettmers et al. 2022, arXiv 2110.02861, section 1.2 and appendix F). The same source on every device.
//
// Signed: 0, 1, and for i = 0 .. 6 the midpoints of 2^i equal parts of [0.1, 1] times 10^(i - 6), with both signs.
// Unsigned: the same with 2^(i + 1) parts and one sign. Levels are sorted: number 127 of the signed map is 0. The
// f32 arithmetic follows torch.linspace, so that levels equal those of bitsandbytes.functional.create_dynamic_map
// to the bit.
#pragma once
#include "kernels/base/host_device.h"
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#define MAP_LEVELS 256
#define MAP_BLOCK  ((size_t)256) // numbers that share a scale
#define MAP_ZERO   127           // code of 0 in the signed map

// Boundary p of `parts` equal parts of [0.1, 1].
HOST_DEVICE static inline float map_boundary(int p, int parts)
{
    float step = (1 - 0.1f) / (float)parts;
    return p < (parts + 1) / 2 ? fmaf(step, (float)p, 0.1f) : fmaf(-step, (float)(parts - p), 1);
}

// Level 1 to 2^(7 + shift) - 1 above 0; decade i has 2^(i + shift) parts.
HOST_DEVICE static inline float map_magnitude(int number, int shift)
{
    const float decades[] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1};
    int i = 0;
    number += (1 << shift) - 1;
    while (number >> (i + shift + 1))
        i++;
    int parts = 1 << (i + shift), part = number - parts;
    return decades[i] * ((map_boundary(part, parts) + map_boundary(part + 1, parts)) / 2);
}

HOST_DEVICE static inline float map_level(bool is_signed, int code)
{
    int number = is_signed ? code - MAP_ZERO : code;
    if (code == MAP_LEVELS - 1 || number == 0)
        return number == 0 ? 0 : 1;
    return is_signed ? (number < 0 ? -map_magnitude(-number, 0) : map_magnitude(number, 0))
                     : map_magnitude(number, 1);
}

// The code of the level nearest to x, the lower one on ties. x is in the map's range; levels: all 256.
HOST_DEVICE static inline int map_nearest(const float *levels, float x)
{
    int low = 0, high = MAP_LEVELS - 1;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (levels[middle] <= x)
            low = middle;
        else
            high = middle;
    }
    return x - levels[low] <= levels[high] - x ? low : high;
}

// map_nearest in the signed map, with a level of x's sign: 0 counts as positive.
HOST_DEVICE static inline int map_nearest_signed(const float *levels, float x)
{
    int code = map_nearest(levels, x);
    if ((levels[code] < 0) != (x < 0))
        code += x < 0 ? -1 : 1;
    return code;
}
