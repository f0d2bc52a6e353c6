// Folder path: names of a model's folder and its files.
#pragma once
#include <stdbool.h>

#define FOLDER_WEIGHTS        "model.safetensors"
#define FOLDER_INDEX          "model.safetensors.index.json"
#define FOLDER_ADAPTER        "adapter_model.safetensors"
#define FOLDER_ADAPTER_CONFIG "adapter_config.json"

// The path without trailing slashes, to be freed: "m/" and "m" are one folder.
char *folder_path(const char *path);
// "m/config.json", to be freed.
char *folder_file(const char *folder, const char *name);
// Tells whether the folder has a file of this name.
bool folder_has(const char *folder, const char *name);
