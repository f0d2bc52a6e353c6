// Folder: a model in Hugging Face's format: config.json beside model.safetensors or shards with an index; and
// PEFT's adapter_model.safetensors.
#pragma once
#include "harness/tensors/folder_path.h"
#include "kernels/comm/world.h"
#include "kernels/model/model.h"

// Reads config.json of a family in folder_family.h, or of a model of images or sound whose language model
// (text_config) is one. Absent keys have transformers' defaults. Keys that change the computation from the decoder
// of kernels/README.md are refused. A head with other values than the embedding is untied, whatever the file says,
// as in transformers 5.
bool folder_read_config(const char *folder, struct config *config, struct status *status);
// Prints on stderr which weights of a folder are ignored, and whether its head is untied against config.json. NULL:
// nothing.
void folder_say(const char *folder);
// Sets every weight of an opened model from F64, F32, BF16 or F16, first rounded to `rounding` (so that an f64
// reference can hold an f32 model's weights). Names (weight_names.h) and shapes must match exactly; RoPE's
// frequencies may be present and must be the config's. LoRA factors become random (random_weights_values).
bool folder_read_weights(const char *folder, struct model *model, uint64_t seed, enum dtype rounding,
                         struct status *status);
// Sets one parameter from a readable tensor of its shape.
struct safetensors_tensor;
void folder_read_values(struct model *model, struct parameter *p, const struct safetensors_tensor *t,
                        enum dtype rounding);
// folder_read_adapter reads LoRA factors and modules to save from the folder's adapter; the other function checks
// that it has exactly those of a model of this shape.
bool folder_read_adapter(const char *folder, struct model *model, enum dtype rounding, struct status *status);
bool folder_check_adapter(const char *folder, const struct config *config, const struct lora *lora,
                          struct status *status);
// XXH3 of a model's config.json and, if requested, weights; and of an adapter's files. Reads them completely.
// Returns false and a status on failure.
bool folder_hash_model(const char *folder, bool weights, uint64_t *hash, struct status *status);
bool folder_hash_adapter(const char *folder, bool weights, uint64_t *hash, struct status *status);

// Writes config.json for transformers, with the weights' dtype.
bool folder_write_config(const char *folder, const struct config *config, enum dtype dtype, struct status *status);
// RoPE's scaling in the config, null if there is none. The names of its type's key and of the original context's
// differ between config.json and a trial.
json_t *folder_rope_json(const struct config *config, const struct rope_scaling *r, const char *type,
                         const char *original_context);
// Copies from the base weights' folder what belongs to trained weights: token ids, into the written config.json,
// and the files of tokenizer and generation if they exist.
bool folder_take_along(const char *folder, const char *base, struct status *status);
// Progress callback with the bytes of weights written: first 0, when enough room is known.
struct folder_listener {
    void (*wrote)(void *context, size_t bytes, size_t total_bytes);
    void *context;
};
// Creates a folder of random weights (random_weights_values) in F64, F32 or BF16. Refuses a non-empty folder or a
// full disk. Leaves nothing behind after a failure or a signal (harness/files/unfinished.h). Holds a few MiB in
// memory. listener: may be NULL.
bool folder_write(const char *folder, const struct config *config, uint64_t seed, enum dtype dtype,
                  const struct folder_listener *listener, struct status *status);
// Tells whether the disk of a folder, existing or not, has room for `bytes` bytes, as far as the file system
// reports it. Otherwise returns false and a status (io): `what` needs them; `remedy` besides another folder.
bool folder_has_room(const char *folder, size_t bytes, const char *what, const char *remedy, struct status *status);
// Writes an opened model's trainable parameters (model_can_train) in their dtype: weights with config.json; with
// LoRA the factors in PEFT's format, with rank and scale and `base`, the folder of the base weights (NULL: none);
// or both, with the base in the same folder. Each file is complete or absent; weights follow their description,
// factors come last. world: the ranks that hold parts of the model and all call this; rank 0 writes.
bool folder_save(const char *folder, struct model *model, const char *base, const struct world *world,
                 struct status *status);
