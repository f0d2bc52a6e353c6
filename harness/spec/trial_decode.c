// Defaults: dtype "f32", device "cpu", profile null, batch 1, seed 1, data "random", labels null, objective
// "token-mean", row_weights null, lora null (or rank 8, alpha 16, targets q and v), optimizer null (or adamw, rate
// 1e-4, decay 0.01), gradient dtypes f32 for bf16 and else the dtype, deterministic, tf32 and whole_attention
// false, measure {1 warm-up, 5 samples, 60 seconds, gradient "full-f64"}, limits {memory null}; options:
// methods/options.c.
#define XXH_INLINE_ALL
#include "harness/spec/trial_decode.h"
#include "harness/files/size.h"
#include "harness/spec/config_decode.h"
#include <string.h>
#include <xxhash.h>

#define CONTEXT_MAX ((size_t)INT32_MAX) // token positions are i32 on devices
#define BATCH_MAX   ((size_t)1 << 20)
#define SAMPLES_MAX ((size_t)100000)

const char *const trial_key_names[TRIAL_KEYS + 1] = {
    [TRIAL_MODEL] = "model",
    [TRIAL_DTYPE] = "dtype",
    [TRIAL_DEVICE] = "device",
    [TRIAL_PROFILE] = "profile",
    [TRIAL_BATCH] = "batch",
    [TRIAL_CONTEXT] = "context",
    [TRIAL_SEED] = "seed",
    [TRIAL_DATA] = "data",
    [TRIAL_LABELS] = "labels",
    [TRIAL_OBJECTIVE] = "objective",
    [TRIAL_ROW_WEIGHTS] = "row_weights",
    [TRIAL_LORA] = "lora",
    [TRIAL_OPTIMIZER] = "optimizer",
    [TRIAL_KV_GRADIENT_DTYPE] = "kv_gradient_dtype",
    [TRIAL_GRADIENT_DTYPE] = "gradient_dtype",
    [TRIAL_DETERMINISTIC] = "deterministic",
    [TRIAL_TF32] = "tf32",
    [TRIAL_WHOLE_ATTENTION] = "whole_attention",
    [TRIAL_METHOD] = "method",
    [TRIAL_MEASURE] = "measure",
    [TRIAL_LIMITS] = "limits",
};

static char *copy_text(const char *text)
{
    char *copy = strdup(text);
    CHECK(copy);
    return copy;
}

// --- one function per key: it reads the field, checks it against the keys before, sets the trial, and returns the
// value with its defaults spelled out, or NULL after a failure.

static json_t *decode_model(struct trial *trial, struct json_field field, struct status *status)
{
    json_t *canonical;
    return config_decode(field, &trial->config, &trial->model_folder, &canonical, status) ? canonical : NULL;
}

static json_t *decode_dtype(struct trial *trial, struct json_field field, struct status *status)
{
    static const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    struct names names = {0};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        names_add(&names, dtype_name(dtypes[i]));
    size_t index = 1;
    if (!json_field_choice(field, &names, "dtype", &index, status))
        return NULL;
    trial->dtype = dtypes[index];
    return json_string(dtype_name(trial->dtype));
}

// "cuda:1"; "cuda:0" is "cuda". How many cards there are, only the machine that opens the device knows.
static json_t *decode_numbered_device(struct trial *trial, struct json_field field, const char *name,
                                      struct status *status)
{
    struct device_name parsed;
    struct status why = {0};
    if (!device_name_parse(&parsed, name, &why)) {
        json_field_fail(field, status, "%s", why.message);
        return NULL;
    }
    snprintf(trial->device, sizeof trial->device, "%s", parsed.card ? name : parsed.device);
    return json_string(trial->device);
}

static json_t *decode_device(struct trial *trial, struct json_field field, struct status *status)
{
    // A device this program was built without is still a device: its trials end as `unsupported`.
    struct names names = {3, {"cpu", "cuda", "plan"}};
    for (size_t i = 0; device_names()[i]; i++) {
        if (names_find(&names, device_names()[i]) == names.count)
            names_add(&names, device_names()[i]);
    }
    size_t index = 0;
    const char *numbered = json_string_value(field.value);
    if (numbered && strchr(numbered, ':'))
        return decode_numbered_device(trial, field, numbered, status);
    if (!json_field_choice(field, &names, "device", &index, status))
        return NULL;
    const char *name = names.items[index];
    if (!strcmp(name, "plan")) // like the device that the dtype is for
        name = trial->dtype == DTYPE_BF16 ? "plan-cuda" : "plan-cpu";
    snprintf(trial->device, sizeof trial->device, "%s", name);
    trial->planned = trial_plans_on(name);
    return json_string(name);
}

static json_t *decode_profile(struct trial *trial, struct json_field field, struct status *status)
{
    const char *name = NULL;
    struct roofline roofline;
    struct status why = {0};
    if (!json_field_given(field))
        return json_null();
    if (!json_field_text(field, "null, or the name or path of a device profile", &name, status))
        return NULL;
    trial->profile = calloc(1, sizeof *trial->profile);
    CHECK(trial->profile);
    if (!profile_load(trial->profile, name, &why) ||
        !profile_roofline(trial->profile, trial->dtype, &roofline, &why)) {
        json_field_fail(field, status, "%s", why.message);
        return NULL;
    }
    return json_string(name);
}

static json_t *decode_batch(struct trial *trial, struct json_field field, struct status *status)
{
    trial->batch = 1;
    if (!json_field_count(field, 1, BATCH_MAX, " of sequences", &trial->batch, status))
        return NULL;
    return json_integer((json_int_t)trial->batch);
}

static json_t *decode_context(struct trial *trial, struct json_field field, struct status *status)
{
    if (!field.value) {
        json_field_fail(field, status, "missing; expected a whole number of tokens >= 1");
        return NULL;
    }
    if (!json_field_count(field, 1, CONTEXT_MAX, " of tokens", &trial->context, status))
        return NULL;
    return json_integer((json_int_t)trial->context);
}

static json_t *decode_seed(struct trial *trial, struct json_field field, struct status *status)
{
    size_t seed = 1;
    if (!json_field_count(field, 0, JSON_INTEGER_MAX, "", &seed, status))
        return NULL;
    trial->seed = seed;
    return json_integer((json_int_t)seed);
}

static json_t *decode_text(struct trial *trial, struct json_field field, struct status *status)
{
    const char *path = NULL;
    if (!json_field_text(json_field_get(field, "text"), "the path of a text file", &path, status))
        return NULL;
    if (trial->config.vocab < 256) {
        json_field_fail(field, status,
                        "text is read as bytes, which needs a vocabulary of at least 256; the model has %zu",
                        trial->config.vocab);
        return NULL;
    }
    trial->data = (struct data_source){DATA_BYTES, copy_text(path)};
    return json_pack("{s:s}", "text", path);
}

static json_t *decode_tokens(struct trial *trial, struct json_field field, struct status *status)
{
    static const struct names dtypes = {2, {"u16", "u32"}};
    const char *path = NULL;
    size_t index = 0;
    if (!json_field_text(json_field_get(field, "tokens"), "the path of a file of token ids", &path, status) ||
        !json_field_choice(json_field_get(field, "dtype"), &dtypes, "dtype of tokens", &index, status))
        return NULL;
    trial->data = (struct data_source){index == 0 ? DATA_U16 : DATA_U32, copy_text(path)};
    return json_pack("{s:s, s:s}", "tokens", path, "dtype", dtypes.items[index]);
}

static json_t *decode_data(struct trial *trial, struct json_field field, struct status *status)
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
    return text ? decode_text(trial, field, status) : decode_tokens(trial, field, status);
}

static json_t *decode_labels(struct trial *trial, struct json_field field, struct status *status)
{
    const char *path = NULL;
    if (!json_field_given(field))
        return json_null();
    if (!json_field_text(field, "null or the path of a file of labels", &path, status))
        return NULL;
    trial->labels = copy_text(path);
    return json_string(path);
}

static json_t *decode_objective(struct trial *trial, struct json_field field, struct status *status)
{
    struct names names = {0};
    size_t index = 0;
    for (size_t i = 0; objectives[i]; i++)
        names_add(&names, objectives[i]->name);
    if (!json_field_choice(field, &names, "objective", &index, status))
        return NULL;
    trial->objective = objectives[index];
    return json_string(trial->objective->name);
}

static json_t *decode_row_weights(struct trial *trial, struct json_field field, struct status *status)
{
    const char *path = NULL;
    // Left out rather than refused where it means nothing, so that one spec serves all objectives and devices.
    if (trial->planned || trial->objective->averaging != MEAN_BY_WEIGHT)
        return json_null();
    if (!json_field_given(field)) {
        json_field_fail(field, status,
                        "missing; objective \"%s\" needs the path of a file with a weight for every token",
                        trial->objective->name);
        return NULL;
    }
    if (!json_field_text(field, "the path of a file of weights", &path, status))
        return NULL;
    trial->row_weights = copy_text(path);
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

static json_t *decode_lora(struct trial *trial, struct json_field field, struct status *status)
{
    static const struct names keys = {3, {"rank", "alpha", "targets"}};
    struct lora lora = {8, 16, LORA_Q | LORA_V};
    if (!json_field_given(field))
        return json_null();
    if (!json_field_object(field, &keys, "lora", status) ||
        !json_field_count(json_field_get(field, "rank"), 1, trial->config.width, "", &lora.rank, status) ||
        !json_field_number(json_field_get(field, "alpha"), 1e-6, 1e6, &lora.alpha, status) ||
        !read_targets(json_field_get(field, "targets"), &lora.targets, status))
        return NULL;
    trial->lora = lora;
    json_t *targets = json_array();
    for (size_t i = 0; i < LORA_TARGETS; i++) {
        if (lora.targets & 1u << i)
            json_array_append_new(targets, json_string(lora_target_names[i]));
    }
    return json_pack("{s:I, s:f, s:o}", "rank", (json_int_t)lora.rank, "alpha", lora.alpha, "targets", targets);
}

static json_t *decode_optimizer(struct trial *trial, struct json_field field, struct status *status)
{
    static const struct names keys = {3, {"name", "rate", "decay"}};
    struct names known = {0};
    struct optimizer_settings *settings = &trial->optimizer_settings;
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
    trial->optimizer = optimizers[index];
    return json_pack("{s:s, s:f, s:f}", "name", trial->optimizer->name, "rate", settings->rate, "decay",
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

static json_t *decode_kv_gradient_dtype(struct trial *trial, struct json_field field, struct status *status)
{
    return decode_accumulator(trial->dtype, &trial->kv_gradient_dtype, field, status);
}

static json_t *decode_gradient_dtype(struct trial *trial, struct json_field field, struct status *status)
{
    return decode_accumulator(trial->dtype, &trial->gradient_dtype, field, status);
}

static json_t *decode_deterministic(struct trial *trial, struct json_field field, struct status *status)
{
    return json_field_bool(field, &trial->deterministic, status) ? json_boolean(trial->deterministic) : NULL;
}

static json_t *decode_tf32(struct trial *trial, struct json_field field, struct status *status)
{
    return json_field_bool(field, &trial->tf32, status) ? json_boolean(trial->tf32) : NULL;
}

static json_t *decode_whole_attention(struct trial *trial, struct json_field field, struct status *status)
{
    return json_field_bool(field, &trial->whole_attention, status) ? json_boolean(trial->whole_attention) : NULL;
}

static json_t *decode_measure(struct trial *trial, struct json_field field, struct status *status)
{
    static const struct names keys = {
        8, {"warmup", "samples", "max_seconds", "gradient", "timeline", "gemm", "bias", "categories"}};
    static const struct names checks = {2, {"none", "full-f64"}};
    struct measure *measure = &trial->measure;
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
    // What a trial cannot have is left out, rather than refused, so that one spec serves all devices and methods: a
    // plan is one step without a gradient, and only a sampled gradient has a bias.
    if (trial->planned) {
        measure->warmup = 0;
        measure->samples = 1;
    }
    measure->gradient = trial->planned ? GRADIENT_NONE : (enum gradient_check)check;
    measure->gemm = measure->gemm && !trial->planned;
    measure->bias = measure->bias && !trial->planned && trial->method->each_draw;
    return json_pack("{s:I, s:I, s:f, s:s, s:b, s:b, s:b, s:b}", "warmup", (json_int_t)measure->warmup, "samples",
                     (json_int_t)measure->samples, "max_seconds", measure->max_seconds, "gradient",
                     checks.items[measure->gradient], "timeline", measure->timeline, "bias", measure->bias, "gemm",
                     measure->gemm, "categories", measure->categories);
}

static json_t *decode_limits(struct trial *trial, struct json_field field, struct status *status)
{
    static const struct names keys = {1, {"memory"}};
    if (field.value && !json_field_object(field, &keys, "limits", status))
        return NULL;
    struct json_field memory = json_field_get(field, "memory");
    if (!json_field_given(memory))
        return json_pack("{s:n}", "memory");
    size_t *bytes = &trial->memory_limit_bytes;
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

typedef json_t *decode_key(struct trial *trial, struct json_field field, struct status *status);
static decode_key *const decoders[TRIAL_KEYS] = {
    [TRIAL_MODEL] = decode_model,
    [TRIAL_DTYPE] = decode_dtype,
    [TRIAL_DEVICE] = decode_device,
    [TRIAL_PROFILE] = decode_profile,
    [TRIAL_BATCH] = decode_batch,
    [TRIAL_CONTEXT] = decode_context,
    [TRIAL_SEED] = decode_seed,
    [TRIAL_DATA] = decode_data,
    [TRIAL_LABELS] = decode_labels,
    [TRIAL_OBJECTIVE] = decode_objective,
    [TRIAL_ROW_WEIGHTS] = decode_row_weights,
    [TRIAL_LORA] = decode_lora,
    [TRIAL_OPTIMIZER] = decode_optimizer,
    [TRIAL_KV_GRADIENT_DTYPE] = decode_kv_gradient_dtype,
    [TRIAL_GRADIENT_DTYPE] = decode_gradient_dtype,
    [TRIAL_DETERMINISTIC] = decode_deterministic,
    [TRIAL_TF32] = decode_tf32,
    [TRIAL_WHOLE_ATTENTION] = decode_whole_attention,
    [TRIAL_METHOD] = NULL, // method_decode
    [TRIAL_MEASURE] = decode_measure,
    [TRIAL_LIMITS] = decode_limits,
};

static json_t *decode_one(struct trial *trial, enum trial_key key, struct json_field field,
                          const struct method_fields *method, struct status *status)
{
    if (key != TRIAL_METHOD)
        return decoders[key](trial, field, status);
    trial->method = method->method;
    trial->options = options_new(&trial->method->options);
    return method_decode(method, trial->context, trial->options, status)
               ? method_json(trial->method, trial->options)
               : NULL;
}

// What a key means where it is left out; of an object, where all of it but the name is. NULL: it must be given.
static json_t *default_of(const struct trial *trial, enum trial_key key, struct json_field field, bool object,
                          const json_t *name)
{
    if (key == TRIAL_METHOD)
        return object ? method_defaults(trial->method) : NULL;
    // What defaults of other keys depend on; what is decoded here is the scratch's own.
    struct trial scratch = {.config = trial->config,
                            .dtype = trial->dtype,
                            .planned = trial->planned,
                            .context = trial->context,
                            .objective = objectives[0],
                            .method = trial->method};
    struct status why = {0};
    field.value = object ? json_object() : NULL;
    if (name)
        json_object_set(field.value, "name", (json_t *)name);
    json_t *value = decoders[key](&scratch, field, &why);
    json_decref(field.value);
    trial_free(&scratch);
    return value;
}

// Takes the members out of the object that are equal to the default's.
static void strip(json_t *object, const json_t *defaults)
{
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(object, next, key, value)
    {
        if (strcmp(key, "name") != 0 && json_equal(value, json_object_get(defaults, key)))
            json_object_del(object, key);
    }
}

// What of a key's value goes into the id: what differs from the default. NULL: nothing.
static json_t *part_of_id(const struct trial *trial, enum trial_key key, struct json_field field, json_t *value)
{
    json_t *absent = default_of(trial, key, field, false, NULL), *part = NULL;
    if (!json_equal(value, absent)) {
        part = json_deep_copy(value);
        CHECK(part);
    }
    if (json_is_object(part)) {
        json_t *bare = json_is_object(absent) ? json_incref(absent)
                                              : default_of(trial, key, field, true, json_object_get(value, "name"));
        strip(part, bare);
        json_decref(bare);
    }
    json_decref(absent);
    return part;
}

static void set_id(struct trial *trial, const json_t *parts)
{
    char *text = json_dumps(parts, JSON_COMPACT | JSON_SORT_KEYS);
    CHECK(text);
    XXH128_canonical_t hash;
    XXH128_canonicalFromHash(&hash, XXH3_128bits(text, strlen(text)));
    for (size_t i = 0; i < sizeof hash.digest; i++)
        snprintf(trial->id + 2 * i, 3, "%02x", hash.digest[i]);
    free(text);
}

bool trial_decode_fields(struct trial *trial, const struct trial_fields *fields, struct status *status)
{
    *trial = (struct trial){0};
    json_t *canonical = json_object(), *parts = json_object();
    bool ok = true;
    for (enum trial_key i = 0; ok && i < TRIAL_KEYS; i++) {
        json_t *value = decode_one(trial, i, fields->keys[i], &fields->method, status);
        ok = value != NULL;
        if (ok)
            json_object_set_new(canonical, trial_key_names[i], value);
    }
    for (enum trial_key i = 0; ok && i < TRIAL_KEYS; i++) {
        json_t *part = part_of_id(trial, i, fields->keys[i], json_object_get(canonical, trial_key_names[i]));
        if (part)
            json_object_set_new(parts, trial_key_names[i], part);
    }
    if (ok) {
        trial->canonical = json_dumps(canonical, JSON_COMPACT | JSON_SORT_KEYS);
        CHECK(trial->canonical);
        set_id(trial, parts);
    }
    json_decref(parts);
    json_decref(canonical);
    return ok;
}

bool trial_decode(struct trial *trial, const char *json, const char *origin, struct status *status)
{
    *trial = (struct trial){0};
    struct json_source source;
    struct trial_fields fields;
    struct names known = {0};
    names_add_all(&known, trial_key_names);
    bool ok = json_source_parse(&source, origin, json, strlen(json), status);
    struct json_field root = json_field_root(&source);
    ok = ok && json_field_object(root, &known, NULL, status);
    for (size_t i = 0; ok && i < TRIAL_KEYS; i++)
        fields.keys[i] = json_field_get(root, trial_key_names[i]);
    ok = ok && method_fields_read(&fields.method, fields.keys[TRIAL_METHOD], status) &&
         trial_decode_fields(trial, &fields, status);
    json_source_close(&source);
    return ok;
}

bool trial_plans_on(const char *device)
{
    return !strncmp(device, "plan", 4);
}

void trial_free(struct trial *trial)
{
    free(trial->canonical);
    free(trial->profile);
    free(trial->model_folder);
    free(trial->data.path);
    free(trial->labels);
    free(trial->row_weights);
    if (trial->options)
        options_free(&trial->method->options, trial->options);
    *trial = (struct trial){0};
}
