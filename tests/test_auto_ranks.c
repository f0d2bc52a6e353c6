// Method auto over ranks that have different memory: one choice for all, which the one with the least has room for.
#define _GNU_SOURCE // asprintf
#include "harness/plan/choice.h"
#include "tests/asked.h"
#include "tests/under_mpirun.h"

static struct trial trial_within(size_t bytes)
{
    char *json;
    assert_true(
        asprintf(&json,
                 "{'model': 'tiny', 'context': 300, 'batch': 4, 'method': 'auto', 'limits': {'memory': %zu, "
                 "'host_memory': '1MiB'}, 'parallel': {'data': %zu}}",
                 bytes, world.comm.size) > 0);
    struct trial trial = trial_of(json);
    free(json);
    return trial;
}

// Whoever it is that has the least.
static void the_rank_with_the_least_has_room(void **state)
{
    (void)state;
    const size_t max = 64 << 20, min = 9 << 20;
    struct trial wide = trial_within(max), narrow = trial_within(min);
    struct status status = {0};
    assert_true(choose_method(&wide, (struct planned_limits){max, 1 << 20}, &status) &&
                choose_method(&narrow, (struct planned_limits){min, 1 << 20}, &status));
    json_t *of_max = trial_chosen(&wide), *of_min = trial_chosen(&narrow);
    assert_false(json_equal(of_max, of_min));
    for (size_t rank = 0; rank < world.comm.size; rank++) {
        struct trial trial = trial_within(rank == world.comm.rank ? min : max);
        assert_true(choose_within(&trial, &world, &status));
        json_t *made = trial_chosen(&trial);
        assert_true(json_equal(made, of_min));
        json_decref(made);
        trial_free(&trial);
    }
    json_decref(of_min);
    json_decref(of_max);
    trial_free(&narrow);
    trial_free(&wide);
}

static size_t peak_of(const struct trial *trial)
{
    struct planned_memos none = {0};
    struct planned_step step;
    struct status status = {0};
    assert_true(
        planned_step(&step, trial, trial->options, (struct planned_limits){NO_LIMIT, NO_LIMIT}, &none, &status) &&
        step.fits);
    return step.peak_bytes;
}

// Method auto divides a machine's free memory among its ranks.
static void a_machine_is_shared(void **state)
{
    (void)state;
    struct status status = {0};
    struct device *device = device_open("cpu", DTYPE_F32, 0, &status);
    assert_non_null(device);
    size_t free_bytes = device->arena.limit_bytes;
    device_close(device);
    struct trial trial = trial_within(1 << 20), full = trial_within(free_bytes);
    trial.memory_limit_bytes = 0;
    trial.host_memory_limit_bytes = full.host_memory_limit_bytes = 1;
    options_free(&full.method->options, full.options);
    full.method = method_find("full");
    full.options = options_new(&full.method->options);
    while (peak_of(&full) < free_bytes * 6 / 10) // with what is kept once it fits one rank, and not two
        full.context += full.context / 4;
    assert_true(peak_of(&full) < free_bytes * 9 / 10);
    trial.context = full.context;
    assert_true(choose_within(&trial, &world, &status));
    assert_true(peak_of(&trial) < free_bytes * 11 / 20);
    trial_free(&trial);
    trial_free(&full);
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {2, 3};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rank_with_the_least_has_room),
        cmocka_unit_test(a_machine_is_shared),
    };
    if (argc > 1)
        return open_world() && cmocka_run_group_tests_name("auto over ranks", tests, NULL, NULL) == 0
                   ? close_world()
                   : 1;
    return start_all(argv[0], counts, COUNT(counts));
}
