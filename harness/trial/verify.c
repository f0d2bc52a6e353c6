#include "harness/trial/verify.h"
#include "harness/files/io.h"
#include "harness/spec/method_decode.h"
#include "harness/step/setup.h"
#include "harness/trial/reference.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

enum labels { LABELS_NEXT, LABELS_ALL, LABELS_MASKED };

// Differences from SMALL; 0: none.
struct shape {
    const char *name;
    size_t context, chunk, batch;
    enum labels labels;
    size_t kv_heads;
    bool tied, qkv_bias, qk_norm, scaled;
    void (*family)(struct config *config); // changes it to another family; NULL: no change
    struct lora lora;
};

static const struct config small = {"small",
                                    .layers = 3,
                                    .width = 32,
                                    .kinds = {{.heads = 4, .kv_heads = 2, .head_dim = 8, .rope_theta = 10000}},
                                    .ffn = 48,
                                    .vocab = 67,
                                    .norm_epsilon = 1e-5,
                                    .max_context = 4096};

static void make_olmo2(struct config *c)
{
    c->norms = NORMS_AFTER;
    c->qk_norm = c->whole_qk_norm = true;
}

static void make_gemma3(struct config *c)
{
    c->norms = NORMS_AROUND;
    c->activation = ACTIVATION_GELU_TANH;
    c->qk_norm = c->unit_offset = c->tied = true;
    c->embedding_scale = sqrt((double)c->width);
    c->kinds[0].query_scale = 0.8;
    c->kinds[0].rope_scaling.factor = 8;
    c->kind_of[1] = 1;
    config_add_window(c, 7, (struct local_layers){.rope_theta = 1000});
}

static void make_gemma2(struct config *c)
{
    c->norms = NORMS_AROUND;
    c->activation = ACTIVATION_GELU_TANH;
    c->unit_offset = c->tied = true;
    c->embedding_scale = sqrt((double)c->width);
    c->kinds[0].query_scale = 0.8;
    c->kinds[0].cap = 2; // scores are a few: what a cap of 50 bends in a trained model, one of 2 does here
    c->logit_cap = 3;
    c->kind_of[1] = 1;
    config_add_window(c, 7, (struct local_layers){0});
}

static void make_gpt_oss(struct config *c)
{
    c->qkv_bias = true;
    c->kinds[0].sinks = true;
    c->kind_of[1] = 1;
    config_add_window(c, 7, (struct local_layers){0});
}

static void make_qwen3_next(struct config *c)
{
    c->qk_norm = c->unit_offset = true;
    c->kinds[0].gated = true;
}

static const struct shape shapes[] = {
    {"whole chunks", .context = 24, .chunk = 8, .batch = 1},
    {"last chunk shorter", .context = 23, .chunk = 8, .batch = 1},
    {"chunk above context", .context = 5, .chunk = 8, .batch = 1},
    {"chunk of 1", .context = 7, .chunk = 1, .batch = 1},
    {"one token", .context = 1, .chunk = 4, .batch = 2, .labels = LABELS_ALL},
    {"one token without a target", .context = 1, .chunk = 4, .batch = 1},
    {"three sequences", .context = 19, .chunk = 6, .batch = 3},
    {"masked spans", .context = 26, .chunk = 5, .batch = 2, .labels = LABELS_MASKED},
    {"longer than a tile", .context = 300, .chunk = 130, .batch = 1},
    // Other models follow.
    {"one key head", .context = 23, .chunk = 8, .batch = 2, .kv_heads = 1},
    {"a key head per query head", .context = 23, .chunk = 8, .batch = 1, .kv_heads = 4},
    {"tied embedding", .context = 23, .chunk = 8, .batch = 1, .tied = true},
    {"Qwen2 biases", .context = 23, .chunk = 8, .batch = 1, .qkv_bias = true},
    {"Qwen3 norms", .context = 23, .chunk = 8, .batch = 2, .qk_norm = true},
    {"Llama 3 rope", .context = 23, .chunk = 8, .batch = 1, .scaled = true},
    {"OLMo 2", .context = 23, .chunk = 8, .batch = 1, .family = make_olmo2},
    {"Gemma 3", .context = 23, .chunk = 8, .batch = 2, .family = make_gemma3},
    {"Gemma 2", .context = 23, .chunk = 8, .batch = 2, .family = make_gemma2},
    {"gpt-oss's attention", .context = 23, .chunk = 8, .batch = 2, .family = make_gpt_oss},
    {"Qwen3-Next's attention", .context = 23, .chunk = 8, .batch = 2, .family = make_qwen3_next},
    {"LoRA on q, v", .context = 23, .chunk = 8, .batch = 1, .lora = {4, 8, LORA_Q | LORA_V, false}},
    {"LoRA everywhere", .context = 23, .chunk = 8, .batch = 1, .lora = {3, 6, 127, false}},
    {"LoRA on gated heads", .context = 23, .chunk = 8, .batch = 1, .family = make_qwen3_next,
     .lora = {3, 6, LORA_Q | LORA_O, false}},
};

// Options that change the computation but not the result; a method uses those that it has.
static const struct variant {
    const char *option, *value; // NULL: none
} variants[] = {{NULL, NULL}, {"keep", "all"}, {"inner", "checkpoint"}, {"attention", "kept"}, {"head_chunk", "3"}};

struct verify_bounds verify_bounds(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F64:
        return (struct verify_bounds){1e-13, 1e-12};
    case DTYPE_F32:
        return (struct verify_bounds){1e-5, INFINITY};
    default:
        return (struct verify_bounds){3e-2, INFINITY};
    }
}

static bool is_of_other_model(const struct shape *shape)
{
    return shape->family || shape->kv_heads || shape->tied || shape->qkv_bias || shape->qk_norm || shape->scaled ||
           shape->lora.rank;
}

static struct config config_of(const struct shape *shape)
{
    struct config config = small;
    if (shape->kv_heads)
        config.kinds[0].kv_heads = shape->kv_heads;
    config.tied = shape->tied;
    config.qkv_bias = shape->qkv_bias;
    config.qk_norm = shape->qk_norm;
    if (shape->scaled)
        config.kinds[0].rope_scaling =
            (struct rope_scaling){.factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 16};
    if (shape->family)
        shape->family(&config);
    return config;
}

// A file in memory with labels, sequence-major, and its path. Masked: the second chunk of every sequence has no
// targets, and later chunks start with a token without one.
static int labels_file(const struct shape *shape, size_t vocab, char *path, size_t path_bytes)
{
    int file = io_memory_file("labels");
    CHECK(file >= 0);
    for (size_t i = 0; i < shape->context * shape->batch; i++) {
        size_t t = i % shape->context, chunk = t / shape->chunk;
        bool masked = shape->labels == LABELS_MASKED && (chunk == 1 || (chunk > 1 && t % shape->chunk == 0));
        int32_t label = masked ? NO_TARGET : (int32_t)((7 * i + 3) % vocab);
        CHECK(io_write(file, &label, sizeof label));
    }
    snprintf(path, path_bytes, "/proc/self/fd/%d", file);
    return file;
}

// The variant's options; NULL if the method lacks the option.
static void *options_of(const struct method *method, const struct shape *shape, const struct variant *variant)
{
    void *options = options_new(&method->options);
    char chunk[24];
    snprintf(chunk, sizeof chunk, "%zu", shape->chunk);
    options_set(&method->options, options, "chunk", chunk);
    if (method->make_exact)
        method->make_exact(options, shape->context);
    if (variant->option && !options_set(&method->options, options, variant->option, variant->value)) {
        options_free(&method->options, options);
        return NULL;
    }
    return options;
}

static void verify_one(struct verify_case *result, const struct trial *trial, const struct reference *reference)
{
    struct verify_bounds bounds = verify_bounds(trial->dtype);
    struct setup setup;
    struct status status = {0};
    struct setup_options options = setup_options_of(trial);
    struct step_report report = {0};
    if (setup_open(&setup, trial, &options, &status)) {
        struct training_step step = setup_step(&setup, trial);
        training_step_take(&step, &report);
        status = setup.device->status;
    }
    if (status.code == STATUS_OK) {
        struct gradient_set set;
        struct gradient_report errors;
        gradient_set_take(&set, &setup.model);
        gradient_compare(&errors, &set, &reference->gradients);
        result->error = errors.overall;
        // A wrong loss is an error as well.
        double loss_error = fabs(report.sums.loss - reference->loss) / fmax(1, fabs(reference->loss));
        result->good = errors.overall.relative_l2 <= bounds.relative_l2 && errors.overall.max_abs <= bounds.max_abs;
        if (!(loss_error <= bounds.relative_l2)) {
            result->good = false;
            snprintf(result->reason, sizeof result->reason, "loss %.17g, reference %.17g", report.sums.loss,
                     reference->loss);
        }
        gradient_report_free(&errors);
        gradient_set_free(&set);
    } else {
        snprintf(result->reason, sizeof result->reason, "%.250s", status.message);
    }
    setup_close(&setup);
    step_report_free(&report);
}

static bool verify_shape(const struct verify_request *request, const struct shape *shape,
                         void (*found)(const struct verify_case *result, void *context), void *context,
                         struct status *status)
{
    char labels[64], *folder = (char *)request->folder;
    struct reference reference;
    const struct trial *like = request->like;
    struct trial *trial = calloc(1, sizeof *trial);
    struct status odd = {0};
    *trial = (struct trial){.config = request->config ? *request->config : config_of(shape),
                            .model_folder = folder,
                            .dtype = request->dtype,
                            .kv_gradient_dtype = request->kv_gradient_dtype,
                            .kv_gradient_stochastic = request->kv_gradient_stochastic,
                            .gradient_dtype = request->gradient_dtype,
                            .context = shape->context,
                            .batch = shape->batch,
                            .seed = 1,
                            .data = like->data,
                            .objective = like->objective,
                            .objective_options = like->objective_options,
                            .reference = like->reference,
                            .lora = shape->lora.rank ? shape->lora : like->lora,
                            .adapter_folder = like->adapter_folder};
    if (!objective_check(like->objective, like->objective_options, trial->batch, 1, &odd))
        trial->batch++; // for pairs
    snprintf(trial->device, sizeof trial->device, "%s", request->device);
    int labels_fd = shape->labels ? labels_file(shape, trial->config.vocab, labels, sizeof labels) : -1;
    trial->labels = labels_fd >= 0 ? labels : NULL;
    bool taken = reference_take(&reference, trial, NULL, status);
    for (size_t i = 0; taken && methods[i]; i++) {
        trial->method = methods[i];
        if (!trial->method->exact && !trial->method->make_exact)
            continue;
        for (size_t j = 0; j < sizeof variants / sizeof *variants; j++) {
            struct verify_case result = {.method = trial->method};
            trial->options = options_of(trial->method, shape, &variants[j]);
            if (!trial->options)
                continue;
            snprintf(result.shape, sizeof result.shape, "%s: T=%zu C=%zu B=%zu", shape->name, shape->context,
                     shape->chunk, trial->batch);
            if (variants[j].option)
                snprintf(result.options, sizeof result.options, "%s=%s", variants[j].option, variants[j].value);
            verify_one(&result, trial, &reference);
            options_free(&trial->method->options, trial->options);
            found(&result, context);
        }
    }
    reference_free(&reference);
    if (labels_fd >= 0)
        close(labels_fd);
    free(trial); // its other members are borrowed
    return taken;
}

bool verify(const struct verify_request *request, void (*found)(const struct verify_case *result, void *context),
            void *context, struct status *status)
{
    const struct trial *like = request->like;
    bool any = like->data.kind == DATA_BATCH;
    if (any) {
        struct shape shape = {
            .name = "batch file", .context = like->context, .chunk = (like->context + 2) / 3, .batch = like->batch};
        return verify_shape(request, &shape, found, context, status);
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if ((request->config && is_of_other_model(&shapes[i])) ||
            (request->shape && !strstr(shapes[i].name, request->shape)))
            continue;
        any = true;
        if (!verify_shape(request, &shapes[i], found, context, status))
            return false;
    }
    return any || status_set(status, STATUS_BAD_INPUT, "no shape has \"%s\" in its name; the first is \"%s\"",
                             request->shape, shapes[0].name);
}
