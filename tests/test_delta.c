// Gated DeltaNet's operations together: convolution, gates and rule over two runs with a border between them, whose
// gradients are those of central differences; what is exact, however a run is cut; the transition of a state
// against the rule's own gradients; and what the fronts count.
#include "kernels/device/ops.h"
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// Two sequences, one key head of 6 for two value heads of 5.
enum {
    TOKENS = 150,
    BORDER = 77,
    BATCH = 2,
    ROWS = TOKENS * BATCH,
    K = 6,
    V = 5,
    HEADS = 2,
    W = 2 * K + HEADS * V
};

// The inputs, which are differentiated, in this order.
enum given { X, A, B, WEIGHT, A_LOG, DT_BIAS, TAIL, STATE, GIVEN };
static const size_t given_shapes[GIVEN][2] = {{ROWS, W},  {ROWS, HEADS}, {ROWS, HEADS},  {W, 4},
                                              {1, HEADS}, {1, HEADS},    {3 * BATCH, W}, {BATCH * HEADS, K *V}};

struct layer {
    struct device *device;
    bool documents;
    int32_t starts[ROWS], prefixes[BATCH];
    struct tensor device_starts, device_prefixes;
    struct tensor given[GIVEN], grads[GIVEN], tail, state, base_tail, base_state, y, o, decay, beta;
    double values[GIVEN][ROWS * W], by_o[ROWS * HEADS * V], by_state[BATCH * HEADS * K * V], by_tail[3 * BATCH * W];
};

static struct tensor tensor_of(struct layer *l, size_t rows, size_t cols)
{
    struct tensor t = tensor_new(l->device, rows, cols, DTYPE_F64, CATEGORY_WORKSPACE);
    op_zero(l->device, t);
    return t;
}

// The first sequence's prefix is 10 tokens, the second's 11; documents begin there, at 40 and at 130: one
// crosses the border, and the run begins with none.
static void layer_open(struct layer *l, bool documents)
{
    struct status status = {0};
    memset(l, 0, sizeof *l);
    l->device = device_open("cpu", DTYPE_F64, 0, &status);
    assert_non_null(l->device);
    l->documents = documents;
    const double deviations[GIVEN] = {1, 1, 1, 0.5, 1, 1, 1, 0.3};
    for (size_t i = 0; i < GIVEN; i++) {
        size_t count = given_shapes[i][0] * given_shapes[i][1];
        struct random random = random_named(i, "layer");
        l->given[i] = tensor_of(l, given_shapes[i][0], given_shapes[i][1]);
        l->grads[i] = tensor_of(l, given_shapes[i][0], given_shapes[i][1]);
        // A memory that reaches over the border.
        random_normals(&random, 0, count, i == A_LOG ? -5 : 0, deviations[i], l->values[i]);
    }
    struct random random = random_named(0, "weights");
    random_normals(&random, 0, ROWS * HEADS * V, 0, 1, l->by_o);
    random_normals(&random, 10000, BATCH * HEADS * K * V, 0, 1, l->by_state);
    random_normals(&random, 20000, 3 * BATCH * W, 0, 1, l->by_tail);
    l->tail = tensor_of(l, 3 * BATCH, W), l->base_tail = tensor_of(l, 3 * BATCH, W);
    l->state = tensor_of(l, BATCH * HEADS, K * V), l->base_state = tensor_of(l, BATCH * HEADS, K * V);
    l->y = tensor_of(l, ROWS, W), l->o = tensor_of(l, ROWS, HEADS * V);
    l->decay = tensor_of(l, ROWS, HEADS), l->beta = tensor_of(l, ROWS, HEADS);
    l->device_starts = tensor_new(l->device, ROWS, 1, DTYPE_I32, CATEGORY_WORKSPACE);
    l->device_prefixes = tensor_new(l->device, BATCH, 1, DTYPE_I32, CATEGORY_WORKSPACE);
    for (int32_t row = 0; documents && row < ROWS; row++) {
        int32_t t = row / BATCH, b = row % BATCH;
        l->starts[row] = t < 10 + b ? 0 : t < 40 ? 10 + b : t < 130 ? 40 : 130;
        l->prefixes[b] = 10 + b;
    }
    op_upload(l->device, l->device_starts, l->starts);
    op_upload(l->device, l->device_prefixes, l->prefixes);
}

static void layer_close(struct layer *l)
{
    struct tensor *all[] = {&l->tail, &l->state, &l->base_tail, &l->base_state,    &l->y,
                            &l->o,    &l->decay, &l->beta,      &l->device_starts, &l->device_prefixes};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(l->device, all[i]);
    for (size_t i = 0; i < GIVEN; i++) {
        tensor_free(l->device, &l->given[i]);
        tensor_free(l->device, &l->grads[i]);
    }
    device_close(l->device);
}

// Tokens [first, end): with documents from the context's begin on, else further in.
static struct run_shape run_of(const struct layer *l, size_t first, size_t end)
{
    struct run_shape run = {end - first, first + (l->documents ? 0 : 3), BATCH, {0}};
    if (l->documents)
        run.documents = (struct documents){l->starts + first * BATCH,
                                           tensor_rows(l->device_starts, first * BATCH, (end - first) * BATCH),
                                           l->prefixes, l->device_prefixes};
    return run;
}

static struct tensor rows(struct run_shape run, struct tensor t, size_t first)
{
    return tensor_rows(t, first * BATCH, run.tokens * BATCH);
}

static struct delta_shape shape_of(struct run_shape run)
{
    return (struct delta_shape){run, 1, HEADS, K, V};
}

static void forward(struct layer *l, size_t first, size_t end)
{
    struct run_shape run = run_of(l, first, end);
    struct tensor *g = l->given;
    op_short_conv_forward(l->device, run, rows(run, l->y, first), rows(run, g[X], first), l->tail, l->base_tail,
                          g[WEIGHT]);
    op_delta_gates_forward(l->device, rows(run, l->decay, first), rows(run, l->beta, first), rows(run, g[A], first),
                           rows(run, g[B], first), g[A_LOG], g[DT_BIAS], 2);
    op_delta_rule_forward(l->device, shape_of(run), rows(run, l->o, first), l->state, l->base_state,
                          rows(run, l->y, first), rows(run, l->decay, first), rows(run, l->beta, first));
}

static void begin(struct layer *l)
{
    for (size_t i = 0; i < GIVEN; i++)
        tensor_write(l->device, l->given[i], l->values[i]);
    op_copy(l->device, l->tail, l->given[TAIL]);
    op_copy(l->device, l->state, l->given[STATE]);
}

static double product(struct layer *l, struct tensor t, const double *by)
{
    double *values = malloc(tensor_count(t) * sizeof *values), sum = 0;
    assert_non_null(values);
    tensor_read(l->device, t, values);
    for (size_t i = 0; i < tensor_count(t); i++)
        sum += values[i] * by[i];
    free(values);
    return sum;
}

// A loss by o, and by the carry behind the last run.
static double loss_of(struct layer *l)
{
    begin(l);
    forward(l, 0, BORDER);
    forward(l, BORDER, TOKENS);
    return product(l, l->o, l->by_o) + product(l, l->state, l->by_state) + product(l, l->tail, l->by_tail);
}

// tail, state: before the run. Gradients of both in their places.
static void backward(struct layer *l, size_t first, size_t end, struct tensor tail, struct tensor state,
                     struct tensor grad_o, struct tensor grad_bases[2])
{
    struct run_shape run = run_of(l, first, end);
    struct tensor *g = l->given, *d = l->grads;
    struct tensor grad_y = tensor_of(l, run.tokens * BATCH, W),
                  grad_decay = tensor_of(l, run.tokens * BATCH, HEADS);
    struct tensor grad_beta = tensor_of(l, run.tokens * BATCH, HEADS);
    op_delta_rule_backward(l->device, shape_of(run), grad_y, grad_decay, grad_beta, d[STATE], grad_bases[0],
                           rows(run, grad_o, first), state, l->base_state, rows(run, l->y, first),
                           rows(run, l->decay, first), rows(run, l->beta, first));
    op_delta_gates_backward(l->device, rows(run, d[A], first), rows(run, d[B], first), d[A_LOG], d[DT_BIAS],
                            grad_decay, grad_beta, rows(run, g[A], first), rows(run, g[B], first), g[A_LOG],
                            g[DT_BIAS], 2);
    op_short_conv_backward(l->device, run, rows(run, d[X], first), d[TAIL], grad_bases[1], d[WEIGHT], grad_y,
                           rows(run, g[X], first), tail, l->base_tail, g[WEIGHT]);
    tensor_free(l->device, &grad_y);
    tensor_free(l->device, &grad_decay);
    tensor_free(l->device, &grad_beta);
}

static void gradients(struct layer *l)
{
    struct tensor tail = tensor_of(l, 3 * BATCH, W), state = tensor_of(l, BATCH * HEADS, K * V);
    struct tensor grad_o = tensor_of(l, ROWS, HEADS * V);
    struct tensor grad_bases[] = {tensor_of(l, BATCH * HEADS, K * V), tensor_of(l, 3 * BATCH, W)};
    begin(l);
    forward(l, 0, BORDER);
    op_copy(l->device, tail, l->tail);
    op_copy(l->device, state, l->state);
    forward(l, BORDER, TOKENS);
    tensor_write(l->device, grad_o, l->by_o);
    tensor_write(l->device, l->grads[STATE], l->by_state);
    tensor_write(l->device, l->grads[TAIL], l->by_tail);
    backward(l, BORDER, TOKENS, tail, state, grad_o, grad_bases);
    backward(l, 0, BORDER, l->given[TAIL], l->given[STATE], grad_o, grad_bases);
    struct tensor *all[] = {&tail, &state, &grad_o, &grad_bases[0], &grad_bases[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(l->device, all[i]);
}

static void check_differences(bool documents)
{
    static struct layer l;
    static double found[ROWS * W];
    static const char *const names[GIVEN] = {"x", "a", "b", "weight", "a_log", "dt_bias", "tail", "state"};
    layer_open(&l, documents);
    gradients(&l);
    for (size_t i = 0; i < GIVEN; i++) {
        size_t count = tensor_count(l.given[i]), stride = count / 97 + 1;
        tensor_read(l.device, l.grads[i], found);
        for (size_t j = 0; j < count; j += stride) {
            const double step = 1e-5, value = l.values[i][j];
            l.values[i][j] = value + step;
            double above = loss_of(&l);
            l.values[i][j] = value - step;
            double expected = (above - loss_of(&l)) / (2 * step);
            l.values[i][j] = value;
            if (!(fabs(found[j] - expected) <= 1e-7 * fmax(1, fabs(expected))))
                fail_msg("%s[%zu]%s: %.12g, by differences %.12g", names[i], j, documents ? ", documents" : "",
                         found[j], expected);
        }
    }
    layer_close(&l);
}

static void gradients_are_those_of_differences(void **state)
{
    (void)state;
    check_differences(false);
}

static void gradients_with_documents_are_too(void **state)
{
    (void)state;
    check_differences(true);
}

// The convolution's bits wherever runs are cut, the rule's where its blocks are the same.
static void cuts_leave_the_bits(void **state)
{
    (void)state;
    static struct layer l;
    static double whole[3][ROWS * W], cut[3][ROWS * W];
    layer_open(&l, false);
    begin(&l);
    forward(&l, 0, TOKENS);
    struct tensor results[] = {l.y, l.o, l.state};
    for (size_t i = 0; i < 3; i++)
        tensor_read(l.device, results[i], whole[i]);
    begin(&l);
    forward(&l, 0, 64);
    forward(&l, 64, 128);
    forward(&l, 128, TOKENS);
    for (size_t i = 0; i < 3; i++) {
        tensor_read(l.device, results[i], cut[i]);
        assert_memory_equal(cut[i], whole[i], tensor_count(results[i]) * sizeof(double));
    }
    begin(&l);
    forward(&l, 0, 1);
    forward(&l, 1, 3);
    forward(&l, 3, TOKENS);
    tensor_read(l.device, l.y, cut[0]);
    assert_memory_equal(cut[0], whole[0], sizeof whole[0]);
    tensor_read(l.device, l.o, cut[1]);
    for (size_t i = 0; i < tensor_count(l.o); i++)
        assert_true(fabs(cut[1][i] - whole[1][i]) < 1e-13);
    layer_close(&l);
}

// The state is A S + B: with grad_o 0 its gradient passes a run as A^T does.
static void a_transition_carries_gradients(void **state)
{
    (void)state;
    static struct layer l;
    static double carried[BATCH * HEADS * K * V], passed[BATCH * HEADS * K * V];
    layer_open(&l, false);
    struct tensor grad_o = tensor_of(&l, ROWS, HEADS * V), transition = tensor_of(&l, BATCH * HEADS, K * K);
    struct tensor none[] = {tensor_none(), tensor_none()}, grad = tensor_of(&l, BATCH * HEADS, K * V);
    begin(&l);
    forward(&l, 0, TOKENS);
    tensor_write(l.device, l.grads[STATE], l.by_state);
    tensor_write(l.device, grad, l.by_state);
    backward(&l, 0, TOKENS, l.given[TAIL], l.given[STATE], grad_o, none);
    op_delta_identity(l.device, transition, K);
    const size_t cuts[] = {0, BORDER, TOKENS};
    for (size_t i = 0; i < 2; i++) {
        struct run_shape run = run_of(&l, cuts[i], cuts[i + 1]);
        op_delta_transition(l.device, shape_of(run), transition, tensor_none(), rows(run, l.y, cuts[i]),
                            rows(run, l.decay, cuts[i]), rows(run, l.beta, cuts[i]));
    }
    op_delta_carry(l.device, grad, transition, K, TRANSPOSE);
    tensor_read(l.device, grad, carried);
    tensor_read(l.device, l.grads[STATE], passed);
    for (size_t i = 0; i < tensor_count(grad); i++)
        if (!(fabs(carried[i] - passed[i]) < 1e-13 && passed[i] != 0))
            fail_msg("%zu: carried %.15g, passed %.15g", i, carried[i], passed[i]);
    tensor_free(l.device, &grad_o);
    tensor_free(l.device, &transition);
    tensor_free(l.device, &grad);
    layer_close(&l);
}

// Operands of a backward on a plan: of two sequences, one key head of 8 and three value heads of 16.
struct planned {
    struct device *device;
    struct tensor qkv, grad_qkv, o, decay, beta, state, grad_state;
};

static struct planned planned_open(const char *name, size_t tokens)
{
    struct status status = {0};
    struct planned p = {.device = device_open(name, DTYPE_F32, 0, &status)};
    assert_non_null(p.device);
    const struct {
        struct tensor *t;
        size_t rows, cols;
    } all[] = {{&p.qkv, 2 * tokens, 64},  {&p.grad_qkv, 2 * tokens, 64}, {&p.o, 2 * tokens, 48},
               {&p.decay, 2 * tokens, 3}, {&p.beta, 2 * tokens, 3},      {&p.state, 6, 128},
               {&p.grad_state, 6, 128}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i].t = tensor_new(p.device, all[i].rows, all[i].cols, DTYPE_F32, CATEGORY_ACTIVATIONS);
    return p;
}

static void planned_close(struct planned *p)
{
    struct tensor *all[] = {&p->qkv, &p->grad_qkv, &p->o, &p->decay, &p->beta, &p->state, &p->grad_state};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(p->device, all[i]);
    device_close(p->device);
}

static struct counters forward_counters(struct planned *p, struct run_shape run, bool states_alone)
{
    p->device->counters = (struct counters){0};
    op_delta_rule_forward(p->device, (struct delta_shape){run, 1, 3, 8, 16}, states_alone ? tensor_none() : p->o,
                          p->state, tensor_none(), p->qkv, p->decay, p->beta);
    return p->device->counters;
}

static struct counters backward_counters(struct planned *p, struct run_shape run)
{
    p->device->counters = (struct counters){0};
    op_delta_rule_backward(p->device, (struct delta_shape){run, 1, 3, 8, 16}, p->grad_qkv, p->decay, p->beta,
                           p->grad_state, tensor_none(), p->o, p->state, tensor_none(), p->qkv, p->decay, p->beta);
    return p->device->counters;
}

// FLOPs of blocks of so many tokens: forward, states alone, backward.
static void flops_of(const double *blocks, size_t count, double flops[3])
{
    memset(flops, 0, 3 * sizeof *flops);
    for (size_t i = 0; i < count; i++) {
        double c = blocks[i], forward = 3 * (2 * c * c * (8 + 16) + 6 * c * 8 * 16);
        double states = 3 * (c * (c - 1) * (8 + 16) + 4 * c * 8 * 16);
        flops[0] += forward, flops[1] += states, flops[2] += 2 * forward + states + 3 * 2 * c * c * 8;
    }
}

// The first sequence has documents of 67 and 133 tokens, the second one.
static void blocks_are_counted(void **state)
{
    (void)state;
    struct planned p = planned_open("plan-cpu", 200);
    static int32_t starts[400];
    for (size_t t = 67; t < 200; t++)
        starts[2 * t] = 5 + 67;
    struct tensor device_starts = tensor_new(p.device, 400, 1, DTYPE_I32, CATEGORY_WORKSPACE);
    struct run_shape run = {200, 5, 2, {.starts = starts, .device_starts = device_starts}};
    const double blocks[] = {64, 3, 64, 64, 5, 64, 64, 64, 8};
    double flops[3];
    flops_of(blocks, sizeof blocks / sizeof *blocks, flops);
    assert_true(forward_counters(&p, run, false).flops == flops[0]);
    assert_true(forward_counters(&p, run, true).flops == flops[1]);
    assert_true(backward_counters(&p, run).flops == flops[2]);
    tensor_free(p.device, &device_starts);
    planned_close(&p);
}

// Three parts: the states of two are made twice, and the workspace is that of the longest.
static void long_runs_are_taken_in_parts(void **state)
{
    (void)state;
    static const char *const devices[] = {"plan-cpu", "plan-cuda"};
    for (size_t n = 0; n < 2; n++) {
        size_t tokens = 2 * DELTA_PART + 64;
        struct planned p = planned_open(devices[n], tokens);
        struct run_shape run = {tokens, 5, 2, {0}};
        double block = 64, of_block[3], blocks = 2.0 * tokens / 64;
        flops_of(&block, 1, of_block);
        struct counters forward = forward_counters(&p, run, false), backward = backward_counters(&p, run);
        assert_true(forward.flops == blocks * of_block[0] && forward.launches == 3);
        assert_true(backward.flops == blocks * of_block[2] + (blocks - 2) * of_block[1]);
        assert_int_equal(backward.launches, 3 + 2 * 2); // states of two parts, and copies of their borders
        size_t resident = p.device->arena.live_bytes, borders = 2 * 6 * 128 * sizeof(float);
        run.tokens = DELTA_PART;
        size_t wanted =
            p.device->ops->rules->delta_backward_workspace(p.device, (struct delta_shape){run, 1, 3, 8, 16});
        assert_in_range(p.device->arena.peak_bytes, resident + borders + wanted,
                        resident + borders + wanted + 2 * ARENA_ALIGNMENT);
        planned_close(&p);
    }
}

// The longest heads, in f64, forward and backward.
static void *run_long_heads(void *unused)
{
    struct status status = {0};
    struct device *device = device_open("cpu", DTYPE_F64, 0, &status);
    assert_non_null(device);
    size_t dim = DELTA_DIM_MAX, cols = 3 * dim;
    struct delta_shape shape = {{65, 0, 1, {0}}, 1, 1, dim, dim};
    struct tensor t[10];
    const size_t shapes[10][2] = {{65, cols},     {65, cols}, {65, dim}, {65, dim}, {1, dim * dim},
                                  {1, dim * dim}, {65, 1},    {65, 1},   {65, 1},   {65, 1}};
    for (size_t i = 0; i < 10; i++) {
        t[i] = tensor_new(device, shapes[i][0], shapes[i][1], DTYPE_F64, CATEGORY_ACTIVATIONS);
        op_zero(device, t[i]);
    }
    op_delta_rule_forward(device, shape, t[2], t[4], tensor_none(), t[0], t[6], t[7]);
    op_delta_rule_backward(device, shape, t[1], t[8], t[9], t[5], tensor_none(), t[3], t[4], tensor_none(), t[0],
                           t[6], t[7]);
    assert_int_equal(device->status.code, STATUS_OK);
    for (size_t i = 10; i-- > 0;)
        tensor_free(device, &t[i]);
    device_close(device);
    return unused;
}

// A thread has 2 MiB where the limit of stacks is none.
static void the_longest_heads_fit_a_small_stack(void **state)
{
    (void)state;
    pthread_attr_t attributes;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, (size_t)2 << 20), 0);
    assert_int_equal(pthread_create(&thread, &attributes, run_long_heads, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_are_those_of_differences),
                                       cmocka_unit_test(gradients_with_documents_are_too),
                                       cmocka_unit_test(cuts_leave_the_bits),
                                       cmocka_unit_test(a_transition_carries_gradients),
                                       cmocka_unit_test(blocks_are_counted),
                                       cmocka_unit_test(long_runs_are_taken_in_parts),
                                       cmocka_unit_test(the_longest_heads_fit_a_small_stack)};
    return cmocka_run_group_tests_name("Gated DeltaNet", tests, NULL, NULL);
}
