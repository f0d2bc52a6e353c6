// JSON source: a JSON text, its parsed value, and the line and column of each key path, which jansson's values do
// not keep. All messages about the text are made here.
#pragma once
#include "kernels/base/status.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define JSON_SOURCE_BYTES_MAX ((size_t)8 << 20)
// Messages about command line values show no line and column.
#define JSON_COMMAND_LINE "command line"

struct json_source {
    char *name; // the start of messages: the path, shortened if long
    char *text;
    size_t bytes;
    bool positions; // whether messages show line and column
    json_t *root;
};

// Loads a file or a text in UTF-8, of at most JSON_SOURCE_BYTES_MAX bytes, without duplicate keys. Returns false
// and a message with line, column and remedy otherwise. A text named JSON_COMMAND_LINE has no positions. Release
// with json_source_close, also after a failure.
bool json_source_open(struct json_source *source, const char *path, struct status *status);
bool json_source_parse(struct json_source *source, const char *name, const char *text, size_t bytes,
                       struct status *status);
// The same for a file that Python wrote: NaN, Infinity and numbers too large for a double or 64 bits are accepted
// as values that every field reader refuses, so they do no harm under unused keys.
bool json_source_open_python(struct json_source *source, const char *path, struct status *status);
bool json_source_unheld(const json_t *value); // whether it is such a value
// Takes over a value parsed elsewhere; it has no positions.
void json_source_wrap(struct json_source *source, const char *name, json_t *root);
void json_source_close(struct json_source *source);

// A path from the root, such as axes.method[2].chunk. Keys are borrowed. Steps beyond the depth are dropped: the
// position is then that of the enclosing value.
#define JSON_PATH_DEPTH 8
struct json_path {
    size_t depth;
    struct json_step {
        const char *key; // NULL: an index into a list
        size_t index;
    } steps[JSON_PATH_DEPTH];
};
struct json_path json_path_key(struct json_path path, const char *key);
struct json_path json_path_index(struct json_path path, size_t index);

enum json_part { JSON_VALUE, JSON_KEY };
// Line and column, from 1, in characters, of the value at the path or of its key. A missing value has the position
// of the innermost existing value around it. The source must have positions.
void json_source_locate(const struct json_source *source, struct json_path path, enum json_part part, size_t *line,
                        size_t *column);
// Sets `name:line:column: key "chunk[1]": message`, with the path from its last key on. Returns false.
bool json_source_error(const struct json_source *source, struct json_path path, enum json_part part,
                       struct status *status, const char *format, ...) __attribute__((format(printf, 5, 6)));
// The value as messages show it: `-1`, `"text"`, `a list of 3`; escaped and cut to fit. NULL: `nothing`.
void json_source_show(const json_t *value, char *text, size_t bytes);
// Skips the string, or the value, that begins there; for invalid JSON stops anywhere up to the text's end.
const char *json_string_end(const char *at);
const char *json_value_end(const char *at);
