// Record filter: selects records of a table or report by their fields.
#pragma once
#include "harness/record/results.h"

// Keeps the records that meet every condition: "method=seco", "context=1024,2048" (one of them), "status=ok",
// "trial.lora=null". Names are fields or keys (record_columns.h); an object stands for its name. Returns false and
// a status if a condition is invalid, has an unknown field, or contains another one, "method=seco,chunk=512".
bool record_filter(struct results *results, const char *const *conditions, size_t count, struct status *status);
// The same for users: also returns false and a status with the available values if a condition leaves no record, or
// no record has a value of its list (except statuses).
bool record_filter_some(struct results *results, const char *const *conditions, size_t count,
                        struct status *status);
