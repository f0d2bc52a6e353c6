#include "harness/tensors/gradients.h"
#include "harness/tensors/safetensors.h"

// Values held on the host at once: a few MiB.
#define BLOCK_VALUES ((size_t)1 << 19)

size_t parameter_file_rows(const struct parameter *p)
{
    return p->transposed ? p->value.cols : parameter_is_reordered(p) ? p->value.rows / p->experts : p->value.rows;
}

size_t parameter_file_index(const struct parameter *p, size_t i)
{
    size_t cols = p->value.cols, row = i / cols, col = i % cols, rows = parameter_file_rows(p);
    if (!parameter_is_reordered(p))
        return i;
    size_t of_expert = p->in_turn ? row_in_turn(row % rows, rows) : row % rows;
    return p->transposed ? col * p->value.rows + row : (of_expert * cols + col) * p->experts + row / rows;
}

static struct safetensors_item item_of(const struct model *model, const struct parameter *p)
{
    struct parameter whole = parameter_whole(p);
    size_t rows = parameter_file_rows(&whole);
    return safetensors_item(p->name, rows, p->size / rows, parameter_form(p),
                            model->gradient_dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32);
}

static bool write_values(struct safetensors_writer *writer, struct device *device, struct tensor t, double *block,
                         struct status *status)
{
    size_t rows = BLOCK_VALUES / t.cols;
    rows = rows ? rows : 1;
    for (size_t start = 0; start < t.rows; start += rows) {
        size_t count = t.rows - start < rows ? t.rows - start : rows;
        tensor_read(device, tensor_rows(t, start, count), block);
        if (!status_take(status, &device->status) || !safetensors_append(writer, block, count * t.cols, status))
            return false;
    }
    return true;
}

// Reorders all at once: such factors are small.
static bool write_reordered(struct safetensors_writer *writer, struct device *device, const struct parameter *p,
                            const double *given, struct status *status)
{
    size_t count = p->size;
    double *values = malloc(count * sizeof *values), *reordered = malloc(count * sizeof *reordered);
    if (!given)
        tensor_read(device, p->grad, values);
    for (size_t i = 0; i < count; i++)
        reordered[parameter_file_index(p, i)] = (given ? given : values)[i];
    bool ok = status_take(status, &device->status) && safetensors_append(writer, reordered, count, status);
    free(reordered);
    free(values);
    return ok;
}

bool gradients_write(const char *path, const struct model *model, const double *const *values,
                     struct status *status)
{
    if (!status_take(status, &model->device->status))
        return false;
    struct safetensors_item *items = calloc(model->parameter_count, sizeof *items);
    size_t count = 0, widest = 1;
    for (size_t i = 0; i < model->parameter_count; i++) {
        const struct parameter *p = &model->parameters[i];
        if (values ? values[i] != NULL : p->grad.data != NULL) {
            items[count++] = item_of(model, p);
            widest = p->value.cols > widest ? p->value.cols : widest;
        }
    }
    double *block = malloc((widest > BLOCK_VALUES ? widest : BLOCK_VALUES) * sizeof *block);
    struct safetensors_writer writer;
    bool ok = safetensors_create(&writer, path, items, count, status);
    for (size_t i = 0; ok && i < model->parameter_count; i++) {
        const struct parameter *p = &model->parameters[i], whole = parameter_whole(p);
        if (parameter_is_reordered(p) && (values ? values[i] != NULL : p->grad.data != NULL))
            ok = write_reordered(&writer, model->device, &whole, values ? values[i] : NULL, status);
        else if (values && values[i])
            ok = safetensors_append(&writer, values[i], p->size, status);
        else if (!values && p->grad.data)
            ok = write_values(&writer, model->device, p->grad, block, status);
    }
    ok = ok && safetensors_commit(&writer, status);
    safetensors_discard(&writer);
    free(block);
    free(items);
    return ok;
}
