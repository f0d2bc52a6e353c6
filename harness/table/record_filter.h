// Record filter: the records that a table or a report is of, by what their fields hold.
#pragma once
#include "harness/record/results.h"

// Leaves those records alone of which every condition holds: "method=seco", "context=1024,2048" (one of them),
// "status=ok", "trial.lora=null". The name is a field's or a key's (record_columns.h); an object goes by its name.
// False and a status if a condition is none, or names no field, or holds another one, "method=seco,chunk=512".
bool record_filter(struct results *results, const char *const *conditions, size_t count, struct status *status);
// The same of what a user asks for: false and a status, too, that names the values that there are, if a condition
// leaves none of the records, or a value of its list is none of theirs (a status that no trial ended with apart).
bool record_filter_some(struct results *results, const char *const *conditions, size_t count,
                        struct status *status);
