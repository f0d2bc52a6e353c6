// Head and loss, in blocks of tokens so that never more than block * vocab logits exist; and the embedding.
#pragma once
#include "kernels/model/model.h"
#include "kernels/objectives/objective_pass.h"

// x: [n, d], the last layer's output for the tokens from `start` on, becomes the gradient of itself.
// loss += these tokens' share of the objective, weighted. head_chunk: tokens per block, 0 for all at once.
void head_backward(struct model *model, const struct batch *batch, struct tensor x, size_t start, size_t head_chunk,
                   struct loss_weights weights, struct tensor loss);
// Before the backward of all tokens at once, what an objective that gathers wants; nothing for others. x: that of
// all tokens, not changed.
void head_first_pass(struct model *model, const struct batch *batch, struct tensor x, size_t head_chunk,
                     struct tensor loss);
// The loss alone, or what the objective gathers of these tokens. x is not changed.
void head_loss(struct model *model, const struct batch *batch, struct tensor x, size_t start, size_t head_chunk,
               struct tensor loss);
// log_prob: [T B, 1] = the log-probs of all targets. x: that of all tokens, not changed.
void head_log_probs(struct model *model, const struct batch *batch, struct tensor x, size_t head_chunk,
                    struct tensor log_prob);
// x: [n, d] = the embeddings of the tokens from `start` on, or of the batch's rows from `row` on, for which the
// embedding must be acquired; and the gradients of the table
// and of LoRA's factors on it, as far as they train; whether any of them does.
void embed_rows(struct model *model, const struct batch *batch, struct tensor x, size_t row);
void embed_forward(struct model *model, const struct batch *batch, struct tensor x, size_t start);
bool embedding_trains(const struct model *model);
void embed_backward(struct model *model, const struct batch *batch, struct tensor grad, size_t start);
