#include "harness/plan/planner.h"
#include <math.h>
#include <string.h>

// --- families

static const struct family *family_of(const struct planner *planner, size_t f)
{
    return &planner->space->families[f];
}

static bool within(const struct planned_limits *limits, const struct planned_step *step)
{
    return step->peak_bytes <= limits->device_bytes && step->host_peak_bytes <= limits->host_bytes;
}

// Tells whether some candidate may fit: by the method's lower bound, and by host bytes, which the candidates share.
static bool can_fit(const struct planner *planner, size_t f, const struct planned_limits *limits)
{
    const struct planned_step *bound = &planner->bounds[f];
    return bound->why.code != STATUS_BAD_INPUT && bound->host_peak_bytes <= limits->host_bytes &&
           bound->lower_bound_bytes <= limits->device_bytes;
}

// Tells whether attention may have a mask, for which the device's own kernels run a whole chunk if any key is
// hidden from a query.
static bool may_be_masked(const struct trial *trial)
{
    return config_max_window(&trial->config) > 0 || trial->packing.count > 0 || trial->packing.mean > 0 ||
           trial->group > 1 || trial->data.kind == DATA_BATCH;
}

// Tells whether a higher candidate takes no more time: by a roofline and by rising rates, unless a step may wait
// for copies or ranks, or masked attention has its own rate.
static bool is_rising(const struct planner *planner, size_t f)
{
    return !planner->measured && planner->bounds[f].host_peak_bytes == 0 &&
           !(planner->f32_apart && may_be_masked(family_of(planner, f)->trial)) &&
           trial_ranks(family_of(planner, f)->trial) == 1;
}

static bool bound_at(struct planner *planner, size_t f, size_t index, struct planned_step *bound,
                     struct status *status)
{
    void *options = family_options(family_of(planner, f), index);
    bool fine = planned_bound(bound, family_of(planner, f)->trial, options, &planner->memos, status);
    options_free(&family_of(planner, f)->trial->method->options, options);
    return fine;
}

// Results for a candidate: its step if it was planned completely, otherwise that it exceeds the limits.
struct planned_before {
    double bound_s; // 0: unknown
    bool known;
    struct planned_limits limits;
    struct planned_step step;
};

// Looks up an earlier result, if it answers the question.
static bool recall(const struct planned_before *before, struct planned_limits limits, struct planned_step *step)
{
    if (!before->known || (!before->step.fits && (limits.device_bytes > before->limits.device_bytes ||
                                                  limits.host_bytes > before->limits.host_bytes)))
        return false;
    *step = before->step;
    step->fits = before->step.fits && within(&limits, step);
    return true;
}

static bool plan_at(struct planner *planner, struct planned_limits limits, struct candidate *candidate,
                    struct status *status)
{
    const struct family *family = family_of(planner, candidate->family);
    struct planned_before *before = &planner->before[planner->first[candidate->family] + candidate->index];
    if (recall(before, limits, &candidate->step))
        return true;
    void *options = family_options(family, candidate->index);
    planner->plans++;
    bool fine = planned_step(&candidate->step, family->trial, options, limits, &planner->memos, status);
    *before = (struct planned_before){before->bound_s, fine, limits, candidate->step};
    options_free(&family->trial->method->options, options);
    return fine;
}

bool family_least(const struct family *family, struct planned_memos *memos, size_t *index, struct status *status)
{
    *index = 0;
    if (family->candidates < 3 || !config_has_states(&family->trial->config))
        return true;
    size_t least = SIZE_MAX;
    for (size_t next = family->candidates - 1; next-- > 0;) {
        struct planned_step step;
        void *options = family_options(family, next);
        bool fine =
            planned_step(&step, family->trial, options, (struct planned_limits){NO_LIMIT, NO_LIMIT}, memos, status);
        options_free(&family->trial->method->options, options);
        if (!fine || step.peak_bytes > least)
            return fine;
        if (step.why.code != STATUS_BAD_INPUT) {
            least = step.peak_bytes;
            *index = next;
        }
    }
    return true;
}

static bool find_lowest(struct planner *planner, size_t f, size_t *lowest, struct status *status)
{
    bool fine = planner->lowest[f] != SIZE_MAX ||
                family_least(family_of(planner, f), &planner->memos, &planner->lowest[f], status);
    *lowest = planner->lowest[f];
    return fine;
}

// Finds the bound of a family's highest candidate. Offload targets only change the bytes before the step and make
// no step faster, so other families of a trial use the dominating family's bound.
static bool find_bound(struct planner *planner, size_t f, size_t first_of_trial, struct status *status)
{
    const struct family *family = family_of(planner, f);
    struct planned_step *bound = &planner->bounds[f];
    const struct planned_step *first = &planner->bounds[first_of_trial],
                              *dominating_first = &planner->bounds[family_of(planner, first_of_trial)->dominating];
    if (family->dominating == f || first_of_trial == f || first->why.code != STATUS_OK)
        return bound_at(planner, f, family->candidates - 1, bound, status);
    *bound = planner->bounds[family->dominating];
    bound->resident_bytes += first->resident_bytes - dominating_first->resident_bytes;
    bound->lower_bound_bytes += first->resident_bytes - dominating_first->resident_bytes;
    bound->peak_bytes = bound->lower_bound_bytes;
    bound->host_resident_bytes += first->host_resident_bytes - dominating_first->host_resident_bytes;
    bound->host_peak_bytes += first->host_resident_bytes - dominating_first->host_resident_bytes;
    return true;
}

bool planner_open(struct planner *planner, const struct space *space, struct planned_limits limits,
                  struct status *status)
{
    struct roofline roofline = {0};
    if (space->count)
        planned_roofline(space->families[0].trial, &roofline);
    *planner = (struct planner){.space = space,
                                .limits = limits,
                                .measured = roofline.rates && !rates_rise(roofline.rates),
                                .f32_apart = roofline.f32_flops_per_s > 0};
    planned_memos_open(&planner->memos);
    planner->bounds = calloc(space->count + 1, sizeof *planner->bounds);
    planner->before = calloc(space->candidates + 1, sizeof *planner->before);
    planner->first = calloc(space->count + 1, sizeof *planner->first);
    planner->lowest = calloc(space->count + 1, sizeof *planner->lowest);
    memset(planner->lowest, 0xff, space->count * sizeof *planner->lowest); // unknown
    for (size_t f = 0; f < space->count; f++)
        planner->first[f + 1] = planner->first[f] + family_of(planner, f)->candidates;
    bool fine = true;
    for (size_t f = 0, first = 0; fine && f < space->count; f++) {
        first = family_of(planner, first)->trial == family_of(planner, f)->trial ? first : f;
        fine = find_bound(planner, f, first, status);
    }
    return fine;
}

void planner_close(struct planner *planner)
{
    free(planner->bounds);
    free(planner->before);
    free(planner->first);
    free(planner->lowest);
    planned_memos_close(&planner->memos);
    *planner = (struct planner){0};
}

// --- the fastest candidate

// The remaining part of a family. First finds the highest candidate in [low, high] that fits, which is the fastest
// in a rising family; in other families candidates below it follow in descending order, `high` next.
struct search_node {
    size_t low, high, bottom; // below candidate `bottom` the dominating family fits and takes no more time
    bool open, halved, asked,
        descending; // halved: the highest candidate did not fit; asked: the family's minimum does
    double bound_s; // of all remaining candidates
};

static bool is_better(const struct planned_step *a, const struct planned_step *b)
{
    return !b->fits || a->seconds < b->seconds || (a->seconds == b->seconds && a->peak_bytes < b->peak_bytes);
}

// The open node with the lowest bound; count: none could still improve.
static size_t most_promising(const struct search_node *nodes, size_t count, const struct candidate *best,
                             double margin)
{
    size_t found = count;
    for (size_t f = 0; f < count; f++)
        if (nodes[f].open && (found == count || nodes[f].bound_s < nodes[found].bound_s))
            found = f;
    return found < count && best->step.fits && (1 + margin) * nodes[found].bound_s > best->step.seconds ? count
                                                                                                        : found;
}

// Tightens the bound to the remaining candidates', the highest one's. Offload targets make no step faster: uses the
// dominating family's, computed once.
static bool tighten(struct planner *planner, struct search_node *node, size_t f, struct status *status)
{
    size_t dominating = family_of(planner, f)->dominating;
    struct planned_before *before = &planner->before[planner->first[dominating] + node->high];
    struct planned_step bound;
    if (before->bound_s == 0) {
        if (!bound_at(planner, dominating, node->high, &bound, status))
            return false;
        before->bound_s = bound.seconds;
    }
    node->bound_s = before->bound_s;
    return true;
}

// Tells whether the family's minimum, and so some candidate, may fit: by the bounds, by the dominating family's,
// which keeps more on the device, and by its lowest candidate, which may be the best too.
static bool min_fits(struct planner *planner, struct planned_limits limits, size_t f, struct candidate *best,
                     bool *fits, struct status *status)
{
    struct candidate min = {.family = family_of(planner, f)->min};
    size_t dominating = family_of(planner, family_of(planner, f)->dominating)->min;
    *fits = true;
    if (planner->bounds[min.family].why.code == STATUS_BAD_INPUT)
        return true;
    if (!find_lowest(planner, min.family, &min.index, status))
        return false;
    if (dominating != min.family &&
        recall(&planner->before[planner->first[dominating] + min.index], limits, &min.step) && min.step.fits)
        return true;
    bool fine = plan_at(planner, limits, &min, status);
    *fits = min.step.fits;
    if (fine && *fits && is_better(&min.step, &best->step))
        *best = min;
    return fine;
}

// The remaining part after a candidate has been planned.
static bool go_on(struct planner *planner, struct search_node *node, size_t f, const struct candidate *planned,
                  struct status *status)
{
    size_t index = planned->index;
    bool fits = planned->step.fits;
    if (!node->descending) {
        node->halved = true;
        node->asked |= fits;
        node->open = fits ? index < node->high : index > node->low;
        if (fits)
            node->low = index + 1;
        else if (node->open)
            node->high = index - 1;
        if (node->open)
            return fits || tighten(planner, node, f, status);
        if (node->low <= node->bottom || is_rising(planner, f))
            return true;
        node->descending = true;
        index = node->low - 1; // the highest that fits
    }
    node->open = index > node->bottom;
    node->high = index - 1;
    return !node->open || tighten(planner, node, f, status);
}

// Drops candidates at which the dominating family is known to fit, and all below: it fits there too, in no more
// time. The highest candidate, one chunk, may take less memory than the one below it.
static void leave_to_dominating(struct planner *planner, struct planned_limits limits, struct search_node *node,
                                size_t f)
{
    size_t dominating = family_of(planner, f)->dominating, high = node->high;
    struct planned_step step;
    if (!is_rising(planner, dominating) && high > 0 && high + 1 == family_of(planner, f)->candidates)
        high--;
    for (size_t index = high + 1; dominating != f && index-- > node->bottom;) {
        const struct planned_before *before = &planner->before[planner->first[dominating] + index];
        if (recall(before, limits, &step) && step.fits) {
            node->bottom = index + 1;
            node->low = node->low > node->bottom ? node->low : node->bottom;
            node->open = node->bottom <= node->high;
        }
    }
}

// Plans one candidate of the node: the highest, then the middle of the rest.
static bool visit(struct planner *planner, struct planned_limits limits, struct search_node *node, size_t f,
                  struct candidate *best, struct status *status)
{
    if (node->halved && !node->asked) {
        node->asked = true;
        return min_fits(planner, limits, f, best, &node->open, status);
    }
    size_t lowest;
    if (!find_lowest(planner, f, &lowest, status))
        return false;
    node->bottom = node->bottom > lowest ? node->bottom : lowest;
    node->low = node->low > lowest ? node->low : lowest;
    leave_to_dominating(planner, limits, node, f);
    if (!node->open)
        return true;
    bool middle = node->halved && !node->descending;
    struct candidate tried = {.family = f, .index = middle ? (node->low + node->high) / 2 : node->high};
    if (!plan_at(planner, limits, &tried, status))
        return false;
    if (tried.step.fits && is_better(&tried.step, &best->step))
        *best = tried;
    return go_on(planner, node, f, &tried, status);
}

// Searches within a margin: nothing that fits is faster than the best by more.
static bool search(struct planner *planner, struct planned_limits limits, double margin, struct candidate *best,
                   struct status *status)
{
    size_t count = planner->space->count;
    struct search_node *nodes = calloc(count + 1, sizeof *nodes);
    *best = (struct candidate){0};
    for (size_t f = 0; f < count; f++) {
        const struct planned_step *bound = &planner->bounds[f];
        size_t candidates = family_of(planner, f)->candidates;
        bool over = !within(&limits, bound); // the highest candidate exceeds it
        nodes[f] = (struct search_node){.high = over && candidates > 1 ? candidates - 2 : candidates - 1,
                                        .open = can_fit(planner, f, &limits) && (!over || candidates > 1),
                                        .halved = over,
                                        .bound_s = bound->seconds};
    }
    bool fine = true;
    for (size_t f; fine && (f = most_promising(nodes, count, best, margin)) < count;)
        fine = visit(planner, limits, &nodes[f], f, best, status);
    free(nodes);
    return fine;
}

// The approximate bytes of a family's lowest candidate: by the lower bound if its method has one.
static size_t min_bytes(const struct planned_step *bound)
{
    return bound->lower_bound_bytes_per_token > 0 ? bound->lower_bound_bytes : bound->peak_bytes;
}

// Tells whether a is nearer to the limits than b.
static bool is_nearer(const struct planned_limits *limits, const struct planned_step *a,
                      const struct planned_step *b)
{
    bool host_a = a->host_peak_bytes <= limits->host_bytes, host_b = b->host_peak_bytes <= limits->host_bytes;
    if (b->why.code == STATUS_BAD_INPUT || host_a != host_b)
        return b->why.code == STATUS_BAD_INPUT || host_a;
    return min_bytes(a) < min_bytes(b) || (min_bytes(a) == min_bytes(b) && a->peak_bytes < b->peak_bytes);
}

// Plans the lowest candidate of the nearest family.
static bool plan_min(struct planner *planner, struct candidate *min, struct status *status)
{
    size_t found = 0;
    for (size_t f = 0; f < planner->space->count; f++)
        if (planner->bounds[f].why.code != STATUS_BAD_INPUT &&
            is_nearer(&planner->limits, &planner->bounds[f], &planner->bounds[found]))
            found = f;
    *min = (struct candidate){.family = found};
    bool fine = find_lowest(planner, found, &min->index, status) &&
                plan_at(planner, (struct planned_limits){NO_LIMIT, NO_LIMIT}, min, status);
    min->step.fits = false;
    return fine;
}

bool planner_fastest(struct planner *planner, struct candidate *fastest, struct status *status)
{
    return search(planner, planner->limits, 0, fastest, status) &&
           (fastest->step.fits || plan_min(planner, fastest, status));
}

bool planner_unlimited(struct planner *planner, struct candidate *fastest, struct status *status)
{
    size_t host_bytes = planner->limits.host_bytes ? NO_LIMIT : 0; // without host memory nothing is offloaded
    return search(planner, (struct planned_limits){NO_LIMIT, host_bytes}, 0, fastest, status);
}

// --- the Pareto front

// After the fastest, keeps among points with times within the margin only the one with the least memory.
static size_t thin(struct candidate *points, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        double max_s = (1 + PARETO_TIME_MARGIN) * points[i].step.seconds;
        while (i > 0 && i + 1 < count && points[i + 1].step.seconds <= max_s)
            i++;
        points[kept++] = points[i];
    }
    return kept;
}

// Finds the fastest within decreasing memory limits until nothing fits. A point that is no slower than one with
// more memory, possible within the margin, replaces it.
bool planner_pareto_front(struct planner *planner, const struct candidate *fastest, struct candidate **points,
                          size_t *count, struct status *status)
{
    struct candidate *pareto_front = NULL, next = *fastest;
    struct planned_limits limits = planner->limits;
    bool fine = true;
    *count = 0;
    while (fine && next.step.fits) {
        while (*count > 1 && next.step.seconds <= pareto_front[*count - 1].step.seconds)
            --*count;
        struct candidate *grown = realloc(pareto_front, (*count + 1) * sizeof *pareto_front);
        pareto_front = grown;
        pareto_front[(*count)++] = next;
        limits.device_bytes = (size_t)((double)next.step.peak_bytes / (1 + PARETO_MEMORY_MARGIN));
        fine = search(planner, limits, PARETO_TIME_MARGIN, &next, status);
    }
    *count = thin(pareto_front, *count);
    *points = pareto_front;
    return fine;
}
