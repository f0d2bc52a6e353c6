#include "harness/spec/trial_values.h"
#include "harness/data/sequences.h"
#include "harness/folder/folder.h"
#include "harness/json/named_options.h"
#include "harness/spec/device_kind.h"
#include "kernels/model/unit_parameters.h"
#include "kernels/trainer/lost_updates.h"
#include <string.h>

json_t *decode_model(struct trial *trial, struct json_field field, struct status *status)
{
    json_t *canonical;
    return config_decode(field, &trial->config, &trial->model_folder, &canonical, status) ? canonical : NULL;
}

json_t *decode_dtype(struct trial *trial, struct json_field field, struct status *status)
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

// "cuda:1"; "cuda:0" is "cuda". Only the machine that opens the device knows the number of cards.
static json_t *decode_numbered_device(struct trial *trial, struct json_field field, const char *name,
                                      struct status *status)
{
    struct device_name parsed;
    struct status why = {0};
    if (!device_name_parse(&parsed, name, &why))
        return json_refused(json_field_fail(field, status, "%s", why.message));
    snprintf(trial->device, sizeof trial->device, "%s", parsed.card ? name : parsed.device);
    return json_string(trial->device);
}

json_t *decode_device(struct trial *trial, struct json_field field, struct status *status)
{
    // A device that this build lacks is still valid: its trials end as `unsupported`.
    struct names names = {0}; // the first is the default
    for (const struct device_kind *kind = device_kinds; kind->name; kind++)
        names_add(&names, kind->name);
    names_add(&names, "plan");
    for (size_t i = 0; device_names()[i]; i++)
        if (names_find(&names, device_names()[i]) == names.count)
            names_add(&names, device_names()[i]);
    size_t index = 0;
    const char *numbered = json_string_value(field.value);
    if (numbered && strchr(numbered, ':'))
        return decode_numbered_device(trial, field, numbered, status);
    if (!json_field_choice(field, &names, "device", &index, status))
        return NULL;
    const char *name = names.items[index];
    if (!strcmp(name, "plan")) // the device for the dtype
        name = device_kind_like(trial->dtype == DTYPE_BF16)->planned;
    snprintf(trial->device, sizeof trial->device, "%s", name);
    trial->planned = trial_plans_on(name);
    return json_string(name);
}

json_t *decode_profile(struct trial *trial, struct json_field field, struct status *status)
{
    const char *name = NULL;
    struct roofline roofline;
    struct status why = {0};
    if (!json_field_given(field))
        return json_null();
    if (!json_field_text(field, "null, or the name or path of a device profile", &name, status))
        return NULL;
    trial->profile = calloc(1, sizeof *trial->profile);
    if (!profile_load(trial->profile, name, &why) ||
        !profile_roofline(trial->profile, trial->dtype, &roofline, &why))
        return json_refused(json_field_fail(field, status, "%s", why.message));
    return json_string(name);
}

json_t *decode_interconnect(struct trial *trial, struct json_field field, struct status *status)
{
    const char *name = NULL;
    struct status why = {0};
    if (!json_field_given(field))
        return json_null();
    if (!json_field_text(field, "null, or the name or path of interconnect", &name, status))
        return NULL;
    trial->interconnect = calloc(1, sizeof *trial->interconnect);
    if (!interconnect_load(trial->interconnect, name, &why))
        return json_refused(json_field_fail(field, status, "%s", why.message));
    return json_string(name);
}

static json_t *decode_text(struct trial *trial, struct json_field field, struct status *status)
{
    const char *path = NULL;
    if (!json_field_text(json_field_get(field, "text"), "the path of a text file", &path, status))
        return NULL;
    if (trial->config.vocab < 256)
        return json_refused(json_field_fail(
            field, status, "text is read as bytes, which need a vocabulary of at least 256; the model's is %zu",
            trial->config.vocab));
    trial->data = (struct data_source){DATA_BYTES, strdup(path)};
    return json_pack("{s:s}", "text", path);
}

// Guesses the format of tokens. Errors of the file are reported when it is read, possibly elsewhere.
static json_t *decode_described(struct trial *trial, const char *path)
{
    struct status unread = {0};
    enum data_kind kind = DATA_ARRAY;
    if (!trial->planned && !tokens_kind(path, trial->config.vocab, &kind, &unread))
        kind = DATA_ARRAY;
    trial->data = (struct data_source){kind, strdup(path)};
    return json_pack("{s:s}", kind == DATA_BYTES ? "text" : "tokens", path);
}

static json_t *decode_tokens(struct trial *trial, struct json_field field, struct status *status)
{
    static const struct names dtypes = {2, {"u16", "u32"}};
    struct json_field dtype = json_field_get(field, "dtype");
    const char *path = NULL;
    size_t index = 0;
    if (!json_field_text(json_field_get(field, "tokens"), "the path of a file of token ids", &path, status))
        return NULL;
    if (!dtype.value)
        return decode_described(trial, path);
    if (!json_field_choice(dtype, &dtypes, "dtype of tokens", &index, status))
        return NULL;
    trial->data = (struct data_source){index == 0 ? DATA_U16 : DATA_U32, strdup(path)};
    return json_pack("{s:s, s:s}", "tokens", path, "dtype", dtypes.items[index]);
}

static json_t *decode_batch_file(struct trial *trial, struct json_field field, struct status *status)
{
    const char *path = NULL;
    if (!json_field_text(json_field_get(field, "batch"), "the path of a batch file", &path, status))
        return NULL;
    trial->data = (struct data_source){DATA_BATCH, strdup(path)};
    return json_pack("{s:s}", "batch", path);
}

bool batch_of_data(const struct trial *trial, size_t *value, struct status *status)
{
    size_t context;
    return trial->data.kind != DATA_BATCH || sequences_shape(trial->data.path, &context, value, status);
}

bool context_of_data(const struct trial *trial, size_t *value, struct status *status)
{
    size_t batch;
    return trial->data.kind != DATA_BATCH || sequences_shape(trial->data.path, value, &batch, status);
}

json_t *decode_data(struct trial *trial, struct json_field field, struct status *status)
{
    static const char expected[] =
        "{\"text\": PATH}, {\"tokens\": PATH}, {\"tokens\": PATH, \"dtype\": \"u16\"} or {\"batch\": PATH}";
    static const struct names keys = {4, {"text", "tokens", "dtype", "batch"}};
    const char *name = json_string_value(field.value);
    if (!field.value || (name && !strcmp(name, "random")))
        return json_string("random");
    if (!json_is_object(field.value))
        return json_refused(json_field_expected(field, status, "\"random\", %s", expected));
    if (!json_field_object(field, &keys, "data", status))
        return NULL;
    bool text = json_field_get(field, "text").value, tokens = json_field_get(field, "tokens").value;
    bool batch = json_field_get(field, "batch").value;
    if (text + tokens + batch != 1 || (!tokens && json_field_get(field, "dtype").value))
        return json_refused(json_field_fail(field, status, "expected one of %s", expected));
    return text     ? decode_text(trial, field, status)
           : tokens ? decode_tokens(trial, field, status)
                    : decode_batch_file(trial, field, status);
}

static bool read_mean_length(struct json_field field, size_t *mean, struct status *status)
{
    static const struct names keys = {1, {"mean"}};
    struct json_field given = json_field_get(field, "mean");
    return json_field_object(field, &keys, "documents", status) &&
           (given.value || json_field_expected(given, status, "a whole number of tokens >= 1")) &&
           json_field_tokens(given, 1, INT32_MAX, " of tokens", mean, status);
}

json_t *decode_documents(struct trial *trial, struct json_field field, struct status *status)
{
    struct packing *packing = &trial->packing;
    bool list = json_is_array(field.value);
    if (!json_field_given(field))
        return json_null();
    if (json_is_object(field.value))
        return read_mean_length(field, &packing->mean, status)
                   ? json_pack("{s:I}", "mean", (json_int_t)packing->mean)
                   : NULL;
    if (!json_is_integer(field.value) && !json_is_string(field.value) &&
        (!list || json_array_size(field.value) == 0))
        return json_refused(json_field_expected(
            field, status, "null, a number of tokens such as 512 or 32K, a list of such, or {\"mean\": 512}"));
    packing->count = list ? json_array_size(field.value) : 1;
    packing->lengths = calloc(packing->count, sizeof *packing->lengths);
    json_t *lengths = json_array();
    for (size_t i = 0; i < packing->count; i++) {
        if (!json_field_tokens(list ? json_field_at(field, i) : field, 1, INT32_MAX, " of tokens",
                               &packing->lengths[i], status)) {
            json_decref(lengths);
            return NULL;
        }
        json_array_append_new(lengths, json_integer((json_int_t)packing->lengths[i]));
    }
    json_t *canonical = list ? lengths : json_incref(json_array_get(lengths, 0));
    if (!list)
        json_decref(lengths);
    return canonical;
}

// Reads a name and its options into a new struct; returns the value with its defaults, or just the name if it has
// no options.
static json_t *decode_named(const struct named_tables *tables, struct json_field field, size_t *index,
                            void **options, struct status *status)
{
    struct named_options given;
    if (!named_options_read(&given, tables, field, status))
        return NULL;
    const struct option_table *table = tables->tables[given.index];
    const char *name = tables->names[given.index];
    *index = given.index;
    *options = options_new(table);
    if (!named_options_set(&given, table, *options, status))
        return NULL;
    json_t *value = named_options_json(name, table, *options);
    if (json_object_size(value) > 1)
        return value;
    json_decref(value);
    return json_string(name);
}

json_t *decode_objective(struct trial *trial, struct json_field field, struct status *status)
{
    struct named_tables tables = {.kind = "objective", .example = "{\"name\": \"token-mean\"}"};
    for (size_t i = 0; objectives[i]; i++)
        named_tables_add(&tables, objectives[i]->name, &objectives[i]->options);
    size_t index = 0;
    json_t *canonical = decode_named(&tables, field, &index, &trial->objective_options, status);
    trial->objective = objectives[index];
    return canonical;
}

json_t *decode_router_aux_loss(struct trial *trial, struct json_field field, struct status *status)
{
    double *aux = &trial->router_losses.aux;
    *aux = trial->config.experts.aux_loss;
    if (json_field_given(field) && !json_field_number(field, 0, 1e6, aux, status))
        return NULL;
    return *aux != trial->config.experts.aux_loss ? json_real(*aux) : json_null();
}

static const char *const reference_names[] = {
    [REFERENCE_FILE] = "file", [REFERENCE_RANDOM] = "random", [REFERENCE_ADAPTER_OFF] = "adapter-off"};

// The default reference; NULL: required. A plan assumes the reference of a measurement, if there is one.
static const char *usual_reference(const struct trial *trial)
{
    return trial->data.kind == DATA_BATCH           ? reference_names[REFERENCE_FILE]
           : trial->data.kind == DATA_RANDOM        ? reference_names[REFERENCE_RANDOM]
           : trial->lora.rank && !trial->lora.saved ? reference_names[REFERENCE_ADAPTER_OFF]
           : trial->planned                         ? reference_names[REFERENCE_RANDOM]
                                                    : NULL;
}

// Why this trial cannot have the reference; NULL: it can.
static const char *reference_fault(const struct trial *trial, int kind)
{
    return kind == REFERENCE_FILE && trial->data.kind != DATA_BATCH && !trial->planned
               ? "there is no batch file: give \"data\" as {\"batch\": PATH} (--batch FILE)"
           : kind == REFERENCE_ADAPTER_OFF && !trial->lora.rank
               ? "there is no adapter that could be off: give \"lora\", or the folder of another model"
           : kind == REFERENCE_ADAPTER_OFF && trial->lora.saved
               ? "modules_to_save of \"lora\" train in place of the weights that a model without its adapter has: "
                 "give the folder of that model"
               : NULL;
}

static bool read_reference_folder(struct trial *trial, const char *path, struct json_field field,
                                  struct status *status)
{
    struct config config;
    struct status why = {0};
    trial->reference.kind = REFERENCE_FOLDER;
    trial->reference.folder = strdup(path);
    if (trial->planned)
        return true;
    if (!folder_read_config(path, &config, &why))
        return json_field_fail(field, status, "%s; expected file, random, adapter-off or a model's folder",
                               why.message);
    return config.vocab == trial->config.vocab ||
           json_field_fail(field, status, "%s has a vocabulary of %zu, the model %zu", path, config.vocab,
                           trial->config.vocab);
}

json_t *decode_reference(struct trial *trial, struct json_field field, struct status *status)
{
    const char *text = NULL;
    // Dropped rather than refused if the objective reads none, so that one spec serves all objectives.
    if (!(objective_terms(trial->objective, trial->objective_options).required & BATCH_REFERENCE))
        return json_null();
    if (json_field_given(field)) {
        if (!json_field_text(field, "null, file, random, adapter-off or a model's folder", &text, status))
            return NULL;
    } else if (!(text = usual_reference(trial)))
        return json_refused(
            json_field_fail(field, status,
                            "missing; objective \"%s\" needs a reference: the folder of a model, or with \"lora\" "
                            "adapter-off, or a batch file with reference_logprobs",
                            trial->objective->name));
    for (int kind = REFERENCE_FILE; kind <= REFERENCE_ADAPTER_OFF; kind++) {
        if (strcmp(text, reference_names[kind]) != 0)
            continue;
        const char *fault = reference_fault(trial, kind);
        if (fault)
            return json_refused(json_field_fail(field, status, "%s", fault));
        trial->reference.kind = kind;
        return json_string(text);
    }
    return read_reference_folder(trial, text, field, status) ? json_string(text) : NULL;
}

// Tells whether a module to save is quantised.
static bool saves_projection(const struct trial *trial)
{
    struct model model;
    bool saves = false;
    model_list(&model, &trial->config, &trial->lora);
    for (size_t i = 0; i < model.parameter_count; i++)
        saves |= model.parameters[i].saved && is_layer_matrix(&model, &model.parameters[i]);
    model_close(&model);
    return saves;
}

// Tells whether blocks are parts of rows, those of mxfp4, as in files of such weights, or of experts' matrices,
// which other tokens read.
static bool blocks_are_whole(const struct trial *trial, struct json_field field, struct status *status)
{
    struct model model;
    bool whole = true, rows = trial->quantisation == QUANTISATION_MXFP4;
    size_t block = quantisation_block(trial->quantisation);
    model_list(&model, &trial->config, &trial->lora);
    for (size_t i = 0; whole && i < model.parameter_count; i++) {
        const struct parameter *p = &model.parameters[i];
        if (!is_layer_matrix(&model, p) || parameter_is_factor(p) || (!rows && !p->experts))
            continue;
        size_t within = rows ? p->value.cols : p->value.rows / p->experts * p->value.cols;
        whole = within % block == 0;
        if (!whole)
            json_field_fail(field, status, "%s has blocks of %zu within %s, and those of %s have %zu; %s",
                            quantisation_name(trial->quantisation), block, rows ? "rows" : "experts' matrices",
                            p->name, within, rows ? "choose nf4 or int8" : "leave it out");
    }
    model_close(&model);
    return whole;
}

json_t *decode_weights(struct trial *trial, struct json_field field, struct status *status)
{
    struct names names = {0};
    size_t index = 0;
    if (!json_field_given(field))
        return json_null();
    for (enum quantisation q = QUANTISATION_NF4; q < QUANTISATION_COUNT; q++)
        names_add(&names, quantisation_name(q));
    if (!json_field_choice(field, &names, "quantisation", &index, status))
        return NULL;
    if (!trial->lora.rank)
        return json_refused(json_field_fail(
            field, status,
            "quantised weights cannot train; give \"lora\", whose factors train, or leave \"weights\" out"));
    if (saves_projection(trial))
        return json_refused(json_field_fail(
            field, status,
            "quantised weights cannot train, and modules_to_save of \"lora\" has some of theirs; leave one of "
            "the two out"));
    trial->quantisation = QUANTISATION_NF4 + (enum quantisation)index;
    if (!blocks_are_whole(trial, field, status))
        return NULL;
    return json_string(names.items[index]);
}

json_t *decode_optimizer(struct trial *trial, struct json_field field, struct status *status)
{
    struct named_tables tables = {.kind = "optimizer", .example = "{\"name\": \"adamw\", \"rate\": 1e-4}"};
    if (!json_field_given(field))
        return json_null();
    for (size_t i = 0; optimizers[i]; i++)
        named_tables_add(&tables, optimizers[i]->name, &optimizers[i]->options);
    size_t index = 0;
    json_t *canonical = decode_named(&tables, field, &index, &trial->optimizer_options, status);
    const struct optimizer *optimizer = trial->optimizer = optimizers[index];
    struct status why = {0};
    if (canonical && !optimizer_check(optimizer, trial->optimizer_options, &trial->config, trial->dtype, &why)) {
        json_decref(canonical);
        json_field_fail(field, status, "optimizer \"%s\": %s", optimizer->name, why.message);
        return NULL;
    }
    return canonical;
}

// stochastic NULL: the accumulator is rounded only to nearest.
static json_t *decode_accumulator(enum dtype model, enum dtype *dtype, bool *stochastic, struct json_field field,
                                  struct status *status)
{
    struct names names = {0};
    names_add(&names, dtype_name(dtype_accumulator(model)));
    if (model != dtype_accumulator(model))
        names_add(&names, dtype_name(model));
    if (model == DTYPE_BF16 && stochastic)
        names_add(&names, BF16_STOCHASTIC);
    char kind[64] = "";
    if (field.value)
        snprintf(kind, sizeof kind, "accumulator of a model in %s:", dtype_name(model));
    size_t index = 0;
    if (!json_field_choice(field, &names, kind, &index, status))
        return NULL;
    bool is_stochastic = strcmp(names.items[index], BF16_STOCHASTIC) == 0;
    CHECK(dtype_from_name(is_stochastic ? dtype_name(model) : names.items[index], dtype));
    if (stochastic)
        *stochastic = is_stochastic;
    return json_string(names.items[index]);
}

json_t *decode_kv_gradient_dtype(struct trial *trial, struct json_field field, struct status *status)
{
    return decode_accumulator(trial->dtype, &trial->kv_gradient_dtype, &trial->kv_gradient_stochastic, field,
                              status);
}

json_t *decode_gradient_dtype(struct trial *trial, struct json_field field, struct status *status)
{
    return decode_accumulator(trial->dtype, &trial->gradient_dtype, NULL, field, status);
}

json_t *decode_host(struct trial *trial, struct json_field field, struct status *status)
{
    static const struct names keys = {1, {"folder"}};
    const char *path = NULL;
    if (!json_field_given(field))
        return json_null();
    if (json_is_string(field.value))
        return json_refused(json_field_expected(field, status, "folder=DIR, in a spec {\"folder\": PATH}"));
    if (!json_field_object(field, &keys, "host", status) ||
        !json_field_text(json_field_get(field, "folder"), "a folder for tensors kept on the host", &path, status))
        return NULL;
    if (!path || (!trial->planned && strcmp(trial->device, "cpu") != 0))
        return json_refused(json_field_fail(field, status,
                                            path ? "copies of a card need pinned memory, not a folder"
                                                 : "expected null or {\"folder\": PATH}"));
    trial->host_folder = strdup(path);
    return json_pack("{s:s}", "folder", path);
}

void settle_train(struct trial *trial)
{
    trial->train.evaluate.kind = trial->data.kind;
}

static bool sees_all_tokens(const struct trial *trial)
{
    struct status why = {0};
    return !trial->method->check_sums || trial->method->check_sums(trial->options, &why);
}

// Drops measurements that do not apply, so that one spec serves all devices, methods and objectives: a plan is one
// step without a gradient; bias needs drawn chunks; pair sums need pairs and one rank; lost updates need bf16
// weights that train; routing needs a gradient of all tokens, and one rank.
void settle_measure(struct trial *trial)
{
    struct measure *measure = &trial->measure;
    if (trial->planned) {
        measure->warmup = 0;
        measure->samples = 1;
        measure->gradient = GRADIENT_NONE;
        measure->gemm = false;
    }
    if (trial->train.steps) { // its steps are the samples
        measure->warmup = 0;
        measure->samples = 1;
        measure->timeline = measure->categories = measure->bias = measure->pair_sums = false;
        measure->routing = ROUTING_NONE;
    }
    bool pairs = objective_terms(trial->objective, trial->objective_options).sequences.kind == SEQUENCE_PAIRS;
    measure->categories = measure->categories && !trial->framework; // its operations are not this program's
    measure->pair_sums = measure->pair_sums && !trial->planned && pairs && trial_ranks(trial) == 1;
    measure->lost_updates = measure->lost_updates && trial->train.steps && trial->dtype == DTYPE_BF16 &&
                            lost_updates_known(trial->optimizer);
    measure->bias = measure->bias && !trial->planned && trial->method->each_draw && trial_ranks(trial) == 1;
    if (measure->routing &&
        (trial->planned || trial->method->no_gradient || trial_ranks(trial) > 1 || !sees_all_tokens(trial)))
        measure->routing = ROUTING_NONE;
}
