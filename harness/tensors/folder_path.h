// Folder path: names of a model's folder and its files.
#pragma once
#include "kernels/base/status.h"
#include <jansson.h>
#include <stdbool.h>

#define FOLDER_WEIGHTS        "model.safetensors"
#define FOLDER_INDEX          "model.safetensors.index.json"
#define FOLDER_ADAPTER        "adapter_model.safetensors"
#define FOLDER_ADAPTER_CONFIG "adapter_config.json"

// The path without trailing slashes, to be freed: "m/" and "m" are one folder.
char *folder_path(const char *path);
// "m/config.json", to be freed.
char *folder_file(const char *folder, const char *name);
// Writes a file of JSON for people (harness/files/output_file.h), and frees the JSON.
bool folder_write_json(const char *folder, const char *name, json_t *json, struct status *status);
// Tells whether the folder has a file of this name.
bool folder_has(const char *folder, const char *name);
