// Memo: a remembered cost equals a computed one, in memory to the byte and in work to the last launch: every
// method with options that share one memo, so that an incomplete key would return the cost of another; log-probs
// with the adapter and without it.
#include "kernels/device/memo.h"
#include "methods/schedule/log_probs.h"
#include "tests/fixture.h"
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct cost {
    struct counters counters;
    size_t peak_bytes, peak_by_category[CATEGORY_COUNT];
};

// method NULL: log-probs, without the adapter if `without`.
struct walk {
    const struct method *method;
    const void *options;
    bool without;
};

static struct cost cost_of(struct fixture *f, struct walk walk, struct memo *memo)
{
    struct device *device = f->device;
    struct cost cost;
    device->memo = memo;
    device->counters = (struct counters){0};
    arena_reset_peak(&device->arena);
    if (walk.method) {
        struct step_report report = {0};
        fixture_take_step(&f->trainer, walk.method, &f->batch, walk.options, 0, &report);
        step_report_free(&report);
    } else {
        struct tensor log_prob =
            tensor_new(device, f->context * f->batch_size, 1, dtype_statistic(f->dtype), CATEGORY_DATA);
        log_prob_pass(&f->model, &f->batch, log_prob, (struct log_prob_options){7, 4, walk.without});
        tensor_free(device, &log_prob);
    }
    device->memo = NULL;
    assert_int_equal(device->status.code, STATUS_OK);
    cost.counters = device->counters;
    cost.peak_bytes = device->arena.peak_bytes;
    memcpy(cost.peak_by_category, device->arena.peak_by_category, sizeof cost.peak_by_category);
    return cost;
}

// Sums of as many terms in another order.
static bool close(double a, double b)
{
    return fabs(a - b) <= 1e4 * DBL_EPSILON * fabs(b);
}

static bool same(const struct cost *a, const struct cost *b)
{
    return a->peak_bytes == b->peak_bytes &&
           memcmp(a->peak_by_category, b->peak_by_category, sizeof a->peak_by_category) == 0 &&
           a->counters.launches == b->counters.launches && close(a->counters.flops, b->counters.flops) &&
           close(a->counters.bytes_moved, b->counters.bytes_moved) &&
           close(a->counters.glue_bytes, b->counters.glue_bytes) &&
           close(a->counters.estimate_s, b->counters.estimate_s) &&
           close(counters_clock_s(&a->counters), counters_clock_s(&b->counters));
}

// Runs a schedule twice: the second run finds in the memo the first one's results.
static void compare(struct fixture *f, struct walk walk, struct memo *memo, const char *what)
{
    const struct cost plain = cost_of(f, walk, NULL);
    for (int time = 1; time <= 2; time++) {
        const struct cost remembered = cost_of(f, walk, memo);
        if (!same(&remembered, &plain))
            fail_msg("%s on %s, time %d: remembered as %zu bytes, %.17g FLOPs, %.17g bytes moved, %zu launches, "
                     "%.17g s; is %zu, "
                     "%.17g, %.17g, %zu, %.17g",
                     what, f->device_name, time, remembered.peak_bytes, remembered.counters.flops,
                     remembered.counters.bytes_moved, (size_t)remembered.counters.launches,
                     remembered.counters.estimate_s, plain.peak_bytes, plain.counters.flops,
                     plain.counters.bytes_moved, (size_t)plain.counters.launches, plain.counters.estimate_s);
    }
}

static void compare_methods(struct fixture *f, struct memo *memo)
{
    static const char *const asked[] = {"chunk=6 budget=2",
                                        "chunk=6 budget=2 inner=checkpoint segments=2",
                                        "chunk=7 budget=3 keep=all head_chunk=5",
                                        "chunk=64 attention=kept loss=all budget=1",
                                        "chunk=2 budget=4 sampler=bernoulli loss=all",
                                        "chunk=2 budget=4 sampler=bernoulli sampler_seed=3 state=cut",
                                        "chunk=2 sampler=fixed drawn_chunks=1,2",
                                        "chunk=2 sampler=fixed drawn_chunks=1,3"};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        for (const struct method *const *m = methods; *m; m++) {
            void *options = fixture_options(*m, "%s", asked[i]);
            struct status status = {0};
            if (!(*m)->check || (*m)->check(options, &f->config, f->context, &status))
                compare(f, (struct walk){.method = *m, .options = options}, memo, (*m)->name);
            options_free(&(*m)->options, options);
        }
        compare(f, (struct walk){.without = i % 2}, memo, "log-probs");
    }
}

static void compare_all(struct fixture *f)
{
    static const char *const devices[] = {"plan-cpu", "plan-cuda"};
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
        struct memo *memo = memo_new();
        f->device_name = devices[d];
        fixture_open(f);
        f->device->roofline = (struct roofline){.flops_per_s = 1e12, .bytes_per_s = 1e11};
        for (size_t layer = 0; layer < (f->optimizer ? f->config.layers : 1); layer++) {
            if (f->optimizer)
                trainer_activate_block(&f->trainer, layer);
            compare_methods(f, memo);
        }
        fixture_close(f);
        memo_free(memo);
    }
}

static void what_is_remembered_costs_the_same(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    compare_all(&f);
    f.dtype = DTYPE_BF16;
    f.config.qk_norm = true;
    f.lora = (struct lora){.rank = 2, .alpha = 4, .targets = LORA_Q | LORA_V | LORA_DOWN};
    compare_all(&f);
    fixture_set_windows(&f.config, 4, 2);
    f.document = 9;
    compare_all(&f);
    f = fixture_default();
    fixture_set_optimizer(&f, optimizer_find("bread-sgd"), "expand=all"); // the lowest layer's like those above it
    compare_all(&f);
    f = fixture_default();
    fixture_set_delta(&f.config, 5);
    for (; f.document < 10; f.document += 9)
        compare_all(&f);
    f = fixture_default();
    for (size_t i = 0; fixture_choose_family(&f, i); i++) {
        compare_all(&f);
        f = fixture_default();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_remembered_costs_the_same)};
    return cmocka_run_group_tests_name("memo", tests, NULL, NULL);
}
