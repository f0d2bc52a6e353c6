// Command: `longbp list`, the models, methods, devices, keys and other items that this program knows.
#include "harness/options/arguments.h"
#include "harness/options/command.h"
#include "harness/profile/profile.h"
#include "harness/record/record_fields.h"
#include "harness/spec/trial_keys.h"
#include "methods/method.h"

#include <jansson.h>
#include <string.h>

struct arguments {
    const char *what;
    bool json;
};

static json_t *option_json(const struct option *option)
{
    json_t *object = json_pack("{s:s, s:s}", "name", option->name, "help", option->help);
    json_t *initial;
    if (option->choices) {
        json_t *choices = json_array();
        for (size_t i = 0; option->choices[i]; i++)
            json_array_append_new(choices, json_string(option->choices[i]));
        json_object_set_new(object, "choices", choices);
    }
    if (option->type == OPTION_CHOICE) {
        initial = json_string(option->choices[(int)option->initial]);
    } else if (option->type == OPTION_LIST || option->type == OPTION_WORDS) {
        initial = json_array();
    } else {
        initial =
            option->type == OPTION_COUNT ? json_integer((json_int_t)option->initial) : json_real(option->initial);
    }
    json_object_set_new(object, "default", initial);
    if (option->card_rows > 0)
        json_object_set_new(object, "card_rows", json_integer((json_int_t)option->card_rows));
    return object;
}

// "keep  activations that a cell keeps | lean, all | lean": its help, choices and default, as `list keys` shows
// keys.
static void print_option(const struct option *option, const json_t *object, FILE *table)
{
    char *standard = json_dumps(json_object_get(object, "default"), JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    char words[96];
    snprintf(words, sizeof words, OPTION_ON_CARD, option->initial, option->card_rows);
    fprintf(table, "%-14s   %-14s %s | ", "", option->name, option->help);
    for (size_t i = 0; option->choices && option->choices[i]; i++)
        fprintf(table, "%s%s", i ? ", " : "", option->choices[i]);
    fprintf(table, "%s%s\n", option->choices ? " | " : "",
            option->type == OPTION_CHOICE ? option->choices[(int)option->initial]
            : option->card_rows > 0       ? words
                                          : standard);
    free(standard);
}

// A row for an item with a name and options.
static json_t *row_of(const char *name, const char *summary, const char *source, const struct option_table *known,
                      FILE *table)
{
    json_t *options = json_array();
    fprintf(table, "%-14s %s\n%-14s %s\n", name, summary, "", source);
    for (const struct option *option = known->rows; option && option->name; option++) {
        json_t *object = option_json(option);
        print_option(option, object, table);
        json_array_append_new(options, object);
    }
    return json_pack("{s:s, s:s, s:s, s:o}", "name", name, "summary", summary, "source", source, "options",
                     options);
}

static json_t *list_methods(FILE *table)
{
    json_t *list = json_array();
    bool chosen = false; // auto comes after the methods
    for (size_t i = 0; !chosen; i++) {
        const struct method *method = methods[i] ? methods[i] : &method_auto;
        chosen = !methods[i];
        json_t *row = row_of(method->name, method->summary, method->source, &method->options, table);
        json_object_set_new(row, "exact", json_boolean(method->exact));
        json_array_append_new(list, row);
    }
    return list;
}

static json_t *list_objectives(FILE *table)
{
    json_t *list = json_array();
    for (size_t i = 0; objectives[i]; i++) {
        const struct objective *o = objectives[i];
        json_array_append_new(list, row_of(o->name, o->summary, o->source, &o->options, table));
    }
    return list;
}

static json_t *list_optimizers(FILE *table)
{
    json_t *list = json_array();
    for (size_t i = 0; optimizers[i]; i++) {
        const struct optimizer *o = optimizers[i];
        json_array_append_new(list, row_of(o->name, o->summary, o->source, &o->options, table));
    }
    return list;
}

static json_t *list_frameworks(FILE *table)
{
    return json_pack("[o]", row_of(FRAMEWORK_NAME, "transformers' training step, planned (--like transformers)",
                                   "Wolf et al. 2020, arXiv 1910.03771", &framework_options, table));
}

static json_t *list_models(FILE *table)
{
    json_t *list = json_array();
    fprintf(table, "%-16s %6s %6s %6s %8s %8s %7s %8s %15s %15s\n", "name", "layers", "width", "heads", "kv_heads",
            "head_dim", "ffn", "vocab", "parameters", "of a token");
    for (const struct config *c = config_presets; c->name[0]; c++) {
        size_t parameters = config_parameters(c), active = config_active_parameters(c);
        const struct layer_kind *kind = &c->kinds[0];
        fprintf(table, "%-16s %6zu %6zu %6zu %8zu %8zu %7zu %8zu %15zu %15zu\n", c->name, c->layers, c->width,
                kind->heads, kind->kv_heads, kind->head_dim, c->ffn, c->vocab, parameters, active);
        json_array_append_new(
            list, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:b, s:I, s:I}", "name", c->name,
                            "layers", (json_int_t)c->layers, "width", (json_int_t)c->width, "heads",
                            (json_int_t)kind->heads, "kv_heads", (json_int_t)kind->kv_heads, "head_dim",
                            (json_int_t)kind->head_dim, "ffn", (json_int_t)c->ffn, "vocab", (json_int_t)c->vocab,
                            "tied", (int)c->tied, "qkv_bias", (int)c->qkv_bias, "qk_norm", (int)c->qk_norm,
                            "parameters", (json_int_t)parameters, "active_parameters", (json_int_t)active));
    }
    return list;
}

// Lists unreadable profiles with the reason.
static json_t *list_profiles(FILE *table)
{
    struct named_files profiles;
    struct profile *profile = calloc(1, sizeof *profile);
    json_t *list = json_array();
    profile_list_read(&profiles);
    fprintf(table, "%-16s %10s %10s %16s %15s %15s %7s %13s  %-8s  %s\n", "name", "memory_GiB", "usable_GiB",
            "bf16_TFLOP_per_s", "f32_TFLOP_per_s", "memory_GB_per_s", "power_W", "host_GB_per_s", "rates",
            "levels, GB_per_s");
    for (size_t i = 0; i < profiles.names.count; i++) {
        struct status status = {0};
        const char *name = profiles.names.items[i];
        if (!profile_load(profile, name, &status)) {
            fprintf(table, "%-16s %s\n", name, status.message);
            json_array_append_new(list, json_pack("{s:s, s:s}", "name", name, "error", status.message));
            continue;
        }
        fprintf(table, "%-16s %10.2f %10.2f %16.4g %15.4g %15.4g %7.4g %13.4g  %-8s ", name,
                profile->memory_bytes.value / 0x1p30, (double)profile_limit_bytes(profile) / 0x1p30,
                profile->flops_per_s[DTYPE_BF16].value / 1e12, profile->flops_per_s[DTYPE_F32].value / 1e12,
                profile->bandwidth_bytes_per_s.value / 1e9, profile->power_limit_w.value,
                profile->host_link_bytes_per_s.value / 1e9,
                profile->rates[DTYPE_BF16].scaled ? "scaled" : "measured");
        for (size_t l = 0; l < profile->interconnect.count; l++)
            fprintf(table, "%s %s %.4g", l ? "," : "", profile->interconnect.levels[l].name,
                    profile->interconnect.levels[l].bytes_per_s.value / 1e9);
        fputc('\n', table);
        char *text = profile_text(profile);
        json_array_append_new(list, json_loads(text, 0, NULL));
        free(text);
    }
    free(profile);
    return list;
}

static json_t *list_interconnects(FILE *table)
{
    struct named_files files;
    struct interconnect interconnect;
    json_t *list = json_array();
    interconnect_list(&files);
    for (size_t i = 0; i < files.names.count; i++) {
        struct status status = {0};
        const char *name = files.names.items[i];
        bool loaded = interconnect_load(&interconnect, name, &status);
        fprintf(table, "%s%s%s\n", name, loaded ? "" : "  ", status.message);
        for (size_t l = 0; loaded && l < interconnect.count; l++) {
            const struct link_level *level = &interconnect.levels[l];
            char ranks[40] = "all others";
            if (level->ranks)
                snprintf(ranks, sizeof ranks, "up to %zu ranks", level->ranks);
            fprintf(table, "  %-24s %-16s %8.4g GB/s  %8.4g us\n", level->name, ranks,
                    level->bytes_per_s.value / 1e9, level->latency_s.value * 1e6);
        }
        json_array_append_new(
            list, loaded ? json_pack("{s:s, s:o}", "name", name, "interconnect", interconnect_json(&interconnect))
                         : json_pack("{s:s, s:s}", "name", name, "error", status.message));
    }
    return list;
}

static json_t *list_devices(FILE *table)
{
    json_t *list = json_array();
    for (const char *const *name = device_names(); *name; name++) {
        json_t *dtypes = json_array();
        char line[128] = "";
        struct status refused = {0}; // keeps the first
        for (int i = 0; i < DTYPE_COUNT; i++) {
            struct status status = {0};
            struct device *device = device_open(*name, (enum dtype)i, 0, &status);
            if (!device) {
                refused = refused.code == STATUS_OK ? status : refused;
                continue;
            }
            device_close(device);
            json_array_append_new(dtypes, json_string(dtype_name((enum dtype)i)));
            snprintf(line + strlen(line), sizeof line - strlen(line), "%s%s", *line ? ", " : "",
                     dtype_name((enum dtype)i));
        }
        bool none = json_array_size(dtypes) == 0;
        fprintf(table, "%-12s %s%s\n", *name, none ? "none: " : line, none ? refused.message : "");
        json_t *row = json_pack("{s:s, s:o}", "name", *name, "dtypes", dtypes);
        if (none)
            json_object_set_new(row, "reason", json_string(refused.message));
        json_array_append_new(list, row);
    }
    return list;
}

// Appends the fields under `parent`, "" or "gradient.tensors.NAME.".
static void list_fields_of(json_t *list, const struct record_field *fields, const char *parent, FILE *table)
{
    for (const struct record_field *field = fields; field->name; field++) {
        char name[120], inner[130];
        snprintf(name, sizeof name, "%s%s", parent, field->name);
        fprintf(table, "%-34s %-32s %-9s %s%s%s\n", name, field_type_name(field), field->unit ? field->unit : "",
                field->meaning ? field->meaning : "",
                !field->null     ? ""
                : field->meaning ? " | null: "
                                 : "null: ",
                field->null ? field->null : "");
        json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:s?, s:s?, s:s?}", "name", name, "type",
                                              field_type_name(field), "required", (int)field->required, "unit",
                                              field->unit, "meaning", field->meaning, "null", field->null));
        if (!field->members)
            continue;
        snprintf(inner, sizeof inner, "%s%s", name,
                 field->type == FIELD_MAP    ? ".NAME."
                 : field->type == FIELD_ROWS ? "[]."
                                             : ".");
        list_fields_of(list, field->members, inner, table);
    }
}

static json_t *list_fields(FILE *table)
{
    json_t *list = json_array();
    list_fields_of(list, record_fields, "", table);
    return list;
}

// Appends the keys under `parent`, "" or "measure.".
static void list_keys_of(json_t *list, const struct trial_key *keys, const char *parent, FILE *table)
{
    for (const struct trial_key *key = keys; key->name; key++) {
        char name[80], values[400], standard[160], inner[90];
        snprintf(name, sizeof name, "%s%s", parent, key->name);
        trial_key_values(key, values, sizeof values);
        trial_key_default(key, standard, sizeof standard);
        fprintf(table, "%-20s %s | %s | %s\n", name, key->meaning, values, standard);
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:b, s:s?}", "name", name, "meaning",
                                              key->meaning, "values", values, "default", standard, "required",
                                              (int)key->required, "unit", key->unit));
        snprintf(inner, sizeof inner, "%s.", name);
        if (key->members)
            list_keys_of(list, key->members, inner, table);
    }
}

static json_t *list_keys(FILE *table)
{
    json_t *list = json_array();
    list_keys_of(list, trial_keys, "", table);
    return list;
}

static const struct {
    const char *name;
    json_t *(*list)(FILE *table); // prints a table, and returns the value for JSON
} lists[] = {{"methods", list_methods},
             {"objectives", list_objectives},
             {"optimizers", list_optimizers},
             {"frameworks", list_frameworks},
             {"models", list_models},
             {"profiles", list_profiles},
             {"interconnects", list_interconnects},
             {"devices", list_devices},
             {"keys", list_keys},
             {"fields", list_fields}};
#define LISTS "methods|objectives|optimizers|frameworks|models|profiles|interconnects|devices|keys|fields"

int command_list(int argc, char **argv)
{
    static const struct flag options[] = {{"json", .key = 'j', SET_AT(struct arguments, json), .doc = "print JSON"},
                                          {OPERANDS, TEXT_AT(struct arguments, what), .doc = "name a list: " LISTS},
                                          {0}};
    static const struct argp argp = {
        .args_doc = LISTS,
        .doc = "Lists models, methods and other items; profiles: of cards, for --profile; interconnects: for "
               "--interconnect; keys: of a trial; fields: of a record."};
    struct arguments arguments = {0};
    arguments_parse(&argp, options, argc, argv, &arguments);
    size_t i = 0;
    while (strcmp(lists[i].name, arguments.what) != 0)
        i++;
    char *text;
    size_t bytes;
    FILE *table = open_memstream(&text, &bytes);
    json_t *list = lists[i].list(table);
    CHECK(fclose(table) == 0);
    if (!arguments.json)
        fputs(text, stdout);
    else
        command_print(json_incref(list), JSON_INDENT(2));
    json_decref(list);
    free(text);
    return EXIT_FINE;
}
