// Routing: rebuilds that choose experts anew choose others where sums in another order say so, as often as a count
// expert by expert tells, and never in f64 without ties; steps take the experts that they are given; and a trial
// records both, with an error that leaves out where a reference would route otherwise, in the memory of one that
// does not.
#define _GNU_SOURCE // asprintf
#include "harness/record/record_json.h"
#include "harness/trial/trial_run.h"
#include "kernels/layers/choices.h"
#include "tests/fixture.h"
#include "tests/quoted.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct fixture fixture_of(enum dtype dtype, size_t layers, size_t chosen)
{
    struct fixture f = fixture_default();
    f.dtype = dtype;
    f.rounding = DTYPE_BF16;
    f.config.width = 64;
    f.config.layers = layers;
    f.context = layers > 1 ? 200 : 900;
    fixture_set_experts(&f.config, 7, layers > 1 ? 32 : 128, chosen);
    return f;
}

struct routed_step {
    double *gradients;
    struct kept_choices choices;
};

static struct routed_step take(struct fixture *f, const char *name, const char *text, struct choices_probe probe)
{
    const struct method *method = method_find(name);
    struct step_report report = {0};
    struct routed_step step = {0};
    void *options = fixture_options(method, "%s", text);
    probe.taken = &step.choices;
    f->model.probe = &probe;
    fixture_take_step(&f->trainer, method, &f->batch, options, 0, &report);
    f->model.probe = NULL;
    assert_int_equal(f->device->status.code, STATUS_OK);
    assert_int_equal(f->device->reverse_sums, 0);
    step.gradients = fixture_gradients(f);
    options_free(&method->options, options);
    step_report_free(&report);
    return step;
}

static void routed_step_free(struct routed_step *step)
{
    kept_choices_free(&step->choices);
    free(step->gradients);
}

static bool has(const struct routing *routing, const void *row, size_t expert)
{
    bool found = false;
    for (size_t j = 0; j < routing->chosen; j++)
        found |= routing_choice(routing, row, j) == expert;
    return found;
}

// Tokens of a layer whose sets of experts differ.
static size_t count_other_sets(const struct routing *routing, const struct kept_choices *a,
                               const struct kept_choices *b, size_t layer)
{
    size_t count = 0, words = routing_words(routing);
    for (size_t row = 0; row < a->rows; row++) {
        bool same = true;
        for (size_t e = 0; e < routing->experts; e++)
            same &= has(routing, a->of[layer] + row * words, e) == has(routing, b->of[layer] + row * words, e);
        count += !same;
    }
    return count;
}

static void check_shares(const struct fixture *f, const struct kept_choices *a, const struct kept_choices *b)
{
    struct choice_shares shares = kept_choices_compare(a, b);
    size_t total = 0, largest = 0, layers = 0;
    for (size_t l = 0; l < f->config.layers; l++) {
        size_t count = a->of[l] ? count_other_sets(&f->config.experts.routing, a, b, l) : 0;
        layers += a->of[l] != NULL;
        total += count;
        largest = count > largest ? count : largest;
    }
    assert_true(total > 0);
    assert_true(shares.all == (double)total / (double)(layers * a->rows));
    assert_true(shares.largest == (double)largest / (double)a->rows);
}

// The rebuild of a decoder's only layer, from the same tokens, is a first pass whose sums go the other way.
static void rebuilds_choose_as_a_first_pass_of_their_sums(void **state)
{
    (void)state;
    for (size_t chosen = 3; chosen < 6; chosen++) { // with bytes behind a row's choices, and without
        struct fixture f = fixture_of(DTYPE_BF16, 1, chosen);
        fixture_open(&f);
        struct routed_step first = take(&f, "full", "", (struct choices_probe){0});
        struct routed_step anew =
            take(&f, "checkpoint", "", (struct choices_probe){.anew = true, .reverse_sums = 1});
        struct routed_step same = take(&f, "checkpoint", "", (struct choices_probe){.anew = true});
        struct routed_step kept = take(&f, "checkpoint", "", (struct choices_probe){.reverse_sums = 1});
        f.model.device->reverse_sums = 1;
        const struct method *full = method_find("full");
        struct kept_choices reversed = {0};
        const struct choices_probe probe = {.taken = &reversed};
        struct step_report report = {0};
        f.model.probe = &probe;
        void *options = fixture_options(full, "%s", "");
        fixture_take_step(&f.trainer, full, &f.batch, options, 0, &report);
        f.model.probe = NULL;
        f.model.device->reverse_sums = 0;
        check_shares(&f, &first.choices, &anew.choices);
        assert_true(kept_choices_compare(&reversed, &anew.choices).all == 0);
        assert_true(kept_choices_compare(&first.choices, &same.choices).all == 0);
        assert_true(kept_choices_compare(&first.choices, &kept.choices).all == 0);
        assert_true(first.choices.whole && anew.choices.whole);
        options_free(&full->options, options);
        step_report_free(&report);
        kept_choices_free(&reversed);
        routed_step_free(&kept);
        routed_step_free(&same);
        routed_step_free(&anew);
        routed_step_free(&first);
        fixture_close(&f);
    }
}

// Rebuilt pairs of a token and a layer may choose otherwise; those that a method keeps do not.
static void methods_differ_where_they_rebuild(void **state)
{
    (void)state;
    static const struct {
        const char *method, *options;
        bool rebuilds;
    } cases[] = {{"full", "", false},
                 {"checkpoint", "", true},
                 {"streambp", "chunk=64", true},
                 {"streambp", "chunk=64 segments=2", true},
                 {"seco", "chunk=64", true},
                 {"seco", "chunk=64 segments=2", true},
                 {"seco", "chunk=200", false},
                 {"spaco", "chunk=64 budget=4 loss=all", true}};
    for (int wide = 0; wide < 2; wide++) {
        struct fixture f = fixture_of(wide ? DTYPE_F64 : DTYPE_BF16, 3, 4);
        fixture_open(&f);
        for (size_t i = 0; i < COUNT(cases); i++) {
            const char *name = cases[i].method, *text = cases[i].options;
            struct routed_step first = take(&f, name, text, (struct choices_probe){0});
            struct choices_probe probe = {.given = &first.choices, .reverse_sums = 1};
            struct routed_step kept = take(&f, name, text, probe);
            probe.anew = true;
            struct routed_step anew = take(&f, name, text, probe);
            double apart = relative_l2(anew.gradients, kept.gradients, f.gradient_count);
            bool differs = kept_choices_compare(&first.choices, &anew.choices).all > 0;
            if (!first.choices.whole || differs != (cases[i].rebuilds && !wide) || (apart > 0) != differs)
                fail_msg("%s %s, %s: %s choices, gradients %.2e apart", name, text, dtype_name(f.dtype),
                         differs ? "other" : "the same", apart);
            assert_true(kept_choices_compare(&first.choices, &kept.choices).all == 0);
            if (strcmp(name, "seco") == 0 && !strstr(text, "segments")) // whose highest experts run once
                assert_int_equal(
                    count_other_sets(&f.config.experts.routing, &first.choices, &anew.choices, f.config.layers - 1),
                    0);
            routed_step_free(&anew);
            routed_step_free(&kept);
            routed_step_free(&first);
        }
        struct routed_step few = take(&f, "spaco", "chunk=64 budget=2", (struct choices_probe){0});
        assert_false(few.choices.whole);
        routed_step_free(&few);
        fixture_close(&f);
    }
}

// In every method, with what routers add to the loss counted of the given experts.
static void steps_take_what_they_are_given(void **state)
{
    (void)state;
    static const char *const methods_of[][2] = {
        {"checkpoint", ""}, {"streambp", "chunk=64"}, {"seco", "chunk=64"}, {"seco", "chunk=33 segments=2"}};
    struct fixture narrow = fixture_of(DTYPE_BF16, 3, 4), f = fixture_of(DTYPE_F64, 3, 4);
    narrow.router_losses = f.router_losses = (struct router_losses){.aux = 3};
    fixture_open(&narrow);
    fixture_open(&f);
    struct routed_step rounded = take(&narrow, "full", "", (struct choices_probe){0});
    struct routed_step own = take(&f, "full", "", (struct choices_probe){0});
    const struct choices_probe probe = {.given = &rounded.choices};
    struct routed_step given = take(&f, "full", "", probe);
    assert_true(kept_choices_compare(&own.choices, &rounded.choices).all > 0);
    assert_true(kept_choices_compare(&given.choices, &rounded.choices).all == 0);
    double of_own = relative_l2(rounded.gradients, own.gradients, f.gradient_count),
           of_given = relative_l2(rounded.gradients, given.gradients, f.gradient_count);
    if (!(of_given < of_own / 2))
        fail_msg("bf16 is %.2e off the reference's own experts, %.2e off its own", of_own, of_given);
    for (size_t i = 0; i < COUNT(methods_of); i++) {
        struct routed_step step = take(&f, methods_of[i][0], methods_of[i][1], probe);
        assert_true(relative_l2(step.gradients, given.gradients, f.gradient_count) <= 1e-13);
        routed_step_free(&step);
    }
    struct routed_step again = take(&f, "full", "", (struct choices_probe){.given = &own.choices});
    assert_memory_equal(again.gradients, own.gradients, f.gradient_count * sizeof *own.gradients);
    routed_step_free(&again);
    routed_step_free(&given);
    routed_step_free(&own);
    routed_step_free(&rounded);
    fixture_close(&f);
    fixture_close(&narrow);
}

#define MIXTURE                                                                                                    \
    "{'layers': 4, 'width': 64, 'heads': 4, 'kv_heads': 2, 'vocab': 256, 'experts': 64, 'experts_per_token': 4, "  \
    "'expert_width': 32, 'normalised_weights': true}"

static json_t *record_of(const char *dtype, const char *device, const char *routing, size_t context,
                         const char *rest)
{
    char *text;
    struct trial trial;
    struct status status = {0};
    assert_true(asprintf(&text,
                         "{'model': " MIXTURE
                         ", 'context': %zu, 'data': {'text': 'experiments/data/king-james.txt'}, "
                         "'dtype': '%s', 'device': '%s', 'method': {'name': 'seco', 'chunk': 50}, 'measure': "
                         "{'warmup': 0, 'samples': 1, 'routing': '%s'}%s}",
                         context, dtype, device, routing, rest) > 0);
    char *json = quoted(text);
    if (!trial_decode(&trial, json, "t", &status))
        fail_msg("%s", status.message);
    char *line = trial_run(&trial, -1);
    json_t *record = json_loads(line, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(record, "status")), "ok");
    free(line);
    trial_free(&trial);
    free(json);
    free(text);
    return record;
}

static double number_at(const json_t *record, const char *part, const char *name)
{
    const json_t *value = json_object_get(json_object_get(record, part), name);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static double peak_of(const json_t *record)
{
    return json_number_value(json_object_get(record, "peak_bytes"));
}

static const char *routing_of(const json_t *record)
{
    return json_string_value(json_object_get(json_object_get(record, "gradient"), "routing"));
}

static void a_trial_records_what_rebuilds_would_choose(void **state)
{
    (void)state;
    json_t *without = record_of("bf16", "cpu", "none", 300, ""),
           *plan = record_of("bf16", "plan-cpu", "reversed", 300, "");
    json_t *as_is = record_of("bf16", "cpu", "as-is", 300, ""),
           *reversed = record_of("bf16", "cpu", "reversed", 300, "");
    json_t *groups = record_of("bf16", "cpu", "as-is", 60, ", 'batch': 2, 'prompt': 40, 'group': 2");
    json_t *exact = record_of("f64", "cpu", "reversed", 60, "");
    const json_t *gradient = json_object_get(without, "gradient");
    assert_true(json_equal(gradient, json_object_get(as_is, "gradient")));
    assert_true(json_equal(gradient, json_object_get(reversed, "gradient")));
    assert_true(peak_of(plan) > 0 && peak_of(plan) == peak_of(without) && peak_of(plan) == peak_of(reversed));
    assert_true(json_is_null(json_object_get(without, "routing")) &&
                json_is_null(json_object_get(plan, "routing")));

    double error = number_at(without, "gradient", "relative_l2");
    assert_true(number_at(as_is, "routing", "flips") == 0);
    assert_true(number_at(as_is, "routing", "relative_l2") == error);
    assert_true(number_at(as_is, "routing", "kept_relative_l2") == error);
    double flips = number_at(reversed, "routing", "flips"),
           kept = number_at(reversed, "routing", "kept_relative_l2");
    assert_true(flips > 0 && flips < number_at(reversed, "routing", "flips_max"));
    assert_true(kept != error && kept < 1.5 * error && number_at(reversed, "routing", "relative_l2") > 1.1 * kept);
    // The reference's own routing is most of the error.
    assert_string_equal(routing_of(reversed), "trial");
    assert_true(number_at(reversed, "routing", "reference_flips") > 0);
    assert_true(number_at(reversed, "routing", "reference_relative_l2") > 2 * error);
    assert_string_equal(routing_of(groups), "own");
    assert_true(number_at(groups, "routing", "relative_l2") == number_at(groups, "gradient", "relative_l2"));
    assert_true(json_is_null(json_object_get(json_object_get(groups, "routing"), "reference_flips")));
    assert_string_equal(routing_of(exact), "own");
    assert_true(number_at(exact, "routing", "flips") == 0 && number_at(exact, "routing", "reference_flips") == 0);
    json_decref(exact);
    json_decref(groups);
    json_decref(reversed);
    json_decref(as_is);
    json_decref(plan);
    json_decref(without);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rebuilds_choose_as_a_first_pass_of_their_sums),
                                       cmocka_unit_test(methods_differ_where_they_rebuild),
                                       cmocka_unit_test(steps_take_what_they_are_given),
                                       cmocka_unit_test(a_trial_records_what_rebuilds_would_choose)};
    return cmocka_run_group_tests_name("routing", tests, NULL, NULL);
}
