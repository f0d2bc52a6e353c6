#include "kernels/framework/attention.h"
#include "kernels/framework/autocast.h"

#define FLASH_HEAD_DIM 256 // at most; heads that are longer go to the efficient kernel, each with its own keys
#define MASK_MULTIPLE  8   // columns of a mask that the efficient kernel takes

static bool before_5(const struct framework_run *run)
{
    return run->framework.version != TRANSFORMERS_5_24;
}

bool attention_is_eager(const struct framework_run *run)
{
    return run->framework.attention == FRAMEWORK_EAGER;
}

// ---- tables

// The first kind of layers with equal positions.
static size_t table_of(const struct config *config, size_t kind)
{
    size_t first = 0;
    while (!config_has_kind(config, first) || !rope_is_same(&config->kinds[first], &config->kinds[kind]))
        first++;
    return first;
}

bool attention_has_table(const struct framework_run *run, size_t kind)
{
    const struct config *config = &run->model->config;
    return config_has_kind(config, kind) && table_of(config, kind) == kind;
}

// cos and sin of the positions; the rest goes at once.
static void make_positions(struct framework_run *run, size_t kind)
{
    struct tape *tape = &run->tape;
    struct framework_tables *tables = &run->tables[kind];
    size_t tokens = run->context, width = rope_rotary(&run->model->config.kinds[kind]);
    struct value angles = tape_new(tape, "cat", tokens, width, DTYPE_F32, CATEGORY_ACTIVATIONS);
    struct value wide[] = {tape_new(tape, "cos", tokens, width, DTYPE_F32, CATEGORY_ACTIVATIONS),
                           tape_new(tape, "sin", tokens, width, DTYPE_F32, CATEGORY_ACTIVATIONS)};
    tables->cos = aten_to(tape, wide[0], run->dtype, CATEGORY_ACTIVATIONS);
    tables->sin = aten_to(tape, wide[1], run->dtype, CATEGORY_ACTIVATIONS);
    tape_drop(tape, &angles);
    tape_drop(tape, &wide[0]);
    tape_drop(tape, &wide[1]);
}

// Booleans of `count` bytes.
static struct value booleans(struct tape *tape, const char *name, size_t count)
{
    return tape_new(tape, name, (count + 1) / 2, 1, DTYPE_BF16, CATEGORY_DATA);
}

static void and_with(struct tape *tape, struct value *mask, size_t count)
{
    tape_rebind(tape, mask, booleans(tape, "bitwise_and", count));
}

// A condition, and what holds with the mask before.
static void add_condition(struct tape *tape, struct value *mask, size_t count)
{
    struct value condition = booleans(tape, "le", count);
    and_with(tape, mask, count);
    tape_drop(tape, &condition);
}

// Which keys a query sees: those before it, within a window, of those that are not padded. Booleans.
static struct value visible_pairs(struct framework_run *run, const struct layer_kind *kind)
{
    struct tape *tape = &run->tape;
    size_t pairs = run->context * run->context;
    struct value mask = booleans(tape, "le", pairs);
    if (kind->window > 0) {
        and_with(tape, &mask, pairs);
        add_condition(tape, &mask, pairs);
    }
    if (run->framework.mask == MASK_PADDED) {
        and_with(tape, &mask, pairs);
        and_with(tape, &mask, run->batch * pairs);
    }
    return mask;
}

// scaled_dot_product_attention is told that it is causal, and needs a mask only for what is beyond that. Eager
// attention, and all before 4.5x, add numbers of the model's dtype.
static void make_mask(struct framework_run *run, size_t kind)
{
    struct tape *tape = &run->tape;
    size_t window = run->model->config.kinds[kind].window;
    bool seen = run->framework.mask == MASK_NONE && (window == 0 || run->context < window);
    bool numbers = run->framework.version == TRANSFORMERS_4_51 || run->framework.version == TRANSFORMERS_4_46;
    struct value *mask = &run->tables[kind].mask;
    *mask = (struct value){0};
    if (seen && !attention_is_eager(run))
        return;
    if (!numbers)
        *mask = visible_pairs(run, &run->model->config.kinds[kind]);
    if (numbers || attention_is_eager(run))
        tape_rebind(tape, mask,
                    tape_new(tape, "where", run->batch * run->context, run->context, run->dtype, CATEGORY_DATA));
}

void attention_make_tables(struct framework_run *run)
{
    const struct config *config = &run->model->config;
    run->positions = tape_new(&run->tape, "arange", run->context, 1, DTYPE_I64, CATEGORY_DATA);
    // transformers makes the mask of all keys before that of windows.
    for (size_t windows = 0; windows < 2; windows++)
        for (size_t kind = 0; kind < CONFIG_KINDS; kind++)
            if (config_has_kind(config, kind) && (config->kinds[kind].window > 0) == (windows > 0))
                make_mask(run, kind);
    for (size_t kind = 0; kind < CONFIG_KINDS; kind++) {
        if (attention_has_table(run, kind)) {
            make_positions(run, kind);
        } else if (config_has_kind(config, kind)) {
            const struct framework_tables *same = &run->tables[table_of(config, kind)];
            run->tables[kind].cos = tape_share(same->cos);
            run->tables[kind].sin = tape_share(same->sin);
        }
    }
}

void attention_end_tables(struct framework_run *run)
{
    struct value positions = run->positions;
    tape_drop(&run->tape, &positions);
    for (size_t kind = 0; kind < CONFIG_KINDS; kind++) {
        struct framework_tables tables = run->tables[kind];
        if (!config_has_kind(&run->model->config, kind))
            continue;
        tape_drop(&run->tape, &tables.cos);
        tape_drop(&run->tape, &tables.sin);
        tape_drop(&run->tape, &tables.mask);
    }
}

// ---- scaled_dot_product_attention

// The mask as the efficient kernel takes it: numbers in place of booleans, with rows of a multiple of columns.
static struct value kernel_mask(struct framework_run *run, struct value mask)
{
    struct tape *tape = &run->tape;
    size_t rows = run->batch * run->context, padded = run->context + MASK_MULTIPLE - run->context % MASK_MULTIPLE;
    bool numbers = run->framework.version == TRANSFORMERS_4_51 || run->framework.version == TRANSFORMERS_4_46;
    struct value taken = tape_share(mask);
    if (!mask.storage)
        return taken;
    if (!numbers)
        tape_rebind(tape, &taken, tape_new(tape, "where", rows, run->context, DTYPE_BF16, CATEGORY_DATA));
    if (run->context % MASK_MULTIPLE)
        tape_rebind(tape, &taken, tape_new(tape, "constant_pad_nd", rows, padded, DTYPE_BF16, CATEGORY_DATA));
    return taken;
}

// The keys or values of all heads, if they are repeated; 4.51 also copies into the heads' order.
static void spread(struct framework_run *run, struct value *x, size_t times, bool copied)
{
    struct tape *tape = &run->tape;
    tape_rebind(tape, x, aten_repeat(tape, *x, times, copied));
    if (run->framework.version == TRANSFORMERS_4_51 && (times == 1 || !copied))
        tape_rebind(tape, x, aten_contiguous(tape, *x));
}

// Before 5.x, and for kernels that do not take fewer of them, there are keys and values of all heads.
static struct value by_kernel(struct framework_run *run, const struct layer_kind *kind, struct value mask,
                              struct value q, struct value k, struct value v)
{
    struct tape *tape = &run->tape;
    size_t times = kind->heads / kind->kv_heads;
    bool longer = kind->head_dim > FLASH_HEAD_DIM, repeated = before_5(run) || mask.storage || longer;
    bool efficient = run->framework.attention == FRAMEWORK_EFFICIENT || mask.storage || longer;
    struct value query = tape_share(q), key = tape_share(k), values = tape_share(v);
    spread(run, &key, repeated ? times : 1, kind->kv_heads > 1);
    spread(run, &values, repeated ? times : 1, kind->kv_heads > 1);
    spread(run, &query, 1, false);
    struct autocast *autocast = &run->autocast;
    struct value of_mask = autocast_narrow(autocast, tape, mask);
    struct value of_values = autocast_narrow(autocast, tape, values);
    struct value of_key = autocast_narrow(autocast, tape, key);
    struct value of_query = autocast_narrow(autocast, tape, query);
    struct value taken = kernel_mask(run, of_mask);
    struct aten_attention how = {efficient ? ATEN_EFFICIENT : ATEN_FLASH, run->batch,    run->context, kind->heads,
                                 repeated ? kind->heads : kind->kv_heads, kind->head_dim};
    struct value out = aten_attention(tape, of_query, of_key, of_values, taken, how);
    struct value *const read[] = {&taken, &of_mask, &of_values, &of_key, &of_query};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        tape_drop(tape, read[i]);
    // With queries in the heads' order flash's output is in it, too, and o_proj takes a copy.
    if (run->framework.version == TRANSFORMERS_4_51 && !efficient)
        tape_rebind(tape, &out, aten_contiguous(tape, out));
    tape_drop(tape, &query);
    tape_drop(tape, &key);
    tape_drop(tape, &values);
    return out;
}

// ---- eager

// a b of each head. Several sequences of heads that are views of a projection are copied: b if it was not repeated,
// and a if it is strided.
static struct value matmul(struct framework_run *run, struct value a, bool strided, struct value b, bool copied,
                           size_t cols)
{
    struct tape *tape = &run->tape;
    struct value right = autocast_narrow(&run->autocast, tape, b), left = autocast_narrow(&run->autocast, tape, a);
    tape_rebind(tape, &left, aten_batched(tape, left, strided ? run->batch : 1));
    if (!copied)
        tape_rebind(tape, &right, aten_batched(tape, right, run->batch));
    struct value product = aten_bmm(tape, left, right, cols);
    tape_drop(tape, &left);
    tape_drop(tape, &right);
    return product;
}

// softmax(q k^T scale + mask) v, with the softmax in f32.
static struct value by_pairs(struct framework_run *run, const struct layer_kind *kind, struct value mask,
                             struct value q, struct value k, struct value v, struct value *weights)
{
    struct tape *tape = &run->tape;
    size_t times = kind->heads / kind->kv_heads;
    bool copied = times > 1 && kind->kv_heads > 1;
    struct value key = aten_repeat(tape, k, times, copied), values = aten_repeat(tape, v, times, copied);
    struct value scores = matmul(run, q, true, key, copied, run->context);
    tape_rebind(tape, &scores, aten_mul_scalar(tape, scores));
    if (kind->cap > 0)
        aten_cap(tape, &scores);
    tape_rebind(tape, &scores, aten_add(tape, scores, mask, CATEGORY_ACTIVATIONS));
    struct value wide = aten_to(tape, scores, DTYPE_F32, CATEGORY_ACTIVATIONS);
    tape_rebind(tape, &wide, aten_softmax(tape, wide));
    *weights = aten_to(tape, wide, q.dtype, CATEGORY_ACTIVATIONS);
    tape_drop(tape, &wide);
    tape_drop(tape, &scores);
    struct value product = matmul(run, *weights, false, values, copied, kind->head_dim);
    tape_rebind(tape, &product, aten_by_heads(tape, product, run->batch));
    struct value out = aten_contiguous(tape, product);
    tape_drop(tape, &product);
    tape_drop(tape, &key);
    tape_drop(tape, &values);
    out.rows = run->batch * run->context;
    out.cols = kind->heads * kind->head_dim;
    return out;
}

struct value attention_forward(struct framework_run *run, size_t l, struct value *q, struct value *k,
                               struct value *v, struct value *weights)
{
    struct tape *tape = &run->tape;
    const struct config *config = &run->model->config;
    const struct layer_kind *kind = config_kind(config, l);
    const struct framework_tables *tables = &run->tables[kind - config->kinds];
    struct value turned_q = aten_rotate(tape, *q, tables->cos, tables->sin);
    struct value turned_k = aten_rotate(tape, *k, tables->cos, tables->sin);
    tape_rebind(tape, q, turned_q);
    tape_rebind(tape, k, turned_k);
    *weights = (struct value){0};
    return attention_is_eager(run) ? by_pairs(run, kind, tables->mask, *q, *k, *v, weights)
                                   : by_kernel(run, kind, tables->mask, *q, *k, *v);
}
