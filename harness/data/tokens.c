#include "harness/data/tokens.h"
#include "harness/files/input_files.h"
#include "harness/files/share.h"
#include "kernels/base/host_memory.h"
#include "kernels/base/random.h"
#include "kernels/objectives/batch.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static const struct token_format formats[] = {
    [DATA_BYTES] = {.width = 1, .noun = "token", .text = "bytes"},
    [DATA_U16] = {.width = 2, .noun = "token", .text = "u16"},
    [DATA_U32] = {.width = 4, .noun = "token", .text = "u32"},
    [DATA_ARRAY] = {.noun = "token", .text = "an array of integers", .described = true},
};
static const struct token_format labels_format = {
    .width = 4, .is_signed = true, .noun = "label", .text = "int32", .described = true};

// An open file and its first bytes.
struct token_file {
    const char *path;
    FILE *file;
    struct token_format format;
    size_t count; // values of a regular file; SIZE_MAX: a pipe
    unsigned char head[KNOWN_FORMAT_BYTES];
    size_t head_count;
};

// Counts the values in a regular file of `bytes` bytes.
static bool count_values(struct token_file *file, size_t bytes, struct status *status)
{
    const struct token_format *format = &file->format;
    size_t left = bytes > format->start ? bytes - format->start : 0;
    file->count = left / format->width;
    if (format->described && left != format->count * format->width)
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: its header gives %zu %ss of %s, but %zu bytes follow, enough for %zu: %s",
                          file->path, format->count, format->noun, format->text, left, file->count,
                          left < format->count * format->width ? "it is cut short" : "save one array alone");
    return left % format->width == 0 ||
           status_set(status, STATUS_BAD_INPUT,
                      "%s: its size of %zu bytes is not a multiple of %zu, so it does not hold %ss of %s",
                      file->path, bytes, format->width, format->noun, format->text);
}

// Release with close_file, also after a failure.
static bool open_file(struct token_file *file, const char *path, const struct token_format *asked, size_t vocab,
                      struct status *status)
{
    struct stat info;
    char found[PATH_MAX];
    *file = (struct token_file){.path = path, .format = *asked, .count = SIZE_MAX};
    file->file = fopen(share_resolve(path, found), "rb");
    if (file->file)
        input_files_note(fileno(file->file));
    if (!file->file || fstat(fileno(file->file), &info) != 0)
        return status_set(status, STATUS_IO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return status_set(status, STATUS_BAD_INPUT, "%s: a folder, expected a file of %ss", path, asked->noun);
    if (S_ISREG(info.st_mode) && info.st_size == 0)
        return status_set(status, STATUS_BAD_INPUT, "%s: is empty, expected %ss", path, asked->noun);
    file->head_count = fread(file->head, 1, sizeof file->head, file->file);
    if (ferror(file->file))
        return status_set(status, STATUS_IO, "%s: %s", path, strerror(errno));
    return token_format_find(&file->format, path, file->head, file->head_count, vocab, status) &&
           (!S_ISREG(info.st_mode) || count_values(file, (size_t)info.st_size, status));
}

static void close_file(struct token_file *file)
{
    if (file->file)
        fclose(file->file);
    file->file = NULL;
}

// Reads up to `count` raw values of a file just opened; returns how many there are.
static size_t read_values(struct token_file *file, unsigned char *bytes, size_t count)
{
    size_t width = file->format.width, wanted = count * width, start = file->format.start;
    CHECK(start <= file->head_count); // token_format_find has seen the whole header
    size_t kept = file->head_count - start < wanted ? file->head_count - start : wanted;
    memcpy(bytes, file->head + start, kept);
    return (kept + fread(bytes + kept, 1, wanted - kept, file->file)) / width;
}

// first: position of the first value in its file.
static bool decode_all(int32_t *ids, const unsigned char *bytes, size_t first, size_t count,
                       const struct token_format *format, size_t vocab, const char *path, struct status *status)
{
    bool labels = format->noun == labels_format.noun;
    for (size_t i = 0; i < count; i++) {
        int64_t id = token_format_value(format, bytes + i * format->width);
        bool none = labels && id == NO_TARGET;
        if (!none && (id < 0 || (uint64_t)id >= vocab)) {
            return status_set(status, STATUS_BAD_INPUT,
                              "%s: %s %zu is %lld, expected %s0 to %zu (a vocabulary of %zu); it was read as %s",
                              path, format->noun, first + i, (long long)id, labels ? "-100 or " : "", vocab - 1,
                              vocab, format->text);
        }
        ids[i] = (int32_t)id;
    }
    return true;
}

static int32_t *new_ids(size_t count, struct status *status)
{
    int32_t *ids = host_memory_try(count, sizeof *ids);
    if (!ids)
        status_set(status, STATUS_OOM, "no room on the host for %zu token ids", count);
    return ids;
}

// Reads the first context * batch raw values; to be freed.
static unsigned char *read_bytes(struct token_file *file, size_t context, size_t batch, struct status *status)
{
    size_t count = context * batch, found = file->count;
    const char *noun = file->format.noun;
    unsigned char *bytes = NULL;
    if (found >= count && (bytes = host_memory_try(count, file->format.width)))
        found = read_values(file, bytes, count);
    bool ok = false;
    if (ferror(file->file)) {
        status_set(status, STATUS_IO, "%s: %s", file->path, strerror(errno));
    } else if (found < count) {
        status_set(status, STATUS_BAD_INPUT, "%s: %zu x %zu %ss are needed (batch x context), found %zu",
                   file->path, batch, context, noun, found);
    } else if (!bytes) {
        status_set(status, STATUS_OOM, "no room on the host for %zu %ss", count, noun);
    } else {
        ok = true;
    }
    if (!ok) {
        free(bytes);
        return NULL;
    }
    return bytes;
}

static int32_t *read_file(const char *path, const struct token_format *asked, size_t context, size_t batch,
                          size_t vocab, struct status *status)
{
    struct token_file file;
    size_t count = context * batch;
    bool open = open_file(&file, path, asked, vocab, status);
    unsigned char *bytes = open ? read_bytes(&file, context, batch, status) : NULL;
    int32_t *ids = bytes ? new_ids(count, status) : NULL;
    if (ids && !decode_all(ids, bytes, 0, count, &file.format, vocab, path, status)) {
        free(ids);
        ids = NULL;
    }
    free(bytes);
    close_file(&file);
    return ids;
}

// Refuses batches that no file could fill before memory is allocated. Ids and classes must fit an int32.
static bool check_sizes(size_t context, size_t batch, size_t vocab, struct status *status)
{
    size_t count, bytes;
    if (context == 0 || batch == 0 || __builtin_mul_overflow(context, batch, &count) ||
        __builtin_mul_overflow(count, sizeof(int32_t), &bytes) || bytes > PTRDIFF_MAX / 2)
        return status_set(status, STATUS_BAD_INPUT, "%zu sequences of %zu tokens are not a batch", batch, context);
    if (vocab == 0 || vocab > INT32_MAX)
        return status_set(status, STATUS_BAD_INPUT, "a vocabulary of %zu is not from 1 to %d", vocab, INT32_MAX);
    return true;
}

static void draw(int32_t *ids, size_t first, size_t count, size_t vocab, uint64_t seed)
{
    struct random random = random_named(seed, "tokens");
    for (size_t i = 0; i < count; i++)
        ids[i] = (int32_t)random_below(&random, first + i, vocab);
}

int32_t *tokens_read(const struct data_source *source, size_t context, size_t batch, size_t vocab, uint64_t seed,
                     struct status *status)
{
    if (!check_sizes(context, batch, vocab, status))
        return NULL;
    if (source->kind != DATA_RANDOM)
        return read_file(source->path, &formats[source->kind], context, batch, vocab, status);
    size_t count = context * batch;
    int32_t *ids = new_ids(count, status);
    if (ids)
        draw(ids, 0, count, vocab, seed);
    return ids;
}

int32_t *tokens_read_labels(const char *path, size_t context, size_t batch, size_t vocab, struct status *status)
{
    if (!check_sizes(context, batch, vocab, status))
        return NULL;
    return read_file(path, &labels_format, context, batch, vocab, status);
}

bool token_stream_open(struct token_stream *stream, const struct data_source *source, size_t vocab, uint64_t seed,
                       struct status *status)
{
    *stream = (struct token_stream){.source = source, .count = SIZE_MAX, .vocab = vocab, .seed = seed};
    if (!check_sizes(1, 1, vocab, status) || source->kind == DATA_RANDOM)
        return status->code == STATUS_OK;
    struct token_file file;
    bool ok = open_file(&file, source->path, &formats[source->kind], vocab, status);
    stream->file = file.file;
    stream->format = file.format;
    stream->count = file.count;
    ok = ok && (file_stamp_take(&stream->stamp, fileno(file.file)) ||
                status_set(status, STATUS_IO, "%s: %s", source->path, strerror(errno)));
    return ok && (stream->count < SIZE_MAX ||
                  status_set(status, STATUS_BAD_INPUT,
                             "%s: is no regular file, and tokens are read from any place in it", source->path));
}

bool token_stream_read(struct token_stream *stream, size_t first, size_t count, int32_t *ids, struct status *status)
{
    const struct data_source *source = stream->source;
    const struct token_format *format = &stream->format;
    if (!stream->file) {
        draw(ids, first, count, stream->vocab, stream->seed);
        return true;
    }
    unsigned char *bytes = malloc(count * format->width + 1);
    bool ok = fseeko(stream->file, (off_t)(format->start + first * format->width), SEEK_SET) == 0 &&
              fread(bytes, format->width, count, stream->file) == count;
    if (!ok) {
        status_set(status, STATUS_IO, "%s: cannot read token %zu: %s", source->path, first,
                   ferror(stream->file) ? strerror(errno) : "the file has become shorter");
    }
    ok = ok && file_stamp_check(&stream->stamp, fileno(stream->file), source->path, status) &&
         decode_all(ids, bytes, first, count, format, stream->vocab, source->path, status);
    free(bytes);
    return ok;
}

bool token_stream_survey(struct token_stream *stream, size_t count, size_t *distinct, struct status *status)
{
    const size_t block = 1 << 16;
    unsigned char *seen = calloc(stream->vocab, 1);
    int32_t *ids = calloc(block, sizeof *ids);
    bool ok = true;
    *distinct = 0;
    count = count < stream->count ? count : stream->count;
    for (size_t first = 0, n; ok && first < count; first += n) {
        n = count - first < block ? count - first : block;
        ok = token_stream_read(stream, first, n, ids, status);
        for (size_t i = 0; ok && i < n; i++) {
            *distinct += !seen[ids[i]];
            seen[ids[i]] = 1;
        }
    }
    free(ids);
    free(seen);
    return ok;
}

void token_stream_close(struct token_stream *stream)
{
    if (stream->file)
        fclose(stream->file);
    *stream = (struct token_stream){0};
}

static bool is_pipe(const char *path)
{
    struct stat info;
    char found[PATH_MAX];
    return stat(share_resolve(path, found), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

bool tokens_kind(const char *path, size_t vocab, enum data_kind *kind, struct status *status)
{
    struct token_file file;
    *kind = DATA_ARRAY;
    if (is_pipe(path))
        return true;
    bool ok = open_file(&file, path, &formats[DATA_ARRAY], vocab, status);
    *kind = file.format.described ? DATA_ARRAY : DATA_BYTES;
    close_file(&file);
    return ok;
}

static bool count_file(const char *path, const struct token_format *asked, size_t vocab, size_t *count,
                       struct status *status)
{
    struct token_file file;
    *count = SIZE_MAX;
    if (is_pipe(path))
        return true;
    bool ok = open_file(&file, path, asked, vocab, status);
    *count = file.count;
    close_file(&file);
    return ok;
}

bool tokens_count(const struct data_source *source, size_t vocab, size_t *count, struct status *status)
{
    return count_file(source->path, &formats[source->kind], vocab, count, status);
}

bool tokens_count_labels(const char *path, size_t vocab, size_t *count, struct status *status)
{
    return count_file(path, &labels_format, vocab, count, status);
}
