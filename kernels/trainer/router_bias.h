// Router bias: moves the biases of a mixture's choices after an update, so that experts are chosen as often as
// others (Wang et al. 2024, arXiv 2408.15664; DeepSeek-V3, arXiv 2412.19437, section 2.1.2).
#pragma once
#include "kernels/model/model.h"

// b_e += router_losses.bias_update sign(mean count - count_e), by the choices since router_bias_zero of all tokens
// of all replicas, in each of the rank's layers with such biases.
void router_bias_move(struct model *model);
void router_bias_zero(struct model *model);
