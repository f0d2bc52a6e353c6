// Replica checks: a step over ranks against one rank's, at every level of ZeRO: gradients and loss, bytes by closed
// forms, and all that is counted as a plan of the same rank has it.
#pragma once
#include "kernels/model/unit_parameters.h"
#include "methods/schedule/layer_schedule.h"
#include "tests/replicas.h"
#include <math.h>

// ---- one step

// How often a step acquires each unit.
struct uses {
    struct unit_listener listener;
    size_t count[16];
};

static void count_use(struct unit_listener *listener, struct model *model, size_t unit)
{
    (void)model;
    ((struct uses *)listener)->count[unit]++;
}

static struct measured step_of(struct trainer *trainer, struct batch *batch, const struct method *method,
                               const char *text)
{
    struct model *model = trainer->model;
    struct device *device = model->device;
    struct step_report report = {0};
    void *options = fixture_options(method, "%s", text);
    trainer_zero(trainer);
    arena_reset_peak(&device->arena);
    device->counters = (struct counters){0};
    method_step(method, model, batch, options, &report);
    assert_int_equal(device->status.code, STATUS_OK);
    double aux_loss = report.sums.metrics[METRIC_AUX_LOSS], z_loss = report.sums.metrics[METRIC_ROUTER_Z_LOSS];
    double losses = model->router_losses.aux * aux_loss + model->router_losses.z * z_loss;
    struct measured measured = {device->counters, device->arena.peak_bytes, report.sums.loss + losses};
    step_report_free(&report);
    options_free(&method->options, options);
    return measured;
}

// ---- bytes

struct sent {
    double bytes;
    size_t messages;
};

static size_t share_of(size_t blocks, size_t rank)
{
    size_t P = world.comm.size;
    return blocks / P + (rank < blocks % P);
}

// In nodes: each rank of a node has the blocks that its like own in all of them, from the others of the node or for
// them; and of these the others' like it.
static void send_blocks_by_nodes(struct sent *sent, size_t node, size_t blocks, size_t bytes, bool sum, bool gather)
{
    size_t P = world.comm.size, rank = world.comm.rank, place = rank % node;
    for (size_t r = 0; r < P; r++) {
        size_t share = share_of(blocks, r), times = 0;
        bool like = r % node == place;
        times += sum && (!like || r != rank);
        times += gather && like ? node - 1 : 0;
        times += gather && r == rank ? P / node - 1 : 0;
        sent->bytes += (double)(times * share * bytes);
        sent->messages += share > 0 ? times : 0;
    }
}

// Counts this rank's share of `blocks` blocks of `bytes` bytes, and the ranks with blocks.
static void send_blocks(struct sent *sent, size_t blocks, size_t bytes, bool sum, bool gather)
{
    size_t P = world.comm.size, rank = world.comm.rank, own = blocks / P + (rank < blocks % P), owners = 0;
    for (size_t r = 0; r < P; r++)
        owners += r != rank && blocks / P + (r < blocks % P) > 0;
    sent->bytes += sum ? (double)((blocks - own) * bytes) : 0;
    sent->messages += sum ? owners : 0;
    sent->bytes += gather ? (double)((P - 1) * own * bytes) : 0;
    sent->messages += gather && own ? P - 1 : 0;
}

// Counts every other rank's blocks, once each, in P - 1 messages; twice if all ranks get the sums.
static void pass_blocks(struct sent *sent, size_t blocks, size_t bytes, bool all)
{
    size_t P = world.comm.size, own = blocks / P + (world.comm.rank < blocks % P);
    sent->bytes += (double)((1 + all) * (blocks - own) * bytes);
    sent->messages += (1 + all) * (P - 1);
}

// Numbers of a token's carry: keys and values, or a latent.
static size_t carry_cols(const struct fixture *f, size_t l)
{
    struct pair_shape shape = config_mixer(&f->config, l)->carry(&f->model, l).value;
    return shape.cols[0] + shape.cols[1];
}

// Counts a gather of a layer's carry and the sum of its gradients: each rank sends its own tokens' to all others,
// and the gradients of their tokens to them.
static void send_carry(struct sent *sent, const struct fixture *f, size_t l, size_t gathers)
{
    const struct comm *ranks = &f->ranks->sequence;
    size_t P = ranks->size, elements = carry_cols(f, l) * f->batch.batch, own = 0, others = 0;
    size_t own_pieces = 0, other_pieces = 0;
    for (size_t piece = 0; piece < 2 * P; piece++) {
        size_t tokens = f->context / (2 * P) + (piece < f->context % (2 * P));
        bool mine = piece == ranks->rank || piece == 2 * P - 1 - ranks->rank;
        own += mine ? tokens : 0;
        others += mine ? 0 : tokens;
        own_pieces += mine && tokens;
        other_pieces += !mine && tokens;
    }
    sent->bytes += (double)(gathers * (P - 1) * own * elements * dtype_bytes(f->dtype));
    sent->messages += gathers * (P - 1) * own_pieces * 2;
    sent->bytes += (double)(others * elements * dtype_bytes(f->model.kv_gradient_dtype));
    sent->messages += other_pieces * 2;
}

// Counts a layer's carry in a ring: every stop but the last passes it on, and after it, from the rank right of its
// owner, its gradients. rounds: those of the carry.
static void pass_carry(struct sent *sent, const struct fixture *f, size_t l, size_t rounds)
{
    const struct comm *ranks = &f->ranks->sequence;
    size_t P = ranks->size, elements = carry_cols(f, l) * f->batch.batch;
    for (size_t stop = 0; stop < P; stop++) {
        struct pieces pieces = pieces_of(f->context, P, (ranks->rank + P - stop) % P);
        size_t tokens = pieces_count(&pieces);
        bool keys = stop + 1 < P, gradients = stop > 0;
        sent->bytes += keys ? (double)(rounds * tokens * elements * dtype_bytes(f->dtype)) : 0;
        sent->bytes += gradients ? (double)(tokens * elements * dtype_bytes(f->model.kv_gradient_dtype)) : 0;
        sent->messages += tokens ? 2 * (keys * rounds + gradients) : 0;
    }
}

// Counts gathers of `bytes` of every piece of the ranks' tokens, merged as they merge them.
static void gather_pieces(struct sent *sent, const struct fixture *f, size_t bytes, size_t times)
{
    const struct comm *ranks = &f->ranks->sequence;
    struct pieces own = pieces_of(f->context, ranks->size, ranks->rank);
    for (size_t i = 0; i < PIECES; i++) {
        size_t sends = own.items[i].count > 0 ? times * (ranks->size - 1) : 0;
        sent->bytes += (double)(sends * bytes);
        sent->messages += sends;
    }
}

// Counts a layer's states, what passes them on, and tails: as often as it mixes, on the way up, and their
// gradients.
static void pass_states(struct sent *sent, const struct fixture *f, size_t l, size_t mixes)
{
    const struct layer_kind *kind = config_kind(&f->config, l);
    struct carry_shape carry = config_mixer(&f->config, l)->carry(&f->model, l);
    size_t B = f->batch.batch, statistic = dtype_bytes(dtype_statistic(f->dtype));
    size_t transition = kind->heads * kind->head_dim * kind->head_dim * B * statistic;
    gather_pieces(sent, f, carry.value.cols[0] * B * statistic, mixes + 1);
    gather_pieces(sent, f, transition, mixes + 1);
    gather_pieces(sent, f, carry.value.cols[1] * B * dtype_bytes(f->dtype), mixes);
    gather_pieces(sent, f, carry.value.cols[1] * B * statistic, 1);
}

// Counts a layer's exchange of heads: a rank sends its own tokens' rows of every other rank's heads (spread), and
// the other tokens' rows of its own heads (collect); `width` numbers a head.
static void send_heads(struct sent *sent, const struct fixture *f, size_t heads, size_t width, size_t bytes,
                       size_t spreads, size_t collects)
{
    const struct comm *ranks = &f->ranks->sequence;
    size_t P = ranks->size, row = (heads > P ? heads / P : 1) * width * f->batch.batch * bytes;
    for (size_t piece = 0; piece < 2 * P; piece++) {
        size_t tokens = f->context / (2 * P) + (piece < f->context % (2 * P));
        bool mine = piece == ranks->rank || piece == 2 * P - 1 - ranks->rank;
        size_t times = mine ? spreads * (P - 1) : collects;
        sent->bytes += (double)(times * tokens * row);
        sent->messages += tokens ? times : 0;
    }
}

// carries: how often keys and values, or latents, are brought; projects: how often a mixer reads its projections,
// and mixes: how often it runs, on the way up.
static void send_all_to_all(struct sent *sent, const struct fixture *f, size_t l, size_t carries, size_t projects,
                            size_t mixes)
{
    const struct layer_kind *kind = config_kind(&f->config, l);
    size_t e = dtype_bytes(f->dtype), statistic = dtype_bytes(dtype_statistic(f->dtype));
    size_t value_dim = kind->value_dim ? kind->value_dim : kind->head_dim;
    if (config_mixer(&f->config, l)->at_borders) {
        size_t group = kind->heads / kind->kv_heads; // a key head's q, k and v in a message; a, b
        size_t width = 2 * kind->head_dim + group * value_dim;
        send_heads(sent, f, kind->kv_heads, width, e, projects, 1);
        send_heads(sent, f, kind->heads, 1, e, 2 * projects, 2);
        send_heads(sent, f, kind->heads, value_dim, e, 1, mixes); // grad_o; o
        return;
    }
    if (kind->kv_rank > 0) {
        send_carry(sent, f, l, carries);
    } else {
        send_heads(sent, f, kind->kv_heads, kind->head_dim, e, 2 * carries, 0);
        send_heads(sent, f, kind->kv_heads, kind->head_dim, dtype_bytes(f->model.kv_gradient_dtype), 0, 2);
    }
    send_heads(sent, f, kind->heads, kind->head_dim, e, mixes + 1, 1); // q, grad_q
    send_heads(sent, f, kind->heads, value_dim, e, 2, mixes);          // o and its gradient; o
    send_heads(sent, f, kind->heads, 1, statistic, 1, mixes);
}

// Sum over ranks of `count` numbers of 8 bytes.
static void send_sums(struct sent *sent, const struct comm *ranks, size_t count)
{
    size_t P = ranks->size, own = comm_share(count, P, ranks->rank).count;
    sent->bytes += (double)(8 * (count - own) + 8 * (P - 1) * own);
    sent->messages += (P < count ? P : count) - (own > 0) + (own > 0) * (P - 1);
}

// Whether the layer's attention is rebuilt: not in full, nor where what it gave is kept, as of every row but a
// lower segment's highest.
static bool rebuilds_attention(const struct model *model, const struct method *method, const char *text, size_t l)
{
    void *options = fixture_options(method, "%s", text);
    bool rebuilds = method != method_find("full");
    if (options_choice(&method->options, options, "attention", 0) == LAYER_ATTENTION_KEPT) {
        struct segment_options asked = {.count = options_count(&method->options, options, "segments", 1)};
        struct segments segments = layer_segments(model, &asked, LAYER_ATTENTION_KEPT);
        rebuilds = false;
        for (size_t s = 0; s + 1 < segments.count; s++)
            rebuilds |= l + 1 == segments.items[s].end;
        segments_free(&segments);
    }
    options_free(&method->options, options);
    return rebuilds;
}

// Whether what its ranks send is stated here; another method's is held to its plan alone.
static bool sent_is_stated(const struct method *method)
{
    static const char *const stated[] = {"full", "checkpoint", "streambp", "seco", "spaco", "deferred"};
    size_t i = 0;
    while (i < sizeof stated / sizeof *stated && strcmp(stated[i], method->name) != 0)
        i++;
    return i < sizeof stated / sizeof *stated;
}

// By the closed form: gradients once, in zero 0 twice; in zero 3 weights as often as they are acquired, as codes
// and scales if they are kept so. Blocks are of 256 numbers.
static struct sent sent_by(const struct fixture *f, const struct method *method, const char *text, enum zero zero,
                           const size_t *uses)
{
    struct sent sent = {0};
    const struct model *model = &f->model;
    for (size_t l = 0; batch_is_shared(&f->batch) && l < model->config.layers; l++) {
        bool rebuilds = rebuilds_attention(model, method, text, l);
        size_t carries = uses[unit_of_layer(l)];
        if (f->ranks->exchange != EXCHANGE_ALL_TO_ALL && config_mixer(&f->config, l)->at_borders)
            pass_states(&sent, f, l, carries - (method == method_find("full")));
        else if (f->ranks->exchange == EXCHANGE_RING)
            pass_carry(&sent, f, l, carries + rebuilds);
        else if (f->ranks->exchange == EXCHANGE_ALL_TO_ALL)
            send_all_to_all(&sent, f, l, carries, carries - (method == method_find("full")),
                            carries + rebuilds - 1);
        else
            send_carry(&sent, f, l, carries);
    }
    if (batch_is_shared(&f->batch) && objective_gathers(&f->batch))
        send_sums(&sent, &f->ranks->sequence, f->batch.sequences);
    if (objective_terms(f->batch.objective, f->batch.settings).sequences.mismatched)
        send_sums(&sent, &f->ranks->replicas, 2);
    const struct router_losses *losses = &model->router_losses;
    bool by_sequence = losses->form == ROUTER_LOSS_SEQUENCE;
    size_t totals = 0;
    for (size_t l = 0; l < model->config.layers && router_losses_any(losses); l++)
        totals += config_mlp(&model->config, l)->chooses ? router_totals(&model->config.experts.routing) : 0;
    if (totals > 0 && !by_sequence)
        send_sums(&sent, &f->ranks->replicas, totals);
    else if (totals > 0 && f->ranks->sequence.size > 1)
        send_sums(&sent, &f->ranks->sequence, totals * f->batch.batch);
    size_t g = 256 * dtype_bytes(model->gradient_dtype), e = 256 * dtype_bytes(model->device->ops->dtype);
    size_t codes = f->quantisation == QUANTISATION_INT8 ? 256 : 128;
    size_t scales = f->quantisation == QUANTISATION_MXFP4 ? 8 : 16;
    for (size_t unit = 0; unit < unit_count(model); unit++) {
        struct parameters parameters = unit_parameters(model, unit);
        size_t blocks[3] = {0};
        for (size_t i = 0; i < parameters.count; i++) {
            const struct parameter *p = &parameters.items[i];
            blocks[p->coded ? 2 : p->trains] += (p->value.rows * p->value.cols + 255) / 256;
        }
        if (f->ranks->replicas.node > 1) {
            size_t node = f->ranks->replicas.node, gathers = zero == ZERO_WEIGHTS ? uses[unit] : 0;
            send_blocks_by_nodes(&sent, node, blocks[1], g, true, zero == ZERO_NOTHING);
            for (size_t use = 0; use < gathers; use++) {
                send_blocks_by_nodes(&sent, node, blocks[0], e, false, true);
                send_blocks_by_nodes(&sent, node, blocks[1], e, false, true);
                send_blocks_by_nodes(&sent, node, blocks[2], codes, false, true);
                send_blocks_by_nodes(&sent, node, blocks[2], scales, false, true);
            }
            continue;
        }
        if (blocks[1] && f->ranks->sum == SUM_ENGINE)
            pass_blocks(&sent, blocks[1], g, zero == ZERO_NOTHING);
        else if (blocks[1])
            send_blocks(&sent, blocks[1], g, true, zero == ZERO_NOTHING);
        for (size_t use = 0; zero == ZERO_WEIGHTS && use < uses[unit]; use++) {
            send_blocks(&sent, blocks[0], e, false, true);
            send_blocks(&sent, blocks[1], e, false, true);
            send_blocks(&sent, blocks[2], codes, false, true);
            send_blocks(&sent, blocks[2], scales, false, true);
        }
    }
    return sent;
}

// ---- gradients

// This rank's part of all gradients, `count` of them; NaN elsewhere. To be freed.
static double *own_gradients(const struct model *model, size_t count, size_t *own)
{
    size_t at = 0;
    double *values = malloc((count + 1) * sizeof *values);
    assert_non_null(values);
    *own = 0;
    for (size_t i = 0; i < count; i++)
        values[i] = NAN;
    for (size_t i = 0; i < model->parameter_count; i++) {
        const struct parameter *p = &model->parameters[i];
        if (p->trains) {
            struct parameter share = bucket_share(p);
            tensor_read(model->device, share.grad, values + at + share.first);
            *own += tensor_count(share.grad);
        }
        at += model_can_train(model, p) ? p->size : 0;
    }
    return values;
}

static size_t count_trained(const struct model *model)
{
    size_t count = 0;
    for (size_t i = 0; i < model->parameter_count; i++)
        count += model_can_train(model, &model->parameters[i]) ? model->parameters[i].size : 0;
    return count;
}

// ||part - whole|| / ||whole||, of one parameter after another; over what the part has.
static void assert_part_of(const struct model *model, const double *part, const double *whole, double max)
{
    for (size_t i = 0, at = 0; i < model->parameter_count; i++) {
        const struct parameter *p = &model->parameters[i];
        double difference = 0, norm = 0;
        for (size_t j = 0; model_can_train(model, p) && j < p->size; j++, at++) {
            double d = isnan(part[at]) ? 0 : part[at] - whole[at];
            assert_true(isfinite(whole[at]));
            difference += d * d;
            norm += whole[at] * whole[at];
        }
        if (!(difference <= max * max * norm))
            fail_msg("%s: %g", p->name, sqrt(difference / norm));
    }
}

static void assert_same_bits(const double *part, const double *whole, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_true(isnan(part[i]) || memcmp(&part[i], &whole[i], sizeof *part) == 0);
}

// All ranks' parts are of everything, once.
static void assert_complete(size_t own, size_t count)
{
    size_t all[8] = {0}, sum = 0;
    world.ops->gather(&world, all, &own, sizeof own);
    for (size_t r = 0; r < world.comm.size; r++)
        sum += all[r];
    assert_true(world.comm.rank > 0 || sum == count);
}

static void assert_sum(double loss, double whole, double max)
{
    double all[8] = {0}, sum = 0;
    world.ops->gather(&world, all, &loss, sizeof loss);
    for (size_t r = 0; r < world.comm.size; r++)
        sum += all[r];
    assert_true(world.comm.rank > 0 || fabs(sum - whole) <= max * fabs(whole));
}

// f32 and bf16 round every sum, f64 hardly.
static double tolerance(enum dtype dtype)
{
    return dtype == DTYPE_F64 ? 1e-13 : dtype == DTYPE_F32 ? 1e-5 : 2e-2;
}

// Attention in a ring rounds at each of P stops, with other errors than one rank: both results are compared with
// f64, and with each other under a bound of sqrt(P), for roundings in any direction.
static void assert_as_near(const struct setting *s, const double *part, const double *whole, size_t count)
{
    struct setting exact = *s;
    exact.dtype = DTYPE_F64;
    struct fixture f = fixture_of(&exact);
    f.rounding = s->dtype; // the same weights
    fixture_open(&f);
    step_of(&f.trainer, &f.batch, method_find("full"), "");
    double *gradients = fixture_gradients(&f);
    double off = relative_l2(part, gradients, count), one = relative_l2(whole, gradients, count);
    if (!(one > 0 && off <= sqrt((double)world.comm.size) * one))
        fail_msg("off by %g, one rank by %g", off, one);
    free(gradients);
    fixture_close(&f);
}

// Levels of ZeRO that are walked: all; the first and the last of three; the first.
enum levels { ALL = 1, ENDS = ZERO_WEIGHTS, FIRST };

// The whole step, which the first rank takes for all: its loss and its gradients, to be freed.
static double *step_alone(const struct method *method, const struct setting *s, size_t *count, double *loss)
{
    double *gradients = NULL;
    *count = 0;
    if (world.comm.rank == 0) {
        struct fixture one = fixture_of(s);
        fixture_open(&one);
        *loss = step_of(&one.trainer, &one.batch, method, s->options).loss;
        gradients = fixture_gradients(&one);
        *count = one.gradient_count;
        fixture_close(&one);
    }
    world.ops->broadcast(&world, loss, sizeof *loss);
    share_values(&gradients, count);
    return gradients;
}

// The same step again: the same work, and the same bits where sums have an order.
static void step_again(struct fixture *f, const struct method *method, const struct setting *s, struct split split,
                       const struct measured *found, const double *part, size_t count)
{
    size_t own;
    struct measured again = step_of(&f->trainer, &f->batch, method, s->options);
    double *second = own_gradients(&f->model, count, &own);
    assert_same_bytes(found, &again, sizeof again);
    if (split.sum == SUM_ORDERED)
        assert_same_bytes(part, second, count * sizeof *part);
    free(second);
}

// split: of all ranks.
static void check_split(const struct method *method, const struct setting *s, struct split split,
                        enum levels levels)
{
    enum zero highest = method->by_layer ? ZERO_WEIGHTS : ZERO_OPTIMIZER;
    size_t segments = split.stages;
    size_t count;
    double alone_loss, *whole = step_alone(method, s, &count, &alone_loss), *first = NULL;
    for (enum zero zero = ZERO_NOTHING; zero <= highest; zero += levels) {
        split.zero = zero;
        struct fixture f = fixture_of(s);
        struct ranks ranks;
        struct plan plan;
        struct uses uses = {.listener = {.acquire = count_use}};
        size_t own;
        open_replica(&f, &ranks, split);
        f.model.listener = &uses.listener;
        struct measured found = step_of(&f.trainer, &f.batch, method, s->options);
        f.model.listener = NULL;
        double *part = own_gradients(&f.model, count, &own);
        if (zero + levels > highest)
            step_again(&f, method, s, split, &found, part, count);
        if (split.exchange == EXCHANGE_RING && s->dtype == DTYPE_BF16)
            assert_as_near(s, zero == ZERO_NOTHING ? part : first, whole, count);
        else
            assert_part_of(&f.model, part, whole, tolerance(s->dtype));
        assert_sum(found.loss, alone_loss, tolerance(s->dtype));
        if (zero == ZERO_NOTHING)
            first = part;
        else if (split.sum == SUM_ORDERED)
            assert_same_bits(part, first, count);
        if (segments == 1 && zero == ZERO_NOTHING && split.experts == 1) {
            assert_int_equal(own, count);
            assert_same_everywhere(part, count);
        } else if (segments == 1 && zero > ZERO_NOTHING) {
            assert_complete(own, count);
        }
        if (segments == 1 && split.experts == 1 && sent_is_stated(method)) {
            struct sent sent = sent_by(&f, method, s->options, zero, uses.count);
            assert_true(found.counters.sent_bytes == sent.bytes);
            assert_int_equal(found.counters.messages, sent.messages);
        }
        plan_open(&plan, &f, split);
        struct measured planned = step_of(&plan.trainer, &plan.batch, method, s->options);
        assert_as_planned(&found, &planned);
        plan_close(&plan);
        if (part != first)
            free(part);
        fixture_close(&f);
    }
    free(first);
    free(whole);
}

// The same step with what ranks send on its way while they compute: the same bits, bytes and messages, in more
// memory, as planned.
static inline void check_overlap(const struct method *method, const struct setting *s, struct split split)
{
    enum zero highest = method->by_layer ? ZERO_WEIGHTS : ZERO_OPTIMIZER;
    for (split.zero = ZERO_NOTHING; split.zero <= highest; split.zero++) {
        struct measured found[2];
        double *gradients[2];
        size_t count = 0, own;
        for (size_t i = 0; i < 2; i++) {
            struct fixture f = fixture_of(s);
            struct ranks ranks;
            struct plan plan;
            split.overlap = i > 0;
            open_replica(&f, &ranks, split);
            count = count_trained(&f.model);
            found[i] = step_of(&f.trainer, &f.batch, method, s->options);
            gradients[i] = own_gradients(&f.model, count, &own);
            plan_open(&plan, &f, split);
            struct measured planned = step_of(&plan.trainer, &plan.batch, method, s->options);
            assert_as_planned(&found[i], &planned);
            plan_close(&plan);
            fixture_close(&f);
        }
        assert_true(found[0].loss == found[1].loss);
        assert_true(found[0].counters.sent_bytes == found[1].counters.sent_bytes);
        assert_int_equal(found[0].counters.messages, found[1].counters.messages);
        assert_true(found[0].peak_bytes <= found[1].peak_bytes);
        if (split.sum == SUM_ORDERED)
            assert_same_bytes(gradients[0], gradients[1], count * sizeof **gradients);
        free(gradients[0]);
        free(gradients[1]);
    }
}
