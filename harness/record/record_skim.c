#define _GNU_SOURCE // mempcpy
#include "harness/record/record_skim.h"
#include "harness/json/json_skim.h"
#include "harness/record/record_check.h"
#include "harness/record/record_fields.h"
#include "harness/record/record_json.h"
#include "kernels/base/status.h"
#include <stddef.h>
#include <string.h>

#define FIELDS_MAX 96

#define COUNTS_MAX 16

// The largest struct that stands apart, or is a part.
#define PART_BYTES_MAX 512

struct bytes {
    char *items;
    size_t count, capacity;
};

// What is left of the line, and what texts are kept in.
struct reading {
    struct json_cursor cursor;
    struct interned *interned;
    const struct record_field *trial; // the fields of its trial, once it is met
    size_t count_count;               // of the trial's counts, as they stand in it
    struct json_slice counts[COUNTS_MAX];
    struct bytes arrays, names; // that are being read, one within the other; names of a map's parts
};

static struct json_slice slice_from(const struct reading *reading, const char *start)
{
    return (struct json_slice){start, (size_t)(reading->cursor.at - start)};
}

static bool take(struct reading *reading, char sign)
{
    return json_cursor_take(&reading->cursor, sign);
}

// A string in its quotes.
static bool take_string(struct reading *reading, struct json_slice *string)
{
    const char *start = reading->cursor.at;
    bool fine = json_cursor_string(&reading->cursor);
    *string = slice_from(reading, start);
    return fine;
}

static char unescaped(char sign)
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    const char *at = memchr(from, sign, sizeof from - 1);
    return at ? to[at - from] : sign;
}

static const char *text_of(const struct reading *reading, struct json_slice string)
{
    const char *inside = string.text + 1;
    size_t bytes = string.bytes - 2, used = 0;
    if (!memchr(inside, '\\', bytes))
        return interned_text(reading->interned, inside, bytes);
    char *plain = malloc(bytes);
    CHECK(plain);
    for (size_t i = 0; i < bytes; i++)
        plain[used++] = inside[i] == '\\' ? unescaped(inside[++i]) : inside[i];
    const char *text = interned_text(reading->interned, plain, used);
    free(plain);
    return text;
}

static bool read_string(struct reading *reading, const char **text)
{
    struct json_slice string;
    if (!take_string(reading, &string))
        return false;
    *text = text_of(reading, string);
    return true;
}

static double whole_of(struct json_slice digits)
{
    long long value = 0;
    bool negative = *digits.text == '-';
    for (size_t i = negative; i < digits.bytes; i++)
        value = 10 * value + (digits.text[i] - '0');
    return (double)(negative ? -value : value);
}

static bool read_number(struct reading *reading, enum field_type type, double *value)
{
    const char *start = reading->cursor.at;
    if (!json_cursor_number(&reading->cursor))
        return false;
    struct json_slice digits = slice_from(reading, start);
    bool whole = true;
    for (size_t i = 0; whole && i < digits.bytes; i++)
        whole = digits.text[i] != '.' && digits.text[i] != 'e' && digits.text[i] != 'E';
    *value = whole ? whole_of(digits) : strtod(start, NULL);
    return type == FIELD_NUMBER || (type == FIELD_COUNT && whole && *value >= 0) ||
           (type == FIELD_POSITIVE && *value > 0) || ((type == FIELD_SIZE || type == FIELD_WHOLE) && *value >= 0);
}

static void append(struct bytes *to, const void *item, size_t bytes)
{
    if (to->capacity - to->count < bytes) {
        to->capacity = 2 * (to->capacity + bytes);
        to->items = realloc(to->items, to->capacity);
        CHECK(to->items);
    }
    memcpy(to->items + to->count, item, bytes);
    to->count += bytes;
}

// The innermost array, which began at `start`; it is taken off.
static void *array_from(struct reading *reading, struct bytes *from, size_t start)
{
    size_t bytes = from->count - start;
    from->count = start;
    return bytes ? (void *)interned_text(reading->interned, from->items + start, bytes) : NULL;
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
        json_cursor_space(&reading->cursor);
        if (!read_number(reading, field->type, &value))
            return false;
        append(&reading->arrays, &value, sizeof value);
        list->count++;
    } while (take(reading, ','));
    list->items = array_from(reading, &reading->arrays, start);
    return take(reading, ']');
}

static bool read_hash(struct reading *reading, uint64_t *hash)
{
    struct json_slice string;
    if (!take_string(reading, &string) || string.bytes != 18)
        return false;
    *hash = strtoull(string.text + 1, NULL, 16);
    return strspn(string.text + 1, "0123456789abcdef") == 16;
}

static bool read_status(struct reading *reading, enum record_status *status)
{
    struct json_slice string;
    if (!take_string(reading, &string))
        return false;
    *status = 0;
    while (*status < RECORD_STATUS_COUNT && !json_slice_is(string, record_status_name(*status)))
        ++*status;
    return *status < RECORD_STATUS_COUNT;
}

// opening: of an array or an object; 0: any value.
static bool read_json(struct reading *reading, char opening, const json_t **json)
{
    const char *start = reading->cursor.at;
    if ((opening && *start != opening) || !json_cursor_value(&reading->cursor))
        return false;
    struct json_slice value = slice_from(reading, start);
    return (*json = interned_json(reading->interned, value.text, value.bytes));
}

// A key and its colon; the cursor is then at the value.
static bool take_key(struct reading *reading, struct json_slice *key)
{
    json_cursor_space(&reading->cursor);
    bool fine = take_string(reading, key) && take(reading, ':');
    json_cursor_space(&reading->cursor);
    return fine;
}

static bool read_tally(struct reading *reading, double *counts)
{
    bool seen[CATEGORY_COUNT] = {false};
    struct json_slice key;
    if (!take(reading, '{'))
        return false;
    if (take(reading, '}'))
        return true;
    do {
        if (!take_key(reading, &key))
            return false;
        int i = 0;
        while (i < CATEGORY_COUNT && !json_slice_is(key, category_name((enum category)i)))
            i++;
        if (i == CATEGORY_COUNT || seen[i] || !read_number(reading, FIELD_COUNT, &counts[i]))
            return false;
        seen[i] = true;
    } while (take(reading, ','));
    return take(reading, '}');
}

static bool read_members(struct reading *reading, const struct record_field *fields, void *owner);

// The name of a map's part, which it has not had yet.
static bool read_name(struct reading *reading)
{
    struct json_slice key;
    if (!take_key(reading, &key))
        return false;
    const char *name = text_of(reading, key);
    bool found = false;
    for (size_t at = 0; !found && at < reading->names.count; at += sizeof name)
        found = memcmp(reading->names.items + at, &name, sizeof name) == 0;
    append(&reading->names, &name, sizeof name);
    return !found;
}

static bool read_part(struct reading *reading, const struct record_field *field)
{
    _Alignas(max_align_t) char part[PART_BYTES_MAX] = {0};
    CHECK(field->part_bytes <= sizeof part);
    record_fields_clear(field->members, part);
    bool fine = read_members(reading, field->members, part);
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
        if ((named && !read_name(reading)) || !read_part(reading, field))
            return false;
        parts->count++;
    } while (take(reading, ','));
    parts->items = array_from(reading, &reading->arrays, start);
    parts->names = array_from(reading, &reading->names, 0);
    return take(reading, closing);
}

// A trial that begins here and was read, with 0 for its counts.
static struct interned_item *rest_of(const struct reading *reading, const char *start)
{
    struct json_slice trial = slice_from(reading, start);
    char *rest = malloc(trial.bytes), *end = rest;
    CHECK(rest);
    for (size_t i = 0; i < reading->count_count; i++) {
        end = mempcpy(end, start, (size_t)(reading->counts[i].text - start));
        *end++ = '0';
        start = reading->counts[i].text + reading->counts[i].bytes;
    }
    end = mempcpy(end, start, (size_t)(reading->cursor.at - start));
    struct interned_item *item = interned_item(reading->interned, rest, (size_t)(end - rest));
    free(rest);
    return item;
}

static bool read_struct(struct reading *reading, const struct record_field *field, void *value)
{
    json_cursor_space(&reading->cursor);
    const char *start = reading->cursor.at;
    if (field->type == FIELD_TRIAL)
        reading->trial = field->members;
    if (!read_members(reading, field->members, value))
        return false;
    *(bool *)value = true;
    if (field->type == FIELD_TRIAL)
        ((struct record_trial *)value)->rest = rest_of(reading, start);
    return true;
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
    *value = json_cursor_word(&reading->cursor, "true");
    return *value || json_cursor_word(&reading->cursor, "false");
}

static bool read_value(struct reading *reading, const struct record_field *field, void *value)
{
    if (json_cursor_word(&reading->cursor, "null"))
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

// Which of the fields are met: they mostly stand in the table's order.
struct met {
    bool seen[FIELDS_MAX];
    size_t count, next;
};

// Most differ in their first letters.
static bool is_key(struct json_slice key, const char *name)
{
    return key.text[1] == *name && (key.text[2] == name[1] || !name[1]) && json_slice_is(key, name);
}

// Its place; that of the closing NULL: there is none of this name.
static size_t find(const struct record_field *fields, struct met *met, struct json_slice key)
{
    for (size_t i = met->next; fields[i].name; i++)
        if (is_key(key, fields[i].name))
            return i;
    size_t i = 0;
    while (fields[i].name && !is_key(key, fields[i].name))
        i++;
    return i;
}

static bool has_required(const struct record_field *fields, const struct met *met)
{
    bool all = true;
    for (size_t i = 0; fields[i].name; i++)
        all &= !fields[i].required || met->seen[i];
    return all;
}

// A value that begins here was read. What is no exact number stays in the trial's text.
static void note_count(struct reading *reading, const struct record_field *field, const char *start,
                       const void *value)
{
    if (field->type != FIELD_COUNT || !(*(const double *)value < RECORD_EXACT_MAX))
        return;
    CHECK(reading->count_count < COUNTS_MAX);
    reading->counts[reading->count_count++] = slice_from(reading, start);
}

static bool read_members(struct reading *reading, const struct record_field *fields, void *owner)
{
    struct met met = {0};
    struct json_slice key;
    if (!take(reading, '{'))
        return false;
    if (take(reading, '}'))
        return has_required(fields, &met);
    do {
        if (!take_key(reading, &key))
            return false;
        size_t at = find(fields, &met, key);
        const struct record_field *field = &fields[at];
        CHECK(at < FIELDS_MAX);
        void *value = (char *)owner + field->offset;
        const char *start = reading->cursor.at;
        if (!field->name || met.seen[at] || !read_value(reading, field, value))
            return false;
        if (fields == reading->trial)
            note_count(reading, field, start, value);
        met.seen[at] = true;
        met.next = at + 1;
    } while (take(reading, ','));
    return take(reading, '}') && has_required(fields, &met);
}

// Whether there are none of either, or one for each sample.
static bool as_many(const struct number_list *list, size_t times)
{
    return !times || !list->count || list->count == times;
}

// What record_check asks for besides.
static bool holds(const struct record *record)
{
    const struct record_trial *trial = &record->trial;
    size_t times = record->samples_ms.count;
    return record->schema == RECORD_SCHEMA && !(record->round < 1) && !(record->round > RECORD_ROUNDS_MAX) &&
           strlen(record->id) == 32 && strspn(record->id, "0123456789abcdef") == 32 && trial->batch >= 1 &&
           trial->context >= 1 && as_many(&record->sample_columns, times) && as_many(&record->slowdown, times) &&
           record_check_method(trial->method);
}

bool record_skim(struct record *record, const char *text, size_t bytes, struct interned *interned)
{
    struct reading reading = {.cursor = {text, text + bytes}, .interned = interned};
    record_clear(record);
    record->interned = true;
    bool fine = read_members(&reading, record_fields, record);
    free(reading.arrays.items);
    free(reading.names.items);
    json_cursor_space(&reading.cursor);
    return fine && reading.cursor.at == reading.cursor.end && holds(record);
}
