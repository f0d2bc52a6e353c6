// Pinned: memory of the host that a card's copies reach by themselves, beside kernels. To pin it takes a driver
// long, and a step asks for the same buffers again and again, so what is released is kept.
#pragma once
#include "kernels/base/status.h"
#include <stddef.h>

struct pinned;

struct pinned *pinned_open(void);
// Released blocks are found again by their size. NULL and a status (oom) if the driver refuses.
void *pinned_allocate(struct pinned *pinned, size_t bytes, struct status *status);
// In the order of the copies: whoever gets the block next must have waited for those that use it now.
void pinned_release(struct pinned *pinned, void *pointer, size_t bytes);
// Blocks that nobody has go back to the driver. No copy may use them any more.
void pinned_trim(struct pinned *pinned);
void pinned_close(struct pinned *pinned);
