#include "harness/spec/expansion.h"
#include "harness/text/word_list.h"
#include <string.h>

struct json_field axis_value(const struct axis *axis, size_t i)
{
    return axis->list ? json_field_at(axis->field, i) : axis->field;
}

size_t axis_size(const struct axis *axis)
{
    return axis->list ? json_array_size(axis->field.value) : 1;
}

size_t expansion_product(size_t a, size_t b)
{
    return a > EXPANSION_TRIALS_MAX || b > EXPANSION_TRIALS_MAX ? EXPANSION_TRIALS_MAX + 1 : a * b;
}

static bool is_of_method(const struct axis *axis)
{
    return trial_keys[axis->key].type == KEY_METHOD;
}

static size_t method_variants(const struct expansion *e)
{
    size_t variants = 0;
    for (size_t i = 0; i < e->entry_count && variants <= EXPANSION_TRIALS_MAX; i++)
        variants += e->entries[i].variants;
    return variants;
}

size_t expansion_count(struct expansion *e)
{
    size_t total = 1;
    for (size_t i = 0; i < e->axis_count; i++) {
        e->sizes[i] = is_of_method(&e->axes[i]) ? method_variants(e) : axis_size(&e->axes[i]);
        total = expansion_product(total, e->sizes[i]);
    }
    return total > EXPANSION_TRIALS_MAX ? EXPANSION_TRIALS_MAX + 1 : total;
}

// Selects method variant n: the entry with one value for each of its own axes, the last fastest.
static void pick_method(const struct expansion *e, size_t n, struct trial_fields *fields)
{
    const struct entry *entry = e->entries;
    for (; n >= entry->variants; entry++)
        n -= entry->variants;
    fields->method = entry->fields;
    for (size_t i = entry->axis_count; i-- > 0;) {
        const struct axis *axis = &entry->axes[i];
        bool option = axis->key < ENTRY_KEYS;
        *(option ? &fields->method.given.options[axis->key] : &fields->keys[axis->key - ENTRY_KEYS]) =
            axis_value(axis, n % axis_size(axis));
        n /= axis_size(axis);
    }
}

void expansion_pick(const struct expansion *e, size_t n, struct trial_fields *fields)
{
    size_t variant = 0;
    fields->suited = true;
    memcpy(fields->keys, e->constants, sizeof fields->keys);
    for (size_t i = e->axis_count; i-- > 0;) {
        const struct axis *axis = &e->axes[i];
        if (is_of_method(axis))
            variant = n % e->sizes[i];
        else
            fields->keys[axis->key] = axis_value(axis, n % e->sizes[i]);
        n /= e->sizes[i];
    }
    pick_method(e, variant, fields);
}

bool expansion_varies(const struct expansion *e, size_t key)
{
    for (size_t i = 0; i < e->axis_count; i++)
        if (e->axes[i].key == key && e->sizes[i] > 1)
            return true;
    for (size_t i = 0; i < e->entry_count; i++)
        for (size_t a = 0; a < e->entries[i].axis_count; a++)
            if (e->entries[i].axes[a].key == ENTRY_KEYS + key)
                return true;
    return false;
}

void expansion_free(struct expansion *e)
{
    for (size_t i = 0; i < e->override_count; i++)
        override_close(&e->overrides[i]);
    free(e->overrides);
    for (size_t i = 0; i < e->entry_count; i++)
        json_decref(e->entries[i].method);
    free(e->entries);
    trial_defaults_free(&e->defaults);
    json_source_close(&e->source);
    free(e);
}

// --- overrides from the command line

// A list [...] or object {...} that is invalid JSON is a typing error, not a name.
static json_t *read_value(const char *text, size_t bytes, json_error_t *error)
{
    json_t *value = json_loadb(text, bytes, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, error);
    if (value || text[0] == '[' || text[0] == '{')
        return value;
    return json_stringn(text, bytes);
}

static bool read_values(json_t *list, const char *shown, const char *at, struct status *status)
{
    for (;;) {
        const char *end = at + word_list_first(at);
        if (end == at)
            return status_set(status, STATUS_BAD_INPUT, "%s: a value is empty; expected VALUE or VALUE,VALUE",
                              shown);
        json_error_t error = {0};
        json_t *value = read_value(at, (size_t)(end - at), &error);
        if (!value)
            return status_set(status, STATUS_BAD_INPUT, "%s: a value is not valid JSON: %s", shown, error.text);
        json_array_append_new(list, value);
        if (*end == '\0')
            return true;
        at = end + 1;
    }
}

bool override_parse(struct override *override, const char *shown, const char *text, struct status *status)
{
    *override = (struct override){0};
    json_source_wrap(&override->values, shown, json_array());
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: expected NAME=VALUE or NAME=VALUE,VALUE, such as context=1024",
                          override->values.name);
    override->name = strndup(text, (size_t)(equals - text));
    return read_values(override->values.root, override->values.name, equals + 1, status);
}

void override_close(struct override *override)
{
    json_source_close(&override->values);
    free(override->name);
    *override = (struct override){0};
}
