// Trial values: the keys of a trial whose values have forms of their own. As trial_key's decode and settle.
#pragma once
#include "harness/json/json_field.h"
#include "harness/spec/trial.h"

json_t *decode_model(struct trial *trial, struct json_field field, struct status *status);
json_t *decode_dtype(struct trial *trial, struct json_field field, struct status *status);
json_t *decode_device(struct trial *trial, struct json_field field, struct status *status);
json_t *decode_profile(struct trial *trial, struct json_field field, struct status *status);
json_t *decode_links(struct trial *trial, struct json_field field, struct status *status);
json_t *decode_data(struct trial *trial, struct json_field field, struct status *status);
json_t *decode_documents(struct trial *trial, struct json_field field, struct status *status);
json_t *decode_objective(struct trial *trial, struct json_field field, struct status *status);
json_t *decode_reference(struct trial *trial, struct json_field field, struct status *status);
json_t *decode_lora(struct trial *trial, struct json_field field, struct status *status);
json_t *decode_weights(struct trial *trial, struct json_field field, struct status *status);
json_t *decode_optimizer(struct trial *trial, struct json_field field, struct status *status);
json_t *decode_kv_gradient_dtype(struct trial *trial, struct json_field field, struct status *status);
json_t *decode_gradient_dtype(struct trial *trial, struct json_field field, struct status *status);
json_t *decode_host(struct trial *trial, struct json_field field, struct status *status);
void settle_train(struct trial *trial);
void settle_measure(struct trial *trial);
// As trial_key's told: what a batch file says.
bool batch_of_data(const struct trial *trial, size_t *value, struct status *status);
bool context_of_data(const struct trial *trial, size_t *value, struct status *status);
