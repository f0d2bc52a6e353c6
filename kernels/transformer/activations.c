#include "kernels/transformer/activations.h"
#include <stddef.h>

struct tensor *activations_owned(struct activations *a, size_t i)
{
#define AT(member) offsetof(struct activations, member)
    static const size_t offsets[ACTIVATIONS_OWNED] = {AT(o),
                                                      AT(logsumexp),
                                                      AT(q),
                                                      AT(k_projected),
                                                      AT(x_mid),
                                                      AT(gate),
                                                      AT(up),
                                                      AT(rstd_q),
                                                      AT(rstd_k),
                                                      AT(rstd_attention),
                                                      AT(rstd_mlp),
                                                      AT(h_attention),
                                                      AT(h_mlp),
                                                      AT(act),
                                                      AT(attention_out),
                                                      AT(mlp_out),
                                                      AT(rstd_attention_out),
                                                      AT(rstd_mlp_out)};
#undef AT
    return (struct tensor *)((char *)a + offsets[i]);
}

void activations_free(struct model *model, struct activations *a)
{
    for (size_t i = a->attention == ATTENTION_OWN ? 0 : ACTIVATIONS_OF_ATTENTION; i < ACTIVATIONS_OWNED; i++) {
        tensor_free(model->device, activations_owned(a, i));
    }
}
