// Shards: the files that together hold one set of tensors.
#pragma once
#include "harness/tensors/safetensors.h"

#define SHARDS_EMBEDDING "model.embed_tokens.weight"
#define SHARDS_HEAD      "lm_head.weight"

struct shards {
    size_t count;
    struct safetensors *files;
    size_t aside; // tensors of parts other than the language model, which were removed
};

// Adds a file. Returns false and a status if it cannot be read; shards_close still releases it.
bool shards_add(struct shards *shards, const char *folder, const char *name, struct status *status);
// Opens the weights of a folder, one file or shards with an index, under the names of weight_names.h. tied: a head
// without an embedding serves as the embedding.
bool shards_open_weights(struct shards *shards, const char *folder, bool tied, struct status *status);
void shards_close(struct shards *shards);
// The file that has the tensor, or NULL.
const struct safetensors *shards_find(const struct shards *shards, const char *name);
// Tells whether embedding and head have different values. They are then not tied, whatever config.json says, as in
// transformers.
bool shards_have_own_head(const struct shards *shards);
