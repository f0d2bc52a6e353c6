// Tests of refused memory, of the device and of the host: with every allocation of a step refused in turn, the
// first to the last, the step is out of memory and releases all its memory. Every method, also with offload, on
// every device that is named, "cpu" if none is.
#include "tests/fixture.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char *const *devices;

// Which call is refused, and how many there have been; what the device itself gave and has back.
static struct {
    size_t refused, calls, given, back;
    size_t own[PLACE_COUNT]; // bytes of the device itself, from when it is opened until it is closed
    struct arena_source real[PLACE_COUNT];
} memory;

static void *allocate(struct arena *arena, size_t bytes, struct status *status)
{
    if (memory.calls++ == memory.refused)
        return NULL;
    void *pointer = memory.real[arena->place].allocate(arena, bytes, status);
    memory.given += pointer != NULL;
    return pointer;
}

static void release(struct arena *arena, void *pointer, size_t bytes)
{
    memory.back += pointer != NULL;
    memory.real[arena->place].release(arena, pointer, bytes);
}

static struct device *opened(const char *name, size_t refused)
{
    struct status status = {0};
    struct device *device = device_open(name, DTYPE_F32, 0, &status);
    if (!device)
        fail_msg("%s: %s", name, status.message);
    memory.refused = refused;
    memory.calls = memory.given = memory.back = 0;
    for (int place = 0; place < PLACE_COUNT; place++) {
        struct arena *arena = device_arena(device, (enum place)place);
        memory.real[place] = arena->source;
        memory.own[place] = arena->live_bytes;
        arena->source.allocate = allocate;
        arena->source.release = release;
    }
    return device;
}

struct setting {
    const char *options;
    enum place place;   // of weights, gradients and the optimizer's state
    size_t lora_rank;   // 0: every weight trains
    const char *method; // NULL: every one
};

// One step of a new model with that call refused. Whether any was; its end in *code.
static bool take_step(const char *device, const struct method *method, const struct setting *setting,
                      size_t refused, enum status_code *code)
{
    struct fixture f = fixture_default();
    struct step_report report = {0};
    const int32_t ids[] = {3, 1, 4, 1, 5};
    f.config.layers = 2;
    f.lora.rank = setting->lora_rank;
    f.weights_place = f.gradients_place = f.optimizer_place = setting->place;
    f.dtype = DTYPE_F32;
    struct trainer_options options = fixture_trainer_options(&f);
    void *method_options = fixture_options(method, "chunk=3 %s", setting->options);
    f.device = opened(device, refused);
    trainer_open(&f.trainer, &f.model, &f.config, &options, f.device);
    batch_open(&f.batch, f.device, ids, NULL, sizeof ids / sizeof *ids, 1);
    if (f.device->status.code == STATUS_OK) {
        random_weights_set(&f.model, f.seed, DTYPE_F32);
        fixture_take_step(&f.trainer, method, &f.batch, method_options, 0, &report);
    }
    *code = f.device->status.code;
    batch_close(&f.batch, f.device);
    trainer_close(&f.trainer);
    for (int place = 0; place < PLACE_COUNT; place++)
        assert_int_equal(device_arena(f.device, (enum place)place)->live_bytes, memory.own[place]);
    assert_int_equal(memory.given, memory.back);
    device_close(f.device);
    step_report_free(&report);
    options_free(&method->options, method_options);
    return memory.calls > refused;
}

// Every call of a setting; how many there are.
static size_t refuse_each(const char *device, const struct method *method, const struct setting *setting)
{
    enum status_code code;
    size_t call = 0;
    for (; take_step(device, method, setting, call, &code); call++)
        if (code != STATUS_OOM)
            fail_msg("%s %s %s: call %zu was refused, and the step ended with %d", device, method->name,
                     setting->options, call, (int)code);
    if (code != STATUS_OK)
        fail_msg("%s %s %s: %d without a refusal", device, method->name, setting->options, (int)code);
    return call;
}

static void a_refused_allocation_is_out_of_memory(void **state)
{
    (void)state;
    static const struct setting settings[] = {
        {"", PLACE_DEVICE, 0, NULL},
        {"", PLACE_HOST, 2, "full"},
        {"offload=inputs", PLACE_DEVICE, 0, "checkpoint"},
        {"offload=kv segments=2", PLACE_DEVICE, 0, "seco"},
        {"offload=inputs,input_gradients segment_starts=0,1", PLACE_DEVICE, 0, "streambp"},
    };
    for (size_t d = 0; devices[d]; d++) {
        for (size_t m = 0; methods[m]; m++) {
            size_t calls = 0;
            for (size_t s = 0; s < sizeof settings / sizeof *settings; s++)
                if (!settings[s].method || method_find(settings[s].method) == methods[m])
                    calls += refuse_each(devices[d], methods[m], &settings[s]);
            printf("%s %s: each of %zu allocations was refused\n", devices[d], methods[m]->name, calls);
            assert_true(calls > 10);
        }
    }
}

// usage: test_refused [DEVICE...]
int main(int argc, char **argv)
{
    static const char *const cpu[] = {"cpu", NULL};
    devices = argc > 1 ? (const char *const *)argv + 1 : cpu;
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_refused_allocation_is_out_of_memory)};
    return cmocka_run_group_tests_name("refused", tests, NULL, NULL);
}
