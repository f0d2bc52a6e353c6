#include "methods/schedule/stages.h"
#include <stdlib.h>
#include <string.h>

bool stages_check(const struct stage_options *options, size_t layers, struct status *status)
{
    const struct index_list *rows = &options->rows;
    if (rows->count && options->count > 1) {
        return status_set(status, STATUS_BAD_INPUT, "stages and stage_rows say the same; give one of them");
    }
    if (rows->count && rows->items[0] != 0) {
        return status_set(status, STATUS_BAD_INPUT, "the first of stage_rows is 0, the lowest layer; found %u",
                          rows->items[0]);
    }
    for (size_t i = 0; i < rows->count; i++) {
        if (rows->items[i] >= layers) {
            return status_set(status, STATUS_UNSUPPORTED, "stage_rows: there is no layer %u, they are 0 to %zu",
                              rows->items[i], layers - 1);
        }
        if (i > 0 && rows->items[i] <= rows->items[i - 1]) {
            return status_set(status, STATUS_BAD_INPUT,
                              "stage_rows: %u comes after %u; give them in order, each once", rows->items[i],
                              rows->items[i - 1]);
        }
    }
    if (options->count > layers) {
        return status_set(status, STATUS_UNSUPPORTED, "%zu stages are more than the model's %zu layers",
                          options->count, layers);
    }
    return true;
}

// By the stage below `above` others, of so many, with so many rows.
static double kept(size_t count, size_t above, size_t rows, struct stage_cost cost)
{
    return (double)(count - 1 - above) * cost.input + (double)rows * cost.row + (above ? cost.below : cost.top) +
           (rows > 1 ? cost.several : 0);
}

// Row by row to the stage that keeps least with one more: what the fullest then keeps is the least possible.
static double least_kept(size_t count, size_t layers, struct stage_cost cost)
{
    size_t *rows = calloc(count, sizeof *rows);
    double most = 0;
    CHECK(rows);
    for (size_t l = 0; l < layers; l++) {
        size_t best = l; // each has one at least
        for (size_t above = 0; l >= count && above < count; above++) {
            best = above == 0 || kept(count, above, rows[above] + 1, cost) < kept(count, best, rows[best] + 1, cost)
                       ? above
                       : best;
        }
        double now = kept(count, best, ++rows[best], cost);
        most = now > most ? now : most;
    }
    free(rows);
    return most;
}

struct stages stages_of(const struct stage_options *options, size_t layers, struct stage_cost cost)
{
    const struct index_list *rows = &options->rows;
    size_t count = rows->count ? rows->count : options->count ? options->count : 1, end = layers;
    struct stages stages = {count, calloc(count, sizeof *stages.items)};
    CHECK(stages.items && count <= layers);
    double most = rows->count ? 0 : least_kept(count, layers, cost);
    for (size_t i = count; i-- > 0;) {
        size_t first = end - 1;
        if (rows->count) {
            first = rows->items[i];
        }
        // One row at least for each stage below.
        while (!rows->count && first > i && (i == 0 || kept(count, count - 1 - i, end - first + 1, cost) <= most)) {
            first--;
        }
        stages.items[i] = (struct stage){first, end};
        end = first;
    }
    return stages;
}

void stages_raise(struct stages *stages, size_t lowest)
{
    size_t below = 0;
    while (stages->items[below].end <= lowest) {
        below++;
    }
    stages->count -= below;
    memmove(stages->items, stages->items + below, stages->count * sizeof *stages->items);
    stages->items[0].first = stages->items[0].first < lowest ? lowest : stages->items[0].first;
}

void stages_free(struct stages *stages)
{
    free(stages->items);
    *stages = (struct stages){0};
}

double stages_kept(const struct stages *stages, struct stage_cost cost)
{
    double most = 0;
    for (size_t i = 0; i < stages->count; i++) {
        struct stage stage = stages->items[i];
        double now = kept(stages->count, stages->count - 1 - i, stage.end - stage.first, cost);
        most = now > most ? now : most;
    }
    return most;
}
