#include "harness/folder/adapter_tensors.h"
#include "harness/folder/folder.h"
#include "harness/tensors/safetensors.h"
#include "harness/tensors/weight_names.h"
#include "kernels/trainer/weights.h"
#include <string.h>

// An adapter's file and its expected tensors.
struct adapter_file {
    struct safetensors file;
    struct adapter_tensors tensors;
};

static void close_file(struct adapter_file *adapter)
{
    safetensors_close(&adapter->file);
    free(adapter->tensors.items);
}

// The base embedding or head, which PEFT saves beside their factors or if the vocabulary grew. NULL: another
// tensor.
static struct parameter *table_of(const struct model *model, const char *name)
{
    const struct {
        const char *name;
        struct parameter *table;
    } tables[] = {{"model.embed_tokens.base_layer.weight", model->embedding},
                  {"model.embed_tokens.weight", model->embedding},
                  {"lm_head.base_layer.weight", model->head},
                  {"lm_head.weight", model->head}};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        char whole[100] = ADAPTER_PREFIX;
        size_t prefix = sizeof ADAPTER_PREFIX - 1;
        weight_name_within(whole + prefix, sizeof whole - prefix, model->config.submodule, tables[i].name);
        if (strcmp(name, whole) == 0)
            return tables[i].table;
    }
    return NULL;
}

static bool check_shape(const struct safetensors *file, const char *name, size_t rows, size_t cols,
                        enum safetensors_form form, struct status *status)
{
    const struct safetensors_tensor *t = safetensors_get(file, name, status);
    return t && safetensors_has_shape(file, t, rows, cols, form, status);
}

static const struct adapter_tensor *find(const struct adapter_tensors *tensors, const char *name)
{
    for (size_t i = 0; i < tensors->count; i++)
        if (strcmp(tensors->items[i].name, name) == 0)
            return &tensors->items[i];
    return NULL;
}

// Checks that the file has exactly the model's tensors.
static bool check_file(const struct adapter_file *adapter, const struct model *model, struct status *status)
{
    const struct safetensors *file = &adapter->file;
    for (size_t i = 0; i < adapter->tensors.count; i++) {
        const struct adapter_tensor *t = &adapter->tensors.items[i];
        if (!safetensors_find(file, t->name))
            return status_set(status, STATUS_BAD_INPUT,
                              "%s: tensor %s is missing, and the configuration beside it and the model ask for it",
                              file->path, t->name);
        if (!check_shape(file, t->name, t->rows, t->cols, t->form, status))
            return false;
    }
    for (size_t i = 0; i < file->count; i++) {
        const char *name = file->tensors[i].name;
        const struct parameter *table = table_of(model, name);
        if (find(&adapter->tensors, name))
            continue;
        if (!table)
            return status_set(status, STATUS_BAD_INPUT,
                              "%s: tensor %s: unexpected by its configuration and by the model", file->path, name);
        if (!check_shape(file, name, table->value.rows, table->value.cols, false, status))
            return false;
    }
    return true;
}

// Renames tensors to their names within the whole model, because older classes used other prefixes. Tensors of its
// other parts match no parameter here.
static bool rename_tensors(struct safetensors *file, const char *submodule, struct status *status)
{
    const size_t prefix = sizeof ADAPTER_PREFIX - 1;
    for (size_t i = 0; i < file->count; i++) {
        struct safetensors_tensor *t = &file->tensors[i];
        if (strncmp(t->name, ADAPTER_PREFIX, prefix) != 0)
            continue;
        char *own = weight_name(t->name + prefix);
        if (!own)
            return status_set(status, STATUS_BAD_INPUT,
                              "%s: tensor %s: belongs to no language model; train an adapter whose target_modules "
                              "are the language model's, such as \"model\\.%s\\..*\\.(q|v)_proj\"",
                              file->path, t->name, submodule);
        size_t bytes = strlen(submodule) + strlen(own) + 2;
        t->name = realloc(t->name, prefix + bytes);
        weight_name_within(t->name + prefix, bytes, submodule, own);
        free(own);
    }
    safetensors_sort(file);
    for (size_t i = 1; i < file->count; i++)
        if (strcmp(file->tensors[i - 1].name, file->tensors[i].name) == 0)
            return status_set(status, STATUS_BAD_INPUT, "%s: tensor %s: is there twice, under two names",
                              file->path, file->tensors[i].name);
    return true;
}

static bool open_file(struct adapter_file *adapter, const char *folder, const struct model *model,
                      struct status *status)
{
    char *path = folder_file(folder, FOLDER_ADAPTER);
    const char *submodule = model->config.submodule;
    *adapter = (struct adapter_file){.tensors = adapter_tensors_of(model, submodule)};
    bool ok = safetensors_open(&adapter->file, path, status) &&
              (!submodule || rename_tensors(&adapter->file, submodule, status)) &&
              check_file(adapter, model, status);
    free(path);
    return ok;
}

bool folder_check_adapter(const char *folder, const struct config *config, const struct lora *lora,
                          struct status *status)
{
    struct adapter_file adapter;
    struct model model;
    model_list(&model, config, lora);
    bool ok = open_file(&adapter, folder, &model, status);
    close_file(&adapter);
    model_close(&model);
    return ok;
}

// Counts values that are not 0.
static size_t count_values(const double *values, size_t count)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += values[i] != 0;
    return found;
}

// Reads a tensor of several parameters, or a transposed one: small enough for host memory. Elements outside the
// parts must be 0.
static bool read_pieces(struct model *model, const struct adapter_tensor *tensor,
                        const struct safetensors_tensor *t, enum dtype rounding)
{
    size_t all = tensor->rows * tensor->cols, read = 0;
    double *values = malloc(all * sizeof *values), *own = malloc(all * sizeof *own);
    safetensors_values(t, 0, all, values);
    size_t found = count_values(values, all);
    for (size_t i = 0; i < tensor->count; i++) {
        struct parameter *p = (struct parameter *)tensor->pieces[i].parameter;
        size_t count = p->size;
        for (size_t j = 0; j < count; j++)
            own[j] = values[adapter_tensor_index(tensor, &tensor->pieces[i], j)];
        read += count_values(own, count);
        if (model_has(model, p))
            weights_write(model, p, 0, count, own, rounding);
    }
    free(own);
    free(values);
    return read == found;
}

static bool read_file(const struct adapter_file *adapter, struct model *model, enum dtype rounding,
                      struct status *status)
{
    const struct safetensors *file = &adapter->file;
    for (size_t i = 0; i < file->count; i++) {
        struct parameter *table = table_of(model, file->tensors[i].name);
        if (table && !find(&adapter->tensors, file->tensors[i].name) && model_has(model, table))
            folder_read_values(model, table, &file->tensors[i], rounding);
    }
    for (size_t i = 0; i < adapter->tensors.count; i++) {
        const struct adapter_tensor *tensor = &adapter->tensors.items[i];
        const struct safetensors_tensor *t = safetensors_find(file, tensor->name);
        struct parameter *p = (struct parameter *)tensor->pieces[0].parameter;
        if (!adapter_tensor_is_plain(tensor)) {
            if (!read_pieces(model, tensor, t, rounding))
                return status_set(
                    status, STATUS_BAD_INPUT,
                    "%s: tensor %s: is no factor of parts of the projection that train apart; name the "
                    "whole one as a target",
                    file->path, tensor->name);
        } else if (model_has(model, p)) {
            folder_read_values(model, p, t, rounding);
        }
    }
    return true;
}

bool folder_read_adapter(const char *folder, struct model *model, enum dtype rounding, struct status *status)
{
    struct adapter_file adapter;
    bool ok = open_file(&adapter, folder, model, status) && read_file(&adapter, model, rounding, status);
    close_file(&adapter);
    return ok;
}
