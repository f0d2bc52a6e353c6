// Updates of replicas: an optimizer's update of weights at every level of ZeRO. Started by itself this program
// starts itself under mpirun, with 2, 3 and 4 ranks.
#include "kernels/trainer/trainer.h"
#include "tests/replicas.h"

static struct measured update_of(struct trainer *trainer, struct batch *batch, size_t t)
{
    const struct method *method = method_find("streambp");
    struct model *model = trainer->model;
    struct device *device = model->device;
    struct step_report report = {0};
    void *options = fixture_options(method, "chunk=7");
    arena_reset_peak(&device->arena);
    device->counters = (struct counters){0};
    fixture_take_step(trainer, method, batch, options, t, &report);
    assert_int_equal(device->status.code, STATUS_OK);
    struct measured measured = {device->counters, device->arena.peak_bytes, report.sums.loss};
    step_report_free(&report);
    options_free(&method->options, options);
    return measured;
}

// All weights, to be freed.
static double *weights_of(struct model *model, size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < model->parameter_count; i++)
        *count += model->parameters[i].size;
    double *values = malloc(*count * sizeof *values), *next = values;
    assert_non_null(values);
    for (size_t unit = 0; unit < unit_count(model); unit++) {
        struct parameters parameters = unit_parameters(model, unit);
        unit_acquire(model, unit);
        for (size_t i = 0; i < parameters.count; i++) {
            tensor_read(model->device, parameters.items[i].value, next);
            next += parameters.items[i].size;
        }
        unit_release(model, unit);
    }
    return values;
}

struct updated {
    const char *optimizer, *options;
    bool lora;
    enum dtype dtype;
};

static struct fixture updated_fixture(const struct updated *u)
{
    struct fixture f = fixture_of(&(struct setting){.dtype = u->dtype, .lora = u->lora, .qk_norm = true});
    f.config.width = 64; // tensors that are kept in 8 bits, and cut between ranks
    f.config.kinds[0].head_dim = 16;
    f.config.ffn = 90;
    f.config.vocab = 131;
    fixture_set_optimizer(&f, optimizer_find(u->optimizer), "%s", u->options);
    return f;
}

enum { STEPS = 3 };

// The first rank's own update of the weights. The caller frees it.
static double *update_alone(const struct updated *u, size_t *count)
{
    double *weights = NULL;
    if (world.comm.rank == 0) {
        struct fixture one = updated_fixture(u);
        fixture_open(&one);
        for (size_t t = 1; t <= STEPS; t++)
            update_of(&one.trainer, &one.batch, t);
        weights = weights_of(&one.model, count);
        fixture_close(&one);
    }
    share_values(&weights, count);
    return weights;
}

// Ways: each level, without overlap and with it; of `some` every other one.
static void check_updates(const struct updated *u, bool some)
{
    size_t count = 0;
    double *whole = update_alone(u, &count), *first = NULL;
    for (size_t way = 0; way <= 2 * ZERO_WEIGHTS + 1; way++) {
        if (some && way > 0 && (way / 2 + way) % 2 == 0)
            continue;
        struct fixture f = updated_fixture(u);
        struct ranks ranks;
        struct plan plan;
        struct split split = {world.comm.size, 1, 1, (enum zero)(way / 2), EXCHANGE_GATHER, SUM_ORDERED,
                              way % 2,         1, 1};
        open_replica(&f, &ranks, split);
        plan_open(&plan, &f, split);
        for (size_t t = 1; t <= STEPS; t++) {
            struct measured found = update_of(&f.trainer, &f.batch, t),
                            planned = update_of(&plan.trainer, &plan.batch, t);
            assert_as_planned(&found, &planned);
        }
        double *weights = weights_of(&f.model, &count);
        assert_same_everywhere(weights, count);
        if (way == 0) {
            first = weights;
            assert_true(u->dtype != DTYPE_F64 || relative_l2(weights, whole, count) <= 1e-12);
        } else {
            assert_same_bytes(weights, first, count * sizeof *weights);
            free(weights);
        }
        plan_close(&plan);
        fixture_close(&f);
    }
    free(first);
    free(whole);
}

// The levels are one optimizer: the same weights, to the bit.
static void updates_are_those_of_one_rank(void **state)
{
    (void)state;
    static const struct updated updates[] = {
        {"adamw", "when=backward master=f32", .dtype = DTYPE_F64},
        {"adamw", "decay=0.1", .lora = true, .dtype = DTYPE_F64},
        {"adamw", "master=f32 state=f32", .dtype = DTYPE_BF16},
        {"adamw", "round=stochastic state=bf16", .dtype = DTYPE_BF16},
        {"adamw", "round=stochastic when=backward", .dtype = DTYPE_BF16},
        {"sgd", "momentum=0.9 decay=0.1", .dtype = DTYPE_F64},
        {"sgd", "when=backward", .dtype = DTYPE_F32},
        {"adam8bit", "round=stochastic when=backward", .dtype = DTYPE_BF16},
        {"bcd", "interval=1", .dtype = DTYPE_F32},
        {"bcd", "interval=2 order=descending", .dtype = DTYPE_F64},
    };
    for (size_t i = 0; i < sizeof updates / sizeof *updates; i++)
        if (is_chosen(i + world.comm.size, 3)) // others with other numbers of ranks
            check_updates(&updates[i], i > 1);
    for (size_t o = 0; optimizers[o]; o++) // as it is by default
        if (optimizers[o]->by_element && is_chosen(o + world.comm.size, 3))
            check_updates(&(struct updated){optimizers[o]->name, "", .dtype = DTYPE_F32}, true);
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {2, 3, 4};
    const struct CMUnitTest tests[] = {cmocka_unit_test(updates_are_those_of_one_rank)};
    if (argc > 1)
        return open_world() && cmocka_run_group_tests(tests, NULL, NULL) == 0 ? close_world() : 1;
    return start_all(argv[0], counts, sizeof counts / sizeof *counts);
}
