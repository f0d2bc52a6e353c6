#include "tests/emulator/card.h"
#include "tests/emulator/stream.h"
#include <stdio.h>
#include <stdlib.h>
#include <string>

cudaError_t emulator_last_error;
thread_local int emulator_current;

namespace
{

// By compute capability: the shared memory that a block may take.
struct model {
    int major, minor;
    size_t shared_bytes;
};
constexpr model MODELS[] = {{9, 0, 227 << 10}, {8, 0, 163 << 10}, {8, 6, 99 << 10}, {7, 5, 64 << 10}};

int card_count()
{
    const char *count = getenv("LONGBP_EMULATED_CARDS");
    return count ? atoi(count) : 1;
}

[[noreturn]] void fail(const char *what)
{
    fprintf(stderr, "emulator: %s\n", what);
    abort();
}

const model &emulated_model()
{
    const char *wanted = getenv("EMULATED_CARD");
    for (const model &m : MODELS)
        if (!wanted || std::to_string(m.major) + "." + std::to_string(m.minor) == wanted)
            return m;
    fail("EMULATED_CARD is no compute capability that is emulated: 9.0, 8.0, 8.6 or 7.5");
}

} // namespace

void emulator_require(bool condition, const char *what)
{
    if (!condition)
        fail(what);
}

size_t emulator_shared_bytes(void)
{
    return emulated_model().shared_bytes;
}

int emulator_capability(void)
{
    return 10 * emulated_model().major + emulated_model().minor;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = card_count();
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= card_count())
        return cudaErrorInvalidDevice;
    emulator_current = device;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int bytes, int device)
{
    snprintf(id, (size_t)bytes, "0000:%02X:00.0", 0xe0 + device);
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *card, int)
{
    *card = {};
    snprintf(card->name, sizeof card->name, "no GPU: CUDA emulated on the CPU");
    card->major = emulated_model().major;
    card->minor = emulated_model().minor;
    card->sharedMemPerBlockOptin = emulated_model().shared_bytes;
    card->multiProcessorCount = 132; // an H100's or H200's: blocks of rows follow from it
    return cudaSuccess;
}

// Code is there as in the real plug-in: from 8.0 on.
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel)
{
    emulator_require(kernel, "the attributes of no kernel");
    *attributes = {};
    return emulator_last_error = emulated_model().major < 8 ? cudaErrorNoKernelImageForDevice : cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int)
{
    *value = 1;
    return attribute == cudaDevAttrMemoryPoolsSupported ? cudaSuccess : cudaErrorNotSupported;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = emulator_last_error;
    emulator_last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess                       ? "no error"
           : error == cudaErrorMemoryAllocation       ? "out of memory"
           : error == cudaErrorNoKernelImageForDevice ? "no kernel image is available for execution on the device"
                                                      : "emulated error";
}
