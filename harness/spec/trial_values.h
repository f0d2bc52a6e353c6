// Trial values: decode and settle functions of the trial keys with values in forms of their own.
#pragma once
#include "harness/json/json_field.h"
#include "harness/spec/trial.h"

// The "model" of a trial: a preset's name, a shape, a preset with changes, or a folder.
// {"layers": 4, "width": 128, "heads": 4, "ffn": 352, "vocab": 256} must be given; by default "kv_heads" = heads,
// "head_dim" = width / heads, "rope_theta" 10000, "norm_epsilon" 1e-5, "tied", "qkv_bias" and "qk_norm" false,
// "rope_scaling" null or {"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
// "original_context": 8192}, {"type": "linear", "factor": 8}, {"type": "yarn", "factor": 4, "original_context":
// 32768, "beta_fast": 32, "beta_slow": 1, "attention_factor": 0.1 ln(factor) + 1, "truncate": true} or {"type":
// "longrope", "short_factor": [...], "long_factor": [...], "original_context": 4096, "attention_factor": 1},
// "norms" "before", "activation" "silu", "rope" "halves", "whole_qk_norm", "unit_offset", "o_bias" and "mlp_bias"
// false, and without "rotary", "query_scale", "embedding_scale", "residual_scale", "logits_scale",
// "local_rope_theta", "no_rope_layers", "attention_cap", "logit_cap", "sinks", "gated", "chunked", "position_scale"
// and "delta" (struct config); "kv_rank", "value_dim", "rotary" and perhaps "q_rank" make attention latent;
// "experts", "experts_per_token" and "expert_width" and perhaps further keys (experiments/spec.md) a mixture of
// experts of each layer's MLP but those of "dense_layers"; "name" a label. With {"preset": NAME, ...} all of them
// come from the preset.
//
// *folder becomes NULL, or the folder, to be freed. *canonical becomes a new reference: the folder, the preset's
// name if the shape equals it, or the whole shape. Returns false and a status if the field is invalid; nothing is
// then to be freed.
bool config_decode(struct json_field field, struct config *config, char **folder, json_t **canonical,
                   struct status *status);

json_t *decode_model(struct trial *trial, struct json_field field, struct status *status);
json_t *decode_dtype(struct trial *trial, struct json_field field, struct status *status);
json_t *decode_device(struct trial *trial, struct json_field field, struct status *status);
json_t *decode_profile(struct trial *trial, struct json_field field, struct status *status);
json_t *decode_interconnect(struct trial *trial, struct json_field field, struct status *status);
json_t *decode_data(struct trial *trial, struct json_field field, struct status *status);
json_t *decode_documents(struct trial *trial, struct json_field field, struct status *status);
json_t *decode_router_aux_loss(struct trial *trial, struct json_field field, struct status *status);
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
// For trial_key's told: the batch size in a batch file.
bool batch_of_data(const struct trial *trial, size_t *value, struct status *status);
bool context_of_data(const struct trial *trial, size_t *value, struct status *status);
