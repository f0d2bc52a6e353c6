// Derived values of a record: medians and means, rates and shares, bounds, ranges of predictions, energy; compared
// with numbers worked out by hand.
#include "harness/record/record_json.h"
#include "harness/trial/trial_record.h"
#include "tests/trial_of.h"
#include <jansson.h>
#include <math.h>

// A record of a trial, and what a run knows besides.
struct measured {
    struct trial trial;
    struct record record;
    struct rank_figures figures;
    struct number_list host_launch_ms;
};

static struct measured *measured_of(struct trial trial)
{
    struct measured *measured = calloc(1, sizeof *measured);
    assert_non_null(measured);
    measured->trial = trial;
    trial_record_open(&measured->record, &measured->trial);
    measured->figures.counters = (struct counters){.flops = 6e9, .bytes_moved = 5e8, .launches = 70};
    measured->record.model_flops = 5e9;
    return measured;
}

// Its record; all of it is released.
static json_t *written(struct measured *measured)
{
    const struct provenance provenance = {.version = "", .revision = "", .compiler = "", .flags = ""};
    trial_record_figures(&measured->record, &measured->figures);
    trial_record_times(&measured->record, &measured->trial, &measured->figures.counters, &measured->host_launch_ms);
    char *line = trial_record_line(&measured->record, &provenance);
    json_t *record = json_loads(line, 0, NULL);
    assert_non_null(record);
    free(line);
    free(measured->host_launch_ms.items);
    trial_free(&measured->trial);
    free(measured);
    return record;
}

// A field, or one of an object by "object.field"; NaN: null.
static double field(const json_t *record, const char *path)
{
    char object[64];
    const char *dot = strchr(path, '.');
    if (dot) {
        snprintf(object, sizeof object, "%.*s", (int)(dot - path), path);
        record = json_object_get(record, object);
        path = dot + 1;
    }
    const json_t *value = json_object_get(record, path);
    assert_non_null(value);
    return json_is_null(value) ? NAN : json_number_value(value);
}

struct expected {
    const char *path;
    double value; // NaN: null
};

static void expect(struct measured *result, const struct expected *fields, size_t count)
{
    json_t *record = written(result);
    for (size_t i = 0; i < count; i++) {
        double found = field(record, fields[i].path), value = fields[i].value;
        if (isnan(value) ? !isnan(found) : !(fabs(found - value) <= 1e-6 * fabs(value)))
            fail_msg("%s: found %.9g, expected %.9g", fields[i].path, found, value);
    }
    json_decref(record);
}
#define EXPECT(result, ...)                                                                                        \
    expect(result, (struct expected[]){__VA_ARGS__}, COUNT(((struct expected[]){__VA_ARGS__})))

#define LIST(...) number_list_copy((double[]){__VA_ARGS__}, COUNT(((double[]){__VA_ARGS__})))

// The median of an odd number of samples is the middle one, of an even number the mean of the middle two.
static void rates_are_of_the_median(void **state)
{
    (void)state;
    struct measured *odd = measured_of(trial_of(MINIMAL));
    odd->record.samples_ms = LIST(40, 10, 20, 80, 30);
    odd->host_launch_ms = LIST(3, 1, 2, 9, 4);
    odd->record.gemm_flops_per_s = 4e11;
    trial_record_sensors(&odd->record, &(struct watch_report){.energy_j = 12, 1000, 1500, 1700}, 5);
    EXPECT(odd, {"median_ms", 30}, {"mean_ms", NAN}, {"mean_error_ms", NAN}, {"host_launch_ms", 3},
           {"flops_per_s", 2e11}, {"model_flops_per_s", 5e9 / 0.03}, {"model_flops_share", 5e9 / 0.03 / 4e11},
           {"gemm_flops_per_s", 4e11}, {"energy_j", 2.4}, {"sm_clock_mhz.min", 1000}, {"sm_clock_mhz.median", 1500},
           {"sm_clock_mhz.max", 1700}, {"flops", 6e9}, {"model_flops", 5e9}, {"bytes_moved", 5e8}, {"launches", 70},
           {"estimate_ms", NAN});
    struct measured *even = measured_of(trial_of(MINIMAL));
    even->record.samples_ms = LIST(40, 10, 20, 80);
    even->host_launch_ms = LIST(3, 1, 2, 9);
    EXPECT(even, {"median_ms", 30}, {"flops_per_s", 2e11}, {"host_launch_ms", 2.5});
    struct measured *two = measured_of(trial_of(MINIMAL));
    two->record.samples_ms = LIST(40, 10);
    EXPECT(two, {"median_ms", 25}, {"flops_per_s", 2.4e11}, {"host_launch_ms", NAN});
}

// Draws have a mean with a standard error; the FLOPs, and their time, are draw 0's; an estimate has no model
// FLOPs.
static void draws_have_a_mean(void **state)
{
    (void)state;
    struct measured *drawn =
        measured_of(trial_of(METHOD("{'name': 'spaco', 'chunk': 16, 'budget': 2, 'sampler': 'bernoulli'}")));
    drawn->record.samples_ms = LIST(20, 10, 60);
    drawn->record.sample_chunks = LIST(2, 1, 3);
    // Deviations from 30: -10, -20, 30; of the mean sqrt(1400 / 2 / 3).
    EXPECT(drawn, {"median_ms", 20}, {"mean_ms", 30}, {"mean_error_ms", sqrt(1400.0 / 6)}, {"flops_per_s", 3e11},
           {"model_flops_per_s", NAN}, {"model_flops_share", NAN});
}

static void peaks_are_over_their_bound(void **state)
{
    (void)state;
    const struct rank_figures figures = {.peak_bytes = 3000,
                                         .peak_by_category[CATEGORY_WEIGHTS] = 900,
                                         .host_peak_bytes = 77,
                                         .resident_bytes = 1000,
                                         .lower_bound_bytes_per_token = 2.25,
                                         .tokens = 333,
                                         .counters.link_bytes = {[QUEUE_OUT] = 11, [QUEUE_IN] = 22}};
    struct measured *ok = measured_of(trial_of(MINIMAL));
    double bound = 1000 + 2.25 * 333; // 1749.25
    ok->figures = figures;
    EXPECT(ok, {"peak_bytes", 3000}, {"peak_by_category.weights", 900}, {"peak_by_category.logits", 0},
           {"host_peak_bytes", 77}, {"resident_bytes", 1000}, {"lower_bound_bytes_per_token", 2.25},
           {"lower_bound_bytes", 1750}, {"peak_over_bound", 3000 / bound}, {"link_out_bytes", 11},
           {"link_in_bytes", 22});
    struct measured *oom = measured_of(trial_of(MINIMAL));
    oom->figures = figures;
    oom->record.status = RECORD_OOM; // how far it would have gone is not known
    oom->figures.host_peak_bytes = 0;
    EXPECT(oom, {"lower_bound_bytes", 1750}, {"peak_over_bound", NAN}, {"host_peak_bytes", NAN});
}

static struct measured *predicted(void)
{
    struct measured *measured = measured_of(trial_of(WITH("'device': 'plan', 'profile': 'rtx-3090'")));
    measured->record.estimate_ms = 50;
    return measured;
}

static void predictions_have_a_range(void **state)
{
    (void)state;
    EXPECT(predicted(), {"estimate_ms", 50}, {"estimate_low_ms", 50 * SCALED_LOW},
           {"estimate_high_ms", 50 * SCALED_HIGH});
    struct measured *narrow = predicted();
    struct rates *rates = &narrow->trial.profile->rates[narrow->trial.dtype];
    rates->low = 0.75;
    rates->high = 1.5;
    EXPECT(narrow, {"estimate_ms", 50}, {"estimate_low_ms", 37.5}, {"estimate_high_ms", 75});
    struct measured *none = predicted();
    none->figures.counters = (struct counters){0};
    EXPECT(none, {"estimate_ms", NAN}, {"flops", NAN}, {"launches", NAN});
}

// A time line that is too long loses neighbours, never the highest of them.
static void thinning_keeps_peaks(void **state)
{
    (void)state;
    enum { EVENTS = 10000, HIGHEST = 7777 };
    struct measured *measured = measured_of(trial_of(MINIMAL));
    struct arena arena = {.timeline_count = EVENTS, .timeline = calloc(EVENTS, sizeof *arena.timeline)};
    assert_non_null(arena.timeline);
    for (size_t i = 0; i < EVENTS; i++) {
        arena.timeline[i].flops = (double)i;
        arena.timeline[i].live_bytes[CATEGORY_LOGITS] = i == HIGHEST ? 500 : i % 3;
    }
    trial_record_timeline(&measured->record, &arena);
    json_t *record = written(measured);
    const json_t *events = json_object_get(json_object_get(record, "timeline"), "events"), *event;
    size_t i, highest = 0;
    assert_true(json_array_size(events) > 1000 && json_array_size(events) <= 4096);
    json_array_foreach(events, i, event)
    {
        highest += json_number_value(json_array_get(event, 1)) == HIGHEST &&
                   json_integer_value(json_array_get(event, 2 + CATEGORY_LOGITS)) == 500;
    }
    assert_int_equal(highest, 1);
    json_decref(record);
    free(arena.timeline);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_of_the_median),    cmocka_unit_test(draws_have_a_mean),
        cmocka_unit_test(peaks_are_over_their_bound), cmocka_unit_test(predictions_have_a_range),
        cmocka_unit_test(thinning_keeps_peaks),
    };
    return cmocka_run_group_tests_name("what records derive", tests, NULL, NULL);
}
