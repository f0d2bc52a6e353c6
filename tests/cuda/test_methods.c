// Every method on a device: f64 and f32 against full backprop on the CPU in f64 (relative L2 1e-12 and
// 1e-5); bf16 against full in bf16 on the same device, within twice the noise floor, which is what full itself
// moves when its sums run in another order, the most of several seeds: another order changes few numbers in bf16,
// or none, and what they change grows on its way, so that one run's floor is one draw, and a method's error
// another; cuDNN moreover adds dQ by atomics, in an order that no two runs share. The deterministic mode twice, bit
// by bit; the peak as planned, byte by byte, in every category; and the counters. A loop over the array of methods:
// a new one is covered by existing. Usage: test_methods [DEVICE [PLAN [CONTEXT [DTYPE]]]]
#include "harness/machine/environment.h"
#include "kernels/measure/timer.h"
#include "tests/fixture.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

struct run {
    double *gradients, loss;
    size_t count;
    struct arena arena;
    struct counters counters;
    struct status status;
};

static size_t checks, failures;
static size_t multiprocessors, compute_capability; // of the card: what its plan must know

static void check(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void check(bool good, const char *format, ...)
{
    checks++;
    if (!good) {
        va_list arguments;
        va_start(arguments, format);
        fprintf(stderr, "FAIL ");
        vfprintf(stderr, format, arguments);
        fprintf(stderr, "\n");
        va_end(arguments);
        failures++;
    }
}

enum { FLOORS = 4, LOWER_BOUNDS_EMULATED = 2 }; // seeds that a floor in bf16 is the most of
enum mode { FORWARD, REVERSED, DETERMINISTIC, WHOLE_ATTENTION };

// A device that is emulated takes long, and is given small contexts.
static bool is_emulated(const struct fixture *f, const char *device)
{
    return f->context < 100 && strcmp(device, "cpu") != 0;
}

// One step of a fresh model, with random tokens, weights rounded to `rounding`.
static struct run step(const struct fixture *f, const char *device, enum dtype dtype, enum dtype rounding,
                       enum mode mode, const struct method *method, const void *options)
{
    struct run run = {0};
    struct device *d = device_open(device, dtype, 0, &run.status);
    if (!d)
        return run;
    if (d->ops->dataless) {
        d->multiprocessors = multiprocessors;
        d->compute_capability = compute_capability;
    }
    d->reverse_sums = mode == REVERSED;
    d->deterministic = mode == DETERMINISTIC;
    d->whole_attention = mode == WHOLE_ATTENTION;
    enum dtype sums = dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
    struct trainer_options model_options = {.lora = f->lora, .kv_gradient_dtype = sums, .gradient_dtype = sums};
    struct model model;
    struct trainer trainer;
    struct batch batch;
    size_t tokens = f->context * f->batch_size;
    int32_t *ids = malloc(tokens * sizeof *ids);
    struct step_report report = {0};
    struct fixture opened = *f;
    fixture_open_objective(&opened);
    CHECK(ids);
    struct random random = random_named(f->seed, "ids");
    for (size_t i = 0; i < tokens; i++)
        ids[i] = (int32_t)random_below(&random, i, f->config.vocab);
    trainer_open(&trainer, &model, &f->config, &model_options, d);
    random_weights_set(&model, f->seed, rounding);
    batch_open(&batch, d, ids, NULL, f->context, f->batch_size);
    fixture_set_documents(f, d, &batch, 0);
    fixture_set_objective(&opened, d, &batch, 0);
    d->counters = (struct counters){0};
    trainer_zero(&trainer);
    method_step(method, &model, &batch, options, &report);
    run.loss = report.sums.loss;
    run.arena = d->arena;
    run.counters = d->counters;
    run.status = d->status;
    for (size_t i = 0; i < model.parameter_count; i++)
        run.count += tensor_count(model.parameters[i].grad);
    run.gradients = calloc(run.count + 1, sizeof *run.gradients);
    CHECK(run.gradients);
    double *next = run.gradients;
    for (size_t i = 0; i < model.parameter_count; i++) {
        if (model.parameters[i].grad.data) {
            tensor_read(d, model.parameters[i].grad, next);
            next += tensor_count(model.parameters[i].grad);
        }
    }
    batch_close(&batch, d);
    trainer_close(&trainer);
    device_close(d);
    step_report_free(&report);
    fixture_close_objective(&opened);
    free(ids);
    return run;
}

// Three ways of running each method: a chunk that does not divide the context, one that does, one above it.
static size_t chunk_of(const struct fixture *f, int variant)
{
    return variant == 0 ? f->context / 3 + 1 : variant == 1 ? f->context / 4 : 5 * f->context;
}

// Deferred's first variant has one chunk of each fate.
static bool is_estimate(const struct method *method, int variant)
{
    return strcmp(method->name, "deferred") == 0 && variant == 0;
}

// With every chunk drawn or deferred: exact, but for that one.
static void *options_of(const struct fixture *f, const struct method *method, int variant)
{
    size_t chunk = chunk_of(f, variant), chunks = (f->context + chunk - 1) / chunk;
    return fixture_options(method, "chunk=%zu budget=%zu %s %s", chunk, chunks,
                           is_estimate(method, variant) ? "draw=fixed later_chunks=0" : "deferral=1",
                           variant == 1 ? "head_chunk=33 keep=all inner=checkpoint attention=kept"
                                        : "head_chunk=256");
}

static bool runs_here(const struct method *method)
{
    return method->exact || method->make_exact;
}

// The peak as planned, in every category, and the counters.
static void check_plan(const struct run *measured, const struct run *planned, const char *what)
{
    check(measured->arena.peak_bytes == planned->arena.peak_bytes &&
              memcmp(measured->arena.peak_by_category, planned->arena.peak_by_category,
                     sizeof planned->arena.peak_by_category) == 0,
          "%s: planned peak %zu bytes, measured %zu", what, planned->arena.peak_bytes, measured->arena.peak_bytes);
    check(memcmp(&measured->counters, &planned->counters, sizeof planned->counters) == 0,
          "%s: the plan counted other work", what);
}

// Whether a model runs a method in this way: on an emulated device in one way, and from one method, model and dtype
// to the next in another.
static bool runs_so(const struct fixture *f, const char *device, enum dtype dtype, size_t model, size_t method,
                    int variant, int variants)
{
    return !is_emulated(f, device) || (model + method + dtype) % (size_t)variants == (size_t)variant;
}

static void check_methods(const struct fixture *f, const char *device, const char *plan, enum dtype dtype,
                          size_t number, const char *what)
{
    if (is_emulated(f, device) && dtype != DTYPE_BF16 && (number + dtype) % 2)
        return; // f32 and f64 in turn
    const struct method *full = method_find("full");
    void *defaults = options_new(&full->options);
    // All devices start from what the dtype under test can hold.
    struct run exact = step(f, "cpu", DTYPE_F64, dtype, FORWARD, full, defaults);
    struct run base = step(f, device, dtype, dtype, FORWARD, full, defaults);
    struct run reversed = step(f, device, dtype, dtype, REVERSED, full, defaults);
    double floor = relative_l2(reversed.gradients, base.gradients, base.count);
    int lower_bounds = is_emulated(f, device) ? LOWER_BOUNDS_EMULATED : FLOORS;
    for (int again = 1; dtype == DTYPE_BF16 && again < lower_bounds; again++) {
        struct fixture other = *f;
        other.seed += again;
        struct run one = step(&other, device, dtype, dtype, FORWARD, full, defaults);
        struct run two = step(&other, device, dtype, dtype, REVERSED, full, defaults);
        floor = fmax(floor, relative_l2(two.gradients, one.gradients, one.count));
        free(one.gradients);
        free(two.gradients);
    }
    double rounding = relative_l2(base.gradients, exact.gradients, exact.count);
    printf("%-4s %-20s full against f64 on the CPU %.2e, noise floor %.2e\n", dtype_name(dtype), what, rounding,
           floor);
    check(exact.status.code == STATUS_OK && base.status.code == STATUS_OK && reversed.status.code == STATUS_OK,
          "%s %s: full: %s%s%s", dtype_name(dtype), what, exact.status.message, base.status.message,
          reversed.status.message);
    check(dtype != DTYPE_BF16 || floor <= 3e-2, "bf16 %s: the noise floor is %.2e", what, floor);
    const double bound = dtype == DTYPE_F64 ? 1e-12 : dtype == DTYPE_F32 ? 1e-5 : 2 * floor;
    double largest = 0; // error, of its bound
    const struct run *reference = dtype == DTYPE_BF16 ? &base : &exact;
    check(dtype != DTYPE_BF16 || rounding <= 3e-2, "bf16 %s: full is off by %.2e", what, rounding);
    for (const struct method *const *m = methods; *m; m++) {
        // The last variant once more with attention's backward at once, which bf16 alone has.
        int variants = dtype == DTYPE_BF16 ? 4 : 3;
        for (int variant = 0; runs_here(*m) && variant < variants; variant++) {
            if (!runs_so(f, device, dtype, number, (size_t)(m - methods), variant, variants))
                continue;
            void *options = options_of(f, *m, variant);
            enum mode mode = variant < 3 ? FORWARD : WHOLE_ATTENTION;
            struct run found = step(f, device, dtype, dtype, mode, *m, options);
            struct run planned = step(f, plan, dtype, dtype, mode, *m, options);
            bool estimate = is_estimate(*m, variant);
            struct run own = {0};
            if (estimate)
                own = step(f, "cpu", DTYPE_F64, dtype, FORWARD, *m, options);
            const struct run *of = estimate ? &own : reference;
            double error =
                found.status.code == STATUS_OK ? relative_l2(found.gradients, of->gradients, found.count) : NAN;
            double bound_of = estimate && dtype == DTYPE_BF16 ? 3e-2 : bound;
            char trial[128];
            snprintf(trial, sizeof trial, "%s %s: %s, chunk %zu%s", dtype_name(dtype), what, (*m)->name,
                     chunk_of(f, variant), mode == FORWARD ? "" : ", whole attention");
            largest = fmax(largest, error / bound_of);
            check(error <= bound_of, "%s: relative L2 %.2e, bound %.2e %s", trial, error, bound_of,
                  found.status.message);
            check(fabs(found.loss - of->loss) <= fmax(bound_of, 1e-12) * fabs(of->loss),
                  "%s: loss %.15g, not %.15g", trial, found.loss, of->loss);
            free(own.gradients);
            check_plan(&found, &planned, trial);
            free(planned.gradients);
            free(found.gradients);
            options_free(&(*m)->options, options);
        }
    }
    printf("%-4s %-20s the largest error is %.2f of its bound\n", dtype_name(dtype), what, largest);
    options_free(&full->options, defaults);
    free(exact.gradients);
    free(base.gradients);
    free(reversed.gradients);
}

static void check_deterministic(const struct fixture *f, const char *device, enum dtype dtype)
{
    for (const struct method *const *m = methods; *m; m++) {
        if (!runs_here(*m))
            continue;
        void *options = options_of(f, *m, 0);
        struct run first = step(f, device, dtype, dtype, DETERMINISTIC, *m, options);
        struct run second = step(f, device, dtype, dtype, DETERMINISTIC, *m, options);
        check(first.status.code == STATUS_OK && first.loss == second.loss &&
                  memcmp(first.gradients, second.gradients, first.count * sizeof(double)) == 0,
              "%s %s: deterministic, but two runs differ", dtype_name(dtype), (*m)->name);
        free(first.gradients);
        free(second.gradients);
        options_free(&(*m)->options, options);
    }
}

// A limit below the peak is an oom and leaks nothing; a tensor that no card holds is one, too, without a limit.
static void check_memory(const char *device)
{
    struct status status = {0};
    struct device *d = device_open(device, DTYPE_F32, (size_t)64 << 20, &status);
    struct tensor t = tensor_new(d, 1, (size_t)64 << 20, DTYPE_F32, CATEGORY_ACTIVATIONS);
    check(!t.data && d->status.code == STATUS_OOM, "256 MiB fit into 64");
    device_close(d);
    d = device_open(device, DTYPE_F32, (size_t)1 << 60, &status);
    t = tensor_new(d, (size_t)1 << 24, (size_t)1 << 20, DTYPE_F32, CATEGORY_ACTIVATIONS);
    check(!t.data && d->status.code == STATUS_OOM, "64 TiB: %s", d->status.message);
    d->status = (struct status){0}; // and it still works
    t = tensor_new(d, 1024, 1024, DTYPE_F32, CATEGORY_ACTIVATIONS);
    op_zero(d, t);
    double *values = malloc(sizeof *values << 20);
    CHECK(values);
    tensor_read(d, t, values);
    check(t.data && d->status.code == STATUS_OK && values[12345] == 0, "nothing works after out of memory");
    if (d->ops->mark) {
        device_timer_start(d);
        op_scale(d, t, 2);
        double ms = device_timer_stop_ms(d);
        check(ms > 0 && ms < 1000, "a small operation took %.3f ms", ms);
        check(d->ops->reserved_bytes(d) >= d->arena.peak_bytes, "the pool held fewer bytes than the arena");
        check(d->ops->used_bytes(d) >= d->arena.live_bytes, "the driver counts fewer bytes than the arena");
    }
    free(values);
    tensor_free(d, &t);
    device_close(d);
}

int main(int argc, char **argv)
{
    environment_settle(argv);
    setvbuf(stdout, NULL, _IOLBF, 0); // a run that is cut off has said what it found
    const char *device = argc > 1 ? argv[1] : "cuda", *plan = argc > 2 ? argv[2] : "plan-cuda";
    static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_F32, DTYPE_F64}; // in order of worth
    size_t opened = 0, wanted = 0;
    for (size_t i = 0; i < 3; i++) {
        struct status status = {0};
        if (argc > 4 && strcmp(argv[4], dtype_name(dtypes[i])) != 0)
            continue;
        wanted++;
        struct device *d = device_open(device, dtypes[i], 0, &status);
        if (!d) {
            fprintf(stderr, "%s\n", status.message);
            continue;
        }
        printf("%s%s%s\n", dtype_name(dtypes[i]), *d->description ? ": " : "", d->description);
        if (d->ops->used_bytes) { // what the card's profile assumes
            printf("%s: %zu bytes may be live, beside %zu that are in use\n", dtype_name(dtypes[i]),
                   d->arena.limit_bytes, d->ops->used_bytes(d));
        }
        multiprocessors = d->multiprocessors;
        compute_capability = d->compute_capability;
        device_close(d);
        opened++;
        struct fixture f = fixture_default();
        f.context = argc > 3 ? strtoul(argv[3], NULL, 10) : 200;
        bool small = is_emulated(&f, device);
        const struct config shape = {.name = "heads of 32",
                                     .layers = 3,
                                     .width = 128,
                                     .kinds = {{.heads = 4, .kv_heads = 2, .head_dim = 32, .rope_theta = 10000}},
                                     .ffn = small ? 104 : 352,
                                     .vocab = small ? 72 : 256,
                                     .norm_epsilon = 1e-5};
        f.config = shape;
        check_methods(&f, device, plan, dtypes[i], 0, "grouped heads");
        check_deterministic(&f, device, dtypes[i]);
        fixture_set_windows(&f.config, f.context / 5, 2);
        f.document = f.context / 3 + 1;
        check_methods(&f, device, plan, dtypes[i], 1, "windows, documents");
        f.config = shape;
        f.document = 0;
        f.config.qk_norm = f.config.tied = true;
        f.batch_size = 3;
        f.objective = objective_find("dft");
        check_methods(&f, device, plan, dtypes[i], 2, "Qwen3, B = 3, DFT");
        f.config.qk_norm = f.config.tied = false;
        f.config.qkv_bias = true;
        f.config.kinds[0].head_dim = 6; // own attention in bf16
        f.batch_size = 1;
        f.lora = (struct lora){.rank = 3, .alpha = 6, .targets = LORA_Q | LORA_V | LORA_DOWN};
        f.objective = objective_find("weighted-mean");
        snprintf(f.settings, sizeof f.settings, "z_loss=0.1 smoothing=0.2");
        check_methods(&f, device, plan, dtypes[i], 3, "Qwen2, LoRA, weights, smoothed");
        f.settings[0] = '\0';
        const char *family;
        f.lora = (struct lora){0};
        f.objective = NULL;
        f.config = shape;
        for (size_t j = 0; (family = fixture_choose_family(&f, j)); j++) {
            struct layer_kind *kind = &f.config.kinds[0];
            kind->heads = 2; // whose statistics have rows of eight bytes
            kind->kv_heads = kind->kv_rank ? 2 : 1;
            check_methods(&f, device, plan, dtypes[i], 4 + j, family);
            f.config = shape;
        }
        // In bf16 a token takes all experts: which of some it takes is a matter of rounding.
        fixture_set_experts(&f.config, 5, 4, dtypes[i] == DTYPE_BF16 ? 4 : 2);
        f.config.experts.shared_width = 24;
        f.config.experts.shared_gated = true;
        check_methods(&f, device, plan, dtypes[i], 1, "experts");
        f.config = shape;
    }
    if (opened)
        check_memory(device);
    printf("methods: %zu checks, %zu failed; %s\n", checks, failures,
           opened == 0 ? "not run"
           : failures  ? "FAILED"
                       : "passed");
    return opened == 0 || opened < wanted || failures > 0;
}
