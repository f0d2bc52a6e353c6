#include "harness/options/flags.h"
#include <errno.h>
#include <stdbool.h>
#include <string.h>

json_t *flag_value(const char *text)
{
    char *end;
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    if (*text && !*end && errno == 0)
        return json_integer(whole);
    double number = strtod(text, &end);
    json_t *real = *text && !*end && strspn(text, "0123456789+-.eE") == strlen(text) ? json_real(number) : NULL;
    if (real)
        return real;
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return json_boolean(*text == 't');
    json_t *string = json_string(text);
    return string ? string : json_string("(not UTF-8)");
}

json_t *flag_list(const char *text)
{
    json_t *list = json_array();
    char *copy = strdup(text), *rest = strcmp(text, "none") ? copy : NULL, *item;
    while ((item = strsep(&rest, ",")))
        json_array_append_new(list, flag_value(item));
    free(copy);
    return list;
}

// Members whose values contain commas: lists, and lists of items NAME:VALUE.
static const struct {
    const char *name;
    bool named, list; // list: also of one item, which of others may be a regular expression
} several[] = {{"targets", false, false},         {"target_modules", false, false},
               {"exclude_modules", false, false}, {"layers_to_transform", false, false},
               {"modules_to_save", false, false}, {"rank_pattern", true, false},
               {"alpha_pattern", true, false},    {"inferred", false, true}};

// The list or the object of a member; NULL: it has one value.
static json_t *container_of(const char *name)
{
    for (size_t i = 0; i < sizeof several / sizeof *several; i++)
        if (strcmp(name, several[i].name) == 0)
            return several[i].named ? json_object() : json_array();
    return NULL;
}

static void add_item(json_t *container, char *item)
{
    char *colon = strrchr(item, ':');
    if (json_is_array(container)) {
        json_array_append_new(container, flag_value(item));
    } else {
        if (colon)
            *colon = 0;
        json_object_set_new(container, item, colon ? flag_value(colon + 1) : json_null());
    }
}

// A repeated member becomes a list of both values, which no key accepts.
static void set_member(json_t *object, const char *name, json_t *value)
{
    json_t *before = json_object_get(object, name);
    json_object_set_new(object, name, before ? json_pack("[O, o]", before, value) : value);
}

json_t *flag_object(const char *text)
{
    json_t *object = json_object(), *container = NULL;
    char *copy = strdup(text), *rest = copy, *item;
    while ((item = strsep(&rest, ","))) {
        char *equals = strchr(item, '=');
        if (equals) {
            *equals = 0;
            container = container_of(item);
            set_member(object, item, container ? container : flag_value(equals + 1));
            item = equals + 1;
        }
        if (container)
            add_item(container, item);
        else if (!equals)
            json_object_set_new(object, item, json_null());
    }
    free(copy);
    for (size_t i = 0; i < sizeof several / sizeof *several; i++) {
        json_t *list = json_object_get(object, several[i].name), *text = json_array_get(list, 0);
        if (!several[i].list && json_array_size(list) == 1 && json_is_string(text))
            json_object_set(object, several[i].name, text);
    }
    return object;
}

json_t *flag_object_or_value(const char *text)
{
    bool object = memchr(text, '=', strcspn(text, ",")); // rather than "/tmp"
    return object ? flag_object(text) : flag_value(text);
}

json_t *flag_named(const char *text)
{
    size_t bytes = strcspn(text, ",=");
    if (!text[bytes]) {
        json_t *name = json_string(text);
        return name ? name : json_string("(not UTF-8)");
    }
    json_t *object = flag_object(text[bytes] == '=' ? text : text + bytes + 1);
    if (text[bytes] == ',') {
        json_t *name = json_stringn(text, bytes);
        json_object_set_new(object, "name", name ? name : json_string("(not UTF-8)"));
    }
    return object;
}
