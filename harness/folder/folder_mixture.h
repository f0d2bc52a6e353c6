// Folder mixture: the keys of config.json that describe mixtures of experts.
#pragma once
#include "harness/folder/folder_family.h"

// Sets the experts, and which layers are mixtures of them, of a config whose layers are of their kinds otherwise.
// Returns false and a status that names the key.
bool folder_mixture_decode(struct json_field root, const struct family *family, struct config *config,
                           struct status *status);
// Sets the keys in a config.json.
void folder_mixture_encode(json_t *json, const struct family *family, const struct config *config);
// Tells whether the family's keys can give the config's experts.
bool folder_mixture_is_of(const struct family *family, const struct config *config);
