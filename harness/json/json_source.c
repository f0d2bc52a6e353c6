#include "harness/json/json_source.h"
#include "harness/files/input_files.h"
#include "harness/files/io.h"
#include "harness/files/known_format.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// A path longer than this would push the reason out of the message.
#define NAME_BYTES 200

#define SPACE " \t\r\n"

static bool continues(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
} // inside a UTF-8 character

static char *copy_text(const char *text, size_t bytes)
{
    char *copy = malloc(bytes + 1);
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return copy;
}

static char *short_name(const char *name)
{
    size_t length = strlen(name);
    if (length <= NAME_BYTES)
        return copy_text(name, length);
    const char *tail = name + length - NAME_BYTES;
    while (continues(*tail))
        tail++;
    char *shortened = malloc(NAME_BYTES + 4);
    snprintf(shortened, NAME_BYTES + 4, "...%s", tail);
    return shortened;
}

// Line and column, from 1, of a byte.
static void position(const struct json_source *source, size_t offset, size_t *line, size_t *column)
{
    *line = 1;
    *column = 1;
    for (size_t i = 0; i < offset && i < source->bytes; i++) {
        if (source->text[i] == '\n') {
            ++*line;
            *column = 1;
        } else if (!continues(source->text[i])) {
            ++*column;
        }
    }
}

// --- loading

static const char *remedy(const json_error_t *error)
{
    switch (json_error_code(error)) {
    case json_error_stack_overflow:
        return "nested too deeply";
    case json_error_invalid_utf8:
        return "not UTF-8; save the file as UTF-8";
    case json_error_premature_end_of_input:
        return "the text ends too early; a bracket, brace or quote is not closed";
    case json_error_end_of_input_expected:
        return "text after the end of the value; keep one JSON object only";
    case json_error_null_character:
        return "\\u0000 cannot be part of a name or path; remove it";
    case json_error_duplicate_key:
        return "the key is given twice; keep one";
    case json_error_numeric_overflow:
        return "the number is too large; whole numbers go to 2^53, others to 1.8e308";
    default:
        return "not valid JSON here; look for a missing or extra comma, quote or bracket, or a comment";
    }
}

// jansson reports the end of the bad token; users look for its start.
static size_t error_offset(const struct json_source *source, const json_error_t *error)
{
    size_t end = error->position < 0 ? 0 : (size_t)error->position;
    if (end > source->bytes)
        end = source->bytes;
    enum json_error_code code = json_error_code(error);
    if (code == json_error_invalid_utf8 || code == json_error_premature_end_of_input)
        return end;
    const char *near = strstr(error->text, " near '");
    size_t length = near ? strlen(near) - strlen(" near ''") : 0;
    if (near && length <= end && !memcmp(source->text + end - length, near + strlen(" near '"), length))
        return end - length;
    if (code == json_error_numeric_overflow)
        while (end > 0 && strchr("+-.0123456789Ee", source->text[end - 1]))
            end--;
    return end;
}

static bool syntax_error(const struct json_source *source, size_t offset, const char *what, const char *detail,
                         struct status *status)
{
    char message[400], where[48] = "";
    snprintf(message, sizeof message, "%s%s%s", what, *detail ? ": " : "", detail);
    if (source->positions) {
        size_t line, column;
        position(source, offset, &line, &column);
        snprintf(where, sizeof where, ":%zu:%zu", line, column);
    }
    return status_set(status, STATUS_BAD_INPUT, "%s%s: %s", source->name, where, message);
}

const char *json_string_end(const char *at)
{
    for (at++; *at && *at != '"'; at++)
        at += *at == '\\' && at[1];
    return at + (*at == '"');
}

// Bytes of a value that Python writes as a number and jansson cannot hold: NaN, Infinity, or too large. 0: another
// value.
static size_t unheld(const char *at)
{
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    size_t length = strcspn(at, SPACE ",:[]{}\"");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (length == strlen(words[i]) && memcmp(at, words[i], length) == 0)
            return length;
    const char *digits = at + (*at == '-');
    bool whole = strspn(digits, "0123456789") == length - (size_t)(digits - at);
    if (!isdigit((unsigned char)*digits) || (*digits == '0' && isdigit((unsigned char)digits[1])) ||
        strspn(digits, "0123456789+-.eE") != length - (size_t)(digits - at))
        return 0;
    char *end;
    errno = 0;
    if (whole ? (strtoll(at, &end, 10), errno == ERANGE) : isinf(strtod(at, &end)))
        return end == at + length ? length : 0;
    return 0;
}

#define UNHELD "\xee\x80\x80"                        // U+E000, for private use
#define ADDED  (sizeof "\"" UNHELD "\"" - sizeof "") // bytes, to a value of at least 3

// Copies the text with such values as strings: UNHELD and the original spelling. The text need not be valid.
static char *held_text(const struct json_source *source, size_t *bytes)
{
    char *text = malloc(source->bytes + source->bytes / 3 * ADDED + 1), *to = text;
    char before = '\0';
    for (const char *at = source->text, *next; *at; at = next) {
        bool value = before == ':' || before == ',' || before == '[';
        size_t length = value ? unheld(at) : 0;
        next = length ? at + length : *at == '"' ? json_string_end(at) : at + 1;
        if (length && at[length + strspn(at + length, SPACE)] != ':') {
            to += sprintf(to, "\"" UNHELD "%.*s\"", (int)length, at);
        } else {
            memcpy(to, at, (size_t)(next - at));
            to += next - at;
        }
        before = strchr(SPACE, *at) ? before : *at;
    }
    *to = '\0';
    *bytes = (size_t)(to - text);
    return text;
}

bool json_source_unheld(const json_t *value)
{
    const char *text = json_string_value(value);
    return text && strncmp(text, UNHELD, strlen(UNHELD)) == 0;
}

// Parses the text again with Python's special numbers as strings. *error: the position of an error in that text.
static json_t *parse_python(const struct json_source *source, json_error_t *error)
{
    size_t bytes;
    char *text = held_text(source, &bytes);
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, error);
    int position = error->position;
    for (const char *at = text; !root && (at = strstr(at, "\"" UNHELD)) && at - text < position; at++)
        error->position -= (int)ADDED;
    free(text);
    return root;
}

static bool parse(struct json_source *source, bool python, struct status *status)
{
    if (strspn(source->text, SPACE) == source->bytes)
        return syntax_error(source, 0, "empty; expected a JSON object", "", status);
    if (source->bytes >= 3 && !memcmp(source->text, "\xef\xbb\xbf", 3))
        return syntax_error(source, 0, "begins with a byte order mark; save the file as UTF-8 without one", "",
                            status);
    if (!strchr("{[", source->text[strspn(source->text, SPACE)]) &&
        known_format_refuse(source->name, (const unsigned char *)source->text, source->bytes, "a JSON file",
                            status))
        return false;
    const char *zero = memchr(source->text, '\0', source->bytes);
    if (zero)
        return syntax_error(source, (size_t)(zero - source->text),
                            "a zero byte; the file is not text, or not UTF-8", "", status);
    json_error_t error;
    source->root = json_loadb(source->text, source->bytes, JSON_REJECT_DUPLICATES, &error);
    if (!source->root && python)
        source->root = parse_python(source, &error);
    if (source->root)
        return true;
    size_t at = error_offset(source, &error);
    const char *found = source->text + at;
    bool no_number = unheld(found) && isalpha((unsigned char)found[*found == '-']);
    return syntax_error(source, at,
                        no_number ? "not a number of JSON; write a finite one, or null" : remedy(&error),
                        error.text, status);
}

bool json_source_parse(struct json_source *source, const char *name, const char *text, size_t bytes,
                       struct status *status)
{
    *source = (struct json_source){.name = short_name(name), .positions = strcmp(name, JSON_COMMAND_LINE) != 0};
    if (bytes > JSON_SOURCE_BYTES_MAX)
        return status_set(status, STATUS_BAD_INPUT, "%s: %zu bytes; at most %zu are read (is this the right file?)",
                          source->name, bytes, JSON_SOURCE_BYTES_MAX);
    source->text = copy_text(text, bytes);
    source->bytes = bytes;
    return parse(source, false, status);
}

// Reads to the end of the file or one byte past the limit. The size that stat gives is wrong for files being
// written and for /proc.
static bool read_all(struct json_source *source, int file, const char *path, struct status *status)
{
    size_t room = 0;
    for (ssize_t count = 1; count != 0 && source->bytes <= JSON_SOURCE_BYTES_MAX;) {
        if (source->bytes == room) {
            room = room ? 2 * room : 16384;
            source->text = realloc(source->text, room + 1);
        }
        count = io_read(file, source->text + source->bytes, room - source->bytes);
        if (count < 0)
            return status_set(status, STATUS_IO, "%s: cannot be read: %s", path, strerror(errno));
        source->bytes += (size_t)count;
    }
    if (source->bytes > JSON_SOURCE_BYTES_MAX)
        return status_set(status, STATUS_BAD_INPUT, "%s: more than %zu bytes (is this the right file?)", path,
                          JSON_SOURCE_BYTES_MAX);
    source->text[source->bytes] = '\0';
    return true;
}

static bool open_source(struct json_source *source, const char *path, bool python, struct status *status)
{
    *source = (struct json_source){.name = short_name(path), .positions = true};
    // O_NONBLOCK: opening a pipe without a writer would wait for ever.
    int file = io_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
    input_files_note(file);
    if (file < 0)
        return status_set(status, STATUS_IO, "%s: cannot be opened: %s", source->name, strerror(errno));
    struct stat info;
    bool ok = false;
    if (fstat(file, &info) != 0)
        status_set(status, STATUS_IO, "%s: cannot be read: %s", source->name, strerror(errno));
    else if (S_ISDIR(info.st_mode))
        status_set(status, STATUS_BAD_INPUT, "%s: is a folder; expected a JSON file", source->name);
    else if (!S_ISREG(info.st_mode))
        status_set(status, STATUS_BAD_INPUT, "%s: is not a regular file; expected a JSON file", source->name);
    else
        ok = read_all(source, file, source->name, status) && parse(source, python, status);
    close(file);
    return ok;
}

bool json_source_open(struct json_source *source, const char *path, struct status *status)
{
    return open_source(source, path, false, status);
}

bool json_source_open_python(struct json_source *source, const char *path, struct status *status)
{
    return open_source(source, path, true, status);
}

void json_source_wrap(struct json_source *source, const char *name, json_t *root)
{
    *source = (struct json_source){.name = short_name(name), .root = root};
}

void json_source_close(struct json_source *source)
{
    json_decref(source->root);
    free(source->text);
    free(source->name);
    *source = (struct json_source){0};
}

// --- positions

struct json_path json_path_key(struct json_path path, const char *key)
{
    if (path.depth < JSON_PATH_DEPTH)
        path.steps[path.depth++] = (struct json_step){.key = key};
    return path;
}

struct json_path json_path_index(struct json_path path, size_t index)
{
    if (path.depth < JSON_PATH_DEPTH)
        path.steps[path.depth++] = (struct json_step){.index = index};
    return path;
}

static const char *skip_space(const char *at)
{
    return at + strspn(at, SPACE);
}

// Not recursive, because the text determines the depth.
const char *json_value_end(const char *at)
{
    size_t depth = 0;
    do {
        at = skip_space(at);
        if (*at == '"') {
            at = json_string_end(at);
        } else if (*at == '{' || *at == '[') {
            depth++;
            at++;
        } else if (*at == '}' || *at == ']') {
            depth--;
            at++;
        } else if (*at == ',' || *at == ':') {
            at++;
        } else {
            at += strcspn(at, SPACE ",:]}");
        }
    } while (depth > 0 && *at);
    return at;
}

static bool is_key(const char *at, const char *end, const char *key)
{
    if (!memchr(at, '\\', (size_t)(end - at)))
        return strlen(key) == (size_t)(end - at - 2) && !memcmp(at + 1, key, (size_t)(end - at - 2));
    json_t *decoded = json_loadb(at, (size_t)(end - at), JSON_DECODE_ANY, NULL);
    bool same = decoded && !strcmp(json_string_value(decoded), key);
    json_decref(decoded);
    return same;
}

// Finds a member of the object at `at`: sets the positions of its key and value, or returns false.
static bool find_key(const char *at, const char *key, const char **key_at, const char **value_at)
{
    if (*at != '{')
        return false;
    at = skip_space(at + 1);
    while (*at == '"') {
        const char *end = json_string_end(at);
        const char *value = skip_space(skip_space(end) + 1); // past the colon
        if (is_key(at, end, key)) {
            *key_at = at;
            *value_at = value;
            return true;
        }
        at = skip_space(json_value_end(value));
        if (*at == ',')
            at = skip_space(at + 1);
    }
    return false;
}

static bool find_index(const char *at, size_t index, const char **value_at)
{
    if (*at != '[')
        return false;
    at = skip_space(at + 1);
    while (*at != ']') {
        if (index-- == 0) {
            *value_at = at;
            return true;
        }
        at = skip_space(json_value_end(at));
        if (*at == ',')
            at = skip_space(at + 1);
    }
    return false;
}

void json_source_locate(const struct json_source *source, struct json_path path, enum json_part part, size_t *line,
                        size_t *column)
{
    const char *value = skip_space(source->text), *key = value;
    for (size_t i = 0; i < path.depth; i++) {
        const struct json_step *step = &path.steps[i];
        const char *around = value;
        if (step->key) {
            if (!find_key(around, step->key, &key, &value)) {
                key = around;
                break;
            }
        } else if (!find_index(around, step->index, &value)) {
            key = around;
            break;
        } else {
            key = value;
        }
    }
    position(source, (size_t)((part == JSON_KEY ? key : value) - source->text), line, column);
}

// --- messages

void json_source_show(const json_t *value, char *text, size_t bytes)
{
    char *dumped = NULL;
    switch (value ? (int)json_typeof(value) : -1) {
    case -1:
        snprintf(text, bytes, "nothing");
        return;
    case JSON_OBJECT:
        snprintf(text, bytes, "an object");
        return;
    case JSON_ARRAY:
        snprintf(text, bytes, "a list of %zu", json_array_size(value));
        return;
    default:
        // Escaped, so that a hostile text cannot write to the terminal.
        dumped = json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15));
    }
    bool quoted = dumped && !json_source_unheld(value);
    const char *shown = !dumped ? "" : quoted ? dumped : dumped + strlen("\"\\uE000");
    size_t length = strlen(shown) - (dumped && !quoted);
    bool cut = length >= bytes || length > 80;
    snprintf(text, bytes, "%.*s%s", cut ? (int)(bytes < 60 ? bytes / 2 : 60) : (int)length, shown,
             !cut     ? ""
             : quoted ? "...\""
                      : "...");
    free(dumped);
}

// `key "chunk[1]": `, or nothing if no key leads to the value.
static void label(struct json_path path, char *text, size_t bytes)
{
    text[0] = '\0';
    size_t first = path.depth;
    while (first > 0 && !path.steps[first - 1].key)
        first--;
    if (first == 0)
        return;
    json_t *key = json_string(path.steps[first - 1].key);
    char shown[100];
    json_source_show(key, shown, sizeof shown);
    json_decref(key);
    size_t used = (size_t)snprintf(text, bytes, "key %.*s", (int)strlen(shown) - 1, shown);
    for (size_t i = first; i < path.depth; i++)
        used += (size_t)snprintf(text + used, bytes - used, "[%zu]", path.steps[i].index);
    snprintf(text + used, bytes - used, "\": ");
}

bool json_source_error(const struct json_source *source, struct json_path path, enum json_part part,
                       struct status *status, const char *format, ...)
{
    char message[sizeof status->message], where[48] = "", key[360];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (source->positions) {
        size_t line, column;
        json_source_locate(source, path, part, &line, &column);
        snprintf(where, sizeof where, ":%zu:%zu", line, column);
    }
    label(path, key, sizeof key);
    return status_set(status, STATUS_BAD_INPUT, "%s%s: %s%s", source->name, where, key, message);
}
