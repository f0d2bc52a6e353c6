// Tests of the figures of training runs: the pictures' tables, and a run's columns of tables.
#define _GNU_SOURCE // asprintf
#include "harness/table/record_figure.h"
#include "tests/figure_table.h"

// A row per evaluation, with the steps' losses since the one before; of two runs of a method what differs is said,
// but for what goes with the number of steps.
static void test_training_table(void **state)
{
    (void)state;
    static const char once[] =
        "'optimizer': {'name': 'adamw', 'rate': 0.5}, 'train': {'steps': 4, 'accumulate': 1}";
    static const char twice[] = "'optimizer': {'name': 'sgd', 'rate': 0.5}, 'train': {'steps': 2, 'accumulate': 2}";
    char *lines[] = {
        run_of(1, full, once,
               ", 'samples_ms': [1000, 2000, 3000, 4000], 'curve': {'loss': [8, 6, 5, 3], 'gradient_norm': [1, 1, "
               "1, 1], "
               "'evaluation_step': [0, 2, 4], 'evaluation_loss': [9, 7, 4]}"),
        run_of(2, full, twice,
               ", 'samples_ms': [500, 500], 'curve': {'loss': [8, 2], 'gradient_norm': [null, null], "
               "'evaluation_step': [], 'evaluation_loss': []}"),
        record(3, "e", "ok", "f32", 64, seco_64, ", 'samples_ms': [1]"), // no training run
        NULL,
    };
    expect_table("training", lines,
                 "series\tmethod\tlabel\trank\tstep\ttokens\tseconds\tloss\tevaluation_loss\n"
                 "1\tfull\tfull, accumulate 1, adamw rate=0.5\t0\t0\t0\t0\tNaN\t9\n"
                 "1\tfull\tfull, accumulate 1, adamw rate=0.5\t0\t2\t128\t3\t7\t7\n"
                 "1\tfull\tfull, accumulate 1, adamw rate=0.5\t0\t4\t256\t10\t4\t4\n"
                 "2\tfull\tfull, accumulate 2, sgd rate=0.5\t1\t1\t128\t0.5\t8\tNaN\n"
                 "2\tfull\tfull, accumulate 2, sgd rate=0.5\t1\t2\t256\t1\t2\tNaN\n");
    char *none[] = {record(1, "e", "ok", "f32", 64, full, ", 'samples_ms': [1]"), NULL};
    assert_null(table_of("training", none));
}

#define LEARNING(losses, flops)                                                                                    \
    ", 'samples_ms': [2000, 4000], 'flops': 100, 'curve': {'loss': [8, 6], 'gradient_norm': [1, 1], "              \
    "'evaluation_step': [0, 1, 2], 'evaluation_loss': " losses flops "}"

static char *run_from(char seed, int id, const char *method, const char *window, const char *curve)
{
    char train[80];
    snprintf(train, sizeof train, "'train': {'steps': 2, 'window': %s}", window);
    return seeded(seed, run_of(id, method, train, curve));
}

// Means over seeds; the last exact method with whole windows is what others' last losses are compared with, seed by
// seed; a step's time is that of a trial that measures it alone.
static void test_learning_table(void **state)
{
    (void)state;
    static const char draws[] = "{'name': 'spaco', 'chunk': 16, 'budget': 2}";
    char *lines[] = {
        run_from('1', 1, full, "0", LEARNING("[9, 7, 4]", "")),
        run_from('2', 2, full, "0", LEARNING("[9, 7, 6]", "")),
        run_from('1', 3, seco_64, "64", LEARNING("[9, 8, 3]", "")),
        run_from('2', 4, seco_64, "64", LEARNING("[9, 8, 5.5]", "")),
        run_from('1', 5, seco_64, "128", LEARNING("[9, 8, 3]", "")),
        run_from('1', 6, draws, "64", LEARNING("[9, 8, 4]", ", 'flops': [100, 30]")),
        run_from('3', 7, draws, "64", LEARNING("[9, 8, 4]", ", 'flops': [100, 50]")),
        record(8, "e", "ok", "f32", 64, full, ", 'samples_ms': [500], 'median_ms': 500"),
        run_from('3', 9, full, "0", ", 'samples_ms': [1], 'curve': {'loss': [8], 'gradient_norm': [1]}"),
        NULL,
    };
    expect_table("learning", lines,
                 "series\tmethod\tlabel\trank\tseeds\tstep\tflops\tseconds\tloss\tloss_low\tloss_high\tdifference\t"
                 "difference_low\tdifference_high\n"
                 "1\tfull\tfull\t0\t2\t0\t0\t0\t9\t9\t9\tNaN\tNaN\tNaN\n"
                 "1\tfull\tfull\t0\t2\t1\t100\t0.5\t7\t7\t7\tNaN\tNaN\tNaN\n"
                 "1\tfull\tfull\t0\t2\t2\t200\t1\t5\t-7.70620474\t17.7062047\t0.75\t-2.42655118\t3.92655118\n"
                 "2\tseco\tseco, chunk 64\t0\t2\t0\t0\tNaN\t9\t9\t9\tNaN\tNaN\tNaN\n"
                 "2\tseco\tseco, chunk 64\t0\t2\t1\t100\tNaN\t8\t8\t8\tNaN\tNaN\tNaN\n"
                 "2\tseco\tseco, chunk 64\t0\t2\t2\t200\tNaN\t4.25\t-11.6327559\t20.1327559\tNaN\tNaN\tNaN\n"
                 "3\tseco\tseco, chunk 64, fewer tokens: 64 of 128\t1\t1\t0\t0\tNaN\t9\tNaN\tNaN\tNaN\tNaN\tNaN\n"
                 "3\tseco\tseco, chunk 64, fewer tokens: 64 of 128\t1\t1\t1\t100\tNaN\t8\tNaN\tNaN\tNaN\tNaN\tNaN\n"
                 "3\tseco\tseco, chunk 64, fewer tokens: 64 of 128\t1\t1\t2\t200\tNaN\t3\tNaN\tNaN\tNaN\tNaN\tNaN\n"
                 "4\tspaco\tspaco, chunk 16, budget 2\t0\t2\t0\t0\tNaN\t9\t9\t9\tNaN\tNaN\tNaN\n"
                 "4\tspaco\tspaco, chunk 16, budget 2\t0\t2\t1\t100\tNaN\t8\t8\t8\tNaN\tNaN\tNaN\n"
                 "4\tspaco\tspaco, chunk 16, budget 2\t0\t2\t2\t140\tNaN\t4\t4\t4\tNaN\tNaN\tNaN\n");
    char *one[] = {run_from('1', 1, full, "0", LEARNING("[9, 7, 4]", "")),
                   run_from('1', 2, seco_64, "0", LEARNING("[9, 7, 4]", "")), NULL};
    assert_null(table_of("learning", one));
}

// More runs than a picture can show are none, and what is said names what chooses among them.
static void test_too_many_runs(void **state)
{
    (void)state;
    char *lines[16] = {NULL}, *max[15] = {NULL}, keys[80];
    for (int i = 0; i < 29; i++) {
        snprintf(keys, sizeof keys, "'optimizer': {'name': 'sgd', 'rate': %d}, 'train': {}", i % 15 + 1);
        *(i < 15 ? &lines[i] : &max[i - 15]) =
            run_of(i, full, keys,
                   ", 'samples_ms': [1], 'curve': {'loss': [9], 'gradient_norm': [1], 'evaluation_step': [], "
                   "'evaluation_loss': []}");
    }
    char *table = table_of("training", max);
    assert_non_null(table);
    assert_null(table_of("training", lines));
    assert_non_null(strstr(figure_training.needs, "at most 14; of more --where chooses"));
    free(table);
}

// Evaluations, or else means of the steps, of runs whose objectives have metrics; other metrics are left out.
static void test_metrics_table(void **state)
{
    (void)state;
    static const char dpo[] = "'objective': {'name': 'dpo', 'beta': 0.5}, 'train': {'steps': 2}";
    static const char grpo[] = "'objective': {'name': 'grpo', 'beta': 0.25}, 'train': {'steps': 2}";
    char *lines[] = {
        run_of(1, full, dpo,
               ", 'samples_ms': [500, 500], 'curve': {'loss': [8, 2], 'gradient_norm': [1, 1], 'evaluation_step': "
               "[0, 2], 'evaluation_loss': [9, 7], 'margin': [-1, 2], 'evaluation_margin': [0.5, 3], 'accuracy': "
               "[0, 1], 'evaluation_accuracy': [0.25, 0.75]}"),
        run_of(2, full, grpo,
               ", 'samples_ms': [500, 500], 'curve': {'loss': [8, 2], 'gradient_norm': [1, 1], 'evaluation_step': "
               "[], 'evaluation_loss': [], 'clip_low': [0.25, 0.5], 'clip_high': [0, 1], 'kl': [3, 4], "
               "'entropy': [1, 2], 'z_loss': [5, 6]}"),
        run_of(3, full, "'train': {'steps': 1}",
               ", 'samples_ms': [500], 'curve': {'loss': [8], 'gradient_norm': [1], 'evaluation_step': [], "
               "'evaluation_loss': []}"),
        NULL,
    };
    expect_table("metrics", lines,
                 "series\tmethod\tlabel\trank\tstep\tmargin\taccuracy\tclip_low\tclip_high\tkl\tentropy\tz_loss\t"
                 "aux_loss\trouter_z_loss\n"
                 "1\tfull\tfull, dpo beta=0.5\t0\t0\t0.5\t0.25\tNaN\tNaN\tNaN\tNaN\tNaN\tNaN\tNaN\n"
                 "1\tfull\tfull, dpo beta=0.5\t0\t2\t3\t0.75\tNaN\tNaN\tNaN\tNaN\tNaN\tNaN\tNaN\n"
                 "2\tfull\tfull, grpo beta=0.25\t1\t1\tNaN\tNaN\t0.25\t0\t3\t1\t5\tNaN\tNaN\n"
                 "2\tfull\tfull, grpo beta=0.25\t1\t2\tNaN\tNaN\t0.5\t1\t4\t2\t6\tNaN\tNaN\n");
    char *none[] = {run_of(3, full, "'train': {'steps': 1}",
                           ", 'samples_ms': [500], 'curve': {'loss': [8], 'gradient_norm': [1], 'evaluation_step': "
                           "[], 'evaluation_loss': []}"),
                    NULL};
    assert_null(table_of("metrics", none));
}

// Runs that no program recorded: evaluated behind their end, backwards, or with a loss and no step.
static void test_runs_that_are_none(void **state)
{
    (void)state;
    static const char *const evaluations[] = {"'evaluation_step': [0, 9007199254740992], 'evaluation_loss': [9, 7]",
                                              "'evaluation_step': [2, 1], 'evaluation_loss': [9, 7]",
                                              "'evaluation_step': [], 'evaluation_loss': [9, 7]",
                                              "'evaluation_step': [0, 2], 'evaluation_loss': [9, 7]"};
    for (int i = 0; i < 4; i++) {
        char rest[200];
        snprintf(rest, sizeof rest,
                 ", 'samples_ms': [500, 500], 'curve': {'loss': [8, 2], 'gradient_norm': [1, 1], %s}",
                 evaluations[i]);
        char *lines[] = {run_of(1, full, "'train': {'steps': 2}", rest), NULL},
             *table = table_of("training", lines);
        assert_int_equal(table != NULL, i == 3);
        free(table);
    }
}

// The loss of the last quarter and of the last evaluation, by the rate.
static void test_rates_table(void **state)
{
    (void)state;
    static const char *const rates[] = {"0.1", "0.001", "0.01"};
    char *lines[4] = {NULL}, *few[3] = {NULL}, keys[120];
    for (int i = 0; i < 5; i++) {
        snprintf(keys, sizeof keys, "'optimizer': {'name': 'adamw', 'rate': %s}, 'train': {'accumulate': 1}",
                 rates[i % 3]);
        *(i < 3 ? &lines[i] : &few[i - 3]) = run_of(
            i, seco_64, keys,
            ", 'samples_ms': [1, 1, 1, 1, 1, 1, 1, 1], 'curve': {'loss': [9, 8, 7, 6, 5, 4, 3, 2], "
            "'gradient_norm': [1, 1, 1, 1, 1, 1, 1, 1], 'evaluation_step': [0, 8], 'evaluation_loss': [9, 2.25]}");
    }
    expect_table("rates", lines,
                 "series\tmethod\tlabel\trank\trate\tloss\tevaluation_loss\tpublished\n"
                 "1\tseco\tseco, chunk 64\t0\t0.001\t2.5\t2.25\tNaN\n"
                 "1\tseco\tseco, chunk 64\t0\t0.01\t2.5\t2.25\tNaN\n"
                 "1\tseco\tseco, chunk 64\t0\t0.1\t2.5\t2.25\tNaN\n");
    assert_null(table_of("rates", few));
}

// One curve per optimizer and its options other than the rate, in the order of the runs.
static void test_rates_of_several_optimizers(void **state)
{
    (void)state;
    static const char *const optimizers[] = {
        "'name': 'sgd', 'rate': 0.1",  "'name': 'adamw', 'rate': 0.001, 'decay': 0.1",
        "'name': 'sgd', 'rate': 0.01", "'name': 'adamw', 'rate': 0.001",
        "'name': 'sgd', 'rate': 1",
    };
    char *lines[6] = {NULL}, *few[5] = {NULL}, keys[160];
    for (int i = 0; i < 9; i++) {
        snprintf(keys, sizeof keys, "'optimizer': {%s}, 'train': {'accumulate': 1}", optimizers[i % 5]);
        *(i < 5 ? &lines[i] : &few[i - 5]) =
            run_of(i, i % 5 == 3 ? seco_64 : full, keys,
                   ", 'samples_ms': [1], 'curve': {'loss': [9], 'gradient_norm': [1], 'evaluation_step': [], "
                   "'evaluation_loss': []}");
    }
    expect_table("rates", lines,
                 "series\tmethod\tlabel\trank\trate\tloss\tevaluation_loss\tpublished\n"
                 "1\tfull\tfull, sgd\t0\t0.01\t9\tNaN\tNaN\n"
                 "1\tfull\tfull, sgd\t0\t0.1\t9\tNaN\tNaN\n"
                 "1\tfull\tfull, sgd\t0\t1\t9\tNaN\tNaN\n"
                 "2\tfull\tfull, adamw decay=0.1\t1\t0.001\t9\tNaN\tNaN\n"
                 "3\tseco\tseco, chunk 64, adamw\t0\t0.001\t9\tNaN\tNaN\n");
    assert_null(table_of("rates", few)); // no optimizer has three
}

// A table's values of a run: its last quarter of steps, of a short run its last one, and its last evaluation.
static void test_last_losses(void **state)
{
    (void)state;
    static const struct {
        const char *curve, *last, *held_out;
    } cases[] = {
        {", 'curve': {'loss': [9, 8, 7, 6, 5, 4, 3, 2], 'evaluation_loss': [9, 2.25]}", "2.5", "2.25"},
        {", 'curve': {'loss': [9, 8, 4], 'evaluation_loss': []}", "4.0", "null"},
        {", 'curve': {'loss': [9, 8, 4, null]}", "null", "null"}, // it diverged
        {"", "null", "null"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *line = run_of(1, full, "'train': {'steps': 8}", cases[i].curve);
        const struct record *parsed = &parsed_record(line)->record;
        const struct table_row row = {.record = parsed};
        json_t *last = record_figure_find("last_loss")->value(&row),
               *held_out = record_figure_find("held_out_loss")->value(&row);
        char *text = json_dumps(last, JSON_ENCODE_ANY), *other = json_dumps(held_out, JSON_ENCODE_ANY);
        assert_string_equal(text, cases[i].last);
        assert_string_equal(other, cases[i].held_out);
        free(other);
        free(text);
        json_decref(held_out);
        json_decref(last);
        parsed_record_free(parsed);
        free(line);
    }
}

// A series per way of rounding, means over the steps by the rate.
static void test_lost_updates_table(void **state)
{
    (void)state;
    static const char *const optimizers[] = {"'rate': 0.1", "'rate': 0.01", "'rate': 0.1, 'master': 'f32'",
                                             "'rate': 0.1, 'round': 'stochastic'"};
    char *lines[6] = {NULL}, *few[2] = {NULL}, keys[120];
    for (int i = 0; i < 5; i++) {
        snprintf(keys, sizeof keys, "'optimizer': {'name': 'adamw', %s}", optimizers[i % 4]);
        *(i < 4 ? &lines[i] : &few[0]) =
            run_of(i, full, keys,
                   ", 'curve': {'loss': [9, 8], 'unchanged_weights': [0.5, 1], 'lost_updates': [null, 0.25]}");
    }
    lines[4] = run_of(5, full, "'optimizer': {'name': 'adamw', 'rate': 1}", ", 'curve': {'loss': [9, 8]}");
    expect_table("lost-updates", lines,
                 "series\tmethod\tlabel\trank\trate\tunchanged\tlost\n"
                 "1\tfull, adamw, master in f32\tfull, adamw, master in f32\t0\t0.1\t0.75\t0.25\n"
                 "2\tfull, adamw, rounded stochastically\tfull, adamw, rounded stochastically\t1\t0.1\t0.75\t0.25\n"
                 "3\tfull, adamw, rounded to nearest\tfull, adamw, rounded to nearest\t2\t0.01\t0.75\t0.25\n"
                 "3\tfull, adamw, rounded to nearest\tfull, adamw, rounded to nearest\t2\t0.1\t0.75\t0.25\n");
    assert_null(table_of("lost-updates", few));
}

// Behind ours a series for each of the paper's, of the file that comes with the program.
static void test_published_rates(void **state)
{
    (void)state;
    struct published published;
    struct status status = {0};
    assert_true(published_load(&published, NULL, &status));
    const struct published_file *file = published_find(&published, "learning-rate", PUBLISHED_LOSS);
    assert_non_null(file);
    assert_int_equal(file->count, 28);
    assert_true(file->points[0].rate == 0.0001 && file->points[0].value == 2.5276);
    const struct record *records[3];
    for (int i = 0; i < 3; i++) {
        char keys[120];
        snprintf(keys, sizeof keys, "'optimizer': {'name': 'adamw', 'rate': %d}, 'train': {'accumulate': 1}",
                 i + 1);
        char *line =
            run_of(i, full, keys,
                   ", 'samples_ms': [1], 'curve': {'loss': [9], 'gradient_norm': [1], 'evaluation_step': [], "
                   "'evaluation_loss': []}");
        records[i] = &parsed_record(line)->record;
        free(line);
    }
    struct figure_table made = {0};
    assert_true(figure_rates.tabulate_beside(records, 3, file, &made));
    char *text = figure_text(&made);
    assert_non_null(strstr(text, "1\tfull\tfull\t0\t1\t9\tNaN\tNaN\n"));
    assert_non_null(strstr(text, "\n2\tseco\tpublished, exact\t0\t0.0001\tNaN\tNaN\t2.5276\n"));
    assert_non_null(strstr(text, "\n5\tspaco\tpublished, t = 32\t2\t0.01\tNaN\tNaN\t7.0178\n"));
    free(text);
    for (int i = 0; i < 3; i++)
        parsed_record_free(records[i]);
    published_free(&published);
}

// A row per record, in groups of an optimizer with its options; behind the first that a published run is of its
// row.
static void test_optimizers_table(void **state)
{
    (void)state;
    static const struct {
        const char *method, *optimizer, *bytes;
    } rows[] = {
        {full, "{'name': 'adamw', 'master': 'f32', 'state': 'gradient'}",
         "'resident_bytes': 1000, 'peak_bytes': 1100"},
        {full, "{'name': 'bcd', 'master': 'f32', 'state': 'gradient'}", "'resident_bytes': 200, 'peak_bytes': 250"},
        {seco_64, "{'name': 'bcd', 'master': 'f32', 'state': 'gradient'}",
         "'resident_bytes': 200, 'peak_bytes': 300"},
    };
    struct published published;
    struct status status = {0};
    assert_true(published_load(&published, NULL, &status));
    const struct published_file *file = published_find(&published, "optimizers", PUBLISHED_RESIDENT);
    assert_non_null(file);
    const struct record *records[3];
    for (int i = 0; i < 3; i++) {
        char keys[160], measured[160];
        snprintf(keys, sizeof keys, "'optimizer': %s", rows[i].optimizer);
        snprintf(measured, sizeof measured, ", %s", rows[i].bytes);
        char *line = run_of(i, rows[i].method, keys, measured);
        records[i] = &parsed_record(line)->record;
        free(line);
    }
    struct figure_table made = {0};
    assert_true(figure_optimizers.tabulate_beside(records, 3, file, &made));
    char *text = figure_text(&made);
    assert_string_equal(text, "series\tmethod\tlabel\trank\tgroup\tgroup_label\tresident\tpeak\tpublished\n"
                              "1\tfull\tfull\t0\t1\tAdamW, f32 master\t1000\t1100\tNaN\n"
                              "2\tfull\tfull\t0\t2\tbcd\t200\t250\tNaN\n"
                              "3\tseco\tseco\t0\t2\tbcd\t200\t300\tNaN\n"
                              "4\tpublished\tBAdam on an RTX 3090\t0\t2\tbcd\tNaN\tNaN\t23500000000\n"
                              "5\tpublished\tBAdam in BREAD's table\t0\t2\tbcd\tNaN\tNaN\t21800000000\n");
    free(text);
    for (int i = 0; i < 3; i++)
        parsed_record_free(records[i]);
    published_free(&published);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training_table),
        cmocka_unit_test(test_runs_that_are_none),
        cmocka_unit_test(test_learning_table),
        cmocka_unit_test(test_too_many_runs),
        cmocka_unit_test(test_metrics_table),
        cmocka_unit_test(test_rates_table),
        cmocka_unit_test(test_rates_of_several_optimizers),
        cmocka_unit_test(test_lost_updates_table),
        cmocka_unit_test(test_published_rates),
        cmocka_unit_test(test_optimizers_table),
        cmocka_unit_test(test_last_losses),
    };
    return cmocka_run_group_tests_name("training figures", tests, NULL, NULL);
}
