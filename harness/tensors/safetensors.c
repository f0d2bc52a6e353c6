#include "harness/tensors/safetensors.h"
#include "harness/files/input_files.h"
#include "harness/files/io.h"
#include "harness/files/known_format.h"
#include "harness/text/size.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the format is little-endian, and so is this code"
#endif

// The reference implementation's own limit.
#define HEADER_BYTES_MAX 100000000u

static const struct {
    const char *name;
    unsigned bits;
    int dtype; // of enum dtype, or -1: in the format, but not read here
} formats[] = {
    {"F64", 64, DTYPE_F64}, {"F32", 32, DTYPE_F32}, {"BF16", 16, DTYPE_BF16},
    {"F16", 16, DTYPE_F16}, {"BOOL", 8, -1},        {"U8", 8, -1},
    {"I8", 8, -1},          {"U16", 16, -1},        {"I16", 16, -1},
    {"U32", 32, -1},        {"I32", 32, -1},        {"U64", 64, -1},
    {"I64", 64, -1},        {"C64", 64, -1},        {"F8_E4M3", 8, -1},
    {"F8_E5M2", 8, -1},     {"F8_E8M0", 8, -1},     {"F8_E4M3FNUZ", 8, -1},
    {"F8_E5M2FNUZ", 8, -1}, {"F6_E2M3", 6, -1},     {"F6_E3M2", 6, -1},
    {"F4", 4, -1},
};
#define FORMATS (sizeof formats / sizeof *formats)

void safetensors_shape_text(size_t rank, const size_t *shape, char *text, size_t text_bytes)
{
    size_t used = (size_t)snprintf(text, text_bytes, "[");
    for (size_t i = 0; i < rank && used < text_bytes; i++)
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%zu", i ? ", " : "", shape[i]);
    if (used < text_bytes)
        snprintf(text + used, text_bytes - used, "]");
}

bool safetensors_has_shape(const struct safetensors *file, const struct safetensors_tensor *tensor, size_t rows,
                           size_t cols, enum safetensors_form form, struct status *status)
{
    const struct safetensors_item item = safetensors_item(NULL, rows, cols, form, DTYPE_F64);
    char expected[64], found[200];
    if (tensor->rank == item.rank && memcmp(tensor->shape, item.shape, item.rank * sizeof *item.shape) == 0)
        return true;
    safetensors_shape_text(item.rank, item.shape, expected, sizeof expected);
    safetensors_shape_text(tensor->rank, tensor->shape, found, sizeof found);
    return status_set(status, STATUS_BAD_INPUT, "%s: tensor %s: expected the shape %s, found %s", file->path,
                      tensor->name, expected, found);
}

// Names go into messages and so to terminals.
static bool has_control(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return true;
    return false;
}

// Reads a non-negative whole number. Returns false for any other value.
static bool size_of(const json_t *value, size_t *size)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *size = (size_t)json_integer_value(value);
    return true;
}

static bool decode_dtype(struct safetensors_tensor *t, unsigned *bits, const json_t *value, const char *path,
                         struct status *status)
{
    const char *name = json_string_value(value);
    if (!name) {
        return status_set(status, STATUS_BAD_INPUT, "%s: tensor %.200s: \"dtype\" is missing or not a string", path,
                          t->name);
    }
    for (size_t i = 0; i < FORMATS; i++) {
        if (strcmp(name, formats[i].name) == 0) {
            snprintf(t->dtype_name, sizeof t->dtype_name, "%s", name);
            t->readable = formats[i].dtype >= 0;
            t->integers = name[0] == 'I' && formats[i].bits >= 32;
            t->dtype = t->readable ? (enum dtype)formats[i].dtype : DTYPE_F64;
            *bits = formats[i].bits;
            return true;
        }
    }
    return status_set(status, STATUS_BAD_INPUT, "%s: tensor %.200s: unknown dtype \"%.20s\"", path, t->name,
                      has_control(name) ? "?" : name);
}

static bool decode_shape(struct safetensors_tensor *t, unsigned bits, const json_t *value, const char *path,
                         struct status *status)
{
    if (!json_is_array(value)) {
        return status_set(status, STATUS_BAD_INPUT, "%s: tensor %.200s: \"shape\" is missing or not an array", path,
                          t->name);
    }
    t->rank = json_array_size(value);
    if (t->rank > SAFETENSORS_RANK) {
        return status_set(status, STATUS_BAD_INPUT, "%s: tensor %.200s: has %zu dimensions, at most %d are read",
                          path, t->name, t->rank, SAFETENSORS_RANK);
    }
    t->count = 1;
    for (size_t i = 0; i < t->rank; i++) {
        if (!size_of(json_array_get(value, i), &t->shape[i])) {
            return status_set(status, STATUS_BAD_INPUT,
                              "%s: tensor %.200s: dimension %zu of its shape is not a whole number from 0 on", path,
                              t->name, i);
        }
        if (__builtin_mul_overflow(t->count, t->shape[i], &t->count))
            return status_set(status, STATUS_BAD_INPUT, "%s: tensor %.200s: its shape overflows", path, t->name);
    }
    size_t total_bits;
    if (__builtin_mul_overflow(t->count, bits, &total_bits))
        return status_set(status, STATUS_BAD_INPUT, "%s: tensor %.200s: its shape overflows", path, t->name);
    if (total_bits % 8)
        return status_set(status, STATUS_BAD_INPUT, "%s: tensor %.200s: does not fill whole bytes", path, t->name);
    t->bytes = total_bits / 8;
    return true;
}

// Decodes the tensor's range [begin, end) within the data_bytes bytes of data.
static bool decode_offsets(struct safetensors_tensor *t, const json_t *value, const unsigned char *data,
                           size_t data_bytes, const char *path, struct status *status)
{
    size_t begin, end;
    if (!json_is_array(value) || json_array_size(value) != 2 || !size_of(json_array_get(value, 0), &begin) ||
        !size_of(json_array_get(value, 1), &end)) {
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: tensor %.200s: \"data_offsets\" must be two whole numbers from 0 on", path, t->name);
    }
    if (begin > end) {
        return status_set(status, STATUS_BAD_INPUT, "%s: tensor %.200s: begins at %zu, after its end at %zu", path,
                          t->name, begin, end);
    }
    if (end > data_bytes) {
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: tensor %.200s: ends at byte %zu of the data, but the file holds %zu (truncated?)",
                          path, t->name, end, data_bytes);
    }
    if (end - begin != t->bytes) {
        char shape[200];
        safetensors_shape_text(t->rank, t->shape, shape, sizeof shape);
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: tensor %.200s: %s of %s needs %zu bytes, but its offsets give %zu", path, t->name,
                          shape, t->dtype_name, t->bytes, end - begin);
    }
    t->data = data + begin;
    return true;
}

static int by_data(const void *a, const void *b)
{
    const struct safetensors_tensor *x = a, *y = b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int by_name(const void *a, const void *b)
{
    const struct safetensors_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

void safetensors_sort(struct safetensors *file)
{
    qsort(file->tensors, file->count, sizeof *file->tensors, by_name);
}

// Checks that each byte of the data belongs to exactly one tensor. Sorts the tensors by position.
static bool check_coverage(struct safetensors *file, const unsigned char *data, size_t data_bytes,
                           struct status *status)
{
    qsort(file->tensors, file->count, sizeof *file->tensors, by_data);
    const unsigned char *end = data;
    for (size_t i = 0; i < file->count; i++) {
        const struct safetensors_tensor *t = &file->tensors[i];
        if (t->data < end) {
            return status_set(status, STATUS_BAD_INPUT, "%s: tensor %.200s: overlaps tensor %.200s", file->path,
                              t->name, t[-1].name);
        }
        if (t->data > end) {
            return status_set(status, STATUS_BAD_INPUT, "%s: tensor %.200s: %zu %s before it belong%s to no tensor",
                              file->path, t->name, (size_t)(t->data - end), size_text_unit((size_t)(t->data - end)),
                              t->data - end == 1 ? "s" : "");
        }
        end += t->bytes;
    }
    size_t rest = (size_t)(data + data_bytes - end);
    if (rest) {
        return status_set(status, STATUS_BAD_INPUT, "%s: %zu %s after the last tensor belong%s to no tensor",
                          file->path, rest, size_text_unit(rest), rest == 1 ? "s" : "");
    }
    return true;
}

static bool decode_header(struct safetensors *file, json_t *header, const unsigned char *data, size_t data_bytes,
                          struct status *status)
{
    if (!json_is_object(header))
        return status_set(status, STATUS_BAD_INPUT, "%s: the header is not a JSON object", file->path);
    file->tensors = calloc(json_object_size(header) + 1, sizeof *file->tensors);
    const char *name;
    json_t *value;
    json_object_foreach(header, name, value)
    {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        if (has_control(name))
            return status_set(status, STATUS_BAD_INPUT, "%s: a tensor's name has control characters", file->path);
        struct safetensors_tensor *t = &file->tensors[file->count++];
        t->name = strdup(name);
        if (!json_is_object(value)) {
            return status_set(status, STATUS_BAD_INPUT, "%s: tensor %.200s: its entry is not an object", file->path,
                              name);
        }
        unsigned bits = 0;
        if (!decode_dtype(t, &bits, json_object_get(value, "dtype"), file->path, status) ||
            !decode_shape(t, bits, json_object_get(value, "shape"), file->path, status) ||
            !decode_offsets(t, json_object_get(value, "data_offsets"), data, data_bytes, file->path, status))
            return false;
    }
    if (!check_coverage(file, data, data_bytes, status))
        return false;
    safetensors_sort(file);
    return true;
}

// Our own messages, because jansson's text may quote the file's control characters.
static const char *json_fault(const json_error_t *error)
{
    switch (json_error_code(error)) {
    case json_error_duplicate_key:
        return "has a key twice";
    case json_error_invalid_utf8:
        return "is not UTF-8";
    case json_error_stack_overflow:
        return "is nested too deeply";
    case json_error_numeric_overflow:
        return "has a number that is too large";
    case json_error_null_character:
    case json_error_null_byte_in_key:
        return "has a zero byte in a string";
    default:
        return "is not JSON";
    }
}

static bool map_file(struct safetensors *file, struct status *status)
{
    // O_NONBLOCK: opening a pipe without a writer would wait for ever.
    int descriptor = io_open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    input_files_note(descriptor);
    if (descriptor < 0)
        return status_set(status, STATUS_IO, "%s: %s", file->path, strerror(errno));
    struct stat info;
    bool ok = fstat(descriptor, &info) == 0 && file_stamp_take(&file->stamp, descriptor);
    if (!ok) {
        status_set(status, STATUS_IO, "%s: %s", file->path, strerror(errno));
    } else if (!S_ISREG(info.st_mode)) {
        ok = status_set(status, STATUS_BAD_INPUT, "%s: %s, not a file", file->path,
                        S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe");
    } else if (info.st_size == 0) {
        ok = status_set(status, STATUS_BAD_INPUT, "%s: is empty", file->path);
    } else {
        void *map = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (map == MAP_FAILED) {
            ok = status_set(status, STATUS_IO, "%s: cannot map %lld bytes: %s", file->path, (long long)info.st_size,
                            strerror(errno));
        } else {
            file->map = map;
            file->map_bytes = (size_t)info.st_size;
        }
    }
    close(descriptor);
    return ok;
}

bool safetensors_open(struct safetensors *file, const char *path, struct status *status)
{
    *file = (struct safetensors){.path = strdup(path)};
    if (!map_file(file, status))
        return false;
    uint64_t header_bytes;
    if (file->map_bytes < sizeof header_bytes) {
        return status_set(status, STATUS_BAD_INPUT, "%s: %zu %s too few for a safetensors file (truncated?)", path,
                          file->map_bytes, file->map_bytes == 1 ? "byte is" : "bytes are");
    }
    memcpy(&header_bytes, file->map, sizeof header_bytes);
    size_t rest = file->map_bytes - sizeof header_bytes;
    const char *text = (const char *)file->map + sizeof header_bytes;
    bool here = header_bytes <= rest && header_bytes <= HEADER_BYTES_MAX;
    json_error_t error;
    json_t *header = here ? json_loadb(text, (size_t)header_bytes, JSON_REJECT_DUPLICATES, &error) : NULL;
    if (!header && known_format_refuse(path, file->map, file->map_bytes, "a safetensors file", status))
        return false;
    if (header_bytes > HEADER_BYTES_MAX) {
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: a header of %llu bytes, more than the format's %u: not a safetensors file", path,
                          (unsigned long long)header_bytes, HEADER_BYTES_MAX);
    }
    if (header_bytes > rest) {
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: a header of %llu bytes, but only %zu follow (truncated, or not a safetensors file)",
                          path, (unsigned long long)header_bytes, rest);
    }
    if (!header) {
        return status_set(status, STATUS_BAD_INPUT, "%s: the header %s (line %d, column %d)", path,
                          json_fault(&error), error.line, error.column);
    }
    bool ok = decode_header(file, header, file->map + sizeof header_bytes + header_bytes,
                            rest - (size_t)header_bytes, status);
    json_decref(header);
    return ok;
}

void safetensors_remove(struct safetensors *file, const struct safetensors_tensor *tensor)
{
    size_t index = (size_t)(tensor - file->tensors), after = --file->count - index;
    free(tensor->name);
    if (tensor->own)
        free((void *)tensor->data);
    memmove(file->tensors + index, file->tensors + index + 1, after * sizeof *file->tensors);
}

void safetensors_close(struct safetensors *file)
{
    while (file->count > 0)
        safetensors_remove(file, &file->tensors[file->count - 1]);
    free(file->tensors);
    if (file->map)
        munmap(file->map, file->map_bytes);
    free(file->path);
    *file = (struct safetensors){0};
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name)
{
    struct safetensors_tensor key = {.name = (char *)name};
    return file->count ? bsearch(&key, file->tensors, file->count, sizeof key, by_name) : NULL;
}

const struct safetensors_tensor *safetensors_get(const struct safetensors *file, const char *name,
                                                 struct status *status)
{
    const struct safetensors_tensor *t = safetensors_find(file, name);
    if (!t) {
        status_set(status, STATUS_BAD_INPUT, "%s: has no tensor %.200s", file->path, name);
    } else if (!t->readable) {
        status_set(status, STATUS_UNSUPPORTED, "%s: tensor %.200s: expected F64, F32, BF16 or F16, found %s",
                   file->path, name, t->dtype_name);
        t = NULL;
    }
    return t;
}

static double f16_value(uint16_t bits)
{
    unsigned exponent = bits >> 10 & 31, fraction = bits & 1023;
    // A unit of a subnormal is 2^-24; of a normal, whose leading bit is implied, 2^(exponent - 25).
    double size = exponent == 31  ? (fraction ? __builtin_nan("") : __builtin_inf())
                  : exponent == 0 ? fraction * 0x1p-24
                                  : (double)((uint64_t)(fraction | 1024) << exponent) * 0x1p-25;
    return bits >> 15 ? -size : size;
}

void safetensors_strided(const struct safetensors_tensor *tensor, size_t start, size_t stride, size_t count,
                         double *values)
{
    CHECK(tensor->readable && (count == 0 || start + (count - 1) * stride < tensor->count));
    size_t bytes = dtype_bytes(tensor->dtype), step = stride * bytes;
    const unsigned char *source = tensor->data + start * bytes;
    uint16_t half;
    float single;
    switch (tensor->dtype) {
    case DTYPE_F64:
        for (size_t i = 0; i < count; i++)
            memcpy(&values[i], source + step * i, sizeof *values);
        break;
    case DTYPE_F32:
        for (size_t i = 0; i < count; i++) {
            memcpy(&single, source + step * i, sizeof single);
            values[i] = single;
        }
        break;
    default:
        for (size_t i = 0; i < count; i++) {
            memcpy(&half, source + step * i, sizeof half);
            values[i] = tensor->dtype == DTYPE_BF16 ? dtype_from_bf16(half) : f16_value(half);
        }
    }
}

void safetensors_values(const struct safetensors_tensor *tensor, size_t start, size_t count, double *values)
{
    safetensors_strided(tensor, start, 1, count, values);
}

int64_t safetensors_integer(const struct safetensors_tensor *tensor, size_t index)
{
    CHECK(tensor->integers && index < tensor->count);
    int32_t narrow;
    int64_t wide;
    if (tensor->bytes == tensor->count * sizeof wide) {
        memcpy(&wide, tensor->data + index * sizeof wide, sizeof wide);
        return wide;
    }
    memcpy(&narrow, tensor->data + index * sizeof narrow, sizeof narrow);
    return narrow;
}
