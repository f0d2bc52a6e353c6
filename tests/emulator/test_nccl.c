// Ranks that have an emulated card each, by NCCL: steps of every method that takes them, as one card's and as
// planned, and sums by NCCL itself. Started by itself this program starts itself under
// mpirun, with 2 and 3 ranks.
#include "tests/emulator/plugin.h"
#include "tests/replica_checks.h"

static void replicas_are_as_one_card(void **state)
{
    (void)state;
    static const struct setting settings[] = {
        {.options = "chunk=7 head_chunk=5 budget=2", .sequences = 3, .masked = true},
        {.options = "chunk=9 budget=2", .sequences = 3, .lora = true, .dtype = DTYPE_F32},
    };
    size_t P = world.comm.size, checked = 0;
    assert_string_equal(world.comm.ops->name, "nccl");
    assert_string_equal(getenv("CUDA_MODULE_LOADING"), "EAGER");
    assert_string_equal(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "16"); // as it was set
    for (size_t m = 0; methods[m]; m++) {
        bool takes = (methods[m]->exact || methods[m]->draw) && methods[m]->parallel & PARALLEL_DATA;
        for (enum sum sum = SUM_ORDERED; takes && sum <= SUM_ENGINE; sum++) {
            if (!is_chosen(m + sum + P, 2)) // those of another number of ranks
                continue;
            struct split split = {P, 1, 1, ZERO_NOTHING, EXCHANGE_GATHER, sum, false, 1, 1};
            check_split(methods[m], &settings[(m + sum) % 2], split, ENDS);
            checked++;
        }
    }
    assert_true(checked >= (exhaustive() ? 10 : 5));
}

// Beside what is loaded later, as much as communicators take.
static void communicators_have_room(void **state)
{
    (void)state;
    struct status status = {0};
    struct device *device = device_open(rank_device, DTYPE_F32, 0, &status);
    assert_non_null(device);
    size_t free_bytes = ((size_t)8 << 30) - device->ops->used_bytes(device) + device->ops->reserved_bytes(device);
    assert_int_equal(device->arena.limit_bytes, free_bytes - ((size_t)1 << 30));
    device_close(device);
}

// Transfers run beside computation: after their inputs, and before their results are read.
static void overlap_keeps_the_bits(void **state)
{
    (void)state;
    static const struct setting setting = {.options = "chunk=7 budget=2", .sequences = 3, .masked = true};
    struct split split = {world.comm.size, 1, 1, ZERO_NOTHING, EXCHANGE_GATHER, SUM_ORDERED, false, 1, 1};
    for (size_t i = 0; i < 2; i++)
        if (is_chosen(i + world.comm.size, 2)) // the other with another number of ranks
            check_overlap(method_find(i ? "seco" : "streambp"), &setting, split);
    split.sum = SUM_ENGINE;
    check_overlap(method_find("checkpoint"), &setting, split);
}

// Keys and values that are gathered, and that go round; and heads that each card has some of.
static void shared_sequences_are_as_one_card(void **state)
{
    (void)state;
    static const struct setting setting = {.options = "chunk=6", .sequences = 1, .qk_norm = true};
    struct split split = {1, world.comm.size, 1, ZERO_NOTHING, EXCHANGE_GATHER, SUM_ORDERED, false, 1, 1};
    check_split(method_find("streambp"), &setting, split, FIRST);
    split.exchange = EXCHANGE_RING;
    check_split(method_find("checkpoint"), &setting, split, FIRST);
    split.exchange = EXCHANGE_ALL_TO_ALL;
    if (world.comm.size == 2) { // which divides 4 heads
        check_split(method_find("checkpoint"), &setting, split, FIRST);
        check_split(method_find("full"), &setting, split, FIRST);
    }
}

// In bf16 other cards' keys are cuDNN's as far as tiles go: as planned, and as near to f64 as roundings leave it.
static void a_ring_in_bf16_is_as_planned(void **state)
{
    (void)state;
    static const struct setting setting = {.sequences = 1, .dtype = DTYPE_BF16, .context = 48};
    struct split split = {1, world.comm.size, 1, ZERO_NOTHING, EXCHANGE_RING, SUM_ORDERED, false, 1, 1};
    struct fixture f = fixture_of(&setting), exact = fixture_of(&setting);
    struct ranks ranks;
    struct plan plan;
    size_t own;
    f.config.kinds[0].head_dim = exact.config.kinds[0].head_dim = 8;
    exact.dtype = DTYPE_F64;
    fixture_open(&exact);
    step_of(&exact.trainer, &exact.batch, method_find("full"), "");
    double *gradients = fixture_gradients(&exact);
    open_replica(&f, &ranks, split);
    struct measured found = step_of(&f.trainer, &f.batch, method_find("full"), "");
    size_t count = exact.gradient_count;
    double *part = own_gradients(&f.model, count, &own);
    assert_true(relative_l2(part, gradients, count) <= tolerance(DTYPE_BF16));
    plan_open(&plan, &f, split);
    struct measured planned = step_of(&plan.trainer, &plan.batch, method_find("full"), "");
    assert_as_planned(&found, &planned);
    assert_true(found.counters.glue_bytes > 0 && found.counters.glue_bytes == planned.counters.glue_bytes);
    plan_close(&plan);
    free(part);
    free(gradients);
    fixture_close(&f);
    fixture_close(&exact);
}

// How often the host waits in a step whose keys and values go round.
static size_t waits_of_ring(bool documents)
{
    const struct setting setting = {.sequences = 1, .documents = documents};
    struct split split = {1, world.comm.size, 1, ZERO_NOTHING, EXCHANGE_RING, SUM_ORDERED, false, 1, 1};
    size_t (*waits)(void) = (size_t(*)(void))emulated("emulator_waits");
    struct fixture f = fixture_of(&setting);
    struct ranks ranks;
    open_replica(&f, &ranks, split);
    size_t before = waits();
    step_of(&f.trainer, &f.batch, method_find("checkpoint"), "head_chunk=6");
    size_t after = waits();
    fixture_close(&f);
    return after - before;
}

static void documents_do_not_wait(void **state)
{
    (void)state;
    assert_int_equal(waits_of_ring(true), waits_of_ring(false));
}

// Messages of stages, which set out long before they are waited for, in both directions.
static void stages_are_as_one_card(void **state)
{
    (void)state;
    static const struct setting settings[] = {
        {.options = "chunk=4", .sequences = 2, .tied = true, .masked = true},
        {.options = "chunk=64", .sequences = 1},
    };
    struct split split = {1, 1, world.comm.size, ZERO_NOTHING, EXCHANGE_GATHER, SUM_ORDERED, false, 1, 1};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        check_split(method_find("seco"), &settings[i], split, FIRST);
        check_split(method_find("spaco"), &settings[i], split, FIRST);
    }
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {2, 3};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_are_as_one_card),     cmocka_unit_test(communicators_have_room),
        cmocka_unit_test(overlap_keeps_the_bits),       cmocka_unit_test(shared_sequences_are_as_one_card),
        cmocka_unit_test(documents_do_not_wait),        cmocka_unit_test(stages_are_as_one_card),
        cmocka_unit_test(a_ring_in_bf16_is_as_planned),
    };
    setenv("LONGBP_EMULATED_CARDS", "3", 1);
    setenv("RANKS_DEVICE", "cuda", 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "16", 1);
    if (argc > 1)
        return open_world() && cmocka_run_group_tests(tests, NULL, NULL) == 0 ? close_world() : 1;
    return start_all(argv[0], counts, sizeof counts / sizeof *counts);
}
