// Planned figure: pictures of `longbp advise --json` and `longbp frontier --json`: the Pareto front of time and
// memory, and the longest context against memory.
#pragma once
#include "harness/plot/picture.h"
#include <stddef.h>

struct planned_request {
    const char *const *paths; // outputs, with a picture each, named after the file
    size_t path_count;
    const struct picture_form *form;
};
// Draws NAME-front.FORMAT, and NAME-frontier.FORMAT. Returns false and a status if a file is wrong or drawing
// failed.
bool pareto_front_plot(const struct planned_request *request, struct status *status);
bool frontier_plot(const struct planned_request *request, struct status *status);
