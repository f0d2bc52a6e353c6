#include "harness/folder/expert_weights.h"
#include "harness/folder/folder_family.h"
#include "harness/tensors/gradients.h"
#include "harness/text/text.h"
#include <math.h>
#include <string.h>

// --- names

#define LAYERS "model.layers."

// Names of files within a layer, and those of parameters.
static const struct {
    const char *file, *own;
} renamed[] = {
    {"block_sparse_moe.", "mlp."},
    {"mlp.router.layer.", "mlp.gate."},
    {"mlp.router.", "mlp.gate."},
    {"mlp.moe_statics.", "mlp.gate."},
    {"mlp.e_score_correction_bias", "mlp.gate.e_score_correction_bias"},
    {"mlp.shared_experts.", "mlp.shared_expert."},
    {"mlp.input_linear.weight", "mlp.experts.gate_up_proj"},
    {"mlp.output_linear.weight", "mlp.experts.down_proj"},
};

// The name behind the layer's number; NULL: it is no layer's.
static const char *within_layer(const char *name, size_t *layer)
{
    size_t start = sizeof LAYERS - 1;
    char *end = NULL;
    if (strncmp(name, LAYERS, start) != 0 || name[start] < '0' || name[start] > '9')
        return NULL;
    *layer = strtoull(name + start, &end, 10);
    return *end == '.' ? end + 1 : NULL;
}

// The parameter's name for that of a file, to be freed.
static char *own_name(const char *name)
{
    char *own = text_new("%s", name);
    for (size_t i = 0, layer = 0; i < sizeof renamed / sizeof *renamed; i++) {
        const char *rest = within_layer(own, &layer);
        size_t bytes = strlen(renamed[i].file);
        if (rest && strncmp(rest, renamed[i].file, bytes) == 0) {
            char *other = text_new(LAYERS "%zu.%s%s", layer, renamed[i].own, rest + bytes);
            free(own);
            own = other;
        }
    }
    return own;
}

// Parameters of a layer that files may have otherwise.
enum slot { GATE_UP, DOWN, GATE_UP_BIAS, DOWN_BIAS, DELTA_QKV, DELTA_Z, DELTA_B, DELTA_A, SLOTS };
static const char *const slots[SLOTS] = {
    "mlp.experts.gate_up_proj",     "mlp.experts.down_proj",          "mlp.experts.gate_up_proj_bias",
    "mlp.experts.down_proj_bias",   "linear_attn.in_proj_qkv.weight", "linear_attn.in_proj_z.weight",
    "linear_attn.in_proj_b.weight", "linear_attn.in_proj_a.weight",
};

// An expert's projections: the slot, the place among the parts of the expert, and how many the expert has.
static const struct projection_name {
    const char *name, *short_name; // Mixtral's
    enum slot slot;
    size_t part, parts;
} projections[] = {{"gate_proj.weight", "w1.weight", GATE_UP, 0, 2},
                   {"up_proj.weight", "w3.weight", GATE_UP, 1, 2},
                   {"down_proj.weight", "w2.weight", DOWN, 0, 1}};
#define PROJECTIONS (sizeof projections / sizeof *projections)

// --- taking tensors

#define UNQUANTISED "give the folder of the weights in bf16 or f32 that they were made from"

struct taking {
    struct expert_weights *weights;
    const struct model *model;
    const struct safetensors *file;
    struct status *status;
};

// A tensor of bytes, or of numbers that are read, of this shape.
static bool check_part(const struct taking *taking, const struct safetensors_tensor *t, bool bytes, size_t rank,
                       const size_t *shape)
{
    char expected[100], found[200];
    if (bytes ? strcmp(t->dtype_name, "U8") != 0 : !t->readable)
        return status_set(taking->status, STATUS_UNSUPPORTED, "%s: tensor %s: expected %s, found %s; " UNQUANTISED,
                          taking->file->path, t->name, bytes ? "U8" : "F64, F32, BF16 or F16", t->dtype_name);
    if (t->rank == rank && memcmp(t->shape, shape, rank * sizeof *shape) == 0)
        return true;
    safetensors_shape_text(rank, shape, expected, sizeof expected);
    safetensors_shape_text(t->rank, t->shape, found, sizeof found);
    return status_set(taking->status, STATUS_BAD_INPUT, "%s: tensor %s: expected the shape %s, found %s",
                      taking->file->path, t->name, expected, found);
}

static struct expert_source *source_of(const struct expert_weights *weights, size_t layer, enum slot slot)
{
    struct expert_source *source = layer < weights->layers ? &weights->sources[layer * SLOTS + slot] : NULL;
    return source && source->parameter ? source : NULL;
}

// Moves a tensor to the source's part, of `count` ones. Other orders of the same parameter must not be there.
static bool put(const struct taking *taking, struct expert_source *source, enum expert_order order, size_t count,
                size_t part, struct safetensors_tensor *t)
{
    if (!source->parts) {
        source->parts = calloc(count, sizeof *source->parts);
        CHECK(source->parts);
        source->count = count;
        source->order = order;
    }
    if (source->count != count || source->order != order || source->parts[part].data)
        return status_set(taking->status, STATUS_BAD_INPUT, "%s: tensor %s: there are other values of it, too",
                          taking->file->path, t->name);
    source->parts[part] = *t;
    t->name = NULL;
    return true;
}

// Takes a projection of one expert, "mlp.experts.7.up_proj.weight". *taken: whether it is one.
static bool take_projection(const struct taking *taking, size_t layer, const char *rest,
                            struct safetensors_tensor *t, bool *taken)
{
    static const char experts[] = "mlp.experts.";
    struct expert_weights *weights = taking->weights;
    char *end = NULL;
    if (strncmp(rest, experts, sizeof experts - 1) != 0)
        return true;
    size_t expert = strtoull(rest + sizeof experts - 1, &end, 10);
    for (size_t i = 0; end > rest + sizeof experts - 1 && *end == '.' && i < PROJECTIONS; i++) {
        const struct projection_name *projection = &projections[i];
        bool is_short = strcmp(end + 1, projection->short_name) == 0;
        struct expert_source *source = source_of(weights, layer, projection->slot);
        if ((!is_short && strcmp(end + 1, projection->name) != 0) || !source || expert >= weights->experts)
            continue;
        const size_t shape[] = {source->rows / projection->parts, source->parameter->value.cols};
        weights->short_names = is_short;
        *taken = true;
        return check_part(taking, t, false, 2, shape) &&
               put(taking, source, ORDER_ROWS, weights->experts * projection->parts,
                   expert * projection->parts + projection->part, t);
    }
    return true;
}

// Takes a tensor of all experts. MXFP4: "_blocks" and "_scales", of 32 numbers along a row.
static bool take_whole(const struct taking *taking, size_t layer, const char *rest, struct safetensors_tensor *t,
                       bool *taken)
{
    static const char *const ends[] = {"", "_blocks", "_scales"};
    for (size_t i = 0; i < 3 * DELTA_QKV; i++) {
        enum slot slot = (enum slot)(i / 3);
        size_t bytes = strlen(slots[slot]), end = i % 3;
        struct expert_source *source = source_of(taking->weights, layer, slot);
        bool bias = slot == GATE_UP_BIAS || slot == DOWN_BIAS;
        if (!source || strncmp(rest, slots[slot], bytes) != 0 || strcmp(rest + bytes, ends[end]) != 0 ||
            (bias && end > 0))
            continue;
        size_t experts = taking->weights->experts, rows = source->rows, cols = source->parameter->value.cols;
        bool turned = source->in_turn || taking->model->config.experts.bias;
        const size_t whole[] = {experts, turned ? cols : rows, turned ? rows : cols}, of_bias[] = {experts, rows},
                     blocks[] = {experts, rows, (cols + 31) / 32, 16};
        *taken = true;
        if (end > 0)
            return check_part(taking, t, true, end == 1 ? 4 : 3, blocks) &&
                   put(taking, source, ORDER_MXFP4, 2, end - 1, t);
        return check_part(taking, t, false, bias ? 2 : 3, bias ? of_bias : whole) &&
               put(taking, source, bias || !turned ? ORDER_ROWS : ORDER_TRANSPOSED, 1, 0, t);
    }
    return true;
}

// `count` rows of the whole.
static struct safetensors_tensor rows_of(const struct safetensors_tensor *whole, size_t row, size_t count)
{
    struct safetensors_tensor part = *whole;
    size_t row_bytes = whole->bytes / whole->shape[0];
    part.name = NULL;
    part.shape[0] = count;
    part.count = count * whole->shape[1];
    part.data = whole->data + row * row_bytes;
    part.bytes = count * row_bytes;
    return part;
}

// Takes a tensor of several projections of Gated DeltaNet: for each head of keys, the rows of each of them.
static bool take_deltas(const struct taking *taking, size_t layer, const char *rest, struct safetensors_tensor *t,
                        bool *taken)
{
    bool states = strcmp(rest, "linear_attn.in_proj_qkvz.weight") == 0;
    struct expert_source *first = source_of(taking->weights, layer, states ? DELTA_QKV : DELTA_B),
                         *second = source_of(taking->weights, layer, states ? DELTA_Z : DELTA_A);
    if (!first || (!states && strcmp(rest, "linear_attn.in_proj_ba.weight") != 0))
        return true;
    const struct layer_kind *kind = config_kind(&taking->model->config, layer);
    size_t heads = kind->kv_heads, each = kind->heads / heads, values = each * kind->value_dim,
           pieces = states ? 4 : 2;
    const size_t rows_by[][4] = {{each, each}, {kind->head_dim, kind->head_dim, values, values}};
    const size_t *rows = rows_by[states], all = rows[0] + rows[1] + rows[2] + rows[3];
    const size_t shape[] = {heads * all, taking->model->config.width};
    *taken = true;
    if (!check_part(taking, t, false, 2, shape))
        return false;
    for (size_t i = 0, from = 0; i < pieces; from += rows[i++])
        for (size_t head = 0; head < heads; head++) {
            struct safetensors_tensor part = rows_of(t, head * all + from, rows[i]);
            bool last = i == pieces - 1;
            part.name = t->name;
            if (!put(taking, last ? second : first, ORDER_ROWS, last ? heads : (pieces - 1) * heads,
                     (last ? 0 : i * heads) + head, &part))
                return false;
            (last ? second : first)->parts[(last ? 0 : i * heads) + head].name = NULL;
        }
    free(t->name);
    t->name = NULL;
    return true;
}

// *t has no name afterwards if it was taken.
static bool take(const struct taking *taking, struct safetensors_tensor *t)
{
    size_t layer = 0;
    bool taken = false;
    char *own = own_name(t->name);
    const char *rest = within_layer(own, &layer);
    bool fine = !rest || take_projection(taking, layer, rest, t, &taken);
    fine = fine && (!rest || taken || take_whole(taking, layer, rest, t, &taken));
    fine = fine && (!rest || taken || take_deltas(taking, layer, rest, t, &taken));
    if (fine && !taken && model_parameter(taking->model, own)) {
        if (t->rank == 2 && t->shape[0] == 1 && strstr(own, ".e_score_correction_bias")) { // Ernie's
            t->rank = 1;
            t->shape[0] = t->shape[1];
        }
        free(t->name);
        t->name = own;
        own = NULL;
    }
    free(own);
    return fine;
}

static bool take_file(struct taking *taking, struct safetensors *file)
{
    size_t kept = 0;
    bool fine = true;
    taking->file = file;
    for (size_t i = 0; i < file->count; i++) {
        fine = fine && take(taking, &file->tensors[i]);
        if (file->tensors[i].name)
            file->tensors[kept++] = file->tensors[i];
    }
    file->count = kept;
    safetensors_sort(file);
    return fine;
}

static bool is_bias(enum slot slot)
{
    return slot == GATE_UP_BIAS || slot == DOWN_BIAS;
}

// The slot of a parameter's name within its layer, or SLOTS.
static enum slot slot_of(const char *rest)
{
    enum slot slot = 0;
    while (slot < SLOTS && (!rest || strcmp(rest, slots[slot]) != 0))
        slot++;
    return slot;
}

static void list_sources(struct expert_weights *weights, const struct model *model)
{
    for (size_t i = 0; i < model->parameter_count; i++) {
        const struct parameter *p = &model->parameters[i];
        size_t layer = 0, all = p->size;
        enum slot slot = slot_of(within_layer(p->name, &layer));
        if (slot < SLOTS)
            weights->sources[layer * SLOTS + slot] = (struct expert_source){
                .parameter = p,
                .rows = slot >= DELTA_QKV ? 0 : all / weights->experts / (is_bias(slot) ? 1 : p->value.cols),
                .in_turn = model->config.experts.bias && (slot == GATE_UP || slot == GATE_UP_BIAS)};
    }
}

bool expert_weights_take(struct expert_weights *weights, struct shards *shards, const struct model *model,
                         struct status *status)
{
    const struct config *c = &model->config;
    struct taking taking = {.weights = weights, .model = model, .status = status};
    bool fine = true;
    *weights = (struct expert_weights){
        .count = c->layers * SLOTS, .layers = c->layers, .experts = c->experts.routing.experts};
    weights->sources = calloc(weights->count, sizeof *weights->sources);
    CHECK(weights->sources);
    list_sources(weights, model);
    for (size_t i = 0; fine && i < shards->count; i++)
        fine = take_file(&taking, &shards->files[i]);
    return fine;
}

void expert_weights_close(struct expert_weights *weights)
{
    for (size_t i = 0; i < weights->count; i++) {
        for (size_t part = 0; part < weights->sources[i].count; part++)
            free(weights->sources[i].parts[part].name);
        free(weights->sources[i].parts);
    }
    free(weights->sources);
    *weights = (struct expert_weights){0};
}

const struct expert_source *expert_weights_find(const struct expert_weights *weights, const struct parameter *p)
{
    size_t layer = 0;
    const char *rest = within_layer(p->name, &layer);
    for (size_t slot = 0; rest && layer < weights->layers && slot < SLOTS; slot++) {
        const struct expert_source *source = &weights->sources[layer * SLOTS + slot];
        if (source->parameter == p && source->parts)
            return source;
    }
    return NULL;
}

void expert_weights_missing(const struct expert_weights *weights, const struct expert_source *source,
                            void (*add)(void *context, const char *name), void *context)
{
    size_t slot = (size_t)(source - weights->sources) % SLOTS, layer = (size_t)(source - weights->sources) / SLOTS;
    for (size_t part = 0; part < source->count; part++) {
        if (source->parts[part].data)
            continue;
        size_t each = source->count / weights->experts;
        const struct projection_name *projection = &projections[slot == DOWN ? 2 : part % 2];
        char *name = source->order == ORDER_MXFP4
                         ? text_new(LAYERS "%zu.%s%s", layer, slots[slot], part ? "_scales" : "_blocks")
                         : text_new(LAYERS "%zu.%s.experts.%zu.%s", layer,
                                    weights->short_names ? "block_sparse_moe" : "mlp", part / (each ? each : 1),
                                    weights->short_names ? projection->short_name : projection->name);
        add(context, name);
        free(name);
    }
}

// --- values

// Numbers of a row; the biases of all experts are one.
static size_t row_of(const struct expert_source *source)
{
    return parameter_whole(source->parameter).value.cols;
}

// A number of MXFP4 (OCP Microscaling Formats 1.0): a sign, two bits of exponent and one of fraction, times the
// power of 2 that 32 of them share.
static double mxfp4_value(const struct expert_source *source, size_t row, size_t col)
{
    static const double levels[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    size_t group = row * source->parts[1].shape[2] + col / 32;
    unsigned code = source->parts[0].data[group * 16 + col % 32 / 2] >> (col % 2 ? 4 : 0) & 15;
    double level = levels[code & 7];
    return ldexp(code & 8 ? -level : level, source->parts[1].data[group] - 127);
}

// Numbers [col, col + count) of a row.
static void row_values(const struct expert_source *source, size_t row, size_t col, size_t count, double *values)
{
    const struct safetensors_tensor *whole = &source->parts[0];
    size_t cols = row_of(source), rows = source->rows, expert = row / rows;
    size_t at = source->in_turn ? row_in_turn(row % rows, rows) : row % rows;
    if (source->order == ORDER_TRANSPOSED)
        safetensors_strided(whole, (expert * cols + col) * rows + at, rows, count, values);
    for (size_t i = 0; source->order == ORDER_MXFP4 && i < count; i++)
        values[i] = mxfp4_value(source, expert * rows + at, col + i);
    for (size_t i = col; source->order == ORDER_ROWS && i < col + count; i++) // biases of all experts
        safetensors_values(whole, i / rows * rows + row_in_turn(i % rows, rows), 1, &values[i - col]);
}

static void part_values(const struct expert_source *source, size_t start, size_t count, double *values)
{
    size_t part = 0;
    for (; count > 0; part++) {
        size_t own = source->parts[part].count, block = start < own ? own - start : 0;
        block = block < count ? block : count;
        if (block > 0)
            safetensors_values(&source->parts[part], start, block, values);
        start = start < own ? 0 : start - own;
        values += block;
        count -= block;
    }
}

void expert_source_values(const struct expert_source *source, size_t start, size_t count, double *values)
{
    size_t cols = row_of(source);
    if (source->order == ORDER_ROWS && !source->in_turn) {
        part_values(source, start, count, values);
        return;
    }
    for (size_t block; count > 0; start += block, values += block, count -= block) {
        block = cols - start % cols < count ? cols - start % cols : count;
        row_values(source, start / cols, start % cols, block, values);
    }
}

// --- writing

// How files name the tensors of a mixture: a parameter's name begins with `own`. The first that fits counts.
static const struct file_name {
    const char *own, *file;
} file_names[][5] = {
    [FILES_QWEN] = {{0}},
    [FILES_DEEPSEEK] = {{"mlp.shared_expert.", "mlp.shared_experts."}},
    [FILES_ERNIE] = {{"mlp.shared_expert.", "mlp.shared_experts."},
                     {"mlp.gate.e_score", "mlp.moe_statics.e_score"}},
    [FILES_MIXTRAL] = {{"mlp.experts.", "block_sparse_moe.experts."}, {"mlp.gate.", "block_sparse_moe.gate."}},
    [FILES_KIMI] = {{"mlp.experts.", "block_sparse_moe.experts."},
                    {"mlp.gate.", "block_sparse_moe.gate."},
                    {"mlp.shared_expert.", "block_sparse_moe.shared_experts."}},
    [FILES_MINIMAX] = {{"mlp.experts.", "block_sparse_moe.experts."},
                       {"mlp.gate.e_score", "block_sparse_moe.e_score"},
                       {"mlp.gate.", "block_sparse_moe.gate."}},
    [FILES_GRANITE] = {{"mlp.experts.gate_up_proj", "block_sparse_moe.input_linear.weight"},
                       {"mlp.experts.down_proj", "block_sparse_moe.output_linear.weight"},
                       {"mlp.gate.", "block_sparse_moe.router.layer."}},
    [FILES_GPT_OSS] = {{"mlp.gate.", "mlp.router."}},
};

static enum expert_files files_of(const struct config *config)
{
    const struct family *family = config->experts.routing.experts ? folder_family_of(config) : NULL;
    return family && family->mixture ? family->mixture->files : FILES_QWEN;
}

// The file's name for a parameter's, to be freed.
static char *name_in_file(enum expert_files files, const char *name)
{
    size_t layer = 0;
    const char *rest = within_layer(name, &layer);
    for (const struct file_name *own = file_names[files]; rest && own->own; own++) {
        size_t bytes = strlen(own->own);
        if (strncmp(rest, own->own, bytes) == 0)
            return text_new(LAYERS "%zu.%s%s", layer, own->file, rest + bytes);
    }
    return text_new("%s", name);
}

static void add_item(struct file_tensors *tensors, struct safetensors_item item)
{
    tensors->items = realloc(tensors->items, (tensors->count + 1) * sizeof *tensors->items);
    CHECK(tensors->items);
    tensors->items[tensors->count++] = item;
}

// A tensor for each projection of each expert, in the order of the parameter's rows.
static void add_projections(struct file_tensors *tensors, enum expert_files files, const struct parameter *p,
                            enum dtype dtype)
{
    bool down = strstr(p->name, slots[DOWN]) != NULL, short_names = files >= FILES_MIXTRAL;
    size_t parts = down ? 1 : 2, rows = p->value.rows / p->experts / parts;
    char *whole = name_in_file(files, p->name);
    int bytes = (int)(strrchr(whole, '.') - whole);
    for (size_t i = 0; i < p->experts * parts; i++) {
        const struct projection_name *projection = &projections[down ? 2 : i % 2];
        add_item(tensors, safetensors_item(text_new("%.*s.%zu.%s", bytes, whole, i / parts,
                                                    short_names ? projection->short_name : projection->name),
                                           rows, p->value.cols, SAFETENSORS_MATRIX, dtype));
    }
    free(whole);
}

void file_tensors_add(struct file_tensors *tensors, const struct config *config, const struct parameter *parameter,
                      enum dtype dtype)
{
    const struct parameter whole_parameter = parameter_whole(parameter), *p = &whole_parameter;
    enum expert_files files = files_of(config);
    bool whole = files == FILES_GRANITE || files == FILES_GPT_OSS;
    size_t layer = 0, rows = p->value.rows, cols = p->value.cols, experts = p->experts;
    if (experts > 0 && !whole) {
        add_projections(tensors, files, p, dtype);
        return;
    }
    struct safetensors_item item = safetensors_item(
        name_in_file(files, p->name), rows, cols,
        p->wide && files == FILES_ERNIE ? SAFETENSORS_MATRIX : parameter_form(p), parameter_dtype(p, dtype));
    if (experts > 0) {
        bool turned = files == FILES_GPT_OSS;
        item.rank = 3;
        item.shape[0] = experts;
        item.shape[1] = turned ? cols : rows / experts;
        item.shape[2] = turned ? rows / experts : cols;
    } else if (is_bias(slot_of(within_layer(p->name, &layer)))) {
        item.rank = 2;
        item.shape[0] = config->experts.routing.experts;
        item.shape[1] = cols / config->experts.routing.experts;
    }
    add_item(tensors, item);
}

void file_tensors_free(struct file_tensors *tensors)
{
    for (size_t i = 0; i < tensors->count; i++)
        free((char *)tensors->items[i].name);
    free(tensors->items);
    *tensors = (struct file_tensors){0};
}

size_t file_order_rows(const struct config *config, const struct parameter *p)
{
    size_t layer = 0;
    enum slot slot = slot_of(within_layer(p->name, &layer));
    if (slot == GATE_UP_BIAS)
        return 1;
    bool matrices = slot == GATE_UP || slot == DOWN;
    return matrices && files_of(config) == FILES_GPT_OSS ? p->value.rows / p->experts : 0;
}

void file_order(const struct config *config, const struct parameter *p, const double *values, double *ordered)
{
    size_t layer = 0, experts = config->experts.routing.experts;
    enum slot slot = slot_of(within_layer(p->name, &layer));
    bool bias = slot == GATE_UP_BIAS;
    size_t cols = p->value.cols, rows = p->size / experts / (bias ? 1 : cols);
    for (size_t i = 0; bias && i < cols; i++)
        ordered[i / rows * rows + row_in_turn(i % rows, rows)] = values[i];
    for (size_t row = 0; !bias && row < rows; row++) {
        size_t at = slot == GATE_UP ? row_in_turn(row, rows) : row;
        for (size_t col = 0; col < cols; col++)
            ordered[col * rows + at] = values[row * cols + col];
    }
}
