#include "kernels/model/block.h"

// Every kind of mixer, mixer_attention and so on, and of MLP. The first ones are the default.
#define MIXERS(X) X(attention) X(delta) X(latent) X(delta_split)
#define MLPS(X)   X(dense) X(experts)

#define MIXER_DECLARED(name) extern const struct mixer mixer_##name;
#define MIXER_LISTED(name)   &mixer_##name,
#define MLP_DECLARED(name)   extern const struct mlp mlp_##name;
#define MLP_LISTED(name)     &mlp_##name,
MIXERS(MIXER_DECLARED)
MLPS(MLP_DECLARED)
const struct mixer *const mixers[] = {MIXERS(MIXER_LISTED) NULL};
const struct mlp *const mlps[] = {MLPS(MLP_LISTED) NULL};
