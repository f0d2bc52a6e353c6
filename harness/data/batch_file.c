#include "harness/data/batch_file.h"
#include "harness/files/share.h"
#include "harness/text/names.h"
#include "kernels/base/host_memory.h"
#include "kernels/objectives/batch.h"
#include <math.h>
#include <string.h>

#define AT(member) offsetof(struct batch_data, member)

enum kind { INTEGERS, NUMBERS };
enum extent { PER_TOKEN, PER_SEQUENCE }; // [batch, context], [batch]

// The tensors that a file may hold.
static const struct batch_tensor {
    const char *name;
    size_t offset; // of its pointer in struct batch_data
    enum kind kind;
    enum extent extent;
    const char *needed; // its description, if it is required; else NULL
} batch_tensors[] = {
    {"ids", AT(ids), INTEGERS, PER_TOKEN, "token ids [batch, context], I32 or I64"},
    {"labels", AT(labels), INTEGERS, PER_TOKEN,
     "[batch, context], I32 or I64: the id to predict at each position, the next token's, or -100 for none"},
    {"lengths", AT(lengths), INTEGERS, PER_SEQUENCE, NULL},
    {"documents", AT(documents), INTEGERS, PER_TOKEN, NULL},
    {"weights", AT(weights), NUMBERS, PER_TOKEN, NULL},
    {"old_logprobs", AT(old_logprobs), NUMBERS, PER_TOKEN, NULL},
    {"reference_logprobs", AT(reference_logprobs), NUMBERS, PER_TOKEN, NULL},
    {"sampling_logprobs", AT(sampling_logprobs), NUMBERS, PER_TOKEN, NULL},
    {"advantages", AT(advantages), NUMBERS, PER_SEQUENCE, NULL},
    {"advantages", AT(token_advantages), NUMBERS, PER_TOKEN, NULL},
    {"desirable", AT(desirable), INTEGERS, PER_SEQUENCE, NULL},
};
#define BATCH_TENSORS (sizeof batch_tensors / sizeof *batch_tensors)

static void *values_at(const struct batch_data *data, const struct batch_tensor *row)
{
    void *values;
    memcpy(&values, (const char *)data + row->offset, sizeof values);
    return values;
}

// Number of values per sequence.
static size_t values_of(const struct batch_tensor *row, size_t context)
{
    return row->extent == PER_SEQUENCE ? 1 : context;
}

static size_t bytes_of(const struct batch_tensor *row, size_t context)
{
    return values_of(row, context) * (row->kind == INTEGERS ? sizeof(int32_t) : sizeof(double));
}

// "labels[1, 7]", "advantages[3]"
static const char *element(const struct batch_tensor *row, size_t context, size_t index, char text[80])
{
    if (row->extent == PER_SEQUENCE)
        snprintf(text, 80, "%s[%zu]", row->name, index);
    else
        snprintf(text, 80, "%s[%zu, %zu]", row->name, index / context, index % context);
    return text;
}

// The row's tensor; NULL: none, or advantages whose shape is the other row's.
static const struct safetensors_tensor *tensor_of(const struct safetensors *file, const struct batch_tensor *row)
{
    const struct safetensors_tensor *tensor = safetensors_find(file, row->name);
    bool other = tensor && ((row->offset == AT(advantages) && tensor->rank == 2) ||
                            (row->offset == AT(token_advantages) && tensor->rank != 2));
    return other ? NULL : tensor;
}

// Finds the row's tensor and checks that its type is readable; *there: whether the file has it.
static bool find(const struct safetensors *file, const struct batch_tensor *row,
                 const struct safetensors_tensor **tensor, struct status *status)
{
    *tensor = tensor_of(file, row);
    if (!*tensor)
        return !row->needed || status_set(status, STATUS_BAD_INPUT, "%s: has no tensor \"%s\"; it needs %s",
                                          file->path, row->name, row->needed);
    if (row->kind == INTEGERS ? (*tensor)->integers : (*tensor)->readable)
        return true;
    return status_set(status, STATUS_BAD_INPUT, "%s: %s has dtype %s, expected %s", file->path, row->name,
                      (*tensor)->dtype_name, row->kind == INTEGERS ? "I32 or I64" : "F64, F32, BF16 or F16");
}

static bool take_shape(const struct safetensors *file, size_t *context, size_t *batch, struct status *status)
{
    const struct safetensors_tensor *ids;
    char shape[200];
    if (!find(file, &batch_tensors[0], &ids, status))
        return false;
    safetensors_shape_text(ids->rank, ids->shape, shape, sizeof shape);
    if (ids->rank != 2 || ids->count == 0)
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: ids has shape %s, expected [batch, context], each from 1 on", file->path, shape);
    *batch = ids->shape[0];
    *context = ids->shape[1];
    return true;
}

bool batch_file_shape(const char *path, size_t *context, size_t *batch, struct status *status)
{
    struct safetensors file;
    char found[PATH_MAX];
    bool ok =
        safetensors_open(&file, share_resolve(path, found), status) && take_shape(&file, context, batch, status);
    safetensors_close(&file);
    return ok;
}

static bool check_size(const char *path, size_t context, size_t batch, size_t has_context, size_t has_batch,
                       struct status *status)
{
    return (has_context == context && has_batch == batch) ||
           status_set(status, STATUS_BAD_INPUT,
                      "%s: ids has %zu sequences of %zu tokens, but batch is %zu and context %zu: leave both out",
                      path, has_batch, has_context, batch, context);
}

bool batch_file_expect(const char *path, size_t context, size_t batch, struct status *status)
{
    size_t has_context = 0, has_batch = 0;
    return batch_file_shape(path, &has_context, &has_batch, status) &&
           check_size(path, context, batch, has_context, has_batch, status);
}

static bool check_names(const struct safetensors *file, struct status *status)
{
    struct names known = {0};
    for (size_t i = 0; i < BATCH_TENSORS; i++)
        if (batch_tensors[i].offset != AT(token_advantages))
            names_add(&known, batch_tensors[i].name);
    for (size_t i = 0; i < file->count; i++) {
        char hint[400];
        if (names_find(&known, file->tensors[i].name) < known.count)
            continue;
        names_hint(&known, file->tensors[i].name, "tensors of a batch", hint, sizeof hint);
        return status_set(status, STATUS_BAD_INPUT, "%s: unknown tensor \"%.80s\"; %s", file->path,
                          file->tensors[i].name, hint);
    }
    return true;
}

static bool check_shape(const struct safetensors *file, const struct batch_tensor *row,
                        const struct safetensors_tensor *tensor, const struct batch_data *into,
                        struct status *status)
{
    const size_t expected[] = {into->batch, into->context};
    size_t rank = row->extent == PER_SEQUENCE ? 1 : 2;
    char is[200], should[80];
    if (tensor->rank == rank && memcmp(tensor->shape, expected, rank * sizeof *expected) == 0)
        return true;
    safetensors_shape_text(tensor->rank, tensor->shape, is, sizeof is);
    safetensors_shape_text(rank, expected, should, sizeof should);
    return status_set(status, STATUS_BAD_INPUT,
                      "%s: %s has shape %s, expected %s: ids has %zu sequences of %zu tokens", file->path,
                      row->name, is, should, into->batch, into->context);
}

// Allowed values of an integer tensor.
struct range {
    int64_t minimum, maximum;
    bool none; // NO_TARGET is allowed too
    char words[100];
};

static struct range range_of(const struct batch_tensor *row, const struct batch_data *into, size_t vocab)
{
    struct range range = {.maximum = INT32_MAX};
    if (row->offset == AT(lengths)) {
        range.minimum = 1;
        range.maximum = (int64_t)into->context;
        snprintf(range.words, sizeof range.words, "1 to %zu, which is the context", into->context);
    } else if (row->offset == AT(desirable)) {
        range.maximum = 1;
        snprintf(range.words, sizeof range.words, "1, or 0 of a sequence that is not");
    } else if (row->offset == AT(documents)) {
        snprintf(range.words, sizeof range.words, "a number from 0 on");
    } else {
        range.none = row->offset == AT(labels);
        range.maximum = (int64_t)vocab - 1;
        snprintf(range.words, sizeof range.words, "%s0 to %zu (a vocabulary of %zu)", range.none ? "-100 or " : "",
                 vocab - 1, vocab);
    }
    return range;
}

static bool take_integers(const struct batch_tensor *row, const struct safetensors_tensor *tensor, size_t from,
                          size_t count, size_t vocab, struct batch_data *into, size_t to, const char *path,
                          struct status *status)
{
    struct range range = range_of(row, into, vocab);
    char text[80];
    int32_t *values = (int32_t *)values_at(into, row) + to;
    for (size_t i = 0; i < count; i++) {
        int64_t value = safetensors_integer(tensor, from + i);
        if ((value < range.minimum || value > range.maximum) && !(range.none && value == NO_TARGET))
            return status_set(status, STATUS_BAD_INPUT, "%s: %s is %lld, expected %s", path,
                              element(row, into->context, from + i, text), (long long)value, range.words);
        values[i] = (int32_t)value;
    }
    return true;
}

// Allowed values of a numeric tensor.
struct bounds {
    double minimum, maximum;
    const char *words;
};

// Above rounding of a probability of 1 in f32, below any probability meant.
#define LOG_PROB_MAX 1e-3

static struct bounds bounds_of(const struct batch_tensor *row)
{
    if (row->offset == AT(weights))
        return (struct bounds){0, INFINITY, "a finite number >= 0"};
    if (row->offset == AT(advantages) || row->offset == AT(token_advantages))
        return (struct bounds){-INFINITY, INFINITY, "a finite number"};
    return (struct bounds){
        -INFINITY, LOG_PROB_MAX,
        "a finite number <= 0, the natural logarithm of a probability (up to 0.001 for rounding)"};
}

static bool take_numbers(const struct batch_tensor *row, const struct safetensors_tensor *tensor, size_t from,
                         size_t count, struct batch_data *into, size_t to, const char *path, struct status *status)
{
    char text[80];
    struct bounds bounds = bounds_of(row);
    bool always = row->extent == PER_SEQUENCE || row->offset == AT(weights);
    double *values = (double *)values_at(into, row) + to;
    safetensors_values(tensor, from, count, values);
    for (size_t i = 0; i < count; i++) {
        // Positions without a target need no valid log-prob.
        bool counts = always || into->labels[to + i] != NO_TARGET;
        if (counts && (!isfinite(values[i]) || values[i] < bounds.minimum || values[i] > bounds.maximum))
            return status_set(status, STATUS_BAD_INPUT, "%s: %s is %g, expected %s", path,
                              element(row, into->context, from + i, text), values[i], bounds.words);
        if (!counts)
            values[i] = 0;
    }
    return true;
}

// Checks constraints between tensors for sequence b of the file.
static bool check_together(const struct batch_data *data, size_t at, size_t b, const char *path,
                           struct status *status)
{
    const int32_t *labels = data->labels + at * data->context;
    const int32_t *documents = data->documents ? data->documents + at * data->context : NULL;
    size_t length = data->lengths ? (size_t)data->lengths[at] : data->context;
    for (size_t t = 0; t < data->context; t++) {
        if (t >= length && labels[t] != NO_TARGET)
            return status_set(
                status, STATUS_BAD_INPUT,
                "%s: labels[%zu, %zu] is %d, expected -100: lengths[%zu] is %zu, and the rest is padding", path, b,
                t, labels[t], b, length);
        if (documents && t > 0 && documents[t] < documents[t - 1])
            return status_set(status, STATUS_BAD_INPUT,
                              "%s: documents[%zu, %zu] is %d after %d: number a sequence's documents upward", path,
                              b, t, documents[t], documents[t - 1]);
    }
    return true;
}

bool batch_file_open(struct batch_file *file, const char *path, struct status *status)
{
    char found[PATH_MAX];
    *file = (struct batch_file){0};
    return safetensors_open(&file->tensors, share_resolve(path, found), status) &&
           check_names(&file->tensors, status) && take_shape(&file->tensors, &file->context, &file->batch, status);
}

void batch_file_close(struct batch_file *file)
{
    safetensors_close(&file->tensors);
    *file = (struct batch_file){0};
}

bool batch_file_like(const struct batch_file *file, const struct batch_file *other, struct status *status)
{
    if (file->context != other->context)
        return status_set(status, STATUS_BAD_INPUT, "%s: sequences of %zu tokens, but %s has those of %zu",
                          file->tensors.path, file->context, other->tensors.path, other->context);
    for (size_t i = 0; i < BATCH_TENSORS; i++) {
        const char *name = batch_tensors[i].name;
        bool has = tensor_of(&file->tensors, &batch_tensors[i]);
        bool should = tensor_of(&other->tensors, &batch_tensors[i]);
        if (has != should)
            return status_set(status, STATUS_BAD_INPUT, "%s: has %s tensor \"%s\", but %s has %s",
                              file->tensors.path, has ? "a" : "no", name, other->tensors.path,
                              should ? "one" : "none");
    }
    return true;
}

bool batch_file_room(const struct batch_file *file, size_t sequences, struct batch_data *data,
                     struct status *status)
{
    *data = (struct batch_data){.context = file->context, .batch = file->batch};
    for (size_t i = 0; i < BATCH_TENSORS; i++) {
        const struct batch_tensor *row = &batch_tensors[i];
        const struct safetensors_tensor *tensor;
        if (!find(&file->tensors, row, &tensor, status))
            return false;
        if (!tensor)
            continue;
        if (!check_shape(&file->tensors, row, tensor, data, status))
            return false;
        void *values = host_memory_try(sequences, bytes_of(row, file->context));
        if (!values)
            return status_set(status, STATUS_OOM, "%s: no room on the host for %s of %zu sequences",
                              file->tensors.path, row->name, sequences);
        memcpy((char *)data + row->offset, &values, sizeof values);
    }
    data->batch = sequences;
    return true;
}

bool batch_file_take(const struct batch_file *file, size_t first, size_t count, size_t vocab,
                     struct batch_data *data, size_t at, struct status *status)
{
    const char *path = file->tensors.path;
    for (size_t i = 0; i < BATCH_TENSORS; i++) {
        const struct batch_tensor *row = &batch_tensors[i];
        const struct safetensors_tensor *tensor = tensor_of(&file->tensors, row);
        size_t each = values_of(row, file->context), from = first * each, values = count * each, to = at * each;
        if (tensor &&
            !(row->kind == INTEGERS ? take_integers(row, tensor, from, values, vocab, data, to, path, status)
                                    : take_numbers(row, tensor, from, values, data, to, path, status)))
            return false;
    }
    for (size_t b = 0; b < count; b++)
        if (!check_together(data, at + b, first + b, path, status))
            return false;
    return true;
}

static bool check_any(const struct batch_data *data, const char *path, struct status *status)
{
    for (size_t i = 0; i < data->batch * data->context; i++)
        if (data->labels[i] != NO_TARGET)
            return true;
    return status_set(status, STATUS_BAD_INPUT,
                      "%s: all labels are -100, so the loss has no tokens; label the positions to predict", path);
}

bool batch_file_read(struct batch_data *data, const char *path, size_t context, size_t batch, size_t vocab,
                     struct status *status)
{
    struct batch_file file;
    *data = (struct batch_data){0};
    bool ok = batch_file_open(&file, path, status) &&
              check_size(path, context, batch, file.context, file.batch, status) &&
              batch_file_room(&file, batch, data, status) &&
              batch_file_take(&file, 0, batch, vocab, data, 0, status) && check_any(data, path, status);
    batch_file_close(&file);
    return ok;
}

void batch_data_keep(struct batch_data *data, size_t first, size_t count)
{
    CHECK(!data->of && first + count <= data->batch);
    for (size_t i = 0; i < BATCH_TENSORS; i++) {
        char *values = values_at(data, &batch_tensors[i]);
        size_t each = bytes_of(&batch_tensors[i], data->context);
        if (values)
            memmove(values, values + first * each, count * each);
    }
    data->batch = count;
}

void batch_data_free(struct batch_data *data)
{
    for (size_t i = 0; i < BATCH_TENSORS; i++)
        free(values_at(data, &batch_tensors[i]));
    free(data->of);
    *data = (struct batch_data){0};
}
