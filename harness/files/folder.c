#define _GNU_SOURCE // asprintf
#include "harness/files/folder.h"
#include "harness/files/file_hash.h"
#include "harness/files/fused_weights.h"
#include "harness/files/json_field.h"
#include "harness/files/safetensors.h"
#include "kernels/transformer/weights.h"
#include <string.h>
#include <unistd.h>

// Values converted at a time, a few MiB of them; whole blocks of quantised ones.
#define BLOCK_VALUES ((size_t)1 << 19)
#define INDEX_FILE   "model.safetensors.index.json"

// The files that together hold one set of tensors.
struct shards {
    size_t count;
    struct safetensors *files;
};

char *folder_file(const char *folder, const char *name)
{
    char *path = NULL;
    CHECK(asprintf(&path, "%s/%s", folder, name) >= 0);
    return path;
}

char *folder_path(const char *path)
{
    char *copy = strdup(path);
    CHECK(copy);
    for (size_t length = strlen(copy); length > 1 && copy[length - 1] == '/'; length--) {
        copy[length - 1] = '\0';
    }
    return copy;
}

static bool exists(const char *folder, const char *name)
{
    char *path = folder_file(folder, name);
    bool found = access(path, F_OK) == 0;
    free(path);
    return found;
}

static void shards_close(struct shards *shards)
{
    for (size_t i = 0; i < shards->count; i++) {
        safetensors_close(&shards->files[i]);
    }
    free(shards->files);
    *shards = (struct shards){0};
}

static bool shards_add(struct shards *shards, const char *folder, const char *name, struct status *status)
{
    shards->files = realloc(shards->files, (shards->count + 1) * sizeof *shards->files);
    CHECK(shards->files);
    char *path = folder_file(folder, name);
    bool ok = safetensors_open(&shards->files[shards->count++], path, status);
    free(path);
    return ok;
}

static const struct safetensors *shards_find(const struct shards *shards, const char *name)
{
    for (size_t i = 0; i < shards->count; i++) {
        if (safetensors_find(&shards->files[i], name)) {
            return &shards->files[i];
        }
    }
    return NULL;
}

// Opens the shard a tensor is in, unless it is open already.
static bool open_mapped(struct shards *shards, const char *folder, const char *tensor, struct json_field file,
                        struct status *status)
{
    const char *name = json_string_value(file.value);
    if (!name || !*name || strchr(name, '/') || strcmp(name, "..") == 0) {
        return json_field_expected(file, status, "the name of a file in the same folder");
    }
    size_t i = 0;
    while (i < shards->count && strcmp(strrchr(shards->files[i].path, '/') + 1, name) != 0) {
        i++;
    }
    if (i == shards->count && !shards_add(shards, folder, name, status)) {
        return false;
    }
    return safetensors_find(&shards->files[i], tensor) ||
           json_field_fail(file, status, "that file has no such tensor");
}

static bool open_index(struct shards *shards, const char *folder, struct status *status)
{
    char *path = folder_file(folder, INDEX_FILE);
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

static bool open_weights(struct shards *shards, const char *folder, struct status *status)
{
    if (exists(folder, FOLDER_WEIGHTS)) {
        return shards_add(shards, folder, FOLDER_WEIGHTS, status);
    }
    if (exists(folder, INDEX_FILE)) {
        return open_index(shards, folder, status);
    }
    return status_set(status, STATUS_IO, "%s: has neither %s nor %s%s", folder, FOLDER_WEIGHTS, INDEX_FILE,
                      exists(folder, "pytorch_model.bin") ? " (pytorch_model.bin must be converted first)" : "");
}

static bool split_fused(struct shards *shards, const struct model *model, struct status *status)
{
    bool fine = true;
    for (size_t i = 0; fine && i < shards->count; i++) {
        fine = fused_weights_split(&shards->files[i], model, status);
    }
    return fine;
}

// Names that did not fit, the first few of them spelled out.
struct list {
    size_t count;
    char text[400];
};

static void list_add(struct list *list, const char *name)
{
    size_t used = strlen(list->text);
    if (list->count < 3) {
        snprintf(list->text + used, sizeof list->text - used, "%s%.100s", list->count ? ", " : "", name);
    } else if (list->count == 3) {
        snprintf(list->text + used, sizeof list->text - used, ", ...");
    }
    list->count++;
}

// What transformers itself leaves aside: a buffer that old versions saved, and a head that is the embedding.
static bool is_harmless(const struct model *model, const char *name)
{
    const char *buffer = ".rotary_emb.inv_freq";
    size_t length = strlen(name), end = strlen(buffer);
    return (length > end && strcmp(name + length - end, buffer) == 0) ||
           (model->config.tied && strcmp(name, "lm_head.weight") == 0);
}

// The shards hold exactly the model's own weights, or, with lora, exactly its LoRA factors.
static bool check_names(const struct shards *shards, const char *folder, const struct model *model, bool lora,
                        struct status *status)
{
    struct list missing = {0}, unexpected = {0}, twice = {0};
    for (size_t i = 0; i < model->parameter_count; i++) {
        const struct parameter *p = &model->parameters[i];
        if (parameter_is_factor(p) == lora && !shards_find(shards, p->name)) {
            list_add(&missing, p->name);
        }
    }
    for (size_t i = 0; i < shards->count; i++) {
        for (size_t j = 0; j < shards->files[i].count; j++) {
            const char *name = shards->files[i].tensors[j].name;
            const struct parameter *p = model_parameter(model, name);
            if (shards_find(shards, name) != &shards->files[i]) {
                list_add(&twice, name);
            } else if ((!p || parameter_is_factor(p) != lora) && !is_harmless(model, name)) {
                list_add(&unexpected, name);
            }
        }
    }
    if (!missing.count && !unexpected.count && !twice.count) {
        return true;
    }
    const char *hint = missing.count && strcmp(missing.text, "lm_head.weight") == 0
                           ? " (a head that is the embedding needs \"tie_word_embeddings\": true)"
                       : missing.count && lora ? " (each projection has factors in every layer or in none)"
                                               : "";
    return status_set(
        status, STATUS_BAD_INPUT,
        "%s: the tensors are not those that %s for: missing %zu%s%s%s, unexpected %zu%s%s, in two files %zu%s%s",
        folder, lora ? "its rank and the model ask" : "config.json asks", missing.count, missing.count ? ": " : "",
        missing.text, hint, unexpected.count, unexpected.count ? ": " : "", unexpected.text, twice.count,
        twice.count ? ": " : "", twice.text);
}

static size_t shape_of(const struct parameter *p, size_t shape[2])
{
    shape[0] = p->vector ? p->value.cols : p->value.rows;
    shape[1] = p->value.cols;
    return p->vector ? 1 : 2;
}

static const struct safetensors_tensor *check_tensor(const struct shards *shards, const struct parameter *p,
                                                     struct status *status)
{
    const struct safetensors *file = shards_find(shards, p->name);
    const struct safetensors_tensor *t = safetensors_get(file, p->name, status);
    size_t shape[2], rank = shape_of(p, shape);
    if (t && (t->rank != rank || memcmp(t->shape, shape, rank * sizeof *shape) != 0)) {
        char expected[64], found[200];
        safetensors_shape_text(rank, shape, expected, sizeof expected);
        safetensors_shape_text(t->rank, t->shape, found, sizeof found);
        status_set(status, STATUS_BAD_INPUT, "%s: tensor %s: expected the shape %s, found %s", file->path, p->name,
                   expected, found);
        return NULL;
    }
    return t;
}

static void read_values(struct model *model, struct parameter *p, const struct safetensors_tensor *t,
                        enum dtype rounding, double *block)
{
    size_t all = tensor_count(p->value);
    for (size_t first = 0; first < all; first += BLOCK_VALUES) {
        size_t count = all - first < BLOCK_VALUES ? all - first : BLOCK_VALUES;
        safetensors_values(t, first, count, block);
        weights_write(model, p, first, count, block, rounding);
    }
}

// All are checked before the first is read: reading takes minutes.
static bool check_tensors(const struct shards *shards, const struct model *model, bool lora, struct status *status)
{
    for (size_t i = 0; i < model->parameter_count; i++) {
        const struct parameter *p = &model->parameters[i];
        if (parameter_is_factor(p) == lora && !check_tensor(shards, p, status)) {
            return false;
        }
    }
    return true;
}

// Of tensors that were checked.
static void read_all(const struct shards *shards, struct model *model, bool lora, enum dtype rounding)
{
    double *block = malloc(BLOCK_VALUES * sizeof *block);
    CHECK(block);
    for (size_t i = 0; i < model->parameter_count; i++) {
        struct parameter *p = &model->parameters[i];
        if (parameter_is_factor(p) == lora && model_has(model, p)) {
            read_values(model, p, safetensors_find(shards_find(shards, p->name), p->name), rounding, block);
        }
    }
    free(block);
}

static bool open_adapter(struct shards *adapter, const char *folder, const struct model *model,
                         struct status *status)
{
    return shards_add(adapter, folder, FOLDER_ADAPTER, status) &&
           check_names(adapter, folder, model, true, status) && check_tensors(adapter, model, true, status);
}

bool folder_check_adapter(const char *folder, const struct config *config, const struct lora *lora,
                          struct status *status)
{
    struct shards adapter = {0};
    struct model model;
    model_list(&model, config, lora);
    bool ok = open_adapter(&adapter, folder, &model, status);
    shards_close(&adapter);
    model_close(&model);
    return ok;
}

static void randomize_factors(struct model *model, uint64_t seed, enum dtype rounding)
{
    for (size_t i = 0; i < model->parameter_count; i++) {
        struct parameter *p = &model->parameters[i];
        if (parameter_is_factor(p) && model_has(model, p)) {
            model_randomize_parameter(model, p, seed, rounding);
        }
    }
}

bool folder_read_adapter(const char *folder, struct model *model, enum dtype rounding, struct status *status)
{
    struct shards adapter = {0};
    bool ok = open_adapter(&adapter, folder, model, status);
    if (ok) {
        read_all(&adapter, model, true, rounding);
    }
    shards_close(&adapter);
    return ok;
}

bool folder_read_weights(const char *folder, struct model *model, uint64_t seed, enum dtype rounding,
                         struct status *status)
{
    struct device *device = model->device;
    struct shards shards = {0};
    bool ok = device->status.code == STATUS_OK && open_weights(&shards, folder, status) &&
              split_fused(&shards, model, status) && check_names(&shards, folder, model, false, status) &&
              check_tensors(&shards, model, false, status);
    if (ok) {
        read_all(&shards, model, false, rounding);
        randomize_factors(model, seed, rounding);
    }
    shards_close(&shards);
    if (device->status.code != STATUS_OK) {
        return status_set(status, device->status.code, "%s", device->status.message);
    }
    return ok;
}

// --- hashes

// Of a description and the shards beside it.
static bool hash_all(const char *folder, const char *description, const struct shards *shards, uint64_t *hash,
                     struct status *status)
{
    XXH3_state_t *state = XXH3_createState();
    CHECK(state && XXH3_64bits_reset(state) == XXH_OK);
    char *path = folder_file(folder, description);
    bool read = file_hash_add(state, path, status);
    free(path);
    for (size_t i = 0; read && i < shards->count; i++) {
        CHECK(XXH3_64bits_update(state, shards->files[i].map, shards->files[i].map_bytes) == XXH_OK);
    }
    *hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return read;
}

bool folder_hash_model(const char *folder, bool weights, uint64_t *hash, struct status *status)
{
    struct shards shards = {0};
    bool read = (!weights || open_weights(&shards, folder, status)) &&
                hash_all(folder, "config.json", &shards, hash, status);
    shards_close(&shards);
    return read;
}

bool folder_hash_adapter(const char *folder, bool weights, uint64_t *hash, struct status *status)
{
    struct shards adapter = {0};
    bool read = (!weights || shards_add(&adapter, folder, FOLDER_ADAPTER, status)) &&
                hash_all(folder, FOLDER_ADAPTER_CONFIG, &adapter, hash, status);
    shards_close(&adapter);
    return read;
}
