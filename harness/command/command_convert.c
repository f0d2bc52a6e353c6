// Command: `longbp convert`, records of an earlier schema as records of this one.
//
// Schema 1 named a trial "cell", left keys out that came later, and its id was a hash of all keys; ids stay
// comparable because each is made anew from what the record says its trial was.
#define _GNU_SOURCE // getline, asprintf
#include "harness/files/output_file.h"
#include "harness/machine/exit_code.h"
#include "harness/options/arguments.h"
#include "harness/options/command.h"
#include "harness/record/record.h"
#include "harness/record/record_read.h"
#include "harness/record/result_file.h"
#include "harness/spec/trial.h"
#include <errno.h>
#include <string.h>

struct arguments {
    const char *in, *out;
};

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (arguments->in)
            argp_error(state, "one result file at a time; \"%s\" is another", value);
        arguments->in = value;
        return 0;
    case ARGP_KEY_END:
        if (!arguments->in || !arguments->out)
            argp_error(state, "name a result file, and where the converted records go: --out FILE");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

// "longbp run SPEC --cell OLD" as "longbp run SPEC --trial ID"
static json_t *command_of(const json_t *old, const char *id)
{
    const char *text = json_string_value(old), *flag = text ? strstr(text, " --cell ") : NULL;
    char *command;
    if (!flag)
        return json_string(text ? text : "");
    CHECK(asprintf(&command, "%.*s --trial %s", (int)(flag - text), text, id) >= 0);
    json_t *json = json_string(command);
    free(command);
    return json;
}

static bool convert_record(json_t *record, const char *where, struct status *status)
{
    json_t *cell = json_object_get(record, "cell");
    char *text = json_dumps(cell, JSON_COMPACT | JSON_ENCODE_ANY);
    struct trial trial;
    if (!json_is_object(cell) || !text) {
        free(text);
        return status_set(status, STATUS_BAD_INPUT, "%s: not a record of schema 1: \"cell\" is missing", where);
    }
    bool decoded = trial_decode(&trial, text, where, status);
    if (decoded) {
        json_object_set_new(record, "schema", json_integer(RECORD_SCHEMA));
        json_object_set_new(record, "trial", json_loads(trial.canonical, 0, NULL));
        json_object_set_new(record, "id", json_string(trial.id));
        json_object_set_new(record, "command", command_of(json_object_get(record, "command"), trial.id));
        json_object_del(record, "cell");
    }
    trial_free(&trial);
    free(text);
    return decoded;
}

static bool convert_line(const char *line, const char *where, struct output_file *out, struct status *status)
{
    json_error_t error;
    json_t *record = json_loads(line, JSON_REJECT_DUPLICATES, &error);
    if (!record)
        return status_set(status, STATUS_BAD_INPUT, "%s:%d: not JSON: %s", where, error.column, error.text);
    bool old = json_integer_value(json_object_get(record, "schema")) == 1;
    bool fine = !old || convert_record(record, where, status);
    char *text = json_dumps(record, JSON_COMPACT);
    CHECK(text);
    json_decref(record);
    struct record read;
    struct interned interned = {0};
    fine = fine && record_read(&read, text, strlen(text), &interned, where, status);
    interned_free(&interned);
    fine = fine && output_file_append(out, text, strlen(text), status) && output_file_append(out, "\n", 1, status);
    free(text);
    return fine;
}

static bool convert(const struct arguments *arguments, struct output_file *out, struct status *status)
{
    FILE *in = result_stream_open(arguments->in, status);
    if (!in)
        return false;
    char *line = NULL, where[600];
    size_t room = 0, number = 0;
    bool fine = output_file_open(out, arguments->out, status);
    while (fine && getline(&line, &room, in) > 0) {
        snprintf(where, sizeof where, "%.500s:%zu", arguments->in, ++number);
        fine = convert_line(line, where, out, status);
    }
    if (fine && ferror(in))
        fine = status_set(status, STATUS_IO, "%s: %s", arguments->in, strerror(errno));
    free(line);
    fclose(in);
    return fine;
}

int command_convert(int argc, char **argv)
{
    static const struct flag options[] = {
        {.name = "out",
         .key = 'o',
         TEXT_AT(struct arguments, out),
         .arg = "FILE",
         .doc = "Where the converted records go; it may be the file itself (required)"},
        {0},
    };
    static const struct argp argp = {
        NULL,
        parse,
        "RESULTS",
        "Makes records of an earlier version of this program readable: compare, plot and report take records of "
        "one schema alone. Records of the present schema stay as they are.\v"
        "Exit status: 0 fine, 2 wrong use or a file that is none of records.",
        NULL,
        NULL,
        NULL};
    struct arguments arguments = {0};
    struct output_file out = {0};
    struct status status = {0};
    arguments_parse(&argp, options, argc, argv, &arguments);
    bool fine = convert(&arguments, &out, &status) && output_file_commit(&out, &status);
    output_file_discard(&out);
    if (!fine) {
        fprintf(stderr, "%s: %s\n", argv[0], status.message);
        return EXIT_BAD_INPUT;
    }
    return EXIT_FINE;
}
