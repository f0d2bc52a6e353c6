#include "harness/tensors/safetensors.h"
#include <jansson.h>
#include <stdint.h>
#include <string.h>

static const char *format_name(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F64:
        return "F64";
    case DTYPE_F32:
        return "F32";
    case DTYPE_BF16:
        return "BF16";
    case DTYPE_I32:
        return "I32";
    default:
        return NULL;
    }
}

// On failure leaves nothing behind.
static bool append(struct safetensors_writer *writer, const void *bytes, size_t count, struct status *status)
{
    bool ok = output_file_append(&writer->file, bytes, count, status);
    if (!ok)
        safetensors_discard(writer);
    return ok;
}

static json_t *integers(const size_t *values, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, json_integer((json_int_t)values[i]));
    return array;
}

// The header, padded with spaces so that the data begins at a multiple of 8 bytes; to be freed.
static char *encode_header(struct safetensors_writer *writer, const struct safetensors_item *items, size_t *bytes)
{
    json_t *header = json_object();
    json_object_set_new(header, "__metadata__", json_pack("{s:s}", "format", "pt"));
    size_t offset = 0;
    for (size_t i = 0; i < writer->count; i++) {
        CHECK(!json_object_get(header, items[i].name));
        size_t offsets[2] = {offset, offset + writer->tensors[i].count * dtype_bytes(items[i].dtype)};
        offset = offsets[1];
        json_t *entry = json_object();
        json_object_set_new(entry, "dtype", json_string(format_name(items[i].dtype)));
        json_object_set_new(entry, "shape", integers(items[i].shape, items[i].rank));
        json_object_set_new(entry, "data_offsets", integers(offsets, 2));
        CHECK(json_object_set_new(header, items[i].name, entry) == 0);
    }
    char *text = json_dumps(header, JSON_COMPACT);
    json_decref(header);
    size_t length = strlen(text), padded = (length + 7) / 8 * 8;
    char *whole = realloc(text, padded + 1);
    memset(whole + length, ' ', padded - length);
    *bytes = padded;
    return whole;
}

struct safetensors_item safetensors_item(const char *name, size_t rows, size_t cols, enum safetensors_form form,
                                         enum dtype dtype)
{
    struct safetensors_item item = {.name = name, .dtype = dtype, .rank = 2, .shape = {rows, cols}};
    if (form == SAFETENSORS_VECTOR) {
        item.rank = 1;
        item.shape[0] = cols;
    } else if (form == SAFETENSORS_FILTERS) {
        item.rank = 3;
        item.shape[1] = 1, item.shape[2] = cols;
    }
    return item;
}

bool safetensors_create(struct safetensors_writer *writer, const char *path, const struct safetensors_item *items,
                        size_t count, struct status *status)
{
    *writer = (struct safetensors_writer){.count = count};
    writer->tensors = calloc(count + 1, sizeof *writer->tensors);
    for (size_t i = 0; i < count; i++) {
        CHECK(format_name(items[i].dtype) && items[i].rank <= SAFETENSORS_RANK);
        writer->tensors[i].dtype = items[i].dtype;
        writer->tensors[i].count = 1;
        for (size_t d = 0; d < items[i].rank; d++)
            writer->tensors[i].count *= items[i].shape[d];
    }
    if (!output_file_open(&writer->file, path, status)) {
        safetensors_discard(writer);
        return false;
    }
    size_t bytes;
    char *header = encode_header(writer, items, &bytes);
    uint64_t length = bytes;
    bool ok = append(writer, &length, sizeof length, status) && append(writer, header, bytes, status);
    free(header);
    return ok;
}

// Advances to the tensor of the next element. Returns how many of its elements are not yet written.
static size_t next_tensor(struct safetensors_writer *writer)
{
    while (writer->current < writer->count && writer->written == writer->tensors[writer->current].count) {
        writer->current++;
        writer->written = 0;
    }
    CHECK(writer->current < writer->count);
    return writer->tensors[writer->current].count - writer->written;
}

bool safetensors_append_bytes(struct safetensors_writer *writer, const void *bytes, size_t count,
                              struct status *status)
{
    if (!writer->file.stream)
        return false; // failed before
    CHECK(count <= next_tensor(writer));
    writer->written += count;
    return append(writer, bytes, count * dtype_bytes(writer->tensors[writer->current].dtype), status);
}

bool safetensors_append(struct safetensors_writer *writer, const double *values, size_t count,
                        struct status *status)
{
    enum { BLOCK = 4096 };
    union {
        float f32[BLOCK];
        uint16_t bf16[BLOCK];
    } block;
    if (!writer->file.stream)
        return false; // failed before
    while (count) {
        size_t n = next_tensor(writer);
        enum dtype dtype = writer->tensors[writer->current].dtype;
        CHECK(dtype != DTYPE_I32);
        n = n < count ? n : count;
        n = n < BLOCK ? n : BLOCK;
        const void *source = values;
        if (dtype == DTYPE_F32) {
            for (size_t i = 0; i < n; i++)
                block.f32[i] = (float)values[i];
            source = block.f32;
        } else if (dtype == DTYPE_BF16) {
            for (size_t i = 0; i < n; i++)
                block.bf16[i] = dtype_bf16((float)values[i]);
            source = block.bf16;
        }
        if (!append(writer, source, n * dtype_bytes(dtype), status))
            return false;
        writer->written += n;
        values += n;
        count -= n;
    }
    return true;
}

bool safetensors_commit(struct safetensors_writer *writer, struct status *status)
{
    for (size_t i = writer->current; writer->file.stream && i < writer->count; i++)
        CHECK((i == writer->current ? writer->written : 0) == writer->tensors[i].count);
    bool ok = output_file_commit(&writer->file, status);
    safetensors_discard(writer);
    return ok;
}

void safetensors_discard(struct safetensors_writer *writer)
{
    output_file_discard(&writer->file);
    free(writer->tensors);
    *writer = (struct safetensors_writer){0};
}
