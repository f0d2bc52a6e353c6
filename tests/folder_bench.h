// Folder bench: a small model beside the folder that its weights come from.
#pragma once
#include "harness/folder/folder.h"
#include "harness/tensors/safetensors.h"
#include "kernels/trainer/random_weights.h"
#include "kernels/trainer/trainer.h"
#include "tests/scratch.h"
#include "tests/small_config.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

// A model on the CPU in f64, beside the folder it comes from.
struct bench {
    struct scratch scratch;
    struct config config;
    struct device *device;
    struct model model;
    struct trainer trainer;
};

static inline void bench_open(struct bench *bench, struct scratch *scratch, struct config config, struct lora lora,
                              enum dtype dtype)
{
    struct status status = {0};
    struct trainer_options options = {.lora = lora, .kv_gradient_dtype = DTYPE_F64, .gradient_dtype = DTYPE_F64};
    bench->scratch = scratch_within(scratch->folder);
    bench->config = config;
    bench->device = device_open("cpu", DTYPE_F64, 0, &status);
    if (!bench->device || !folder_write(bench->scratch.folder, &config, 5, dtype, NULL, &status))
        fail_msg("%s", status.message);
    trainer_open(&bench->trainer, &bench->model, &config, &options, bench->device);
}

static inline void bench_close(struct bench *bench)
{
    trainer_close(&bench->trainer);
    device_close(bench->device);
}

static inline struct scratch_path bench_path(const struct bench *bench, const char *name)
{
    return scratch_path(&bench->scratch, name);
}

static inline void bench_file(const struct bench *bench, const char *name, const char *text)
{
    scratch_file(&bench->scratch, name, text, strlen(text));
}

static inline void read_weights(struct bench *bench, enum dtype rounding)
{
    struct status status = {0};
    for (size_t i = 0; i < bench->model.parameter_count; i++) {
        double *poison = malloc(tensor_count(bench->model.parameters[i].value) * sizeof *poison);
        for (size_t j = 0; j < tensor_count(bench->model.parameters[i].value); j++)
            poison[j] = 1e30;
        tensor_write(bench->device, bench->model.parameters[i].value, poison);
        free(poison);
    }
    if (!folder_read_weights(bench->scratch.folder, &bench->model, 0, rounding, &status))
        fail_msg("%s", status.message);
}

static inline void expect_unread(struct bench *bench, const char *reason)
{
    struct status status = {0};
    bool ok = folder_read_weights(bench->scratch.folder, &bench->model, 0, DTYPE_F64, &status);
    if (ok || status.code == STATUS_OK || !strstr(status.message, reason))
        fail_msg("expected \"%s\", got %s: %s", reason, status_name(status.code), status.message);
}

// The parameter holds what the seed and its name give, rounded to `first` by the file and to `then` by the reader.
static inline void expect_random(struct bench *bench, const struct parameter *p, uint64_t seed, enum dtype first,
                                 enum dtype then)
{
    size_t count = tensor_count(p->value);
    double *found = malloc(count * sizeof *found), *expected = malloc(count * sizeof *expected);
    tensor_read(bench->device, p->value, found);
    random_weights_values(p, seed, first, 0, count / 3, expected); // in parts as at once
    random_weights_values(p, seed, first, count / 3, count - count / 3, expected + count / 3);
    for (size_t i = 0; i < count; i++)
        if (found[i] != dtype_round(expected[i], then))
            fail_msg("%s[%zu]: expected %.17g, found %.17g", p->name, i, dtype_round(expected[i], then), found[i]);
    free(found);
    free(expected);
}
