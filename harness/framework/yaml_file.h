// YAML file: a file whose top is a mapping, as JSON, with the line of each of its keys. JSON files are YAML, too.
// Plain scalars are read as PyYAML reads them, which knows YAML 1.1: yes and off are booleans.
#pragma once
#include "kernels/base/status.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct yaml_file {
    char *name;    // the start of messages
    json_t *root;  // an object
    json_t *lines; // of its keys, from 1
};

// Loads a file of at most 8 MiB, 64 levels and 100,000 values, aliases written out, without duplicate keys. Returns
// false and a message with its line otherwise. Release with yaml_file_close, also after a failure.
bool yaml_file_open(struct yaml_file *file, const char *path, struct status *status);
void yaml_file_close(struct yaml_file *file);
// Sets `name:line: key "k": message`. Returns false.
bool yaml_file_error(const struct yaml_file *file, const char *key, struct status *status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
