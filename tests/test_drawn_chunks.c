// Drawn chunks, as a search plans them: how many each candidate has, and which draw takes the most memory.
#define _GNU_SOURCE // asprintf
#include "harness/plan/planned_step.h"
#include "harness/plan/space.h"
#include "tests/asked.h"

#define WITHOUT_LIMITS ((struct planned_limits){NO_LIMIT, NO_LIMIT})

// Nothing is remembered from step to step.
static struct planned_memos none;

// A share gives each chunk size its own number of chunks; a number keeps the chunk sizes with enough chunks.
static void chunks_are_of_each_chunk(void **state)
{
    (void)state;
    static const struct {
        const char *budget;
        size_t drawn[4]; // of chunks 128, 256, 512 and 1000, which have 8, 4, 2 and 1
        size_t possible; // the shortest of them
    } cases[] = {{"25%", {2, 1, 1, 1}, 4}, {"100%", {8, 4, 2, 1}, 4}, {"3", {3, 3, 3, 3}, 2}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct space space;
        struct status status = {0};
        char *json;
        assert_true(asprintf(&json,
                             "{'model': 'tiny', 'context': 1000, 'device': 'plan', 'method': {'name': 'spaco', "
                             "'chunk': 128, 'budget': %s%s%s}}",
                             i < 2 ? "'" : "", cases[i].budget, i < 2 ? "'" : "") > 0);
        struct trial trial = trial_of(json);
        const struct option_table *table = &trial.method->options;
        json_t *given = json_pack("{s:s}", "budget", cases[i].budget);
        space_open(&space, &trial, 1, given);
        for (size_t f = 0; f < space.count; f++) {
            for (size_t index = 0; index < space.families[f].candidates; index++) {
                void *options = family_options(&space.families[f], index);
                size_t chunk = options_count(table, options, "chunk", 0), which = 0;
                while (which < 3 && (size_t)128 << which < chunk)
                    which++;
                assert_int_equal(options_count(table, options, "budget", 0), cases[i].drawn[which]);
                struct planned_step step;
                assert_true(planned_step(&step, &trial, options, WITHOUT_LIMITS, &none, &status));
                assert_int_equal(step.fits, which < cases[i].possible);
                options_free(table, options);
            }
        }
        assert_true(space.candidates >= 4);
        space_close(&space);
        json_decref(given);
        trial_free(&trial);
        free(json);
    }
}

// Maximum over all draws.
struct drawn {
    const struct trial *trial;
    size_t peak_bytes;
};

static bool plan_drawn(void *visitor, const void *options, double probability)
{
    struct drawn *drawn = visitor;
    struct planned_step step;
    struct status status = {0};
    (void)probability;
    assert_true(planned_step(&step, drawn->trial, options, WITHOUT_LIMITS, &none, &status));
    assert_true(step.fits);
    drawn->peak_bytes = step.peak_bytes > drawn->peak_bytes ? step.peak_bytes : drawn->peak_bytes;
    return true;
}

// Its bytes are those of the draw that takes most, also where the last chunk is a short one.
static void the_largest_draw_takes_most(void **state)
{
    (void)state;
#define HYBRID(dim)                                                                                                \
    "{'preset': 'tiny', 'delta': {'layers': [0, 2], 'heads': 4, 'key_heads': 2, 'key_dim': " dim                   \
    ", 'value_dim': 64}}"
    static const char *const contexts[] = {"'context': 1024", "'context': 1025", "'context': 1200",
                                           "'context': 1270, 'batch': 2", "'context': 1150, 'dtype': 'bf16'"},
                             *const asked[] = {"'budget': 1", "'budget': 2, 'segments': 2",
                                               "'budget': 3, 'loss': 'all'"},
                             *const models[] = {"'tiny'", HYBRID("128"), HYBRID("16")};
    for (size_t i = 0; i < COUNT(models) * COUNT(contexts) * COUNT(asked); i++) {
        const char *method = asked[i % COUNT(asked)], *model = models[i / COUNT(asked) / COUNT(contexts)];
        char *json;
        assert_true(asprintf(&json,
                             "{'model': %s, 'device': 'plan', %s, 'method': {'name': 'spaco', 'chunk': 256, %s%s}}",
                             model, contexts[i / COUNT(asked) % COUNT(contexts)], method,
                             model[0] == '{' && i % 2 ? ", 'state': 'cut'" : "") > 0);
        struct trial trial = trial_of(json);
        struct drawn drawn = {.trial = &trial};
        struct status status = {0};
        struct planned_step step;
        assert_true(trial.method->each_draw(trial.options, trial.context, 100, plan_drawn, &drawn, &status));
        assert_true(planned_step(&step, &trial, trial.options, WITHOUT_LIMITS, &none, &status));
        if (step.peak_bytes != drawn.peak_bytes)
            fail_msg("%s: %zu bytes, but a draw takes %zu", json, step.peak_bytes, drawn.peak_bytes);
        trial_free(&trial);
        free(json);
    }
}

static bool plan_likely(void *visitor, const void *options, double probability)
{
    return probability < 1e-6 || plan_drawn(visitor, options, probability);
}

// And so are deferred's, of draws that come at all: of five chunks all, one at the most, or none.
static void the_largest_of_deferred_takes_most(void **state)
{
    (void)state;
    static const char *const contexts[] = {"'context': 1280", "'context': 1025", "'context': 1200, 'batch': 2",
                                           "'context': 1150, 'dtype': 'bf16'"},
                             *const asked[] = {"'deferral': 0.5, 'backward_share': 0.75", "'deferral': 4e-4",
                                               "'deferral': 0"},
                             *const ways[] = {"", ", 'inner': 'checkpoint'", ", 'keep': 'all', 'offload': ['kv']"},
                             *const models[] = {"'tiny'",
                                                "{'preset': 'tiny', 'qk_norm': true, 'sliding_window': 100}"};
    for (size_t i = 0; i < COUNT(models) * COUNT(contexts) * COUNT(asked); i++) {
        char *json;
        assert_true(
            asprintf(&json,
                     "{'model': %s, 'device': 'plan', %s, 'method': {'name': 'deferred', 'chunk': 256, %s%s}}",
                     models[i % COUNT(models)], contexts[i / COUNT(models) % COUNT(contexts)],
                     asked[i / COUNT(models) / COUNT(contexts)], ways[i % COUNT(ways)]) > 0);
        struct trial trial = trial_of(json);
        struct drawn drawn = {.trial = &trial};
        struct status status = {0};
        struct planned_step step;
        assert_true(trial.method->each_draw(trial.options, trial.context, 200, plan_likely, &drawn, &status));
        assert_true(planned_step(&step, &trial, trial.options, WITHOUT_LIMITS, &none, &status));
        if (step.peak_bytes != drawn.peak_bytes)
            fail_msg("%s: %zu bytes, but a draw takes %zu", json, step.peak_bytes, drawn.peak_bytes);
        trial_free(&trial);
        free(json);
    }
}

// A plan of one draw says what the largest takes, and whether that fits: of uniform the last chunks, of samplers
// that draw any number of them nearly all.
static void a_plan_says_the_largest_draw(void **state)
{
    (void)state;
#define STEP "plan --json --model tiny --context 1024 --method spaco --chunk 64 "
    json_t *uniform = longbp_json(STEP "--budget 2"), *any = longbp_json(STEP "--budget 4 --sampler bernoulli"),
           *last = longbp_json(STEP "--sampler fixed --drawn-chunks 14,15"), *all = longbp_json(STEP "--budget 16"),
           *expected = longbp_json(STEP "--sampler fixed --drawn-chunks 12,13,14,15");
    double largest = number(uniform, "largest_draw_bytes");
    assert_true(largest == number(last, "peak_bytes"));
    assert_true(largest >= number(uniform, "peak_bytes"));
    assert_null(json_object_get(last, "largest_draw_bytes"));
    assert_true(number(any, "largest_draw_bytes") > number(expected, "peak_bytes"));
    assert_true(number(any, "largest_draw_bytes") < number(all, "peak_bytes"));
    for (int beyond = 0; beyond < 2; beyond++) {
        json_t *plan = longbp_json(STEP "--budget 2 --memory-limit %.0fB", largest - beyond);
        assert_int_equal(json_is_true(json_object_get(plan, "fits")), !beyond);
        assert_true(number(plan, "missing_bytes") == beyond);
        json_decref(plan);
    }
    json_decref(expected);
    json_decref(all);
    json_decref(last);
    json_decref(any);
    json_decref(uniform);
#undef STEP
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_are_of_each_chunk),
        cmocka_unit_test(the_largest_draw_takes_most),
        cmocka_unit_test(the_largest_of_deferred_takes_most),
        cmocka_unit_test(a_plan_says_the_largest_draw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
