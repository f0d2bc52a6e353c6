// Check: a fault of the CUDA runtime is a fault of the program or the card: file, line, reason, abort. Out of
// memory and a missing GPU are not checked by this but reported.
#pragma once
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#define CUDA_CHECK(call)                                                                                           \
    do {                                                                                                           \
        cudaError_t cuda_check_error = (call);                                                                     \
        if (cuda_check_error != cudaSuccess) {                                                                     \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(cuda_check_error));   \
            abort();                                                                                               \
        }                                                                                                          \
    } while (0)
