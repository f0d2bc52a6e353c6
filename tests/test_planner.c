// The planner: its choice and its front are those of an exhaustive walk, its bounds are bounds, and what it says it
// found is what a plan of the same step says.
#define _GNU_SOURCE // asprintf
#include "harness/run/planner.h"
#include "tests/asked.h"
#include <math.h>
#include <sys/resource.h>

#define TRIALS_MAX 32

// Every exact method, then the same with other keys: dKV in bf16, and what has a place on the host there.
struct asked {
    struct trial trials[TRIALS_MAX];
    size_t count;
};

static void ask(struct asked *asked, const char *setting, const char *const *variants)
{
    asked->count = 0;
    for (size_t i = 0; methods[i]; i++) {
        for (size_t v = 0; methods[i]->exact && (v == 0 || variants[v - 1]); v++) {
            char *json;
            assert_true(asked->count < TRIALS_MAX);
            assert_true(asprintf(&json, "{%s, 'device': 'plan'%s, 'method': '%s'}", setting,
                                 v ? variants[v - 1] : "", methods[i]->name) > 0);
            asked->trials[asked->count++] = trial_of(json);
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

static const struct setting {
    const char *json, *variants[3];
} settings[] = {
    {"'model': 'tiny', 'context': 1000, 'profile': 'rtx-3090'", {", 'place': {'gradients': 'host'}"}},
    {"'model': {'layers': 3, 'width': 64, 'heads': 4, 'kv_heads': 2, 'ffn': 128, 'vocab': 300}, 'dtype': 'bf16', "
     "'context': 700, 'batch': 2, 'lora': {'rank': 4}, 'profile': 'h200-141g'",
     {", 'kv_gradient_dtype': 'bf16'", ", 'place': {'weights': 'host'}"}},
    {"'model': {'layers': 5, 'width': 32, 'heads': 2, 'kv_heads': 1, 'ffn': 96, 'vocab': 64}, 'dtype': 'f64', "
     "'context': 2049, 'optimizer': 'adamw'",
     {", 'place': {'weights': 'host', 'gradients': 'host', 'optimizer': 'host'}"}},
    // Layers of one shape whose gradients are not summed alike.
    {"'model': {'layers': 3, 'width': 32, 'heads': 2, 'kv_heads': 1, 'ffn': 96, 'vocab': 64}, 'dtype': 'bf16', "
     "'context': 300, 'optimizer': {'name': 'galore', 'rank': 4, 'sums': 'projected'}",
     {", 'place': {'gradients': 'host', 'optimizer': 'host'}"}},
    // Layers of one shape that do not see the same.
    {"'model': {'layers': 4, 'width': 32, 'heads': 2, 'kv_heads': 1, 'ffn': 96, 'vocab': 64, 'sliding_window': "
     "100, "
     "'full_layers': [1]}, 'context': 1100, 'batch': 2, 'documents': [90, 401, 5], 'profile': 'rtx-3090'",
     {NULL}},
    // Copies take about as long as operations: a longer chunk may take more time.
    {"'model': {'layers': 4, 'width': 512, 'heads': 8, 'kv_heads': 2, 'ffn': 1024, 'vocab': 300}, 'dtype': 'bf16', "
     "'context': 4096, 'lora': {'rank': 4}, 'profile': 'rtx-3090'",
     {NULL}},
};

// All candidates of a space, planned without limits.
static struct candidate *plan_all(const struct space *space)
{
    struct candidate *all = calloc(space->candidates, sizeof *all);
    struct status status = {0};
    size_t n = 0;
    assert_non_null(all);
    for (size_t f = 0; f < space->count; f++) {
        const struct family *family = &space->families[f];
        for (size_t rung = 0; rung < family->rungs; rung++, n++) {
            void *options = family_options(family, rung);
            all[n] = (struct candidate){.family = f, .rung = rung};
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

static bool within(struct planned_limits limits, const struct planned_step *step)
{
    return step->peak_bytes <= limits.device_bytes && step->host_peak_bytes <= limits.host_bytes;
}

// Of sums in another order.
#define ROUNDING 1e-12

static void expect_choice(const struct space *space, const struct candidate *all, struct planned_limits limits)
{
    const struct candidate *best = NULL;
    for (size_t i = 0; i < space->candidates; i++)
        if (all[i].step.fits && within(limits, &all[i].step) && (!best || all[i].step.seconds < best->step.seconds))
            best = &all[i];
    struct planner planner;
    struct status status = {0};
    struct candidate fastest, *front;
    size_t count = 0;
    assert_true(planner_open(&planner, space, limits, &status));
    for (size_t i = 0; i < space->candidates; i++) {
        const struct planned_step *bound = &planner.bounds[all[i].family], *step = &all[i].step;
        if (step->fits && (bound->seconds > step->seconds || bound->floor_bytes > step->peak_bytes ||
                           bound->host_peak_bytes != step->host_peak_bytes))
            fail_msg("the bound of family %zu is none of rung %zu", all[i].family, all[i].rung);
    }
    assert_true(planner_fastest(&planner, &fastest, &status) &&
                planner_front(&planner, &fastest, &front, &count, &status));
    assert_int_equal(fastest.step.fits, best != NULL);
    assert_int_equal(count > 0, best != NULL);
    if (best && fabs(fastest.step.seconds - best->step.seconds) > ROUNDING * best->step.seconds)
        fail_msg("limits %zu, %zu: %.9g s, but %.9g s fits", limits.device_bytes, limits.host_bytes,
                 fastest.step.seconds, best->step.seconds);
    for (size_t i = 0; i < count; i++) {
        assert_true(within(limits, &front[i].step));
        assert_true(i == 0 || (front[i].step.seconds > front[i - 1].step.seconds &&
                               front[i].step.peak_bytes < front[i - 1].step.peak_bytes));
    }
    // Points are thinned by the margin, and families left out by it: twice.
    const double margin = (1 + FRONT_TIME_MARGIN) * (1 + FRONT_TIME_MARGIN);
    for (size_t i = 0; i < space->candidates; i++) {
        bool reached = !all[i].step.fits || !within(limits, &all[i].step);
        for (size_t j = 0; j < count && !reached; j++)
            reached =
                front[j].step.seconds <= margin * all[i].step.seconds &&
                (double)front[j].step.peak_bytes <= (1 + FRONT_MEMORY_MARGIN) * (double)all[i].step.peak_bytes;
        assert_true(reached);
    }
    free(front);
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
    for (size_t s = 0; s < COUNT(settings); s++) {
        struct asked asked;
        struct space space;
        ask(&asked, settings[s].json, settings[s].variants);
        space_open(&space, asked.trials, asked.count, NULL);
        assert_true(space.count > 10 && space.candidates >= 30);
        struct candidate *all = plan_all(&space);
        size_t *peaks = calloc(space.candidates, sizeof *peaks), host_bytes = 0;
        assert_non_null(peaks);
        for (size_t i = 0; i < space.candidates; i++) {
            peaks[i] = all[i].step.peak_bytes;
            host_bytes = all[i].step.host_peak_bytes > host_bytes ? all[i].step.host_peak_bytes : host_bytes;
        }
        qsort(peaks, space.candidates, sizeof *peaks, by_size);
        assert_true(host_bytes > 0);
        const size_t host_limits[] = {NO_LIMIT, host_bytes - 1, 0};
        for (size_t host = 0; host < COUNT(host_limits); host++) {
            size_t host_limit = host_limits[host];
            expect_choice(&space, all, (struct planned_limits){NO_LIMIT, host_limit});
            expect_choice(&space, all, (struct planned_limits){peaks[0] - 1, host_limit});
            for (size_t i = 0; i < space.candidates; i += space.candidates / 3) {
                expect_choice(&space, all, (struct planned_limits){peaks[i], host_limit});
                expect_choice(&space, all, (struct planned_limits){peaks[i] + 1, host_limit});
            }
        }
        free(peaks);
        free(all);
        space_close(&space);
        ask_free(&asked);
    }
}

// Of every candidate; and the rungs of a family are in order: their bytes, but of the highest, which is tried
// first, their bounds, and where nothing is copied their times. What has a place on the host takes no less time for
// it.
static void bounds_are_bounds(void **state)
{
    (void)state;
    size_t slower = 0;
    for (size_t s = 0; s < COUNT(settings); s++) {
        struct asked asked;
        struct space space;
        struct status status = {0};
        struct planned_step lower = {0};
        ask(&asked, settings[s].json, settings[s].variants);
        space_open(&space, asked.trials, asked.count, NULL);
        struct candidate *all = plan_all(&space);
        for (size_t i = 0; i < space.candidates; i++) {
            const struct family *family = &space.families[all[i].family];
            const struct planned_step *step = &all[i].step;
            struct planned_step bound;
            void *options = family_options(family, all[i].rung);
            assert_true(planned_bound(&bound, family->trial, options, &none, &status));
            if (bound.seconds > step->seconds || bound.peak_bytes > step->peak_bytes)
                fail_msg("%s, rung %zu: bound %.9g s and %zu bytes (floor %zu), but %.9g s and %zu bytes",
                         family->trial->method->name, all[i].rung, bound.seconds, bound.peak_bytes,
                         bound.floor_bytes, step->seconds, step->peak_bytes);
            assert_true(bound.host_peak_bytes == step->host_peak_bytes);
            bool rises = all[i].rung == 0 || step->seconds <= all[i - 1].step.seconds * (1 + ROUNDING);
            bool highest = all[i].rung + 1 == family->rungs;
            if (all[i].rung > 0 &&
                ((step->peak_bytes < all[i - 1].step.peak_bytes && !highest) ||
                 bound.seconds > lower.seconds * (1 + ROUNDING) || (!rises && step->host_peak_bytes == 0)))
                fail_msg(
                    "%s, setting %zu: rung %zu is no step up: %zu bytes after %zu, at least %.9g s after %.9g, "
                    "%.9g s after %.9g",
                    family->trial->method->name, s, all[i].rung, step->peak_bytes, all[i - 1].step.peak_bytes,
                    bound.seconds, lower.seconds, step->seconds, all[i - 1].step.seconds);
            slower += !rises;
            const struct candidate *twin = &all[i];
            while (twin->family != family->twin || twin->rung != all[i].rung)
                twin--;
            if (step->fits && (step->seconds < twin->step.seconds * (1 - ROUNDING) ||
                               step->host_peak_bytes < twin->step.host_peak_bytes))
                fail_msg("%s, setting %zu: places save time", family->trial->method->name, s);
            lower = bound;
            options_free(&family->trial->method->options, options);
        }
        free(all);
        space_close(&space);
        ask_free(&asked);
    }
    assert_true(slower > 0); // else no search needed to try a rung below one that fits
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
    for (size_t s = 0; s < COUNT(settings); s++) {
        struct asked asked;
        struct space space;
        struct status status = {0};
        struct planned_memos memos;
        ask(&asked, settings[s].json, settings[s].variants);
        space_open(&space, asked.trials, asked.count, NULL);
        struct candidate *all = plan_all(&space);
        planned_memos_open(&memos);
        for (size_t i = 0; i < space.candidates; i++) {
            const struct family *family = &space.families[all[i].family];
            void *options = family_options(family, all[i].rung);
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
        free(all);
        space_close(&space);
        ask_free(&asked);
    }
}

// What is given stays, and the space is every value of all else, each once.
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
        assert_int_equal(space.families[f].rungs, COUNT(chunks));
        for (size_t rung = 0; rung < COUNT(chunks); rung++) {
            void *options = family_options(&space.families[f], rung);
            assert_int_equal(options_count(table, options, "chunk", 0), chunks[rung]);
            assert_int_equal(options_count(table, options, "head_chunk", 0), 77);
            json_t *json = method_json(asked.trials[0].method, options);
            bool all = strcmp(json_string_value(json_object_get(json, "keep")), "all") == 0,
                 inner = strcmp(json_string_value(json_object_get(json, "inner")), "checkpoint") == 0,
                 host = strcmp(json_string_value(json_object_get(json, "offload")), "kv") == 0;
            size_t stages = (size_t)json_integer_value(json_object_get(json, "stages"));
            assert_in_range(stages, 1, layers);
            assert_true(rung > 0 || !seen[all][inner][host][stages]);
            seen[all][inner][host][stages] = true;
            json_decref(json);
            options_free(table, options);
        }
    }
    space_close(&space);
    json_decref(given);
    ask_free(&asked);
}

// The program says what the planner found; a plan of the choice says the same.
static void advise_and_plan_agree(void **state)
{
    (void)state;
    static const char *const setting = "--model llama-3-8b --dtype bf16 --lora r=8 --profile rtx-3090 "
                                       "--host-memory 120GiB --context 65536";
    json_t *advice = longbp_json("advise %s --json", setting), *choice = json_object_get(advice, "choice");
    assert_true(json_is_true(json_object_get(advice, "fits")));
    json_t *method = json_object_get(choice, "method"), *value;
    char *flags = strdup(""), *more;
    const char *key;
    json_object_foreach(method, key, value)
    {
        if (json_is_array(value) && json_array_size(value) == 0)
            continue; // as it is where no flag says anything
        char *text = json_dumps(value, JSON_ENCODE_ANY);
        assert_true(asprintf(&more, "%s --%s %s", flags, strcmp(key, "name") ? key : "method", text) > 0);
        free(text);
        free(flags);
        flags = more;
    }
    json_t *plan = longbp_json("plan %s %s --kv-gradient-dtype %s --json", setting, flags,
                               json_string_value(json_object_get(choice, "kv_gradient_dtype")));
    static const char *const same[] = {"peak_bytes", "host_peak_bytes", "estimate_ms", "flops"};
    for (size_t i = 0; i < COUNT(same); i++)
        if (!near(number(plan, same[i]), number(choice, same[i])))
            fail_msg("%s: %.17g, but plan says %.17g", same[i], number(choice, same[i]), number(plan, same[i]));
    assert_true(json_is_true(json_object_get(plan, "fits")));
    assert_non_null(strstr(json_string_value(json_object_get(advice, "command")), "longbp grad "));
    free(flags);
    json_decref(plan);
    json_decref(advice);
}

// What a record says was chosen is this choice of advise: the method, and what is on the host.
static void expect_chosen(const json_t *chosen, const json_t *choice)
{
    json_t *method = json_copy((json_t *)chosen), *places = json_object();
    const json_t *wanted = json_object_get(choice, "place");
    const char *of;
    json_t *place;
    json_object_foreach((json_t *)wanted, of, place)
    {
        if (strcmp(json_string_value(place), "host") == 0)
            json_object_set(places, of, place);
    }
    const json_t *found = json_object_get(chosen, "place");
    assert_true(found ? json_equal(found, places) : json_object_size(places) == 0);
    json_object_del(method, "place");
    assert_true(json_equal(method, json_object_get(choice, "method")));
    json_decref(places);
    json_decref(method);
}

// Nothing is chosen that the decoder refuses: updates in the walk are of methods that walk rows.
static void auto_chooses_what_may_be_asked(void **state)
{
    (void)state;
    char *out;
#define ASKED "plan --model tiny --context 300 --method auto --optimizer sgd,when=walk --memory-limit "
    static const char *const asked[] = {ASKED "7MiB",
                                        ASKED "8MiB --host-memory 1GiB"}; // where seco would be fastest
#undef ASKED
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(longbp(&out, asked[i]), 0);
        assert_null(strstr(out, "seco"));
        free(out);
    }
}

// Method auto walks what advise says of the same limits; its id is that of what was asked.
static void auto_walks_the_choice(void **state)
{
    (void)state;
    static const char *const setting = "--model tiny --context 300 --profile rtx-3090";
    json_t *advice = longbp_json("advise %s --device-memory 12MiB --host-memory 1GiB --json", setting),
           *plan = longbp_json("plan %s --memory-limit 12MiB --host-memory 1GiB --method auto --json", setting);
    const json_t *wanted = json_object_get(advice, "choice");
    expect_chosen(json_object_get(plan, "chosen"), wanted);
    assert_true(near(number(plan, "estimate_ms"), number(json_object_get(advice, "choice"), "estimate_ms")));
    assert_true(json_is_true(json_object_get(plan, "fits")));
    json_t *measured =
        record_of("{'model': 'tiny', 'context': 300, 'profile': 'rtx-3090', 'method': 'auto', 'limits': "
                  "{'memory': '12MiB', 'host_memory': '1GiB'}, 'measure': {'samples': 1}}");
    expect_chosen(json_object_get(measured, "chosen"), wanted);
    assert_true(number(measured, "peak_bytes") == number(plan, "peak_bytes"));
    const json_t *trial = json_object_get(measured, "trial");
    assert_int_equal(json_object_size(json_object_get(trial, "method")), 1); // {"name": "auto"}
    assert_true(number(json_object_get(measured, "gradient"), "relative_l2") < 1e-5);
    json_t *named = record_of("{'model': 'tiny', 'context': 300, 'device': 'plan', 'method': 'full'}");
    assert_true(json_is_null(json_object_get(named, "chosen")));
    json_t *grad =
        longbp_json("grad --model tiny --context 300 --method auto --memory-limit 12MiB --out /dev/null");
    assert_true(json_is_object(json_object_get(grad, "chosen")));
    char *out;
    assert_int_equal(
        longbp(&out, "grad --model tiny --context 300 --method auto --memory-limit 4MiB --out /dev/null"), 1);
    assert_non_null(strstr(out, "no exact method fits"));
    free(out);
    static const char *const of_ranks[] = {
        "plan --model tiny --context 300 --method auto --parallel stage=2",
        "max-context --model tiny --methods auto --parallel stage=2 --memory-limit 12MiB",
        "grad --model tiny --context 300 --method auto --parallel stage=2 --out /dev/null"};
    for (size_t i = 0; i < COUNT(of_ranks); i++) {
        assert_int_equal(longbp(&out, of_ranks[i]), 2);
        assert_non_null(strstr(out, "auto chooses for one stage, and parallel.stage is 2"));
        free(out);
    }
    json_decref(grad);
    json_decref(named);
    json_decref(measured);
    json_decref(plan);
    json_decref(advice);
}

// What has a place on the host comes to be chosen where there is room for it, and what changes the gradient where
// it is asked for.
static void places_and_roundings_are_tried(void **state)
{
    (void)state;
    static const char *const setting = "advise --model llama-3-8b --dtype bf16 --lora r=8 --context 16384 --json";
    json_t *near = longbp_json("%s --device-memory 20GiB", setting),
           *far = longbp_json("%s --device-memory 4GiB --host-memory 120GiB", setting),
           *wide = longbp_json("%s --device-memory 18GiB --context 32768", setting),
           *narrow =
               longbp_json("%s --device-memory 18GiB --context 32768 --also weights,kv-gradient-dtype", setting);
    const json_t *choice = json_object_get(near, "choice");
    assert_string_equal(json_string_value(json_object_get(json_object_get(choice, "place"), "weights")), "device");
    assert_string_equal(json_string_value(json_object_get(choice, "kv_gradient_dtype")), "f32");
    choice = json_object_get(far, "choice");
    assert_string_equal(json_string_value(json_object_get(json_object_get(choice, "place"), "weights")), "host");
    assert_non_null(strstr(json_string_value(json_object_get(choice, "label")), " place.weights=host"));
    assert_non_null(strstr(json_string_value(json_object_get(far, "command")), " --place-weights host"));
    choice = json_object_get(wide, "choice");
    assert_true(json_is_null(json_object_get(choice, "weights")));
    double slower = number(choice, "estimate_ms");
    choice = json_object_get(narrow, "choice");
    assert_non_null(strstr(json_string_value(json_object_get(narrow, "command")), " --weights "));
    assert_true(number(choice, "estimate_ms") < slower);
    json_decref(narrow);
    json_decref(wide);
    json_decref(far);
    json_decref(near);
}

#if !defined(__SANITIZE_ADDRESS__) // whose checks take several times as long
// Advice for an 8B model at 1 M tokens takes at most two seconds of one core.
static void advice_is_quick(void **state)
{
    (void)state;
    struct rusage before, after;
    char *out;
    getrusage(RUSAGE_CHILDREN, &before);
    assert_int_equal(longbp(&out, "advise --model llama-3-8b --dtype bf16 --lora r=8 --profile rtx-3090 --context "
                                  "1048576 --device-memory 80GB --host-memory 120GiB"),
                     0);
    getrusage(RUSAGE_CHILDREN, &after);
    double took_s = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) +
                    1e-6 * (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec);
    if (took_s > 2)
        fail_msg("%.3g s", took_s);
    free(out);
}
#endif

static void what_cannot_be_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *says;
        int code;
    } cases[] = {
        {"--model tiny --context 512 --device-memory 1MiB", "Nothing fits", 1},
        {"--model tiny --context 512 --device-memory 40MiB --host-memory 1KiB --offload inputs --methods "
         "checkpoint",
         "the host's memory", 1},
        {"--model tiny --context 512 --device-memory 40", "a size with its unit", 2},
        {"--model tiny --context 512", "--memory-limit or --profile", 2},
        {"--model tiny --device-memory 1GiB", "--context", 2},
        {"--model tiny --context 512 --device-memory 1GiB --methods sceo", "seco", 2},
        {"--model tiny --context 512 --device-memory 1GiB --methods spaco --exact", "exact", 2},
        {"--model tiny --context 512 --device-memory 1GiB --methods full --chunk 3", "--chunk", 2},
        {"--model tiny --context 512 --device-memory 1GiB --methods seco --chunk 0", "chunk", 2},
        {"--model tiny --context 512 --device-memory 1GiB --also dtype",
         "\"dtype\" is none of weights, kv_gradient_dtype", 2},
        {"--model tiny --context 512 --device-memory 1GiB --offload kv", "checkpoint left out: ", 0},
        {"--model tiny --context 512 --device-memory 1GiB --optimizer sgd,when=walk", "seco left out: ", 0},
        {"--model tiny --context 512 --memory-limit 1", "--memory-limit: expected a size", 2},
        {"--model tiny --context 512 --device-memory 1", "--device-memory: expected a size", 2},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *arguments, *out;
        assert_true(asprintf(&arguments, "advise %s", cases[i].arguments) > 0);
        int code = longbp(&out, arguments);
        if (code != cases[i].code || !strstr(out, cases[i].says))
            fail_msg("%s: exit code %d: %s", arguments, code, out);
        free(arguments);
        free(out);
    }
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
        cmocka_unit_test(advise_and_plan_agree),
        cmocka_unit_test(auto_chooses_what_may_be_asked),
        cmocka_unit_test(auto_walks_the_choice),
        cmocka_unit_test(places_and_roundings_are_tried),
#if !defined(__SANITIZE_ADDRESS__)
        cmocka_unit_test(advice_is_quick),
#endif
        cmocka_unit_test(what_cannot_be_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
