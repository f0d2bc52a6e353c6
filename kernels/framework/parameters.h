// Parameters: a model's weights on the tape, by its parameters and by the names of its modules.
#pragma once
#include "kernels/framework/framework_run.h"

// The weight of a parameter; NULL: no value.
struct value parameters_weight(const struct framework_run *run, const struct parameter *parameter);
// Layer l's projection or gain by its module's name; NULL: it has none.
const struct projection *parameters_of_layer(const struct framework_run *run, size_t l, const char *name);
