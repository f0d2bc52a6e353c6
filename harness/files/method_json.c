#include "harness/files/method_json.h"

static bool read_count(struct json_field field, const struct option *option, size_t *value, struct status *status)
{
    bool bounded = option->maximum > 0 && option->maximum < 0x1p53;
    size_t maximum = bounded ? (size_t)option->maximum : JSON_INTEGER_MAX;
    char unit[128];
    snprintf(unit, sizeof unit, " (%s)", option->help);
    return json_field_count(field, (size_t)option->minimum, maximum, unit, value, status);
}

static bool read_choice(struct json_field field, const struct option *option, int *value, struct status *status)
{
    struct names choices = {0};
    names_add_all(&choices, option->choices);
    size_t index = (size_t)*value;
    if (!json_field_choice(field, &choices, option->name, &index, status))
        return false;
    *value = (int)index;
    return true;
}

static bool read_list(struct json_field field, const struct option *option, struct index_list *list,
                      struct status *status)
{
    size_t minimum = (size_t)option->minimum, maximum = (size_t)option->maximum;
    if (!field.value)
        return true;
    if (!json_is_array(field.value))
        return json_field_expected(field, status, "a list of whole numbers");
    size_t count = json_array_size(field.value);
    if (count > maximum - minimum + 1) // for each is there once
        return json_field_expected(field, status, "a list of at most %zu whole numbers", maximum - minimum + 1);
    index_list_resize(list, count);
    for (size_t i = 0; i < count; i++) {
        struct json_field item = json_field_at(field, i);
        size_t number = 0;
        if (!json_field_count(item, minimum, maximum, "", &number, status))
            return false;
        if (i > 0 && number <= list->items[i - 1])
            return json_field_expected(item, status, "a number above the one before it (%u), each once",
                                       list->items[i - 1]);
        list->items[i] = (uint32_t)number;
    }
    return true;
}

bool method_json_read(struct json_field field, const struct option *option, void *options, struct status *status)
{
    void *value = (char *)options + option->offset;
    switch (option->type) {
    case OPTION_COUNT:
        return read_count(field, option, value, status);
    case OPTION_NUMBER:
        return json_field_number(field, option->minimum, option->maximum, value, status);
    case OPTION_CHOICE:
        return read_choice(field, option, value, status);
    case OPTION_LIST:
        return read_list(field, option, value, status);
    }
    return false;
}

static json_t *option_json(const struct option *option, const void *options)
{
    const void *value = (const char *)options + option->offset;
    const struct index_list *list = value;
    json_t *numbers;
    switch (option->type) {
    case OPTION_COUNT:
        return json_integer((json_int_t) * (const size_t *)value);
    case OPTION_NUMBER:
        return json_real(*(const double *)value);
    case OPTION_CHOICE:
        return json_string(option->choices[*(const int *)value]);
    case OPTION_LIST:
        numbers = json_array();
        for (size_t i = 0; i < list->count; i++)
            json_array_append_new(numbers, json_integer(list->items[i]));
        return numbers;
    }
    return NULL;
}

json_t *method_json(const struct method *method, const void *options)
{
    json_t *json = json_object();
    json_object_set_new(json, "name", json_string(method->name));
    for (const struct option *option = method->options.rows; option->name; option++)
        json_object_set_new(json, option->name, option_json(option, options));
    return json;
}
