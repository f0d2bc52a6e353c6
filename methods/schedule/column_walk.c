#include "methods/schedule/column_walk.h"
#include "methods/schedule/cost.h"
#include "methods/schedule/pipeline.h"

// Columns whose inputs come meanwhile from the rank below, where each has a place of its own: a link's latency may
// be several columns' time.
#define AHEAD 8

// A tensor that comes from a neighbour, or goes to one.
struct parcel {
    struct tensor t;
    struct delivery delivery;
    bool owned; // freed when it has gone
};

// A walk and what it keeps.
struct state {
    struct step *step;
    const struct column_walk *walk;
    struct stages stages;
    bool gathers;   // the objective wants every column's log-probs first
    bool deferred;  // or on the way, where they only multiply the gradient by a number
    bool all;       // the first pass goes to the end
    size_t needed;  // columns of the first pass
    size_t reached; // columns up to the last that is drawn
    size_t sampled; // tokens of the drawn columns
    // [stages], of each but the lowest its input: [tokens of the needed B, d]. That of the highest becomes its own
    // gradient, and then of every stage below.
    struct tensor *x;
    struct kv_store kv;           // of a stage at a time: [T B, G D], their gradients [sampled B, G D]
    struct key_segment *segments; // [drawn.count]
    struct tensor inputs;         // [sampled B, d], of the drawn columns, as they came from the rank below
    // Between ranks: the inputs of columns, the first `coming` of which have been asked for, and of these so many
    // drawn ones; the gradient of the next column's output; and the last that was sent.
    struct parcel *arrivals; // [needed]
    size_t coming, coming_drawn;
    struct parcel turn, leaving;
};

// Of the first so many columns.
static size_t tokens_of(const struct column_walk *walk, size_t count)
{
    struct span last = column_span(walk->columns, count ? count - 1 : 0);
    return count ? last.start + last.count : 0;
}

// Columns up to the last that is drawn.
static size_t reached_of(const struct column_walk *walk)
{
    return walk->drawn.count ? walk->drawn.items[walk->drawn.count - 1] + 1 : 0;
}

// Tokens of the drawn columns.
static size_t sampled_of(const struct column_walk *walk)
{
    size_t tokens = 0;
    for (size_t j = 0; j < walk->drawn.count; j++) {
        tokens += column_span(walk->columns, walk->drawn.items[j]).count;
    }
    return tokens;
}

// Of a first pass over these parts of the tokens, and drawn columns with so many of them.
static struct stage_cost cost_of(const struct model *model, double reached, double sampled)
{
    // The gradient takes the place of the highest stage's input.
    return (struct stage_cost){.input = cost_hidden(model) * reached,
                               .row = cost_kv(model) * reached + cost_kv_gradients(model) * sampled,
                               .below = cost_hidden(model) * reached};
}

// Of the rank's layers.
static struct stages rank_stages(const struct model *model, const struct column_options *options, double share)
{
    const struct ranks *ranks = &model->ranks;
    struct stages stages =
        stages_of(&options->stages, ranks->end_layer - ranks->first_layer, cost_of(model, 1, share));
    for (size_t s = 0; s < stages.count; s++) {
        stages.items[s].first += ranks->first_layer;
        stages.items[s].end += ranks->first_layer;
    }
    stages_raise(&stages, model->lowest_trained);
    return stages;
}

static struct tensor hidden(struct state *state, size_t tokens, enum category category)
{
    struct model *model = state->step->model;
    return tensor_new(model->device, tokens * state->step->batch->batch, model->config.width,
                      model->device->ops->dtype, category);
}

// Every column comes to the head, and nobody takes a gradient before the walk has ended.
static bool can_defer(const struct step *step, const struct column_walk *walk)
{
    const struct model *model = step->model;
    bool kept = model->keeper->gradients_stay && !model->listener;
    bool alone = ranks_lowest(&model->ranks) && ranks_highest(&model->ranks);
    return objective_defers(step->batch) && (walk->whole || walk->all_losses) && kept && alone;
}

static void state_open(struct state *state, struct step *step, const struct column_walk *walk)
{
    size_t count = walk->drawn.count;
    const struct column_options *options = step->options;
    bool deferred = can_defer(step, walk), gathers = objective_gathers(step->batch) && !deferred;
    *state = (struct state){
        .step = step, .walk = walk, .gathers = gathers, .deferred = deferred, .all = walk->all_losses || gathers};
    state->reached = reached_of(walk);
    state->sampled = sampled_of(walk);
    state->needed = state->all ? walk->columns.count : state->reached;
    state->stages = rank_stages(step->model, options, walk->share);
    state->x = calloc(state->stages.count, sizeof *state->x);
    state->segments = calloc(count + 1, sizeof *state->segments);
    CHECK(state->stages.items && state->x && state->segments);
    if (!ranks_lowest(&step->model->ranks)) {
        CHECK(state->stages.count == 1);
        CHECK(state->arrivals = calloc(state->needed + 1, sizeof *state->arrivals));
        state->inputs = hidden(state, state->sampled, CATEGORY_HIDDEN_CHECKPOINTS);
    }
}

static void state_close(struct state *state)
{
    tensor_free(state->step->model->device, &state->inputs);
    free(state->arrivals);
    free(state->segments);
    free(state->x);
    stages_free(&state->stages);
}

// Keys and values of a stage's layers, of the first so many columns.
static void kv_open(struct state *state, struct stage stage, size_t count)
{
    const struct column_options *options = state->step->options;
    kv_store_open(&state->kv, state->step->model, stage.first, stage.end,
                  options->offload == COLUMN_OFFLOAD_KV ? PLACE_HOST : PLACE_DEVICE,
                  tokens_of(state->walk, count) * state->step->batch->batch);
}

// Behind a column of a first pass: the next one of the same stage, or else the layer `above`.
static struct column_next next_of_pass(const struct state *state, struct stage stage, size_t c, size_t above)
{
    bool same = c + 1 < state->needed;
    size_t rows = tokens_of(state->walk, c + 1) * state->step->batch->batch;
    return (struct column_next){.any = true, .layer = same ? stage.first : above, .same = same, .rows = rows};
}

// Columns whose keys and values stage s keeps.
static size_t count_in(const struct state *state, size_t s)
{
    return s + 1 == state->stages.count ? state->needed : state->reached;
}

// Whether the first pass has column c's keys and values in stage s.
static bool is_cached(const struct state *state, size_t s, size_t c)
{
    bool highest = s + 1 == state->stages.count;
    return (highest && state->gathers) || c + 1 < count_in(state, s);
}

// Behind drawn column j of the second pass, or, of all of them, behind the first pass: the next one to the left in
// stage s, or the first of the stage below.
static struct column_next next_of_walk(const struct state *state, size_t s, size_t j)
{
    struct column_next next = {.any = j > 0 || (s > 0 && state->walk->drawn.count > 0), .same = j > 0};
    if (next.any) {
        next.layer = state->stages.items[next.same ? s : s - 1].first;
    }
    if (next.same) {
        size_t c = state->walk->drawn.items[j - 1];
        next.rows = tokens_of(state->walk, c + is_cached(state, s, c)) * state->step->batch->batch;
    }
    return next;
}

// A stage's forward alone, to the input of the one above. Nothing else is kept.
static void pass_through(struct state *state, size_t s)
{
    struct stage stage = state->stages.items[s];
    size_t B = state->step->batch->batch;
    state->x[s + 1] = hidden(state, tokens_of(state->walk, state->needed), CATEGORY_HIDDEN_CHECKPOINTS);
    kv_open(state, stage, state->needed);
    for (size_t c = 0; c < state->needed; c++) {
        struct span chunk = column_span(state->walk->columns, c);
        column_forward(state->step, stage, chunk, &state->kv, column_rows(state->x[s], chunk, B),
                       column_rows(state->x[s + 1], chunk, B), COLUMN_HIDDEN,
                       next_of_pass(state, stage, c, stage.end));
    }
    kv_store_close(&state->kv);
}

// The layers below the lowest stage, which are not walked back: its input, a layer at a time.
static struct tensor pass_below(struct state *state)
{
    struct tensor x = tensor_none();
    size_t B = state->step->batch->batch;
    for (size_t l = state->step->model->ranks.first_layer; l < state->stages.items[0].first; l++) {
        struct tensor y = hidden(state, tokens_of(state->walk, state->needed), CATEGORY_HIDDEN_CHECKPOINTS);
        kv_open(state, (struct stage){l, l + 1}, state->needed);
        for (size_t c = 0; c < state->needed; c++) {
            struct span chunk = column_span(state->walk->columns, c);
            struct tensor x_c = x.data ? column_rows(x, chunk, B) : x;
            column_forward(state->step, (struct stage){l, l + 1}, chunk, &state->kv, x_c, column_rows(y, chunk, B),
                           COLUMN_HIDDEN, next_of_pass(state, (struct stage){l, l + 1}, c, l + 1));
        }
        kv_store_close(&state->kv);
        tensor_free(state->step->model->device, &x);
        x = y;
    }
    return x;
}

// Where a drawn column's input is kept that came from the rank below.
static struct tensor input_of(struct state *state, size_t j)
{
    size_t row = 0, B = state->step->batch->batch;
    for (size_t i = 0; i < j; i++) {
        row += column_span(state->walk->columns, state->walk->drawn.items[i]).count * B;
    }
    return tensor_rows(state->inputs, row,
                       column_span(state->walk->columns, state->walk->drawn.items[j]).count * B);
}

// Asks for inputs from the rank below: the column's, the next one's, and of those after it, as far as they have a
// place where they stay.
static void start_inputs(struct state *state, size_t column)
{
    const struct column_walk *walk = state->walk;
    while (state->coming < state->needed && state->coming <= column + AHEAD) {
        size_t c = state->coming, j = state->coming_drawn;
        bool drawn = j < walk->drawn.count && walk->drawn.items[j] == c;
        if (!drawn && c > column + 1) {
            return;
        }
        struct tensor x =
            drawn ? input_of(state, j) : hidden(state, column_span(walk->columns, c).count, CATEGORY_ACTIVATIONS);
        state->arrivals[c] =
            (struct parcel){.t = x, .delivery = pipeline_start_input(state->step->model, x), .owned = !drawn};
        state->coming++;
        state->coming_drawn += drawn;
    }
}

static struct tensor take_input(struct state *state, size_t column)
{
    start_inputs(state, column);
    pipeline_wait(state->step->model, &state->arrivals[column].delivery);
    return state->arrivals[column].t;
}

static void drop(struct state *state, struct parcel *parcel)
{
    pipeline_wait(state->step->model, &parcel->delivery);
    if (parcel->owned) {
        tensor_free(state->step->model->device, &parcel->t);
    }
    *parcel = (struct parcel){0};
}

// Sends the parcel's tensor by `start`, once the one before it has gone; it goes while the walk goes on.
static void leave(struct state *state, struct parcel parcel,
                  struct delivery (*start)(struct model *model, struct tensor t))
{
    drop(state, &state->leaving);
    parcel.delivery = start(state->step->model, parcel.t);
    state->leaving = parcel;
}

// Column c of a stage's first pass, or of the rank's. x: its input; no tensor: it is the embedding.
static void cache_column(struct state *state, size_t s, size_t c, struct tensor x, bool loss)
{
    struct model *model = state->step->model;
    struct stage stage = state->stages.items[s];
    struct span chunk = column_span(state->walk->columns, c);
    bool highest = ranks_highest(&model->ranks), last = c + 1 == count_in(state, s);
    struct tensor y = highest ? tensor_none() : hidden(state, chunk.count, CATEGORY_ACTIVATIONS);
    column_forward(state->step, stage, chunk, &state->kv, x, y,
                   !highest ? COLUMN_HIDDEN
                   : loss   ? COLUMN_LOSS
                            : COLUMN_KV,
                   last ? next_of_walk(state, s, state->walk->drawn.count)
                        : next_of_pass(state, stage, c, stage.first));
    if (!highest) {
        leave(state, (struct parcel){.t = y, .owned = true}, pipeline_start_output);
    }
}

// First pass: whatever the drawn columns attend to. In the highest stage with all losses everything; with an
// objective that gathers all columns to the head, the drawn ones too.
static void fill_cache(struct state *state, size_t s)
{
    const struct column_walk *walk = state->walk;
    bool highest = s + 1 == state->stages.count, gathers = highest && state->gathers;
    bool lowest = ranks_lowest(&state->step->model->ranks);
    size_t count = count_in(state, s), B = state->step->batch->batch;
    kv_open(state, state->stages.items[s], count);
    for (size_t c = 0, j = 0; c < count; c++) {
        struct span chunk = column_span(walk->columns, c);
        bool drawn = j < walk->drawn.count && walk->drawn.items[j] == c;
        bool loss = gathers || (highest && state->all && !drawn);
        if (drawn && c + 1 == count && !gathers) {
            return; // no column to its right reads its keys before its own second pass writes them
        }
        struct tensor x = lowest ? column_rows(state->x[s], chunk, B) : take_input(state, c);
        cache_column(state, s, c, x, loss);
        if (!lowest && !drawn) {
            drop(state, &state->arrivals[c]);
        }
        j += drawn;
    }
}

// The drawn columns' keys alone have gradients: per layer one buffer, in which they lie side by side.
static void list_segments(struct state *state)
{
    const struct column_walk *walk = state->walk;
    for (size_t i = 0; !walk->whole && i < walk->drawn.count; i++) {
        struct span span = column_span(walk->columns, walk->drawn.items[i]);
        state->segments[i] = (struct key_segment){.start = span.start, .count = span.count};
    }
}

// How many of them column j reads; one, of all keys up to its end, where all have gradients.
static size_t segments_read(struct state *state, size_t j)
{
    const struct column_walk *walk = state->walk;
    struct span span = column_span(walk->columns, walk->drawn.items[j]);
    if (walk->whole)
        state->segments[0] = (struct key_segment){.start = 0, .count = span.start + span.count};
    return walk->whole ? 1 : j + 1;
}

// What the columns to the right sent to the keys of column j, before it adds its own.
static void scale(struct state *state, struct stage stage, size_t j)
{
    const struct column_walk *walk = state->walk;
    size_t B = state->step->batch->batch, row = 0;
    for (size_t i = 0; walk->kv_factor && i < j; i++) {
        row += state->segments[i].count * B;
    }
    for (size_t l = stage.first; walk->kv_factor && j + 1 < walk->drawn.count && l < stage.end; l++) {
        struct kv grad = kv_rows(state->kv.grad[l], row, state->segments[j].count * B);
        op_scale(state->step->model->device, grad.k, walk->kv_factor[j]);
        op_scale(state->step->model->device, grad.v, walk->kv_factor[j]);
    }
}

// Where the gradient of drawn column j's output is to come, from the rank above.
static void open_turn(struct state *state, size_t j)
{
    struct span chunk = column_span(state->walk->columns, state->walk->drawn.items[j]);
    state->turn = (struct parcel){.t = hidden(state, chunk.count, CATEGORY_ACTIVATIONS), .owned = true};
}

// One column of the second pass. Where the first did not see it, its output goes up, and its gradient comes in its
// place. What the next column needs comes while this one goes down.
static void walk_column(struct state *state, struct column *column, size_t j)
{
    struct model *model = state->step->model;
    bool lowest = ranks_lowest(&model->ranks), highest = ranks_highest(&model->ranks);
    struct parcel own = {0};
    if (!lowest) {
        column->x = column->grad = take_input(state, state->walk->drawn.items[j]);
    }
    if (!highest) {
        if (column->first) {
            open_turn(state, j);
        }
        own = state->turn;
        column->grad = own.t;
        column->y = column->cached ? tensor_none() : own.t;
    }
    if (column->cached && !own.delivery.going) {
        own.delivery = pipeline_start_gradient(model, own.t);
    }
    column_rebuild(state->step, column);
    if (!column->cached) {
        drop(state, &state->leaving);
        pipeline_pass_output(model, column->y);
        own.delivery = pipeline_start_gradient(model, own.t);
    }
    pipeline_wait(model, &own.delivery);
    if (!highest && j > 0) {
        open_turn(state, j - 1);
        state->turn.delivery = pipeline_start_gradient(model, state->turn.t);
    }
    column_descend(state->step, column);
    if (lowest) {
        drop(state, &own);
    } else {
        own.t = column->grad;
        leave(state, own, pipeline_start_input_gradient);
    }
}

static void walk_back(struct state *state, size_t s)
{
    const struct column_walk *walk = state->walk;
    struct model *model = state->step->model;
    struct stage stage = state->stages.items[s];
    bool highest = s + 1 == state->stages.count;
    size_t B = state->step->batch->batch;
    if (walk->drawn.count) {
        // All columns' are read and written by every column; those of a few stay.
        kv_store_open_gradients(&state->kv, walk->whole ? state->kv.place : PLACE_DEVICE, state->sampled * B);
    }
    list_segments(state);
    for (size_t j = walk->drawn.count; j-- > 0;) {
        size_t c = walk->drawn.items[j], segment_count = segments_read(state, j);
        struct span chunk = column_span(walk->columns, c);
        double factor = walk->loss_factor ? walk->loss_factor[j] : 1;
        scale(state, stage, j);
        struct column column = {.stage = stage,
                                .chunk = chunk,
                                .kv = &state->kv,
                                .cached = is_cached(state, s, c),
                                .next = next_of_walk(state, s, j),
                                .first = j + 1 == walk->drawn.count,
                                .last = j == 0,
                                .segments = state->segments,
                                .segment_count = segment_count,
                                .weights = {state->all ? 1 : factor, factor, state->deferred},
                                .x = column_rows(state->x[s], chunk, B),
                                .grad = column_rows(state->x[state->stages.count - 1], chunk, B)};
        walk_column(state, &column, j);
    }
    drop(state, &state->leaving);
    kv_store_close(&state->kv);
    if (!highest) {
        tensor_free(model->device, &state->x[s]);
    }
}

static void multiply_slope_in(struct step *step)
{
    struct model *model = step->model;
    double slope = objective_settle_deferred(model->device, step->batch, step->loss);
    for (size_t i = 0; i < model->parameter_count; i++) {
        if (model->parameters[i].grad.data) {
            op_scale(model->device, model->parameters[i].grad, slope);
        }
    }
}

void column_walk(struct step *step, const struct column_walk *walk)
{
    struct state state;
    state_open(&state, step, walk);
    objective_begin(step->model->device, step->batch);
    size_t highest = state.stages.count - 1, lowest = step->model->lowest_trained;
    state.x[0] = pass_below(&state);
    for (size_t s = 0; s < highest; s++) {
        pass_through(&state, s);
    }
    fill_cache(&state, highest);
    if (state.gathers && ranks_highest(&step->model->ranks)) {
        objective_settle(step->model->device, &step->model->ranks.replicas, step->batch, step->loss);
    }
    if (walk->drawn.count == 0) {
        unit_done_all(step->model);
    }
    walk_back(&state, highest);
    for (size_t s = highest; s-- > 0;) {
        fill_cache(&state, s);
        walk_back(&state, s);
    }
    if (lowest > 0 && walk->drawn.count > 0) {
        unit_done_below(step->model, lowest);
        unit_done(step->model, UNIT_EMBEDDING);
    }
    unit_settle(step->model);
    unit_sum_ends(step->model);
    if (state.deferred) {
        multiply_slope_in(step);
    }
    tensor_free(step->model->device, &state.x[highest]);
    state_close(&state);
}

double column_walk_kept(const struct model *model, const struct column_options *options,
                        const struct column_walk *walk)
{
    struct stages stages = rank_stages(model, options, walk->share);
    // With all losses the highest stage alone goes to the end: a bound for several has the others' part.
    size_t columns = walk->all_losses && stages.count == 1 ? walk->columns.count : reached_of(walk);
    double context = (double)tokens_of(walk, walk->columns.count),
           reached = (double)tokens_of(walk, columns) / context, sampled = (double)sampled_of(walk) / context;
    struct stage_cost cost = cost_of(model, reached, sampled);
    double others = cost_input(model) * sampled + (model->lowest_trained > 0 ? cost_hidden(model) * reached : 0);
    if (options->offload == COLUMN_OFFLOAD_KV) {
        double slot = cost_kv(model) * reached + (walk->whole ? cost_kv_gradients(model) : 0);
        cost.row = walk->whole ? 0 : cost_kv_gradients(model) * sampled;
        cost.several = slot;
        others += slot;
    }
    double kept = stages_kept(&stages, cost) + others;
    stages_free(&stages);
    return kept;
}
