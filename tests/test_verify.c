// Verify finds a wrong gradient: of each method in turn one number is put off a little, or is no number, and the
// cases of that method fail, and no others. The linker puts this file's method_step in the place of the real one
// (Makefile).
#include "harness/machine/environment.h"
#include "harness/options/command.h"
#include "harness/trial/verify.h"
#include "tests/trial_of.h"
#include <jansson.h>
#include <math.h>
#include <unistd.h>

// Rows that a shape gives no target: tokens [start, start + count) of every sequence.
static struct span without_targets;
// Fault in the first gradient of a method's step, in the first of its steps twice.
static struct {
    const char *method; // NULL: nothing
    double factor;
    size_t steps;
} mistake;

extern __typeof__(method_step) __real_method_step, __wrap_method_step;
void __wrap_method_step(const struct method *method, struct model *model, const struct batch *batch,
                        const void *options, struct step_report *report)
{
    __real_method_step(method, model, batch, options, report);
    const int32_t *targets = batch->targets.data;
    for (size_t i = 0; i < without_targets.count * batch->batch; i++)
        assert_true(targets[without_targets.start * batch->batch + i] < 0);
    for (size_t i = 0; mistake.method && strcmp(method->name, mistake.method) == 0 && i < model->parameter_count;
         i++) {
        if (model->parameters[i].grad.data) {
            op_scale(model->device, model->parameters[i].grad, pow(mistake.factor, mistake.steps++ ? 1 : 2));
            return;
        }
    }
}

struct tally {
    size_t good, bad, of_method;
};

static void count(const struct verify_case *result, void *context)
{
    struct tally *tally = context;
    bool wrong = mistake.method && strcmp(result->method->name, mistake.method) == 0;
    tally->good += result->good && !wrong;
    tally->bad += !result->good && !wrong;
    tally->of_method += wrong && !result->good;
    if (wrong && result->good) {
        fail_msg("%s, off by a factor of %.12g, is good: %s %s, relative L2 %.2e", result->method->name,
                 mistake.factor, result->shape, result->options, result->error.relative_l2);
    }
}

static struct tally verified(enum dtype dtype, const char *shape)
{
    struct trial like = trial_of(MINIMAL);
    struct verify_request request = {.shape = shape,
                                     .device = "cpu",
                                     .like = &like,
                                     .dtype = dtype,
                                     .kv_gradient_dtype = dtype_accumulator(dtype),
                                     .gradient_dtype = dtype_accumulator(dtype)};
    struct tally tally = {0};
    struct status status = {0};
    if (!verify(&request, count, &tally, &status))
        fail_msg("%s", status.message);
    trial_free(&like);
    return tally;
}

static void a_wrong_gradient_fails(void **state)
{
    (void)state;
    static const struct {
        enum dtype dtype;
        double factor;
    } mistakes[] = {{DTYPE_F64, 1 + 1e-10}, {DTYPE_F64, NAN}, {DTYPE_F32, 1.002}, {DTYPE_F32, INFINITY}};
    mistake.method = NULL;
    without_targets = (struct span){5, 5}; // the shape's second chunk
    struct tally right = verified(DTYPE_F64, "masked spans");
    without_targets.count = 0;
    assert_true(right.good > 4 && right.bad == 0);
    for (const struct method *const *m = methods; *m; m++) {
        if (strcmp((*m)->name, "full") == 0 || (!(*m)->exact && !(*m)->make_exact))
            continue; // full is what they are held against
        for (size_t i = 0; i < COUNT(mistakes); i++) {
            mistake.method = (*m)->name;
            mistake.factor = mistakes[i].factor;
            struct tally tally = verified(mistakes[i].dtype, "masked spans");
            assert_true(tally.of_method > 0 && tally.good > 0);
            assert_int_equal(tally.bad, 0);
            assert_int_equal(tally.good + tally.of_method, right.good);
        }
    }
}

// Output of `longbp verify` for a shape; the caller frees it.
static char *printed(char *format, int *code)
{
    char *arguments[] = {"verify", "--shape", "masked spans", format, NULL}, *text = NULL;
    size_t room = 0;
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stdout);
    int kept = dup(STDOUT_FILENO);
    dup2(fileno(file), STDOUT_FILENO);
    *code = command_verify(format ? 4 : 3, arguments);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    rewind(file);
    assert_true(getdelim(&text, &room, 0, file) > 0);
    fclose(file);
    return text;
}

// The line of a method's cases, a line of JSON each: how many, how many are off, the worst and where that is.
static void expect_line(const char *table, const char *of_cases, const char *method)
{
    char line[600], where[300] = "", *copy = strdup(of_cases), *rest = copy, *text;
    size_t cases = 0, off = 0;
    double worst = -1, largest = 0;
    while ((text = strsep(&rest, "\n")) && *text) {
        json_t *result = json_loads(text, 0, NULL);
        const char *options = json_string_value(json_object_get(result, "options"));
        double l2 = json_number_value(json_object_get(result, "relative_l2"));
        if (strcmp(json_string_value(json_object_get(result, "method")), method) == 0) {
            cases++;
            off += !json_is_true(json_object_get(result, "good"));
            largest = fmax(largest, json_number_value(json_object_get(result, "max_abs")));
            if (l2 > worst) {
                snprintf(where, sizeof where, "%s%s%s", json_string_value(json_object_get(result, "shape")),
                         *options ? ", " : "", options);
            }
            worst = fmax(worst, l2);
        }
        json_decref(result);
    }
    bool wrong = mistake.method && strcmp(method, mistake.method) == 0;
    assert_true(cases > 2 && off == (wrong ? cases : 0));
    snprintf(line, sizeof line, "\n%-12s %5zu %5zu %12.3g %12.3g  %s\n", method, cases, off, worst, largest, where);
    if (!strstr(table, line))
        fail_msg("expected \"%s\" in:\n%s", line, table);
    free(copy);
}

static void the_command_says_it(void **state)
{
    (void)state;
    static const char *const lines_of[] = {"checkpoint", "streambp", "seco"};
    for (int wrong = 0; wrong < 2; wrong++) {
        int codes[2];
        mistake.method = wrong ? "seco" : NULL;
        mistake.factor = 1 + 1e-10;
        mistake.steps = 0;
        char *of_cases = printed("--json", &codes[0]);
        mistake.steps = 0;
        char *table = printed(NULL, &codes[1]);
        assert_true(codes[0] == wrong && codes[1] == wrong);
        for (size_t i = 0; i < COUNT(lines_of); i++)
            expect_line(table, of_cases, lines_of[i]);
        free(table);
        free(of_cases);
    }
}

static void bounds_are_as_stated(void **state)
{
    (void)state;
    assert_true(verify_bounds(DTYPE_F64).relative_l2 == 1e-13 && verify_bounds(DTYPE_F64).max_abs == 1e-12);
    assert_true(verify_bounds(DTYPE_F32).relative_l2 == 1e-5);
    assert_true(verify_bounds(DTYPE_BF16).relative_l2 == 3e-2);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_wrong_gradient_fails),
                                       cmocka_unit_test(the_command_says_it),
                                       cmocka_unit_test(bounds_are_as_stated)};
    return cmocka_run_group_tests_name("verify", tests, NULL, NULL);
}
