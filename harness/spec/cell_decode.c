// Defaults: dtype "f32", device "cpu", profile null, batch 1, seed 1, data "random", labels null, lora null (or
// rank 8, alpha 16, targets q and v), optimizer null (or adamw, rate 1e-4, decay 0.01), gradient dtypes f32 for
// bf16 and else the dtype, deterministic, tf32 and whole_attention false, measure {1 warm-up, 5 samples, 60
// seconds, gradient "full-f64"}, limits {memory null}; options: methods/options.c.
#define XXH_INLINE_ALL
#include "harness/spec/cell_decode.h"
#include "harness/files/size.h"
#include "harness/spec/config_decode.h"
#include <string.h>
#include <xxhash.h>

#define CONTEXT_MAX ((size_t)INT32_MAX) // token positions are i32 on devices
#define BATCH_MAX   ((size_t)1 << 20)
#define SAMPLES_MAX ((size_t)100000)

const char *const cell_key_names[CELL_KEYS + 1] = {
    [CELL_MODEL] = "model",
    [CELL_DTYPE] = "dtype",
    [CELL_DEVICE] = "device",
    [CELL_PROFILE] = "profile",
    [CELL_BATCH] = "batch",
    [CELL_CONTEXT] = "context",
    [CELL_SEED] = "seed",
    [CELL_DATA] = "data",
    [CELL_LABELS] = "labels",
    [CELL_LORA] = "lora",
    [CELL_OPTIMIZER] = "optimizer",
    [CELL_KV_GRADIENT_DTYPE] = "kv_gradient_dtype",
    [CELL_GRADIENT_DTYPE] = "gradient_dtype",
    [CELL_DETERMINISTIC] = "deterministic",
    [CELL_TF32] = "tf32",
    [CELL_WHOLE_ATTENTION] = "whole_attention",
    [CELL_METHOD] = "method",
    [CELL_MEASURE] = "measure",
    [CELL_LIMITS] = "limits",
};

static char *copy_text(const char *text)
{
    char *copy = strdup(text);
    CHECK(copy);
    return copy;
}

// --- one function per key: it reads the field, checks it against the keys before, sets the cell, and returns the
// value with its defaults spelled out, or NULL after a failure.

static json_t *decode_model(struct cell *cell, struct json_field field, struct status *status)
{
    json_t *canonical;
    return config_decode(field, &cell->config, &cell->model_folder, &canonical, status) ? canonical : NULL;
}

static json_t *decode_dtype(struct cell *cell, struct json_field field, struct status *status)
{
    static const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    struct names names = {0};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        names_add(&names, dtype_name(dtypes[i]));
    size_t index = 1;
    if (!json_field_choice(field, &names, "dtype", &index, status))
        return NULL;
    cell->dtype = dtypes[index];
    return json_string(dtype_name(cell->dtype));
}

// "cuda:1"; "cuda:0" is "cuda". How many cards there are, only the machine that opens the device knows.
static json_t *decode_numbered_device(struct cell *cell, struct json_field field, const char *name,
                                      struct status *status)
{
    struct device_name parsed;
    struct status why = {0};
    if (!device_name_parse(&parsed, name, &why)) {
        json_field_fail(field, status, "%s", why.message);
        return NULL;
    }
    snprintf(cell->device, sizeof cell->device, "%s", parsed.card ? name : parsed.device);
    return json_string(cell->device);
}

static json_t *decode_device(struct cell *cell, struct json_field field, struct status *status)
{
    // A device this program was built without is still a device: its cells end as `unsupported`.
    struct names names = {3, {"cpu", "cuda", "plan"}};
    for (size_t i = 0; device_names()[i]; i++) {
        if (names_find(&names, device_names()[i]) == names.count)
            names_add(&names, device_names()[i]);
    }
    size_t index = 0;
    const char *numbered = json_string_value(field.value);
    if (numbered && strchr(numbered, ':'))
        return decode_numbered_device(cell, field, numbered, status);
    if (!json_field_choice(field, &names, "device", &index, status))
        return NULL;
    const char *name = names.items[index];
    if (!strcmp(name, "plan")) // like the device that the dtype is for
        name = cell->dtype == DTYPE_BF16 ? "plan-cuda" : "plan-cpu";
    snprintf(cell->device, sizeof cell->device, "%s", name);
    cell->planned = cell_plans_on(name);
    return json_string(name);
}

static json_t *decode_profile(struct cell *cell, struct json_field field, struct status *status)
{
    const char *name = NULL;
    struct roofline roofline;
    struct status why = {0};
    if (!json_field_given(field))
        return json_null();
    if (!json_field_text(field, "null, or the name or path of a device profile", &name, status))
        return NULL;
    cell->profile = calloc(1, sizeof *cell->profile);
    CHECK(cell->profile);
    if (!profile_load(cell->profile, name, &why) ||
        !profile_roofline(cell->profile, cell->dtype, &roofline, &why)) {
        json_field_fail(field, status, "%s", why.message);
        return NULL;
    }
    return json_string(name);
}

static json_t *decode_batch(struct cell *cell, struct json_field field, struct status *status)
{
    cell->batch = 1;
    if (!json_field_count(field, 1, BATCH_MAX, " of sequences", &cell->batch, status))
        return NULL;
    return json_integer((json_int_t)cell->batch);
}

static json_t *decode_context(struct cell *cell, struct json_field field, struct status *status)
{
    if (!field.value) {
        json_field_fail(field, status, "missing; expected a whole number of tokens >= 1");
        return NULL;
    }
    if (!json_field_count(field, 1, CONTEXT_MAX, " of tokens", &cell->context, status))
        return NULL;
    return json_integer((json_int_t)cell->context);
}

static json_t *decode_seed(struct cell *cell, struct json_field field, struct status *status)
{
    size_t seed = 1;
    if (!json_field_count(field, 0, JSON_INTEGER_MAX, "", &seed, status))
        return NULL;
    cell->seed = seed;
    return json_integer((json_int_t)seed);
}

static json_t *decode_text(struct cell *cell, struct json_field field, struct status *status)
{
    const char *path = NULL;
    if (!json_field_text(json_field_get(field, "text"), "the path of a text file", &path, status))
        return NULL;
    if (cell->config.vocab < 256) {
        json_field_fail(field, status,
                        "text is read as bytes, which needs a vocabulary of at least 256; the model has %zu",
                        cell->config.vocab);
        return NULL;
    }
    cell->data = (struct data_source){DATA_BYTES, copy_text(path)};
    return json_pack("{s:s}", "text", path);
}

static json_t *decode_tokens(struct cell *cell, struct json_field field, struct status *status)
{
    static const struct names dtypes = {2, {"u16", "u32"}};
    const char *path = NULL;
    size_t index = 0;
    if (!json_field_text(json_field_get(field, "tokens"), "the path of a file of token ids", &path, status) ||
        !json_field_choice(json_field_get(field, "dtype"), &dtypes, "dtype of tokens", &index, status))
        return NULL;
    cell->data = (struct data_source){index == 0 ? DATA_U16 : DATA_U32, copy_text(path)};
    return json_pack("{s:s, s:s}", "tokens", path, "dtype", dtypes.items[index]);
}

static json_t *decode_data(struct cell *cell, struct json_field field, struct status *status)
{
    static const struct names keys = {3, {"text", "tokens", "dtype"}};
    const char *name = json_string_value(field.value);
    if (!field.value || (name && !strcmp(name, "random")))
        return json_string("random");
    if (!json_is_object(field.value)) {
        json_field_expected(field, status,
                            "\"random\", {\"text\": PATH} or {\"tokens\": PATH, \"dtype\": \"u16\"}");
        return NULL;
    }
    if (!json_field_object(field, &keys, "data", status))
        return NULL;
    bool text = json_field_get(field, "text").value, tokens = json_field_get(field, "tokens").value;
    if (text == tokens || (text && json_field_get(field, "dtype").value)) {
        json_field_fail(field, status,
                        "expected either {\"text\": PATH} or {\"tokens\": PATH, \"dtype\": \"u16\"}");
        return NULL;
    }
    return text ? decode_text(cell, field, status) : decode_tokens(cell, field, status);
}

static json_t *decode_labels(struct cell *cell, struct json_field field, struct status *status)
{
    const char *path = NULL;
    if (!json_field_given(field))
        return json_null();
    if (!json_field_text(field, "null or the path of a file of labels", &path, status))
        return NULL;
    cell->labels = copy_text(path);
    return json_string(path);
}

static bool read_targets(struct json_field field, unsigned *targets, struct status *status)
{
    struct names names = {0};
    for (size_t i = 0; i < LORA_TARGETS; i++)
        names_add(&names, lora_target_names[i]);
    if (!field.value)
        return true;
    if (!json_is_array(field.value) || json_array_size(field.value) == 0)
        return json_field_expected(field, status, "a list of projections, such as [\"q\", \"v\"]");
    *targets = 0;
    for (size_t i = 0; i < json_array_size(field.value); i++) {
        struct json_field item = json_field_at(field, i);
        size_t index = 0;
        if (!json_field_choice(item, &names, "projection", &index, status))
            return false;
        if (*targets & 1u << index)
            return json_field_fail(item, status, "\"%s\" is given twice", names.items[index]);
        *targets |= 1u << index;
    }
    return true;
}

static json_t *decode_lora(struct cell *cell, struct json_field field, struct status *status)
{
    static const struct names keys = {3, {"rank", "alpha", "targets"}};
    struct lora lora = {8, 16, LORA_Q | LORA_V};
    if (!json_field_given(field))
        return json_null();
    if (!json_field_object(field, &keys, "lora", status) ||
        !json_field_count(json_field_get(field, "rank"), 1, cell->config.width, "", &lora.rank, status) ||
        !json_field_number(json_field_get(field, "alpha"), 1e-6, 1e6, &lora.alpha, status) ||
        !read_targets(json_field_get(field, "targets"), &lora.targets, status))
        return NULL;
    cell->lora = lora;
    json_t *targets = json_array();
    for (size_t i = 0; i < LORA_TARGETS; i++) {
        if (lora.targets & 1u << i)
            json_array_append_new(targets, json_string(lora_target_names[i]));
    }
    return json_pack("{s:I, s:f, s:o}", "rank", (json_int_t)lora.rank, "alpha", lora.alpha, "targets", targets);
}

static json_t *decode_optimizer(struct cell *cell, struct json_field field, struct status *status)
{
    static const struct names keys = {3, {"name", "rate", "decay"}};
    struct names known = {0};
    struct optimizer_settings *settings = &cell->optimizer_settings;
    if (!json_field_given(field))
        return json_null();
    struct json_field name = field;
    size_t index = 0;
    if (!json_is_string(field.value)) {
        if (!json_field_object(field, &keys, "optimizer", status))
            return NULL;
        name = json_field_get(field, "name");
    }
    for (size_t i = 0; optimizers[i]; i++)
        names_add(&known, optimizers[i]->name);
    if (!json_field_choice(name, &known, "optimizer", &index, status))
        return NULL;
    *settings = optimizers[index]->initial;
    if (!json_field_number(json_field_get(field, "rate"), 0, 1e6, &settings->rate, status) ||
        !json_field_number(json_field_get(field, "decay"), 0, 1e6, &settings->decay, status))
        return NULL;
    cell->optimizer = optimizers[index];
    return json_pack("{s:s, s:f, s:f}", "name", cell->optimizer->name, "rate", settings->rate, "decay",
                     settings->decay);
}

// Sums are kept in the dtype of the model, or above bf16 in f32.
static json_t *decode_accumulator(enum dtype model, enum dtype *dtype, struct json_field field,
                                  struct status *status)
{
    struct names names = {0};
    names_add(&names, dtype_name(model == DTYPE_BF16 ? DTYPE_F32 : model));
    if (model == DTYPE_BF16)
        names_add(&names, dtype_name(DTYPE_BF16));
    char kind[64];
    snprintf(kind, sizeof kind, "accumulator of a model in %s:", dtype_name(model));
    size_t index = 0;
    if (!json_field_choice(field, &names, kind, &index, status))
        return NULL;
    CHECK(dtype_from_name(names.items[index], dtype));
    return json_string(names.items[index]);
}

static json_t *decode_kv_gradient_dtype(struct cell *cell, struct json_field field, struct status *status)
{
    return decode_accumulator(cell->dtype, &cell->kv_gradient_dtype, field, status);
}

static json_t *decode_gradient_dtype(struct cell *cell, struct json_field field, struct status *status)
{
    return decode_accumulator(cell->dtype, &cell->gradient_dtype, field, status);
}

static json_t *decode_deterministic(struct cell *cell, struct json_field field, struct status *status)
{
    return json_field_bool(field, &cell->deterministic, status) ? json_boolean(cell->deterministic) : NULL;
}

static json_t *decode_tf32(struct cell *cell, struct json_field field, struct status *status)
{
    return json_field_bool(field, &cell->tf32, status) ? json_boolean(cell->tf32) : NULL;
}

static json_t *decode_whole_attention(struct cell *cell, struct json_field field, struct status *status)
{
    return json_field_bool(field, &cell->whole_attention, status) ? json_boolean(cell->whole_attention) : NULL;
}

static json_t *decode_measure(struct cell *cell, struct json_field field, struct status *status)
{
    static const struct names keys = {
        8, {"warmup", "samples", "max_seconds", "gradient", "timeline", "gemm", "bias", "categories"}};
    static const struct names checks = {2, {"none", "full-f64"}};
    struct measure *measure = &cell->measure;
    *measure = (struct measure){.warmup = 1, .samples = 5, .max_seconds = 60};
    size_t check = GRADIENT_FULL_F64;
    if (field.value &&
        (!json_field_object(field, &keys, "measure", status) ||
         !json_field_count(json_field_get(field, "warmup"), 0, SAMPLES_MAX, " of steps", &measure->warmup,
                           status) ||
         !json_field_count(json_field_get(field, "samples"), 1, SAMPLES_MAX, " of steps", &measure->samples,
                           status) ||
         !json_field_number(json_field_get(field, "max_seconds"), 0, 1e9, &measure->max_seconds, status) ||
         !json_field_choice(json_field_get(field, "gradient"), &checks, "gradient check", &check, status) ||
         !json_field_bool(json_field_get(field, "timeline"), &measure->timeline, status) ||
         !json_field_bool(json_field_get(field, "gemm"), &measure->gemm, status) ||
         !json_field_bool(json_field_get(field, "bias"), &measure->bias, status) ||
         !json_field_bool(json_field_get(field, "categories"), &measure->categories, status)))
        return NULL;
    // What a cell cannot have is left out, rather than refused, so that one spec serves all devices and methods: a
    // plan is one step without a gradient, and only a sampled gradient has a bias.
    if (cell->planned) {
        measure->warmup = 0;
        measure->samples = 1;
    }
    measure->gradient = cell->planned ? GRADIENT_NONE : (enum gradient_check)check;
    measure->gemm = measure->gemm && !cell->planned;
    measure->bias = measure->bias && !cell->planned && method_knows(cell->method, "sampler");
    json_t *canonical =
        json_pack("{s:I, s:I, s:f, s:s, s:b, s:b}", "warmup", (json_int_t)measure->warmup, "samples",
                  (json_int_t)measure->samples, "max_seconds", measure->max_seconds, "gradient",
                  checks.items[measure->gradient], "timeline", measure->timeline, "bias", measure->bias);
    // These came later than the others: without them a cell's id is what it was.
    if (measure->gemm)
        json_object_set_new(canonical, "gemm", json_true());
    if (measure->categories)
        json_object_set_new(canonical, "categories", json_true());
    return canonical;
}

static json_t *decode_limits(struct cell *cell, struct json_field field, struct status *status)
{
    static const struct names keys = {1, {"memory"}};
    if (field.value && !json_field_object(field, &keys, "limits", status))
        return NULL;
    struct json_field memory = json_field_get(field, "memory");
    if (!json_field_given(memory))
        return json_pack("{s:n}", "memory");
    size_t *bytes = &cell->memory_limit_bytes;
    if (json_is_string(memory.value)) {
        if (!size_parse(json_string_value(memory.value), bytes)) {
            json_field_expected(memory, status, SIZE_EXPECTED);
            return NULL;
        }
    } else if (!json_field_count(memory, 1, JSON_INTEGER_MAX, " of bytes", bytes, status)) {
        return NULL;
    }
    return json_pack("{s:I}", "memory", (json_int_t)*bytes);
}

typedef json_t *decode_key(struct cell *cell, struct json_field field, struct status *status);
static decode_key *const decoders[CELL_KEYS] = {
    [CELL_MODEL] = decode_model,
    [CELL_DTYPE] = decode_dtype,
    [CELL_DEVICE] = decode_device,
    [CELL_PROFILE] = decode_profile,
    [CELL_BATCH] = decode_batch,
    [CELL_CONTEXT] = decode_context,
    [CELL_SEED] = decode_seed,
    [CELL_DATA] = decode_data,
    [CELL_LABELS] = decode_labels,
    [CELL_LORA] = decode_lora,
    [CELL_OPTIMIZER] = decode_optimizer,
    [CELL_KV_GRADIENT_DTYPE] = decode_kv_gradient_dtype,
    [CELL_GRADIENT_DTYPE] = decode_gradient_dtype,
    [CELL_DETERMINISTIC] = decode_deterministic,
    [CELL_TF32] = decode_tf32,
    [CELL_WHOLE_ATTENTION] = decode_whole_attention,
    [CELL_METHOD] = NULL, // method_decode
    [CELL_MEASURE] = decode_measure,
    [CELL_LIMITS] = decode_limits,
};

static void set_id(struct cell *cell)
{
    XXH128_canonical_t hash;
    XXH128_canonicalFromHash(&hash, XXH3_128bits(cell->canonical, strlen(cell->canonical)));
    for (size_t i = 0; i < sizeof hash.digest; i++)
        snprintf(cell->id + 2 * i, 3, "%02x", hash.digest[i]);
}

// Later than the others: without its value a cell's id is what it was.
static bool came_later(enum cell_key key)
{
    return key == CELL_PROFILE || key == CELL_DETERMINISTIC || key == CELL_TF32 || key == CELL_WHOLE_ATTENTION;
}

bool cell_decode_fields(struct cell *cell, const struct cell_fields *fields, struct status *status)
{
    *cell = (struct cell){0};
    json_t *canonical = json_object();
    bool ok = true;
    for (size_t i = 0; ok && i < CELL_KEYS; i++) {
        json_t *value = NULL;
        if (i == CELL_METHOD) {
            cell->method = fields->method.method;
            ok = method_decode(&fields->method, cell->context, &cell->options, &value, status);
        } else {
            value = decoders[i](cell, fields->keys[i], status);
            ok = value != NULL;
        }
        if (came_later((enum cell_key)i) && (json_is_null(value) || json_is_false(value)))
            json_decref(value);
        else
            json_object_set_new(canonical, cell_key_names[i], value);
    }
    if (ok) {
        cell->canonical = json_dumps(canonical, JSON_COMPACT | JSON_SORT_KEYS);
        CHECK(cell->canonical);
        set_id(cell);
    }
    json_decref(canonical);
    return ok;
}

bool cell_decode(struct cell *cell, const char *json, const char *origin, struct status *status)
{
    *cell = (struct cell){0};
    struct json_source source;
    struct cell_fields fields;
    struct names known = {0};
    names_add_all(&known, cell_key_names);
    bool ok = json_source_parse(&source, origin, json, strlen(json), status);
    struct json_field root = json_field_root(&source);
    ok = ok && json_field_object(root, &known, NULL, status);
    for (size_t i = 0; ok && i < CELL_KEYS; i++)
        fields.keys[i] = json_field_get(root, cell_key_names[i]);
    ok = ok && method_fields_read(&fields.method, fields.keys[CELL_METHOD], status) &&
         cell_decode_fields(cell, &fields, status);
    json_source_close(&source);
    return ok;
}

bool cell_plans_on(const char *device)
{
    return !strncmp(device, "plan", 4);
}

void cell_free(struct cell *cell)
{
    free(cell->canonical);
    free(cell->profile);
    free(cell->model_folder);
    free(cell->data.path);
    free(cell->labels);
    *cell = (struct cell){0};
}
