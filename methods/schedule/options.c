#include "methods/schedule/options.h"

#define CHUNK_MIN  128
#define CHUNKS_MAX 256 // per context: more save hardly any memory

bool option_nth_choice(const struct option *option, void *value, size_t index, size_t layers, size_t context)
{
    (void)layers, (void)context;
    size_t count = 0;
    while (option->choices[count])
        count++;
    if (index >= count)
        return false;
    *(int *)value = (int)index;
    return true;
}

bool option_nth_offload(const struct option *option, void *value, size_t index, size_t layers, size_t context)
{
    (void)layers, (void)context;
    unsigned *words = value, own = ((1U << index) - 1) * (OFFLOAD_TRAINER + 1);
    size_t count = 0;
    while (option->choices[count])
        count++;
    *words = (*words & OFFLOAD_TRAINER) | own;
    return !(own >> count);
}

bool option_nth_chunk(const struct option *option, void *value, size_t index, size_t layers, size_t context)
{
    (void)option, (void)layers;
    size_t chunk = CHUNK_MIN, number = 0;
    while (chunk * CHUNKS_MAX < context)
        chunk *= 2;
    while (number < index && chunk < context) {
        chunk *= 2;
        number++;
    }
    *(size_t *)value = chunk < context ? chunk : context;
    return number == index;
}

bool option_nth_block(const struct option *option, void *value, size_t index, size_t layers, size_t context)
{
    (void)option, (void)layers;
    size_t block = index == 1 ? 2048 : 256;
    *(size_t *)value = block;
    return index == 0 || (index == 1 && context > 256); // otherwise both are one block
}

bool option_nth_run(const struct option *option, void *value, size_t index, size_t layers, size_t context)
{
    (void)option, (void)context;
    size_t runs = index == 0 ? 1 : (index % 2 ? (size_t)2 : (size_t)3) << (index - 1) / 2, before = 0;
    if (index > 0)
        before = index == 1 ? 1 : (index % 2 ? (size_t)3 << ((index - 1) / 2 - 1) : (size_t)2 << (index - 2) / 2);
    *(size_t *)value = runs < layers ? runs : layers;
    return before < layers && index < 2 * sizeof runs * 8 - 8;
}
