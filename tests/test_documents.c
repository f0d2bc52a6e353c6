// Packed documents and sliding windows in a whole step, beyond every method's own tests: packing as if each
// document ran alone; a window over all tokens changes nothing; counts are those of visible pairs.
#include "harness/machine/environment.h"
#include "tests/fixture.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define OPTIONS      "chunk=5 head_chunk=3 budget=5" // spaco draws all

// Tokens [start, end) of the fixture's sequence b.
struct document {
    size_t b, start, end;
};

static size_t documents_of(const struct fixture *f, struct document *documents)
{
    size_t count = 0;
    for (size_t b = 0; b < f->batch_size; b++) {
        for (size_t t = 0, end; t < f->context; t = end) {
            end = t + 1;
            while (end < f->context &&
                   f->batch.starts[end * f->batch_size + b] == f->batch.starts[t * f->batch_size + b])
                end++;
            documents[count++] = (struct document){b, t, end};
        }
    }
    return count;
}

// Adds the gradient of one document alone; its loss.
static double step_alone(struct fixture *f, const struct method *method, const void *options, struct document d)
{
    struct step_report report = {0};
    struct batch alone;
    batch_open(&alone, f->device, f->ids + d.b * f->context + d.start, NULL, d.end - d.start, 1);
    alone.normaliser = f->batch.normaliser;
    method_step(method, &f->model, &alone, options, &report);
    batch_close(&alone, f->device);
    double loss = report.sums.loss;
    step_report_free(&report);
    return loss;
}

static void packed_is_as_if_alone(void **state)
{
    (void)state;
    static const size_t lengths[] = {1, 4, 7, 11, 23};
    for (size_t i = 0; i < COUNT(lengths); i++) {
        struct fixture f = fixture_default();
        struct document documents[64];
        f.document = lengths[i];
        f.config.kinds[0].window = i % 2 ? 3 : 0;
        f.config.qk_norm = i == 2;
        if (i % 3 == 0)
            fixture_choose(&f, i ? "DeepSeek" : "Kimi");
        f.context = 23;
        fixture_open(&f);
        size_t count = documents_of(&f, documents);
        assert_true(count > 2 && f.batch.normaliser.rows == f.context * f.batch_size - count);
        for (const struct method *const *m = methods; *m; m++) {
            if (!(*m)->exact)
                continue;
            struct step_report report = {0};
            void *options = fixture_options(*m, OPTIONS);
            double *packed = fixture_step(&f, (*m)->name, options, &report), loss = 0;
            trainer_zero(&f.trainer);
            for (size_t n = 0; n < count; n++)
                loss += step_alone(&f, *m, options, documents[n]);
            double *alone = fixture_gradients(&f);
            if (!(relative_l2(packed, alone, f.gradient_count) <= 1e-13) ||
                !(fabs(loss - report.sums.loss) <= 1e-13 * fabs(loss))) {
                fail_msg("%s, documents of %zu: relative L2 %.2e, loss %.17g, alone %.17g", (*m)->name, lengths[i],
                         relative_l2(packed, alone, f.gradient_count), report.sums.loss, loss);
            }
            options_free(&(*m)->options, options);
            free(alone);
            free(packed);
            step_report_free(&report);
        }
        fixture_close(&f);
    }
}

// To the bit, in every dtype; a shorter one is another gradient.
static void a_window_of_all_is_none(void **state)
{
    (void)state;
    static const size_t windows[] = {0, 23, 24, 1000000, 21};
    for (enum dtype dtype = DTYPE_F64; dtype <= DTYPE_BF16; dtype++) {
        double *expected = NULL;
        for (size_t i = 0; i < COUNT(windows); i++) {
            struct step_report report = {0};
            struct fixture f = fixture_default();
            f.dtype = dtype;
            f.config.kinds[0].window = windows[i];
            fixture_open(&f);
            void *options = fixture_options(method_find("seco"), OPTIONS);
            double *found = fixture_step(&f, "seco", options, &report);
            options_free(&method_find("seco")->options, options);
            bool same = i == 0 || memcmp(found, expected, f.gradient_count * sizeof *found) == 0;
            assert_int_equal(same, windows[i] != 21);
            if (i == 0)
                expected = found;
            else
                free(found);
            step_report_free(&report);
            fixture_close(&f);
        }
        free(expected);
    }
}

// Pairs of queries and keys, by the definition.
static double pairs_of(const struct fixture *f, size_t window)
{
    double pairs = 0;
    for (size_t row = 0; row < f->context * f->batch_size; row++) {
        size_t t = row / f->batch_size, start = f->batch.starts ? (size_t)f->batch.starts[row] : 0;
        for (size_t key = start; key <= t; key++)
            pairs += window == 0 || key + window > t;
    }
    return pairs;
}

// FLOPs of a step: what masks leave out is not counted, and nothing else changes.
static void flops_are_of_what_is_seen(void **state)
{
    (void)state;
    static const size_t windows[] = {0, 1, 6, 23, 0, 0, 5}, documents[] = {0, 0, 0, 0, 1, 9, 9};
    static const char *const names[] = {"full", "seco"};
    for (size_t n = 0; n < COUNT(names); n++) {
        double others = 0; // all but attention's
        for (size_t i = 0; i < COUNT(windows); i++) {
            struct step_report report = {0};
            struct fixture f = fixture_default();
            fixture_set_windows(&f.config, windows[i], 2);
            f.document = documents[i];
            fixture_open(&f);
            void *options = fixture_options(method_find(names[n]), "chunk=64");
            f.device->counters = (struct counters){0};
            free(fixture_step(&f, names[n], options, &report));
            options_free(&method_find(names[n])->options, options);
            // Forward 4 per pair and element of a head, backward 10.
            double heads = (double)(f.config.kinds[0].heads * f.config.kinds[0].head_dim), attention = 0;
            for (size_t l = 0; l < f.config.layers; l++)
                attention += (4 + 10) * heads * pairs_of(&f, config_kind(&f.config, l)->window);
            others = i == 0 ? f.device->counters.flops - attention : others;
            assert_true(others > 0 && f.device->counters.flops == others + attention);
            step_report_free(&report);
            fixture_close(&f);
        }
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_is_as_if_alone),
        cmocka_unit_test(a_window_of_all_is_none),
        cmocka_unit_test(flops_are_of_what_is_seen),
    };
    return cmocka_run_group_tests_name("documents", tests, NULL, NULL);
}
