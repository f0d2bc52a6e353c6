// Checkpoint: a training run's weights and optimizer state after a step, in a folder of their own that is whole or
// has another name: DIR/checkpoint-000100. With LoRA the factors alone, as PEFT keeps them.
#pragma once
#include "kernels/comm/world.h"
#include "kernels/trainer/trainer.h"

#define CHECKPOINT_STATE "optimizer.safetensors" // of one rank; of several each has its own

// Bytes of one on the disk, but for a few KiB. Here and below all ranks of the world come together, and see one
// folder.
size_t checkpoint_bytes(const struct model *model, const struct world *world);
// Writes that of `step`. base: the folder of the weights below LoRA factors, or NULL. False and a status (io) if
// it cannot be written; then nothing of it is left, unless another rank was about to write its part.
bool checkpoint_write(const char *folder, size_t step, struct model *model, const char *base,
                      const struct world *world, struct status *status);
// The step of the last one that is whole; 0: there is none. What an unfinished one left behind is removed.
size_t checkpoint_last(const char *folder);
// The last whole one of a step below `below`; 0: there is none.
size_t checkpoint_before(const char *folder, size_t below);
// The model's weights and optimizer state become that of the step. False and a status if a file is not as it was
// written: the checkpoint before it, if there is one, is named as the remedy.
bool checkpoint_read(const char *folder, size_t step, struct trainer *trainer, const struct world *world,
                     struct status *status);
// Removes all but the last `keep`.
void checkpoint_prune(const char *folder, size_t keep);
