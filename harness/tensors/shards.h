// Shards: the files that together hold one set of tensors.
#pragma once
#include "harness/tensors/safetensors.h"

#define SHARDS_EMBEDDING "model.embed_tokens.weight"
#define SHARDS_HEAD      "lm_head.weight"

struct shards {
    size_t count;
    struct safetensors *files;
    size_t aside; // tensors of other parts than the language model, which were taken out
};

// Adds a file. False and a status if it cannot be read; it is then in the set, too, for shards_close.
bool shards_add(struct shards *shards, const char *folder, const char *name, struct status *status);
// Opens the weights of a folder, one file or shards and their index, under the names of weight_names.h. tied: a
// head without an embedding is the embedding.
bool shards_open_weights(struct shards *shards, const char *folder, bool tied, struct status *status);
void shards_close(struct shards *shards);
// The file that has the tensor; NULL: none.
const struct safetensors *shards_find(const struct shards *shards, const char *name);
// Whether there are an embedding and a head of different values, so that they are not one table, whatever
// config.json says: transformers does not tie them either.
bool shards_have_own_head(const struct shards *shards);
