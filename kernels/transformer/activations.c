#include "kernels/transformer/activations.h"
#include <string.h>

void activations_owned(struct activations *a, struct tensor *owned[ACTIVATIONS_OWNED])
{
    struct tensor *all[ACTIVATIONS_OWNED] = {
        &a->q,      &a->k_projected,    &a->o,        &a->logsumexp,   &a->x_mid, &a->gate, &a->up, &a->rstd_q,
        &a->rstd_k, &a->rstd_attention, &a->rstd_mlp, &a->h_attention, &a->h_mlp, &a->act};
    memcpy(owned, all, sizeof all);
}

void activations_free(struct model *model, struct activations *a)
{
    struct tensor *owned[ACTIVATIONS_OWNED];
    activations_owned(a, owned);
    for (size_t i = 0; i < ACTIVATIONS_OWNED; i++) {
        tensor_free(model->device, owned[i]);
    }
}
