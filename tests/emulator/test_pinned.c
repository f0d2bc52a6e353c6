// Pinned memory of the emulated CUDA device: it is kept from step to step, and where the driver refuses it a trial
// ends with a record that says so, with nothing left pinned.
#define _GNU_SOURCE // asprintf
#include "kernels/device/ops.h"
#include "tests/asked.h"
#include "tests/emulator/plugin.h"

static size_t (*pins)(void), (*pinned_bytes)(void);

static struct device *opened(void)
{
    struct status status = {0};
    struct device *device = device_open("cuda", DTYPE_F32, 0, &status);
    assert_non_null(device);
    assert_true(device->host.limit_bytes > 0);
    return device;
}

static void pinned_memory_is_kept(void **state)
{
    (void)state;
    struct device *device = opened();
    size_t before = pins();
    for (size_t step = 0; step < 3; step++) {
        struct tensor a = tensor_new_in(device, PLACE_HOST, 10, 100, DTYPE_F32, CATEGORY_HIDDEN_CHECKPOINTS);
        struct tensor b = tensor_new_in(device, PLACE_HOST, 10, 200, DTYPE_F32, CATEGORY_HIDDEN_CHECKPOINTS);
        assert_int_equal(device->host.live_bytes, 4096 + 8192);
        tensor_free(device, &a);
        tensor_free(device, &b);
    }
    assert_int_equal(pins() - before, 2);
    assert_int_equal(pinned_bytes(), 4096 + 8192);
    device_close(device);
    assert_int_equal(pinned_bytes(), 0);
}

// The pool returns its memory before the driver refuses; then the reason names the key.
static void pinned_memory_may_be_refused(void **state)
{
    (void)state;
    struct device *device = opened();
    setenv("EMULATED_PINNED_BYTES", "10000", 1);
    struct tensor a = tensor_new_in(device, PLACE_HOST, 1, 1024, DTYPE_F32, CATEGORY_KV_CACHE);
    tensor_free(device, &a);
    a = tensor_new_in(device, PLACE_HOST, 1, 2048, DTYPE_F32, CATEGORY_KV_CACHE);
    assert_int_equal(device->status.code, STATUS_OK);
    struct tensor b = tensor_new_in(device, PLACE_HOST, 1, 1024, DTYPE_F32, CATEGORY_KV_CACHE);
    assert_null(b.data);
    assert_int_equal(device->status.code, STATUS_OOM);
    assert_non_null(strstr(device->status.message, "refused 4096 bytes of pinned host memory: out of memory"));
    assert_non_null(strstr(device->status.message, "it has given this process 8192, and limits.host_memory"));
    unsetenv("EMULATED_PINNED_BYTES");
    tensor_free(device, &a);
    device_close(device);
}

// Keys and options that offload tensors to the host, of methods and of training.
static const char *const kept[] = {
    "'method': {'name': 'checkpoint', 'offload': ['inputs']}",
    "'method': {'name': 'streambp', 'chunk': 16, 'offload': ['inputs', 'input_gradients']}",
    "'method': {'name': 'seco', 'chunk': 16, 'segments': 2, 'offload': ['kv']}",
    "'method': {'name': 'full', 'offload': ['weights', 'gradients', 'optimizer']}, 'optimizer': 'adamw'",
};

// The record of a trial of these bytes of pinned memory.
static json_t *measured(const char *what, const char *device, size_t bytes)
{
    char *json, limit[32];
    snprintf(limit, sizeof limit, "%zu", bytes);
    setenv("EMULATED_PINNED_BYTES", limit, 1);
    assert_true(asprintf(&json,
                         "{'model': 'tiny', 'context': 60, 'device': '%s', 'dtype': 'f32', 'data': 'random', "
                         "'measure': {'warmup': 0, 'samples': 1, 'gradient': 'none'}, %s}",
                         device, what) > 0);
    struct trial trial = trial_of(json);
    char *line = trial_run(&trial, -1);
    json_t *record = json_loads(line, 0, NULL);
    assert_non_null(record);
    free(line);
    trial_free(&trial);
    free(json);
    unsetenv("EMULATED_PINNED_BYTES");
    return record;
}

static const char *status_of(const json_t *record)
{
    return json_string_value(json_object_get(record, "status"));
}

// Wherever in a trial the driver refuses, it is a record, and all that was pinned is free; of as much as the plan
// says the trial is measured.
static void a_refusal_is_a_record(void **state)
{
    (void)state;
    enum { PARTS = 6 };
    for (size_t i = 0; i < COUNT(kept); i++) {
        json_t *plan = measured(kept[i], "plan-cuda", SIZE_MAX);
        size_t bytes = (size_t)number(plan, "host_peak_bytes");
        for (size_t part = 0; part <= PARTS; part++) {
            size_t given = part < PARTS ? part * bytes / PARTS : bytes;
            json_t *record = measured(kept[i], "cuda", given);
            const char *reason = json_string_value(json_object_get(record, "reason"));
            bool enough = part == PARTS;
            if (strcmp(status_of(record), enough ? "ok" : "oom") != 0 ||
                (!enough && (!strstr(reason, "pinned host memory") || !strstr(reason, "limits.host_memory"))))
                fail_msg("%s, %zu of %zu bytes: %s: %s", kept[i], given, bytes, status_of(record), reason);
            assert_int_equal(pinned_bytes(), 0);
            json_decref(record);
        }
        json_decref(plan);
    }
}

// A command says it and fails.
static void a_refusal_is_said(void **state)
{
    (void)state;
    char *out;
    setenv("EMULATED_PINNED_BYTES", "4096", 1);
    assert_int_equal(longbp(&out,
                            "grad --model tiny --context 60 --device cuda --method checkpoint --offload inputs "
                            "--out /dev/null"),
                     1);
    assert_non_null(strstr(out, "bytes of pinned host memory: out of memory"));
    assert_non_null(strstr(out, "limits.host_memory must not be above what it gives"));
    unsetenv("EMULATED_PINNED_BYTES");
    free(out);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    pins = (size_t(*)(void))emulated("emulator_pins");
    pinned_bytes = (size_t(*)(void))emulated("emulator_pinned_bytes");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pinned_memory_is_kept),
        cmocka_unit_test(pinned_memory_may_be_refused),
        cmocka_unit_test(a_refusal_is_a_record),
        cmocka_unit_test(a_refusal_is_said),
    };
    return cmocka_run_group_tests_name("pinned memory of the emulated device", tests, NULL, NULL);
}
