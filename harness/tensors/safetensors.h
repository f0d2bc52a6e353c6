// Safetensors: reading and writing tensors by name in Hugging Face's file format.
// A file: 8 bytes of header length, little-endian; a JSON object {name: {dtype, shape, data_offsets}}; the data.
#pragma once
#include "harness/files/file_stamp.h"
#include "harness/files/output_file.h"
#include "kernels/base/dtype.h"
#include "kernels/base/status.h"
#include <stddef.h>
#include <stdint.h>

#define SAFETENSORS_RANK 8

struct safetensors_tensor {
    char *name;
    char dtype_name[12]; // as the file writes it: "BF16"
    bool readable;       // dtype is F64, F32, BF16 or F16; the format's others are listed, but not read
    enum dtype dtype;    // valid if readable
    bool integers;       // I32 or I64
    size_t rank, shape[SAFETENSORS_RANK], count;
    const unsigned char *data; // in the mapped file, not aligned; or
    bool own;                  // the tensor's own
    size_t bytes;
};

struct safetensors {
    char *path;
    unsigned char *map;
    size_t map_bytes;
    struct file_stamp stamp; // when it was mapped
    size_t count;
    struct safetensors_tensor *tensors; // sorted by name
};

// Maps a file and checks it completely: the header, and that the tensors exactly cover the data, as the format
// requires. Returns false and a status that names file and tensor otherwise. Release with safetensors_close, also
// after a failure.
bool safetensors_open(struct safetensors *file, const char *path, struct status *status);
void safetensors_close(struct safetensors *file);
// Restores the order after tensors were renamed, removed or added.
void safetensors_sort(struct safetensors *file);
// Removes a tensor of the file.
void safetensors_remove(struct safetensors *file, const struct safetensors_tensor *tensor);
// Tensor by name, NULL if there is none.
const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name);
// The same, with a status if there is none or its dtype is not readable.
const struct safetensors_tensor *safetensors_get(const struct safetensors *file, const char *name,
                                                 struct status *status);
// Reads elements [start, start + count) of a readable tensor, row-major, exactly, as f64.
void safetensors_values(const struct safetensors_tensor *tensor, size_t start, size_t count, double *values);
// The same of `count` elements from start on, each `stride` behind the last.
void safetensors_strided(const struct safetensors_tensor *tensor, size_t start, size_t stride, size_t count,
                         double *values);
// One element of a tensor of integers.
int64_t safetensors_integer(const struct safetensors_tensor *tensor, size_t index);
// A matrix of rows and columns; a vector of its columns; its rows as filters, [rows, 1, cols].
enum safetensors_form { SAFETENSORS_MATRIX, SAFETENSORS_VECTOR, SAFETENSORS_FILTERS };
// Whether a tensor of the file has this shape; false and a status otherwise.
bool safetensors_has_shape(const struct safetensors *file, const struct safetensors_tensor *tensor, size_t rows,
                           size_t cols, enum safetensors_form form, struct status *status);
// Writes "[2, 3]" into text.
void safetensors_shape_text(size_t rank, const size_t *shape, char *text, size_t text_bytes);

// One tensor of a file to be written. dtype: F64, F32, BF16 or I32.
struct safetensors_item {
    const char *name;
    enum dtype dtype;
    size_t rank, shape[SAFETENSORS_RANK];
};

struct safetensors_item safetensors_item(const char *name, size_t rows, size_t cols, enum safetensors_form form,
                                         enum dtype dtype);

struct safetensors_writer {
    struct output_file file;
    size_t count, current, written; // tensors; the one being written, and how many of its elements
    struct {
        enum dtype dtype;
        size_t count;
    } * tensors;
};

// Begins a file (harness/files/output_file.h) and writes the header. False and a status (io) if it cannot.
bool safetensors_create(struct safetensors_writer *writer, const char *path, const struct safetensors_item *items,
                        size_t count, struct status *status);
// Appends the next `count` elements, in the order of the items, rounded to the item's dtype. A call may end inside
// a tensor.
bool safetensors_append(struct safetensors_writer *writer, const double *values, size_t count,
                        struct status *status);
// Appends elements as they are in memory, within one tensor; I32 has no other way.
bool safetensors_append_bytes(struct safetensors_writer *writer, const void *bytes, size_t count,
                              struct status *status);
// Completes the file; every element must have been written. On failure leaves nothing behind.
bool safetensors_commit(struct safetensors_writer *writer, struct status *status);
// Removes an unfinished file. Nothing happens after a commit.
void safetensors_discard(struct safetensors_writer *writer);
