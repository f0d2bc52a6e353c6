#define _GNU_SOURCE // asprintf
#include "harness/folder/fused_weights.h"
#include <stdlib.h>
#include <string.h>

#define PARTS_MAX 3

static const struct fused_weight {
    const char *name, *parts[PARTS_MAX + 1];
} fused_weights[] = {
    {".qkv_proj.weight", {".q_proj.weight", ".k_proj.weight", ".v_proj.weight"}},
    {".gate_up_proj.weight", {".gate_proj.weight", ".up_proj.weight"}},
    {0},
};

// NULL: a tensor of its own.
static const struct fused_weight *fused_as(const char *name)
{
    const struct fused_weight *fused = fused_weights;
    size_t bytes = strlen(name);
    while (fused->name &&
           (bytes < strlen(fused->name) || strcmp(name + bytes - strlen(fused->name), fused->name) != 0))
        fused++;
    return fused->name ? fused : NULL;
}

// "model.layers.0.self_attn" and ".q_proj.weight", to be freed.
static char *part_name(const struct safetensors_tensor *whole, const struct fused_weight *fused, size_t part)
{
    char *name;
    int kept = (int)(strlen(whole->name) - strlen(fused->name));
    CHECK(asprintf(&name, "%.*s%s", kept, whole->name, fused->parts[part]) >= 0);
    return name;
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

// The first part takes the whole's place, the others come last.
static bool split(struct safetensors *file, size_t at, const struct fused_weight *fused, const struct model *model,
                  struct status *status)
{
    const struct safetensors_tensor whole = file->tensors[at];
    const struct parameter *parameters[PARTS_MAX];
    char *names[PARTS_MAX];
    size_t count = 0, rows = 0, known = 0;
    for (; fused->parts[count]; count++) {
        names[count] = part_name(&whole, fused, count);
        parameters[count] = model_parameter(model, names[count]);
        known += parameters[count] != NULL;
        rows += parameters[count] ? parameters[count]->value.rows : 0;
    }
    bool fits = whole.rank == 2 && whole.shape[0] == rows;
    if (known < count || !fits) {
        for (size_t i = 0; i < count; i++)
            free(names[i]);
        return known < count || // it is told of as a tensor that nobody expects
               status_set(status, STATUS_BAD_INPUT, "%s: tensor %.200s: expected a matrix of %zu rows", file->path,
                          whole.name, rows);
    }
    file->tensors = realloc(file->tensors, (file->count + count - 1) * sizeof *file->tensors);
    for (size_t i = 0, row = 0; i < count; row += parameters[i++]->value.rows)
        file->tensors[i ? file->count + i - 1 : at] = part_of(&whole, names[i], row, parameters[i]->value.rows);
    file->count += count - 1;
    free(whole.name);
    return true;
}

bool fused_weights_split(struct safetensors *file, const struct model *model, struct status *status)
{
    bool fine = true;
    for (size_t i = 0, count = file->count; fine && i < count; i++) {
        const struct fused_weight *fused = fused_as(file->tensors[i].name);
        fine = !fused || split(file, i, fused, model, status);
    }
    safetensors_sort(file);
    return fine;
}
