// Method JSON: a method and its options as specs and records hold them, {"name": "seco", "chunk": 128}, by the
// method's table alone: a new option or method needs nothing here.
#pragma once
#include "harness/files/json_field.h"
#include "methods/method.h"

// Sets an option to what a field says; one that was left out stays as it is. False and a status if it is of another
// type, or out of bounds.
bool method_json_read(struct json_field field, const struct option *option, void *options, struct status *status);
// The name and every option: a new reference.
json_t *method_json(const struct method *method, const void *options);
