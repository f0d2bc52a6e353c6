#include "kernels/layers/cell.h"
#include "kernels/device/observer.h"
#include "kernels/layers/block_ends.h"
#include "kernels/layers/cell_memo.h"
#include "kernels/layers/choices.h"
#include "kernels/model/unit.h"
#include <string.h>

static void push_range(struct model *model, const char *name, size_t layer, size_t start)
{
    range_push(model->device, (struct range){.level = RANGE_CELL, .name = name, .layer = layer, .start = start});
}

static const struct mixer *mixer_of(const struct model *model, size_t layer)
{
    return config_mixer(&model->config, layer);
}

static struct cell_at whole_layer(struct model *model, const struct batch *batch, size_t layer)
{
    return (struct cell_at){.model = model, .batch = batch, .layer = layer, .chunk = {0, batch->context}};
}

bool cell_is_whole(const struct model *model, size_t layer)
{
    const struct mixer *mixer = mixer_of(model, layer);
    return model->ranks.sequence.size > 1 && mixer->sends && mixer->sends(model->ranks.exchange);
}

// Whether ranks communicate while its MLP runs: its cost is then not remembered, for a trace has what they send.
static bool mlp_sends(const struct model *model, size_t layer)
{
    return model_shares_experts(model) && config_mlp(&model->config, layer)->chooses;
}

static size_t choices_key(struct cell_at at)
{
    return at.choices.data ? 1 + at.chosen + 2 * (at.totals.data != NULL) + 4 * (at.repeats.data != NULL) : 0;
}

// Key of the cost of a part with the mixer. That of a state, unless there are documents, depends on the chunk's
// place only by whether there is one to its left.
static struct cell_key key_of(struct cell_at at, enum cell_part part, size_t rows, struct carry kv)
{
    struct token_run runs[PIECES] = {{0}};
    size_t row = at.chunk.start * at.batch->batch, c = kv.draw ? row / kv.border : 0;
    struct carry_gap gap = kv.draw ? carry_gap_at(kv, row) : (struct carry_gap){0};
    pieces_runs(&at.batch->pieces, at.chunk, runs);
    return (struct cell_key){.part = part,
                             .rows = rows,
                             .start = kv.border && !at.batch->documents ? runs[0].start > 0 : runs[0].start,
                             .count = runs[0].count,
                             .further_start = runs[1].start,
                             .further_count = runs[1].count,
                             .gap = gap.rows,
                             .gap_before = gap.rows && gap.start < row,
                             .gap_begins = gap.rows && gap.start == row,
                             .passage = kv.draw ? 1 + (size_t)kv.draw->passage : 0,
                             .moves_on = c && carry_states(kv.draw, c) == carry_states(kv.draw, c - 1),
                             .choices = choices_key(at),
                             .alike = at.model->layers[at.layer].alike,
                             .documents = at.batch->documents};
}

void kv_project(struct model *model, const struct batch *batch, size_t layer, struct span chunk, struct tensor x,
                struct carry kv, struct activations *cell, enum keep how)
{
    struct cell_at at = {.model = model, .batch = batch, .layer = layer, .chunk = chunk};
    struct activations none = {0}, *a = cell ? cell : &none;
    struct memo_use use;
    bool ahead = cell && (!model->device->unfused || kv.draw); // a state may move on in its place
    if (x.rows == 0)
        return;
    struct cell_key key = key_of(at, CELL_KV_PROJECT, x.rows, kv);
    key.start = kv.border ? key.start : 0;
    key.further_start = 0;
    key.has_output = kv.border && carry_rows(kv, chunk.start * (x.rows / chunk.count), x.rows).t[0].rows > 0;
    key.how = how;
    key.ahead = ahead;
    push_range(model, "kv_project", layer, chunk.start);
    if (!cell_memo_begin(model, &use, key, a)) {
        mixer_of(model, layer)->project(at, x, kv, a, how, ahead);
        cell_memo_end(model, &use, a);
    }
    range_pop(model->device);
}

size_t kv_block_rows(const struct model *model, size_t layer, size_t rows, size_t chunk_rows)
{
    return mixer_of(model, layer)->project_block ? block_rows(model, layer, rows) : chunk_rows;
}

void kv_project_block(struct model *model, const struct batch *batch, size_t layer, size_t row, struct tensor x,
                      struct carry kv)
{
    const struct mixer *mixer = mixer_of(model, layer);
    size_t B = batch->batch;
    if (!mixer->project_block) {
        kv_project(model, batch, layer, (struct span){row / B, x.rows / B}, x, kv, NULL, KEEP_NOTHING);
        return;
    }
    push_range(model, "kv_project", layer, row / B);
    const size_t key[] = {CELL_KV_PROJECT_BLOCK, x.rows, model->layers[layer].alike};
    struct memo_use use;
    if (!memo_begin(model->device, &use, key, sizeof key)) {
        mixer->project_block(model, layer, row, x, kv);
        memo_end(model->device, &use, key, sizeof key);
    }
    range_pop(model->device);
}

void kv_finish(struct model *model, const struct batch *batch, size_t layer, struct carry kv)
{
    const struct mixer *mixer = mixer_of(model, layer);
    if (batch->context == 0 || !mixer->finish)
        return;
    push_range(model, "kv_finish", layer, 0);
    mixer->finish(whole_layer(model, batch, layer), kv);
    range_pop(model->device);
}

void kv_project_backward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                         struct tensor x, struct carry grad_kv, struct tensor grad)
{
    if (x.rows == 0)
        return;
    grad_kv = carry_rows(grad_kv, chunk.start * (x.rows / chunk.count), x.rows);
    push_range(model, "kv_project_backward", layer, chunk.start);
    mixer_of(model, layer)
        ->project_backward((struct cell_at){.model = model, .batch = batch, .layer = layer, .chunk = chunk}, x,
                           grad_kv, grad);
    range_pop(model->device);
}

// Rows of what the mixer's last projection reads: the first output, or in scratch what the mixer makes of it, or
// its product with the gate.
static struct tensor output_rows(struct model *model, size_t layer, const struct kept *kept, struct tensor scratch,
                                 struct blocks b)
{
    const struct mixer *mixer = mixer_of(model, layer);
    struct tensor o = tensor_rows(kept->own[0], b.row, b.count);
    if (!scratch.data)
        return o;
    scratch = tensor_rows(scratch, 0, b.count);
    if (mixer->output)
        return mixer->output(model, layer, kept, b.row, scratch);
    op_gate_forward(model->device, scratch, o, tensor_rows(kept->gate, b.row, b.count));
    return scratch;
}

static bool makes_output(struct model *model, size_t layer, const struct kept *kept)
{
    return kept->gate.data || mixer_of(model, layer)->output;
}

// x_mid, which may be x.
static void output_forward(struct model *model, size_t layer, struct tensor x, struct tensor x_mid,
                           struct activations *a, bool keeping)
{
    struct device *device = model->device;
    const struct block *block = &model->layers[layer].mixer;
    struct kept *kept = &a->mixer;
    bool makes = makes_output(model, layer, kept);
    if (!block->out_norm && !makes) {
        block_output(model, block, kept, 0, tensor_none(), x_mid, x, kept->own[0]);
        return;
    }
    size_t n = x.rows, max = block_rows(model, layer, n);
    struct tensor normed = block->out_norm ? scratch(model, max, x.cols) : tensor_none();
    struct tensor made = makes ? scratch(model, max, kept->own[0].cols) : tensor_none();
    if (block->out_norm && x_mid.data != x.data)
        op_copy(device, x_mid, x);
    if (keeping)
        block_keep_output(model, block, kept, n);
    for (struct blocks b = blocks_of(device, n, max); blocks_next(&b);) {
        struct tensor y = tensor_rows(x_mid, b.row, b.count);
        block_output(model, block, kept, b.row, tensor_rows(normed, 0, b.count), y,
                     block->out_norm ? y : tensor_rows(x, b.row, b.count),
                     output_rows(model, layer, kept, made, b));
    }
    tensor_free(device, &made);
    tensor_free(device, &normed);
}

// The MLP's input.
static struct tensor mlp_input(const struct model *model, const struct activations *a)
{
    return model->config.parallel ? a->x : a->x_mid;
}

static const struct mlp *mlp_of(struct cell_at at)
{
    return config_mlp(&at.model->config, at.layer);
}

// The MLP goes first, because it reads x, whose place y may be.
static void parallel_forward(struct cell_at at, struct tensor x, struct tensor y, struct activations *a,
                             enum keep how)
{
    mlp_of(at)->forward(at, x, y, &a->mlp, how);
    if (y.data)
        output_forward(at.model, at.layer, y, y, a, false);
    if (how == KEEP_NOTHING)
        activations_free(at.model->device, a);
}

static void serial_forward(struct cell_at at, struct tensor x, struct tensor y, struct activations *a,
                           enum keep how)
{
    struct model *model = at.model;
    bool keeping = how != KEEP_NOTHING;
    // Nothing kept: x_mid is built where y will be, if it will.
    struct tensor routed = keeping || y.data ? tensor_none() : scratch(model, x.rows, x.cols);
    struct tensor x_mid = keeping ? activation(model, x.rows, model->config.width) : y.data ? y : routed;
    output_forward(model, at.layer, x, x_mid, a, keeping);
    if (keeping)
        a->x_mid = x_mid;
    else
        activations_free(model->device, a);
    mlp_of(at)->forward(at, x_mid, y, &a->mlp, how);
    tensor_free(model->device, &routed);
}

static void forward(struct cell_at at, struct tensor x, struct carry kv, struct tensor y, struct activations *a,
                    enum keep how)
{
    struct model *model = at.model;
    const struct parameter *scalar = model->layers[at.layer].scalar;
    mixer_of(model, at.layer)->forward(at, x, kv, a, how);
    (model->config.parallel ? parallel_forward : serial_forward)(at, x, y, a, how);
    if (scalar && y.data)
        op_scale_by(model->device, y, scalar->value);
}

void cell_forward(struct model *model, const struct batch *batch, size_t layer, struct span chunk, struct tensor x,
                  struct carry kv, struct tensor y, struct activations *a, enum keep how)
{
    struct cell_at at = {.model = model, .batch = batch, .layer = layer, .chunk = chunk};
    struct memo_use use = {0};
    if (x.rows == 0) {
        mixer_of(model, layer)->forward(at, tensor_none(), kv, a, how); // with the others
        return;
    }
    at = choices_at(at, x.rows / chunk.count, true);
    struct cell_key key = key_of(at, CELL_FORWARD, x.rows, kv);
    key.how = how;
    key.has_output = y.data != NULL;
    key.in_place = y.data == x.data;
    push_range(model, "cell_forward", layer, chunk.start);
    a->x = x;
    if (cell_is_whole(model, layer) || mlp_sends(model, layer) || !cell_memo_begin(model, &use, key, a)) {
        forward(at, x, kv, y, a, how);
        cell_memo_end(model, &use, a);
    }
    range_pop(model->device);
}

void cell_mix_forward(struct model *model, const struct batch *batch, size_t layer, struct tensor x,
                      struct carry kv, struct activations *a, enum keep how)
{
    a->x = x;
    push_range(model, "cell_mix_forward", layer, 0);
    mixer_of(model, layer)->forward(whole_layer(model, batch, layer), x, kv, a, how);
    range_pop(model->device);
}

struct activations cell_output_part(const struct model *model, size_t layer, const struct activations *whole,
                                    struct span chunk, size_t B)
{
    unsigned reads = 1 | mixer_of(model, layer)->output_reads;
    struct activations part = {.output = OUTPUT_WRITTEN};
    for (size_t i = 0; i < KEPT_OWN; i++) {
        struct tensor t = whole->mixer.own[i];
        size_t rows = whole->x.rows > 0 ? t.rows / whole->x.rows * B : 0; // of a token
        if (reads >> i & 1)
            part.mixer.own[i] = tensor_rows(t, chunk.start * rows, chunk.count * rows);
    }
    part.mixer.gate = tensor_rows(whole->mixer.gate, chunk.start * B, chunk.count * B);
    return part;
}

void cell_output_forward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                         struct tensor x, struct activations *a, enum keep how)
{
    struct cell_at at = {.model = model, .batch = batch, .layer = layer, .chunk = chunk};
    CHECK(a->output == OUTPUT_WRITTEN);
    if (x.rows == 0)
        return;
    push_range(model, "cell_output_forward", layer, chunk.start);
    a->x = x;
    if (!model->config.parallel) {
        a->x_mid = activation(model, x.rows, model->config.width);
        output_forward(model, layer, x, a->x_mid, a, true);
    }
    at = choices_at(at, x.rows / chunk.count, true);
    mlp_of(at)->forward(at, mlp_input(model, a), tensor_none(), &a->mlp, how);
    range_pop(model->device);
}

// grad: that of y, becomes that of x_mid; or of what the MLP gives of x, the rest of which is a->grad.
static void backward_mlp(struct cell_at at, struct activations *a, struct tensor grad)
{
    struct model *model = at.model;
    const struct parameter *scalar = model->layers[at.layer].scalar;
    if (scalar)
        op_scale_by(model->device, grad, scalar->value);
    if (model->config.parallel) {
        a->grad = scratch(model, grad.rows, grad.cols);
        op_copy(model->device, a->grad, grad);
    }
    mlp_of(at)->backward(at, mlp_input(model, a), &a->mlp, grad);
}

void cell_backward_mlp(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                       struct activations *a, struct tensor grad)
{
    struct cell_at at = {.model = model, .batch = batch, .layer = layer, .chunk = chunk};
    struct memo_use use = {0};
    if (grad.rows == 0)
        return;
    at = choices_at(at, grad.rows / chunk.count, false);
    const struct cell_key key = {.part = CELL_BACKWARD_MLP,
                                 .rows = grad.rows,
                                 .choices = choices_key(at),
                                 .training = unit_training(model, unit_of_layer(layer)),
                                 .alike = model->layers[layer].alike};
    push_range(model, "cell_backward_mlp", layer, chunk.start);
    unit_add(model, unit_of_layer(layer));
    if (mlp_sends(model, layer) || !cell_memo_begin(model, &use, key, a)) {
        backward_mlp(at, a, grad);
        cell_memo_end(model, &use, a);
    }
    range_pop(model->device);
}

// grad_output: that of the mixer's first output, from that of x_mid; and a gate becomes its gradient.
static void output_backward(struct model *model, size_t layer, struct tensor grad_output, struct activations *a,
                            struct tensor grad)
{
    struct device *device = model->device;
    const struct block *block = &model->layers[layer].mixer;
    struct kept *kept = &a->mixer;
    bool makes = makes_output(model, layer, kept) && (kept->gate.data || projection_trains(block->out));
    grad = model->config.parallel ? a->grad : grad;
    if (!block->out_norm && !makes) {
        projection_backward(model, block->out, grad_output, grad, kept->own[0]);
        return;
    }
    size_t n = grad.rows, max = block_rows(model, layer, n);
    struct tensor grad_out = block->out_norm ? scratch(model, max, grad.cols) : tensor_none();
    struct tensor made = makes ? scratch(model, max, grad_output.cols) : tensor_none();
    for (struct blocks b = blocks_of(device, n, max); blocks_next(&b);) {
        struct tensor grad_rows =
            block_output_gradient(model, block, kept, b.row, grad_out, tensor_rows(grad, b.row, b.count));
        struct tensor of_rows = tensor_rows(grad_output, b.row, b.count);
        projection_backward(model, block->out, of_rows, grad_rows, output_rows(model, layer, kept, made, b));
        if (kept->gate.data) {
            op_gate_backward(device, of_rows, tensor_rows(kept->gate, b.row, b.count), of_rows,
                             tensor_rows(kept->own[0], b.row, b.count));
        }
    }
    tensor_free(device, &made);
    tensor_free(device, &grad_out);
    tensor_free(device, &kept->out);
}

static void backward_mixer(struct cell_at at, struct activations *a, struct carry kv,
                           const struct carry_segment *segments, size_t segment_count, struct tensor grad)
{
    struct model *model = at.model;
    const struct mixer *mixer = mixer_of(model, at.layer);
    struct tensor grad_output = scratch(model, grad.rows, mixer->outputs(model, at.layer).cols[0]);
    output_backward(model, at.layer, grad_output, a, grad);
    mixer->backward(at, a, kv, segments, segment_count, grad_output, grad);
    activations_free(model->device, a);
    tensor_free(model->device, &grad_output);
}

void cell_output_backward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                          struct activations *a, struct tensor grad_output, struct tensor grad)
{
    cell_backward_mlp(model, batch, layer, chunk, a, grad);
    if (grad.rows > 0) {
        push_range(model, "cell_output_backward", layer, chunk.start);
        output_backward(model, layer, grad_output, a, grad);
        memset(a->mixer.own, 0, sizeof a->mixer.own); // the whole layer's, as its gate's gradient is
        a->mixer.gate = tensor_none();
        activations_free(model->device, a);
        range_pop(model->device);
    }
}

void cell_mix_backward(struct model *model, const struct batch *batch, size_t layer, struct activations *a,
                       struct carry kv, struct carry_segment segment, struct tensor grad_output, struct tensor grad)
{
    struct cell_at at = whole_layer(model, batch, layer);
    push_range(model, "cell_mix_backward", layer, 0);
    unit_add(model, unit_of_layer(layer));
    mixer_of(model, layer)->backward(at, a, kv, &segment, 1, grad_output, grad);
    activations_free(model->device, a);
    range_pop(model->device);
}

// The first segment's tokens before the chunk's end.
static size_t tokens_read(struct carry_segment segment, const struct cell_key *key)
{
    size_t end = key->further_count ? key->further_start + key->further_count : key->start + key->count;
    size_t count = end > segment.start ? end - segment.start : 0;
    return count < segment.count ? count : segment.count;
}

// grad: of cell_backward_mlp, becomes that of x, or is spent.
void cell_backward_mixer(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                         struct activations *a, struct carry kv, const struct carry_segment *segments,
                         size_t segment_count, struct tensor grad)
{
    struct cell_at at = {.model = model, .batch = batch, .layer = layer, .chunk = chunk};
    struct memo_use use = {0};
    if (grad.rows == 0) {
        unit_add(model, unit_of_layer(layer)); // a mixer's gradients can be of others' tokens
        mixer_of(model, layer)->backward(at, a, kv, segments, segment_count, tensor_none(), grad);
        activations_free(model->device, a);
        return;
    }
    struct cell_key key = key_of(at, CELL_BACKWARD_MIXER, grad.rows, kv);
    key.training = unit_training(model, unit_of_layer(layer));
    key.descends = model_descends(model, layer);
    key.segment_start = kv.border ? 0 : segments[0].start;
    key.segment_count = kv.border ? 0 : tokens_read(segments[0], &key);
    key.segment_dtype = segments[0].grad.t[0].dtype;
    key.scaled = segments[0].factor != 0 && segments[0].factor != 1;
    push_range(model, "cell_backward_mixer", layer, chunk.start);
    bool again = segment_count == 1 && !cell_is_whole(model, layer); // many have too many forms to come twice
    if (!again || !cell_memo_begin(model, &use, key, a)) {
        backward_mixer(at, a, kv, segments, segment_count, grad);
        cell_memo_end(model, &use, a);
    }
    range_pop(model->device);
}

void cell_backward(struct model *model, const struct batch *batch, size_t layer, struct span chunk,
                   struct activations *a, struct carry kv, const struct carry_segment *segments,
                   size_t segment_count, struct tensor grad)
{
    cell_backward_mlp(model, batch, layer, chunk, a, grad);
    cell_backward_mixer(model, batch, layer, chunk, a, kv, segments, segment_count, grad);
}
