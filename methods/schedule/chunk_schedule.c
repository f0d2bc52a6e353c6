#include "methods/schedule/chunk_schedule.h"
#include "kernels/layers/choices.h"
#include "methods/schedule/cost.h"
#include "methods/schedule/pipeline.h"

// Number of chunks whose inputs are requested in advance from the rank below, if each has its own buffer: a link's
// latency may be several chunks' time.
#define AHEAD 8

// A tensor in transit from or to a neighbour.
struct transfer {
    struct tensor t;
    struct delivery delivery;
    bool owned; // freed after sending
};

// State of a schedule.
struct state {
    struct step *step;
    const struct chunk_schedule *schedule;
    struct segments segments;
    bool gathers;   // the objective needs every chunk's log-probs first
    bool deferred;  // or during the pass, if they only scale the gradient
    bool all;       // the first pass covers all chunks
    size_t needed;  // chunks of the first pass
    size_t reached; // chunks up to the last drawn one
    size_t sampled; // tokens of the drawn chunks
    size_t stride;  // chunks that the first pass runs at once
    // [segments], the input of each segment except the lowest: [needed tokens B, d]. The highest's is replaced by
    // its gradient, then by each lower segment's.
    struct tensor *x;
    struct kv_store kv; // of one segment at a time: carries of all tokens, gradients of the drawn ones
    struct carry_segment *key_segments; // [drawn.count]
    // Places of kept states in a segment's two passes, and in a forward alone, which no gradient follows.
    struct carry_draw draw, draw_forward;
    struct tensor inputs; // [sampled B, d], the drawn chunks' inputs from the rank below
    // Between ranks: inputs of chunks, of which the first `coming` (and `coming_drawn` drawn ones) are requested;
    // the gradient of the next chunk's output; and the latest tensor sent.
    struct transfer *arrivals; // [needed]
    size_t coming, coming_drawn;
    struct transfer output_gradient, leaving;
};

// Tokens of the first `count` chunks.
static size_t tokens_of(const struct chunk_schedule *schedule, size_t count)
{
    struct span last = chunk_span(schedule->chunks, count ? count - 1 : 0);
    return count ? last.start + last.count : 0;
}

// Chunks [c, end), at most the schedule's, as one span.
static struct span span_of(const struct chunk_schedule *schedule, size_t c, size_t end)
{
    size_t start = tokens_of(schedule, c);
    return (struct span){start, tokens_of(schedule, end) - start};
}

// Chunks up to the last drawn one.
static size_t reached_of(const struct chunk_schedule *schedule)
{
    return schedule->drawn.count ? schedule->drawn.items[schedule->drawn.count - 1] + 1 : 0;
}

// Tokens of the first `count` drawn chunks, which precede the next one's in buffers of the drawn ones.
static size_t drawn_tokens(const struct chunk_schedule *schedule, size_t count)
{
    size_t tokens = 0;
    for (size_t j = 0; j < count; j++)
        tokens += chunk_span(schedule->chunks, schedule->drawn.items[j]).count;
    return tokens;
}

// Bytes per token of a layer's carry in a first pass over `reached` of the tokens, with `sampled` of them in drawn
// chunks, at whose left borders alone states are kept.
static double carry_kept(const struct model *model, size_t l, size_t chunk, double reached, double sampled)
{
    return cost_carry(model, l, chunk) * (config_mixer(&model->config, l)->at_borders ? sampled : reached);
}

// And of its gradients.
static double gradient_kept(const struct model *model, size_t l, const struct chunk_schedule *schedule,
                            double sampled)
{
    return schedule->whole ? cost_sliding_gradient(model, l, schedule->chunks.context)
                           : cost_carry_gradient(model, l) * sampled;
}

// With a first pass over `reached` of the tokens.
static struct segment_cost cost_of(const struct model *model, const struct chunk_schedule *schedule, size_t chunk,
                                   double reached, double sampled)
{
    const struct ranks *ranks = &model->ranks;
    // The gradient replaces the highest segment's input.
    struct segment_cost cost = {.input = cost_hidden(model) * reached, .below = cost_hidden(model) * reached};
    for (size_t l = ranks->first_layer; l < ranks->end_layer; l++)
        cost.layer += carry_kept(model, l, chunk, reached, sampled) + gradient_kept(model, l, schedule, sampled);
    cost.layer /= (double)(ranks->end_layer - ranks->first_layer);
    return cost;
}

// The segments of the rank's layers.
static struct segments rank_segments(const struct model *model, const struct chunk_options *options,
                                     const struct chunk_schedule *schedule)
{
    const struct ranks *ranks = &model->ranks;
    struct segments segments = segments_of(&options->segments, ranks->end_layer - ranks->first_layer,
                                           cost_of(model, schedule, options->chunk, 1, schedule->share));
    for (size_t s = 0; s < segments.count; s++) {
        segments.items[s].first += ranks->first_layer;
        segments.items[s].end += ranks->first_layer;
    }
    segments_raise(&segments, model->lowest_trained);
    return segments;
}

static struct tensor hidden(struct state *state, size_t tokens, enum category category)
{
    struct model *model = state->step->model;
    return tensor_new(model->device, tokens * state->step->batch->batch, model->config.width,
                      model->device->ops->dtype, category);
}

// Possible if every chunk reaches the head and no gradient is consumed before the end.
static bool can_defer(const struct step *step, const struct chunk_schedule *schedule)
{
    const struct model *model = step->model;
    bool kept = model->keeper->gradients_stay && !model->listener;
    bool alone = ranks_lowest(&model->ranks) && ranks_highest(&model->ranks);
    // A router's losses do not scale with the slope.
    return !router_losses_any(&model->router_losses) && objective_defers(step->batch) &&
           (schedule->whole || schedule->all_losses) && kept && alone;
}

static void list_gaps(struct carry_draw *draw, const struct chunk_schedule *schedule)
{
    const struct index_list *chunks = &schedule->drawn;
    *draw = (struct carry_draw){
        .chunks = *chunks, .gaps = calloc(chunks->count + 1, sizeof *draw->gaps), .passage = schedule->passage};
    CHECK(draw->gaps);
    for (size_t j = 1; j < chunks->count; j++)
        draw->gaps[j] = draw->gaps[j - 1] + (chunks->items[j] > chunks->items[j - 1] + 1);
}

static void state_open(struct state *state, struct step *step, const struct chunk_schedule *schedule)
{
    size_t count = schedule->drawn.count;
    const struct chunk_options *options = step->options;
    bool deferred = can_defer(step, schedule), gathers = objective_gathers(step->batch) && !deferred;
    *state = (struct state){.step = step,
                            .schedule = schedule,
                            .gathers = gathers,
                            .deferred = deferred,
                            .all = schedule->all_losses || gathers};
    state->reached = reached_of(schedule);
    state->sampled = drawn_tokens(schedule, schedule->drawn.count);
    state->needed = state->all ? schedule->chunks.count : state->reached;
    size_t chunk = schedule->chunks.chunk;
    state->stride = options->first_chunk > chunk ? (options->first_chunk - 1) / chunk + 1 : 1;
    state->segments = rank_segments(step->model, options, schedule);
    state->x = calloc(state->segments.count, sizeof *state->x);
    state->key_segments = calloc(count + 1, sizeof *state->key_segments);
    CHECK(state->segments.items && state->x && state->key_segments);
    CHECK(schedule->at_once.count == 0 || (state->segments.count == 1 && !gathers));
    list_gaps(&state->draw, schedule);
    state->draw_forward = state->draw;
    state->draw_forward.passage = STATE_CUT;
    if (!ranks_lowest(&step->model->ranks)) {
        CHECK(state->segments.count == 1);
        CHECK(state->arrivals = calloc(state->needed + 1, sizeof *state->arrivals));
        state->inputs = hidden(state, state->sampled, CATEGORY_HIDDEN_CHECKPOINTS);
    }
}

static void state_close(struct state *state)
{
    tensor_free(state->step->model->device, &state->inputs);
    free(state->arrivals);
    free(state->draw.gaps);
    free(state->key_segments);
    free(state->x);
    segments_free(&state->segments);
}

static struct carry_size size_of(const struct state *state, size_t tokens)
{
    return carry_size_of(state->step->batch, tokens, state->schedule->chunks.chunk);
}

// Opens the carries of a segment's layers, for the first `count` chunks.
static void kv_open(struct state *state, struct segment segment, size_t count, const struct carry_draw *draw)
{
    const struct chunk_options *options = state->step->options;
    struct carry_size size = size_of(state, tokens_of(state->schedule, count));
    size.draw = state->schedule->whole ? NULL : draw;
    kv_store_open(&state->kv, state->step->model, segment.first, segment.end,
                  options->offload & OFFLOAD_KV ? PLACE_HOST : PLACE_DEVICE, size);
}

// Opens the gradients of the drawn chunks' keys and values. A chunk at once has its own keys' in the place of the
// next drawn chunk, which may be a shorter last one.
static void open_gradients(struct state *state)
{
    const struct chunk_schedule *schedule = state->schedule;
    size_t tokens = state->sampled;
    if (schedule->at_once.count)
        tokens += schedule->chunks.chunk - chunk_span(schedule->chunks, state->reached - 1).count;
    struct carry_size size = size_of(state, tokens);
    size.slides = schedule->whole;
    // With all chunks drawn, every chunk reads and writes all of them; those of a few stay on the device.
    kv_store_open_gradients(&state->kv, schedule->whole ? state->kv.place : PLACE_DEVICE, size);
}

// The chunks from c on that a first pass over `count` chunks runs at once.
static struct span pass_span(const struct state *state, size_t c, size_t count)
{
    return span_of(state->schedule, c, count - c < state->stride ? count : c + state->stride);
}

// After a span of a first pass: the next one of the same segment, or else the layer `above`.
static struct chunk_next next_of_pass(const struct state *state, struct segment segment, struct span chunk,
                                      size_t above)
{
    size_t end = chunk.start + chunk.count;
    bool same = end < tokens_of(state->schedule, state->needed);
    size_t rows = end * state->step->batch->batch;
    return (struct chunk_next){
        .any = true, .layer = same ? segment.first : above, .same = same, .start = rows, .rows = rows};
}

// Number of chunks whose keys and values segment s keeps.
static size_t count_in(const struct state *state, size_t s)
{
    return s + 1 == state->segments.count ? state->needed : state->reached;
}

// Tells whether the first pass has chunk c's keys and values in segment s.
static bool is_cached(const struct state *state, size_t s, size_t c)
{
    bool highest = s + 1 == state->segments.count;
    return (highest && state->gathers) || c + 1 < count_in(state, s);
}

// After drawn chunk j of the second pass, or after the first pass: the next one to the left in segment s, or the
// first of the segment below.
static struct chunk_next next_of_schedule(const struct state *state, size_t s, size_t j)
{
    struct chunk_next next = {.any = j > 0 || (s > 0 && state->schedule->drawn.count > 0), .same = j > 0};
    if (next.any)
        next.layer = state->segments.items[next.same ? s : s - 1].first;
    if (next.same) {
        size_t c = state->schedule->drawn.items[j - 1], B = state->step->batch->batch;
        next.start = tokens_of(state->schedule, c) * B;
        next.rows = tokens_of(state->schedule, c + is_cached(state, s, c)) * B;
    }
    return next;
}

// A segment's forward alone, up to the input of the segment above. Keeps nothing else.
static void pass_through(struct state *state, size_t s)
{
    struct segment segment = state->segments.items[s];
    size_t B = state->step->batch->batch;
    state->x[s + 1] = hidden(state, tokens_of(state->schedule, state->needed), CATEGORY_HIDDEN_CHECKPOINTS);
    kv_open(state, segment, state->needed, &state->draw_forward);
    for (size_t c = 0; c < state->needed; c += state->stride) {
        struct span chunk = pass_span(state, c, state->needed);
        chunk_forward(state->step, segment, chunk, &state->kv, chunk_rows(state->x[s], chunk, B),
                      chunk_rows(state->x[s + 1], chunk, B), CHUNK_HIDDEN,
                      next_of_pass(state, segment, chunk, segment.end));
    }
    kv_store_close(&state->kv);
}

// Runs the layers below the lowest segment, which have no backward: its input, layer by layer.
static struct tensor pass_below(struct state *state)
{
    struct tensor x = tensor_none();
    size_t B = state->step->batch->batch;
    for (size_t l = state->step->model->ranks.first_layer; l < state->segments.items[0].first; l++) {
        struct tensor y = hidden(state, tokens_of(state->schedule, state->needed), CATEGORY_HIDDEN_CHECKPOINTS);
        kv_open(state, (struct segment){l, l + 1}, state->needed, &state->draw_forward);
        for (size_t c = 0; c < state->needed; c += state->stride) {
            struct span chunk = pass_span(state, c, state->needed);
            struct tensor x_c = x.data ? chunk_rows(x, chunk, B) : x;
            chunk_forward(state->step, (struct segment){l, l + 1}, chunk, &state->kv, x_c, chunk_rows(y, chunk, B),
                          CHUNK_HIDDEN, next_of_pass(state, (struct segment){l, l + 1}, chunk, l + 1));
        }
        kv_store_close(&state->kv);
        tensor_free(state->step->model->device, &x);
        x = y;
    }
    return x;
}

// Buffer for a drawn chunk's input from the rank below.
static struct tensor input_of(struct state *state, size_t j)
{
    size_t B = state->step->batch->batch;
    return tensor_rows(state->inputs, drawn_tokens(state->schedule, j) * B,
                       chunk_span(state->schedule->chunks, state->schedule->drawn.items[j]).count * B);
}

// Requests inputs from the rank below: this chunk's, the next one's, and of later ones those with their own
// buffers.
static void start_inputs(struct state *state, size_t work)
{
    const struct chunk_schedule *schedule = state->schedule;
    while (state->coming < state->needed && state->coming <= work + AHEAD) {
        size_t c = state->coming, j = state->coming_drawn;
        bool drawn = j < schedule->drawn.count && schedule->drawn.items[j] == c;
        if (!drawn && c > work + 1)
            return;
        struct tensor x =
            drawn ? input_of(state, j) : hidden(state, chunk_span(schedule->chunks, c).count, CATEGORY_ACTIVATIONS);
        state->arrivals[c] =
            (struct transfer){.t = x, .delivery = pipeline_start_input(state->step->model, x), .owned = !drawn};
        state->coming++;
        state->coming_drawn += drawn;
    }
}

static struct tensor take_input(struct state *state, size_t work)
{
    start_inputs(state, work);
    pipeline_wait(state->step->model, &state->arrivals[work].delivery);
    return state->arrivals[work].t;
}

static void drop(struct state *state, struct transfer *transfer)
{
    pipeline_wait(state->step->model, &transfer->delivery);
    if (transfer->owned)
        tensor_free(state->step->model->device, &transfer->t);
    *transfer = (struct transfer){0};
}

// Sends the tensor by `start`, after the previous one has been sent; does not wait.
static void leave(struct state *state, struct transfer transfer,
                  struct delivery (*start)(struct model *model, struct tensor t))
{
    drop(state, &state->leaving);
    transfer.delivery = start(state->step->model, transfer.t);
    state->leaving = transfer;
}

// A span of a segment's first pass, or the rank's. x: its input; no tensor: the embedding.
static void cache_chunk(struct state *state, size_t s, struct span chunk, struct tensor x, bool loss)
{
    struct model *model = state->step->model;
    struct segment segment = state->segments.items[s];
    bool highest = ranks_highest(&model->ranks);
    bool last = chunk.start + chunk.count == tokens_of(state->schedule, count_in(state, s));
    bool counts = s + 1 == state->segments.count && choices_precede(model, segment.end - 1);
    struct tensor y = highest ? tensor_none() : hidden(state, chunk.count, CATEGORY_ACTIVATIONS);
    chunk_forward(state->step, segment, chunk, &state->kv, x, y,
                  !highest ? CHUNK_HIDDEN
                  : loss   ? CHUNK_LOSS
                  : counts ? CHUNK_CHOICES
                           : CHUNK_KV,
                  last ? next_of_schedule(state, s, state->schedule->drawn.count)
                       : next_of_pass(state, segment, chunk, segment.first));
    if (!highest)
        leave(state, (struct transfer){.t = y, .owned = true}, pipeline_start_output);
}

// Lists the keys that take gradients from a chunk: those of the `drawn` drawn chunks to its left, stored
// contiguously in one buffer per layer, and its own behind them. Returns the number of segments.
static size_t list_key_segments(struct state *state, size_t drawn, struct carry_segment own)
{
    const struct chunk_schedule *schedule = state->schedule;
    if (schedule->whole)
        return 1;
    for (size_t i = 0; i < drawn; i++) {
        struct span span = chunk_span(schedule->chunks, schedule->drawn.items[i]);
        double factor = schedule->kv_factor ? schedule->kv_factor[i] : 0;
        state->key_segments[i] = (struct carry_segment){.start = span.start, .count = span.count, .factor = factor};
    }
    state->key_segments[drawn] = own;
    return drawn + 1;
}

// Runs chunk c, with so many drawn ones to its left, forward and backward in the first pass. The place of its own
// keys' gradients is zeroed for whoever has it next.
static void run_at_once(struct state *state, size_t c, size_t drawn)
{
    const struct chunk_schedule *schedule = state->schedule;
    struct model *model = state->step->model;
    struct segment segment = state->segments.items[0];
    struct span chunk = chunk_span(schedule->chunks, c);
    size_t B = state->step->batch->batch, row = drawn_tokens(schedule, drawn) * B;
    double factor = schedule->at_once_factor;
    struct chunk_work work = {.segment = segment,
                              .chunk = chunk,
                              .kv = &state->kv,
                              .next = next_of_pass(state, segment, chunk, segment.first),
                              .key_segments = state->key_segments,
                              .weights = {factor, factor, false},
                              .x = chunk_rows(state->x[0], chunk, B),
                              .grad = chunk_rows(state->x[0], chunk, B)};
    work.key_segment_count =
        list_key_segments(state, drawn, (struct carry_segment){.start = chunk.start, .count = chunk.count});
    choices_weigh(model, factor);
    chunk_rebuild(state->step, &work);
    chunk_descend(state->step, &work);
    for (size_t l = segment.first; l < segment.end; l++)
        carry_zero(model, carry_rows(state->kv.grad[l], row, chunk.count * B));
}

// First pass: everything that drawn chunks attend to. In the highest segment with all losses, all chunks; with an
// objective that gathers, all chunks up to the head, including drawn ones.
static void fill_cache(struct state *state, size_t s)
{
    const struct chunk_schedule *schedule = state->schedule;
    bool highest = s + 1 == state->segments.count, gathers = highest && state->gathers;
    bool lowest = ranks_lowest(&state->step->model->ranks);
    size_t count = count_in(state, s), j = 0, n = 0, B = state->step->batch->batch;
    kv_open(state, state->segments.items[s], count, &state->draw);
    if (schedule->at_once.count)
        open_gradients(state);
    // No chunk reads the keys of a drawn last one before its own second pass writes them.
    size_t end = count - (count == state->reached && count > 0 && !gathers);
    for (size_t c = 0; c < end; c += state->stride) {
        struct span chunk = pass_span(state, c, end);
        while (j < schedule->drawn.count && schedule->drawn.items[j] < c)
            j++;
        if (n < schedule->at_once.count && schedule->at_once.items[n] == c) {
            run_at_once(state, c, j);
            n++;
            continue;
        }
        bool drawn = j < schedule->drawn.count && schedule->drawn.items[j] == c;
        bool loss = gathers || (highest && state->all && !drawn);
        struct tensor x = lowest ? chunk_rows(state->x[s], chunk, B) : take_input(state, c);
        cache_chunk(state, s, chunk, x, loss);
        if (!lowest && !drawn)
            drop(state, &state->arrivals[c]);
    }
}

// Scales the gradients that chunks to the right added to the keys of chunk j, before it adds its own. A state's
// gradient passes through the chunk as it is: its factor applies where it enters the chunk's tokens.
static void scale(struct state *state, struct segment segment, size_t j)
{
    const struct chunk_schedule *schedule = state->schedule;
    size_t B = state->step->batch->batch, row = drawn_tokens(schedule, j) * B;
    size_t rows = chunk_span(schedule->chunks, schedule->drawn.items[j]).count * B;
    for (size_t l = segment.first; schedule->kv_factor && j + 1 < schedule->drawn.count && l < segment.end; l++) {
        struct carry grad = carry_rows(state->kv.grad[l], row, rows);
        for (size_t i = 0; !grad.border && i < CARRY_TENSORS; i++)
            op_scale(state->step->model->device, grad.t[i], schedule->kv_factor[j]);
    }
}

// Allocates the gradient of drawn chunk j's output, which the rank above sends.
static void open_output_gradient(struct state *state, size_t j)
{
    struct span chunk = chunk_span(state->schedule->chunks, state->schedule->drawn.items[j]);
    state->output_gradient =
        (struct transfer){.t = hidden(state, chunk.count, CATEGORY_ACTIVATIONS), .owned = true};
}

// One chunk of the second pass. If the first pass did not run it, sends its output up and receives the gradient in
// its place. Requests the next chunk's inputs while this one runs backward.
static void run_chunk(struct state *state, struct chunk_work *work, size_t j)
{
    struct model *model = state->step->model;
    bool lowest = ranks_lowest(&model->ranks), highest = ranks_highest(&model->ranks);
    struct transfer own = {0};
    if (!lowest)
        work->x = work->grad = take_input(state, state->schedule->drawn.items[j]);
    if (!highest) {
        if (work->first)
            open_output_gradient(state, j);
        own = state->output_gradient;
        work->grad = own.t;
        work->y = work->cached ? tensor_none() : own.t;
    }
    if (work->cached && !own.delivery.going)
        own.delivery = pipeline_start_gradient(model, own.t);
    chunk_rebuild(state->step, work);
    if (!work->cached) {
        drop(state, &state->leaving);
        pipeline_pass_output(model, work->y);
        own.delivery = pipeline_start_gradient(model, own.t);
    }
    choices_settle(model);
    pipeline_wait(model, &own.delivery);
    if (!highest && j > 0) {
        open_output_gradient(state, j - 1);
        state->output_gradient.delivery = pipeline_start_gradient(model, state->output_gradient.t);
    }
    chunk_descend(state->step, work);
    if (lowest) {
        drop(state, &own);
    } else {
        own.t = work->grad;
        leave(state, own, pipeline_start_input_gradient);
    }
}

static void run_backward(struct state *state, size_t s)
{
    const struct chunk_schedule *schedule = state->schedule;
    struct model *model = state->step->model;
    struct segment segment = state->segments.items[s];
    bool highest = s + 1 == state->segments.count;
    size_t B = state->step->batch->batch;
    if (schedule->drawn.count && schedule->at_once.count == 0)
        open_gradients(state);
    for (size_t j = schedule->drawn.count; j-- > 0;) {
        size_t c = schedule->drawn.items[j];
        struct span chunk = chunk_span(schedule->chunks, c);
        double factor = schedule->loss_factor ? schedule->loss_factor[j] : 1;
        // Nothing comes to the last chunk's tokens.
        double coming = schedule->kv_factor && j + 1 < schedule->drawn.count ? schedule->kv_factor[j] : 0;
        struct carry_segment own = {.start = chunk.start, .count = chunk.count, .factor = coming};
        scale(state, segment, j);
        choices_weigh(model, factor);
        struct chunk_work work = {.segment = segment,
                                  .chunk = chunk,
                                  .kv = &state->kv,
                                  .cached = is_cached(state, s, c),
                                  .next = next_of_schedule(state, s, j),
                                  .first = j + 1 == schedule->drawn.count,
                                  .last = j == 0,
                                  .whole = schedule->whole,
                                  .key_segments = state->key_segments,
                                  .key_segment_count = list_key_segments(state, j, own),
                                  .weights = {state->all ? 1 : factor, factor, state->deferred},
                                  .x = chunk_rows(state->x[s], chunk, B),
                                  .grad = chunk_rows(state->x[state->segments.count - 1], chunk, B)};
        run_chunk(state, &work, j);
    }
    drop(state, &state->leaving);
    kv_store_close(&state->kv);
    if (!highest)
        tensor_free(model->device, &state->x[s]);
}

static void multiply_slope_in(struct step *step)
{
    struct model *model = step->model;
    double slope = objective_settle_deferred(model->device, step->batch, step->loss);
    for (size_t i = 0; i < model->parameter_count; i++)
        if (model->parameters[i].grad.data)
            op_scale(model->device, model->parameters[i].grad, slope);
}

void chunk_schedule_run(struct step *step, const struct chunk_schedule *schedule)
{
    struct state state;
    state_open(&state, step, schedule);
    objective_begin(step->model->device, step->batch);
    size_t highest = state.segments.count - 1, lowest = step->model->lowest_trained;
    state.x[0] = pass_below(&state);
    for (size_t s = 0; s < highest; s++)
        pass_through(&state, s);
    fill_cache(&state, highest);
    if (state.gathers && ranks_highest(&step->model->ranks))
        objective_settle(step->model->device, &step->model->ranks.replicas, step->batch, step->loss);
    if (schedule->drawn.count == 0)
        unit_done_all(step->model);
    run_backward(&state, highest);
    for (size_t s = highest; s-- > 0;) {
        fill_cache(&state, s);
        run_backward(&state, s);
    }
    if (lowest > 0 && schedule->drawn.count > 0) {
        unit_done_below(step->model, lowest);
        unit_done(step->model, UNIT_EMBEDDING);
    }
    unit_settle(step->model);
    unit_sum_ends(step->model);
    if (state.deferred)
        multiply_slope_in(step);
    tensor_free(step->model->device, &state.x[highest]);
    state_close(&state);
}

double chunk_schedule_kept(const struct model *model, const struct chunk_options *options,
                           const struct chunk_schedule *schedule)
{
    struct segments segments = rank_segments(model, options, schedule);
    // With all losses only the highest segment covers all chunks: a bound for several segments uses the others'
    // part.
    size_t chunks = schedule->all_losses && segments.count == 1 ? schedule->chunks.count : reached_of(schedule);
    double context = (double)tokens_of(schedule, schedule->chunks.count),
           reached = (double)tokens_of(schedule, chunks) / context,
           sampled = (double)drawn_tokens(schedule, schedule->drawn.count) / context;
    struct segment_cost cost = cost_of(model, schedule, options->chunk, reached, sampled);
    double others = cost_input(model) * sampled + (model->lowest_trained > 0 ? cost_hidden(model) * reached : 0);
    double *layers = calloc(model->config.layers, sizeof *layers), buffer = 0;
    CHECK(layers);
    bool offload = options->offload & OFFLOAD_KV;
    for (size_t l = 0; l < model->config.layers; l++) {
        double carry = carry_kept(model, l, options->chunk, reached, sampled),
               gradient = gradient_kept(model, l, schedule, sampled),
               buffered = carry + (schedule->whole ? gradient : 0);
        layers[l] = !offload ? carry + gradient : schedule->whole ? 0 : gradient;
        buffer = offload && buffered > buffer ? buffered : buffer;
    }
    cost.several = buffer;
    double kept = segments_kept(&segments, cost, layers) + cost_choices(model) + others + buffer;
    free(layers);
    segments_free(&segments);
    return kept;
}
