// Folder config: the meaning of config.json's keys in each family.
#pragma once
#include "harness/folder/folder_family.h"
#include "harness/json/json_field.h"

// Sets the config except its name. *composite: the model that contains it; NULL: a model of text alone. Returns
// false and a status that names a key that is wrong or changes the computation in an unknown way.
bool folder_config_decode(struct json_field root, struct config *config, const struct composite **composite,
                          struct status *status);
