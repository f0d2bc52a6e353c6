#include "tests/emulator/descriptor.h"
#include <string.h>

static size_t size_of(cudnnBackendAttributeType_t type)
{
    return type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_BACKEND_DESCRIPTOR || type == CUDNN_TYPE_VOID_PTR ||
                   type == CUDNN_TYPE_HANDLE
               ? 8
           : type == CUDNN_TYPE_BOOLEAN ? 1
                                        : 4;
}

void set_attribute(struct descriptor *d, int name, cudnnBackendAttributeType_t type, int64_t count,
                   const void *values)
{
    size_t bytes = (size_t)count * size_of(type);
    CHECK(d->count < sizeof d->attributes / sizeof *d->attributes && bytes <= sizeof d->attributes->bytes);
    struct attribute *attribute = &d->attributes[d->count++];
    attribute->name = name;
    attribute->count = count;
    memcpy(attribute->bytes, values, bytes);
}

const struct attribute *find_attribute(const struct descriptor *d, int name)
{
    for (size_t i = 0; i < d->count; i++)
        if (d->attributes[i].name == name)
            return &d->attributes[i];
    return NULL;
}

int64_t int64_at(const struct descriptor *d, int name, size_t index)
{
    const struct attribute *attribute = find_attribute(d, name);
    int64_t value;
    CHECK(attribute && (int64_t)index < attribute->count);
    memcpy(&value, attribute->bytes + index * sizeof value, sizeof value);
    return value;
}

int int_at(const struct descriptor *d, int name)
{
    const struct attribute *attribute = find_attribute(d, name);
    int value;
    CHECK(attribute);
    memcpy(&value, attribute->bytes, sizeof value);
    return value;
}

bool bool_at(const struct descriptor *d, int name)
{
    const struct attribute *attribute = find_attribute(d, name);
    CHECK(attribute);
    return attribute->bytes[0];
}

struct descriptor *descriptor_at(const struct descriptor *d, int name, size_t index)
{
    const struct attribute *attribute = find_attribute(d, name);
    struct descriptor *value = NULL;
    if (attribute && (int64_t)index < attribute->count)
        memcpy(&value, attribute->bytes + index * sizeof value, sizeof value);
    return value;
}
