// Command: `longbp verify`, whether each method computes the right gradient: a line per method, and one per failing
// case.
#include "harness/data/doubtful_labels.h"
#include "harness/folder/folder.h"
#include "harness/json/json_source.h"
#include "harness/json/number_json.h"
#include "harness/options/arguments.h"
#include "harness/options/command.h"
#include "harness/options/flags.h"
#include "harness/trial/verify.h"
#include <jansson.h>
#include <math.h>
#include <string.h>

#define METHODS_MAX 64

struct arguments {
    const char *model, *shape, *dtype, *device, *kv_gradient_dtype, *gradient_dtype, *objective, *lora, *batch;
    bool json;
};

struct tally {
    const struct method *method;
    size_t cases, off;
    double relative_l2, max_abs; // maximum
    char where[200];             // case of the maximum relative_l2
};

struct table {
    bool json;
    size_t count, off;
    struct tally tallies[METHODS_MAX]; // in the order of the methods
};

static void print_json(const struct verify_case *result)
{
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:b, s:o, s:o, s:o, s:s}", "method", result->method->name, "shape",
                  result->shape, "options", result->options, "good", (int)result->good, "relative_l2",
                  number_json(result->error.relative_l2), "max_abs", number_json(result->error.max_abs), "cosine",
                  number_json(result->error.cosine), "reason", result->reason);
    command_print(object, 0);
}

static double worse(double a, double b)
{
    return isnan(a) || a > b ? a : b;
}

static void found(const struct verify_case *result, void *context)
{
    struct table *table = context;
    size_t i = 0;
    while (i < table->count && table->tallies[i].method != result->method)
        i++;
    CHECK(i < METHODS_MAX);
    struct tally *tally = &table->tallies[i];
    table->count += i == table->count;
    tally->method = result->method;
    if (tally->cases++ == 0 || !(result->error.relative_l2 <= tally->relative_l2))
        snprintf(tally->where, sizeof tally->where, "%s%s%s", result->shape, *result->options ? ", " : "",
                 result->options);
    tally->relative_l2 = worse(result->error.relative_l2, tally->relative_l2);
    tally->max_abs = worse(result->error.max_abs, tally->max_abs);
    tally->off += !result->good;
    table->off += !result->good;
    if (table->json)
        print_json(result);
    else if (!result->good)
        printf("OFF %s %s; %s: relative L2 %.3g, max abs %.3g%s%s\n", result->method->name, result->options,
               result->shape, result->error.relative_l2, result->error.max_abs, *result->reason ? ": " : "",
               result->reason);
}

static void print_table(const struct table *table, const char *dtype, struct verify_bounds bounds)
{
    printf("%-12s %5s %5s %12s %12s  %s\n", "method", "cases", "off", "relative L2", "max abs", "worst at");
    for (size_t i = 0; i < table->count; i++) {
        const struct tally *t = &table->tallies[i];
        printf("%-12s %5zu %5zu %12.3g %12.3g  %s\n", t->method->name, t->cases, t->off, t->relative_l2, t->max_abs,
               t->where);
    }
    printf("against full in f64; bounds for %s: relative L2 %.0e", dtype, bounds.relative_l2);
    if (isfinite(bounds.max_abs))
        printf(", max abs %.0e", bounds.max_abs);
    printf("\n");
}

// name NULL: the default. stochastic NULL: the accumulator is rounded only to nearest.
static bool read_accumulator(const char *flag, const char *name, enum dtype model, enum dtype *dtype,
                             bool *stochastic, struct status *status)
{
    enum dtype widest = dtype_accumulator(model);
    *dtype = widest;
    if (name && stochastic && model == DTYPE_BF16 && strcmp(name, BF16_STOCHASTIC) == 0) {
        *dtype = model;
        return *stochastic = true;
    }
    if (!name || (dtype_from_name(name, dtype) && (*dtype == model || *dtype == widest)))
        return true;
    return status_set(status, STATUS_BAD_INPUT, "%s of a model in %s is %s%s%s, not \"%s\"", flag,
                      dtype_name(model), dtype_name(widest),
                      model == widest ? ""
                      : stochastic    ? ", bf16"
                                      : " or bf16",
                      model != widest && stochastic ? " or " BF16_STOCHASTIC : "", name);
}

// Decodes a trial whose objective, factors and batch file are used in each case.
static bool read_like(const struct arguments *arguments, struct trial *like, struct status *status)
{
    json_t *trial =
        json_pack("{s:s, s:s}", "model", arguments->model ? arguments->model : "tiny", "method", "full");
    CHECK(trial);
    if (arguments->objective)
        json_object_set_new(trial, "objective", flag_named(arguments->objective));
    if (arguments->lora)
        json_object_set_new(trial, "lora", flag_object_or_value(arguments->lora));
    if (arguments->batch)
        json_object_set_new(trial, "data", json_pack("{s:s}", "batch", arguments->batch));
    else
        json_object_update_new(trial, json_pack("{s:i, s:i}", "context", 2, "batch", 2));
    char *json = json_dumps(trial, 0);
    json_decref(trial);
    bool decoded = json && trial_decode(like, json, JSON_COMMAND_LINE, status);
    free(json);
    return decoded;
}

static bool run(const struct arguments *arguments, struct table *table, struct status *status)
{
    struct config config;
    struct verify_request request = {.shape = arguments->shape, .device = arguments->device};
    CHECK(dtype_from_name(arguments->dtype, &request.dtype));
    if (!read_accumulator("--kv-gradient-dtype", arguments->kv_gradient_dtype, request.dtype,
                          &request.kv_gradient_dtype, &request.kv_gradient_stochastic, status) ||
        !read_accumulator("--gradient-dtype", arguments->gradient_dtype, request.dtype, &request.gradient_dtype,
                          NULL, status))
        return false;
    if (trial_plans_on(request.device))
        return status_set(status, STATUS_BAD_INPUT, "--device %s computes no gradient that could be verified",
                          request.device);
    struct trial like;
    request.like = &like;
    bool verified = read_like(arguments, &like, status);
    if (verified && arguments->model && !(request.config = config_preset(arguments->model))) {
        verified = folder_read_config(arguments->model, &config, status);
        request.config = &config;
        request.folder = arguments->model;
        folder_say(request.folder);
    }
    if (verified && !request.config && (like.adapter_folder || like.lora.table || like.lora.saved))
        verified = status_set(status, STATUS_BAD_INPUT,
                              "--lora %s: an adapter, or a choice of layers, needs a model; give --model",
                              arguments->lora);
    if (verified && arguments->batch)
        doubtful_labels_say(arguments->batch);
    verified = verified && verify(&request, found, table, status);
    if (verified && !table->json)
        print_table(table, arguments->dtype, verify_bounds(request.dtype));
    trial_free(&like);
    return verified;
}

int command_verify(int argc, char **argv)
{
    static const struct flag options[] = {
        {"model", .key = 'm', TEXT_AT(struct arguments, model), .arg = "DIR|PRESET",
         .doc = "model to check (small ones of every kind)"},
        {"shape", .key = 's', TEXT_AT(struct arguments, shape), .arg = "TEXT",
         .doc = "only shapes whose name contains this (all)"},
        {"dtype", .key = 't', TEXT_AT(struct arguments, dtype), .arg = "f64|f32|bf16",
         .doc = "dtype of weights and activations (f64)"},
        {"device", .key = 'd', TEXT_AT(struct arguments, device), .arg = "DEVICE",
         .doc = "device to compute on: cpu, cuda, cuda:1 for a second card (cpu)"},
        {"kv-gradient-dtype", .key = 'k', TEXT_AT(struct arguments, kv_gradient_dtype), .arg = "DTYPE",
         .doc = "accumulator of the gradient of keys and values (f32; f64 for f64)"},
        {"gradient-dtype", .key = 'g', TEXT_AT(struct arguments, gradient_dtype), .arg = "DTYPE",
         .doc = "accumulator of the weights' gradients (f32; f64 for f64)"},
        {"objective", .key = 'o', TEXT_AT(struct arguments, objective), .arg = "OBJECTIVE,OPTION=VALUE",
         .doc = "loss that is minimised, of `longbp list objectives` (token-mean)"},
        {"lora", .key = 'l', TEXT_AT(struct arguments, lora), .arg = "DIR|r=8,alpha=16,targets=q,v",
         .doc =
             "train only LoRA factors, new ones, or with --model those of a PEFT adapter's folder (every weight)"},
        {"batch", .key = 'b', TEXT_AT(struct arguments, batch), .arg = "FILE",
         .doc = "a batch file (random tokens of every shape)"},
        {"json", .key = 'j', SET_AT(struct arguments, json), .doc = "one JSON object per case"},
        {0}};
    static const struct argp argp = {.doc = "Compares every method's gradient with full backprop in f64, on small "
                                            "awkward shapes. Exit code 1 if one is wrong."};
    struct arguments arguments = {.dtype = "f64", .device = "cpu"};
    struct status status = {0};
    arguments_parse(&argp, options, argc, argv, &arguments);
    setvbuf(stdout, NULL, _IOLBF, 0); // an interrupted run has printed its results so far
    struct table *table = calloc(1, sizeof *table);
    table->json = arguments.json;
    int code = !run(&arguments, table, &status) ? EXIT_BAD_INPUT : table->off ? EXIT_CHECK_FAILED : EXIT_FINE;
    command_end(argv[0], &status);
    free(table);
    return code;
}
