#include "harness/files/unfinished.h"
#include "harness/folder/expert_weights.h"
#include "harness/folder/folder.h"
#include "harness/text/size.h"
#include "kernels/trainer/random_weights.h"
#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

// Values written at once: a few MiB.
#define BLOCK_VALUES ((size_t)1 << 19)

// A folder being written.
struct writing {
    const char *folder;
    struct model model; // listed: names and shapes
    uint64_t seed;
    enum dtype dtype;
    const struct folder_listener *listener;
    size_t written, total; // bytes of the weights
};

static size_t weight_bytes(const struct writing *w)
{
    size_t bytes = 0;
    for (size_t i = 0; i < w->model.parameter_count; i++)
        bytes += tensor_count(w->model.parameters[i].value) *
                 dtype_bytes(parameter_dtype(&w->model.parameters[i], w->dtype));
    return bytes;
}

static void tell(const struct writing *w)
{
    if (w->listener)
        w->listener->wrote(w->listener->context, w->written, w->total);
}

bool folder_has_room(const char *folder, size_t bytes, const char *what, const char *remedy, struct status *status)
{
    struct statvfs disk;
    char *copy = strdup(folder), needed[32], left[32];
    bool known = statvfs(folder, &disk) == 0 || statvfs(dirname(copy), &disk) == 0;
    free(copy);
    if (!known || disk.f_blocks == 0 || bytes / disk.f_frsize < disk.f_bavail)
        return true;
    size_text(bytes, needed, sizeof needed);
    size_text(disk.f_bavail * disk.f_frsize, left, sizeof left);
    return status_set(status, STATUS_IO,
                      "%s: %s take %s, and %s are free there; choose a folder with more room, %s", folder, what,
                      needed, left, remedy);
}

static bool check_room(const struct writing *w, struct status *status)
{
    char what[40];
    snprintf(what, sizeof what, "the weights in %s", dtype_name(w->dtype));
    return folder_has_room(w->folder, w->total, what, "a smaller dtype such as bf16, or a smaller model", status);
}

// Creates the folder; an existing one must be empty.
static bool make_folder(const char *folder, bool *made, struct status *status)
{
    *made = mkdir(folder, 0777) == 0;
    if (*made)
        return true;
    DIR *entries = errno == EEXIST ? opendir(folder) : NULL;
    if (!entries)
        return status_set(status, STATUS_IO, "%s: cannot make the folder: %s", folder, strerror(errno));
    const struct dirent *entry;
    bool empty = true;
    while (empty && (entry = readdir(entries)))
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    closedir(entries);
    return empty || status_set(status, STATUS_BAD_INPUT, "%s: is there already, and not empty", folder);
}

static bool write_parameter(struct writing *w, struct safetensors_writer *writer, const struct parameter *parameter,
                            double *values, struct status *status)
{
    size_t count = tensor_count(parameter->value);
    for (size_t first = 0; first < count; first += BLOCK_VALUES) {
        size_t block = count - first < BLOCK_VALUES ? count - first : BLOCK_VALUES;
        random_weights_values(parameter, w->seed, w->dtype, first, block, values);
        if (!safetensors_append(writer, values, block, status))
            return false;
        w->written += block * dtype_bytes(parameter_dtype(parameter, w->dtype));
        tell(w);
    }
    return true;
}

// Expert by expert, each in the file's order of values.
static bool write_ordered(struct writing *w, struct safetensors_writer *writer, const struct parameter *p,
                          size_t rows, struct status *status)
{
    size_t count = rows * p->value.cols, all = tensor_count(p->value);
    double *values = malloc(2 * count * sizeof *values), *ordered = values + count;
    CHECK(values);
    bool ok = true;
    for (size_t first = 0; ok && first < all; first += count) {
        random_weights_values(p, w->seed, w->dtype, first, count, values);
        file_order(&w->model.config, p, values, ordered);
        ok = safetensors_append(writer, ordered, count, status);
        w->written += ok ? count * dtype_bytes(w->dtype) : 0;
        tell(w);
    }
    free(values);
    return ok;
}

static bool write_weights(struct writing *w, const char *path, struct status *status)
{
    double *values = malloc(BLOCK_VALUES * sizeof *values);
    struct file_tensors tensors = {0};
    for (size_t i = 0; i < w->model.parameter_count; i++)
        file_tensors_add(&tensors, &w->model.config, &w->model.parameters[i], w->dtype);
    struct safetensors_writer writer;
    bool ok = safetensors_create(&writer, path, tensors.items, tensors.count, status);
    for (size_t i = 0; ok && i < w->model.parameter_count; i++) {
        const struct parameter *p = &w->model.parameters[i];
        size_t rows = file_order_rows(&w->model.config, p);
        ok = rows ? write_ordered(w, &writer, p, rows, status) : write_parameter(w, &writer, p, values, status);
    }
    ok = ok && safetensors_commit(&writer, status);
    safetensors_discard(&writer);
    file_tensors_free(&tensors);
    free(values);
    return ok;
}

// The configuration is written last, so a folder with one is complete. Until then a failure or a signal removes
// everything.
static bool write_files(struct writing *w, struct status *status)
{
    bool made;
    if (!make_folder(w->folder, &made, status))
        return false;
    char *weights = folder_file(w->folder, FOLDER_WEIGHTS);
    if (made)
        unfinished_add(w->folder);
    unfinished_add(weights);
    tell(w);
    bool ok =
        write_weights(w, weights, status) && folder_write_config(w->folder, &w->model.config, w->dtype, status);
    if (!ok) {
        unlink(weights);
        if (made)
            rmdir(w->folder);
    }
    unfinished_drop(weights);
    unfinished_drop(w->folder);
    free(weights);
    return ok;
}

bool folder_write(const char *folder, const struct config *config, uint64_t seed, enum dtype dtype,
                  const struct folder_listener *listener, struct status *status)
{
    if (dtype != DTYPE_F64 && dtype != DTYPE_F32 && dtype != DTYPE_BF16)
        return status_set(status, STATUS_UNSUPPORTED, "weights are written as f64, f32 or bf16, not as %s",
                          dtype_name(dtype));
    if (!config_check(config, status))
        return false;
    struct writing w = {.folder = folder, .seed = seed, .dtype = dtype, .listener = listener};
    model_list(&w.model, config, &(struct lora){0});
    w.total = weight_bytes(&w);
    bool ok = check_room(&w, status) && write_files(&w, status);
    model_close(&w.model);
    return ok;
}
