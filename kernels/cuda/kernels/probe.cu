// Probe: a kernel compiled like all others; the runtime's attributes of it tell whether a card has code.
#include "kernels/cuda/kernels/launch.cuh"

namespace
{

__global__ void probe() {}

} // namespace

const void *cuda_probe(void)
{
    return (const void *)probe;
}
