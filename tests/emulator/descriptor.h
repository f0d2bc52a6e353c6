// Descriptor: of cuDNN's backend API, whatever its type: the attributes that were set, as they were set.
#pragma once
#include "kernels/base/status.h"
#include <cudnn.h>

struct attribute {
    int name;
    int64_t count;
    char bytes[512];
};

struct descriptor {
    cudnnBackendDescriptorType_t type;
    size_t count, pending; // pending: of a graph, executions that a stream has not come to yet
    struct attribute attributes[10];
    double *values; // of a tensor, packed, while a graph runs
};

void set_attribute(struct descriptor *d, int name, cudnnBackendAttributeType_t type, int64_t count,
                   const void *values);
const struct attribute *find_attribute(const struct descriptor *d, int name); // NULL: it was not set
// Values of attributes that must have been set.
int64_t int64_at(const struct descriptor *d, int name, size_t index);
int int_at(const struct descriptor *d, int name);
bool bool_at(const struct descriptor *d, int name);
// A descriptor or another address; NULL if there is none at this index.
struct descriptor *descriptor_at(const struct descriptor *d, int name, size_t index);
