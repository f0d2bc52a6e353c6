// Asked: what the harness and the program say of one trial, in JSON written with ' for ". Before it is included,
// _GNU_SOURCE is defined, for asprintf.
#pragma once
#include "harness/machine/environment.h"
#include "harness/spec/trial_decode.h"
#include "harness/trial/trial_run.h"
#include "tests/quoted.h"
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static inline struct trial trial_of(const char *json)
{
    struct trial trial;
    struct status status = {0};
    char *text = quoted(json);
    if (!trial_decode(&trial, text, "trial", &status))
        fail_msg("%s: %s", text, status.message);
    free(text);
    return trial;
}

static inline json_t *record_of(const char *json)
{
    struct trial trial = trial_of(json);
    char *line = trial_run(&trial, -1);
    json_t *record = json_loads(line, 0, NULL);
    assert_non_null(record);
    if (strcmp(json_string_value(json_object_get(record, "status")), "ok") != 0)
        fail_msg("%s: %s", json, line);
    free(line);
    trial_free(&trial);
    return record;
}

static inline double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        fail_msg("%s is no number", key);
    return json_number_value(value);
}

// The program's exit code for a line of arguments; what it wrote on both streams in *out, to be freed.
static inline int longbp(char **out, const char *arguments)
{
    const char *program = getenv("LONGBP");
    char *command;
    size_t capacity = 0;
    *out = NULL;
    assert_true(asprintf(&command, "'%s' %s 2>&1", program && *program ? program : "build/longbp", arguments) > 0);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    if (getdelim(out, &capacity, 0, pipe) < 0) {
        free(*out);
        *out = strdup("");
    }
    int status = pclose(pipe);
    free(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static inline json_t *longbp_json(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline json_t *longbp_json(const char *format, ...)
{
    char *arguments, *out;
    va_list list;
    va_start(list, format);
    assert_true(vasprintf(&arguments, format, list) > 0);
    va_end(list);
    int code = longbp(&out, arguments);
    json_t *object = json_loads(out, 0, NULL);
    if (code != 0 || !object)
        fail_msg("%s: exit code %d: %s", arguments, code, out);
    free(arguments);
    free(out);
    return object;
}

// The records that a search prints, a line each, in an array.
static inline json_t *longbp_records(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline json_t *longbp_records(int code, const char *format, ...)
{
    char *arguments, *out, *line;
    json_t *records = json_array();
    va_list list;
    va_start(list, format);
    assert_true(vasprintf(&arguments, format, list) > 0);
    va_end(list);
    int found = longbp(&out, arguments);
    for (char *rest = out; (line = strsep(&rest, "\n"));)
        if (*line == '{')
            json_array_append_new(records, json_loads(line, 0, NULL));
    if (found != code || json_array_size(records) == 0)
        fail_msg("%s: exit code %d: %s", arguments, found, out);
    free(arguments);
    free(out);
    return records;
}

// The context or batch of a record of a search; 0: nothing fits.
static inline double extent_found(const json_t *record)
{
    const json_t *search = json_object_get(record, "search");
    bool batch = strcmp(json_string_value(json_object_get(search, "sought")), "batch") == 0,
         ok = strcmp(json_string_value(json_object_get(record, "status")), "ok") == 0;
    return ok ? json_number_value(json_object_get(json_object_get(record, "trial"), batch ? "batch" : "context"))
              : 0;
}

static inline const char *method_of(const json_t *record)
{
    const json_t *method = json_object_get(json_object_get(record, "trial"), "method");
    return json_string_value(json_object_get(method, "name"));
}

static inline const char *beyond_of(const json_t *record)
{
    return json_string_value(json_object_get(json_object_get(record, "search"), "beyond"));
}

static inline bool near(double x, double y)
{
    return fabs(x - y) <= 1e-12 * fabs(y);
}

// An element of an object's array.
static inline double item(const json_t *object, const char *key, size_t i)
{
    return json_number_value(json_array_get(json_object_get(object, key), i));
}
