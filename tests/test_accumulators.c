// Accumulator dtypes, from a trial to its figure: the record's effect of bf16 accumulators, the figure's table,
// and pictures that differ only in such a dtype. JSON is written with ' for ".
#define _GNU_SOURCE // asprintf, nftw, mkdtemp
#include "harness/machine/environment.h"
#include "harness/plot/figure.h"
#include "harness/plot/plot.h"
#include "harness/spec/trial_decode.h"
#include "harness/table/setting.h"
#include "harness/trial/trial_run.h"
#include "tests/figure_text.h"
#include "tests/parsed_record.h"
#include "tests/quoted.h"
#include "tests/scratch.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

// `sums_relative_l2` of a run in bf16; NaN: null.
static double changed_by_sums(size_t chunk, const char *dkv, const char *dw)
{
    char *json;
    assert_true(
        asprintf(&json,
                 "{'model': {'layers': 2, 'width': 32, 'heads': 4, 'kv_heads': 2, 'ffn': 40, 'vocab': 256}, "
                 "'dtype': 'bf16', 'context': 96, 'data': 'random', 'method': {'name': 'seco', 'chunk': %zu}, "
                 "'kv_gradient_dtype': '%s', 'gradient_dtype': '%s', "
                 "'measure': {'warmup': 0, 'samples': 1, 'gradient': 'full-f64'}}",
                 chunk, dkv, dw) > 0);
    struct trial trial;
    struct status status = {0};
    char *text = quoted(json);
    if (!trial_decode(&trial, text, "trial", &status))
        fail_msg("%s: %s", text, status.message);
    char *line = trial_run(&trial, -1);
    json_t *record = json_loads(line, 0, NULL);
    if (strcmp(json_string_value(json_object_get(record, "status")), "ok") != 0)
        fail_msg("%s", line);
    const json_t *value = json_object_get(json_object_get(record, "gradient"), "sums_relative_l2");
    assert_non_null(value);
    double found = json_is_null(value) ? NAN : json_number_value(value);
    json_decref(record);
    free(line);
    trial_free(&trial);
    free(text);
    free(json);
    return found;
}

// One chunk is added to nothing: dK and dV are rounded once in any case, weight gradients are not. Every further
// chunk rounds again.
static void what_sums_alone_change(void **state)
{
    (void)state;
    assert_true(isnan(changed_by_sums(8, "f32", "f32")));
    assert_true(changed_by_sums(96, "bf16", "f32") == 0);
    assert_true(changed_by_sums(8, "bf16", "f32") > 0);
    assert_true(changed_by_sums(96, "bf16-stochastic", "f32") > 0);
    double nearest = changed_by_sums(8, "bf16", "f32"), stochastic = changed_by_sums(8, "bf16-stochastic", "f32");
    assert_true(stochastic > nearest && stochastic < 3 * nearest); // twice the variance of a rounding
    double once = changed_by_sums(96, "f32", "bf16"), often = changed_by_sums(4, "f32", "bf16");
    assert_true(once > 1e-3 && once < 3e-3); // rounded once: the root mean square of errors up to 2^-8
    assert_true(often > 1.5 * once);
}

static unsigned records_made; // an id each

static char *record(const char *dkv, const char *dw, const char *method, const char *gradient)
{
    char *text;
    assert_true(asprintf(&text,
                         "{'schema': 2, 'id': '%032x', 'experiment': 'sums', 'status': 'ok', 'trial': {'model': "
                         "'tiny', 'dtype': 'bf16', 'device': 'cpu', 'batch': 1, 'context': 100, "
                         "'kv_gradient_dtype': '%s', 'gradient_dtype': '%s', 'method': %s}, 'gradient': %s}",
                         ++records_made, dkv, dw, method, gradient) > 0);
    char *line = quoted(text);
    free(text);
    return line;
}

#define SECO(chunk)          "{'name': 'seco', 'chunk': " #chunk "}"
#define ERROR(l2, own)       "{'relative_l2': " #l2 ", 'noise_floor': 0.001, 'sums_relative_l2': " #own "}"
#define HEADER               "series\tmethod\tlabel\trank\tchunks\trelative_l2\tnoise_floor\tsums_relative_l2\n"
#define EXPECT(lines, table) expect_table(lines, sizeof(lines) / sizeof *(lines), table)

// table NULL: these records make none.
static void expect_table(char **lines, size_t count, const char *table)
{
    const struct record *records[16];
    for (size_t i = 0; i < count; i++) {
        records[i] = &parsed_record(lines[i])->record;
        free(lines[i]);
    }
    struct figure_table made = {0};
    bool enough = figure_accumulators.tabulate(records, count, &made);
    char *text = figure_text(&made);
    assert_int_equal(enough, table != NULL);
    if (table)
        assert_string_equal(text, table);
    free(text);
    for (size_t i = 0; i < count; i++)
        parsed_record_free(records[i]);
}

static void the_table_counts_chunks(void **state)
{
    (void)state;
    char *lines[] = {
        record("bf16", "bf16", SECO(30), ERROR(0.5, 0.25)),       record("f32", "f32", SECO(0), ERROR(0.125, null)),
        record("bf16", "bf16", SECO(100), ERROR(0.25, 0)),        record("f32", "bf16", SECO(50), "null"),
        record("f32", "f32", "{'name': 'full'}", ERROR(1, null)),
    };
    EXPECT(lines, HEADER "1\tseco\tseco, dKV in f32, dW in f32\t0\t1\t0.125\t0.001\tNaN\n"
                         "2\tseco\tseco, dKV in bf16, dW in bf16\t3\t1\t0.25\t0.001\t0\n"
                         "2\tseco\tseco, dKV in bf16, dW in bf16\t3\t4\t0.5\t0.001\t0.25\n");
    char *wide[] = {record("f32", "f32", SECO(50), ERROR(0.5, null)),
                    record("f32", "f32", SECO(100), ERROR(0.5, null)),
                    record("bf16", "f32", SECO(50), ERROR(0.5, 0.5))};
    EXPECT(wide, NULL);
}

// Also where nothing changed, and where no series has sums in f32.
static void the_picture_is_drawn(void **state)
{
    const struct scratch *scratch = *state;
    const struct scratch_path file = scratch_path(scratch, "sums.jsonl"), out = scratch_path(scratch, "out");
    static const char *const pairs[][2] = {{"bf16", "f32"}, {"f32", "bf16"}, {"f32", "f32"}};
    for (size_t count = 1; count <= 3; count++) {
        FILE *stream = fopen(file.text, "w");
        for (size_t i = 0; i < count; i++) {
            char *lines[] = {record(pairs[i][0], pairs[i][1], SECO(50), i ? ERROR(0.5, 0.25) : ERROR(0.5, 0)),
                             record(pairs[i][0], pairs[i][1], SECO(0), i ? ERROR(0.5, 0.25) : ERROR(0.5, 0))};
            fprintf(stream, "%s\n%s\n", lines[0], lines[1]);
            free(lines[0]);
            free(lines[1]);
        }
        assert_int_equal(fclose(stream), 0);
        const char *const paths[] = {file.text};
        const struct plot_request request = {.paths = paths,
                                             .path_count = 1,
                                             .form = {.folder = out.text, .scripts = "plots", .formats = "svg,png"},
                                             .figures = "accumulators"};
        struct status status = {0};
        if (!plot(&request, &status))
            fail_msg("%zu series: %s", count, status.message);
        assert_int_equal(access(scratch_path(scratch, "out/sums-accumulators.svg").text, R_OK), 0);
    }
}

static void pictures_name_the_sum(void **state)
{
    (void)state;
    static const char *const dtypes[][2] = {{"f32", "f32"}, {"bf16", "f32"}, {"f32", "bf16"}};
    static const char *const expected[] = {"", "-dkv-bf16", "-gradients-bf16"};
    json_t *settings[3];
    for (size_t i = 0; i < 3; i++)
        settings[i] = json_pack("{s:s, s:s, s:s}", "dtype", "bf16", "kv_gradient_dtype", dtypes[i][0],
                                "gradient_dtype", dtypes[i][1]);
    for (size_t i = 0; i < 3; i++) {
        char suffix[100];
        setting_suffix(settings[i], settings, 3, suffix, sizeof suffix);
        assert_string_equal(suffix, expected[i]);
    }
    for (size_t i = 0; i < 3; i++)
        json_decref(settings[i]);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_sums_alone_change),
        cmocka_unit_test(the_table_counts_chunks),
        cmocka_unit_test_setup_teardown(the_picture_is_drawn, scratch_setup, scratch_teardown),
        cmocka_unit_test(pictures_name_the_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
