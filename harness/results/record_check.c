#include "harness/results/record_check.h"
#include "harness/files/names.h"
#include "harness/results/record.h"
#include "kernels/base/arena.h"
#include <string.h>

enum field_type {
    FIELD_ANY,
    FIELD_BOOL,
    FIELD_STRING,
    FIELD_COUNT,  // a whole number >= 0
    FIELD_SIZE,   // a number >= 0
    FIELD_NUMBER, // of any sign
    FIELD_ARRAY,
    FIELD_TIMES,  // an array of numbers > 0
    FIELD_COUNTS, // an array of whole numbers >= 0
    FIELD_HASH,   // 16 hexadecimal digits
    FIELD_OBJECT,
    FIELD_OBJECTS // an object of objects under any names, each of `members`
};

struct field {
    const char *name;
    enum field_type type;
    bool required;               // whatever the status; others may be null or absent
    const struct field *members; // of an object, ending in a NULL name; NULL: any
};

static const struct field measure_fields[] = {{"warmup", FIELD_COUNT, false, NULL},
                                              {"samples", FIELD_COUNT, false, NULL},
                                              {"max_seconds", FIELD_SIZE, false, NULL},
                                              {"gradient", FIELD_STRING, false, NULL},
                                              {"timeline", FIELD_BOOL, false, NULL},
                                              {"gemm", FIELD_BOOL, false, NULL},
                                              {"bias", FIELD_BOOL, false, NULL},
                                              {"categories", FIELD_BOOL, false, NULL},
                                              {NULL, FIELD_ANY, false, NULL}};

static const struct field limits_fields[] = {{"memory", FIELD_COUNT, false, NULL}, {NULL, FIELD_ANY, false, NULL}};

static const struct field trial_fields[] = {{"model", FIELD_ANY, false, NULL},
                                            {"dtype", FIELD_STRING, true, NULL},
                                            {"device", FIELD_STRING, true, NULL},
                                            {"profile", FIELD_STRING, false, NULL},
                                            {"batch", FIELD_COUNT, true, NULL},
                                            {"context", FIELD_COUNT, true, NULL},
                                            {"seed", FIELD_COUNT, false, NULL},
                                            {"data", FIELD_ANY, false, NULL},
                                            {"labels", FIELD_STRING, false, NULL},
                                            {"lora", FIELD_OBJECT, false, NULL},
                                            {"optimizer", FIELD_OBJECT, false, NULL},
                                            {"kv_gradient_dtype", FIELD_STRING, false, NULL},
                                            {"gradient_dtype", FIELD_STRING, false, NULL},
                                            {"deterministic", FIELD_BOOL, false, NULL},
                                            {"tf32", FIELD_BOOL, false, NULL},
                                            {"whole_attention", FIELD_BOOL, false, NULL},
                                            {"method", FIELD_OBJECT, true, NULL}, // its options differ by method
                                            {"measure", FIELD_OBJECT, false, measure_fields},
                                            {"limits", FIELD_OBJECT, false, limits_fields},
                                            {NULL, FIELD_ANY, false, NULL}};

static const struct field tensor_fields[] = {{"relative_l2", FIELD_SIZE, false, NULL},
                                             {"max_abs", FIELD_SIZE, false, NULL},
                                             {"hash", FIELD_HASH, false, NULL},
                                             {NULL, FIELD_ANY, false, NULL}};

static const struct field gradient_fields[] = {{"relative_l2", FIELD_SIZE, false, NULL},
                                               {"max_abs", FIELD_SIZE, false, NULL},
                                               {"cosine", FIELD_NUMBER, false, NULL},
                                               {"decimals", FIELD_NUMBER, false, NULL},
                                               {"mean_abs", FIELD_SIZE, false, NULL},
                                               {"mean_relative", FIELD_SIZE, false, NULL},
                                               {"noise_floor", FIELD_SIZE, false, NULL},
                                               {"worst_tensor", FIELD_STRING, false, NULL},
                                               {"worst_relative_l2", FIELD_SIZE, false, NULL},
                                               {"hash", FIELD_HASH, false, NULL},
                                               {"tensors", FIELD_OBJECTS, false, tensor_fields},
                                               {NULL, FIELD_ANY, false, NULL}};

static const struct field bias_fields[] = {{"relative_l2", FIELD_SIZE, false, NULL},
                                           {"rms_error", FIELD_SIZE, false, NULL},
                                           {"subsets", FIELD_COUNT, false, NULL},
                                           {NULL, FIELD_ANY, false, NULL}};

static const struct field timeline_fields[] = {{"category_order", FIELD_ARRAY, false, NULL},
                                               {"events", FIELD_ARRAY, false, NULL},
                                               {NULL, FIELD_ANY, false, NULL}};

static const struct field roofline_fields[] = {{"source", FIELD_STRING, false, NULL},
                                               {"flops_per_s", FIELD_SIZE, false, NULL},
                                               {"bytes_per_s", FIELD_SIZE, false, NULL},
                                               {"launch_s", FIELD_SIZE, false, NULL},
                                               {NULL, FIELD_ANY, false, NULL}};

static const struct field categories_fields[] = {{"step_ms", FIELD_SIZE, false, NULL},
                                                 {"roofline", FIELD_OBJECT, false, roofline_fields},
                                                 {"rows", FIELD_ARRAY, false, NULL},
                                                 {NULL, FIELD_ANY, false, NULL}};

static const struct field sm_clock_fields[] = {{"min", FIELD_SIZE, false, NULL},
                                               {"median", FIELD_SIZE, false, NULL},
                                               {"max", FIELD_SIZE, false, NULL},
                                               {NULL, FIELD_ANY, false, NULL}};

static const struct field provenance_fields[] = {{"revision", FIELD_STRING, false, NULL},
                                                 {"dirty", FIELD_BOOL, false, NULL},
                                                 {"compiler", FIELD_STRING, false, NULL},
                                                 {"flags", FIELD_STRING, false, NULL},
                                                 {"blas", FIELD_STRING, false, NULL},
                                                 {"cpu", FIELD_STRING, false, NULL},
                                                 {"card", FIELD_STRING, false, NULL},
                                                 {"host_memory_bytes", FIELD_COUNT, false, NULL},
                                                 {"threads", FIELD_COUNT, false, NULL},
                                                 {"kernel", FIELD_STRING, false, NULL},
                                                 {"clock_mhz_before", FIELD_SIZE, false, NULL},
                                                 {"clock_mhz_after", FIELD_SIZE, false, NULL},
                                                 {"time", FIELD_STRING, false, NULL},
                                                 {"version", FIELD_STRING, false, NULL},
                                                 {NULL, FIELD_ANY, false, NULL}};

static const struct field record_fields[] = {{"schema", FIELD_COUNT, true, NULL},
                                             {"id", FIELD_STRING, true, NULL},
                                             {"experiment", FIELD_STRING, true, NULL},
                                             {"status", FIELD_STRING, true, NULL},
                                             {"reason", FIELD_STRING, false, NULL},
                                             {"trial", FIELD_OBJECT, true, trial_fields},
                                             {"loss", FIELD_NUMBER, false, NULL},
                                             {"columns", FIELD_ARRAY, false, NULL},
                                             {"samples_ms", FIELD_TIMES, false, NULL},
                                             {"sample_columns", FIELD_COUNTS, false, NULL},
                                             {"median_ms", FIELD_SIZE, false, NULL},
                                             {"mean_ms", FIELD_SIZE, false, NULL},
                                             {"mean_error_ms", FIELD_SIZE, false, NULL},
                                             {"asked_ms", FIELD_SIZE, false, NULL},
                                             {"energy_j", FIELD_SIZE, false, NULL},
                                             {"sm_clock_mhz", FIELD_OBJECT, false, sm_clock_fields},
                                             {"estimate_ms", FIELD_SIZE, false, NULL},
                                             {"profile", FIELD_STRING, false, NULL},
                                             {"flops_per_s", FIELD_SIZE, false, NULL},
                                             {"model_flops_per_s", FIELD_SIZE, false, NULL},
                                             {"gemm_flops_per_s", FIELD_SIZE, false, NULL},
                                             {"model_flops_share", FIELD_SIZE, false, NULL},
                                             {"peak_bytes", FIELD_COUNT, false, NULL},
                                             {"peak_by_category", FIELD_OBJECT, false, NULL},
                                             {"resident_bytes", FIELD_COUNT, false, NULL},
                                             {"device_used_bytes", FIELD_COUNT, false, NULL},
                                             {"device_reserved_bytes", FIELD_COUNT, false, NULL},
                                             {"floor_bytes_per_token", FIELD_SIZE, false, NULL},
                                             {"lower_bound_bytes", FIELD_SIZE, false, NULL},
                                             {"peak_over_bound", FIELD_SIZE, false, NULL},
                                             {"flops", FIELD_SIZE, false, NULL},
                                             {"model_flops", FIELD_SIZE, false, NULL},
                                             {"bytes_moved", FIELD_SIZE, false, NULL},
                                             {"attention_glue_bytes", FIELD_SIZE, false, NULL},
                                             {"launches", FIELD_COUNT, false, NULL},
                                             {"gradient", FIELD_OBJECT, false, gradient_fields},
                                             {"bias", FIELD_OBJECT, false, bias_fields},
                                             {"timeline", FIELD_OBJECT, false, timeline_fields},
                                             {"categories", FIELD_OBJECT, false, categories_fields},
                                             {"provenance", FIELD_OBJECT, false, provenance_fields},
                                             {"wall_s", FIELD_SIZE, false, NULL},
                                             {"command", FIELD_STRING, false, NULL},
                                             {NULL, FIELD_ANY, false, NULL}};

static bool are_times(const json_t *list)
{
    bool fine = json_is_array(list);
    for (size_t i = 0; fine && i < json_array_size(list); i++)
        fine = json_number_value(json_array_get(list, i)) > 0; // 0 if it is no number
    return fine;
}

static bool is_count(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static bool are_counts(const json_t *list)
{
    bool fine = json_is_array(list);
    for (size_t i = 0; fine && i < json_array_size(list); i++)
        fine = is_count(json_array_get(list, i));
    return fine;
}

static bool is_hash(const json_t *value)
{
    const char *text = json_string_value(value);
    return text && strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16;
}

static bool has_type(const json_t *value, enum field_type type)
{
    switch (type) {
    case FIELD_ANY:
        return true;
    case FIELD_BOOL:
        return json_is_boolean(value);
    case FIELD_STRING:
        return json_is_string(value);
    case FIELD_COUNT:
        return is_count(value);
    case FIELD_SIZE:
        return json_is_number(value) && json_number_value(value) >= 0;
    case FIELD_NUMBER:
        return json_is_number(value);
    case FIELD_ARRAY:
        return json_is_array(value);
    case FIELD_TIMES:
        return are_times(value);
    case FIELD_COUNTS:
        return are_counts(value);
    case FIELD_HASH:
        return is_hash(value);
    case FIELD_OBJECT:
    case FIELD_OBJECTS:
        return json_is_object(value);
    }
    return false;
}

static const char *type_name(enum field_type type)
{
    static const char *const names[] = {
        [FIELD_ANY] = "a value",
        [FIELD_BOOL] = "true or false",
        [FIELD_STRING] = "a string",
        [FIELD_COUNT] = "a whole number >= 0",
        [FIELD_SIZE] = "a number >= 0",
        [FIELD_NUMBER] = "a number",
        [FIELD_ARRAY] = "an array",
        [FIELD_TIMES] = "an array of numbers > 0",
        [FIELD_COUNTS] = "an array of whole numbers >= 0",
        [FIELD_HASH] = "16 hexadecimal digits",
        [FIELD_OBJECT] = "an object",
        [FIELD_OBJECTS] = "an object",
    };
    return names[type];
}

static bool check_known(const json_t *object, const struct names *known, const char *where, const char *parent,
                        struct status *status)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        if (names_find(known, key) < known->count)
            continue;
        char hint[640];
        names_hint(known, key, "known keys", hint, sizeof hint);
        return status_set(status, STATUS_BAD_INPUT, "%s: unknown key \"%s%.40s\"; %s", where, parent, key, hint);
    }
    return true;
}

static bool check_objects(const json_t *objects, const struct field *fields, const char *where, const char *parent,
                          struct status *status);

// parent: "" or the path of the object, such as "trial.measure.".
static bool check_object(const json_t *object, const struct field *fields, const char *where, const char *parent,
                         struct status *status)
{
    struct names known = {0};
    for (const struct field *field = fields; field->name; field++) {
        const json_t *value = json_object_get(object, field->name);
        names_add(&known, field->name);
        if (!value && field->required)
            return status_set(status, STATUS_BAD_INPUT, "%s: not a record: \"%s%s\" is missing", where, parent,
                              field->name);
        if (!value || (json_is_null(value) && !field->required))
            continue;
        if (!has_type(value, field->type))
            return status_set(status, STATUS_BAD_INPUT, "%s: \"%s%s\" is not %s", where, parent, field->name,
                              type_name(field->type));
        char inner[80];
        snprintf(inner, sizeof inner, "%s%s.", parent, field->name);
        bool (*check)(const json_t *, const struct field *, const char *, const char *, struct status *) =
            field->type == FIELD_OBJECTS ? check_objects : check_object;
        if (field->members && !check(value, field->members, where, inner, status))
            return false;
    }
    return check_known(object, &known, where, parent, status);
}

static bool check_objects(const json_t *objects, const struct field *fields, const char *where, const char *parent,
                          struct status *status)
{
    const char *name;
    json_t *object;
    json_object_foreach((json_t *)objects, name, object)
    {
        char inner[240];
        if (!json_is_object(object))
            return status_set(status, STATUS_BAD_INPUT, "%s: \"%s%.112s\" is not an object", where, parent, name);
        snprintf(inner, sizeof inner, "%s%.112s.", parent, name);
        if (!check_object(object, fields, where, inner, status))
            return false;
    }
    return true;
}

static bool check_categories(const json_t *categories, const char *where, struct status *status)
{
    struct field fields[CATEGORY_COUNT + 1] = {0};
    for (int i = 0; i < CATEGORY_COUNT; i++)
        fields[i] = (struct field){category_name((enum category)i), FIELD_COUNT, false, NULL};
    return !json_is_object(categories) || check_object(categories, fields, where, "peak_by_category.", status);
}

// Each sample has its number of columns; a plan has the columns alone.
static bool check_samples(const json_t *record, const char *where, struct status *status)
{
    const json_t *columns = json_object_get(record, "sample_columns");
    size_t times = json_array_size(json_object_get(record, "samples_ms"));
    if (!times || !json_is_array(columns) || json_array_size(columns) == times)
        return true;
    return status_set(status, STATUS_BAD_INPUT, "%s: \"sample_columns\" are %zu, but \"samples_ms\" %zu", where,
                      json_array_size(columns), times);
}

bool record_check(const json_t *record, const char *where, struct status *status)
{
    if (!json_is_object(record))
        return status_set(status, STATUS_BAD_INPUT, "%s: not a record: a JSON object was expected", where);
    // The version first: a record of another version may differ in anything else.
    const json_t *schema = json_object_get(record, "schema");
    if (!json_is_integer(schema))
        return status_set(status, STATUS_BAD_INPUT, "%s: not a record: \"schema\" is missing", where);
    if (json_integer_value(schema) != RECORD_SCHEMA)
        return status_set(status, STATUS_BAD_INPUT, "%s: schema %lld, but this program reads schema %d%s", where,
                          (long long)json_integer_value(schema), RECORD_SCHEMA,
                          json_integer_value(schema) < RECORD_SCHEMA ? "; `longbp convert` makes one of the other"
                                                                     : "");
    if (!check_object(record, record_fields, where, "", status) ||
        !check_categories(json_object_get(record, "peak_by_category"), where, status) ||
        !check_samples(record, where, status))
        return false;
    const json_t *method = json_object_get(json_object_get(record, "trial"), "method");
    if (!json_is_string(json_object_get(method, "name")))
        return status_set(status, STATUS_BAD_INPUT, "%s: not a record: \"trial.method.name\" is missing", where);
    const char *id = json_string_value(json_object_get(record, "id"));
    if (strlen(id) != 32 || strspn(id, "0123456789abcdef") != 32)
        return status_set(status, STATUS_BAD_INPUT, "%s: \"id\" is \"%.40s\", not 32 hexadecimal digits", where,
                          id);
    const char *name = json_string_value(json_object_get(record, "status"));
    return record_status_from_name(name) != RECORD_STATUS_COUNT ||
           status_set(status, STATUS_BAD_INPUT,
                      "%s: \"status\" is \"%.40s\", not ok, oom, timeout, crash, unsupported or failed", where,
                      name);
}
