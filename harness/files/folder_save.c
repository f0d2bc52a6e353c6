#define _GNU_SOURCE // asprintf
#include "harness/files/folder.h"
#include "harness/files/safetensors.h"
#include "kernels/transformer/unit.h"
#include <jansson.h>
#include <string.h>

// Values on the host at a time, a few MiB of them.
#define BLOCK_VALUES ((size_t)1 << 19)

static char *path_of(const char *folder, const char *name)
{
    char *path;
    CHECK(asprintf(&path, "%s/%s", folder, name) > 0);
    return path;
}

// In blocks of rows.
static bool save_values(struct safetensors_writer *writer, struct device *device, struct tensor t,
                        struct status *status)
{
    size_t rows = BLOCK_VALUES / t.cols ? BLOCK_VALUES / t.cols : 1;
    double *values = malloc((rows < t.rows ? rows : t.rows) * t.cols * sizeof *values);
    CHECK(values);
    bool ok = true;
    for (size_t first = 0; ok && first < t.rows; first += rows) {
        struct tensor block = tensor_rows(t, first, t.rows - first < rows ? t.rows - first : rows);
        tensor_read(device, block, values);
        ok = device->status.code == STATUS_OK
                 ? safetensors_append(writer, values, tensor_count(block), status)
                 : status_set(status, device->status.code, "%s", device->status.message);
    }
    free(values);
    return ok;
}

static bool save_unit(struct safetensors_writer *writer, struct model *model, size_t unit, bool factors,
                      struct status *status)
{
    struct parameters parameters = unit_parameters(model, unit);
    bool ok = true;
    unit_acquire(model, unit);
    for (size_t i = 0; ok && i < parameters.count; i++)
        if (parameter_is_factor(&parameters.items[i]) == factors)
            ok = save_values(writer, model->device, parameters.items[i].value, status);
    unit_release(model, unit);
    return ok;
}

// LoRA's factors, or all else.
static bool save_weights(const char *folder, const char *name, struct model *model, bool factors,
                         struct status *status)
{
    char *path = path_of(folder, name);
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
    struct safetensors_writer writer;
    bool ok = safetensors_create(&writer, path, items, count, status);
    for (size_t unit = 0; ok && unit < unit_count(model); unit++)
        ok = save_unit(&writer, model, unit, factors, status);
    unit_settle(model);
    ok = ok && safetensors_commit(&writer, status);
    safetensors_discard(&writer);
    free(items);
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
    char *text = json_dumps(json, JSON_INDENT(2)), *path = path_of(folder, FOLDER_ADAPTER_CONFIG);
    CHECK(text);
    bool ok = output_file_write(path, text, strlen(text), status);
    free(path);
    free(text);
    json_decref(json);
    return ok;
}

bool folder_save(const char *folder, struct model *model, const char *base, struct status *status)
{
    bool adapter = model->lora.rank > 0, weights = !adapter || model->lora_beside;
    return (!weights || (folder_write_config(folder, &model->config, model->device->ops->dtype, status) &&
                         save_weights(folder, FOLDER_WEIGHTS, model, false, status))) &&
           (!adapter || (save_adapter_config(folder, weights ? NULL : base, &model->lora, status) &&
                         save_weights(folder, FOLDER_ADAPTER, model, true, status)));
}
