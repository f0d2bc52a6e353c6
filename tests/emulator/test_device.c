// The emulated CUDA device in the program: a step launches all its operations and waits only for its end, and a
// record has the fields of this device alone.
#define _GNU_SOURCE // environ
#include "kernels/cuda/workspace.h"
#include "kernels/device/ops.h"
#include "kernels/measure/breakdown.h"
#include "tests/emulator/plugin.h"
#include "tests/fixture.h"
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static size_t (*waits)(void);
static char *longbp;

// Waits of the host during one step.
static size_t waits_of(struct fixture *f, const struct method *method, size_t chunk)
{
    void *options = fixture_options(method, "chunk=%zu head_chunk=%zu budget=%zu", chunk, chunk,
                                    (f->context + chunk - 1) / chunk);
    struct step_report report = {0};
    size_t before = waits();
    trainer_zero(&f->trainer);
    method_step(method, &f->model, &f->batch, options, &report);
    options_free(&method->options, options);
    size_t after = waits();
    assert_int_equal(f->device->status.code, STATUS_OK);
    step_report_free(&report);
    return after - before;
}

static void test_a_step_waits_for_its_end_alone(void **state)
{
    (void)state;
    const enum dtype dtypes[] = {DTYPE_F32, DTYPE_BF16};
    for (size_t i = 0; i < 2; i++) {
        struct status status = {0};
        struct fixture f = fixture_default();
        f.config.kinds[0].head_dim = 8;
        f.dtype = f.rounding = dtypes[i];
        f.context = 64;
        f.device = device_open("cuda", f.dtype, 0, &status);
        assert_non_null(f.device);
        struct trainer_options options = {.kv_gradient_dtype = DTYPE_F32, .gradient_dtype = DTYPE_F32};
        int32_t ids[64] = {3, 1, 4, 1, 5, 9, 2, 6};
        trainer_open(&f.trainer, &f.model, &f.config, &options, f.device);
        random_weights_set(&f.model, f.seed, f.rounding);
        batch_open(&f.batch, f.device, ids, NULL, f.context, 1);
        for (const struct method *const *m = methods; *m; m++) {
            size_t few = waits_of(&f, *m, 64), many = waits_of(&f, *m, 7);
            // For the time, and for the loss.
            if (few != 2 || many != few)
                fail_msg("%s waits %zu times in one chunk, %zu times in ten", (*m)->name, few, many);
        }
        batch_close(&f.batch, f.device);
        trainer_close(&f.trainer);
        device_close(f.device);
    }
}

// A step of far more operations than there are marks: the rows add up to the events' time, attention's glue apart
// from its engines, and the host waits but to make room.
static void test_a_step_taken_apart(void **state)
{
    (void)state;
    struct status status = {0};
    struct fixture f = fixture_default();
    struct step_report report = {0};
    const struct method *seco = method_find("seco");
    void *options = fixture_options(seco, "chunk=8");
    struct breakdown b;
    double sum_ms = 0, glue_ms = 0, engine_ms = 0;
    uint64_t launches = 0;
    int32_t ids[128] = {3, 1, 4, 1, 5, 9, 2, 6}; // cuDNN takes calls of a tile of queries, here 8, and more
    f.config.kinds[0].head_dim = 8;
    f.dtype = f.rounding = DTYPE_BF16;
    f.context = sizeof ids / sizeof *ids;
    f.device = device_open("cuda", f.dtype, 0, &status);
    assert_non_null(f.device);
    struct trainer_options model_options = {.kv_gradient_dtype = DTYPE_F32, .gradient_dtype = DTYPE_F32};
    trainer_open(&f.trainer, &f.model, &f.config, &model_options, f.device);
    random_weights_set(&f.model, f.seed, f.rounding);
    batch_open(&f.batch, f.device, ids, NULL, f.context, 1);
    breakdown_start(&b, f.device);
    size_t before = waits();
    trainer_zero(&f.trainer);
    method_step(seco, &f.model, &f.batch, options, &report);
    options_free(&seco->options, options);
    size_t waited = waits() - before;
    breakdown_stop(&b, f.device);
    assert_int_equal(f.device->status.code, STATUS_OK);
    for (size_t i = 0; i < b.row_count; i++) {
        assert_true(b.rows[i].ms >= 0);
        sum_ms += b.rows[i].ms;
        launches += b.rows[i].launches;
        glue_ms += b.rows[i].work == WORK_ATTENTION_GLUE ? b.rows[i].ms : 0;
        engine_ms += b.rows[i].work == WORK_ATTENTION_BACKWARD ? b.rows[i].ms : 0;
    }
    assert_true(launches > 2 * DEVICE_MARKS);
    // Each event's time is a float.
    assert_true(fabs(sum_ms - report.ms) <= 1e-5 * report.ms);
    assert_true(glue_ms > 0 && engine_ms > 0 && glue_ms + engine_ms < sum_ms);
    // Two marks an operation, two more for each of attention's parts; half of the marks at a time; and as ever for
    // the time and the loss.
    assert_in_range(waited, 2 + 2 * launches / (DEVICE_MARKS / 2), 2 + 3 * launches / (DEVICE_MARKS / 2));
    breakdown_free(&b);
    batch_close(&f.batch, f.device);
    trainer_close(&f.trainer);
    device_close(f.device);
    step_report_free(&report);
}

// The card of a plan.
struct card {
    size_t multiprocessors, compute_capability;
};

// Peak of one step of `full` with one head.
static size_t peak_of(const char *name, struct card card, enum dtype dtype, size_t head_dim, size_t context)
{
    struct status status = {0};
    struct fixture f = fixture_default();
    struct step_report report = {0};
    f.config.layers = f.config.kinds[0].heads = f.config.kinds[0].kv_heads = 1;
    f.config.kinds[0].head_dim = head_dim;
    f.dtype = f.rounding = dtype;
    f.context = context;
    f.device = device_open(name, dtype, 0, &status);
    assert_non_null(f.device);
    if (f.device->ops->dataless) {
        f.device->multiprocessors = card.multiprocessors;
        f.device->compute_capability = card.compute_capability;
    } else {
        assert_int_equal(f.device->multiprocessors, card.multiprocessors);
        assert_int_equal(f.device->compute_capability, card.compute_capability);
    }
    struct trainer_options model_options = {.kv_gradient_dtype = DTYPE_F32, .gradient_dtype = DTYPE_F32};
    int32_t *ids = calloc(f.context, sizeof *ids);
    CHECK(ids);
    trainer_open(&f.trainer, &f.model, &f.config, &model_options, f.device);
    random_weights_set(&f.model, f.seed, f.rounding);
    batch_open(&f.batch, f.device, ids, NULL, f.context, 1);
    trainer_zero(&f.trainer);
    const struct method *full = method_find("full");
    void *options = options_new(&full->options);
    method_step(full, &f.model, &f.batch, options, &report);
    options_free(&full->options, options);
    assert_int_equal(f.device->status.code, STATUS_OK);
    size_t peak = f.device->arena.peak_bytes;
    batch_close(&f.batch, f.device);
    trainer_close(&f.trainer);
    device_close(f.device);
    free(ids);
    step_report_free(&report);
    return peak;
}

// The plan of a card with as many multiprocessors has its blocks; that of none in particular has shorter ones.
static void test_blocks_are_the_cards(void **state)
{
    (void)state;
    const struct card card = {132, 90}, none = {0};
    size_t measured = peak_of("cuda", card, DTYPE_F32, 8, 2100);
    assert_int_equal(peak_of("plan-cuda", card, DTYPE_F32, 8, 2100), measured);
    assert_true(peak_of("plan-cuda", none, DTYPE_F32, 8, 2100) < measured);
}

// Long heads are cuDNN's in the backward of some cards, which takes a workspace there.
static void test_long_heads_are_the_cards(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t compute_capability;
    } cards[] = {{"9.0", 90}, {"8.6", 86}};
    size_t peaks[2];
    for (size_t i = 0; i < 2; i++) {
        const struct card card = {132, cards[i].compute_capability};
        setenv("EMULATED_CARD", cards[i].name, 1);
        peaks[i] = peak_of("cuda", card, DTYPE_BF16, 136, 40);
        assert_int_equal(peak_of("plan-cuda", card, DTYPE_BF16, 136, 40), peaks[i]);
    }
    unsetenv("EMULATED_CARD");
    assert_true(peaks[0] > peaks[1]);
}

static void test_tf32_rounds(void **state)
{
    (void)state;
    struct status status = {0};
    struct device *device = device_open("cuda", DTYPE_F32, 0, &status);
    assert_non_null(device);
    double factor = 1 + 0x1p-20, found[2];
    for (int i = 0; i < 2; i++) {
        struct tensor a = tensor_new(device, 1, 1, DTYPE_F32, CATEGORY_ACTIVATIONS);
        struct tensor b = tensor_new(device, 1, 1, DTYPE_F32, CATEGORY_ACTIVATIONS);
        struct tensor c = tensor_new(device, 1, 1, DTYPE_F32, CATEGORY_ACTIVATIONS);
        tensor_write(device, a, &factor);
        tensor_write(device, b, &factor);
        device->tf32 = i;
        op_gemm(device, c, a, NO_TRANSPOSE, b, NO_TRANSPOSE, 1, 0);
        tensor_read(device, c, &found[i]);
        tensor_free(device, &a);
        tensor_free(device, &b);
        tensor_free(device, &c);
    }
    assert_true(found[0] > 1 && found[1] == 1);
    device_close(device);
}

// Products [1, TERMS] x [TERMS, 1] in f32, added to c; their bits tell the candidate by its parts of the sums. One
// sum may round alike in several parts: the sums of several, each times another power of two, do not.
#define TERMS 999
#define SUMS  8
static double product_by(struct device *device, double c_before)
{
    double factors[TERMS], c, found = 0;
    struct tensor a = tensor_new(device, 1, TERMS, DTYPE_F32, CATEGORY_ACTIVATIONS);
    struct tensor b = tensor_new(device, 1, TERMS, DTYPE_F32, CATEGORY_ACTIVATIONS);
    struct tensor y = tensor_new(device, 1, 1, DTYPE_F32, CATEGORY_ACTIVATIONS);
    for (int n = 0; n < SUMS; n++) {
        for (int i = 0; i < TERMS; i++)
            factors[i] = 1.0 / (3 * i + 1 + n);
        tensor_write(device, a, factors);
        tensor_write(device, b, factors);
        tensor_write(device, y, &c_before);
        op_gemm(device, y, a, NO_TRANSPOSE, b, TRANSPOSE, 1, 1);
        tensor_read(device, y, &c);
        found += ldexp(c, n);
    }
    tensor_free(device, &y);
    tensor_free(device, &b);
    tensor_free(device, &a);
    return found;
}

// A device's product with a file of algorithms; NULL: without.
static double product_with(const char *file, bool deterministic, struct status *status)
{
    struct device *device = device_open("cuda", DTYPE_F32, 0, status);
    assert_non_null(device);
    device->gemm_algorithms = file;
    device->deterministic = deterministic;
    double found = product_by(device, 0.1);
    if (device->status.code == STATUS_OK) {
        assert_true(product_by(device, 0.1) == found);
        found = product_by(device, 0.1);
    }
    *status = device->status;
    device_close(device);
    return found;
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

static void read_text(const char *path, char *text, size_t bytes)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, bytes - 1, file)] = '\0';
    fclose(file);
}

// The fastest candidate is timed once, written, and taken again where another would be the fastest by then.
static void test_fastest_gemm_algorithms(void **state)
{
    (void)state;
    struct status status = {0};
    char folder[] = "/tmp/longbp-algorithms-XXXXXX", path[64], written[512], again[512];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/algorithms", folder);
    double first = product_with(NULL, false, &status), by[3];
    for (int i = 0; i < 3; i++) {
        char fastest[2] = {(char)('0' + i), '\0'};
        unlink(path);
        setenv("EMULATED_FASTEST", fastest, 1);
        by[i] = product_with(path, false, &status);
        setenv("EMULATED_FASTEST", i == 0 ? "1" : "0", 1);
        read_text(path, written, sizeof written);
        assert_true(product_with(path, false, &status) == by[i] && status.code == STATUS_OK);
        assert_true(product_with(path, true, &status) == by[i]);
        read_text(path, again, sizeof again);
        assert_string_equal(written, again);
        size_t length = strlen(written);
        assert_true(length > 2 && written[length - 2] == fastest[0]);
    }
    assert_true(by[0] == first && by[1] != first && by[2] != first);
    // A deterministic run times nothing.
    unlink(path);
    setenv("EMULATED_FASTEST", "2", 1);
    assert_true(product_with(path, true, &status) == first && status.code == STATUS_OK);
    assert_int_equal(access(path, F_OK), -1);
    unsetenv("EMULATED_FASTEST");
    rmdir(folder);
}

static void test_refused_gemm_algorithms(void **state)
{
    (void)state;
    struct status status = {0};
    char folder[] = "/tmp/longbp-algorithms-XXXXXX", path[64], written[512], changed[600];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/algorithms", folder);
    product_with(path, false, &status);
    read_text(path, written, sizeof written);
    const char *line = strchr(written, '\n');
    assert_true(line && line[1]);
    const struct {
        const char *head, *tail, *message;
    } cases[] = {
        {"{}\n", "", "is no file of GEMM algorithms"},
        {"longbp GEMM algorithms, cuBLASLt 1, a card\n", "", "has the algorithms of cuBLASLt 1, a card, and "},
        {NULL, "1 2 3\n", ":2: expected a product's 15 numbers and a candidate below 8"},
        {NULL, "1 1 999 0 1 999 999 1 1 1 0 256 256 256 256 x\n", ":2: expected"},
        {NULL, "1 1 999 0 1 999 999 1 1 1 0 256 256 256 256 8\n", ":2: expected"},
        {NULL, "1 1 999 0 1 999 999 1 1 1 0 256 256 256 256 7 7\n", ":2: expected"},
        {NULL, "1 1 999 0 1 999 999 1 1 1 0 256 256 256 256 7\n",
         "names candidate 7 for a product of 1 x 1 x 999"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(changed, sizeof changed, "%.*s%s", cases[i].head ? 0 : (int)(line + 1 - written), written,
                 cases[i].head ? cases[i].head : cases[i].tail);
        write_text(path, changed);
        status = (struct status){0};
        product_with(path, false, &status);
        assert_int_equal(status.code, STATUS_BAD_INPUT);
        if (!strstr(status.message, cases[i].message) || !strstr(status.message, path))
            fail_msg("case %zu: %s", i, status.message);
    }
    unlink(path);
    status = (struct status){0};
    rmdir(folder);
    product_with(path, false, &status); // its folder is not there
    assert_int_equal(status.code, STATUS_IO);
    assert_non_null(strstr(status.message, path));
}

// The pool returns its memory before the device reports OOM.
static void test_an_operation_without_memory(void **state)
{
    (void)state;
    for (int refusals = 1; refusals <= 2; refusals++) {
        struct status status = {0};
        struct device *device = device_open("cuda", DTYPE_F32, 0, &status);
        assert_non_null(device);
        double two = 2, found = 0;
        struct tensor kept = tensor_new(device, 1024, 1024, DTYPE_F32, CATEGORY_ACTIVATIONS);
        struct tensor a = tensor_new(device, 1, 1, DTYPE_F32, CATEGORY_ACTIVATIONS);
        struct tensor c = tensor_new(device, 1, 1, DTYPE_F32, CATEGORY_ACTIVATIONS);
        tensor_write(device, a, &two);
        op_gemm(device, c, a, NO_TRANSPOSE, a, NO_TRANSPOSE, 1, 0);
        tensor_free(device, &kept);
        size_t before = device->ops->used_bytes(device);
        setenv("EMULATED_REFUSALS", refusals == 1 ? "1" : "2", 1);
        op_gemm(device, c, a, NO_TRANSPOSE, a, NO_TRANSPOSE, 1, 0);
        unsetenv("EMULATED_REFUSALS");
        assert_true(device->ops->used_bytes(device) < before);
        assert_int_equal(device->status.code, refusals == 1 ? STATUS_OK : STATUS_OOM);
        if (refusals == 1) {
            tensor_read(device, c, &found);
            assert_true(found == 4);
        } else {
            assert_non_null(strstr(device->status.message, "no memory left for an operation's launch"));
        }
        tensor_free(device, &a);
        tensor_free(device, &c);
        device_close(device);
    }
}

static void test_record(void **state)
{
    (void)state;
    char folder[] = "/tmp/longbp-emulated-XXXXXX", spec[64], out[64];
    assert_non_null(mkdtemp(folder));
    snprintf(spec, sizeof spec, "%s/spec.json", folder);
    snprintf(out, sizeof out, "%s/out.jsonl", folder);
    FILE *file = fopen(spec, "w");
    assert_non_null(file);
    fputs("{\"experiment\": \"emulated\", \"question\": \"What does a record say?\", \"device\": \"cuda\",\n"
          " \"model\": \"tiny\", \"dtype\": \"f32\", \"data\": \"random\",\n"
          " \"axes\": {\"context\": [40], \"method\": [{\"name\": \"seco\", \"chunk\": [16]}]},\n"
          " \"measure\": {\"warmup\": 1, \"samples\": 2}}\n",
          file);
    fclose(file);
    char *arguments[] = {longbp, "run", spec, "--out", out, NULL};
    pid_t program;
    int ended;
    assert_int_equal(posix_spawn(&program, longbp, NULL, NULL, arguments, environ), 0);
    assert_int_equal(waitpid(program, &ended, 0), program);
    assert_int_equal(ended, 0);
    json_error_t error;
    json_t *record = json_load_file(out, 0, &error);
    if (!record)
        fail_msg("%s: %s", out, error.text);
    const char *status, *card;
    double median_ms, host_launch_ms, relative_l2, floor;
    json_int_t peak, used, reserved, workspace;
    assert_int_equal(json_unpack(record, "{s:s, s:F, s:F, s:I, s:I, s:I, s:{s:F, s:F}, s:{s:I}, s:{s:s}}", "status",
                                 &status, "median_ms", &median_ms, "host_launch_ms", &host_launch_ms, "peak_bytes",
                                 &peak, "device_used_bytes", &used, "device_reserved_bytes", &reserved, "gradient",
                                 "relative_l2", &relative_l2, "noise_floor", &floor, "peak_by_category",
                                 "workspace", &workspace, "provenance", "card", &card),
                     0);
    assert_string_equal(status, "ok");
    assert_non_null(strstr(card, "emulated")); // nobody takes it for a GPU's
    assert_true(0 < host_launch_ms && host_launch_ms < median_ms);
    assert_true(workspace >= (json_int_t)CUDA_WORKSPACE_BYTES && peak > workspace);
    assert_true(peak <= reserved && reserved <= used);
    assert_true(relative_l2 > 0 && relative_l2 < 1e-5 && floor > 0 && floor < 1e-5);
    json_decref(record);
    assert_int_equal(unlink(spec) || unlink(out) || rmdir(folder), 0);
}

// Opening must fail as unsupported, for a reason that says both parts.
static void refused(enum dtype dtype, const char *part, const char *other)
{
    struct status status = {0};
    assert_null(device_open("cuda", dtype, 0, &status));
    assert_int_equal(status.code, STATUS_UNSUPPORTED);
    if (!strstr(status.message, part) || !strstr(status.message, other))
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"", status.message, part, other);
}

static struct device *opened_as(const char *name, enum dtype dtype)
{
    struct status status = {0};
    struct device *device = device_open(name, dtype, 0, &status);
    if (!device)
        fail_msg("%s", status.message);
    return device;
}

static struct device *opened(enum dtype dtype)
{
    return opened_as("cuda", dtype);
}

static void test_a_card_without_code_is_refused(void **state)
{
    (void)state;
    setenv("EMULATED_CARD", "7.5", 1);
    refused(DTYPE_F64, "7.5", CUDA_BUILT_FOR);
    refused(DTYPE_BF16, "7.5", CUDA_BUILT_FOR);
    unsetenv("EMULATED_CARD");
    device_close(opened(DTYPE_F64)); // and nothing of it is left
}

static void test_an_old_cudnn_is_refused(void **state)
{
    (void)state;
    setenv("EMULATED_CUDNN", "91500", 1);
    refused(DTYPE_BF16, "9.15.1", "9.15.0");
    device_close(opened(DTYPE_F32)); // which needs none
    setenv("EMULATED_CUDNN", "91501", 1);
    device_close(opened(DTYPE_BF16));
    unsetenv("EMULATED_CUDNN");
}

static size_t backward_workspace(struct device *device, struct attention_shape shape)
{
    return device->ops->rules->attention_backward_workspace(device, shape, NULL, 0);
}

// A deterministic backward is cuDNN's where an engine has no note against it, as the plan of such a card has it;
// else own kernels', which the description says.
static void test_deterministic_attention_by_its_notes(void **state)
{
    (void)state;
    static const struct attention_shape shape = {
        .queries = 64, .batch = 1, .heads = 2, .kv_heads = 1, .head_dim = 16};
    static const struct {
        const char *card, *none;
        bool has;
    } cases[] = {{"9.0", NULL, true}, {"9.0", "1", false}, {"8.6", NULL, false}};
    struct device *plan = opened_as("plan-cuda", DTYPE_BF16);
    plan->deterministic = true;
    plan->compute_capability = 90;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("EMULATED_CARD", cases[i].card, 1);
        if (cases[i].none)
            setenv("EMULATED_NONDETERMINISTIC", cases[i].none, 1);
        struct device *device = opened(DTYPE_BF16);
        unsetenv("EMULATED_NONDETERMINISTIC");
        unsetenv("EMULATED_CARD");
        CHECK(device->description);
        const char *said = strstr(device->description, "no deterministic backward of attention");
        device->deterministic = true;
        assert_true(device->no_deterministic_attention != cases[i].has && !said == cases[i].has);
        assert_int_equal(backward_workspace(device, shape), cases[i].has ? backward_workspace(plan, shape) : 0);
        device->deterministic = false;
        assert_true(backward_workspace(device, shape) > 0);
        device_close(device);
    }
    device_close(plan);
}

// `make FILL_FREED=1`: the device fills what it gives back, before the pool has it.
static void test_what_is_freed_is_filled(void **state)
{
    (void)state;
    size_t (*moved)(void) = (size_t(*)(void))emulated("emulator_moved");
    struct device *device = opened(DTYPE_F32);
    struct tensor t = tensor_new(device, 100, 64, DTYPE_F32, CATEGORY_ACTIVATIONS);
    size_t filled = ARENA_FILLS_FREED ? arena_rounded(tensor_bytes(t)) : 0;
    device->ops->synchronize(device);
    size_t before = moved();
    tensor_free(device, &t);
    device->ops->synchronize(device);
    assert_int_equal(moved() - before, filled);
    device_close(device);
}

enum { NORM_ROWS = 3 };
struct normed {
    double *y, *grad_x;
    size_t forward_bytes, backward_bytes;
};

static struct tensor drawn(struct device *device, size_t rows, size_t cols, const char *name)
{
    struct tensor t = tensor_new(device, rows, cols, device->ops->dtype, CATEGORY_ACTIVATIONS);
    op_random_normal(device, t, random_named(1, name), 0, 1, device->ops->dtype);
    return t;
}

static double *values_of(struct device *device, struct tensor t)
{
    double *values = malloc(tensor_count(t) * sizeof *values);
    assert_non_null(values);
    tensor_read(device, t, values);
    return values;
}

static struct normed normed(enum dtype dtype, size_t cols, bool unfused)
{
    size_t (*moved)(void) = (size_t(*)(void))emulated("emulator_moved");
    struct device *device = opened(dtype);
    struct tensor x = drawn(device, NORM_ROWS, cols, "x"), gain = drawn(device, 1, cols, "gain");
    struct tensor y = drawn(device, NORM_ROWS, cols, "y"), grad_y = drawn(device, NORM_ROWS, cols, "grad_y");
    struct tensor grad_x = drawn(device, NORM_ROWS, cols, "grad_x");
    struct tensor rstd = tensor_new(device, NORM_ROWS, 1, dtype_statistic(dtype), CATEGORY_ACTIVATIONS);
    struct normed result = {0};
    device->unfused = unfused;
    device->ops->synchronize(device);
    size_t before = moved();
    op_rmsnorm_forward(device, y, rstd, x, gain, (struct norm_shape){.epsilon = 1e-5});
    device->ops->synchronize(device);
    result.forward_bytes = moved() - before;
    op_rmsnorm_backward(device, grad_x, true, tensor_none(), grad_y, x, gain, (struct norm_shape){0}, rstd);
    device->ops->synchronize(device);
    result.backward_bytes = moved() - before - result.forward_bytes;
    result.y = values_of(device, y);
    result.grad_x = values_of(device, grad_x);
    struct tensor *all[] = {&rstd, &grad_x, &grad_y, &y, &gain, &x};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(device, all[i]);
    device_close(device);
    return result;
}

// A norm reads a row once where its threads can hold it, twice where it is longer or the device is `unfused`; the
// bits are the same. A row reads all of the gain.
static void test_norms_hold_rows(void **state)
{
    (void)state;
    static const struct {
        enum dtype dtype;
        size_t cols;
        bool held;
    } cases[] = {{DTYPE_BF16, 96, true},    {DTYPE_BF16, 1024, true},  {DTYPE_BF16, 8192, true},
                 {DTYPE_BF16, 8200, false}, {DTYPE_F32, 512, true},    {DTYPE_F32, 516, false},
                 {DTYPE_F32, 4096, true},   {DTYPE_F32, 4100, false},  {DTYPE_F64, 2048, true},
                 {DTYPE_F64, 2050, false},  {DTYPE_BF16, 1027, false}, {DTYPE_BF16, 127, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t cols = cases[i].cols, row = cols * dtype_bytes(cases[i].dtype), all = NORM_ROWS * row;
        size_t again = cases[i].held ? 0 : 1;
        struct normed once = normed(cases[i].dtype, cols, false), twice = normed(cases[i].dtype, cols, true);
        assert_int_equal(once.forward_bytes, (3 + again) * all);      // x, y and the gain
        assert_int_equal(once.backward_bytes, (6 + 2 * again) * all); // x, grad_y; grad_x and the gain twice
        assert_int_equal(twice.forward_bytes, 4 * all);
        assert_int_equal(twice.backward_bytes, 8 * all);
        assert_memory_equal(once.y, twice.y, NORM_ROWS * cols * sizeof(double));
        assert_memory_equal(once.grad_x, twice.grad_x, NORM_ROWS * cols * sizeof(double));
        free(twice.grad_x), free(twice.y), free(once.grad_x), free(once.y);
    }
}

// Heads that no tile of the card serves are refused, and no others.
static void test_longest_heads(void **state)
{
    (void)state;
    static const struct {
        const char *card, *refused_by; // KiB; NULL: it is served
        enum dtype dtype;
        size_t head_dim;
    } cases[] = {{"9.0", NULL, DTYPE_F64, 256},   {"8.0", NULL, DTYPE_F64, 256}, {"8.6", NULL, DTYPE_F64, 128},
                 {"8.6", " 99 ", DTYPE_F64, 256}, {"8.6", NULL, DTYPE_F32, 256}, {"8.6", NULL, DTYPE_BF16, 256}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("EMULATED_CARD", cases[i].card, 1);
        struct device *device = opened(cases[i].dtype);
        enum dtype sums = cases[i].dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
        struct attention_shape shape = {3, 0, 1, 1, 1, cases[i].head_dim, 0, {0}, 0, 0};
        struct tensor rows[5], logsumexp = tensor_new(device, 3, 1, sums, CATEGORY_ACTIVATIONS);
        for (size_t t = 0; t < 5; t++) {
            rows[t] = tensor_new(device, 3, shape.head_dim, cases[i].dtype, CATEGORY_ACTIVATIONS);
            op_zero(device, rows[t]);
        }
        op_attention_forward(device, shape, rows[3], logsumexp, rows[0], rows[1], rows[2]);
        assert_int_equal(device->status.code, STATUS_OK);
        op_attention_backward(device, shape, rows[4], false, NULL, 0, rows[4], rows[3], logsumexp, rows[0], rows[1],
                              rows[2]);
        assert_int_equal(device->status.code, cases[i].refused_by ? STATUS_UNSUPPORTED : STATUS_OK);
        if (cases[i].refused_by) {
            assert_non_null(strstr(device->status.message, "256"));
            assert_non_null(strstr(device->status.message, cases[i].refused_by));
        }
        for (size_t t = 0; t < 5; t++)
            tensor_free(device, &rows[t]);
        tensor_free(device, &logsumexp);
        device_close(device);
    }
    unsetenv("EMULATED_CARD");
}

int main(void)
{
    waits = (size_t(*)(void))emulated("emulator_waits");
    longbp = getenv("LONGBP");
    if (!longbp) {
        fprintf(stderr, "LONGBP must name the program\n");
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_waits_for_its_end_alone),
        cmocka_unit_test(test_a_step_taken_apart),
        cmocka_unit_test(test_blocks_are_the_cards),
        cmocka_unit_test(test_long_heads_are_the_cards),
        cmocka_unit_test(test_tf32_rounds),
        cmocka_unit_test(test_fastest_gemm_algorithms),
        cmocka_unit_test(test_refused_gemm_algorithms),
        cmocka_unit_test(test_an_operation_without_memory),
        cmocka_unit_test(test_record),
        cmocka_unit_test(test_a_card_without_code_is_refused),
        cmocka_unit_test(test_an_old_cudnn_is_refused),
        cmocka_unit_test(test_deterministic_attention_by_its_notes),
        cmocka_unit_test(test_what_is_freed_is_filled),
        cmocka_unit_test(test_norms_hold_rows),
        cmocka_unit_test(test_longest_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
