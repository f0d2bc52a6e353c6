#define _GNU_SOURCE // mempcpy
// Reads a line in one pass over the table of fields, without a tree: four times as fast as jansson, which decodes
// rare values, such as strings with escapes, and reports errors of invalid JSON.
#include "harness/record/record_read.h"
#include "harness/json/json_source.h"
#include "harness/record/record_fields.h"
#include "harness/record/record_json.h"
#include "harness/text/names.h"
#include "harness/text/text.h"
#include "kernels/base/status.h"
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#define FIELDS_MAX 96
#define COUNTS_MAX 16
#define DEPTH_MAX  16
// The largest separate struct, or part.
#define PART_BYTES_MAX 512

// A value's text in the line, with quotes or braces.
struct slice {
    const char *text;
    size_t bytes;
};

struct bytes {
    char *items;
    size_t count, capacity;
};

struct reading {
    const char *at; // the rest of the line
    const char *where;
    struct interned *interned;
    struct slice path[DEPTH_MAX]; // names of the enclosing values, in quotes, or row numbers
    size_t depth;
    const struct record_field *trial; // fields of its trial, once it is found
    bool unknown;                     // the trial has unknown keys
    size_t count_count;               // number of counts in the trial, in text order
    struct slice counts[COUNTS_MAX];
    struct bytes arrays, names; // being read, nested; names of a map's parts
    struct status wrong;        // the first error
};

// "trial.measure."
static void path_text(const struct reading *reading, char *text, size_t bytes)
{
    *text = 0;
    for (size_t i = 0; i < reading->depth; i++) {
        const struct slice *name = &reading->path[i];
        if (name->text)
            text_append(text, bytes, "%.*s.", (int)name->bytes - 2, name->text + 1);
        else
            text_append(text, bytes, "%zu.", name->bytes);
    }
}

// Reports that the current value is wrong. Returns false, as do all later calls.
static bool refuse(struct reading *reading, const char *what)
{
    char path[300];
    path_text(reading, path, sizeof path);
    if (reading->wrong.code == STATUS_OK)
        status_set(&reading->wrong, STATUS_BAD_INPUT, "%s: \"%.*s\" is not %s", reading->where,
                   (int)strlen(path) - 1, path, what);
    return false;
}

// --- JSON

static void skip_space(struct reading *reading)
{
    while (*reading->at == ' ' || *reading->at == '\t' || *reading->at == '\n' || *reading->at == '\r')
        reading->at++;
}

static bool take(struct reading *reading, char sign)
{
    skip_space(reading);
    bool is = *reading->at == sign;
    reading->at += is;
    return is;
}

static struct slice slice_from(const struct reading *reading, const char *start)
{
    return (struct slice){start, (size_t)(reading->at - start)};
}

static bool slice_is(struct slice slice, const char *string)
{
    size_t bytes = strlen(string);
    return slice.bytes == bytes + 2 && memcmp(slice.text + 1, string, bytes) == 0;
}

static bool take_word(struct reading *reading, const char *word)
{
    size_t bytes = strlen(word);
    bool is = strncmp(reading->at, word, bytes) == 0;
    reading->at += is ? bytes : 0;
    return is;
}

static bool take_string(struct reading *reading, struct slice *string)
{
    const char *start = reading->at;
    if (*start != '"')
        return false;
    reading->at = json_string_end(start);
    *string = slice_from(reading, start);
    return string->bytes >= 2 && start[string->bytes - 1] == '"';
}

// NULL: not a JSON string.
static const char *text_of(const struct reading *reading, struct slice string)
{
    const char *inside = string.text + 1, *text;
    size_t bytes = string.bytes - 2, plain = 0;
    while (plain < bytes && (signed char)inside[plain] >= ' ' && inside[plain] != '\\')
        plain++;
    if (plain == bytes)
        return interned_text(reading->interned, inside, bytes);
    json_t *decoded = json_loadb(string.text, string.bytes, JSON_DECODE_ANY, NULL);
    text =
        decoded ? interned_text(reading->interned, json_string_value(decoded), json_string_length(decoded)) : NULL;
    json_decref(decoded);
    return text;
}

static bool read_string(struct reading *reading, const char **text)
{
    struct slice string;
    return take_string(reading, &string) && (*text = text_of(reading, string));
}

// Returns how many there are.
static size_t skip_digits(struct reading *reading)
{
    const char *first = reading->at;
    while (*reading->at >= '0' && *reading->at <= '9')
        reading->at++;
    return (size_t)(reading->at - first);
}

static bool take_number(struct reading *reading, double *value, bool *whole)
{
    const char *start = reading->at, *digits = start + (*start == '-');
    reading->at = digits;
    size_t count = skip_digits(reading);
    if (!count || (*digits == '0' && count > 1))
        return false;
    *whole = *reading->at != '.' && *reading->at != 'e' && *reading->at != 'E';
    if (*reading->at == '.' && (reading->at++, !skip_digits(reading)))
        return false;
    if (*reading->at == 'e' || *reading->at == 'E') {
        reading->at++;
        reading->at += *reading->at == '+' || *reading->at == '-';
        if (!skip_digits(reading))
            return false;
    }
    errno = 0;
    *value = *whole ? (double)strtoll(start, NULL, 10) : strtod(start, NULL);
    return *whole ? errno != ERANGE : isfinite(*value);
}

static bool read_number(struct reading *reading, enum field_type type, double *value)
{
    bool whole;
    return take_number(reading, value, &whole) &&
           (type == FIELD_NUMBER || (type == FIELD_COUNT && (whole ? *value >= 0 : *value >= 0x1p63)) ||
            (type == FIELD_POSITIVE && *value > 0) || ((type == FIELD_SIZE || type == FIELD_WHOLE) && *value >= 0));
}

// opening: of an array or an object; 0: any value.
static bool read_json(struct reading *reading, char opening, const json_t **json)
{
    const char *start = reading->at;
    if (opening && *start != opening)
        return false;
    reading->at = json_value_end(start);
    struct slice value = slice_from(reading, start);
    return (*json = interned_json(reading->interned, value.text, value.bytes));
}

// Reads a key and its colon, up to the value.
static bool take_key(struct reading *reading, struct slice *key)
{
    skip_space(reading);
    bool fine = take_string(reading, key) && take(reading, ':');
    skip_space(reading);
    return fine;
}

// --- fields

static void append(struct bytes *to, const void *item, size_t bytes)
{
    if (to->capacity - to->count < bytes) {
        to->capacity = 2 * (to->capacity + bytes);
        to->items = realloc(to->items, to->capacity);
    }
    memcpy(to->items + to->count, item, bytes);
    to->count += bytes;
}

// Takes off the innermost array, which began at `start`.
static void *array_from(struct reading *reading, struct bytes *from, size_t start)
{
    size_t bytes = from->count - start;
    from->count = start;
    return bytes ? (void *)interned_text(reading->interned, from->items + start, bytes) : NULL;
}

// A number that is not finite is null, such as the lost share of an empty update.
static bool read_item(struct reading *reading, enum field_type type, double *value)
{
    *value = NAN;
    skip_space(reading);
    return ((type == FIELD_SIZE || type == FIELD_NUMBER) && take_word(reading, "null")) ||
           read_number(reading, type, value);
}

static bool read_list(struct reading *reading, const struct record_field *field, struct number_list *list)
{
    if (!take(reading, '['))
        return false;
    if (take(reading, ']'))
        return field->none != NONE_LEFT_OUT;
    size_t start = reading->arrays.count;
    do {
        double value;
        if (!read_item(reading, field->type, &value))
            return false;
        append(&reading->arrays, &value, sizeof value);
        list->count++;
    } while (take(reading, ','));
    list->items = array_from(reading, &reading->arrays, start);
    return take(reading, ']');
}

static bool read_hash(struct reading *reading, uint64_t *hash)
{
    struct slice string;
    if (!take_string(reading, &string) || string.bytes != 18)
        return false;
    *hash = strtoull(string.text + 1, NULL, 16);
    return strspn(string.text + 1, "0123456789abcdef") == 16;
}

static bool read_status(struct reading *reading, enum record_status *status)
{
    struct slice string;
    if (!take_string(reading, &string))
        return false;
    *status = 0;
    while (*status < RECORD_STATUS_COUNT && !slice_is(string, record_status_name(*status)))
        ++*status;
    return *status < RECORD_STATUS_COUNT ||
           status_set(&reading->wrong, STATUS_BAD_INPUT,
                      "%s: \"status\" is %.*s, not ok, oom, timeout, crash, unsupported or failed", reading->where,
                      string.bytes < 42 ? (int)string.bytes : 42, string.text);
}

static bool read_members(struct reading *reading, const struct record_field *fields, void *owner);

// Reads the name of a map's part, which must be new.
static bool read_name(struct reading *reading, struct slice *key)
{
    const char *name = take_key(reading, key) ? text_of(reading, *key) : NULL;
    for (size_t at = 0; name && at < reading->names.count; at += sizeof name)
        if (memcmp(reading->names.items + at, &name, sizeof name) == 0)
            return false;
    append(&reading->names, &name, sizeof name);
    return name;
}

static void enter(struct reading *reading, struct slice name)
{
    CHECK(reading->depth < DEPTH_MAX);
    reading->path[reading->depth++] = name;
}

static bool read_part(struct reading *reading, const struct record_field *field, struct slice name)
{
    _Alignas(max_align_t) char part[PART_BYTES_MAX] = {0};
    CHECK(field->part_bytes <= sizeof part);
    record_fields_clear(field->members, part);
    enter(reading, name);
    bool fine = read_members(reading, field->members, part);
    reading->depth--;
    append(&reading->arrays, part, field->part_bytes);
    return fine;
}

static bool read_parts(struct reading *reading, const struct record_field *field, struct record_parts *parts)
{
    bool named = field->type == FIELD_MAP;
    char closing = named ? '}' : ']';
    if (!take(reading, named ? '{' : '['))
        return false;
    if (take(reading, closing))
        return true;
    size_t start = reading->arrays.count;
    do {
        struct slice name = {NULL, parts->count++}; // its index
        if ((named && !read_name(reading, &name)) || !read_part(reading, field, name))
            return false;
    } while (take(reading, ','));
    parts->items = array_from(reading, &reading->arrays, start);
    parts->names = array_from(reading, &reading->names, 0);
    return take(reading, closing);
}

// Interns the trial that begins here, with 0 for its counts.
static struct interned_item *rest_of(const struct reading *reading, const char *start)
{
    struct slice trial = slice_from(reading, start);
    char *rest = malloc(trial.bytes), *end = rest;
    for (size_t i = 0; i < reading->count_count; i++) {
        end = mempcpy(end, start, (size_t)(reading->counts[i].text - start));
        *end++ = '0';
        start = reading->counts[i].text + reading->counts[i].bytes;
    }
    end = mempcpy(end, start, (size_t)(reading->at - start));
    struct interned_item *item = interned_item(reading->interned, rest, (size_t)(end - rest));
    free(rest);
    return item;
}

static bool read_struct(struct reading *reading, const struct record_field *field, void *value)
{
    const char *start = reading->at;
    if (field->type == FIELD_TRIAL)
        reading->trial = field->members;
    if (!read_members(reading, field->members, value))
        return false;
    *(bool *)value = true;
    if (field->type != FIELD_TRIAL)
        return true;
    struct interned_item *rest = rest_of(reading, start);
    ((struct record_trial *)value)->rest = rest;
    return !reading->unknown || interned_item_json(rest); // has no duplicate key
}

static bool read_tally(struct reading *reading, double *counts)
{
    struct record_field fields[CATEGORY_COUNT + 1] = {0};
    for (size_t i = 0; i < CATEGORY_COUNT; i++)
        fields[i] = (struct record_field){
            .name = category_name((enum category)i), .offset = i * sizeof *counts, .type = FIELD_COUNT};
    return read_members(reading, fields, counts);
}

static bool read_apart(struct reading *reading, const struct record_field *field, const void **value)
{
    _Alignas(max_align_t) char part[PART_BYTES_MAX] = {0};
    CHECK(field->part_bytes <= sizeof part);
    memcpy(part, field->absent, field->part_bytes);
    bool fine =
        field->type == FIELD_TALLY ? read_tally(reading, (double *)part) : read_struct(reading, field, part);
    *value = interned_text(reading->interned, part, field->part_bytes);
    return fine;
}

static bool read_bool(struct reading *reading, int *value)
{
    *value = take_word(reading, "true");
    return *value || take_word(reading, "false");
}

static bool read_value(struct reading *reading, const struct record_field *field, void *value)
{
    if (take_word(reading, "null"))
        return !field->required;
    switch (field->type) {
    case FIELD_ANY:
        return read_json(reading, 0, value);
    case FIELD_ARRAY:
        return read_json(reading, '[', value);
    case FIELD_BOOL:
        return read_bool(reading, value);
    case FIELD_STRING:
        return read_string(reading, value);
    case FIELD_STATUS:
        return read_status(reading, value);
    case FIELD_HASH:
        return read_hash(reading, value);
    case FIELD_COUNT:
    case FIELD_SIZE:
    case FIELD_WHOLE:
    case FIELD_POSITIVE:
    case FIELD_NUMBER:
        return field->list ? read_list(reading, field, value) : read_number(reading, field->type, value);
    case FIELD_OBJECT:
    case FIELD_TRIAL:
        if (!field->members)
            return read_json(reading, '{', value);
        return field->absent ? read_apart(reading, field, value) : read_struct(reading, field, value);
    case FIELD_ROWS:
    case FIELD_MAP:
        return read_parts(reading, field, value);
    case FIELD_TALLY:
        return read_apart(reading, field, value);
    }
    return false;
}

// Fields seen so far, usually in the table's order.
struct met {
    bool seen[FIELDS_MAX];
    size_t count, next;
};

// Most differ in their first letters.
static bool is_key(struct slice key, const char *name)
{
    return key.text[1] == *name && (key.text[2] == name[1] || !name[1]) && slice_is(key, name);
}

// The field's index; that of the closing NULL if there is none of this name.
static size_t find(const struct record_field *fields, const struct met *met, struct slice key)
{
    for (size_t i = met->next; fields[i].name; i++)
        if (is_key(key, fields[i].name))
            return i;
    size_t i = 0;
    while (fields[i].name && !is_key(key, fields[i].name))
        i++;
    return i;
}

static bool has_required(struct reading *reading, const struct record_field *fields, const struct met *met)
{
    size_t i = 0;
    while (fields[i].name && (!fields[i].required || met->seen[i]))
        i++;
    if (!fields[i].name)
        return true;
    char path[300];
    path_text(reading, path, sizeof path);
    return status_set(&reading->wrong, STATUS_BAD_INPUT, "%s: not a record: \"%s%s\" is missing", reading->where,
                      path, fields[i].name);
}

// Ignores keys of earlier versions with a null value.
static bool skip_unknown(struct reading *reading, const struct record_field *fields, struct slice key)
{
    struct names known = {0};
    char path[300], hint[640];
    const char *name = text_of(reading, key);
    path_text(reading, path, sizeof path);
    reading->unknown = strncmp(path, "trial.", 6) == 0 && take_word(reading, "null");
    if (!name || reading->unknown)
        return name;
    for (const struct record_field *field = fields; field->name; field++)
        names_add(&known, field->name);
    names_hint(&known, name, "known keys", hint, sizeof hint);
    return status_set(&reading->wrong, STATUS_BAD_INPUT, "%s: unknown key \"%s%.40s\"; %s", reading->where, path,
                      name, hint);
}

// Notes a count whose value begins here. Inexact numbers stay in the trial's text.
static void note_count(struct reading *reading, const struct record_field *field, const char *start,
                       const void *value)
{
    if (field->type != FIELD_COUNT || !(*(const double *)value < RECORD_EXACT_MAX))
        return;
    CHECK(reading->count_count < COUNTS_MAX);
    reading->counts[reading->count_count++] = slice_from(reading, start);
}

static bool read_member(struct reading *reading, const struct record_field *fields, struct met *met, void *owner)
{
    struct slice key;
    if (!take_key(reading, &key))
        return false;
    size_t at = find(fields, met, key);
    const struct record_field *field = &fields[at];
    if (!field->name)
        return skip_unknown(reading, fields, key);
    CHECK(at < FIELDS_MAX);
    void *value = (char *)owner + field->offset;
    const char *start = reading->at;
    enter(reading, key);
    if (met->seen[at] || (!read_value(reading, field, value) && !refuse(reading, field_type_name(field))))
        return false;
    reading->depth--;
    if (fields == reading->trial)
        note_count(reading, field, start, value);
    met->seen[at] = true;
    met->next = at + 1;
    return true;
}

static bool read_members(struct reading *reading, const struct record_field *fields, void *owner)
{
    struct met met = {0};
    if (!take(reading, '{'))
        return refuse(reading, "an object");
    bool any = !take(reading, '}');
    do {
        if (any && !read_member(reading, fields, &met, owner))
            return false;
    } while (any && take(reading, ','));
    return (!any || take(reading, '}')) && has_required(reading, fields, &met);
}

// --- checks beyond the table

// Each sample has a number of chunks (a plan has only chunks), and a slowdown if any has.
static bool check_samples(struct reading *reading, const struct record *record)
{
    const struct {
        const char *name;
        size_t count;
    } lists[] = {{"sample_chunks", record->sample_chunks.count}, {"slowdown", record->slowdown.count}};
    size_t times = record->samples_ms.count;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (times && lists[i].count && lists[i].count != times)
            return status_set(&reading->wrong, STATUS_BAD_INPUT, "%s: \"%s\" are %zu, but \"samples_ms\" %zu",
                              reading->where, lists[i].name, lists[i].count, times);
    return true;
}

static bool is_method(const json_t *method)
{
    const char *name = json_string_value(json_object_get(method, "name"));
    if (!name || !*name)
        return false;
    while (*name && !control_character(name))
        name++;
    return !*name;
}

static bool check(struct reading *reading, const struct record *record)
{
    const struct record_trial *trial = &record->trial;
    const char *wrong = trial->context < 1 ? "\"trial.context\" is not a whole number >= 1"
                        : trial->batch < 1 ? "\"trial.batch\" is not a whole number >= 1"
                        : record->round < 1 || record->round > RECORD_ROUNDS_MAX
                            ? "\"round\" is not a whole number from 1 to 1000"
                        : !is_method(trial->method)
                            ? "not a record: \"trial.method.name\" is missing or empty, or has control characters"
                        : strlen(record->id) != 32 || strspn(record->id, "0123456789abcdef") != 32
                            ? "\"id\" is not 32 hexadecimal digits"
                            : NULL;
    _Static_assert(RECORD_ROUNDS_MAX == 1000, "as the message says");
    if (wrong)
        return status_set(&reading->wrong, STATUS_BAD_INPUT, "%s: %s", reading->where, wrong);
    return check_samples(reading, record);
}

// Reports invalid JSON, or a record of another version, as such rather than by its first wrong field.
static bool tell(const struct reading *reading, const char *text, size_t bytes, struct status *status)
{
    json_error_t error;
    json_t *object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    const json_t *schema = json_object_get(object, "schema");
    json_int_t version = json_integer_value(schema);
    if (!object)
        status_set(status, STATUS_BAD_INPUT, "%s:%d: not JSON: %s", reading->where, error.column, error.text);
    else if (!json_is_object(object))
        status_set(status, STATUS_BAD_INPUT, "%s: not a record: a JSON object was expected", reading->where);
    else if (!json_is_integer(schema))
        status_set(status, STATUS_BAD_INPUT, "%s: not a record: \"schema\" is missing", reading->where);
    else if (version != RECORD_SCHEMA)
        status_set(status, STATUS_BAD_INPUT, "%s: schema %lld, but this program reads schema %d", reading->where,
                   (long long)version, RECORD_SCHEMA);
    else if (reading->wrong.code == STATUS_OK)
        status_set(status, STATUS_BAD_INPUT, "%s: not written as records are", reading->where);
    else
        *status = reading->wrong;
    json_decref(object);
    return false;
}

bool record_read(struct record *record, const char *text, size_t bytes, struct interned *interned,
                 const char *where, struct status *status)
{
    struct reading reading = {.at = text, .where = where, .interned = interned};
    record_clear(record);
    bool fine = read_members(&reading, record_fields, record);
    free(reading.arrays.items);
    free(reading.names.items);
    skip_space(&reading);
    fine = fine && reading.at == text + bytes && record->schema == RECORD_SCHEMA && check(&reading, record);
    return fine || tell(&reading, text, bytes, status);
}
