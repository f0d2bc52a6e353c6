#include "harness/plan/planner.h"
#include <math.h>
#include <string.h>

// --- what is known of a family

static const struct family *family_of(const struct planner *planner, size_t f)
{
    return &planner->space->families[f];
}

static bool within(const struct planned_limits *limits, const struct planned_step *step)
{
    return step->peak_bytes <= limits->device_bytes && step->host_peak_bytes <= limits->host_bytes;
}

// Whether some rung may: by the method's floor, and by what is kept on the host, which the rungs have in common.
static bool can_fit(const struct planner *planner, size_t f, const struct planned_limits *limits)
{
    const struct planned_step *bound = &planner->bounds[f];
    return bound->why.code != STATUS_BAD_INPUT && bound->host_peak_bytes <= limits->host_bytes &&
           bound->floor_bytes <= limits->device_bytes;
}

// Whether attention may have a mask, which the device's own kernels take: all of a chunk, if it hides a key from
// one query.
static bool may_be_masked(const struct trial *trial)
{
    return trial->config.sliding_window > 0 || trial->packing.count > 0 || trial->packing.mean > 0 ||
           trial->group > 1 || trial->data.kind == DATA_BATCH;
}

// Whether a higher rung takes no more time: so by a roofline and by rates that rise, unless a step may wait for
// copies or for other ranks, or attention has a rate of its own where it has a mask.
static bool is_rising(const struct planner *planner, size_t f)
{
    return !planner->measured && planner->bounds[f].host_peak_bytes == 0 &&
           !(planner->f32_apart && may_be_masked(family_of(planner, f)->trial)) &&
           trial_ranks(family_of(planner, f)->trial) == 1;
}

static bool bound_at(struct planner *planner, size_t f, size_t rung, struct planned_step *bound,
                     struct status *status)
{
    void *options = family_options(family_of(planner, f), rung);
    bool fine = planned_bound(bound, family_of(planner, f)->trial, options, &planner->memos, status);
    options_free(&family_of(planner, f)->trial->method->options, options);
    return fine;
}

// What is known of a candidate: its step, if it was planned to the end; else that it does not fit into the limits.
struct planned_before {
    double bound_s; // 0: not known
    bool known;
    struct planned_limits limits;
    struct planned_step step;
};

// From before, if that answers it.
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
    struct planned_before *before = &planner->before[planner->first[candidate->family] + candidate->rung];
    if (recall(before, limits, &candidate->step))
        return true;
    void *options = family_options(family, candidate->rung);
    planner->plans++;
    bool fine = planned_step(&candidate->step, family->trial, options, limits, &planner->memos, status);
    *before = (struct planned_before){before->bound_s, fine, limits, candidate->step};
    options_free(&family->trial->method->options, options);
    return fine;
}

// The bound of a family's highest rung. Where things are kept changes the bytes before the step alone, and makes no
// step faster: of a trial's families but the first it is that of the family's twin.
static bool find_bound(struct planner *planner, size_t f, size_t first_of_trial, struct status *status)
{
    const struct family *family = family_of(planner, f);
    struct planned_step *bound = &planner->bounds[f];
    const struct planned_step *first = &planner->bounds[first_of_trial],
                              *twin_first = &planner->bounds[family_of(planner, first_of_trial)->twin];
    if (family->twin == f || first_of_trial == f || first->why.code != STATUS_OK)
        return bound_at(planner, f, family->rungs - 1, bound, status);
    *bound = planner->bounds[family->twin];
    bound->resident_bytes += first->resident_bytes - twin_first->resident_bytes;
    bound->floor_bytes += first->resident_bytes - twin_first->resident_bytes;
    bound->peak_bytes = bound->floor_bytes;
    bound->host_resident_bytes += first->host_resident_bytes - twin_first->host_resident_bytes;
    bound->host_peak_bytes += first->host_resident_bytes - twin_first->host_resident_bytes;
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
    CHECK(planner->bounds && planner->before && planner->first);
    for (size_t f = 0; f < space->count; f++)
        planner->first[f + 1] = planner->first[f] + family_of(planner, f)->rungs;
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
    planned_memos_close(&planner->memos);
    *planner = (struct planner){0};
}

// --- the fastest

// What is left of a family. First, of rungs [low, high] the highest that fits is looked for, which is the fastest
// if the family is rising; of any other family the rungs below it come then, from the highest, rung `high` next.
struct search_node {
    size_t low, high, bottom;             // below rung `bottom` the family's twin fits, which takes no more time
    bool open, halved, asked, descending; // halved: the highest rung did not fit; asked: the family's least does
    double bound_s;                       // of all rungs that are left
};

static bool is_better(const struct planned_step *a, const struct planned_step *b)
{
    return !b->fits || a->seconds < b->seconds || (a->seconds == b->seconds && a->peak_bytes < b->peak_bytes);
}

// The open node of the least bound; count: there is none that could still be better.
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

// The bound of the rungs that are left, which is that of the highest. Where things are kept makes no step faster:
// it is the twin's, which is then asked for once.
static bool tighten(struct planner *planner, struct search_node *node, size_t f, struct status *status)
{
    size_t twin = family_of(planner, f)->twin;
    struct planned_before *before = &planner->before[planner->first[twin] + node->high];
    struct planned_step bound;
    if (before->bound_s == 0) {
        if (!bound_at(planner, twin, node->high, &bound, status))
            return false;
        before->bound_s = bound.seconds;
    }
    node->bound_s = before->bound_s;
    return true;
}

// Whether the family's least may fit, and with it some rung of the family; by the bounds, by the twin's, which
// keeps more on the device, and by its lowest rung, which may be the best, too.
static bool least_fits(struct planner *planner, struct planned_limits limits, size_t f, struct candidate *best,
                       bool *fits, struct status *status)
{
    struct candidate least = {.family = family_of(planner, f)->least};
    size_t twin = family_of(planner, family_of(planner, f)->twin)->least;
    *fits = true;
    if (planner->bounds[least.family].why.code == STATUS_BAD_INPUT ||
        (twin != least.family && recall(&planner->before[planner->first[twin]], limits, &least.step) &&
         least.step.fits))
        return true;
    bool fine = plan_at(planner, limits, &least, status);
    *fits = least.step.fits;
    if (fine && *fits && is_better(&least.step, &best->step))
        *best = least;
    return fine;
}

// What is left when a rung has been planned.
static bool go_on(struct planner *planner, struct search_node *node, size_t f, const struct candidate *planned,
                  struct status *status)
{
    size_t rung = planned->rung;
    bool fits = planned->step.fits;
    if (!node->descending) {
        node->halved = true;
        node->asked |= fits;
        node->open = fits ? rung < node->high : rung > node->low;
        if (fits)
            node->low = rung + 1;
        else if (node->open)
            node->high = rung - 1;
        if (node->open)
            return fits || tighten(planner, node, f, status);
        if (node->low <= node->bottom || is_rising(planner, f))
            return true;
        node->descending = true;
        rung = node->low - 1; // the highest that fits
    }
    node->open = rung > node->bottom;
    node->high = rung - 1;
    return !node->open || tighten(planner, node, f, status);
}

// Leaves out the rungs at which the twin is known to fit, and with them all below: there it fits, too, or takes no
// less time. The highest rung, of one column, may take less memory than the one below it.
static void leave_to_twin(struct planner *planner, struct planned_limits limits, struct search_node *node, size_t f)
{
    size_t twin = family_of(planner, f)->twin, high = node->high;
    struct planned_step step;
    if (!is_rising(planner, twin) && high > 0 && high + 1 == family_of(planner, f)->rungs)
        high--;
    for (size_t rung = high + 1; twin != f && rung-- > node->bottom;) {
        const struct planned_before *before = &planner->before[planner->first[twin] + rung];
        if (recall(before, limits, &step) && step.fits) {
            node->bottom = rung + 1;
            node->low = node->low > node->bottom ? node->low : node->bottom;
            node->open = node->bottom <= node->high;
        }
    }
}

// Plans one rung of the node: the highest, and when that did not fit the middle of those that are left.
static bool visit(struct planner *planner, struct planned_limits limits, struct search_node *node, size_t f,
                  struct candidate *best, struct status *status)
{
    if (node->halved && !node->asked) {
        node->asked = true;
        return least_fits(planner, limits, f, best, &node->open, status);
    }
    leave_to_twin(planner, limits, node, f);
    if (!node->open)
        return true;
    bool middle = node->halved && !node->descending;
    struct candidate tried = {.family = f, .rung = middle ? (node->low + node->high) / 2 : node->high};
    if (!plan_at(planner, limits, &tried, status))
        return false;
    if (tried.step.fits && is_better(&tried.step, &best->step))
        *best = tried;
    return go_on(planner, node, f, &tried, status);
}

// Within a margin: nothing that fits takes less time than the best by more.
static bool search(struct planner *planner, struct planned_limits limits, double margin, struct candidate *best,
                   struct status *status)
{
    size_t count = planner->space->count;
    struct search_node *nodes = calloc(count + 1, sizeof *nodes);
    CHECK(nodes);
    *best = (struct candidate){0};
    for (size_t f = 0; f < count; f++) {
        const struct planned_step *bound = &planner->bounds[f];
        size_t rungs = family_of(planner, f)->rungs;
        bool over = !within(&limits, bound); // the highest rung is
        nodes[f] = (struct search_node){.high = over && rungs > 1 ? rungs - 2 : rungs - 1,
                                        .open = can_fit(planner, f, &limits) && (!over || rungs > 1),
                                        .halved = over,
                                        .bound_s = bound->seconds};
    }
    bool fine = true;
    for (size_t f; fine && (f = most_promising(nodes, count, best, margin)) < count;)
        fine = visit(planner, limits, &nodes[f], f, best, status);
    free(nodes);
    return fine;
}

// What a family's lowest rung takes, about: by the floor, where its method has one.
static size_t least_bytes(const struct planned_step *bound)
{
    return bound->floor_bytes_per_token > 0 ? bound->floor_bytes : bound->peak_bytes;
}

// Whether a is nearer to the limits than b.
static bool is_nearer(const struct planned_limits *limits, const struct planned_step *a,
                      const struct planned_step *b)
{
    bool host_a = a->host_peak_bytes <= limits->host_bytes, host_b = b->host_peak_bytes <= limits->host_bytes;
    if (b->why.code == STATUS_BAD_INPUT || host_a != host_b)
        return b->why.code == STATUS_BAD_INPUT || host_a;
    return least_bytes(a) < least_bytes(b) || (least_bytes(a) == least_bytes(b) && a->peak_bytes < b->peak_bytes);
}

// The lowest rung of the family that comes nearest.
static bool plan_least(struct planner *planner, struct candidate *least, struct status *status)
{
    size_t found = 0;
    for (size_t f = 0; f < planner->space->count; f++)
        if (planner->bounds[f].why.code != STATUS_BAD_INPUT &&
            is_nearer(&planner->limits, &planner->bounds[f], &planner->bounds[found]))
            found = f;
    *least = (struct candidate){.family = found};
    bool fine = plan_at(planner, (struct planned_limits){NO_LIMIT, NO_LIMIT}, least, status);
    least->step.fits = false;
    return fine;
}

bool planner_fastest(struct planner *planner, struct candidate *fastest, struct status *status)
{
    return search(planner, planner->limits, 0, fastest, status) &&
           (fastest->step.fits || plan_least(planner, fastest, status));
}

bool planner_unlimited(struct planner *planner, struct candidate *fastest, struct status *status)
{
    size_t host_bytes = planner->limits.host_bytes ? NO_LIMIT : 0; // nothing is kept on a host that was not given
    return search(planner, (struct planned_limits){NO_LIMIT, host_bytes}, 0, fastest, status);
}

// --- the front

// Behind the fastest, of points whose times are within the margin all but the one of the least memory.
static size_t thin(struct candidate *points, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        double most_s = (1 + FRONT_TIME_MARGIN) * points[i].step.seconds;
        while (i > 0 && i + 1 < count && points[i + 1].step.seconds <= most_s)
            i++;
        points[kept++] = points[i];
    }
    return kept;
}

// The fastest in less and less memory, until nothing fits. A point that turns out no slower than one of more
// memory, which the margin allows, takes its place.
bool planner_front(struct planner *planner, const struct candidate *fastest, struct candidate **points,
                   size_t *count, struct status *status)
{
    struct candidate *front = NULL, next = *fastest;
    struct planned_limits limits = planner->limits;
    bool fine = true;
    *count = 0;
    while (fine && next.step.fits) {
        while (*count > 1 && next.step.seconds <= front[*count - 1].step.seconds)
            --*count;
        struct candidate *grown = realloc(front, (*count + 1) * sizeof *front);
        CHECK(grown);
        front = grown;
        front[(*count)++] = next;
        limits.device_bytes = (size_t)((double)next.step.peak_bytes / (1 + FRONT_MEMORY_MARGIN));
        fine = search(planner, limits, FRONT_TIME_MARGIN, &next, status);
    }
    *count = thin(front, *count);
    *points = front;
    return fine;
}
