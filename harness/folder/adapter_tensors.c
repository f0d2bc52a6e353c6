#include "harness/folder/adapter_tensors.h"
#include "harness/tensors/weight_names.h"
#include <string.h>

static struct adapter_tensor *find(struct adapter_tensors *tensors, const char *name)
{
    for (size_t i = tensors->count; i-- > 0;)
        if (strcmp(tensors->items[i].name, name) == 0)
            return &tensors->items[i];
    return NULL;
}

// Adds a factor of a projection to the tensor of the joined one's.
static void add_part(struct adapter_tensors *tensors, const struct parameter *p)
{
    char name[sizeof tensors->items->name];
    const char *at = strstr(p->name, p->module);
    snprintf(name, sizeof name, "%.*s%s%s", (int)(at - p->name), p->name, p->joined, at + strlen(p->module));
    struct adapter_tensor *tensor = find(tensors, name);
    if (!tensor) {
        tensor = &tensors->items[tensors->count++];
        memcpy(tensor->name, name, sizeof name);
        tensor->rows = p->factor == FACTOR_A ? 0 : p->joined_rows;
        tensor->cols = p->factor == FACTOR_A ? p->value.cols : 0;
    }
    CHECK(tensor->count < ADAPTER_PIECES);
    struct adapter_piece *piece = &tensor->pieces[tensor->count++];
    *piece = (struct adapter_piece){.parameter = p, .row = p->factor == FACTOR_A ? tensor->rows : p->joined_row};
    if (p->factor == FACTOR_A) {
        tensor->rows += p->value.rows;
    } else {
        piece->col = tensor->cols;
        tensor->cols += p->value.cols;
    }
}

void adapter_name_within(char *text, size_t bytes, const struct config *config, const char *submodule,
                         const char *name)
{
    static const char shared[] = ".mlp.shared_expert";
    const char *at = config->experts.shared_gated ? NULL : strstr(name, shared);
    char own[sizeof((struct adapter_tensor *)0)->name];
    size_t end = at ? (size_t)(at - name) + sizeof shared - 1 : strlen(name);
    snprintf(own, sizeof own, "%.*s%s%s", (int)end, name, at ? "s" : "", name + end);
    weight_name_within(text, bytes, submodule, own);
}

// Sets the tensor's name within the whole model.
static void place(struct adapter_tensor *tensor, const struct config *config, const char *submodule)
{
    char own[sizeof tensor->name];
    size_t prefix = sizeof ADAPTER_PREFIX - 1;
    memcpy(own, tensor->name, sizeof own);
    adapter_name_within(tensor->name + prefix, sizeof tensor->name - prefix, config, submodule, own + prefix);
}

struct adapter_tensors adapter_tensors_of(const struct model *model, const char *submodule)
{
    struct adapter_tensors tensors = {.items = calloc(model->parameter_count + 1, sizeof *tensors.items)};
    for (size_t i = 0; i < model->parameter_count; i++) {
        const struct parameter *p = &model->parameters[i];
        if (model->config.fused && parameter_is_factor(p) && p->joined) {
            add_part(&tensors, p);
        } else if (parameter_is_factor(p) || p->saved) {
            struct adapter_tensor *tensor = &tensors.items[tensors.count++];
            snprintf(tensor->name, sizeof tensor->name, "%s%s", p->saved ? ADAPTER_PREFIX : "", p->name);
            struct parameter whole = parameter_whole(p);
            tensor->rows = parameter_file_rows(&whole);
            tensor->cols = p->size / tensor->rows;
            tensor->form = parameter_form(p);
            tensor->pieces[tensor->count++].parameter = p;
            if (p->saved && p == model->head &&
                p == model->embedding) { // PEFT stores a table that stays tied twice
                tensors.items[tensors.count] = *tensor;
                snprintf(tensors.items[tensors.count++].name, sizeof tensor->name, ADAPTER_PREFIX "lm_head.weight");
            }
        }
    }
    for (size_t i = 0; i < tensors.count; i++)
        place(&tensors.items[i], &model->config, submodule);
    return tensors;
}

size_t adapter_tensor_index(const struct adapter_tensor *tensor, const struct adapter_piece *piece, size_t i)
{
    const struct parameter whole = parameter_whole(piece->parameter), *p = &whole;
    if (parameter_is_reordered(p))
        return parameter_file_index(p, i);
    return (piece->row + i / p->value.cols) * tensor->cols + piece->col + i % p->value.cols;
}

bool adapter_tensor_is_plain(const struct adapter_tensor *tensor)
{
    struct parameter whole = parameter_whole(tensor->pieces[0].parameter);
    return tensor->count == 1 && !parameter_is_reordered(&whole) && tensor->cols == whole.value.cols &&
           tensor->rows == whole.value.rows;
}
