// Framework label: how rows and curves name another framework's step.
#pragma once
#include "harness/record/record.h"
#include <stddef.h>

// Appends ", transformers 4.51.3", ", loss chunked" unless it is of whole logits, and, if any, ", head, adapters
// inferred": the keys that no source states.
// keys: of the trial's framework.
void framework_label(const struct record_framework *framework, const json_t *keys, char *text, size_t bytes);
// Appends the other keys that are not as by default: "attention efficient, outputs kept".
void framework_details(const json_t *keys, char *text, size_t bytes);
