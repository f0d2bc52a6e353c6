#include "kernels/model/activations.h"

void activations_free(struct device *device, struct activations *a)
{
    for (size_t i = a->output == OUTPUT_OWN ? 0 : MIXER_OUTPUTS; i < ACTIVATIONS_OWNED; i++)
        tensor_free(device, &a->owned[i]);
}
