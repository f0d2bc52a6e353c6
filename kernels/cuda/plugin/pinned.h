// Pinned: host memory that a card copies directly, concurrently with kernels. Pinning is slow and steps allocate
// the same buffers repeatedly, so released blocks are cached.
#pragma once
#include "kernels/base/status.h"
#include <stddef.h>

struct pinned;

struct pinned *pinned_open(void);
// Reuses released blocks of equal size. Returns NULL and a status (oom) if the driver refuses.
void *pinned_allocate(struct pinned *pinned, size_t bytes, struct status *status);
// The next owner of the block must wait for the copies that use it.
void pinned_release(struct pinned *pinned, void *pointer, size_t bytes);
// Returns cached blocks to the driver. No copy may use them.
void pinned_trim(struct pinned *pinned);
void pinned_close(struct pinned *pinned);
