// `longbp compare` on records written for it: what it prints and its exit code. Includers define _GNU_SOURCE first.
#pragma once
#include "tests/quoted.h"
#include "tests/scratch.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

// --- records

// Variable parts of a test's record; zeroed: a good one of trial 0.
struct sketch {
    unsigned trial; // its id; even ones are full, odd ones seco
    const char *status, *reason, *dtype, *device, *cpu, *card, *revision;
    size_t peak_bytes, activations, flops, launches, bytes_moved; // 0: 1000, 600, 5000, 70, 900
    double error, floor;                                          // 0: 5e-7, 6e-7
    const char *bits;                                             // other members of the gradient, ", 'key': value"
    const char *setting;                                          // and of the trial
    double ms;                                                    // 0: 10
    int samples;                                                  // 0: 5; -1: none
    double step;                                                  // between samples, of ms; 0: 0.001
    int threads;                                                  // 0: 2
    const char *machine;                                          // other members of the provenance
    const char *more;                                             // other members, ", 'key': value"
    const char *without;                                          // a member that it lacks
};

static inline double or_number(double value, double otherwise)
{
    return value != 0 ? value : otherwise;
}

static const char *or_text(const char *value, const char *otherwise)
{
    return value ? value : otherwise;
}

// second: when it was measured, which tells two of one sketch apart.
static inline void write_record(FILE *file, struct sketch r, size_t second)
{
    char *text, samples[1024] = "", *gradient = NULL;
    bool ok = strcmp(or_text(r.status, "ok"), "ok") == 0;
    int count = r.samples < 0 || !ok ? 0 : r.samples ? r.samples : 5;
    for (int i = 0; i < count; i++)
        snprintf(samples + strlen(samples), sizeof samples - strlen(samples), "%s%.17g", i ? ", " : "",
                 or_number(r.ms, 10) * (1 + i * or_number(r.step, 0.001)));
    bool planned = strncmp(or_text(r.device, "cpu"), "plan", 4) == 0; // without a gradient
    assert_true(asprintf(&gradient, "{'relative_l2': %.17g, 'noise_floor': %.17g%s}", or_number(r.error, 5e-7),
                         or_number(r.floor, 6e-7), or_text(r.bits, "")) > 0);
    int bytes = asprintf(
        &text,
        "{'schema': 2, 'id': '%032x', 'experiment': 'e', 'status': '%s', 'reason': '%s', 'trial': {'model': "
        "'tiny', "
        "'dtype': '%s', 'device': '%s', 'batch': 1, 'context': %u, 'method': {'name': '%s', 'head_chunk': %u}%s}, "
        "'samples_ms': [%s], 'peak_bytes': %.0f, 'peak_by_category': {'weights': 400, 'activations': %.0f}, "
        "'flops': %.0f, 'bytes_moved': %.0f, 'launches': %.0f, "
        "'gradient': %s, "
        "'provenance': {'revision': '%s', 'cpu': '%s', 'card': '%s', 'threads': %d, "
        "'time': '2026-01-01T00:00:%02zuZ'%s}%s}\n",
        r.trial, or_text(r.status, "ok"), or_text(r.reason, ""), or_text(r.dtype, "f32"), or_text(r.device, "cpu"),
        512 << (r.trial / 2 % 2), r.trial % 2 ? "seco" : "full", r.trial / 4, or_text(r.setting, ""), samples,
        or_number((double)r.peak_bytes, 1000), or_number((double)r.activations, 600),
        or_number((double)r.flops, 5000), or_number((double)r.bytes_moved, 900), or_number((double)r.launches, 70),
        planned ? "null" : gradient, or_text(r.revision, "abc"), or_text(r.cpu, "A CPU"), or_text(r.card, ""),
        r.threads ? r.threads : 2, second, or_text(r.machine, ""), or_text(r.more, ""));
    assert_true(bytes > 0);
    char *json = quoted(text);
    if (r.without) {
        json_t *record = json_loads(json, JSON_REJECT_DUPLICATES, NULL);
        assert_int_equal(json_object_del(record, r.without), 0);
        json_dumpf(record, file, 0);
        fputc('\n', file);
        json_decref(record);
    } else {
        fputs(json, file);
    }
    free(json);
    free(gradient);
    free(text);
}

static inline void write_records(const struct scratch *scratch, const char *name, const struct sketch *records,
                                 size_t count)
{
    FILE *file = fopen(scratch_path(scratch, name).text, "w");
    assert_non_null(file);
    for (size_t i = 0; i < count; i++)
        write_record(file, records[i], i);
    assert_int_equal(fclose(file), 0);
}

#define BASE(scratch, ...)                                                                                         \
    write_records(scratch, "base", (struct sketch[]){__VA_ARGS__}, COUNT(((struct sketch[]){__VA_ARGS__})))
#define NEW(scratch, ...)                                                                                          \
    write_records(scratch, "new", (struct sketch[]){__VA_ARGS__}, COUNT(((struct sketch[]){__VA_ARGS__})))

// --- the program

// The command's stdout and stderr together; the caller frees it.
static inline char *output_of(const struct scratch *scratch, const char *arguments, int *code)
{
    const char *program = getenv("LONGBP");
    char *absolute = realpath(program && *program ? program : "build/longbp", NULL), *command, *text = NULL;
    size_t capacity = 0;
    assert_non_null(absolute);
    assert_true(asprintf(&command, "cd '%s' && '%s' compare %s 2>&1", scratch->folder, absolute, arguments) > 0);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    if (getdelim(&text, &capacity, 0, pipe) < 0) {
        free(text);
        text = strdup("");
    }
    int status = pclose(pipe);
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    free(command);
    free(absolute);
    return text;
}

// The exit code, and a part of the output (' for "; NULL: any).
static inline void expect(const struct scratch *scratch, const char *arguments, int code, const char *part)
{
    int found;
    char *text = output_of(scratch, arguments, &found), *expected = quoted(part ? part : "");
    if (found != code || !strstr(text, expected))
        fail_msg("compare %s: expected %d and \"%s\", found %d and\n%s", arguments, code, expected, found, text);
    free(expected);
    free(text);
}

static inline void expect_silent(const struct scratch *scratch, const char *arguments, int code, const char *absent)
{
    int found;
    char *text = output_of(scratch, arguments, &found);
    if (found != code || strstr(text, absent))
        fail_msg("compare %s: expected %d and no \"%s\", found %d and\n%s", arguments, code, absent, found, text);
    free(text);
}

// The exit code that goes with a verdict.
static inline int code_of(const char *verdict)
{
    bool fine = strcmp(verdict, "same") == 0 || strcmp(verdict, "better") == 0;
    return fine ? 0 : strcmp(verdict, "worse") == 0 ? 1 : 3;
}

// The JSON of a comparison, which the caller releases; NULL, with a message, if its verdict or exit code differs
// from the expected.
static inline json_t *comparison_of(const struct scratch *scratch, const char *arguments, const char *expected)
{
    int code;
    char with_format[320];
    snprintf(with_format, sizeof with_format, "--format json %s", arguments);
    char *text = output_of(scratch, with_format, &code);
    json_t *comparison = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const char *found = json_string_value(json_object_get(comparison, "verdict"));
    if (code != code_of(expected) || !found || strcmp(found, expected) != 0) {
        print_error("compare %s: expected \"%s\", found %d and %s\n", arguments, expected, code,
                    found ? found : text);
        json_decref(comparison);
        comparison = NULL;
    }
    free(text);
    return comparison;
}

static inline json_t *judged(const struct scratch *scratch, const char *arguments, const char *verdict)
{
    json_t *comparison = comparison_of(scratch, arguments, verdict);
    assert_non_null(comparison);
    return comparison;
}

// The verdict on "status", "inputs", "time" or a quantity of a trial; "": nothing is said of it.
static inline const char *verdict_on(const json_t *comparison, unsigned trial, const char *what)
{
    size_t i, j;
    json_t *item, *quantity;
    char id[33];
    snprintf(id, sizeof id, "%032x", trial);
    json_array_foreach(json_object_get(comparison, "changed"), i, item)
    {
        if (strcmp(json_string_value(json_object_get(item, "id")), id) != 0)
            continue;
        json_t *own = json_object_get(item, what);
        if (own)
            return json_is_string(own) ? json_string_value(own)
                                       : json_string_value(json_object_get(own, "verdict"));
        json_array_foreach(json_object_get(item, "quantities"), j,
                           quantity) if (strcmp(json_string_value(json_object_get(quantity, "name")), what) ==
                                         0) return json_string_value(json_object_get(quantity, "verdict"));
    }
    return "";
}

// The verdict of all, and on something of trial 0, which is `verdict`, too, where `on` is NULL.
static inline void expect_judged(const struct scratch *scratch, const char *arguments, const char *verdict,
                                 const char *what, const char *on)
{
    json_t *comparison = judged(scratch, arguments, verdict);
    const char *found = verdict_on(comparison, 0, what);
    if (strcmp(found ? found : "", on ? on : verdict) != 0) {
        char *text = json_dumps(comparison, JSON_INDENT(1));
        fail_msg("compare %s: expected %s: \"%s\", found \"%s\" in\n%s", arguments, what, on ? on : verdict, found,
                 text);
    }
    json_decref(comparison);
}

// Last digits of the hashes of all gradients and of two tensors, for .bits.
#define HASHES(all, a, b)                                                                                          \
    ", 'hash': '000000000000000" all "', 'tensors': {'embed': {'hash': '000000000000000" a                         \
    "'}, 'norm': {'hash': '000000000000000" b "'}}"
#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)
