// Folder config: what the keys of config.json mean in each family.
#pragma once
#include "harness/folder/folder_family.h"
#include "harness/json/json_field.h"

// Sets all of the config but its name. *composite: the model whose language model it is; NULL: it is one of text
// alone. False and a status that names the key which is wrong, or which would change what is computed in a way that
// is not known.
bool folder_config_decode(struct json_field root, struct config *config, const struct composite **composite,
                          struct status *status);
