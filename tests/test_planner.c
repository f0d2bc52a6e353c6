// The planner: its choice and its front are those of an exhaustive search, and its bounds are bounds.
#define _GNU_SOURCE // asprintf
#include "harness/plan/planner.h"
#include "harness/step/ranks_possible.h"
#include "tests/asked.h"
#include "tests/chosen_tests.h"
#include "tests/sanitized.h"
#include <math.h>

#define TRIALS_MAX 32

// Every exact method that ranks can share as is asked, and with a budget those that draw chunks; then the same
// with other keys: dKV in bf16, and what has a place on the host there.
struct asked {
    struct trial trials[TRIALS_MAX];
    size_t count;
};

struct setting {
    const char *json, *variants[3], *budget;
};

static void ask(struct asked *asked, const struct setting *setting)
{
    asked->count = 0;
    for (size_t i = 0; methods[i]; i++) {
        bool draws = setting->budget && option_find(&methods[i]->options, "budget");
        for (size_t v = 0; (methods[i]->exact || draws) && (v == 0 || setting->variants[v - 1]); v++) {
            char *json;
            const char *variant = v ? setting->variants[v - 1] : "";
            bool own = strstr(variant, "offload");
            assert_true(asked->count < TRIALS_MAX);
            assert_true(asprintf(&json, "{%s, 'device': 'plan'%s, 'method': {'name': '%s'%s%s%s}}", setting->json,
                                 own ? "" : variant, methods[i]->name, draws ? ", 'chunk': 128, 'budget': " : "",
                                 draws ? setting->budget : "", own ? variant : "") > 0);
            struct trial trial = trial_of(json);
            struct status why = {0};
            if (ranks_fit(&trial, &why))
                asked->trials[asked->count++] = trial;
            else
                trial_free(&trial);
            free(json);
        }
    }
}

static void ask_free(struct asked *asked)
{
    for (size_t i = 0; i < asked->count; i++)
        trial_free(&asked->trials[i]);
}

// Nothing is remembered from step to step.
static struct planned_memos none;

static const struct setting settings[] = {
    {"'model': 'tiny', 'context': 1000, 'profile': 'rtx-3090'", {", 'offload': ['gradients']"}, NULL},
    {"'model': {'layers': 3, 'width': 64, 'heads': 4, 'kv_heads': 2, 'ffn': 128, 'vocab': 300}, 'dtype': 'bf16', "
     "'context': 700, 'batch': 2, 'lora': {'rank': 4}, 'profile': 'h200-141g'",
     {", 'kv_gradient_dtype': 'bf16'", ", 'offload': ['weights']"},
     NULL},
    {"'model': {'layers': 5, 'width': 32, 'heads': 2, 'kv_heads': 1, 'ffn': 96, 'vocab': 64}, 'dtype': 'f64', "
     "'context': 2049, 'optimizer': 'adamw'",
     {", 'offload': ['weights', 'gradients', 'optimizer']"},
     NULL},
    // Layers of one shape whose gradients are not summed alike.
    {"'model': {'layers': 3, 'width': 32, 'heads': 2, 'kv_heads': 1, 'ffn': 96, 'vocab': 64}, 'dtype': 'bf16', "
     "'context': 300, 'optimizer': {'name': 'galore', 'rank': 4, 'sums': 'projected'}",
     {", 'offload': ['gradients', 'optimizer']"},
     NULL},
    // Layers of one shape that do not see the same.
    {"'model': {'layers': 4, 'width': 32, 'heads': 2, 'kv_heads': 1, 'ffn': 96, 'vocab': 64, 'sliding_window': "
     "100, "
     "'full_layers': [1]}, 'context': 1100, 'batch': 2, 'documents': [90, 401, 5], 'profile': 'rtx-3090'",
     {NULL},
     NULL},
    // States: the chunks of least memory are neither the shortest nor the longest.
    {"'model': {'layers': 4, 'width': 64, 'heads': 4, 'kv_heads': 2, 'ffn': 96, 'vocab': 64, 'delta': {'layers': "
     "[0, "
     "1, 2], 'heads': 4, 'key_heads': 2, 'key_dim': 16, 'value_dim': 32}}, 'context': 5000, 'profile': 'rtx-3090'",
     {", 'offload': ['weights']"},
     NULL},
    // Copies take about as long as operations: a longer chunk may take more time.
    {"'model': {'layers': 4, 'width': 512, 'heads': 8, 'kv_heads': 2, 'ffn': 1024, 'vocab': 300}, 'dtype': 'bf16', "
     "'context': 4096, 'lora': {'rank': 4}, 'profile': 'rtx-3090'",
     {NULL},
     NULL},
    // Own kernels take a chunk as a whole where a mask hides a key: longer chunks take more time.
    {"'model': {'layers': 2, 'width': 64, 'heads': 4, 'kv_heads': 2, 'ffn': 96, 'vocab': 64, 'head_dim': 32, "
     "'sliding_window': 300, 'full_layers': [1]}, 'dtype': 'bf16', 'context': 1000, 'lora': {'rank': 4}, "
     "'profile': 'rtx-3090,f32_flops_per_s=1e10'",
     {NULL},
     NULL},
    {"'model': {'layers': 2, 'width': 64, 'heads': 4, 'kv_heads': 2, 'ffn': 2048, 'vocab': 64, 'head_dim': 32}, "
     "'dtype': 'bf16', 'context': 1000, 'documents': [300, 201], 'profile': 'rtx-3090,f32_flops_per_s=1e10'",
     {NULL},
     NULL},
    {"'model': {'layers': 2, 'width': 64, 'heads': 4, 'kv_heads': 2, 'ffn': 2048, 'vocab': 64, 'head_dim': 32}, "
     "'dtype': 'bf16', 'context': 600, 'batch': 2, 'prompt': 200, 'group': 2, "
     "'profile': 'rtx-3090,f32_flops_per_s=1e10'",
     {NULL},
     NULL},
    // A pipeline, which longer chunks fill less, over links that are known.
    {"'model': {'layers': 5, 'width': 64, 'heads': 4, 'kv_heads': 2, 'ffn': 96, 'vocab': 300}, 'context': 1500, "
     "'batch': 2, 'profile': 'h200-141g', 'parallel': {'stage': 3, 'data': 2}",
     {NULL},
     NULL},
    // Tokens that ranks share, over links that nobody knows; the keys of others are gathered, or go round.
    {"'model': {'layers': 3, 'width': 32, 'heads': 4, 'kv_heads': 2, 'ffn': 96, 'vocab': 64}, 'context': 700, "
     "'batch': 2, 'optimizer': 'adamw', 'parallel': {'sequence': 3, 'data': 2, 'zero': 2}",
     {NULL},
     NULL},
    {"'model': {'layers': 3, 'width': 32, 'heads': 4, 'kv_heads': 2, 'ffn': 96, 'vocab': 64}, 'context': 700, "
     "'lora': {'rank': 4}, 'profile': 'rtx-3090', 'parallel': {'sequence': 2, 'exchange': 'ring'}",
     {NULL},
     NULL},
    // Shares of weights over links that take longer than operations, at once and beside them.
    {"'model': {'layers': 3, 'width': 32, 'heads': 4, 'kv_heads': 2, 'ffn': 96, 'vocab': 64}, 'context': 700, "
     "'batch': 2, 'optimizer': 'adamw', 'profile': 'h200-141g', 'parallel': {'sequence': 2, 'exchange': "
     "'all-to-all', 'data': 2, 'zero': 3}",
     {NULL},
     NULL},
    {"'model': {'layers': 3, 'width': 32, 'heads': 4, 'kv_heads': 2, 'ffn': 96, 'vocab': 64}, 'context': 700, "
     "'batch': 2, 'profile': 'h200-141g', 'parallel': {'sequence': 2, 'data': 2, 'zero': 3, 'overlap': true}",
     {NULL},
     NULL},
    // A few chunks are drawn, of which the longest chunks have too few; or a share of each chunk's own.
    {"'model': {'layers': 3, 'width': 256, 'heads': 4, 'kv_heads': 2, 'ffn': 512, 'vocab': 300}, 'dtype': 'bf16', "
     "'context': 3000, 'lora': {'rank': 4}, 'profile': 'rtx-3090'",
     {", 'offload': ['weights']"},
     "3"},
    {"'model': {'layers': 4, 'width': 64, 'heads': 4, 'kv_heads': 2, 'ffn': 96, 'vocab': 300}, 'context': 2048, "
     "'batch': 2, 'profile': 'h200-141g', 'parallel': {'stage': 2, 'data': 2}",
     {NULL},
     "'40%'"},
};

// Host bytes do not depend on the candidate, but where gradients of windows slide; with ranks a bound has their
// average.
static bool bounds_host(const struct family *family, size_t bound_bytes, size_t bytes)
{
    bool below = trial_ranks(family->trial) > 1 || config_max_window(&family->trial->config) > 0;
    return below ? bound_bytes <= bytes : bound_bytes == bytes;
}

// All candidates of a space, planned without limits.
static struct candidate *plan_all(const struct space *space)
{
    struct candidate *all = calloc(space->candidates, sizeof *all);
    struct status status = {0};
    size_t n = 0;
    assert_non_null(all);
    for (size_t f = 0; f < space->count; f++) {
        const struct family *family = &space->families[f];
        for (size_t index = 0; index < family->candidates; index++, n++) {
            void *options = family_options(family, index);
            all[n] = (struct candidate){.family = f, .index = index};
            assert_true(planned_step(&all[n].step, family->trial, options,
                                     (struct planned_limits){NO_LIMIT, NO_LIMIT}, &none, &status));
            if (!all[n].step.fits) // its method does not take these options together
                assert_int_equal(all[n].step.why.code, STATUS_BAD_INPUT);
            options_free(&family->trial->method->options, options);
        }
    }
    assert_int_equal(n, space->candidates);
    return all;
}

// Each setting's request, its space, and the exhaustive search of it, which all tests share.
static struct walked {
    struct asked asked;
    json_t *given;
    struct space space;
    struct candidate *all;
} walked[COUNT(settings)];

static json_t *given_budget(const char *budget)
{
    char *json, *text;
    assert_true(asprintf(&json, "{'budget': %s}", budget) > 0);
    json_t *given = json_loads(text = quoted(json), 0, NULL);
    assert_non_null(given);
    free(text);
    free(json);
    return given;
}

static int walk_all(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(settings); s += stride()) {
        struct walked *w = &walked[s];
        ask(&w->asked, &settings[s]);
        w->given = settings[s].budget ? given_budget(settings[s].budget) : NULL;
        space_open(&w->space, w->asked.trials, w->asked.count, w->given);
        w->all = plan_all(&w->space);
    }
    return 0;
}

static int free_all(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(settings); s += stride()) {
        free(walked[s].all);
        space_close(&walked[s].space);
        json_decref(walked[s].given);
        ask_free(&walked[s].asked);
    }
    return 0;
}

static bool within(struct planned_limits limits, const struct planned_step *step)
{
    return step->peak_bytes <= limits.device_bytes && step->host_peak_bytes <= limits.host_bytes;
}

// Rounding of sums in another order.
#define ROUNDING 1e-12

static void expect_choice(const struct space *space, const struct candidate *all, struct planned_limits limits)
{
    const struct candidate *best = NULL;
    for (size_t i = 0; i < space->candidates; i++)
        if (all[i].step.fits && within(limits, &all[i].step) && (!best || all[i].step.seconds < best->step.seconds))
            best = &all[i];
    struct planner planner;
    struct status status = {0};
    struct candidate fastest, *pareto_front;
    size_t count = 0;
    assert_true(planner_open(&planner, space, limits, &status));
    for (size_t i = 0; i < space->candidates; i++) {
        const struct planned_step *bound = &planner.bounds[all[i].family], *step = &all[i].step;
        if (step->fits &&
            (bound->seconds > step->seconds || bound->lower_bound_bytes > step->peak_bytes ||
             !bounds_host(&space->families[all[i].family], bound->host_peak_bytes, step->host_peak_bytes)))
            fail_msg("the bound of family %zu is none of candidate %zu", all[i].family, all[i].index);
    }
    assert_true(planner_fastest(&planner, &fastest, &status) &&
                planner_pareto_front(&planner, &fastest, &pareto_front, &count, &status));
    assert_int_equal(fastest.step.fits, best != NULL);
    assert_int_equal(count > 0, best != NULL);
    if (best && fabs(fastest.step.seconds - best->step.seconds) > ROUNDING * best->step.seconds)
        fail_msg("limits %zu, %zu: %.9g s, but %.9g s fits", limits.device_bytes, limits.host_bytes,
                 fastest.step.seconds, best->step.seconds);
    for (size_t i = 0; i < count; i++) {
        assert_true(within(limits, &pareto_front[i].step));
        assert_true(i == 0 || (pareto_front[i].step.seconds > pareto_front[i - 1].step.seconds &&
                               pareto_front[i].step.peak_bytes < pareto_front[i - 1].step.peak_bytes));
    }
    // Points are thinned by the margin, and families left out by it: twice.
    const double margin = (1 + PARETO_TIME_MARGIN) * (1 + PARETO_TIME_MARGIN);
    for (size_t i = 0; i < space->candidates; i++) {
        bool reached = !all[i].step.fits || !within(limits, &all[i].step);
        for (size_t j = 0; j < count && !reached; j++)
            reached = pareto_front[j].step.seconds <= margin * all[i].step.seconds &&
                      (double)pareto_front[j].step.peak_bytes <=
                          (1 + PARETO_MEMORY_MARGIN) * (double)all[i].step.peak_bytes;
        assert_true(reached);
    }
    free(pareto_front);
    planner_close(&planner);
}

static int by_size(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

// With no limit, with limits that a few candidates fit, exactly or but for a byte, and with one that none fits.
static void the_choice_is_that_of_an_exhaustive_walk(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(settings); s += stride()) {
        const struct space *space = &walked[s].space;
        const struct candidate *all = walked[s].all;
        assert_true(space->count >= 10 && space->candidates >= 10);
        size_t *peaks = calloc(space->candidates, sizeof *peaks), host_bytes = 0;
        assert_non_null(peaks);
        for (size_t i = 0; i < space->candidates; i++) {
            peaks[i] = all[i].step.peak_bytes;
            host_bytes = all[i].step.host_peak_bytes > host_bytes ? all[i].step.host_peak_bytes : host_bytes;
        }
        qsort(peaks, space->candidates, sizeof *peaks, by_size);
        assert_true(host_bytes > 0);
        const size_t host_limits[] = {NO_LIMIT, host_bytes - 1, 0};
        for (size_t host = 0; host < COUNT(host_limits); host++) {
            size_t host_limit = host_limits[host], limit = s + host;
            expect_choice(space, all, (struct planned_limits){NO_LIMIT, host_limit});
            expect_choice(space, all, (struct planned_limits){peaks[0] - 1, host_limit});
            for (size_t i = 0; i < space->candidates; i += space->candidates / 3, limit++) {
                if (!is_chosen(limit, 4))
                    continue;
                expect_choice(space, all, (struct planned_limits){peaks[i], host_limit});
                expect_choice(space, all, (struct planned_limits){peaks[i] + 1, host_limit});
            }
        }
        free(peaks);
    }
}

// Bounds hold for every candidate; and the candidates of a family are ordered by bytes, except the highest, which
// is tried first, by bounds, and without copies by times. Offload never shortens the time.
static void bounds_are_bounds(void **state)
{
    (void)state;
    size_t slower = 0;
    for (size_t s = 0; s < COUNT(settings); s += stride()) {
        const struct space *space = &walked[s].space;
        const struct candidate *all = walked[s].all;
        struct status status = {0};
        struct planned_step lower = {0};
        for (size_t i = 0; i < space->candidates; i++) {
            const struct family *family = &space->families[all[i].family];
            const struct planned_step *step = &all[i].step;
            struct planned_step bound;
            void *options = family_options(family, all[i].index);
            assert_true(planned_bound(&bound, family->trial, options, &none, &status));
            if (bound.seconds > step->seconds || bound.peak_bytes > step->peak_bytes)
                fail_msg("%s, candidate %zu: bound %.9g s and %zu bytes (floor %zu), but %.9g s and %zu bytes",
                         family->trial->method->name, all[i].index, bound.seconds, bound.peak_bytes,
                         bound.lower_bound_bytes, step->seconds, step->peak_bytes);
            assert_true(!step->fits || bounds_host(family, bound.host_peak_bytes, step->host_peak_bytes));
            bool waits = step->host_peak_bytes > 0 || trial_ranks(family->trial) > 1;
            bool masked = config_max_window(&family->trial->config) > 0 || family->trial->packing.count > 0 ||
                          family->trial->group > 1;
            waits |= masked && family->trial->dtype == DTYPE_BF16;
            bool rises = all[i].index == 0 || step->seconds <= all[i - 1].step.seconds * (1 + ROUNDING);
            bool highest = all[i].index + 1 == family->candidates;
            if (all[i].index > 0 && ((step->peak_bytes < all[i - 1].step.peak_bytes && !highest) ||
                                     bound.seconds > lower.seconds * (1 + ROUNDING) || (!rises && !waits)))
                fail_msg("%s, setting %zu: candidate %zu is no step up: %zu bytes after %zu, at least %.9g s after "
                         "%.9g, "
                         "%.9g s after %.9g",
                         family->trial->method->name, s, all[i].index, step->peak_bytes, all[i - 1].step.peak_bytes,
                         bound.seconds, lower.seconds, step->seconds, all[i - 1].step.seconds);
            slower += !rises;
            const struct candidate *dominating = &all[i];
            while (dominating->family != family->dominating || dominating->index != all[i].index)
                dominating--;
            if (step->fits && (step->seconds < dominating->step.seconds * (1 - ROUNDING) ||
                               step->host_peak_bytes < dominating->step.host_peak_bytes))
                fail_msg("%s, setting %zu: places save time", family->trial->method->name, s);
            lower = bound;
            options_free(&family->trial->method->options, options);
        }
    }
    assert_true(slower > 0); // else no search needed to try a candidate below one that fits
}

static void expect_same(const struct planned_step *step, const struct planned_step *wanted, double rounding)
{
    assert_int_equal(step->fits, wanted->fits);
    assert_string_equal(step->why.message, wanted->why.message);
    if (!step->fits)
        return;
    assert_int_equal(step->peak_bytes, wanted->peak_bytes);
    assert_int_equal(step->host_peak_bytes, wanted->host_peak_bytes);
    for (int i = 0; i < CATEGORY_COUNT; i++)
        assert_int_equal(step->peak_by_category[i], wanted->peak_by_category[i]);
    if (fabs(step->flops - wanted->flops) > rounding * wanted->flops ||
        fabs(step->seconds - wanted->seconds) > rounding * wanted->seconds)
        fail_msg("%.17g s and %.17g FLOPs, not %.17g and %.17g", step->seconds, step->flops, wanted->seconds,
                 wanted->flops);
}

// Steps that remember what cells cost are planned to the byte as those that do not: with exactly as much room as
// they take, and with a byte less. A second time they are the same to the bit.
static void what_is_remembered_is_the_same(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(settings); s += stride()) {
        const struct space *space = &walked[s].space;
        const struct candidate *all = walked[s].all;
        struct status status = {0};
        struct planned_memos memos;
        planned_memos_open(&memos);
        for (size_t i = 0; i < space->candidates; i++) {
            if (!is_chosen(s + i, 3))
                continue;
            const struct family *family = &space->families[all[i].family];
            void *options = family_options(family, all[i].index);
            const struct planned_step *wanted = &all[i].step;
            struct planned_limits all_of_it = {wanted->peak_bytes, NO_LIMIT}, short_of_it = all_of_it;
            struct planned_step step, again, plain;
            short_of_it.device_bytes--;
            assert_true(planned_step(&step, family->trial, options, all_of_it, &memos, &status) &&
                        planned_step(&again, family->trial, options, all_of_it, &memos, &status));
            expect_same(&step, wanted, ROUNDING);
            expect_same(&again, &step, 0);
            assert_true(planned_step(&step, family->trial, options, short_of_it, &memos, &status) &&
                        planned_step(&plain, family->trial, options, short_of_it, &none, &status));
            expect_same(&step, &plain, ROUNDING);
            assert_false(step.fits);
            options_free(&family->trial->method->options, options);
        }
        planned_memos_close(&memos);
    }
}

// Given options stay, and the space has every value of all others, each once.
static void the_space_is_every_value(void **state)
{
    (void)state;
    struct asked asked = {.count = 1};
    struct space space;
    asked.trials[0] = trial_of("{'model': 'tiny', 'context': 1000, 'device': 'plan', 'method': {'name': 'seco', "
                               "'head_chunk': 77}}");
    json_t *given = json_pack("{s:i}", "head_chunk", 77);
    const size_t layers = asked.trials[0].config.layers;
    assert_int_equal(layers, 4);
    space_open(&space, asked.trials, 1, given);
    assert_int_equal(space.count, 2 * 2 * 2 * layers); // keep, inner, offload, stages
    bool seen[2][2][2][5] = {{{{false}}}};
    for (size_t f = 0; f < space.count; f++) {
        static const size_t chunks[] = {128, 256, 512, 1000};
        const struct option_table *table = &asked.trials[0].method->options;
        assert_int_equal(space.families[f].candidates, COUNT(chunks));
        for (size_t index = 0; index < COUNT(chunks); index++) {
            void *options = family_options(&space.families[f], index);
            assert_int_equal(options_count(table, options, "chunk", 0), chunks[index]);
            assert_int_equal(options_count(table, options, "head_chunk", 0), 77);
            json_t *json = method_json(asked.trials[0].method, options);
            bool all = strcmp(json_string_value(json_object_get(json, "keep")), "all") == 0,
                 inner = strcmp(json_string_value(json_object_get(json, "inner")), "checkpoint") == 0,
                 host = json_array_size(json_object_get(json, "offload"));
            size_t segments = (size_t)json_integer_value(json_object_get(json, "segments"));
            assert_in_range(segments, 1, layers);
            assert_true(index > 0 || !seen[all][inner][host][segments]);
            seen[all][inner][host][segments] = true;
            json_decref(json);
            options_free(table, options);
        }
    }
    space_close(&space);
    json_decref(given);
    ask_free(&asked);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_choice_is_that_of_an_exhaustive_walk),
        cmocka_unit_test(bounds_are_bounds),
        cmocka_unit_test(what_is_remembered_is_the_same),
        cmocka_unit_test(the_space_is_every_value),
    };
    return cmocka_run_group_tests(tests, walk_all, free_all);
}
