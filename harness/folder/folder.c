#include "harness/folder/folder.h"
#include "harness/files/file_hash.h"
#include "harness/folder/expert_weights.h"
#include "harness/json/json_field.h"
#include "harness/tensors/gradients.h"
#include "harness/tensors/shards.h"
#include "harness/text/text.h"
#include "kernels/model/model.h"
#include "kernels/trainer/random_weights.h"
#include "kernels/trainer/weights.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Values converted at once: a few MiB, in whole blocks of quantised values.
#define BLOCK_VALUES ((size_t)1 << 19)

#define UNQUANTISED "give the folder of the weights in bf16 or f32 that they were made from"

// --- projections that a family's files keep in one tensor, one below the other (Phi-3)

// The parameters that the tensor joins, in their order: q_proj, k_proj and v_proj of a layer's qkv_proj. Returns
// their number, 0 for a tensor of its own.
static size_t parts_in(const struct model *model, const char *name, const struct parameter **parts)
{
    size_t count = 0;
    for (size_t i = 0; i < model->parameter_count; i++) {
        const struct parameter *p = &model->parameters[i];
        if (!p->joined || parameter_is_factor(p))
            continue;
        size_t before = (size_t)(strstr(p->name, p->module) - p->name), bytes = strlen(p->joined);
        if (strncmp(name, p->name, before) == 0 && strncmp(name + before, p->joined, bytes) == 0 &&
            strcmp(name + before + bytes, ".weight") == 0)
            parts[count++] = p;
    }
    return count;
}

// The part's rows of the whole, from `row` on.
static struct safetensors_tensor part_of(const struct safetensors_tensor *whole, char *name, size_t row,
                                         size_t rows)
{
    struct safetensors_tensor part = *whole;
    size_t row_bytes = whole->bytes / whole->shape[0];
    part.name = name;
    part.shape[0] = rows;
    part.count = rows * whole->shape[1];
    part.data = whole->data + row * row_bytes;
    part.bytes = rows * row_bytes;
    return part;
}

// Puts the parts in the place of a tensor that joins them; the data stay where they are. The first takes its place,
// the others come last. False and a status if rows do not add up.
static bool split(struct safetensors *file, size_t at, const struct model *model, struct status *status)
{
    const struct safetensors_tensor whole = file->tensors[at];
    const struct parameter *parts[BLOCK_PARAMETERS];
    size_t count = parts_in(model, whole.name, parts);
    if (count == 0)
        return true;
    if (whole.rank != 2 || whole.shape[0] != parts[0]->joined_rows)
        return status_set(status, STATUS_BAD_INPUT, "%s: tensor %.200s: expected a matrix of %zu rows", file->path,
                          whole.name, parts[0]->joined_rows);
    file->tensors = realloc(file->tensors, (file->count + count - 1) * sizeof *file->tensors);
    for (size_t i = 0; i < count; i++)
        file->tensors[i ? file->count + i - 1 : at] =
            part_of(&whole, text_new("%s", parts[i]->name), parts[i]->joined_row, parts[i]->value.rows);
    file->count += count - 1;
    free(whole.name);
    return true;
}

static bool fused_weights_split(struct safetensors *file, const struct model *model, struct status *status)
{
    bool fine = true;
    for (size_t i = 0, count = file->count; fine && i < count; i++)
        fine = split(file, i, model, status);
    safetensors_sort(file);
    return fine;
}

static bool split_fused(struct shards *shards, const struct model *model, struct status *status)
{
    bool fine = true;
    for (size_t i = 0; fine && i < shards->count; i++)
        fine = fused_weights_split(&shards->files[i], model, status);
    return fine;
}

// --- OLMo Hybrid's files, which have other names than transformers' model, and a filter each of q, k and v

static void rename_norms(struct safetensors *file)
{
    static const char *const names[][2] = {{".attention_layer_norm.", ".input_layernorm."},
                                           {".feedforward_layer_norm.", ".post_attention_layernorm."}};
    for (size_t i = 0; i < file->count; i++)
        for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
            char *name = file->tensors[i].name, *at = strstr(name, names[n][0]);
            if (at) {
                file->tensors[i].name =
                    text_new("%.*s%s%s", (int)(at - name), name, names[n][1], at + strlen(names[n][0]));
                free(name);
            }
        }
    safetensors_sort(file);
}

static const struct safetensors_tensor *filter_of(const struct shards *shards, const struct parameter *p, char part,
                                                  struct safetensors **file)
{
    static const char conv[] = "conv1d.weight";
    char *name = text_new("%.*s%c_%s", (int)(strlen(p->name) - strlen(conv)), p->name, part, conv);
    *file = (struct safetensors *)shards_find(shards, name);
    const struct safetensors_tensor *t = *file ? safetensors_find(*file, name) : NULL;
    free(name);
    return t;
}

// Puts one tensor in the place of the parameter's three, if all are there: others are told later. False and a
// status if their shapes or dtypes are not those.
static bool join_filters(struct shards *shards, const struct parameter *p, struct status *status)
{
    static const char parts[] = "qkv";
    struct safetensors *file;
    const struct safetensors_tensor *found[3];
    size_t bytes = 0, rows = 0;
    for (size_t i = 0; i < 3; i++) {
        found[i] = filter_of(shards, p, parts[i], &file);
        if (!found[i])
            return true;
        if (!safetensors_has_shape(file, found[i], found[i]->shape[0], p->value.cols, parameter_form(p), status))
            return false;
        if (strcmp(found[i]->dtype_name, found[0]->dtype_name) != 0)
            return status_set(status, STATUS_BAD_INPUT, "%s: tensor %s: expected %s, as q_conv1d has it, found %s",
                              file->path, found[i]->name, found[0]->dtype_name, found[i]->dtype_name);
        bytes += found[i]->bytes;
        rows += found[i]->shape[0];
    }
    if (rows != p->value.rows) // transformers saves three thirds, whatever q, k and v have of it
        return status_set(status, STATUS_BAD_INPUT, "%s: %s and those of k and v: expected %zu rows, found %zu",
                          file->path, found[0]->name, p->value.rows, rows);
    struct safetensors_tensor whole = *found[0];
    unsigned char *data = malloc(bytes), *end = data;
    CHECK(data);
    for (size_t i = 0; i < 3; end += found[i++]->bytes)
        memcpy(end, found[i]->data, found[i]->bytes);
    for (size_t i = 0; i < 3; i++) {
        const struct safetensors_tensor *t = filter_of(shards, p, parts[i], &file);
        safetensors_remove(file, t); // the last one's file has room now
    }
    whole.name = text_new("%s", p->name);
    whole.shape[0] = p->value.rows;
    whole.count = tensor_count(p->value);
    whole.data = data;
    whole.bytes = bytes;
    whole.own = true;
    file->tensors[file->count++] = whole;
    safetensors_sort(file);
    return true;
}

static bool join_split(struct shards *shards, const struct model *model, struct status *status)
{
    const struct layer_kind *kind = &model->config.kinds[CONFIG_DELTA];
    bool fine = true;
    if (kind->mixer != MIXER_DELTA_SPLIT)
        return true;
    for (size_t i = 0; i < shards->count; i++)
        rename_norms(&shards->files[i]);
    for (size_t i = 0; fine && i < model->parameter_count; i++)
        if (model->parameters[i].filter)
            fine = join_filters(shards, &model->parameters[i], status);
    return fine;
}

// A list of mismatched names, the first few spelled out.
struct list {
    size_t count;
    char text[400];
};

static void list_add(void *context, const char *name)
{
    struct list *list = context;
    size_t used = strlen(list->text);
    if (list->count < 3)
        snprintf(list->text + used, sizeof list->text - used, "%s%.100s", list->count ? ", " : "", name);
    else if (list->count == 3)
        snprintf(list->text + used, sizeof list->text - used, ", ...");
    list->count++;
}

static bool ends(const char *name, const char *end)
{
    size_t length = strlen(name), bytes = strlen(end);
    return length > bytes && strcmp(name + length - bytes, end) == 0;
}

// A buffer saved by old versions of transformers, which must hold RoPE's frequencies.
static bool is_frequencies(const char *name)
{
    return ends(name, ".rotary_emb.inv_freq");
}

// Tensors that transformers ignores: that buffer, and a head tied to the embedding.
static bool is_harmless(const struct model *model, const char *name)
{
    return is_frequencies(name) || (model->config.tied && strcmp(name, SHARDS_HEAD) == 0);
}

// Tells whether a tensor holds the frequencies, in f32 or the tensor's narrower dtype.
static bool holds(const struct safetensors_tensor *t, const struct config *config, const struct layer_kind *kind)
{
    size_t count = rope_rotary(kind) / 2;
    double *values = malloc(2 * count * sizeof *values), *expected = values + count;
    bool same = t->count == count;
    if (same) {
        double share = t->dtype == DTYPE_BF16 ? 0x1p-7 : t->dtype == DTYPE_F16 ? 0x1p-10 : 1e-5;
        double step = t->dtype == DTYPE_F16 ? 0x1p-24 : 0; // distance between its smallest numbers
        safetensors_values(t, 0, count, values);
        rope_frequencies(config, kind, 0, expected);
        for (size_t j = 0; j < count; j++)
            same = same && fabs(values[j] - expected[j]) <= share * expected[j] + step;
    }
    free(values);
    return same;
}

// Refuses other frequencies than config.json's, because the weights were trained with them.
static bool check_frequencies(const struct safetensors *file, const char *name, const struct config *config,
                              struct status *status)
{
    const struct safetensors_tensor *t = safetensors_get(file, name, status);
    size_t layer = 0;
    if (!t)
        return false;
    bool of_layer = sscanf(name, "model.layers.%zu.", &layer) == 1;
    const struct layer_kind *kind = of_layer ? config_kind(config, layer) : config_full_kind(config);
    struct layer_kind unscaled = *kind; // linear scaling divided positions instead
    if (kind->rope_scaling.high_freq_factor == 0)
        unscaled.rope_scaling = (struct rope_scaling){0};
    return holds(t, config, kind) || holds(t, config, &unscaled) ||
           status_set(
               status, STATUS_BAD_INPUT,
               "%s: tensor %s: its frequencies are not those that config.json's rope_theta, rope_scaling and "
               "head_dim give; correct config.json, or remove the tensor if config.json is right",
               file->path, name);
}

// Parts of names that tell which other kind of model the tensors belong to.
static const struct {
    const char *part, *hint;
} causes[] = {
    {"tok_embeddings.", "names of Meta's and Mistral's own format: give the folder that transformers reads"},
    {".attention.wq.", "names of Meta's and Mistral's own format: give the folder that transformers reads"},
    {".lora_A.", "LoRA factors within the weights: save what peft's merge_and_unload returns"},
    {".base_layer.", "a model of peft, saved whole: save what peft's merge_and_unload returns"},
    {".qweight", "weights quantised by GPTQ or AWQ: " UNQUANTISED},
    {".absmax", "weights quantised by bitsandbytes: " UNQUANTISED},
    {".SCB", "weights quantised by bitsandbytes: " UNQUANTISED},
    {"_proj_blocks", "experts in MXFP4, of another model than config.json's"},
    {".weight_scale_2", "weights quantised as NVFP4: " UNQUANTISED},
    {".weight_packed", "weights quantised by compressed-tensors: " UNQUANTISED},
    {".weight_scale", "weights in F8 with scales: " UNQUANTISED},
    {".input_scale", "weights in F8 with scales: " UNQUANTISED},
    {".scales", "weights quantised by MLX: " UNQUANTISED},
    {".experts.", "experts that config.json does not have"},
};

// Index of the first applicable cause; CAUSES: none.
#define CAUSES (sizeof causes / sizeof *causes)
static size_t cause_of(const char *name)
{
    size_t i = 0;
    while (i < CAUSES && !strstr(name, causes[i].part))
        i++;
    return i;
}

// A parameter's name in the shards, which may omit one that starts as a copy of another.
static const char *name_in(const struct shards *shards, const struct parameter *p)
{
    return p->copy_of && !shards_find(shards, p->name) ? p->copy_of : p->name;
}

// Checks that shards and experts hold exactly the model's own weights.
static bool check_names(const struct shards *shards, const struct expert_weights *experts, const char *folder,
                        const struct model *model, struct status *status)
{
    struct list missing = {0}, unexpected = {0}, twice = {0};
    size_t cause = CAUSES;
    for (size_t i = 0; i < model->parameter_count; i++) {
        const struct parameter *p = &model->parameters[i];
        const struct expert_source *source = expert_weights_find(experts, p);
        if (source)
            expert_weights_missing(experts, source, list_add, &missing);
        else if (!parameter_is_factor(p) && !shards_find(shards, name_in(shards, p)))
            list_add(&missing, p->name);
    }
    for (size_t i = 0; i < shards->count; i++) {
        for (size_t j = 0; j < shards->files[i].count; j++) {
            const char *name = shards->files[i].tensors[j].name;
            const struct parameter *p = model_parameter(model, name);
            bool again = j > 0 && strcmp(name, shards->files[i].tensors[j - 1].name) == 0;
            again |= p && expert_weights_find(experts, p);
            if (again || shards_find(shards, name) != &shards->files[i]) {
                list_add(&twice, name);
            } else if ((!p || parameter_is_factor(p)) && !is_harmless(model, name)) {
                list_add(&unexpected, name);
                size_t own = cause_of(name);
                cause = own < cause ? own : cause;
            }
        }
    }
    if (!missing.count && !unexpected.count && !twice.count)
        return true;
    const char *hint = missing.count && strcmp(missing.text, SHARDS_HEAD) == 0
                           ? " (a head that is the embedding needs \"tie_word_embeddings\": true)"
                           : "";
    return status_set(
        status, STATUS_BAD_INPUT,
        "%s: the tensors do not match config.json: missing %zu%s%s%s, unexpected %zu%s%s, twice %zu%s%s%s%s",
        folder, missing.count, missing.count ? ": " : "", missing.text, hint, unexpected.count,
        unexpected.count ? ": " : "", unexpected.text, twice.count, twice.count ? ": " : "", twice.text,
        cause < CAUSES ? "; these are " : "", cause < CAUSES ? causes[cause].hint : "");
}

static bool check_tensor(const struct shards *shards, const struct parameter *p, struct status *status)
{
    const char *name = name_in(shards, p);
    const struct safetensors *file = shards_find(shards, name);
    const struct safetensors_tensor *t = safetensors_find(file, name);
    if (!t->readable) {
        bool f8 = strncmp(t->dtype_name, "F8_", 3) == 0;
        return status_set(status, STATUS_UNSUPPORTED,
                          "%s: tensor %s: expected F64, F32, BF16 or F16, found %s; %s" UNQUANTISED, file->path,
                          name, t->dtype_name,
                          f8 ? "cast weights in F8 without scales by .to(torch.bfloat16), or " : "");
    }
    struct tensor whole = parameter_whole(p).value;
    return safetensors_has_shape(file, t, whole.rows, whole.cols, parameter_form(p), status);
}

// From its experts' source, or else from the tensor.
static void read_values(struct model *model, struct parameter *p, const struct expert_source *source,
                        const struct safetensors_tensor *t, enum dtype rounding)
{
    double *block = malloc(BLOCK_VALUES * sizeof *block);
    size_t end = p->first + tensor_count(p->value); // of this rank's part
    for (size_t first = p->first; first < end; first += BLOCK_VALUES) {
        size_t count = end - first < BLOCK_VALUES ? end - first : BLOCK_VALUES;
        if (source)
            expert_source_values(source, first, count, block);
        else
            safetensors_values(t, first, count, block);
        weights_write(model, p, first, count, block, rounding);
    }
    free(block);
}

void folder_read_values(struct model *model, struct parameter *p, const struct safetensors_tensor *t,
                        enum dtype rounding)
{
    read_values(model, p, NULL, t, rounding);
}

// Checks all tensors before reading any, because reading takes minutes.
static bool check_tensors(const struct shards *shards, const struct expert_weights *experts,
                          const struct model *model, struct status *status)
{
    for (size_t i = 0; i < model->parameter_count; i++) {
        const struct parameter *p = &model->parameters[i];
        if (!parameter_is_factor(p) && !expert_weights_find(experts, p) && !check_tensor(shards, p, status))
            return false;
    }
    return true;
}

static bool check_buffers(const struct shards *shards, const struct config *config, struct status *status)
{
    bool fine = true;
    for (size_t i = 0; i < shards->count; i++) {
        const struct safetensors *file = &shards->files[i];
        for (size_t j = 0; fine && j < file->count; j++) {
            const char *name = file->tensors[j].name;
            fine = !is_frequencies(name) || check_frequencies(file, name, config, status);
        }
    }
    return fine;
}

// Reads tensors that were checked.
static void read_all(const struct shards *shards, const struct expert_weights *experts, struct model *model,
                     enum dtype rounding)
{
    for (size_t i = 0; i < model->parameter_count; i++) {
        struct parameter *p = &model->parameters[i];
        if (!parameter_is_factor(p) && model_has(model, p)) {
            const struct expert_source *source = expert_weights_find(experts, p);
            const char *name = name_in(shards, p);
            read_values(model, p, source, source ? NULL : safetensors_find(shards_find(shards, name), name),
                        rounding);
        }
    }
}

static void randomize_factors(struct model *model, uint64_t seed, enum dtype rounding)
{
    for (size_t i = 0; i < model->parameter_count; i++) {
        struct parameter *p = &model->parameters[i];
        if (parameter_is_factor(p) && model_has(model, p))
            random_weights_set_one(model, p, seed, rounding);
    }
}

bool folder_read_weights(const char *folder, struct model *model, uint64_t seed, enum dtype rounding,
                         struct status *status)
{
    struct device *device = model->device;
    struct shards shards = {0};
    struct expert_weights experts = {0};
    bool ok = device->status.code == STATUS_OK &&
              shards_open_weights(&shards, folder, model->config.tied || model->lora.untied, status) &&
              split_fused(&shards, model, status) && join_split(&shards, model, status) &&
              expert_weights_take(&experts, &shards, model, status) &&
              check_names(&shards, &experts, folder, model, status) &&
              check_tensors(&shards, &experts, model, status) && check_buffers(&shards, &model->config, status);
    if (ok) {
        read_all(&shards, &experts, model, rounding);
        randomize_factors(model, seed, rounding);
    }
    expert_weights_close(&experts);
    shards_close(&shards);
    return status_take(status, &device->status) && ok;
}

// --- hashes

// Hashes a description and the shards beside it.
static bool hash_all(const char *folder, const char *description, const struct shards *shards, uint64_t *hash,
                     struct status *status)
{
    XXH3_state_t *state = XXH3_createState();
    CHECK(state && XXH3_64bits_reset(state) == XXH_OK);
    char *path = folder_file(folder, description);
    bool read = file_hash_add(state, path, status);
    free(path);
    for (size_t i = 0; read && i < shards->count; i++)
        CHECK(XXH3_64bits_update(state, shards->files[i].map, shards->files[i].map_bytes) == XXH_OK);
    *hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return read;
}

bool folder_hash_model(const char *folder, bool weights, uint64_t *hash, struct status *status)
{
    struct shards shards = {0};
    bool read = (!weights || shards_open_weights(&shards, folder, false, status)) &&
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
