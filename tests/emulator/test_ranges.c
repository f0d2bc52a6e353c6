// The ranges that a profiler sees of a step (NVTX), by a tool of the test's own; without a tool, none are made.
#include "kernels/measure/breakdown.h"
#include "tests/fixture.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static size_t count(const char *text, const char *line)
{
    size_t found = 0;
    for (const char *at = text; (at = strstr(at, line)); at += strlen(line))
        found++;
    return found;
}

static void test_ranges_of_a_step(void **state)
{
    (void)state;
    struct status status = {0};
    struct fixture f = fixture_default();
    f.config.kinds[0].head_dim = 8;
    f.dtype = f.rounding = DTYPE_BF16;
    f.context = 64;
    f.device = device_open("cuda", f.dtype, 0, &status);
    assert_non_null(f.device);
    const char *path = getenv("NVTX_INJECTION64_PATH");
    if (!path) {
        assert_null(f.device->observers);
        device_close(f.device);
        return;
    }
    void *tool = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    char *(*take)(int *) = tool ? (char *(*)(int *))dlsym(tool, "ranges_take") : NULL;
    CHECK(take); // it was loaded when the device was opened
    struct trainer_options options = {.kv_gradient_dtype = DTYPE_F32, .gradient_dtype = DTYPE_F32};
    const struct method *seco = method_find("seco");
    void *how = fixture_options(seco, "chunk=32");
    struct step_report report = {0};
    struct breakdown breakdown;
    int32_t ids[64] = {3, 1, 4, 1, 5, 9, 2, 6};
    int open;
    trainer_open(&f.trainer, &f.model, &f.config, &options, f.device);
    random_weights_set(&f.model, f.seed, f.rounding);
    batch_open(&f.batch, f.device, ids, NULL, f.context, 1);
    trainer_zero(&f.trainer);
    free(take(&open));
    f.device->counters = (struct counters){0};
    breakdown_start(&breakdown, f.device); // both may look on
    method_step(seco, &f.model, &f.batch, how, &report);
    options_free(&seco->options, how);
    breakdown_stop(&breakdown, f.device);
    char *ranges = take(&open);
    assert_int_equal(open, 0);
    assert_int_equal(count(ranges, "0 seco\n"), 1);
    assert_int_equal(count(ranges, "1 timed\n"), 1);
    // Two columns of three layers; the first column's first pass stops after the last layer's keys and values.
    assert_int_equal(count(ranges, "2 cell_forward, layer 0, token 0\n"), 2);
    assert_int_equal(count(ranges, "2 cell_forward, layer 2, token 0\n"), 1);
    assert_int_equal(count(ranges, "2 cell_forward, layer 2, token 32\n"), 1);
    assert_int_equal(count(ranges, "2 cell_backward_mlp, layer 1, token 32\n"), 1);
    assert_int_equal(count(ranges, "2 cell_backward_mixer, layer 1, token 0\n"), 1);
    assert_int_equal(count(ranges, "2 head_backward, token 32\n"), 1);
    // Attention's backward: two columns, three layers; within it glue, and within that the engines.
    assert_int_equal(count(ranges, "3 attention_backward\n4 attention_glue\n5 attention_backward\n"), 6);
    // An up-projection: [32, ffn] of [32, width].
    assert_true(count(ranges, "3 gemm 32 x 40 x 24\n") > 0);
    uint64_t operations = 0;
    for (const char *at = ranges; *at; at = strchr(at, '\n') + 1)
        operations += (*at == '2' || *at == '3') && !memchr(at, ',', strcspn(at, "\n")); // cells and head have one
    assert_int_equal(operations, f.device->counters.launches);                           // each operation once
    free(ranges);
    breakdown_free(&breakdown);
    batch_close(&f.batch, f.device);
    trainer_close(&f.trainer);
    device_close(f.device);
    free(take(&open));
    step_report_free(&report);
    dlclose(tool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranges_of_a_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
