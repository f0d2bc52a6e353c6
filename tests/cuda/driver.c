// Driver: stands in for libcuda.so.1 where there is no GPU: takes every kernel that cuDNN has compiled, runs none,
// and remembers how many there were and what the last one is called.
#include <stdio.h>

// As cuda.h has them, opaque types apart.
enum { CUDA_SUCCESS = 0 };
static char something;
static char last_name[1024];

const char *driver_last_kernel(void)
{
    return last_name;
}

int cuLibraryLoadData(void **library, const void *code, void *options, void *values, unsigned count,
                      void *library_options, void *library_values, unsigned library_count)
{
    (void)code, (void)options, (void)values, (void)count, (void)library_options, (void)library_values;
    (void)library_count;
    *library = &something;
    return CUDA_SUCCESS;
}

int cuLibraryGetKernel(void **kernel, void *library, const char *name)
{
    (void)library;
    snprintf(last_name, sizeof last_name, "%s", name);
    *kernel = &something;
    return CUDA_SUCCESS;
}

int cuLibraryGetModule(void **module, void *library)
{
    (void)library;
    *module = &something;
    return CUDA_SUCCESS;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    return cuLibraryGetKernel(function, module, name);
}

int cuKernelGetFunction(void **function, void *kernel)
{
    (void)kernel;
    *function = &something;
    return CUDA_SUCCESS;
}

int cuFuncSetAttribute(void *function, int attribute, int value)
{
    (void)function, (void)attribute, (void)value;
    return CUDA_SUCCESS;
}

int cuKernelSetAttribute(int attribute, int value, void *kernel, int device)
{
    (void)attribute, (void)value, (void)kernel, (void)device;
    return CUDA_SUCCESS;
}

int cuLibraryUnload(void *library)
{
    (void)library;
    return CUDA_SUCCESS;
}
