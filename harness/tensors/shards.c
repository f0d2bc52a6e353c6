#include "harness/tensors/shards.h"
#include "harness/json/json_field.h"
#include "harness/tensors/folder_contents.h"
#include "harness/tensors/folder_path.h"
#include "harness/tensors/weight_names.h"
#include <string.h>

// Values compared at once: a few MiB.
#define BLOCK_VALUES ((size_t)1 << 18)

void shards_close(struct shards *shards)
{
    for (size_t i = 0; i < shards->count; i++)
        safetensors_close(&shards->files[i]);
    free(shards->files);
    *shards = (struct shards){0};
}

bool shards_add(struct shards *shards, const char *folder, const char *name, struct status *status)
{
    shards->files = realloc(shards->files, (shards->count + 1) * sizeof *shards->files);
    char *path = folder_file(folder, name);
    bool ok = safetensors_open(&shards->files[shards->count++], path, status);
    free(path);
    return ok;
}

const struct safetensors *shards_find(const struct shards *shards, const char *name)
{
    for (size_t i = 0; i < shards->count; i++)
        if (safetensors_find(&shards->files[i], name))
            return &shards->files[i];
    return NULL;
}

// Opens the tensor's shard unless it is open.
static bool open_mapped(struct shards *shards, const char *folder, const char *tensor, struct json_field file,
                        struct status *status)
{
    const char *name = json_string_value(file.value);
    if (!name || !*name || strchr(name, '/') || strcmp(name, "..") == 0)
        return json_field_expected(file, status, "the name of a file in the same folder");
    size_t i = 0;
    while (i < shards->count && strcmp(strrchr(shards->files[i].path, '/') + 1, name) != 0)
        i++;
    if (i == shards->count && !shards_add(shards, folder, name, status))
        return false;
    return safetensors_find(&shards->files[i], tensor) ||
           json_field_fail(file, status, "that file has no such tensor");
}

static bool open_index(struct shards *shards, const char *folder, struct status *status)
{
    char *path = folder_file(folder, FOLDER_INDEX);
    struct json_source source;
    bool ok = json_source_open_python(&source, path, status);
    if (ok) {
        struct json_field map = json_field_get(json_field_root(&source), "weight_map");
        ok = json_is_object(map.value) ||
             json_field_expected(map, status, "an object of tensor names and file names");
        const char *tensor;
        json_t *file;
        json_object_foreach(map.value, tensor, file)
        {
            ok = ok && open_mapped(shards, folder, tensor, json_field_get(map, tensor), status);
        }
    }
    json_source_close(&source);
    free(path);
    return ok;
}

static bool open_files(struct shards *shards, const char *folder, struct status *status)
{
    if (folder_has(folder, FOLDER_WEIGHTS))
        return shards_add(shards, folder, FOLDER_WEIGHTS, status);
    if (folder_has(folder, FOLDER_INDEX))
        return open_index(shards, folder, status);
    char contents[400];
    folder_contents(folder, false, contents, sizeof contents);
    return status_set(status, STATUS_IO, "%s: has neither %s nor %s%s", folder, FOLDER_WEIGHTS, FOLDER_INDEX,
                      contents);
}

// Renames every tensor to its name in a language model and removes those of other parts.
static void rename_tensors(struct shards *shards, struct safetensors *file)
{
    size_t kept = 0;
    for (size_t i = 0; i < file->count; i++) {
        char *name = weight_name(file->tensors[i].name);
        free(file->tensors[i].name);
        shards->aside += !name;
        if (name) {
            file->tensors[kept] = file->tensors[i];
            file->tensors[kept++].name = name;
        }
    }
    file->count = kept;
    safetensors_sort(file);
}

// The layer's number behind "model.layers."; SIZE_MAX: the tensor is no layer's.
static size_t layer_of(const char *name)
{
    static const char layers[] = "model.layers.";
    return strncmp(name, layers, sizeof layers - 1) == 0 ? strtoull(name + sizeof layers - 1, NULL, 10) : SIZE_MAX;
}

// Lowest layer that drafts tokens for the model (multi-token prediction of DeepSeek-V3 and GLM-4.5, behind the
// model's own layers), which a projection of two hidden states tells; SIZE_MAX: there is none.
static size_t first_draft(const struct shards *shards)
{
    static const char end[] = ".eh_proj.weight";
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < shards->count; i++) {
        for (size_t j = 0; j < shards->files[i].count; j++) {
            const char *name = shards->files[i].tensors[j].name;
            size_t bytes = strlen(name), layer = layer_of(name);
            if (layer < first && bytes > sizeof end && strcmp(name + bytes + 1 - sizeof end, end) == 0)
                first = layer;
        }
    }
    return first;
}

static void remove_drafts(struct shards *shards)
{
    size_t first = first_draft(shards);
    for (size_t i = 0; first < SIZE_MAX && i < shards->count; i++) {
        struct safetensors *file = &shards->files[i];
        size_t kept = 0;
        for (size_t j = 0; j < file->count; j++) {
            size_t layer = layer_of(file->tensors[j].name);
            bool drafts = layer >= first && layer < SIZE_MAX;
            if (drafts)
                free(file->tensors[j].name);
            else
                file->tensors[kept++] = file->tensors[j];
            shards->aside += drafts;
        }
        file->count = kept;
    }
}

static void take_head_as_embedding(const struct shards *shards)
{
    for (size_t i = 0; i < shards->count; i++) {
        for (size_t j = 0; j < shards->files[i].count; j++) {
            struct safetensors_tensor *t = &shards->files[i].tensors[j];
            if (strcmp(t->name, SHARDS_HEAD) == 0) {
                free(t->name);
                t->name = strdup(SHARDS_EMBEDDING);
            }
        }
        safetensors_sort(&shards->files[i]);
    }
}

bool shards_open_weights(struct shards *shards, const char *folder, bool tied, struct status *status)
{
    bool opened = open_files(shards, folder, status);
    for (size_t i = 0; opened && i < shards->count; i++)
        rename_tensors(shards, &shards->files[i]);
    if (opened)
        remove_drafts(shards);
    if (opened && tied && !shards_find(shards, SHARDS_EMBEDDING))
        take_head_as_embedding(shards);
    return opened;
}

bool shards_have_own_head(const struct shards *shards)
{
    const struct safetensors *above = shards_find(shards, SHARDS_EMBEDDING);
    const struct safetensors *below = shards_find(shards, SHARDS_HEAD);
    const struct safetensors_tensor *embedding = above ? safetensors_find(above, SHARDS_EMBEDDING) : NULL;
    const struct safetensors_tensor *head = below ? safetensors_find(below, SHARDS_HEAD) : NULL;
    if (!embedding || !head || !embedding->readable || !head->readable)
        return false;
    double *blocks = malloc(2 * BLOCK_VALUES * sizeof *blocks);
    bool same = embedding->count == head->count;
    for (size_t first = 0; same && first < head->count; first += BLOCK_VALUES) {
        size_t count = head->count - first < BLOCK_VALUES ? head->count - first : BLOCK_VALUES;
        safetensors_values(embedding, first, count, blocks);
        safetensors_values(head, first, count, blocks + BLOCK_VALUES);
        for (size_t i = 0; i < count; i++)
            same = same && blocks[i] == blocks[BLOCK_VALUES + i];
    }
    free(blocks);
    return !same;
}
