// Checkpoint: a training run's weights and optimizer state after a step, in a folder that gets its name,
// DIR/checkpoint-000100, when it is complete. With LoRA only the factors, in PEFT's format.
#pragma once
#include "kernels/comm/world.h"
#include "kernels/trainer/trainer.h"

#define CHECKPOINT_STATE "optimizer.safetensors" // of one rank; several ranks have a file each

// Approximate size on disk. Here and below all ranks of the world take part and share the folder.
size_t checkpoint_bytes(const struct model *model, const struct world *world);
// Writes the checkpoint of `step`. base: the folder of the weights below LoRA factors, or NULL. Returns false and a
// status (io) on failure; nothing is left, unless another rank was about to write its part.
bool checkpoint_write(const char *folder, size_t step, struct model *model, const char *base,
                      const struct world *world, struct status *status);
// The step of the last complete checkpoint; 0: none. Removes incomplete ones.
size_t checkpoint_last(const char *folder);
// The last complete one before step `below`; 0: none.
size_t checkpoint_before(const char *folder, size_t below);
// Restores the model's weights and optimizer state. Returns false and a status if a file has changed, naming the
// previous checkpoint, if any, as the remedy.
bool checkpoint_read(const char *folder, size_t step, struct trainer *trainer, const struct world *world,
                     struct status *status);
// Removes all but the last `keep`.
void checkpoint_prune(const char *folder, size_t keep);
