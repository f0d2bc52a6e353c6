// Tests of kernels/measure/breakdown and observer: every operation is seen, with its counts; the rows' time is the
// timer's and belongs to the operation or part that took it, and the rest is idle; and a plan has the same rows.
#include "kernels/device/ops.h"
#include "kernels/measure/breakdown.h"
#include "kernels/measure/timer.h"
#include "tests/fixture.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){0, ms * 1000000}, NULL);
}

// An observer's counts: ranges, and the names of the operations, each once.
struct witness {
    struct observer observer;
    size_t operations, open, name_count;
    const char *names[64];
};

static void witness_push(struct observer *observer, struct device *device, const struct range *range)
{
    (void)device;
    struct witness *w = (struct witness *)observer;
    size_t i = 0;
    assert_int_equal(range->level, RANGE_OPERATION);
    assert_int_equal(w->open++, 0);
    w->operations++;
    while (i < w->name_count && strcmp(w->names[i], range->name) != 0)
        i++;
    if (i == w->name_count) {
        assert_true(i < sizeof w->names / sizeof w->names[0]);
        w->names[w->name_count++] = range->name;
    }
}

static void witness_pop(struct observer *observer, struct device *device)
{
    (void)device;
    ((struct witness *)observer)->open--;
}

// Those of Gated DeltaNet, on two tokens.
static void ask_for_delta(struct device *d)
{
    enum { QKV, GRAD, FILTER, TAIL, GRAD_TAIL, O, GATE, BETA, PER_HEAD, STATE, GRAD_STATE, TENSORS };
    static const size_t shapes[TENSORS][2] = {{2, 3}, {2, 3}, {3, 4}, {3, 3}, {3, 3}, {2, 1},
                                              {2, 1}, {2, 1}, {1, 1}, {1, 1}, {1, 1}};
    struct tensor t[TENSORS], none = tensor_none();
    struct delta_shape shape = {{.tokens = 2, .batch = 1}, 1, 1, 1, 1};
    for (size_t i = 0; i < TENSORS; i++) {
        t[i] = tensor_new(d, shapes[i][0], shapes[i][1], DTYPE_F64, CATEGORY_WORKSPACE);
        op_zero(d, t[i]);
    }
    op_short_conv_forward(d, shape.run, t[GRAD], t[QKV], t[TAIL], none, t[FILTER]);
    op_short_conv_backward(d, shape.run, t[GRAD], t[GRAD_TAIL], none, none, t[GRAD], t[QKV], t[TAIL], none,
                           t[FILTER]);
    op_delta_gates_forward(d, t[GATE], t[BETA], t[O], t[O], t[PER_HEAD], t[PER_HEAD], 1);
    op_delta_gates_backward(d, t[O], t[O], none, none, t[GATE], t[BETA], t[O], t[O], t[PER_HEAD], t[PER_HEAD], 1);
    op_delta_rule_forward(d, shape, t[O], t[STATE], none, t[QKV], t[GATE], t[BETA]);
    op_delta_rule_backward(d, shape, t[GRAD], t[GATE], t[BETA], t[GRAD_STATE], none, t[O], t[STATE], none, t[QKV],
                           t[GATE], t[BETA]);
    op_delta_identity(d, t[STATE], 1);
    op_delta_transition(d, shape, t[STATE], none, t[QKV], t[GATE], t[BETA]);
    op_delta_carry(d, t[GRAD_STATE], t[STATE], 1, TRANSPOSE);
    for (size_t i = 0; i < TENSORS; i++)
        tensor_free(d, &t[i]);
}

// Those of a mixture of two experts, of which each of two tokens takes one.
static void ask_for_experts(struct device *d)
{
    enum { LOGITS, WEIGHTS, X, Y, MATRICES, TENSORS };
    enum { CHOICES, ROWS, SLOTS, STARTS, INTEGERS };
    static const size_t shapes[TENSORS][2] = {{2, 2}, {2, 1}, {2, 2}, {2, 1}, {2, 2}};
    const struct routing routing = {.experts = 2, .chosen = 1, .scale = 1};
    struct tensor t[TENSORS], i32[INTEGERS];
    for (size_t i = 0; i < TENSORS; i++) {
        t[i] = tensor_new(d, shapes[i][0], shapes[i][1], DTYPE_F64, CATEGORY_WORKSPACE);
        op_zero(d, t[i]);
    }
    for (size_t i = 0; i < INTEGERS; i++)
        i32[i] = tensor_new(d, i == STARTS ? 3 : 2, 1, DTYPE_I32, CATEGORY_WORKSPACE);
    struct tensor totals = tensor_new(d, 1, router_totals(&routing), DTYPE_F64, CATEGORY_WORKSPACE);
    const struct expert_rows experts = {i32[STARTS], 2, 0, 0};
    op_route_forward(d, routing, i32[CHOICES], t[WEIGHTS], t[LOGITS], tensor_none(), false);
    op_permute_slots(d, routing, i32[ROWS], i32[SLOTS], i32[STARTS], i32[CHOICES]);
    op_gather_slots(d, t[X], t[LOGITS], i32[SLOTS], 1, 0);
    op_grouped_gemm(d, experts, t[Y], t[X], NO_TRANSPOSE, t[MATRICES], TRANSPOSE, 1);
    op_expert_act_forward(d, t[Y], t[X], (struct expert_act){0});
    op_scatter_slots(d, t[LOGITS], t[X], i32[ROWS], t[WEIGHTS], 0);
    op_expert_act_backward(d, t[X], t[Y], t[WEIGHTS], t[WEIGHTS], i32[SLOTS], 0, (struct expert_act){0});
    op_route_count(d, routing, totals, i32[CHOICES], t[LOGITS], true, tensor_none(), t[X]);
    op_route_backward(d, routing, t[LOGITS], i32[CHOICES], t[WEIGHTS], (struct router_terms){0}, tensor_none(),
                      tensor_none());
    tensor_free(d, &totals);
    for (size_t i = 0; i < TENSORS; i++)
        tensor_free(d, &t[i]);
    for (size_t i = 0; i < INTEGERS; i++)
        tensor_free(d, &i32[i]);
}

// Every front, once.
static void ask_for_all(struct device *d)
{
    struct tensor t[9], ids = tensor_new(d, 2, 1, DTYPE_I32, CATEGORY_DATA);
    for (size_t i = 0; i < 9; i++) {
        t[i] = tensor_new(d, 2, 2, DTYPE_F64, CATEGORY_WORKSPACE);
        op_zero(d, t[i]);
    }
    op_zero(d, ids);
    struct tensor vector = tensor_rows(t[7], 0, 1), rstd = tensor_reshape(tensor_rows(t[8], 0, 1), 2, 1);
    struct tensor one = tensor_reshape(tensor_rows(rstd, 0, 1), 1, 1);
    struct attention_shape shape = {.queries = 2, .batch = 1, .heads = 1, .kv_heads = 1, .head_dim = 2};
    struct key_segment segment = {0, 2, t[4], t[5], {0}};
    op_copy(d, t[0], t[1]);
    op_copy_columns(d, t[0], 0, t[1], 1, 1);
    op_accumulate(d, t[0], t[1]);
    op_scale(d, t[0], 2);
    op_scale_by(d, t[0], one);
    op_gemm(d, t[0], t[1], NO_TRANSPOSE, t[2], NO_TRANSPOSE, 1, 0);
    op_gemm_onto(d, t[0], t[3], t[1], NO_TRANSPOSE, t[2], NO_TRANSPOSE);
    op_bias_forward(d, t[0], vector);
    op_bias_backward(d, vector, t[0]);
    op_rmsnorm_forward(d, t[0], rstd, t[1], vector, (struct norm_shape){.epsilon = 1e-6});
    op_rmsnorm_backward(d, t[0], false, vector, t[1], t[2], vector, (struct norm_shape){0}, rstd);
    op_position_scale(d, t[0], (struct position_scale){1, 1, 1}, 0, 1, (struct documents){0});
    op_rope(d, t[0], one, (struct rope_shape){.head_dim = 2, .gain = 1}, 0, 1, (struct documents){0}, 1);
    op_attention_forward(d, shape, t[0], rstd, t[1], t[2], t[3]);
    op_attention_backward(d, shape, t[6], false, &segment, 1, t[0], t[0], rstd, t[1], t[2], t[3]);
    op_attention_merge(d, t[0], rstd, t[1], rstd);
    op_attention_sink_forward(d, t[0], t[1], vector);
    op_attention_sink_backward(d, vector, t[1], t[0], t[1], vector);
    op_copy_heads(d, t[0], 1, rstd, 1);
    op_sum_heads(d, rstd, t[0], 1, 1);
    op_gate_forward(d, t[0], t[1], t[2]);
    op_gate_backward(d, t[0], t[1], t[0], t[2]);
    op_swiglu_forward(d, t[0], t[1], t[2], ACTIVATION_SILU);
    op_swiglu_backward(d, t[0], t[1], t[2], ACTIVATION_SILU);
    op_embedding_forward(d, t[0], t[1], ids);
    op_embedding_backward(d, t[0], t[1], ids, -1);
    op_cross_entropy(d, t[0], ids, one, 1, 1, 0);
    op_log_prob(d, rstd, rstd, tensor_none(), t[0], ids, 0);
    struct objective_block block = {.sequences = 2, .targets = ids, .log_prob = rstd};
    struct tensor sums = tensor_new(d, 2, 1, DTYPE_F64, CATEGORY_WORKSPACE);
    op_objective_rows(d, (struct row_terms){.kind = ROW_LIKELIHOOD}, rstd, one, block, 1, 1);
    op_sequence_sums(d, sums, block, tensor_none());
    op_sequence_costs(d, (struct sequence_terms){.kind = SEQUENCE_PAIRS}, sums, one, tensor_none(), tensor_none(),
                      1);
    tensor_free(d, &sums);
    op_log_prob_backward(d, t[0], rstd, ids, rstd, tensor_none(), 0);
    op_adamw(d, t[0], tensor_none(), t[1], t[2], t[3], &(struct adam_step){0.1, 0.9, 0.9, 1e-8, 0, .t = 1});
    struct tensor scales = tensor_new(d, 1, 1, DTYPE_F32, CATEGORY_WORKSPACE);
    struct coded_moments moments = {tensor_rows(ids, 0, 1), tensor_rows(ids, 0, 1), scales, scales};
    op_adamw_coded(d, tensor_rows(t[0], 0, 1), tensor_rows(t[1], 0, 1), moments, &(struct adam_step){.t = 1});
    op_sgd(d, t[0], tensor_none(), t[1], tensor_none(), &(struct sgd_step){.rate = 0.1});
    op_dequantise(d, t[0], QUANTISATION_NF4, tensor_rows(ids, 0, 1), tensor_rows(ids, 0, 1));
    ask_for_delta(d);
    ask_for_experts(d);
    tensor_free(d, &scales);
    tensor_free(d, &ids);
    for (size_t i = 0; i < 9; i++)
        tensor_free(d, &t[i]);
}

// The operations are the last members of the table, from `zero` on: each has a front, and each front tells.
static void test_every_operation_is_seen(void **state)
{
    (void)state;
    static const char *const devices[] = {"cpu", "plan-cpu"};
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        struct status status = {0};
        struct device *device = device_open(devices[i], DTYPE_F64, 0, &status);
        assert_non_null(device);
        struct witness all = {.observer = {.push = witness_push, .pop = witness_pop}}, part = all;
        observer_attach(&all.observer, device);
        observer_attach(&part.observer, device);
        ask_for_all(device);
        assert_int_equal(device->status.code, STATUS_OK);
        observer_detach(&all.observer, device); // in any order
        op_zero(device, tensor_none());
        observer_detach(&part.observer, device);
        assert_null(device->observers);
        // gemm_onto and low_rank tell of gemms.
        assert_int_equal(all.name_count,
                         (sizeof *device->ops - offsetof(struct device_ops, zero)) / sizeof(void (*)(void)) - 2);
        assert_int_equal(all.operations + 1, device->counters.launches);
        assert_int_equal(part.operations, device->counters.launches);
        assert_int_equal(all.open + part.open, 0);
        device_close(device);
    }
}

struct total {
    double ms, flops, bytes_moved, estimate_s;
    uint64_t launches;
};

static struct total total_of(const struct breakdown *b)
{
    struct total total = {0};
    for (size_t i = 0; i < b->row_count; i++) {
        const struct breakdown_row *row = &b->rows[i];
        assert_true(row->ms >= 0 && row->flops >= 0 && row->bytes_moved >= 0);
        total.ms += row->ms;
        total.flops += row->flops;
        total.bytes_moved += row->bytes_moved;
        total.estimate_s += row->estimate_s;
        total.launches += row->launches;
    }
    return total;
}

static const struct breakdown_row *find(const struct breakdown *b, enum work work, const char *operation)
{
    const struct breakdown_row *found = NULL;
    for (size_t i = 0; i < b->row_count; i++)
        if (b->rows[i].work == work && strcmp(b->rows[i].operation, operation) == 0)
            found = &b->rows[i];
    if (!found)
        fail_msg("no row %s: %s", work_name(work), operation);
    return found;
}

static void close_to(double found, double expected, const char *what)
{
    if (!(fabs(found - expected) <= 1e-9 * fabs(expected)))
        fail_msg("%s: the rows add up to %.17g, not to %.17g", what, found, expected);
}

// A step of a method, taken apart, and its optimizer's step.
static void take(struct fixture *f, const struct method *method, size_t chunk, struct breakdown *b, double *ms)
{
    void *options = fixture_options(method, "chunk=%zu head_chunk=%zu budget=%zu", chunk, chunk,
                                    (f->context + chunk - 1) / chunk);
    struct step_report report = {0};
    trainer_zero(&f->trainer);
    f->device->counters = (struct counters){0};
    f->device->roofline = (struct roofline){.flops_per_s = 1e9, .bytes_per_s = 1e9, .launch_s = 1e-6};
    breakdown_start(b, f->device);
    method_step(method, &f->model, &f->batch, options, &report);
    options_free(&method->options, options);
    *ms = report.ms;
    device_timer_start(f->device);
    op_scale(f->device, f->model.parameters[0].grad, 0.5); // as an optimizer would
    *ms += device_timer_stop_ms(f->device);
    breakdown_stop(b, f->device);
    assert_int_equal(f->device->status.code, STATUS_OK);
    step_report_free(&report);
}

static void test_rows_add_up_to_the_step(void **state)
{
    (void)state;
    struct fixture f = fixture_default(), planned = f;
    fixture_open(&f);
    struct status status = {0};
    planned.device = device_open("plan-cpu", DTYPE_F64, 0, &status);
    struct trainer_options options = {.kv_gradient_dtype = DTYPE_F64, .gradient_dtype = DTYPE_F64};
    trainer_open(&planned.trainer, &planned.model, &planned.config, &options, planned.device);
    batch_open(&planned.batch, planned.device, NULL, NULL, f.context, f.batch_size);
    bool more_than_marks = false;
    for (const struct method *const *m = methods; *m; m++) {
        for (size_t chunk = 1; chunk <= 23; chunk += 11) {
            struct breakdown found, plan;
            double ms, none;
            take(&f, *m, chunk, &found, &ms);
            take(&planned, *m, chunk, &plan, &none);
            struct total total = total_of(&found), of_plan = total_of(&plan);
            close_to(total.ms, ms, (*m)->name);
            assert_true(find(&found, WORK_IDLE, "idle")->ms > 0);
            assert_true(total.flops == f.device->counters.flops);
            assert_true(total.bytes_moved == f.device->counters.bytes_moved);
            assert_int_equal(total.launches, f.device->counters.launches);
            close_to(total.estimate_s, f.device->counters.estimate_s, "estimates");
            more_than_marks |= total.launches > DEVICE_MARKS;
            // A plan has the same rows in the same order, and no time.
            assert_true(of_plan.ms == 0 && of_plan.estimate_s == total.estimate_s);
            assert_int_equal(plan.row_count, found.row_count);
            for (size_t i = 0; i < plan.row_count; i++) {
                const struct breakdown_row *row = &found.rows[i], *twin = &plan.rows[i];
                assert_string_equal(twin->operation, row->operation);
                assert_true(twin->work == row->work && twin->m == row->m && twin->n == row->n && twin->k == row->k);
                assert_true(twin->flops == row->flops && twin->bytes_moved == row->bytes_moved);
                assert_true(twin->estimate_s == row->estimate_s && twin->launches == row->launches);
            }
            breakdown_free(&plan);
            breakdown_free(&found);
        }
    }
    assert_true(more_than_marks);
    batch_close(&planned.batch, planned.device);
    trainer_close(&planned.trainer);
    device_close(planned.device);
    fixture_close(&f);
}

static void test_gemm_by_shape_and_the_head_apart(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    f.batch_size = 1;
    fixture_open(&f);
    struct breakdown b;
    double ms;
    take(&f, method_find("full"), 23, &b, &ms);
    size_t up = 0, head = 0;
    for (size_t i = 0; i < b.row_count; i++) {
        const struct breakdown_row *row = &b.rows[i];
        assert_int_equal(row->m * row->n * row->k != 0, strcmp(row->operation, "gemm") == 0);
        if (row->work == WORK_GEMM && row->m == 23 && row->n == 40 && row->k == 24) {
            up++;
            // gate and up of three layers, and the gradient that comes down to them
            assert_int_equal(row->launches, 9);
            assert_true(row->flops == 9 * 2.0 * 23 * 40 * 24);
        }
        bool of_head = row->m == 31 || row->n == 31 || row->k == 31; // the vocabulary
        assert_true(!of_head || row->work == WORK_HEAD);
        head += of_head;
    }
    assert_int_equal(up, 1);
    assert_int_equal(head, 3);
    find(&b, WORK_HEAD, "cross_entropy");
    assert_int_equal(find(&b, WORK_HEAD, "rmsnorm_forward")->launches, 1); // the layers' norms are not the head's
    breakdown_free(&b);
    fixture_close(&f);
}

// An operation of two parts.
static void slow_scale(struct device *device, struct tensor t, double factor)
{
    (void)t, (void)factor;
    sleep_ms(20);
    range_push(device, (struct range){.level = RANGE_PART, .work = WORK_ATTENTION_GLUE, .name = "part"});
    sleep_ms(40);
    range_pop(device);
}

static void test_time_goes_to_what_took_it(void **state)
{
    (void)state;
    struct status status = {0};
    struct device *device = device_open("cpu", DTYPE_F32, 0, &status);
    const struct device_ops *own = device->ops;
    struct device_ops slow = *own;
    slow.scale = slow_scale;
    device->ops = &slow;
    struct tensor t = tensor_new(device, 4, 4, DTYPE_F32, CATEGORY_WORKSPACE);
    struct breakdown b;
    breakdown_start(&b, device);
    op_zero(device, t); // before the start, and so no part of it
    device_timer_start(device);
    op_scale(device, t, 2);
    sleep_ms(60);
    op_zero(device, t);
    double ms = device_timer_stop_ms(device);
    sleep_ms(20);
    op_zero(device, t);
    breakdown_stop(&b, device);
    double scale_ms = find(&b, WORK_COPY, "scale")->ms, part_ms = find(&b, WORK_ATTENTION_GLUE, "part")->ms;
    double idle_ms = find(&b, WORK_IDLE, "idle")->ms;
    close_to(total_of(&b).ms, ms, "a timed span");
    // A sleep is at least as long as asked for, and the sum is the timer's.
    assert_true(scale_ms >= 20 && part_ms >= 40 && idle_ms >= 60);
    assert_int_equal(find(&b, WORK_COPY, "scale")->launches, 1);
    assert_int_equal(find(&b, WORK_ATTENTION_GLUE, "part")->launches, 0);
    assert_int_equal(find(&b, WORK_COPY, "zero")->launches, 1);
    assert_true(find(&b, WORK_COPY, "zero")->bytes_moved == 4 * 4 * 4);
    breakdown_free(&b);
    tensor_free(device, &t);
    device->ops = own;
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operation_is_seen),
        cmocka_unit_test(test_rows_add_up_to_the_step),
        cmocka_unit_test(test_gemm_by_shape_and_the_head_apart),
        cmocka_unit_test(test_time_goes_to_what_took_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
