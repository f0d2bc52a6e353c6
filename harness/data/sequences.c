#include "harness/data/sequences.h"
#include "harness/files/file_hash.h"
#include "harness/files/share.h"
#include "harness/tensors/folder_path.h"
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#define ENDING ".safetensors"

// --- the files' paths

struct paths {
    char **items;
    size_t count;
};

static void paths_free(struct paths *paths)
{
    for (size_t i = 0; i < paths->count; i++)
        free(paths->items[i]);
    free(paths->items);
}

static void add_path(struct paths *paths, char *path)
{
    paths->items = realloc(paths->items, (paths->count + 1) * sizeof *paths->items);
    paths->items[paths->count++] = path;
}

static int is_batch_file(const struct dirent *entry)
{
    const char *end = strrchr(entry->d_name, '.');
    return *entry->d_name != '.' && end && strcmp(end, ENDING) == 0;
}

static bool list_folder(struct paths *paths, const char *folder, struct status *status)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_batch_file, alphasort);
    for (int i = 0; i < count; i++) {
        add_path(paths, folder_file(folder, entries[i]->d_name));
        free(entries[i]);
    }
    free(entries);
    return paths->count || status_set(status, STATUS_BAD_INPUT, "%s: holds no batch file, *" ENDING, folder);
}

// Lists the file itself, or the files of the folder.
static bool list(struct paths *paths, const char *path, struct status *status)
{
    char found[PATH_MAX];
    struct stat info;
    const char *where = share_resolve(path, found);
    *paths = (struct paths){0};
    if (stat(where, &info) == 0 && S_ISDIR(info.st_mode))
        return list_folder(paths, where, status);
    add_path(paths, strdup(where));
    return true;
}

bool sequences_shape(const char *path, size_t *context, size_t *count, struct status *status)
{
    struct paths paths;
    bool ok = list(&paths, path, status);
    *count = 0;
    for (size_t i = 0; ok && i < paths.count; i++) {
        size_t batch = 0;
        ok = batch_file_shape(paths.items[i], context, &batch, status);
        *count += batch;
    }
    paths_free(&paths);
    return ok;
}

bool sequences_expect(const char *path, size_t context, size_t count, struct status *status)
{
    size_t has_context = 0, has_count = 0;
    if (!sequences_shape(path, &has_context, &has_count, status))
        return false;
    if (has_context != context)
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: sequences of %zu tokens, but context is %zu; give a file with this context (the "
                          "default is the training file's)",
                          path, has_context, context);
    return has_count >= count ||
           status_set(status, STATUS_BAD_INPUT, "%s: has %zu sequences, but a micro-batch takes %zu; give fewer",
                      path, has_count, count);
}

size_t sequences_bytes(const char *path)
{
    struct paths paths;
    struct status status = {0};
    struct stat info;
    size_t bytes = 0;
    if (list(&paths, path, &status))
        for (size_t i = 0; i < paths.count; i++)
            bytes += stat(paths.items[i], &info) == 0 ? (size_t)info.st_size : 0;
    paths_free(&paths);
    return bytes;
}

uint64_t sequences_hash(const char *path)
{
    struct paths paths;
    struct status status = {0};
    XXH3_state_t *state = XXH3_createState();
    CHECK(state && XXH3_64bits_reset(state) == XXH_OK);
    bool read = list(&paths, path, &status);
    for (size_t i = 0; read && i < paths.count; i++)
        read = file_hash_add(state, paths.items[i], &status);
    uint64_t hash = read ? XXH3_64bits_digest(state) : 0;
    XXH3_freeState(state);
    paths_free(&paths);
    return hash;
}

// --- opening

static bool check_file(const struct sequences *sequences, const struct batch_file *file, struct status *status)
{
    if (file->batch % sequences->together)
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: has %zu sequences, no multiple of the %zu that belong together", file->tensors.path,
                          file->batch, sequences->together);
    return batch_file_like(file, &sequences->files[0], status);
}

bool sequences_open(struct sequences *sequences, const char *path, size_t together, size_t vocab, uint64_t shuffle,
                    struct status *status)
{
    struct paths paths;
    *sequences = (struct sequences){.vocab = vocab, .together = together, .order.shuffle = shuffle};
    bool ok = list(&paths, path, status);
    sequences->files = calloc(paths.count + 1, sizeof *sequences->files);
    for (size_t i = 0; ok && i < paths.count; i++) {
        struct batch_file *file = &sequences->files[sequences->file_count++];
        ok = batch_file_open(file, paths.items[i], status) && check_file(sequences, file, status);
        sequences->count += file->batch;
    }
    sequences->context = sequences->files[0].context;
    sequences->order.count = sequences->count / together;
    paths_free(&paths);
    return ok;
}

bool sequences_split(struct sequences *sequences, double share, struct sequences *held_out, struct status *status)
{
    size_t count = sequences->order.count, kept_back = epochs_share(share, count);
    const char *path = sequences->files[0].tensors.path;
    *held_out = (struct sequences){0};
    if (kept_back == 0 || kept_back == count)
        return status_set(status, STATUS_BAD_INPUT, "%s: %g of %zu sequences%s leaves none %s", path, share,
                          sequences->count, sequences->together > 1 ? ", pairs and groups whole," : "",
                          kept_back ? "to train on" : "to evaluate");
    struct epochs order = epochs_split(&sequences->order, kept_back);
    *held_out = *sequences;
    held_out->order = order;
    held_out->files = calloc(sequences->file_count, sizeof *held_out->files);
    held_out->file_count = 0;
    for (size_t i = 0; i < sequences->file_count; i++)
        if (!batch_file_open(&held_out->files[held_out->file_count++], sequences->files[i].tensors.path, status))
            return false;
    return true;
}

void sequences_close(struct sequences *sequences)
{
    for (size_t i = 0; i < sequences->file_count; i++)
        batch_file_close(&sequences->files[i]);
    free(sequences->files);
    epochs_close(&sequences->order);
    *sequences = (struct sequences){0};
}

// --- reading

size_t sequences_count(const struct sequences *sequences)
{
    return sequences->order.count * sequences->together;
}

size_t sequences_item(struct sequences *sequences, size_t index)
{
    size_t together = sequences->together;
    return epochs_item(&sequences->order, index / together) * together + index % together;
}

static const struct batch_file *file_of(const struct sequences *sequences, size_t item, size_t *number)
{
    const struct batch_file *file = sequences->files;
    for (; item >= file->batch; file++)
        item -= file->batch;
    *number = item;
    return file;
}

const char *sequences_place(const struct sequences *sequences, size_t item, size_t *number)
{
    return file_of(sequences, item, number)->tensors.path;
}

bool sequences_read(struct sequences *sequences, size_t index, size_t count, struct batch_data *data,
                    struct status *status)
{
    bool ok = batch_file_room(&sequences->files[0], count, data, status);
    for (size_t i = 0; ok && i < count; i++) {
        size_t number;
        const struct batch_file *file = file_of(sequences, sequences_item(sequences, index + i), &number);
        ok = batch_file_take(file, number, 1, sequences->vocab, data, i, status) &&
             file_stamp_check(&file->tensors.stamp, -1, file->tensors.path, status);
    }
    return ok;
}
