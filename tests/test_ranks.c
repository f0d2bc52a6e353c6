// Ranks: their exchanges, and methods over several ranks against one. Started by itself this program starts itself
// under mpirun, with 1, 2, 3, 4 and 6 ranks.
#include "methods/schedule/chunks.h"
#include "tests/fixture.h"
#include "tests/under_mpirun.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct device *opened(enum dtype dtype)
{
    struct status status = {0};
    struct device *device = device_open("cpu", dtype, 0, &status);
    assert_non_null(device);
    return device;
}

// Rank r's value at row i, chunk j, before a sum.
static double part_of(size_t r, size_t i, size_t j)
{
    return sin((double)(1 + r + 7 * i + 31 * j)) * (r % 2 ? 0x1p-10 : 1);
}

// Sums are of the ranks in order, rounded once; in one block and in several; rows of unequal number, some of none.
static void test_sums_in_order(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    const size_t cols = 33;
    size_t P = world.comm.size, rows = 2 * P + 3;
    CHECK(P > 0);
    for (size_t d = 0; d < 3; d++) {
        struct device *device = opened(dtypes[d]);
        struct tensor t = tensor_new(device, rows, cols, dtypes[d], CATEGORY_GRADIENTS);
        double *own = malloc(2 * rows * cols * sizeof *own), *found = own + rows * cols;
        assert_non_null(own);
        for (size_t i = 0; i < rows * cols; i++)
            own[i] = part_of(world.comm.rank, i / cols, i % cols);
        tensor_write(device, t, own);
        device->counters = (struct counters){0};
        comm_sum(&world.comm, device, t);
        tensor_read(device, t, found);
        enum dtype sums = dtypes[d] == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
        for (size_t i = 0; i < rows * cols; i++) {
            double sum = 0;
            for (size_t r = 0; r < P; r++)
                sum = dtype_round(sum + dtype_round(part_of(r, i / cols, i % cols), dtypes[d]), sums);
            assert_true(found[i] == dtype_round(sum, dtypes[d]));
        }
        // Every byte of another's twice, once either way: 2 (P - 1) / P of the tensor, but for remainders.
        size_t count = rows * cols, mine = count / P + (world.comm.rank < count % P);
        double bytes = (double)((count - mine) + (P - 1) * mine) * (double)dtype_bytes(dtypes[d]);
        assert_true(device->counters.sent_bytes == bytes && device->counters.received_bytes == bytes);
        assert_int_equal(device->counters.messages, 2 * (P - 1));
        free(own);
        tensor_free(device, &t);
        device_close(device);
    }
}

// In nodes: over each one's ranks in order, and then over the nodes in order, rounded once on each level; between
// nodes goes as little as if each were a rank.
static void test_sums_by_nodes(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    const size_t cols = 7, P = world.comm.size, rows = 2 * P + 3;
    size_t checked = 0;
    for (size_t i = 0; i < 3 * P; i++) {
        enum dtype dtype = dtypes[i % 3], sums = dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
        size_t node = i / 3 + 1;
        if (node == 1 || node == P || P % node != 0)
            continue;
        struct device *device = opened(dtype);
        struct comm comm = world.comm;
        comm.node = node;
        struct tensor t = tensor_new(device, rows, cols, dtype, CATEGORY_GRADIENTS);
        double *values = malloc(rows * cols * sizeof *values);
        assert_non_null(values);
        for (size_t k = 0; k < rows * cols; k++)
            values[k] = part_of(comm.rank, k / cols, k % cols);
        tensor_write(device, t, values);
        device->counters = (struct counters){0};
        comm_sum(&comm, device, t);
        tensor_read(device, t, values);
        for (size_t k = 0; k < rows * cols; k++) {
            double sum = 0;
            for (size_t first = 0; first < P; first += node) {
                double of_node = 0;
                for (size_t r = first; r < first + node; r++)
                    of_node = dtype_round(of_node + dtype_round(part_of(r, k / cols, k % cols), dtype), sums);
                sum = dtype_round(sum + dtype_round(of_node, dtype), sums);
            }
            assert_true(values[k] == dtype_round(sum, dtype));
        }
        size_t place = comm.rank % node, mine = 0, count = rows * cols, nodes = P / node;
        for (size_t r = place; r < P; r += node) // of the rows of its place in all nodes
            mine += count / P + (r < count % P);
        size_t own = count / P + (comm.rank < count % P);
        double near = (double)(count - mine + (node - 1) * mine), far = (double)(mine - own + (nodes - 1) * own);
        assert_true(device->counters.sent_bytes == (near + far) * (double)dtype_bytes(dtype));
        assert_int_equal(device->counters.messages, 2 * (nodes * (node - 1) + nodes - 1));
        free(values);
        tensor_free(device, &t);
        device_close(device);
        checked++;
    }
    assert_int_equal(checked, P == 4 ? 3 : P == 6 ? 6 : 0);
}

// More than the scratch holds at a time, and owners of rows that do not stand in the order of the ranks.
static void test_rows_in_blocks(void **state)
{
    (void)state;
    size_t P = world.comm.size, each = 3, cols = COMM_SCRATCH_BYTES / sizeof(double) / (P > 1 ? P - 1 : 1) / 2 + 1;
    if (P > 3) // as many bytes on every rank
        return;
    struct device *device = opened(DTYPE_F64);
    struct tensor t = tensor_new(device, P * each, cols, DTYPE_F64, CATEGORY_GRADIENTS);
    struct row_range *owned = calloc(P, sizeof *owned);
    double *values = t.data;
    assert_non_null(owned);
    for (size_t r = 0; r < P; r++)
        owned[r] = (struct row_range){(P - 1 - r) * each, each};
    for (size_t i = 0; i < tensor_count(t); i++)
        values[i] = part_of(world.comm.rank, i / cols, i % cols % 100);
    size_t live = device->arena.live_bytes;
    arena_reset_peak(&device->arena);
    comm_sum_rows(&world.comm, device, t, owned);
    assert_true(device->arena.peak_bytes - live <= COMM_SCRATCH_BYTES + ARENA_ALIGNMENT);
    comm_gather_rows(&world.comm, device, t, owned);
    for (size_t i = 0; i < tensor_count(t); i += 4093) {
        double sum = 0;
        for (size_t r = 0; r < P; r++)
            sum += part_of(r, i / cols, i % cols % 100);
        assert_true(values[i] == sum);
    }
    free(owned);
    tensor_free(device, &t);
    device_close(device);
}

// ---- methods over a pipeline

struct setting {
    const char *method, *options;
    bool tied, qk_norm, lora;
    enum dtype dtype;
};

static struct fixture fixture_of(const struct setting *s)
{
    struct fixture f = fixture_default();
    f.config.layers = 6;
    f.config.tied = s->tied;
    f.config.qk_norm = s->qk_norm;
    f.dtype = s->dtype;
    f.document = s->qk_norm ? 7 : 0;
    if (s->lora) {
        f.config.kinds[0].window = 6;
        f.lora = (struct lora){.rank = 3, .alpha = 6, .targets = LORA_Q | LORA_V | LORA_DOWN};
    }
    return f;
}

struct measured {
    struct counters counters;
    size_t peak_bytes;
    double loss;
};

static void step_of(struct trainer *trainer, struct batch *batch, const struct setting *s,
                    struct measured *measured)
{
    const struct method *method = method_find(s->method);
    struct model *model = trainer->model;
    struct device *device = model->device;
    struct step_report report = {0};
    void *options = fixture_options(method, "%s", s->options);
    trainer_zero(trainer);
    arena_reset_peak(&device->arena);
    device->counters = (struct counters){0};
    method_step(method, model, batch, options, &report);
    assert_int_equal(device->status.code, STATUS_OK);
    *measured = (struct measured){device->counters, device->arena.peak_bytes, report.sums.loss};
    step_report_free(&report);
    options_free(&method->options, options);
}

// The same step of this rank without data.
static void plan_of(const struct fixture *f, const struct setting *s, struct measured *planned)
{
    struct status status = {0};
    struct device *device = device_open("plan-cpu", f->dtype, 0, &status);
    struct comm comm = comm_planned(world.comm.rank, world.comm.size);
    struct ranks ranks =
        ranks_of(&comm, (struct split){1, 1, comm.size, ZERO_NOTHING, EXCHANGE_GATHER, SUM_ORDERED, false, 1, 1},
                 &f->config, f->context);
    enum dtype sums = fixture_sums(f);
    struct trainer_options options = {
        .lora = f->lora, .kv_gradient_dtype = sums, .gradient_dtype = sums, .ranks = &ranks};
    struct model model;
    struct trainer trainer;
    struct batch batch;
    trainer_open(&trainer, &model, &f->config, &options, device);
    batch_open(&batch, device, NULL, NULL, f->context, f->batch_size);
    fixture_set_documents(f, device, &batch, 0);
    step_of(&trainer, &batch, s, planned);
    batch_close(&batch, device);
    trainer_close(&trainer);
    device_close(device);
}

static void check_pipeline(const struct setting *s)
{
    struct fixture one = fixture_of(s), part = fixture_of(s);
    struct measured alone, first, again, planned;
    struct split split = {1, 1, world.comm.size, ZERO_NOTHING, EXCHANGE_GATHER, SUM_ORDERED, false, 1, 1};
    struct ranks ranks = ranks_of(&world.comm, split, &one.config, one.context);
    fixture_open(&one);
    part.ranks = &ranks;
    fixture_open(&part);
    step_of(&one.trainer, &one.batch, s, &alone);
    step_of(&part.trainer, &part.batch, s, &first);
    double *before = fixture_gradients(&part);
    step_of(&part.trainer, &part.batch, s, &again);
    double *after = fixture_gradients(&part);
    assert_memory_equal(before, after, part.gradient_count * sizeof *before);
    assert_memory_equal(&first, &again, sizeof first);
    for (size_t i = 0; i < one.model.parameter_count; i++) {
        const struct parameter *whole = &one.model.parameters[i], *own = &part.model.parameters[i];
        if (!own->grad.data)
            continue;
        if (s->tied && own == part.model.embedding) { // a sum of both ends' parts
            double difference = 0, norm = 0, a, b;
            for (size_t j = 0; j < tensor_count(own->grad); j++) {
                a = ((double *)own->grad.data)[j], b = ((double *)whole->grad.data)[j];
                difference += (a - b) * (a - b);
                norm += b * b;
            }
            assert_true(sqrt(difference / norm) <= 1e-13);
        } else {
            assert_memory_equal(own->grad.data, whole->grad.data, tensor_bytes(own->grad));
        }
    }
    assert_true(ranks_highest(&ranks) ? first.loss == alone.loss : first.loss == 0);
    plan_of(&part, s, &planned);
    assert_true(planned.counters.sent_bytes == first.counters.sent_bytes);
    assert_true(planned.counters.received_bytes == first.counters.received_bytes);
    assert_int_equal(planned.counters.messages, first.counters.messages);
    assert_true(planned.counters.flops == first.counters.flops);
    assert_int_equal(planned.peak_bytes, first.peak_bytes);
    if (strcmp(s->method, "seco") == 0 && !s->tied) { // every chunk's x to the right, its gradient to the left
        size_t neighbours = !ranks_lowest(&ranks) + !ranks_highest(&ranks);
        double number = (double)(one.context * one.batch_size * one.config.width * dtype_bytes(s->dtype));
        assert_true(first.counters.sent_bytes == (double)neighbours * number);
        void *options = fixture_options(method_find("seco"), "%s", s->options);
        size_t chunk = options_count(&method_find("seco")->options, options, "chunk", 0);
        assert_int_equal(first.counters.messages, neighbours * chunks_of(one.context, chunk).count);
        options_free(&method_find("seco")->options, options);
    }
    free(before);
    free(after);
    fixture_close(&part);
    fixture_close(&one);
}

static void test_pipeline(void **state)
{
    (void)state;
    static const struct setting settings[] = {
        {"seco", "chunk=1", false, false, false, DTYPE_F64},
        {"seco", "chunk=4", false, false, false, DTYPE_F64},
        {"seco", "chunk=7", false, true, false, DTYPE_F64},
        {"seco", "chunk=64", false, false, false, DTYPE_F64},
        {"seco", "chunk=4", true, false, false, DTYPE_F64},
        {"seco", "chunk=5 inner=checkpoint", false, true, false, DTYPE_F32},
        {"seco", "chunk=6 keep=all", false, false, true, DTYPE_F32},
        {"seco", "chunk=6", false, false, false, DTYPE_BF16},
        {"spaco", "chunk=4 budget=3", false, false, false, DTYPE_F64},
        {"spaco", "chunk=4 budget=2 loss=all", false, true, false, DTYPE_F64},
        {"spaco", "chunk=3 budget=4 inner=checkpoint", false, false, true, DTYPE_F32},
        {"spaco", "chunk=4 sampler=fixed drawn_chunks=0,5", true, false, false, DTYPE_F64},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        check_pipeline(&settings[i]);
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {1, 2, 3, 4, 6};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_in_order),
        cmocka_unit_test(test_sums_by_nodes),
        cmocka_unit_test(test_rows_in_blocks),
        cmocka_unit_test(test_pipeline),
    };
    if (argc > 1)
        return open_world() && cmocka_run_group_tests(tests, NULL, NULL) == 0 ? close_world() : 1;
    return start_all(argv[0], counts, sizeof counts / sizeof *counts);
}
