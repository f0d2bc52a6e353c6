#include "methods/schedule/segments.h"
#include <stdlib.h>
#include <string.h>

bool segments_check(const struct segment_options *options, size_t layers, struct status *status)
{
    const struct index_list *starts = &options->starts;
    if (starts->count && options->count > 1)
        return status_set(status, STATUS_BAD_INPUT, "segments and segment_starts say the same; give one of them");
    if (starts->count && starts->items[0] != 0) {
        return status_set(status, STATUS_BAD_INPUT, "the first of segment_starts is 0, the lowest layer; found %u",
                          starts->items[0]);
    }
    for (size_t i = 0; i < starts->count; i++) {
        if (starts->items[i] >= layers) {
            return status_set(status, STATUS_UNSUPPORTED, "segment_starts: there is no layer %u, they are 0 to %zu",
                              starts->items[i], layers - 1);
        }
        if (i > 0 && starts->items[i] <= starts->items[i - 1]) {
            return status_set(status, STATUS_BAD_INPUT,
                              "segment_starts: %u follows %u; give them in ascending order, each once",
                              starts->items[i], starts->items[i - 1]);
        }
    }
    if (options->count > layers) {
        return status_set(status, STATUS_UNSUPPORTED, "%zu segments are more than the model's %zu layers",
                          options->count, layers);
    }
    return true;
}

// Bytes kept by a segment with `above` others above it, of `count`, whose `length` layers keep `layers`.
static double kept_with(size_t count, size_t above, size_t length, double layers, struct segment_cost cost)
{
    return (double)(count - 1 - above) * cost.input + layers + (above ? cost.below : cost.top) +
           (length > 1 ? cost.several : 0);
}
static double kept(size_t count, size_t above, size_t length, struct segment_cost cost)
{
    return kept_with(count, above, length, (double)length * cost.layer, cost);
}

// Adds each layer to the segment that then keeps least: the resulting maximum is minimal.
static double min_kept(size_t count, size_t layers, struct segment_cost cost)
{
    size_t *lengths = calloc(count, sizeof *lengths);
    double max = 0;
    CHECK(lengths);
    for (size_t l = 0; l < layers; l++) {
        size_t best = l; // each has at least one
        for (size_t above = 0; l >= count && above < count; above++) {
            best = above == 0 ||
                           kept(count, above, lengths[above] + 1, cost) < kept(count, best, lengths[best] + 1, cost)
                       ? above
                       : best;
        }
        double now = kept(count, best, ++lengths[best], cost);
        max = now > max ? now : max;
    }
    free(lengths);
    return max;
}

struct segments segments_of(const struct segment_options *options, size_t layers, struct segment_cost cost)
{
    const struct index_list *starts = &options->starts;
    size_t count = starts->count ? starts->count : options->count ? options->count : 1, end = layers;
    struct segments segments = {count, calloc(count, sizeof *segments.items)};
    CHECK(segments.items && count <= layers);
    double max = starts->count ? 0 : min_kept(count, layers, cost);
    for (size_t i = count; i-- > 0;) {
        size_t first = end - 1;
        if (starts->count)
            first = starts->items[i];
        // Leaves at least one layer for each segment below.
        while (!starts->count && first > i && (i == 0 || kept(count, count - 1 - i, end - first + 1, cost) <= max))
            first--;
        segments.items[i] = (struct segment){first, end};
        end = first;
    }
    return segments;
}

void segments_raise(struct segments *segments, size_t lowest)
{
    size_t below = 0;
    while (segments->items[below].end <= lowest)
        below++;
    segments->count -= below;
    memmove(segments->items, segments->items + below, segments->count * sizeof *segments->items);
    segments->items[0].first = segments->items[0].first < lowest ? lowest : segments->items[0].first;
}

void segments_free(struct segments *segments)
{
    free(segments->items);
    *segments = (struct segments){0};
}

double segments_kept(const struct segments *segments, struct segment_cost cost, const double *layers)
{
    double max = 0;
    for (size_t i = 0; i < segments->count; i++) {
        struct segment segment = segments->items[i];
        size_t length = segment.end - segment.first;
        double sum = layers ? 0 : (double)length * cost.layer;
        for (size_t l = segment.first; layers && l < segment.end; l++)
            sum += layers[l];
        double now = kept_with(segments->count, segments->count - 1 - i, length, sum, cost);
        max = now > max ? now : max;
    }
    return max;
}
