// Folder RoPE: what the keys of config.json say of RoPE.
#pragma once
#include "harness/folder/folder_family.h"
#include "harness/json/json_field.h"

// Sets rope_theta, local_rope_theta and rope_scaling of a config whose max_context is set. There are two spellings:
// rope_theta beside rope_scaling, which counts unless it is empty; or, from transformers 5 on, all within
// rope_parameters. False and a status that names the key otherwise.
bool folder_rope_decode(struct json_field root, const struct family *family, struct config *config,
                        struct status *status);
