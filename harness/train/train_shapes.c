#include "harness/train/train_shapes.h"
#include <string.h>

// Maximum number of micro-batches examined.
#define LOOKED_AT_MAX ((size_t)1 << 16)

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static int compare_sizes(size_t a, size_t b)
{
    return (a > b) - (a < b);
}

// Longest rows first, equal shapes adjacent, in the run's order.
static int by_shape(const void *left, const void *right)
{
    const struct train_shape *a = left, *b = right;
    int order = compare_sizes(b->layout.tokens, a->layout.tokens);
    order = order ? order : compare_sizes(a->layout.hash, b->layout.hash);
    order = order ? order : compare_sizes(a->evaluated, b->evaluated);
    order = order ? order : compare_sizes(a->adds_more, b->adds_more);
    return order ? order : compare_sizes(a->first, b->first);
}

static bool same_shape(const struct train_shape *a, const struct train_shape *b)
{
    return a->layout.tokens == b->layout.tokens && a->layout.hash == b->layout.hash &&
           a->evaluated == b->evaluated && a->adds_more == b->adds_more;
}

// Micro-batches that end a step, then the others, then evaluations, each in the run's order.
static int by_order(const void *left, const void *right)
{
    const struct train_shape *a = left, *b = right;
    int order = compare_sizes(a->evaluated, b->evaluated);
    order = order ? order : compare_sizes(a->adds_more, b->adds_more);
    return order ? order : compare_sizes(a->first, b->first);
}

// Micro-batch `number` of the run. Only with ranks, which sum at the step's end, does it matter whether others
// follow in its step.
static struct train_shape micro_batch(const struct trial *trial, struct train_data *data, size_t number)
{
    size_t parts = smaller(trial->train.accumulate, LOOKED_AT_MAX), batch = trial->batch;
    struct train_shape shape = {.adds_more = trial_ranks(trial) > 1 && (number + 1) % parts != 0,
                                .first = number * batch,
                                .count = batch,
                                .draw = number};
    if (data)
        shape.layout = train_data_layout(data, shape.first, batch);
    if (data && trial->method->draw)
        shape.layout.hash = number;
    return shape;
}

static struct train_shape evaluation(const struct trial *trial, struct train_data *held_out, size_t first,
                                     size_t evaluated)
{
    struct train_shape shape = {
        .evaluated = true, .first = first, .count = smaller(evaluated - first, trial->batch)};
    if (held_out)
        shape.layout = train_data_layout(held_out, first, shape.count);
    return shape;
}

static bool ends_step(const struct train_shape *shape)
{
    return !shape->evaluated && !shape->adds_more;
}

// Keeps one of each shape, in place.
static void leave_distinct(struct train_shapes *shapes)
{
    size_t distinct = 0, all = shapes->count, next = 0, ending = 0;
    struct train_shape *items = shapes->items;
    qsort(items, all, sizeof *items, by_shape);
    while (!ends_step(&items[ending]))
        ending++;
    for (struct train_shape longest = items[ending]; next < all; next++) {
        bool known = distinct && same_shape(&items[distinct - 1], &items[next]);
        if (!known && distinct == TRAIN_SHAPES_MAX) {
            items[distinct - 1] = ending < next ? items[distinct - 1] : longest;
            break;
        }
        if (!known)
            items[distinct++] = items[next];
    }
    shapes->count = distinct;
    shapes->unplanned += all - next;
}

void train_shapes_list(struct train_shapes *shapes, const struct trial *trial, struct train_data *data,
                       struct train_data *held_out, size_t evaluated)
{
    size_t parts = trial->train.accumulate, all = trial->train.steps * parts;
    size_t looked_at = data ? smaller(all, LOOKED_AT_MAX) : smaller(parts, 2);
    size_t evaluations = (evaluated + trial->batch - 1) / trial->batch;
    *shapes = (struct train_shapes){.items = calloc(looked_at + evaluations + 1, sizeof *shapes->items),
                                    .unplanned = data ? all - looked_at : 0};
    for (size_t i = 0; i < looked_at; i++)
        shapes->items[shapes->count++] = micro_batch(trial, data, data ? i : parts - 1 - i);
    for (size_t i = 0; i < evaluations; i++)
        shapes->items[shapes->count++] = evaluation(trial, held_out, i * trial->batch, evaluated);
    leave_distinct(shapes);
    qsort(shapes->items, shapes->count, sizeof *shapes->items, by_order);
}

void train_shapes_free(struct train_shapes *shapes)
{
    free(shapes->items);
    *shapes = (struct train_shapes){0};
}
