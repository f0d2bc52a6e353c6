#include "kernels/attention/activations.h"

void activations_free(struct model *model, struct activations *a)
{
    for (size_t i = a->attention == ATTENTION_OWN ? 0 : ACTIVATIONS_OF_ATTENTION; i < ACTIVATIONS_OWNED; i++)
        tensor_free(model->device, &a->owned[i]);
}
