// Tests of harness/gradients: every gradient is in the file, under its name, in its dtype and shape, to the last
// bit.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/tensors/gradients.h"
#include "harness/tensors/safetensors.h"
#include "kernels/trainer/random_weights.h"
#include "kernels/trainer/trainer.h"
#include "tests/scratch.h"
#include "tests/small_config.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

// Each gradient is filled with the random values of its name, so that no two are alike.
static void fill(struct model *model, enum dtype dtype)
{
    for (size_t i = 0; i < model->parameter_count; i++) {
        struct parameter *p = &model->parameters[i];
        if (p->grad.data) {
            double *values = malloc(tensor_count(p->grad) * sizeof *values);
            random_weights_values(p, 9, dtype, 0, tensor_count(p->grad), values);
            tensor_write(model->device, p->grad, values);
            free(values);
        }
    }
}

static void check_file(const char *path, const struct model *model, enum dtype dtype, size_t expected)
{
    struct status status = {0};
    struct safetensors file;
    assert_true(safetensors_open(&file, path, &status));
    assert_int_equal(file.count, expected);
    for (size_t i = 0; i < file.count; i++) {
        const struct safetensors_tensor *t = &file.tensors[i];
        const struct parameter *p = model_parameter(model, t->name);
        assert_non_null(p);
        assert_int_equal(t->dtype, dtype);
        assert_int_equal(t->rank, p->vector ? 1 : 2);
        assert_int_equal(t->shape[0], p->vector ? p->grad.cols : p->grad.rows);
        assert_int_equal(t->count, tensor_count(p->grad));
        double *found = malloc(t->count * sizeof *found), *values = malloc(t->count * sizeof *values);
        safetensors_values(t, 0, t->count, found);
        random_weights_values(p, 9, dtype, 0, tensor_count(p->grad), values);
        assert_memory_equal(found, values, t->count * sizeof *found);
        free(found);
        free(values);
    }
    safetensors_close(&file);
}

static void check(struct scratch *scratch, struct lora lora, size_t expected, enum dtype dtype)
{
    struct status status = {0};
    struct trainer_options options = {.lora = lora, .kv_gradient_dtype = dtype, .gradient_dtype = dtype};
    struct device *device = device_open("cpu", DTYPE_F64, 0, &status);
    assert_non_null(device);
    struct model model;
    struct trainer trainer;
    struct config config = small;
    config.vocab = 40000; // more than one block, the last shorter
    trainer_open(&trainer, &model, &config, &options, device);
    fill(&model, dtype);
    struct scratch_path path = scratch_path(scratch, "g.safetensors");
    if (!gradients_write(path.text, &model, NULL, &status))
        fail_msg("%s", status.message);
    check_file(path.text, &model, dtype, expected);

    assert_false(gradients_write(scratch_path(scratch, "none/g").text, &model, NULL, &status));
    assert_int_equal(status.code, STATUS_IO);
    // A step that failed has no gradients.
    unlink(path.text);
    status = (struct status){0};
    status_set(&device->status, STATUS_OOM, "full");
    assert_false(gradients_write(path.text, &model, NULL, &status));
    assert_int_equal(status.code, STATUS_OOM);
    assert_int_equal(scratch_entries(scratch), 0);
    trainer_close(&trainer);
    device_close(device);
}

static void all_are_written_when_all_train(void **state)
{
    check(*state, (struct lora){0}, 3 + 2 * 9, DTYPE_F64);
    check(*state, (struct lora){0}, 3 + 2 * 9, DTYPE_F32);
}

static void lora_factors_alone_are_written(void **state)
{
    check(*state, (struct lora){.rank = 1, .alpha = 1, .targets = LORA_Q | LORA_UP}, 2 * 2 * 2, DTYPE_F64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_are_written_when_all_train, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(lora_factors_alone_are_written, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
