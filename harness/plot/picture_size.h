// Picture size: how large a picture is on paper, as it is typed.
#pragma once
#include "kernels/base/status.h"
#include <stdbool.h>

struct picture_size {
    double width_mm, height_mm; // 0: as the figure has it
};

// "170x110mm", "6.7x4.3in", "8.5x6cm", or the width alone: "85mm". False and a status if it is none of these, or
// smaller than 30 mm or larger than 2000 mm.
bool picture_size_parse(const char *text, struct picture_size *size, struct status *status);
