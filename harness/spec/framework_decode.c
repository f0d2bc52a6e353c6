#include "harness/spec/framework_decode.h"
#include "harness/json/named_options.h"
#include "harness/text/text.h"
#include <string.h>

// A version is a text, but looks like a number.
static json_t *with_version(const json_t *value)
{
    json_t *copy = json_copy((json_t *)value), *version = json_object_get(copy, "version");
    char text[32];
    if (json_is_number(version)) {
        snprintf(text, sizeof text, "%.2f", json_number_value(version));
        json_object_set_new(copy, "version", json_string(text));
    }
    return copy;
}

json_t *decode_framework(struct trial *trial, struct json_field field, struct status *status)
{
    struct named_tables tables = {.kind = "framework", .example = "{\"version\": \"5.24\", \"loss\": \"chunked\"}"};
    struct named_options given;
    if (!json_field_given(field) && strcmp(trial->device, FRAMEWORK_DEVICE) != 0)
        return json_null();
    named_tables_add(&tables, FRAMEWORK_NAME, &framework_options);
    json_t *value = json_field_given(field) ? with_version(field.value) : json_object();
    field.value = value;
    trial->framework = options_new(&framework_options);
    bool read = named_options_read(&given, &tables, field, status) &&
                named_options_set(&given, &framework_options, trial->framework, status);
    json_decref(value);
    if (!read)
        return NULL;
    framework_resolve(trial->framework);
    return named_options_json(FRAMEWORK_NAME, &framework_options, trial->framework);
}

bool framework_quantises(const json_t *framework)
{
    const char *quantised = json_string_value(json_object_get(framework, "quantised"));
    return quantised && strcmp(quantised, "none") != 0;
}

// Keys of this program's own steps.
static const char *const own_keys[] = {"interconnect",
                                       "documents",
                                       "prompt",
                                       "group",
                                       "router_aux_loss",
                                       "router_z_loss",
                                       "weights",
                                       "deterministic",
                                       "kv_gradient_dtype",
                                       "gradient_dtype",
                                       "tf32",
                                       "unfused",
                                       "whole_attention",
                                       "attention_queries",
                                       "latent_block",
                                       "whole_keys",
                                       "pad_gradient",
                                       "gemm_algorithms",
                                       "parallel",
                                       "train",
                                       "host"};

static bool check_own_keys(const json_t *own, const char **key, struct status *why)
{
    for (size_t i = 0; i < sizeof own_keys / sizeof *own_keys; i++)
        if (json_object_get(own, own_keys[i])) {
            *key = own_keys[i];
            return status_set(why, STATUS_BAD_INPUT,
                              "is of this program's own steps, and \"device\" " FRAMEWORK_DEVICE
                              " plans one of " FRAMEWORK_NAME "; leave it out");
        }
    return true;
}

// The state of its AdamW: two values in the parameter's dtype.
static bool check_optimizer(const struct trial *trial, const json_t *own, const char **key, struct status *why)
{
    static const char *const of_its_own[] = {"when", "master", "sums", "states"};
    *key = "optimizer";
    if (trial->optimizer && strcmp(trial->optimizer->name, "adamw") != 0)
        return status_set(why, STATUS_BAD_INPUT,
                          "is this program's own; give adamw, and that of " FRAMEWORK_NAME
                          " as \"framework\" optim=NAME, or leave it out");
    if (!trial->optimizer && trial->framework->optim != OPTIM_ADAMW)
        return status_set(why, STATUS_BAD_INPUT,
                          "\"framework\" has an \"optim\": give adamw here, too, or leave both out");
    if (!trial->optimizer && trial->framework->shards == SHARDS_STATES)
        return status_set(why, STATUS_BAD_INPUT,
                          "\"framework\" has \"shards\" of its states: give adamw here, or leave \"shards\" out");
    for (size_t i = 0; i < sizeof of_its_own / sizeof *of_its_own; i++)
        if (json_object_get(json_object_get(own, "optimizer"), of_its_own[i]))
            return status_set(why, STATUS_BAD_INPUT, "\"%s\" is of this program's own optimizer; leave it out",
                              of_its_own[i]);
    return true;
}

// An option of a method that is not the default; NULL: there is none.
static const char *first_option(const json_t *method)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)method, name, value)
    {
        if (strcmp(name, "name") != 0)
            return name;
    }
    return NULL;
}

static bool check_method(struct trial *trial, const json_t *own, const char **key, struct status *why)
{
    *key = "method";
    if (!trial->method->elsewhere && !trial->unsupported)
        trial->unsupported =
            text_new(FRAMEWORK_NAME " has no method \"%s\"; it has full and checkpoint", trial->method->name);
    if (trial->method->elsewhere == WALK_FULL && trial->framework->offload == FRAMEWORK_OFFLOAD_INPUTS) {
        *key = "framework";
        return status_set(why, STATUS_BAD_INPUT,
                          "\"offload\" is of checkpoints; give \"method\" checkpoint, or leave it out");
    }
    const char *option = first_option(json_object_get(own, "method"));
    return !trial->method->elsewhere || !option ||
           status_set(why, STATUS_BAD_INPUT,
                      "\"%s\" is of this program's own \"%s\", and \"device\" " FRAMEWORK_DEVICE
                      " plans that of " FRAMEWORK_NAME "; leave it out, and see \"framework\"",
                      option, trial->method->name);
}

bool framework_trial_check(struct trial *trial, const json_t *own, const char **key, struct status *why)
{
    struct status beyond = {0};
    *key = "framework";
    if (strcmp(trial->device, FRAMEWORK_DEVICE) != 0)
        return status_set(why, STATUS_BAD_INPUT,
                          "needs \"device\" " FRAMEWORK_DEVICE " (--like " FRAMEWORK_NAME ") to plan for");
    *key = "dtype";
    if (trial->dtype != DTYPE_BF16 && trial->dtype != DTYPE_F32)
        return status_set(why, STATUS_BAD_INPUT,
                          "the step of " FRAMEWORK_NAME
                          " is known with weights in bf16 or f32; give one of the two");
    if (trial->dtype == DTYPE_F32 && trial->framework->mixed_precision == MIXED_PRECISION_NO)
        return status_set(
            why, STATUS_BAD_INPUT,
            "a step in f32 alone has other kernels of attention, and is not known; give \"framework\" "
            "mixed_precision=bf16 (Trainer's bf16=True), or \"dtype\" bf16");
    if (trial->dtype == DTYPE_F32 && trial->framework->shards == SHARDS_ALL)
        return status_set(why, STATUS_BAD_INPUT,
                          "weights in f32 are gathered in bf16, which is not known; give bf16, or \"framework\" "
                          "shards=gradients");
    *key = "objective";
    if (json_object_get(own, "objective"))
        return status_set(why, STATUS_BAD_INPUT,
                          "the step of " FRAMEWORK_NAME " is known with the loss token-mean alone; leave it out");
    if (!check_own_keys(own, key, why) || !check_optimizer(trial, own, key, why))
        return false;
    *key = "framework";
    bool known = framework_check(trial->framework, &trial->config, &trial->lora, &beyond);
    if (!known && beyond.code == STATUS_BAD_INPUT)
        return status_set(why, STATUS_BAD_INPUT, "%s", beyond.message);
    if (!known && !trial->unsupported) {
        struct status of_model = {0};
        const struct lora none = {0};
        framework_check(trial->framework, &trial->config, &none, &of_model);
        trial->unsupported = text_new("%s", beyond.message);
        trial->unsupported_at = of_model.code == STATUS_UNSUPPORTED ? "model" : "lora";
    }
    return check_method(trial, own, key, why);
}

json_t *framework_trial_unchecked(const struct trial *trial)
{
    struct framework_unchecked unchecked =
        framework_unchecked(trial->framework, &trial->config, &trial->lora, trial->optimizer != NULL);
    json_t *parts = json_array();
    for (size_t i = 0; i < unchecked.count; i++)
        json_array_append_new(parts, json_string(unchecked.parts[i]));
    if (trial->unchecked)
        json_array_extend(parts, (json_t *)trial->unchecked);
    if (json_array_size(parts))
        return parts;
    json_decref(parts);
    return NULL;
}
