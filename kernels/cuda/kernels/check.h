// Check: a failure of the CUDA runtime is a fault of the program or the card: prints file, line and reason, then
// aborts. Out of memory and a missing GPU are reported as a status instead.
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
