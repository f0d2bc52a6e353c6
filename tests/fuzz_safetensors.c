// Fuzz target: any bytes as a safetensors file are read or refused, and all of an accepted file can be read.
//
//     make && clang -std=gnu11 -g -fsanitize=fuzzer,address,undefined -I. -o build/fuzz_safetensors
//         tests/fuzz_safetensors.c harness/files/safetensors.c build/kernels/base/{status,dtype}.o -ljansson
#define _GNU_SOURCE // memfd_create
#include "harness/files/safetensors.h"
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    int memory = memfd_create("fuzz", 0);
    CHECK(memory >= 0 && write(memory, bytes, count) == (ssize_t)count);
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
    struct safetensors file;
    struct status status = {0};
    bool ok = safetensors_open(&file, path, &status);
    CHECK(ok == (status.code == STATUS_OK) && ok == (status.message[0] == '\0'));
    size_t total = 0;
    for (size_t i = 0; ok && i < file.count; i++) {
        const struct safetensors_tensor *t = &file.tensors[i];
        CHECK(safetensors_find(&file, t->name) == t);
        total += t->bytes;
        for (size_t j = 0; t->readable && j < t->count; j++) {
            double value;
            safetensors_values(t, j, 1, &value);
        }
    }
    CHECK(!ok || total <= count - 8);
    safetensors_close(&file);
    close(memory);
    return 0;
}
