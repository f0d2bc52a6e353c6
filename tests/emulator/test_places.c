// The emulated CUDA device's second place: copies in streams of their own, each of which may be late.
#include "kernels/device/ops.h"
#include "kernels/device/queue.h"
#include "kernels/model/unit.h"
#include "kernels/trainer/trainer.h"
#include "tests/chosen_tests.h"
#include "tests/emulator/plugin.h"
#include "tests/fixture.h"
#include <omp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static size_t (*waits)(void);
static void (*eager)(unsigned streams);

static struct device *opened(void)
{
    struct status status = {0};
    struct device *device = device_open("cuda", DTYPE_F32, 0, &status);
    assert_non_null(device);
    assert_true(device->host.limit_bytes > 0);
    return device;
}

static struct {
    const struct device_ops *real;
    struct device_ops ops;
    enum queue of, for_; // the queue that does not wait, and for which
} dropped;

static void wait_but_for(struct device *device, enum queue queue, struct event event)
{
    if (queue != dropped.of || event.queue != dropped.for_)
        dropped.real->wait(device, queue, event);
}

// x, written by an operation, goes out, and comes in to where y was, which an operation has read; the number found
// there, scaled, and that of y. So many events are recorded between the one of the copy out and the wait for it.
static bool comes_back(struct device *device, size_t between)
{
    double sent = 5, old = 7, read_x = 0, read_y = 0;
    struct tensor x = tensor_new(device, 1, 1, DTYPE_F32, CATEGORY_DATA);
    struct tensor y = tensor_new(device, 1, 1, DTYPE_F32, CATEGORY_DATA);
    struct tensor z = tensor_new(device, 1, 1, DTYPE_F32, CATEGORY_DATA);
    struct tensor host = tensor_new_in(device, PLACE_HOST, 1, 1, DTYPE_F32, CATEGORY_DATA);
    tensor_write(device, x, &sent);
    tensor_write(device, y, &old);
    op_scale(device, x, 2);
    event_wait(device, QUEUE_OUT, event_record(device, QUEUE_COMPUTE));
    copy_out(device, host, x);
    struct event out = event_record(device, QUEUE_OUT);
    for (size_t i = 0; i < between; i++)
        event_record(device, QUEUE_OUT);
    event_wait(device, QUEUE_COMPUTE, out);
    op_zero(device, x);
    op_copy(device, z, y);
    event_wait(device, QUEUE_IN, out);
    event_wait(device, QUEUE_IN, event_record(device, QUEUE_COMPUTE));
    copy_in(device, y, host);
    event_wait(device, QUEUE_COMPUTE, event_record(device, QUEUE_IN));
    op_scale(device, y, 2);
    tensor_read(device, y, &read_x);
    tensor_read(device, z, &read_y);
    assert_int_equal(device->status.code, STATUS_OK);
    device->ops->synchronize(device);
    tensor_free(device, &x);
    tensor_free(device, &y);
    tensor_free(device, &z);
    tensor_free(device, &host);
    return read_x == 20 && read_y == 7;
}

#define CONTEXT 9

// Offloaded tensors, by method. Only inputs have no other reader than their copy out; the last keys and values
// that are copied out are not read again, which tests/test_offload.c finds.
static const struct setting {
    const char *method, *options;
    enum queue not_of, not_for; // the wait that changes no gradient
} settings[] = {{"checkpoint", "offload=inputs", QUEUE_IN, QUEUE_OUT},
                {"streambp", "chunk=4 segment_starts=0,1,3 offload=inputs,input_gradients", 0, 0},
                {"seco", "chunk=4 segments=2 offload=kv", QUEUE_COMPUTE, QUEUE_OUT}};
#define SETTINGS (sizeof settings / sizeof *settings)

// A device and a model on it, as the emulated one needs them.
static void open_trained(struct fixture *f, const char *name, enum dtype dtype, unsigned places,
                         const struct optimizer *optimizer, const char *given)
{
    struct status status = {0};
    enum dtype sums = dtype_accumulator(dtype);
    *f = fixture_default();
    fixture_set_optimizer(f, optimizer, "rate=0.01 %s", given);
    struct trainer_options options = {.kv_gradient_dtype = sums,
                                      .gradient_dtype = sums,
                                      .optimizer = f->optimizer,
                                      .optimizer_options = f->optimizer_options,
                                      .weights_place = places & 1 ? PLACE_HOST : PLACE_DEVICE,
                                      .gradients_place = places & 2 ? PLACE_HOST : PLACE_DEVICE,
                                      .optimizer_place = places & 4 ? PLACE_HOST : PLACE_DEVICE};
    int32_t ids[CONTEXT] = {3, 1, 4, 1, 5, 9, 2, 6, 5};
    f->config.layers = 4;
    f->config.kinds[0].head_dim = 8;
    f->dtype = f->rounding = dtype;
    f->device = device_open(name, dtype, 0, &status);
    assert_non_null(f->device);
    f->device->deterministic = true;
    trainer_open(&f->trainer, &f->model, &f->config, &options, f->device);
    random_weights_set(&f->model, f->seed, f->rounding);
    batch_open(&f->batch, f->device, ids, NULL, CONTEXT, 1);
    f->gradient_count = 0;
    for (size_t i = 0; i < f->model.parameter_count; i++)
        f->gradient_count += tensor_count(f->model.parameters[i].grad);
}

static void open_model(struct fixture *f, const char *name, enum dtype dtype, unsigned places)
{
    open_trained(f, name, dtype, places, optimizers[0], "");
}

static void close_model(struct fixture *f)
{
    batch_close(&f->batch, f->device);
    trainer_close(&f->trainer);
    device_close(f->device);
    fixture_set_optimizer(f, NULL, "%s", "");
}

static void take_step(struct fixture *f, const struct setting *setting, bool offloads)
{
    const struct method *method = method_find(setting->method);
    void *options = fixture_options(method, "%s", setting->options);
    struct step_report report = {0};
    if (!offloads)
        assert_true(options_set(&method->options, options, "offload", "none"));
    trainer_zero(&f->trainer);
    f->device->counters = (struct counters){0};
    arena_reset_peak(&f->device->arena);
    arena_reset_peak(&f->device->host);
    method_step(method, &f->model, &f->batch, options, &report);
    options_free(&method->options, options);
    assert_int_equal(f->device->status.code, STATUS_OK);
    step_report_free(&report);
}

// Under the sanitizers with all waits alone: without one a step reads and writes what it should not.
#ifdef __SANITIZE_ADDRESS__
enum { WAITS_ONLY = 1 };
#else
enum { WAITS_ONLY = 0 };
#endif

static const struct {
    enum queue of, for_;
} needed[] = {{0, 0},
              {QUEUE_OUT, QUEUE_COMPUTE},
              {QUEUE_COMPUTE, QUEUE_OUT},
              {QUEUE_IN, QUEUE_COMPUTE},
              {QUEUE_COMPUTE, QUEUE_IN},
              {QUEUE_IN, QUEUE_OUT}};

// Whether the gradients are those of a step that keeps all on the device, in all 8 orders.
static bool is_right(struct fixture *f, const struct setting *setting, const double *kept)
{
    bool right = true;
    for (unsigned early = 0; right && early < 1u << QUEUE_COUNT; early++) {
        eager(early);
        size_t before = waits();
        take_step(f, setting, true);
        assert_true(waits() - before <= 2); // for the time, unless it is there, and for the loss
        double *offloaded = fixture_gradients(f);
        right = memcmp(offloaded, kept, f->gradient_count * sizeof *kept) == 0;
        free(offloaded);
        f->device->ops->synchronize(f->device);
    }
    eager(0);
    return right;
}

// In a process of its own: a copy into memory that is another's may end it.
static bool is_right_alone(struct fixture *f, const struct setting *setting, const double *kept)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        fclose(stderr);
        _exit(is_right(f, setting, kept) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void check_setting(const struct setting *setting, enum dtype dtype)
{
    struct fixture f, planned;
    open_model(&f, "cuda", dtype, 0);
    take_step(&f, setting, false);
    double *kept = fixture_gradients(&f);
    dropped.real = f.device->ops;
    dropped.ops = *f.device->ops;
    dropped.ops.wait = wait_but_for;
    f.device->ops = &dropped.ops;
    for (size_t i = 0; i < (WAITS_ONLY ? 1 : sizeof needed / sizeof *needed); i++) {
        dropped.of = needed[i].of, dropped.for_ = needed[i].for_;
        bool needless = dropped.of == setting->not_of && dropped.for_ == setting->not_for;
        if ((i == 0 || !needless) && is_right_alone(&f, setting, kept) != (i == 0)) {
            fail_msg("%s %s: without the wait of queue %d for queue %d", setting->method, setting->options,
                     needed[i].of, needed[i].for_);
        }
    }
    f.device->ops = dropped.real;
    take_step(&f, setting, true);
    open_model(&planned, "plan-cuda", dtype, 0);
    planned.device->multiprocessors = f.device->multiprocessors;
    planned.device->compute_capability = f.device->compute_capability;
    take_step(&planned, setting, true);
    assert_int_equal(f.device->arena.peak_bytes, planned.device->arena.peak_bytes);
    assert_int_equal(f.device->host.peak_bytes, planned.device->host.peak_bytes);
    assert_int_equal(f.device->host.live_bytes, 0);
    assert_memory_equal(&f.device->counters, &planned.device->counters, sizeof f.device->counters);
    close_model(&planned);
    close_model(&f);
    free(kept);
}

// A step that offloads has the bits of one that does not, whichever queues are late; without one of its waits it
// has not. It waits for its end alone, and takes what is planned in both places.
static void an_offloaded_step_needs_each_wait(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++)
        check_setting(&settings[i], i % 2 ? DTYPE_BF16 : DTYPE_F32);
}

// Weights after two updates and gradients of two batches, from the seed on.
static double *trained(struct fixture *f, unsigned places)
{
    const struct method *checkpoint = method_find("checkpoint");
    void *options = options_new(&checkpoint->options);
    struct step_report report = {0};
    const struct device_ops *ops;
    open_model(f, "cuda", DTYPE_F32, places);
    ops = f->device->ops;
    dropped.real = ops;
    dropped.ops = *ops;
    dropped.ops.wait = wait_but_for;
    f->device->ops = &dropped.ops;
    for (size_t t = 1; t <= 2; t++) {
        trainer_begin(&f->trainer, t, 1);
        trainer_zero(&f->trainer);
        method_step(checkpoint, &f->model, &f->batch, options, &report);
        method_step(checkpoint, &f->model, &f->batch, options, &report);
        trainer_update(&f->trainer);
    }
    f->device->ops = ops;
    f->device->ops->synchronize(f->device);
    options_free(&checkpoint->options, options);
    step_report_free(&report);
    double *found = malloc(2 * f->gradient_count * sizeof *found), *next = found;
    assert_non_null(found);
    for (size_t unit = 0; unit < unit_count(&f->model); unit++) {
        struct parameters parameters = unit_parameters(&f->model, unit);
        unit_acquire(&f->model, unit);
        for (size_t i = 0; i < parameters.count; i++) {
            tensor_read(f->device, parameters.items[i].value, next);
            next += tensor_count(parameters.items[i].value);
            tensor_read(f->device, parameters.items[i].grad, next);
            next += tensor_count(parameters.items[i].grad);
        }
        unit_release(&f->model, unit);
    }
    assert_int_equal(f->device->status.code, STATUS_OK);
    return found;
}

// In a process of its own: the emulator ends it where a copy that was not waited for writes over what is there now.
static bool trained_right(unsigned places, const double *expected)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct fixture f;
        signal(SIGABRT, SIG_DFL);
        fclose(stderr);
        omp_set_num_threads(1); // there are no others after a fork
        double *found = trained(&f, places);
        _exit(memcmp(found, expected, 2 * f.gradient_count * sizeof *found) != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Weights, gradients and state that are kept on the host; without a wait each of them alone. That operations wait
// for copies is tested on the CPU, where they are done at once (tests/test_training.c, tests/test_weights.c).
static void copies_of_what_is_trained_wait(void **state)
{
    (void)state;
    static const struct {
        unsigned places;
        enum queue of, for_;
    } cases[] = {{7, 0, 0},
                 {1, QUEUE_OUT, QUEUE_COMPUTE},
                 {1, QUEUE_IN, QUEUE_COMPUTE},
                 {2, QUEUE_OUT, QUEUE_COMPUTE},
                 {2, QUEUE_IN, QUEUE_COMPUTE},
                 {4, QUEUE_OUT, QUEUE_COMPUTE},
                 {4, QUEUE_IN, QUEUE_COMPUTE}};
    struct fixture f;
    dropped.of = dropped.for_ = 0;
    double *expected = trained(&f, 0);
    close_model(&f);
    for (size_t i = 0; i < (WAITS_ONLY ? 1 : sizeof cases / sizeof *cases); i++) {
        bool right = true;
        dropped.of = cases[i].of, dropped.for_ = cases[i].for_;
        for (unsigned early = 0; right && early < 1u << QUEUE_COUNT; early++) {
            eager(early);
            right = trained_right(cases[i].places, expected);
        }
        eager(0);
        if (right != (i == 0)) {
            fail_msg("places %u: without the wait of queue %d for queue %d it is %s", cases[i].places, cases[i].of,
                     cases[i].for_, right ? "right" : "wrong");
        }
    }
    free(expected);
}

// Weights in f64 after three updates; to be freed.
static double *updated(const char *device, const struct optimizer *optimizer, const char *given, size_t *count)
{
    struct fixture f;
    const struct method *method = method_find("streambp");
    void *options = fixture_options(method, "chunk=4");
    struct step_report report = {0};
    double *all = NULL;
    *count = 0;
    open_trained(&f, device, DTYPE_F64, 0, optimizer, given);
    for (size_t t = 1; t <= 3; t++) {
        trainer_begin(&f.trainer, t, 1);
        trainer_zero(&f.trainer);
        method_step(method, &f.model, &f.batch, options, &report);
        trainer_update(&f.trainer);
    }
    for (size_t i = 0; i < f.model.parameter_count; i++) {
        struct tensor w = f.model.parameters[i].value;
        all = realloc(all, (*count + tensor_count(w)) * sizeof *all);
        assert_non_null(all);
        tensor_read(f.device, w, all + *count);
        *count += tensor_count(w);
    }
    assert_int_equal(f.device->status.code, STATUS_OK);
    options_free(&method->options, options);
    step_report_free(&report);
    close_model(&f);
    return all;
}

// Every optimizer moves weights as on the CPU, whichever queues are early: also those of which the host computes a
// part.
static void updates_are_those_of_the_cpu(void **state)
{
    (void)state;
    static const char *const given[] = {"rank=3 interval=2 history=2", "rank=3 interval=2 history=2 sums=projected",
                                        "rank=3 interval=1 when=backward"};
    for (const struct optimizer *const *o = optimizers; *o; o++) {
        for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
            if (!is_chosen((size_t)(o - optimizers) + i, 2))
                continue;
            size_t count, same;
            double *expected = updated("cpu", *o, given[i], &count);
            for (unsigned early = 0; early < 1u << QUEUE_COUNT; early += 7) {
                eager(early);
                double *found = updated("cuda", *o, given[i], &same);
                assert_int_equal(same, count);
                if (!(relative_l2(found, expected, count) < 1e-11))
                    fail_msg("%s %s: off by %.1e", (*o)->name, given[i], relative_l2(found, expected, count));
                free(found);
            }
            eager(0);
            free(expected);
        }
    }
}

// With all waits the numbers are right whichever queues are early and which late; without one of them they are
// wrong for some.
static void each_queue_may_be_late(void **state)
{
    (void)state;
    static const struct {
        enum queue of, for_;
    } waits[] = {{0, 0},
                 {QUEUE_OUT, QUEUE_COMPUTE},
                 {QUEUE_COMPUTE, QUEUE_OUT},
                 {QUEUE_IN, QUEUE_COMPUTE},
                 {QUEUE_COMPUTE, QUEUE_IN}};
    struct device *device = opened();
    dropped.real = device->ops;
    dropped.ops = *device->ops;
    dropped.ops.wait = wait_but_for;
    device->ops = &dropped.ops;
    const size_t waits_count = sizeof waits / sizeof *waits;
    for (size_t n = 0; n < 2 * waits_count; n++) {
        size_t i = n % waits_count, right = 0, between = n < waits_count ? 0 : 700; // more than are told apart
        dropped.of = waits[i].of, dropped.for_ = waits[i].for_;
        for (unsigned early = 0; early < 1u << QUEUE_COUNT; early++) {
            eager(early);
            right += comes_back(device, between);
        }
        if (i == 0 ? right != 1u << QUEUE_COUNT : right == 1u << QUEUE_COUNT) {
            fail_msg("without the wait of queue %d for queue %d %zu of 8 orders are right", waits[i].of,
                     waits[i].for_, right);
        }
    }
    eager(0);
    device->ops = dropped.real;
    device_close(device);
}

int main(void)
{
    eager = (void (*)(unsigned))emulated("emulator_eager");
    waits = (size_t(*)(void))emulated("emulator_waits");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_queue_may_be_late),
        cmocka_unit_test(an_offloaded_step_needs_each_wait),
        cmocka_unit_test(copies_of_what_is_trained_wait),
        cmocka_unit_test(updates_are_those_of_the_cpu),
    };
    return cmocka_run_group_tests_name("places of the emulated device", tests, NULL, NULL);
}
