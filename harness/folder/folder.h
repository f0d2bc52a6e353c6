// Folder: a model as Hugging Face keeps one: config.json beside model.safetensors, or shards and their index, and
// PEFT's adapter_model.safetensors.
#pragma once
#include "harness/tensors/folder_path.h"
#include "kernels/comm/world.h"
#include "kernels/model/model.h"

// Reads config.json of a family that folder_family.h lists, or of a model of images or sound whose language model
// is one (text_config). A key that was left out means what it means in transformers. Whatever would compute
// something else than the decoder of kernels/README.md is refused by its key. A head beside the embedding that has
// other values is not tied to it, whatever the file says, as in transformers 5.
bool folder_read_config(const char *folder, struct config *config, struct status *status);
// Says on stderr which weights of a folder are left aside, and that its head is not tied though config.json ties
// it. NULL: nothing.
void folder_say(const char *folder);
// Sets every weight of a model that was opened, from F64, F32, BF16 or F16, first rounded to `rounding` (so that an
// f64 reference can hold an f32 model's weights). Every name (weight_names.h) and shape must be there, and none
// besides but RoPE's frequencies, which must be the config's. LoRA factors become random (random_weights_values).
bool folder_read_weights(const char *folder, struct model *model, uint64_t seed, enum dtype rounding,
                         struct status *status);
// The LoRA factors and the modules that are saved whole, from the folder's adapter; and whether it has them, and
// nothing else, for a model of this shape.
bool folder_read_adapter(const char *folder, struct model *model, enum dtype rounding, struct status *status);
bool folder_check_adapter(const char *folder, const struct config *config, const struct lora *lora,
                          struct status *status);
// XXH3 of the files of a model, config.json and, if they are wanted, weights; and of an adapter, likewise. They are
// read whole. False and a status if one cannot be.
bool folder_hash_model(const char *folder, bool weights, uint64_t *hash, struct status *status);
bool folder_hash_adapter(const char *folder, bool weights, uint64_t *hash, struct status *status);

// Writes config.json for transformers, with the dtype that the weights have.
bool folder_write_config(const char *folder, const struct config *config, enum dtype dtype, struct status *status);
// What of the folder of the weights below goes with those that were trained from them: its token ids, into the
// config.json that was written, and the files of its tokenizer and of generation, as far as it has them.
bool folder_take_along(const char *folder, const char *base, struct status *status);
// Is told how many bytes of the weights are written: first none of them, when it is known that there is room for
// all.
struct folder_listener {
    void (*wrote)(void *context, size_t bytes, size_t total_bytes);
    void *context;
};
// Makes a folder of random weights (random_weights_values) in F64, F32 or BF16. A folder that is not empty is
// refused, and so is a disk without room; after a failure or a signal (harness/files/unfinished.h) nothing is left
// behind. A few MiB are in memory at a time. listener: NULL, or who is told.
bool folder_write(const char *folder, const struct config *config, uint64_t seed, enum dtype dtype,
                  const struct folder_listener *listener, struct status *status);
// Whether the disk of a folder, there or to be made, has room for so many bytes; some file systems do not say.
// False and a status (io): `what` take them; `remedy` besides another folder.
bool folder_has_room(const char *folder, size_t bytes, const char *what, const char *remedy, struct status *status);
// Writes what of an opened model trains (model_can_train), in the dtype that it has: its weights and config.json;
// or with LoRA the factors as PEFT keeps them, with the rank and scale, and `base`, the folder of the weights
// below; NULL: there is none. Or both, and the weights below are those beside. Each file is whole or not there;
// weights come after what describes them, and factors last. world: the ranks that have parts of the model, which
// all come here: rank 0 writes everyone's.
bool folder_save(const char *folder, struct model *model, const char *base, const struct world *world,
                 struct status *status);
