#include "harness/framework/yaml_file.h"
#include "harness/text/text.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#define BYTES_MAX  ((size_t)8 << 20)
#define DEPTH_MAX  64
#define VALUES_MAX 100000

// A document that is read.
struct reader {
    const struct yaml_file *file;
    yaml_document_t *document;
    struct status *status;
    size_t depth, values;
};

static bool fail(const struct reader *reader, const yaml_node_t *node, const char *why)
{
    return status_set(reader->status, STATUS_BAD_INPUT, "%s:%zu: %s", reader->file->name, node->start_mark.line + 1,
                      why);
}

static bool is_one_of(const char *text, const char *const *words)
{
    while (*words && strcasecmp(text, *words) != 0)
        words++;
    return *words;
}

// A scalar without quotes: null, a boolean, a number, or else text.
static json_t *plain_scalar(const char *text)
{
    static const char *const nulls[] = {"", "~", "null", NULL}, *const trues[] = {"true", "yes", "on", NULL},
                             *const falses[] = {"false", "no", "off", NULL};
    if (is_one_of(text, nulls))
        return json_null();
    if (is_one_of(text, trues) || is_one_of(text, falses))
        return json_boolean(is_one_of(text, trues));
    char *end;
    if (strspn(text, "+-0123456789.eE") != strlen(text))
        return json_string(text);
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    if (!*end && errno == 0)
        return json_integer(whole);
    double number = strtod(text, &end);
    json_t *value = *end ? NULL : json_real(number); // NULL of an infinite one
    return value ? value : json_string(text);
}

static json_t *value_of(struct reader *reader, int index);

static json_t *scalar_value(const struct reader *reader, const yaml_node_t *node)
{
    const char *text = (const char *)node->data.scalar.value;
    json_t *value = strlen(text) != node->data.scalar.length             ? NULL
                    : node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE ? plain_scalar(text)
                                                                         : json_string(text);
    if (!value)
        fail(reader, node, "a text that is not UTF-8, or has a zero byte");
    return value;
}

static json_t *list_value(struct reader *reader, const yaml_node_t *node)
{
    json_t *list = json_array();
    for (const yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top;
         item++) {
        json_t *value = value_of(reader, *item);
        if (!value) {
            json_decref(list);
            return NULL;
        }
        json_array_append_new(list, value);
    }
    return list;
}

// Adds a pair to a mapping; lines: of its keys, or NULL.
static bool add_pair(struct reader *reader, const yaml_node_pair_t *pair, json_t *object, json_t *lines)
{
    const yaml_node_t *key = yaml_document_get_node(reader->document, pair->key);
    const char *name = key->type == YAML_SCALAR_NODE ? (const char *)key->data.scalar.value : NULL;
    if (!name || strlen(name) != key->data.scalar.length)
        return fail(reader, key, "a key that is no text");
    if (json_object_get(object, name)) {
        char *why = text_new("key \"%s\" is there twice; remove one", name);
        fail(reader, key, why);
        free(why);
        return false;
    }
    json_t *value = value_of(reader, pair->value);
    if (!value)
        return false;
    if (json_object_set_new(object, name, value) != 0)
        return fail(reader, key, "a key that is not UTF-8");
    if (lines)
        json_object_set_new(lines, name, json_integer((json_int_t)key->start_mark.line + 1));
    return true;
}

static json_t *object_value(struct reader *reader, const yaml_node_t *node, json_t *lines)
{
    json_t *object = json_object();
    for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++)
        if (!add_pair(reader, pair, object, lines)) {
            json_decref(object);
            return NULL;
        }
    return object;
}

static json_t *value_of(struct reader *reader, int index)
{
    const yaml_node_t *node = yaml_document_get_node(reader->document, index);
    json_t *value = NULL;
    if (reader->depth == DEPTH_MAX || ++reader->values > VALUES_MAX) {
        fail(reader, node, "more levels or values than a configuration has");
        return NULL;
    }
    reader->depth++;
    if (node->type == YAML_SCALAR_NODE)
        value = scalar_value(reader, node);
    else if (node->type == YAML_SEQUENCE_NODE)
        value = list_value(reader, node);
    else
        value = object_value(reader, node, NULL);
    reader->depth--;
    return value;
}

static bool read_document(struct yaml_file *file, yaml_parser_t *parser, struct status *status)
{
    yaml_document_t document;
    if (!yaml_parser_load(parser, &document))
        return status_set(status, STATUS_BAD_INPUT, "%s:%zu: no YAML: %s", file->name,
                          parser->problem_mark.line + 1, parser->problem ? parser->problem : "memory is full");
    struct reader reader = {.file = file, .document = &document, .status = status};
    const yaml_node_t *root = yaml_document_get_root_node(&document);
    file->lines = json_object();
    if (root && root->type == YAML_MAPPING_NODE)
        file->root = object_value(&reader, root, file->lines);
    else
        status_set(status, STATUS_BAD_INPUT, "%s: expected keys and values", file->name);
    yaml_document_delete(&document);
    return file->root;
}

bool yaml_file_open(struct yaml_file *file, const char *path, struct status *status)
{
    *file = (struct yaml_file){.name = strdup(path)};
    FILE *stream = fopen(path, "rb");
    char *text = stream ? malloc(BYTES_MAX + 1) : NULL;
    size_t bytes = text ? fread(text, 1, BYTES_MAX + 1, stream) : 0;
    bool read = text && !ferror(stream);
    yaml_parser_t parser;
    if (!read)
        status_set(status, STATUS_BAD_INPUT, "%s: %s", path, strerror(errno));
    else if (bytes > BYTES_MAX)
        read = status_set(status, STATUS_BAD_INPUT, "%s: larger than 8 MiB", path);
    if (read) {
        CHECK(yaml_parser_initialize(&parser));
        yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
        read = read_document(file, &parser, status);
        yaml_parser_delete(&parser);
    }
    free(text);
    if (stream)
        fclose(stream);
    return read;
}

void yaml_file_close(struct yaml_file *file)
{
    free(file->name);
    json_decref(file->root);
    json_decref(file->lines);
    *file = (struct yaml_file){0};
}

bool yaml_file_error(const struct yaml_file *file, const char *key, struct status *status, const char *format, ...)
{
    char message[640];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return status_set(status, STATUS_BAD_INPUT, "%s:%lld: key \"%s\": %s", file->name,
                      (long long)json_integer_value(json_object_get(file->lines, key)), key, message);
}
