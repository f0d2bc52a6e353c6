#include "harness/files/folder.h"
#include "harness/files/safetensors.h"
#include "kernels/transformer/unit.h"
#include <jansson.h>
#include <stdint.h>
#include <string.h>

// Values on the host at a time, a few MiB of them.
#define BLOCK_VALUES ((size_t)1 << 19)

// What is written, by rank 0; the others send what it does not have.
struct saving {
    struct model *model;
    const struct world *world;
    struct safetensors_writer *writer;
};

static bool is_first(const struct saving *saving)
{
    return saving->world->comm.rank == 0;
}

// The lowest rank that has the parameter, of those that have it alike; known on rank 0, on others whether it is
// they.
static size_t rank_with(const struct saving *saving, const struct parameter *p)
{
    const struct world *world = saving->world;
    const struct ranks *ranks = &saving->model->ranks;
    size_t rank = world->comm.rank;
    bool has = model_has(saving->model, p) && ranks->replicas.rank == 0,
         *all = calloc(world->comm.size, sizeof *all);
    CHECK(all);
    has = has && (p != saving->model->embedding || ranks_lowest(ranks)); // of a tied table's two ends
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

// Values of a block of rows, which rank `from` has.
static bool save_block(const struct saving *saving, struct tensor block, size_t from, double *values,
                       struct status *status)
{
    const struct world *world = saving->world;
    struct device *device = saving->model->device;
    size_t bytes = tensor_count(block) * sizeof *values;
    if (from == world->comm.rank) {
        tensor_read(device, block, values);
        if (device->status.code != STATUS_OK)
            return status_set(status, device->status.code, "%s", device->status.message);
    }
    if (from != 0 && from == world->comm.rank)
        world->ops->send(world, 0, values, bytes);
    if (!is_first(saving))
        return true;
    if (from != 0)
        world->ops->receive(world, from, values, bytes);
    return safetensors_append(saving->writer, values, tensor_count(block), status);
}

// In blocks of rows.
static bool save_values(const struct saving *saving, const struct parameter *p, struct status *status)
{
    struct tensor t = p->value;
    size_t from = rank_with(saving, p), rows = BLOCK_VALUES / t.cols ? BLOCK_VALUES / t.cols : 1;
    double *values = malloc((rows < t.rows ? rows : t.rows) * t.cols * sizeof *values);
    CHECK(values);
    bool ok = true, takes_part = is_first(saving) || from == saving->world->comm.rank;
    for (size_t first = 0; ok && takes_part && first < t.rows; first += rows)
        ok = save_block(saving, tensor_rows(t, first, t.rows - first < rows ? t.rows - first : rows), from, values,
                        status);
    free(values);
    return ok;
}

static bool save_unit(const struct saving *saving, size_t unit, bool factors, struct status *status)
{
    struct parameters parameters = unit_parameters(saving->model, unit);
    bool ok = true;
    unit_acquire(saving->model, unit);
    for (size_t i = 0; ok && i < parameters.count; i++)
        if (parameter_is_factor(&parameters.items[i]) == factors)
            ok = save_values(saving, &parameters.items[i], status);
    unit_release(saving->model, unit);
    return ok;
}

static bool create(const struct saving *saving, const char *path, bool factors, struct status *status)
{
    const struct model *model = saving->model;
    struct safetensors_item *items = calloc(model->parameter_count + 1, sizeof *items);
    CHECK(items);
    size_t count = 0;
    for (size_t i = 0; i < model->parameter_count; i++) {
        const struct parameter *p = &model->parameters[i];
        if (parameter_is_factor(p) == factors)
            items[count++] =
                (struct safetensors_item){.name = p->name,
                                          .dtype = model->device->ops->dtype,
                                          .rank = p->vector ? 1 : 2,
                                          .shape = {p->vector ? p->value.cols : p->value.rows, p->value.cols}};
    }
    bool ok = safetensors_create(saving->writer, path, items, count, status);
    free(items);
    return ok;
}

// LoRA's factors, or all else.
static bool save_weights(const char *folder, const char *name, struct model *model, bool factors,
                         const struct world *world, struct status *status)
{
    struct safetensors_writer writer;
    const struct saving saving = {model, world, &writer};
    char *path = folder_file(folder, name);
    bool ok = !is_first(&saving) || create(&saving, path, factors, status);
    for (size_t unit = 0; ok && unit < unit_count(model); unit++)
        ok = save_unit(&saving, unit, factors, status);
    unit_settle(model);
    if (is_first(&saving)) {
        ok = ok && safetensors_commit(&writer, status);
        safetensors_discard(&writer);
    }
    free(path);
    return ok;
}

static bool save_adapter_config(const char *folder, const char *base, const struct lora *lora,
                                struct status *status)
{
    json_t *targets = json_array();
    for (size_t i = 0; i < LORA_TARGETS; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s_proj", lora_target_names[i]);
        if (lora->targets & 1u << i)
            json_array_append_new(targets, json_string(name));
    }
    json_t *base_name = base ? json_string(base) : json_null();
    json_t *json =
        json_pack("{s:s, s:s, s:o, s:I, s:f, s:b, s:f, s:s, s:b, s:o}", "peft_type", "LORA", "task_type",
                  "CAUSAL_LM", "base_model_name_or_path", base_name ? base_name : json_null(), "r",
                  (json_int_t)lora->rank, "lora_alpha", lora->alpha, "use_rslora", lora->rslora, "lora_dropout",
                  0.0, "bias", "none", "inference_mode", true, "target_modules", targets);
    char *text = json_dumps(json, JSON_INDENT(2)), *path = folder_file(folder, FOLDER_ADAPTER_CONFIG);
    CHECK(text);
    bool ok = output_file_write(path, text, strlen(text), status);
    free(path);
    free(text);
    json_decref(json);
    return ok;
}

// What describes the weights.
static bool save_configs(const char *folder, const struct model *model, const char *base, struct status *status)
{
    bool adapter = model->lora.rank > 0, weights = !adapter || model->lora_beside;
    return (!weights || folder_write_config(folder, &model->config, model->device->ops->dtype, status)) &&
           (!weights || !base || folder_take_along(folder, base, status)) &&
           (!adapter || save_adapter_config(folder, weights ? NULL : base, &model->lora, status));
}

bool folder_save(const char *folder, struct model *model, const char *base, const struct world *world,
                 struct status *status)
{
    bool adapter = model->lora.rank > 0, weights = !adapter || model->lora_beside;
    return (world->comm.rank > 0 || save_configs(folder, model, base, status)) &&
           (!weights || save_weights(folder, FOLDER_WEIGHTS, model, false, world, status)) &&
           (!adapter || save_weights(folder, FOLDER_ADAPTER, model, true, world, status));
}
