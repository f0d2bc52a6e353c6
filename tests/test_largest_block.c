// Largest block: with one active block at a time, a step is planned, measured and limited as for the block with
// the largest peak, for every method and order of the blocks.
#define _GNU_SOURCE // asprintf
#include "harness/plan/max_context.h"
#include "harness/plan/planned_step.h"
#include "harness/step/largest_block.h"
#include "kernels/trainer/trainer.h"
#include "tests/asked.h"
#include "tests/chosen_tests.h"
#include "tests/sanitized.h"

// Few heads of keys and values: one layer's are less than its input.
#undef MODEL
#define MODEL                                                                                                      \
    "'model': {'layers': 4, 'width': 64, 'heads': 8, 'kv_heads': 1, 'head_dim': 8, 'ffn': 48, 'vocab': 97}"
enum { LAYERS = 4, CONTEXT = 64 };

static const struct {
    const char *method, *offload;
} walks[] = {
    {"'name': 'full'", ""},
    {"'name': 'checkpoint'", ""},
    {"'name': 'checkpoint', 'segments': 3", ""},
    {"'name': 'checkpoint', 'segments': 2", "'inputs'"},
    {"'name': 'streambp', 'chunk': 16", ""},
    {"'name': 'streambp', 'chunk': 16, 'segment_starts': [0, 2]", "'inputs', 'input_gradients'"},
    {"'name': 'seco', 'chunk': 16", ""},
    {"'name': 'seco', 'chunk': 16, 'segments': 2", "'kv'"},
    {"'name': 'spaco', 'chunk': 16, 'sampler': 'fixed', 'drawn_chunks': [2]", ""},
    {"'name': 'spaco', 'chunk': 16, 'sampler': 'fixed', 'drawn_chunks': [1, 3], 'segments': 2, 'loss': 'all'", ""},
};
static const char *const orders[] = {"ascending", "descending", "random"};
static const struct {
    const char *options, *lora;
    bool in_backward; // unless it is told otherwise, which it is where chunks are walked
} kinds[] = {
    {"'name': 'bcd'", "null", false},
    {"'name': 'bread-sgd'", "null", true},
    {"'name': 'bread-sgd', 'expand': 'above'", "null", true},
    {"'name': 'bread-lora'", "{}", false},
    {"'name': 'bread-lora', 'expand': 'above', 'factor_state': 'reset'", "{}", false},
};
static const char *const offloads[] = {"", "'weights', 'optimizer'"};

static char *trial_json(size_t kind, size_t walk, size_t order, size_t place, const char *device, const char *more)
{
    char *json;
    const char *own = walks[walk].offload, *comma = *own && place ? ", " : "";
    bool chunks = strstr(walks[walk].method, "seco") || strstr(walks[walk].method, "spaco");
    assert_true(asprintf(&json,
                         "{" MODEL
                         ", 'context': %d, 'batch': 2, 'device': '%s', 'method': {%s, 'offload': [%s%s%s]}, "
                         "'lora': %s, 'optimizer': {%s%s, 'order': '%s', 'interval': 1%s}%s}",
                         CONTEXT, device, walks[walk].method, offloads[place], comma, own, kinds[kind].lora,
                         kinds[kind].options, kinds[kind].in_backward && chunks ? ", 'when': 'end'" : "",
                         orders[order], strcmp(orders[order], "random") == 0 ? ", 'seed': 3" : "", more) > 0);
    return json;
}

// Device and host bytes of a step of one layer's turn.
static void plan_layer(const struct trial *trial, size_t layer, size_t bytes[2])
{
    struct setup setup;
    struct status status = {0};
    struct step_report report = {0};
    struct setup_options options = setup_options_planned(trial);
    assert_true(setup_open(&setup, trial, &options, &status));
    trainer_activate_block(&setup.trainer, layer);
    arena_reset_peak(&setup.device->arena);
    arena_reset_peak(&setup.device->host);
    struct training_step step = setup_update(&setup, trial, 1);
    training_step_take(&step, &report);
    assert_int_equal(setup.device->status.code, STATUS_OK);
    bytes[0] = setup.device->arena.peak_bytes;
    bytes[1] = setup.device->host.peak_bytes;
    step_report_free(&report);
    setup_close(&setup);
}

static void peaks_of(const char *json, size_t bytes[2])
{
    json_t *record = record_of(json);
    bytes[0] = (size_t)number(record, "peak_bytes");
    bytes[1] = (size_t)json_number_value(json_object_get(record, "host_peak_bytes")); // null: nothing is kept there
    json_decref(record);
}

static void expect_peaks(const char *json, const size_t bytes[2])
{
    size_t found[2];
    peaks_of(json, found);
    bool reset = strstr(json, "reset"); // fewer states with every turn: another one keeps more on the host
    if (found[0] != bytes[0] || (reset ? found[1] > bytes[1] : found[1] != bytes[1]))
        fail_msg("%s: peak %zu and on the host %zu, not %zu and %zu", json, found[0], found[1], bytes[0], bytes[1]);
}

static bool fits(const char *json)
{
    struct trial trial = trial_of(json);
    char *line = trial_run(&trial, -1);
    json_t *record = json_loads(line, 0, NULL);
    const char *status = json_string_value(json_object_get(record, "status"));
    bool ok = strcmp(status, "ok") == 0;
    assert_true(ok || strcmp(status, "oom") == 0);
    json_decref(record);
    free(line);
    trial_free(&trial);
    return ok;
}

// Steps of every active block, and of a run over all of them. All orders are planned, and one is run.
static void check_steps(size_t kind, size_t walk)
{
    for (size_t p = 0; p < COUNT(offloads); p++) {
        size_t max[2] = {0}, bytes[2];
        char *json = trial_json(kind, walk, 0, p, "plan-cpu", "");
        struct trial trial = trial_of(json);
        for (size_t layer = 0; layer < LAYERS; layer++) {
            plan_layer(&trial, layer, bytes);
            for (size_t i = 0; i < 2; i++)
                max[i] = bytes[i] > max[i] ? bytes[i] : max[i];
        }
        free(json);
        trial_free(&trial);
        for (size_t i = 0; i <= COUNT(orders); i += STRIDE) {
            if (i < COUNT(orders) && !is_chosen(kind + walk + p + i, 4))
                continue;
            bool runs = i == COUNT(orders) || STRIDE > 1;
            const char *device = runs ? "cpu" : "plan-cpu";
            size_t order = runs ? (kind + walk + p) % COUNT(orders) : i;
            json = trial_json(kind, walk, order, p, device,
                              ", 'measure': {'warmup': 0, 'samples': 2, 'gradient': 'none'}");
            expect_peaks(json, max);
            free(json);
            json = trial_json(kind, walk, order, p, device,
                              ", 'measure': {'gradient': 'none'}, 'train': {'steps': 6}");
            expect_peaks(json, max);
            free(json);
        }
    }
}

// A run that ends before the lowest layers' turns takes less, and its plan says so.
static void check_short_runs(size_t kind, size_t walk)
{
    size_t bytes[2][2];
    for (size_t d = 0; d < 2; d++) {
        char *json = trial_json(kind, walk, 1, 0, d ? "cpu" : "plan-cpu",
                                ", 'measure': {'gradient': 'none'}, 'train': {'steps': 2}");
        peaks_of(json, bytes[d]);
        free(json);
    }
    assert_memory_equal(bytes[0], bytes[1], sizeof bytes[0]);
}

// To the byte: what the largest turn takes is enough, and one byte less is not, for the plan as for the run.
static void check_limits(size_t kind, size_t walk)
{
    size_t order = (kind + walk) % COUNT(orders);
    char *json = trial_json(kind, walk, order, 0, "plan-cpu", "");
    struct trial trial = trial_of(json);
    struct status status = {0};
    struct planned_memos memos;
    struct planned_step step;
    struct max_context found;
    planned_memos_open(&memos);
    assert_true(
        planned_step(&step, &trial, trial.options, (struct planned_limits){NO_LIMIT, NO_LIMIT}, &memos, &status));
    planned_memos_close(&memos);
    free(json);
    for (size_t less = 0; less < 2; less++) {
        char *more;
        // A check reads all gradients, which an update within the walk frees.
        assert_true(asprintf(&more, ", 'measure': {'gradient': 'none'}, 'limits': {'memory': %zu}",
                             step.peak_bytes - less) > 0);
        json = trial_json(kind, walk, order, 0, "cpu", more);
        if (fits(json) != (less == 0))
            fail_msg("%s: %s", json, less ? "fits" : "does not fit");
        free(json);
        free(more);
        assert_true(max_context_find(&found, &trial, EXTENT_CONTEXT, step.peak_bytes - less, 0, &status));
        assert_true(less ? found.largest < CONTEXT : found.largest >= CONTEXT);
    }
    trial_free(&trial);
}

static void check_all(void (*check)(size_t kind, size_t walk))
{
    for (size_t i = 0; i < COUNT(kinds) * COUNT(walks); i += stride())
        check(i / COUNT(walks), i % COUNT(walks));
}

static void a_step_is_that_of_the_largest_block(void **state)
{
    (void)state;
    check_all(check_steps);
}

static void a_short_run_is_that_of_its_own_blocks(void **state)
{
    (void)state;
    check_all(check_short_runs);
}

static void limits_hold_for_the_largest_block(void **state)
{
    (void)state;
    check_all(check_limits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_that_of_the_largest_block),
        cmocka_unit_test(a_short_run_is_that_of_its_own_blocks),
        cmocka_unit_test(limits_hold_for_the_largest_block),
    };
    return cmocka_run_group_tests_name("largest turn", tests, NULL, NULL);
}
