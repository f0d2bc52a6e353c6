#include "kernels/framework/shares.h"
#include "kernels/model/unit_parameters.h"

// Elements of DeepSpeed's reduce_bucket_size.
#define REDUCE_BUCKET 500000000

static bool divides(const struct framework_run *run, enum framework_shards from)
{
    return run->framework.shards >= (int)from;
}

struct value shares_new(struct framework_run *run, enum framework_shards from, const char *name, size_t rows,
                        size_t cols, enum dtype dtype, enum category category)
{
    if (!divides(run, from))
        return tape_new(&run->tape, name, rows, cols, dtype, category);
    struct value share =
        tape_new(&run->tape, name, tape_divided(rows * cols, run->framework.ranks), 1, dtype, category);
    share.rows = rows;
    share.cols = cols;
    return share;
}

static struct value bytes_new(struct framework_run *run, const char *name, size_t bytes, enum category category)
{
    return tape_new(&run->tape, name, bytes, 1, DTYPE_U8, category);
}

// ---- weights

static size_t whole_bytes(const struct framework_run *run, size_t unit)
{
    const struct model *model = run->model;
    struct parameters parameters = unit_parameters(model, unit);
    size_t first = (size_t)(parameters.items - model->parameters), bytes = 0;
    for (size_t i = first; i < first + parameters.count; i++)
        bytes += run->weights[i].rows * run->weights[i].cols * dtype_bytes(run->weights[i].dtype);
    bool tied = unit == unit_of_head(model) && model->config.tied;
    return tied ? bytes + whole_bytes(run, UNIT_EMBEDDING) : bytes;
}

static void gather(struct framework_run *run, size_t unit)
{
    tape_drop(&run->tape, &run->gathered);
    run->gathered = bytes_new(run, "all_gather", whole_bytes(run, unit), CATEGORY_WEIGHTS);
}

static void gather_backward(struct tape *tape, struct node *node, struct value grad,
                            struct value given[NODE_INPUTS])
{
    (void)tape;
    gather(node->call.context, node->call.index);
    given[0] = tape_share(grad);
}

static void release_backward(struct tape *tape, struct node *node, struct value grad,
                             struct value given[NODE_INPUTS])
{
    struct framework_run *run = node->call.context;
    tape_drop(tape, &run->gathered);
    given[0] = tape_share(grad);
}

// Has backward pass the value's gradient through a node.
static void hook(struct framework_run *run, const char *name, node_backward *backward, size_t unit,
                 struct value *value)
{
    struct node *node = value ? tape_record(&run->tape, name, backward, 1, value) : NULL;
    if (!node)
        return;
    node->call = (struct checkpoint_call){.context = run, .index = unit};
    value->node = node;
}

void shares_gather(struct framework_run *run, size_t unit, struct value *x)
{
    if (!divides(run, SHARDS_ALL))
        return;
    gather(run, unit);
    hook(run, "post_backward", release_backward, unit, x);
}

void shares_release(struct framework_run *run, size_t unit, struct value *y)
{
    if (!divides(run, SHARDS_ALL))
        return;
    tape_drop(&run->tape, &run->gathered);
    hook(run, "pre_backward", gather_backward, unit, y);
}

// ---- gradients

// Bytes of at most this many elements of the gradients, in the widest dtype if that is not all of them.
static size_t gradient_bytes(const struct framework_run *run, size_t most)
{
    size_t elements = 0, bytes = 0, widest = 0;
    for (size_t i = 0; i < run->model->parameter_count; i++) {
        const struct value *weight = &run->weights[i];
        size_t each = weight->node ? dtype_bytes(weight->dtype) : 0, count = each ? weight->rows * weight->cols : 0;
        elements += count;
        bytes += count * each;
        widest = each > widest ? each : widest;
    }
    return elements > most ? most * widest : bytes;
}

void shares_open_buckets(struct framework_run *run)
{
    if (run->framework.ranks > 1 && !divides(run, SHARDS_STATES))
        run->bucket = bytes_new(run, "bucket", gradient_bytes(run, SIZE_MAX), CATEGORY_GRADIENTS);
}

void shares_open_reduce_bucket(struct framework_run *run)
{
    if (divides(run, SHARDS_GRADIENTS))
        run->bucket = bytes_new(run, "bucket", gradient_bytes(run, REDUCE_BUCKET), CATEGORY_GRADIENTS);
}

void shares_close_reduce_bucket(struct framework_run *run)
{
    if (divides(run, SHARDS_GRADIENTS))
        tape_drop(&run->tape, &run->bucket);
}
