// Written batch: a batch file for a test, made of a few values of each tensor, of any dtype that such a file may
// have.
#pragma once
#include "tests/scratch.h"
#include <math.h>
#include <stdint.h>

struct written_tensor {
    const char *name, *dtype, *shape; // "ids", "I64", "[2,4]"
    double values[8];
    size_t count; // 0: as if it were not given
};

static inline size_t put_value(unsigned char *bytes, const char *dtype, double value)
{
    int64_t wide = isfinite(value) ? (int64_t)value : 0;
    int32_t narrow = (int32_t)wide;
    float single = (float)value;
    size_t size = strcmp(dtype, "I64") == 0 || strcmp(dtype, "F64") == 0 ? 8 : 4;
    const void *from = strcmp(dtype, "I64") == 0   ? (void *)&wide
                       : strcmp(dtype, "F64") == 0 ? (void *)&value
                       : strcmp(dtype, "I32") == 0 ? (void *)&narrow
                                                   : (void *)&single;
    memcpy(bytes, from, size);
    return size;
}

// One file of the tensors; of two of the same name the later one counts.
static inline struct scratch_path written_batch(const struct scratch *scratch, const char *name,
                                                const struct written_tensor *tensors, size_t count)
{
    static char header[4096];
    static unsigned char file[8192], data[4096];
    size_t text = 0, bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const struct written_tensor *tensor = &tensors[i];
        size_t begin = bytes;
        int replaced = 0;
        for (size_t j = i + 1; j < count; j++)
            replaced |= strcmp(tensors[j].name, tensor->name) == 0;
        if (replaced || !tensor->count)
            continue;
        for (size_t j = 0; j < tensor->count; j++)
            bytes += put_value(data + bytes, tensor->dtype, tensor->values[j]);
        text += (size_t)snprintf(header + text, sizeof header - text,
                                 "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
                                 text ? "," : "{", tensor->name, tensor->dtype, tensor->shape, begin, bytes);
    }
    uint64_t length = text + (size_t)snprintf(header + text, sizeof header - text, text ? "}" : "{}");
    memcpy(file, &length, 8);
    memcpy(file + 8, header, length);
    memcpy(file + 8 + length, data, bytes);
    return scratch_file(scratch, name, file, 8 + length + bytes);
}
