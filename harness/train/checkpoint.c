#include "harness/train/checkpoint.h"
#include "harness/files/file_hash.h"
#include "harness/files/io.h"
#include "harness/files/output_file.h"
#include "harness/folder/folder.h"
#include "harness/tensors/folder_path.h"
#include "harness/tensors/safetensors.h"
#include "harness/text/text.h"
#include "kernels/device/ops.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME       "checkpoint-"
#define UNFINISHED ".unfinished"

// --- folders

static char *path_of(const char *folder, size_t step, const char *end)
{
    return text_new("%s/" NAME "%06zu%s", folder, step, end);
}

// The step of a checkpoint with this name; 0: no checkpoint. *finished: it has its final name.
static size_t step_of(const char *name, bool *finished)
{
    size_t step;
    int end = 0;
    if (sscanf(name, NAME "%zu%n", &step, &end) != 1)
        return 0;
    char own[64];
    snprintf(own, sizeof own, NAME "%06zu", step);
    if ((size_t)end != strlen(own) || strncmp(name, own, (size_t)end) != 0)
        return 0;
    *finished = name[end] == '\0';
    return *finished || strcmp(name + end, UNFINISHED) == 0 ? step : 0;
}

size_t checkpoint_before(const char *folder, size_t below)
{
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    size_t last = 0;
    while (entries && (entry = readdir(entries))) {
        bool finished;
        size_t step = step_of(entry->d_name, &finished);
        if (step > last && step < below && finished)
            last = step;
    }
    if (entries)
        closedir(entries);
    return last;
}

static void remove_unfinished(const char *folder)
{
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    while (entries && (entry = readdir(entries))) {
        bool finished;
        size_t step = step_of(entry->d_name, &finished);
        char *path = path_of(folder, step, UNFINISHED);
        if (step && !finished)
            io_remove_all(path);
        free(path);
    }
    if (entries)
        closedir(entries);
}

size_t checkpoint_last(const char *folder)
{
    remove_unfinished(folder);
    return checkpoint_before(folder, SIZE_MAX);
}

void checkpoint_prune(const char *folder, size_t keep)
{
    size_t step = SIZE_MAX;
    while ((step = checkpoint_before(folder, step)) > 0) {
        char *path = path_of(folder, step, ""), *unfinished = path_of(folder, step, UNFINISHED);
        if (keep > 0)
            keep--;
        else if (rename(path, unfinished) == 0) // so that no partial one is taken for complete
            io_remove_all(unfinished);
        free(unfinished);
        free(path);
    }
}

// --- the optimizer's state

typedef bool visit_state(void *context, const char *name, struct tensor state, struct status *status);

static bool each_state(const struct model *model, visit_state *visit, void *context, struct status *status)
{
    bool ok = true;
    for (size_t i = 0; i < model->parameter_count; i++) {
        const struct parameter *p = &model->parameters[i];
        char name[160];
        for (size_t s = 0; ok && s < PARAMETER_STATES; s++) {
            snprintf(name, sizeof name, "%s.state%zu", p->name, s);
            if (p->state[s].data)
                ok = visit(context, name, p->state[s], status);
        }
        snprintf(name, sizeof name, "%s.projector", p->name);
        if (ok && p->projector.data)
            ok = visit(context, name, p->projector, status);
    }
    return ok;
}

struct listing {
    struct safetensors_item *items;
    size_t count, largest_bytes, bytes;
};

static bool list_state(void *context, const char *name, struct tensor t, struct status *status)
{
    struct listing *listing = context;
    (void)status;
    listing->items = realloc(listing->items, (listing->count + 1) * sizeof *listing->items);
    char *copy = strdup(name);
    listing->items[listing->count++] =
        (struct safetensors_item){.name = copy, .dtype = t.dtype, .rank = 2, .shape = {t.rows, t.cols}};
    listing->bytes += tensor_bytes(t);
    listing->largest_bytes = tensor_bytes(t) > listing->largest_bytes ? tensor_bytes(t) : listing->largest_bytes;
    return true;
}

static struct listing list_states(const struct model *model)
{
    struct listing listing = {0};
    each_state(model, list_state, &listing, NULL);
    return listing;
}

static void listing_free(struct listing *listing)
{
    for (size_t i = 0; i < listing->count; i++)
        free((char *)listing->items[i].name);
    free(listing->items);
}

struct transfer {
    struct device *device;
    struct safetensors_writer *writer;
    const struct safetensors *file;
    void *bytes; // of the largest
};

static bool write_state(void *context, const char *name, struct tensor t, struct status *status)
{
    struct transfer *transfer = context;
    (void)name;
    op_download(transfer->device, transfer->bytes, t);
    return safetensors_append_bytes(transfer->writer, transfer->bytes, tensor_count(t), status);
}

static bool read_state(void *context, const char *name, struct tensor t, struct status *status)
{
    struct transfer *transfer = context;
    const struct safetensors_tensor *tensor = safetensors_find(transfer->file, name);
    if (!tensor || tensor->bytes != tensor_bytes(t))
        return status_set(status, STATUS_BAD_INPUT, "%s: tensor %s: expected %zu bytes, found %zu",
                          transfer->file->path, name, tensor_bytes(t), tensor ? tensor->bytes : 0);
    memcpy(transfer->bytes, tensor->data, tensor->bytes); // aligned
    op_upload(transfer->device, t, transfer->bytes);
    return true;
}

static bool write_states(const char *path, const struct model *model, struct status *status)
{
    struct listing listing = list_states(model);
    struct safetensors_writer writer;
    struct transfer transfer = {
        .device = model->device, .writer = &writer, .bytes = malloc(listing.largest_bytes + 1)};
    bool ok = safetensors_create(&writer, path, listing.items, listing.count, status) &&
              each_state(model, write_state, &transfer, status) && safetensors_commit(&writer, status);
    safetensors_discard(&writer);
    free(transfer.bytes);
    listing_free(&listing);
    return ok;
}

static bool read_states(const char *path, const struct model *model, struct status *status)
{
    struct listing listing = list_states(model);
    struct safetensors file;
    struct transfer transfer = {.device = model->device, .file = &file, .bytes = malloc(listing.largest_bytes + 1)};
    bool ok = safetensors_open(&file, path, status) && each_state(model, read_state, &transfer, status);
    safetensors_close(&file);
    free(transfer.bytes);
    listing_free(&listing);
    return ok;
}

// --- the XXH3 of each file, as `xxhsum -c` reads it

#define CHECKPOINT_SUMS "checksums.xxh3"

// The format of xxhsum -H3.
#define LINE "XXH3_%016" PRIx64 "  %s\n"

static bool hash_file(const char *folder, const char *name, uint64_t *hash, struct status *status)
{
    char *path = folder_file(folder, name);
    XXH3_state_t *state = XXH3_createState();
    CHECK(state && XXH3_64bits_reset(state) == XXH_OK);
    bool read = file_hash_add(state, path, status);
    *hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    free(path);
    return read;
}

static int is_summed(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && strcmp(entry->d_name, CHECKPOINT_SUMS) != 0;
}

static int find_files(const char *folder, struct dirent ***files, struct status *status)
{
    int count = scandir(folder, files, is_summed, alphasort);
    if (count < 0)
        status_set(status, STATUS_IO, "%s: %s", folder, strerror(errno));
    return count;
}

static void free_files(struct dirent **files, int count)
{
    for (int i = 0; i < count; i++)
        free(files[i]);
    if (count >= 0)
        free(files);
}

// Writes the sums of all files in the folder. Returns false and a status (io) on failure.
static bool checkpoint_sums_write(const char *folder, struct status *status)
{
    struct dirent **files;
    int count = find_files(folder, &files, status);
    char *text, *path = folder_file(folder, CHECKPOINT_SUMS);
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    bool fine = count >= 0;
    for (int i = 0; fine && i < count; i++) {
        uint64_t hash;
        fine = hash_file(folder, files[i]->d_name, &hash, status);
        fprintf(stream, LINE, hash, files[i]->d_name);
    }
    CHECK(fclose(stream) == 0);
    fine = fine && output_file_write(path, text, bytes, status);
    free(path);
    free(text);
    free_files(files, count);
    return fine;
}

// Checks that the next line equals the next file's, byte for byte.
static bool check_next(FILE *sums, const char *folder, const char *name, bool read, struct status *status)
{
    char *line = NULL, *expected;
    size_t room = 0;
    uint64_t hash = 0;
    bool got = getline(&line, &room, sums) >= 0;
    if (!got && ferror(sums))
        status_set(status, STATUS_IO, "%s/" CHECKPOINT_SUMS ": %s", folder, strerror(errno));
    if (!got || strlen(line) < strlen("XXH3_0123456789abcdef  \n")) {
        free(line);
        return status_set(status, STATUS_BAD_INPUT, "%s/" CHECKPOINT_SUMS ": has no line of %s", folder, name);
    }
    bool fine = !read || hash_file(folder, name, &hash, status);
    if (fine) {
        if (!read)
            hash = strtoull(line + strlen("XXH3_"), NULL, 16);
        expected = text_new(LINE, hash, name);
        bool same = strcmp(line, expected) == 0;
        free(expected);
        fine = same || status_set(status, STATUS_BAD_INPUT,
                                  "%s/%s: is not as it was written (its XXH3 is %016" PRIx64
                                  ", not what " CHECKPOINT_SUMS " says)",
                                  folder, name, hash);
    }
    free(line);
    return fine;
}

// Checks the listed files, except other ranks' states: names that begin with `others` and are not `own`. Returns
// false and a status (bad input) that names the first changed file. A folder of an earlier version has no sums:
// *known becomes false and nothing is checked.
static bool checkpoint_sums_check(const char *folder, const char *others, const char *own, bool *known,
                                  struct status *status)
{
    char *path = folder_file(folder, CHECKPOINT_SUMS);
    FILE *sums = fopen(path, "re");
    *known = sums || errno != ENOENT;
    bool fine = sums || !*known || status_set(status, STATUS_IO, "%s: %s", path, strerror(errno));
    struct dirent **files;
    int count = sums ? find_files(folder, &files, status) : -1;
    for (int i = 0; fine && i < count; i++) {
        const char *name = files[i]->d_name;
        bool read = strncmp(name, others, strlen(others)) != 0 || strcmp(name, own) == 0;
        fine = check_next(sums, folder, name, read, status);
    }
    if (sums && fine && (count < 0 || fgetc(sums) != EOF))
        fine = status->code == STATUS_OK &&
               status_set(status, STATUS_BAD_INPUT, "%s: lists a file that is not there", path);
    if (sums) {
        fclose(sums);
        free_files(files, count);
    }
    free(path);
    return fine;
}

// --- whole checkpoints

// The rank whose file has this rank's state: unsharded replicas with the same experts share one.
static size_t state_rank(const struct model *model, const struct world *world)
{
    return model->ranks.zero == ZERO_NOTHING ? model->ranks.copies.first : world->comm.rank;
}

static char *state_path(const char *checkpoint, const struct model *model, const struct world *world)
{
    char *path;
    if (world->comm.size == 1)
        path = text_new("%s/" CHECKPOINT_STATE, checkpoint);
    else
        path = text_new("%s/optimizer-%05zu-of-%05zu.safetensors", checkpoint, state_rank(model, world) + 1,
                        world->comm.size);
    return path;
}

static bool has_state(const struct model *model, const struct world *world)
{
    return world->comm.size == 1 || state_rank(model, world) == world->comm.rank;
}

size_t checkpoint_bytes(const struct model *model, const struct world *world)
{
    struct listing listing = list_states(model);
    double bytes = has_state(model, world) ? (double)listing.bytes : 0;
    world_sum(world, &bytes, 1);
    for (size_t i = 0; i < model->parameter_count; i++)
        if (model_can_train(model, &model->parameters[i]))
            bytes += (double)(model->parameters[i].size * dtype_bytes(model->device->ops->dtype));
    listing_free(&listing);
    return (size_t)bytes;
}

static bool make_folder(const char *path, struct status *status)
{
    return mkdir(path, 0777) == 0 ||
           status_set(status, STATUS_IO, "%s: cannot make the folder: %s", path, strerror(errno));
}

static bool give_name(const char *unfinished, const char *path, struct status *status)
{
    if (rename(unfinished, path) != 0)
        return status_set(status, STATUS_IO, "%s: cannot give the finished checkpoint its name: %s", path,
                          strerror(errno));
    output_file_sync_folder(path);
    return true;
}

bool checkpoint_write(const char *folder, size_t step, struct model *model, const char *base,
                      const struct world *world, struct status *status)
{
    char *path = path_of(folder, step, ""), *unfinished = path_of(folder, step, UNFINISHED);
    char *state = state_path(unfinished, model, world);
    bool first = world->comm.rank == 0, ok = !first || make_folder(unfinished, status);
    if (ok) {
        world->ops->meet(world); // the folder exists now
        ok = (!has_state(model, world) || write_states(state, model, status)) &&
             folder_save(unfinished, model, base, world, status);
    }
    if (ok) {
        world->ops->meet(world); // all parts are complete
        ok = !first || (checkpoint_sums_write(unfinished, status) && give_name(unfinished, path, status));
    }
    if (!ok)
        io_remove_all(unfinished);
    free(state);
    free(unfinished);
    free(path);
    return ok;
}

static bool check_sums(const char *folder, size_t step, const char *path, const char *state,
                       const struct world *world, struct status *status)
{
    bool known;
    if (!checkpoint_sums_check(path, "optimizer", strrchr(state, '/') + 1, &known, status)) {
        struct status cause = *status;
        size_t before = checkpoint_before(folder, step);
        char *earlier = path_of(folder, before, "");
        *status = (struct status){0};
        if (before)
            status_set(status, cause.code, "%s; remove %s, and --resume continues from %s", cause.message, path,
                       earlier);
        else
            status_set(status, cause.code, "%s; no checkpoint is before it: begin the run anew in another folder",
                       cause.message);
        free(earlier);
        return false;
    }
    if (!known && world->comm.rank == 0)
        fprintf(stderr,
                "%s: has no " CHECKPOINT_SUMS
                ": an earlier version wrote it, and its files are taken as they are\n",
                path);
    return true;
}

bool checkpoint_read(const char *folder, size_t step, struct trainer *trainer, const struct world *world,
                     struct status *status)
{
    struct model *model = trainer->model;
    char *path = path_of(folder, step, ""), *state = state_path(path, model, world);
    enum dtype dtype = model->device->ops->dtype;
    trainer_begin(trainer, step, 1); // allocates the state that existed then
    bool adapter = model->lora.rank, weights = !adapter || model->lora_beside;
    bool ok = check_sums(folder, step, path, state, world, status) &&
              (!weights || folder_read_weights(path, model, 0, dtype, status)) &&
              (!adapter || folder_read_adapter(path, model, dtype, status)) && read_states(state, model, status);
    free(state);
    free(path);
    return ok;
}
