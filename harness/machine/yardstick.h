// Yardstick: a short fixed mix of what steps are made of, to tell how fast a machine is at this moment. Its time
// now over that when the machine's rates were measured is how much longer than predicted steps are to be expected
// to take, because of neighbours, clocks or whatever else comes and goes.
#pragma once
#include "kernels/base/dtype.h"
#include "kernels/base/status.h"

struct yardstick;

// What the mix is sized for, so that it is long enough to be timed and short enough to be timed often.
enum yardstick_size { YARDSTICK_CPU, YARDSTICK_CARD, YARDSTICK_SLOW_CARD, YARDSTICK_SIZES };
// On a device of its own, whose memory is in nobody's peak. NULL and a status (unsupported, oom) if there is none.
struct yardstick *yardstick_open(const char *device, enum dtype dtype, enum yardstick_size size,
                                 struct status *status);
// Seconds of one run of the mix, the mean over so many, after one that is not timed.
double yardstick_s(struct yardstick *yardstick, size_t runs);
void yardstick_close(struct yardstick *yardstick);
