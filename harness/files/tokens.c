#include "harness/files/tokens.h"
#include "harness/files/input_files.h"
#include "harness/files/share.h"
#include "kernels/base/host_memory.h"
#include "kernels/base/random.h"
#include "kernels/transformer/batch.h"
#include <errno.h>
#include <sys/stat.h>

// What a file holds: `width` bytes per value, and how one is called in messages.
struct format {
    size_t width;
    bool is_signed;
    const char *noun, *description;
};

static const struct format formats[] = {
    [DATA_BYTES] = {1, false, "token", "bytes"},
    [DATA_U16] = {2, false, "token", "16-bit token ids"},
    [DATA_U32] = {4, false, "token", "32-bit token ids"},
};
static const struct format labels_format = {4, true, "label", "32-bit labels"};

// *values: how many a regular file holds; the most there can be for a pipe.
static FILE *open_file(const char *path, struct format format, size_t *values, struct status *status)
{
    struct stat info;
    char found[PATH_MAX];
    FILE *file = fopen(share_resolve(path, found), "rb");
    if (file)
        input_files_note(fileno(file));
    if (!file || fstat(fileno(file), &info) != 0) {
        status_set(status, STATUS_IO, "%s: %s", path, strerror(errno));
    } else if (S_ISDIR(info.st_mode)) {
        status_set(status, STATUS_BAD_INPUT, "%s: a folder, expected a file of %s", path, format.description);
    } else if (S_ISREG(info.st_mode) && info.st_size == 0) {
        status_set(status, STATUS_BAD_INPUT, "%s: is empty, expected %s", path, format.description);
    } else if (S_ISREG(info.st_mode) && (size_t)info.st_size % format.width) {
        status_set(status, STATUS_BAD_INPUT,
                   "%s: its size of %lld bytes is not a multiple of %zu, so it holds no %s", path,
                   (long long)info.st_size, format.width, format.description);
    } else {
        *values = S_ISREG(info.st_mode) ? (size_t)info.st_size / format.width : SIZE_MAX;
        return file;
    }
    if (file) {
        fclose(file);
    }
    return NULL;
}

static int64_t decode(const unsigned char *bytes, struct format format)
{
    uint32_t value = 0;
    for (size_t i = 0; i < format.width; i++) {
        value |= (uint32_t)bytes[i] << 8 * i;
    }
    return format.is_signed ? (int64_t)(int32_t)value : (int64_t)value;
}

// first: the position of the first one in its file.
static bool decode_all(int32_t *ids, const unsigned char *bytes, size_t first, size_t count, struct format format,
                       size_t vocab, const char *path, struct status *status)
{
    for (size_t i = 0; i < count; i++) {
        int64_t id = decode(bytes + i * format.width, format);
        bool none = format.is_signed && id == NO_TARGET;
        if (!none && (id < 0 || (uint64_t)id >= vocab)) {
            return status_set(status, STATUS_BAD_INPUT,
                              "%s: %s %zu is %lld, expected %s0 to %zu (a vocabulary of %zu)", path, format.noun,
                              first + i, (long long)id, format.is_signed ? "-100 or " : "", vocab - 1, vocab);
        }
        ids[i] = (int32_t)id;
    }
    return true;
}

static int32_t *new_ids(size_t count, struct status *status)
{
    int32_t *ids = host_memory_try(count, sizeof *ids);
    if (!ids) {
        status_set(status, STATUS_OOM, "no room on the host for %zu token ids", count);
    }
    return ids;
}

// The first context * batch values as they stand in the file; to be freed.
static unsigned char *read_bytes(const char *path, struct format format, size_t context, size_t batch,
                                 struct status *status)
{
    size_t count = context * batch, found;
    FILE *file = open_file(path, format, &found, status);
    if (!file) {
        return NULL;
    }
    unsigned char *bytes = NULL;
    if (found >= count && (bytes = host_memory_try(count, format.width))) {
        found = fread(bytes, format.width, count, file);
    }
    bool ok = false;
    if (ferror(file)) {
        status_set(status, STATUS_IO, "%s: %s", path, strerror(errno));
    } else if (found < count) {
        status_set(status, STATUS_BAD_INPUT, "%s: %zu x %zu %ss are needed (batch x context), found %zu", path,
                   batch, context, format.noun, found);
    } else if (!bytes) {
        status_set(status, STATUS_OOM, "no room on the host for %zu %ss", count, format.noun);
    } else {
        ok = true;
    }
    fclose(file);
    if (!ok) {
        free(bytes);
        return NULL;
    }
    return bytes;
}

static int32_t *read_file(const char *path, struct format format, size_t context, size_t batch, size_t vocab,
                          struct status *status)
{
    size_t count = context * batch;
    unsigned char *bytes = read_bytes(path, format, context, batch, status);
    int32_t *ids = bytes ? new_ids(count, status) : NULL;
    if (ids && !decode_all(ids, bytes, 0, count, format, vocab, path, status)) {
        free(ids);
        ids = NULL;
    }
    free(bytes);
    return ids;
}

// Batches that no file could fill are refused before memory is asked for. Ids and classes must fit an int32.
static bool check_sizes(size_t context, size_t batch, size_t vocab, struct status *status)
{
    size_t count, bytes;
    if (context == 0 || batch == 0 || __builtin_mul_overflow(context, batch, &count) ||
        __builtin_mul_overflow(count, sizeof(int32_t), &bytes) || bytes > PTRDIFF_MAX / 2) {
        return status_set(status, STATUS_BAD_INPUT, "%zu sequences of %zu tokens are not a batch", batch, context);
    }
    if (vocab == 0 || vocab > INT32_MAX) {
        return status_set(status, STATUS_BAD_INPUT, "a vocabulary of %zu is not from 1 to %d", vocab, INT32_MAX);
    }
    return true;
}

static void draw(int32_t *ids, size_t first, size_t count, size_t vocab, uint64_t seed)
{
    struct random random = random_named(seed, "tokens");
    for (size_t i = 0; i < count; i++) {
        ids[i] = (int32_t)random_below(&random, first + i, vocab);
    }
}

int32_t *tokens_read(const struct data_source *source, size_t context, size_t batch, size_t vocab, uint64_t seed,
                     struct status *status)
{
    if (!check_sizes(context, batch, vocab, status)) {
        return NULL;
    }
    if (source->kind != DATA_RANDOM) {
        return read_file(source->path, formats[source->kind], context, batch, vocab, status);
    }
    size_t count = context * batch;
    int32_t *ids = new_ids(count, status);
    if (ids) {
        draw(ids, 0, count, vocab, seed);
    }
    return ids;
}

int32_t *tokens_read_labels(const char *path, size_t context, size_t batch, size_t vocab, struct status *status)
{
    if (!check_sizes(context, batch, vocab, status)) {
        return NULL;
    }
    return read_file(path, labels_format, context, batch, vocab, status);
}

bool token_stream_open(struct token_stream *stream, const struct data_source *source, size_t vocab, uint64_t seed,
                       struct status *status)
{
    *stream = (struct token_stream){.source = source, .count = SIZE_MAX, .vocab = vocab, .seed = seed};
    if (!check_sizes(1, 1, vocab, status) || source->kind == DATA_RANDOM) {
        return status->code == STATUS_OK;
    }
    stream->file = open_file(source->path, formats[source->kind], &stream->count, status);
    return stream->file &&
           (stream->count < SIZE_MAX ||
            status_set(status, STATUS_BAD_INPUT, "%s: is no regular file, and tokens are read from any place in it",
                       source->path));
}

bool token_stream_read(struct token_stream *stream, size_t first, size_t count, int32_t *ids, struct status *status)
{
    const struct data_source *source = stream->source;
    if (!stream->file) {
        draw(ids, first, count, stream->vocab, stream->seed);
        return true;
    }
    struct format format = formats[source->kind];
    unsigned char *bytes = malloc(count * format.width + 1);
    CHECK(bytes);
    bool ok = fseeko(stream->file, (off_t)(first * format.width), SEEK_SET) == 0 &&
              fread(bytes, format.width, count, stream->file) == count;
    if (!ok) {
        status_set(status, STATUS_IO, "%s: cannot read token %zu: %s", source->path, first,
                   ferror(stream->file) ? strerror(errno) : "the file has become shorter");
    }
    ok = ok && decode_all(ids, bytes, first, count, format, stream->vocab, source->path, status);
    free(bytes);
    return ok;
}

void token_stream_close(struct token_stream *stream)
{
    if (stream->file) {
        fclose(stream->file);
    }
    *stream = (struct token_stream){0};
}
