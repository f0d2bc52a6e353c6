// Fuzz target: any bytes as a safetensors file are read or refused, and all of an accepted file can be read, as a
// batch file too. `make fuzz`.
#define _GNU_SOURCE // memfd_create
#include "harness/data/batch_file.h"
#include "harness/tensors/safetensors.h"
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

#define VOCAB 7

// Accepted files are usable: ids and labels are classes, and padding has no label.
static void read_batch(const char *path)
{
    size_t context, batch;
    struct batch_data data = {0};
    struct status status = {0};
    bool ok = batch_file_shape(path, &context, &batch, &status) &&
              batch_file_read(&data, path, context, batch, VOCAB, &status);
    CHECK(ok == (status.code == STATUS_OK) && ok == (status.message[0] == '\0'));
    for (size_t i = 0; ok && i < context * batch; i++) {
        CHECK(data.ids[i] >= 0 && data.ids[i] < VOCAB && data.labels[i] < VOCAB);
        CHECK(!data.lengths || data.lengths[i / context] > (int32_t)(i % context) || data.labels[i] < 0);
    }
    batch_data_free(&data);
}

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
    read_batch(path);
    close(memory);
    return 0;
}
