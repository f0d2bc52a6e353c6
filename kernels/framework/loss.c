#include "kernels/framework/autocast.h"
#include "kernels/framework/decoder.h"

static struct value head_of(const struct framework_run *run)
{
    return run->weights[run->model->head - run->model->parameters];
}

static struct value logits_of(struct framework_run *run, struct value hidden)
{
    struct tape *tape = &run->tape;
    enum dtype dtype = run->framework.head == HEAD_F32 ? DTYPE_F32 : hidden.dtype;
    struct value none = {0}, input = aten_to(tape, hidden, dtype, CATEGORY_ACTIVATIONS);
    struct value logits = autocast_linear(&run->autocast, tape, input, head_of(run), none, CATEGORY_LOGITS);
    tape_drop(tape, &input);
    if (run->model->config.logits_scale > 0)
        tape_rebind(tape, &logits, aten_mul_scalar(tape, logits));
    if (run->model->config.logit_cap > 0)
        aten_cap(tape, &logits);
    return logits;
}

// transformers' ForCausalLMLoss: log-softmax of all logits in f32. From 4.5x on the labels are shifted, before that
// the logits are.
static struct value whole_loss(struct framework_run *run, struct value *hidden, struct value *outputs)
{
    struct tape *tape = &run->tape;
    size_t batch = run->batch, tokens = run->context, rows = batch * tokens;
    bool shifts_logits = run->framework.version == TRANSFORMERS_4_46;
    struct value logits = logits_of(run, *hidden), wide = aten_to(tape, logits, DTYPE_F32, CATEGORY_LOGITS);
    struct value targets = tape_share(run->labels);
    if (shifts_logits) {
        rows -= batch;
        tape_rebind(tape, &wide, aten_rows(tape, wide, rows));
        if (batch > 1)
            tape_rebind(tape, &wide, aten_contiguous(tape, wide));
    } else {
        tape_rebind(tape, &targets, tape_new(tape, "constant_pad_nd", batch, tokens + 1, DTYPE_I64, CATEGORY_DATA));
    }
    struct value padded = tape_share(targets);
    if (batch > 1)
        tape_rebind(tape, &targets, tape_new(tape, "clone", rows, 1, DTYPE_I64, CATEGORY_DATA));
    struct value loss = aten_cross_entropy(tape, wide, targets);
    tape_drop(tape, &wide);
    tape_drop(tape, &padded);
    tape_drop(tape, &targets);
    *outputs = tape_detach(logits);
    tape_drop(tape, &logits);
    return loss;
}

static struct value chunk_loss(void *context, size_t index, struct value hidden)
{
    struct framework_run *run = context;
    struct tape *tape = &run->tape;
    (void)index;
    autocast_enter(&run->autocast);
    struct value logits = logits_of(run, hidden), wide = aten_to(tape, logits, DTYPE_F32, CATEGORY_LOGITS);
    tape_drop(tape, &logits);
    struct value loss = aten_cross_entropy(tape, wide, run->labels);
    tape_drop(tape, &wide);
    autocast_exit(&run->autocast, tape);
    return loss;
}

// Chunks of tokens, each under a checkpoint of its own.
static struct value chunked_loss(struct framework_run *run, struct value hidden)
{
    struct tape *tape = &run->tape;
    size_t rows = run->framework.loss_rows, count = (hidden.rows + rows - 1) / rows;
    struct value *parts = calloc(count, sizeof *parts), sum = {0};
    CHECK(parts);
    aten_split(tape, hidden, rows, parts);
    for (size_t i = 0; i < count; i++) {
        struct value loss = tape_checkpoint(tape, (struct checkpoint_call){chunk_loss, run, i, {{0}}}, parts[i]);
        struct value next = i ? aten_add(tape, sum, loss, CATEGORY_ACTIVATIONS) : aten_add_scalar(tape, loss);
        tape_rebind(tape, &sum, next);
        tape_drop(tape, &loss);
    }
    for (size_t i = 0; i < count; i++)
        tape_drop(tape, &parts[i]);
    free(parts);
    return sum;
}

// inputs: hidden states and the head's weight, whose gradients the forward has made.
static void fused_backward(struct tape *tape, struct node *node, struct value grad, struct value given[NODE_INPUTS])
{
    (void)tape, (void)grad;
    for (size_t i = 0; i < node->saved_count; i++) {
        given[i] = node->inputs[i];
        given[i].storage = node->saved[i].storage;
        given[i] = tape_share(given[i]);
    }
}

static size_t power_of_two(size_t n)
{
    size_t power = 1;
    while (power < n)
        power *= 2;
    return power;
}

static struct value scalar(struct tape *tape, const char *name, struct node *node)
{
    struct value value = tape_new(tape, name, 1, 1, DTYPE_F32, CATEGORY_ACTIVATIONS);
    value.node = node;
    return value;
}

// a b^T within a fused head, under autocast.
static struct value product(struct framework_run *run, struct value a, struct value b, enum category category)
{
    return autocast_linear(&run->autocast, &run->tape, a, b, (struct value){0}, category);
}

static struct value transposed(struct value x)
{
    size_t rows = x.rows;
    x.rows = x.cols;
    x.cols = rows;
    return x;
}

// *logits: of some tokens, which become their gradient, and from it the gradients of those tokens and of the head.
static void liger_chunk(struct framework_run *run, struct value hidden, struct value head, struct value *logits)
{
    struct tape *tape = &run->tape;
    struct value view = head;
    view.node = NULL;
    tape_rebind(tape, logits, product(run, hidden, view, CATEGORY_LOGITS));
    struct value part = product(run, *logits, transposed(head), CATEGORY_ACTIVATIONS);
    tape_drop(tape, &part);
    if (head.node) {
        part = product(run, transposed(*logits), transposed(hidden), CATEGORY_GRADIENTS);
        tape_drop(tape, &part);
    }
}

// Liger's fused head: gradients in the forward, by chunks that are as many as the vocabulary is wider than the
// model.
static struct value liger_loss(struct framework_run *run, struct value hidden)
{
    struct tape *tape = &run->tape;
    struct value head = head_of(run), inputs[] = {hidden, head};
    size_t n = hidden.rows, d = hidden.cols, vocab = head.rows, wider = (vocab + d - 1) / d;
    size_t rows = power_of_two((n + wider - 1) / wider);
    struct node *node = tape_record(tape, "liger", fused_backward, 2, inputs);
    struct value grad = tape_new(tape, "zeros_like", n, d, hidden.dtype, CATEGORY_ACTIVATIONS), of_head = {0};
    if (head.node)
        of_head = tape_new(tape, "zeros_like", vocab, d, head.dtype, CATEGORY_GRADIENTS);
    struct value losses = tape_new(tape, "zeros", n, 1, DTYPE_F32, CATEGORY_ACTIVATIONS), logits = {0};
    bool before = tape->no_grad;
    tape->no_grad = true;
    for (size_t start = 0; start < n; start += rows) {
        struct value chunk = hidden;
        chunk.rows = n - start < rows ? n - start : rows;
        liger_chunk(run, chunk, head, &logits);
    }
    tape->no_grad = before;
    tape_save(tape, node, grad);
    if (head.node)
        tape_save(tape, node, of_head);
    struct value loss = scalar(tape, "sum", node);
    tape_drop(tape, &logits);
    tape_drop(tape, &losses);
    tape_drop(tape, &of_head);
    tape_drop(tape, &grad);
    return loss;
}

// The head of TRL's, in tiles: sums of gradients in f32, rounded when they are whole.
#define TRL_ROWS 4096
#define TRL_COLS 32768

static struct value trl_tile(struct tape *tape, struct value hidden)
{
    size_t rows = hidden.rows < TRL_ROWS ? hidden.rows : TRL_ROWS;
    return tape_new(tape, "tile", rows, TRL_COLS, DTYPE_BF16, CATEGORY_LOGITS);
}

// Casts of what is in f32, by tiles: a name keeps each until the next one is there, of the weight's if `kept`.
static void trl_casts(struct tape *tape, struct value hidden, struct value weight, bool kept)
{
    struct value own_hidden = {0}, own_weight = {0};
    hidden.node = weight.node = NULL;
    for (size_t row = 0; row < hidden.rows; row += TRL_ROWS) {
        struct value part = hidden;
        part.rows = hidden.rows - row < TRL_ROWS ? hidden.rows - row : TRL_ROWS;
        tape_rebind(tape, &own_hidden, aten_to(tape, part, DTYPE_BF16, CATEGORY_ACTIVATIONS));
        for (size_t col = 0; col < weight.rows; col += TRL_COLS) {
            part = weight;
            part.rows = weight.rows - col < TRL_COLS ? weight.rows - col : TRL_COLS;
            tape_rebind(tape, &own_weight, aten_to(tape, part, DTYPE_BF16, CATEGORY_WEIGHTS));
            if (!kept)
                tape_drop(tape, &own_weight);
        }
    }
    tape_drop(tape, &own_weight);
    tape_drop(tape, &own_hidden);
}

static void trl_backward(struct tape *tape, struct node *node, struct value grad, struct value given[NODE_INPUTS])
{
    struct value wide[2] = {{0}};
    (void)grad;
    for (size_t i = 0; i < 2; i++)
        if (node_needs(node, i))
            wide[i] = tape_new(tape, "zeros", node->inputs[i].rows, node->inputs[i].cols, DTYPE_F32,
                               i ? CATEGORY_GRADIENTS : CATEGORY_ACTIVATIONS);
    struct value tile = trl_tile(tape, node->inputs[0]), read[2];
    for (size_t i = 0; i < 2; i++) {
        read[i] = node->inputs[i];
        read[i].storage = node->saved[i].storage;
    }
    trl_casts(tape, read[0], read[1], true);
    for (size_t i = 0; i < 2; i++)
        if (node_needs(node, i))
            given[i] = aten_to(tape, wide[i], node->inputs[i].dtype, wide[i].storage->category);
    tape_drop(tape, &tile);
    for (size_t i = 0; i < 2; i++)
        tape_drop(tape, &wide[i]);
}

static struct value trl_loss(struct framework_run *run, struct value hidden)
{
    struct tape *tape = &run->tape;
    struct value own = aten_contiguous(tape, hidden), inputs[] = {own, head_of(run)};
    struct node *node = tape_record(tape, "trl", trl_backward, 2, inputs);
    struct value of_rows[9];
    for (size_t i = 0; i < 7; i++)
        of_rows[i] = tape_new(tape, "zeros", hidden.rows, 1, DTYPE_F32, CATEGORY_ACTIVATIONS);
    struct value tile = trl_tile(tape, own);
    trl_casts(tape, own, inputs[1], false);
    for (size_t i = 7; i < 9; i++)
        of_rows[i] = tape_new(tape, "add", hidden.rows, 1, DTYPE_F32, CATEGORY_ACTIVATIONS);
    tape_save(tape, node, own);
    tape_save(tape, node, inputs[1]);
    tape_save(tape, node, run->labels);
    tape_save(tape, node, of_rows[7]);
    tape_save(tape, node, of_rows[8]);
    struct value losses = tape_new(tape, "sub", hidden.rows, 1, DTYPE_F32, CATEGORY_ACTIVATIONS);
    tape_drop(tape, &tile);
    for (size_t i = 0; i < 9; i++)
        tape_drop(tape, &of_rows[i]);
    struct value loss = scalar(tape, "sum", node);
    tape_drop(tape, &losses);
    tape_drop(tape, &own);
    return loss;
}

struct value decoder_loss(struct framework_run *run, struct value *hidden, struct value *outputs)
{
    struct value loss = run->framework.loss == LOSS_CHUNKED ? chunked_loss(run, *hidden)
                        : run->framework.loss == LOSS_LIGER ? liger_loss(run, *hidden)
                        : run->framework.loss == LOSS_TRL   ? trl_loss(run, *hidden)
                                                            : whole_loss(run, hidden, outputs);
    tape_drop(&run->tape, hidden);
    return loss;
}
