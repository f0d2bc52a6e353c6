#include "harness/folder/adapter.h"
#include "harness/folder/adapter_tensors.h"
#include "harness/folder/expert_weights.h"
#include "harness/folder/folder.h"
#include "kernels/model/unit.h"
#include <stdint.h>
#include <string.h>

// Values on the host at once: a few MiB.
#define BLOCK_VALUES ((size_t)1 << 19)

// State of a save; rank 0 writes, the others send the parts that it lacks.
struct saving {
    struct model *model;
    const struct world *world;
    struct safetensors_writer *writer;
};

static bool is_first(const struct saving *saving)
{
    return saving->world->comm.rank == 0;
}

// The lowest rank that holds the parameter, or this part of it; on ranks other than 0, only whether it is this one.
static size_t rank_with(const struct saving *saving, const struct parameter *p, size_t part)
{
    const struct world *world = saving->world;
    const struct ranks *ranks = &saving->model->ranks;
    size_t rank = world->comm.rank;
    size_t first = parameter_is_part(p) ? part : 0; // replica
    bool has = model_has(saving->model, p) && ranks->replicas.rank == first,
         *all = calloc(world->comm.size, sizeof *all);
    has = has &&
          (p != saving->model->embedding || ranks_lowest(ranks)); // tied embeddings count once, at the first stage
    world->ops->gather(world, all, &has, sizeof has);
    if (rank == 0) {
        while (!all[rank])
            rank++;
        CHECK(rank < world->comm.size);
    } else if (!has) {
        rank = SIZE_MAX;
    }
    free(all);
    return rank;
}

// Transfers a block of rows from rank `from` to rank 0.
static bool take_block(const struct saving *saving, struct tensor block, size_t from, double *values,
                       struct status *status)
{
    const struct world *world = saving->world;
    struct device *device = saving->model->device;
    size_t bytes = tensor_count(block) * sizeof *values;
    if (from == world->comm.rank) {
        tensor_read(device, block, values);
        if (!status_take(status, &device->status))
            return false;
    }
    if (from != 0 && from == world->comm.rank)
        world->ops->send(world, 0, values, bytes);
    if (is_first(saving) && from != 0)
        world->ops->receive(world, from, values, bytes);
    return true;
}

// Saves rows in blocks to the file; or, for a tensor of several parts or a transposed one, into its values. part:
// of ranks that share the experts.
static bool save_part(const struct saving *saving, const struct parameter *p, size_t part,
                      const struct adapter_tensor *whole, const struct adapter_piece *piece, double *into,
                      struct status *status)
{
    struct tensor t = p->value;
    size_t from = rank_with(saving, p, part), rows = BLOCK_VALUES / t.cols ? BLOCK_VALUES / t.cols : 1;
    size_t expert = file_order_rows(&saving->model->config, p); // rows that the file has in another order
    rows = expert ? expert : rows;
    size_t count = (rows < t.rows ? rows : t.rows) * t.cols, before = part * tensor_count(t);
    double *values = malloc((expert ? 2 : 1) * count * sizeof *values);
    CHECK(values);
    bool ok = true, takes_part = is_first(saving) || from == saving->world->comm.rank;
    for (size_t first = 0; ok && takes_part && first < t.rows; first += rows) {
        struct tensor block = tensor_rows(t, first, t.rows - first < rows ? t.rows - first : rows);
        ok = take_block(saving, block, from, values, status);
        for (size_t i = 0; ok && into && i < tensor_count(block); i++)
            into[adapter_tensor_index(whole, piece, before + first * t.cols + i)] = values[i];
        if (ok && expert && is_first(saving))
            file_order(&saving->model->config, p, values, values + count);
        if (ok && !into && is_first(saving))
            ok = safetensors_append(saving->writer, expert ? values + count : values, tensor_count(block), status);
    }
    free(values);
    return ok;
}

static bool save_values(const struct saving *saving, const struct parameter *p, const struct adapter_tensor *whole,
                        const struct adapter_piece *piece, double *into, struct status *status)
{
    size_t parts = p->size / tensor_count(p->value);
    bool ok = true;
    for (size_t part = 0; ok && part < parts; part++)
        ok = save_part(saving, p, part, whole, piece, into, status);
    return ok;
}

static bool save_adapter_tensor(const struct saving *saving, const struct adapter_tensor *tensor,
                                struct status *status)
{
    size_t all = tensor->rows * tensor->cols;
    if (adapter_tensor_is_plain(tensor))
        return save_values(saving, tensor->pieces[0].parameter, NULL, NULL, NULL, status);
    double *whole = calloc(all, sizeof *whole);
    bool ok = true;
    for (size_t i = 0; ok && i < tensor->count; i++)
        ok = save_values(saving, tensor->pieces[i].parameter, tensor, &tensor->pieces[i], whole, status);
    ok = ok && (!is_first(saving) || safetensors_append(saving->writer, whole, all, status));
    free(whole);
    return ok;
}

// The submodule in the adapter's module names; weights beside it belong to the language model.
static const char *submodule_of(const struct model *model)
{
    return model->lora_beside ? NULL : model->config.submodule;
}

// The weights, or the adapter's tensors, in file order (by unit).
static struct adapter_tensors tensors_of(const struct model *model, bool adapter)
{
    if (adapter)
        return adapter_tensors_of(model, submodule_of(model));
    struct adapter_tensors tensors = {.items = calloc(model->parameter_count + 1, sizeof *tensors.items)};
    for (size_t i = 0; i < model->parameter_count; i++) {
        const struct parameter *p = &model->parameters[i];
        struct adapter_tensor *tensor = &tensors.items[tensors.count];
        if (parameter_is_factor(p))
            continue;
        struct tensor whole = parameter_whole(p).value;
        *tensor = (struct adapter_tensor){
            .rows = whole.rows, .cols = whole.cols, .form = parameter_form(p), .count = 1, .pieces = {{p, 0, 0}}};
        memcpy(tensor->name, p->name, sizeof p->name);
        tensors.count++;
    }
    return tensors;
}

static bool create_adapter(const struct saving *saving, const char *path, const struct adapter_tensors *tensors,
                           struct status *status)
{
    struct safetensors_item *items = calloc(tensors->count + 1, sizeof *items);
    for (size_t i = 0; i < tensors->count; i++) {
        const struct adapter_tensor *t = &tensors->items[i];
        items[i] = safetensors_item(t->name, t->rows, t->cols, t->form, saving->model->device->ops->dtype);
    }
    bool ok = safetensors_create(saving->writer, path, items, tensors->count, status);
    free(items);
    return ok;
}

static bool create_weights(const struct saving *saving, const char *path, const struct adapter_tensors *parameters,
                           struct status *status)
{
    struct file_tensors tensors = {0};
    const struct model *model = saving->model;
    for (size_t i = 0; i < parameters->count; i++)
        file_tensors_add(&tensors, &model->config, parameters->items[i].pieces[0].parameter,
                         model->device->ops->dtype);
    bool ok = safetensors_create(saving->writer, path, tensors.items, tensors.count, status);
    file_tensors_free(&tensors);
    return ok;
}

// Saves the adapter's tensors, or all others.
static bool save_weights(const char *folder, const char *name, struct model *model, bool adapter,
                         const struct world *world, struct status *status)
{
    struct safetensors_writer writer;
    const struct saving saving = {model, world, &writer};
    struct adapter_tensors tensors = tensors_of(model, adapter);
    char *path = folder_file(folder, name);
    bool ok = !is_first(&saving) || (adapter ? create_adapter : create_weights)(&saving, path, &tensors, status);
    for (size_t i = 0, unit = 0; ok && i < tensors.count; unit++) {
        unit_acquire(model, unit);
        for (; ok && i < tensors.count && unit_of(model, tensors.items[i].pieces[0].parameter) == unit; i++)
            ok = save_adapter_tensor(&saving, &tensors.items[i], status);
        unit_release(model, unit);
    }
    unit_settle(model);
    if (is_first(&saving)) {
        ok = ok && safetensors_commit(&writer, status);
        safetensors_discard(&writer);
    }
    free(tensors.items);
    free(path);
    return ok;
}

// Writes the files that describe the weights.
static bool save_configs(const char *folder, const struct model *model, const char *base, struct status *status)
{
    bool adapter = model->lora.rank > 0, weights = !adapter || model->lora_beside;
    struct config config = model->config;
    config.submodule = submodule_of(model);
    return (!weights || folder_write_config(folder, &config, model->device->ops->dtype, status)) &&
           (!weights || !base || folder_take_along(folder, base, status)) &&
           (!adapter || adapter_write_config(folder, weights ? NULL : base, &config, &model->lora, status));
}

bool folder_save(const char *folder, struct model *model, const char *base, const struct world *world,
                 struct status *status)
{
    bool adapter = model->lora.rank > 0, weights = !adapter || model->lora_beside;
    return (world->comm.rank > 0 || save_configs(folder, model, base, status)) &&
           (!weights || save_weights(folder, FOLDER_WEIGHTS, model, false, world, status)) &&
           (!adapter || save_weights(folder, FOLDER_ADAPTER, model, true, world, status));
}
