// Command: `longbp export`, records as a table for other programs.
#include "harness/command/command.h"
#include "harness/results/export.h"
#include <argp.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_FIELDS = 256, OPTION_FORMAT };

struct arguments {
    struct export_request request;
    const char **paths;
};

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case OPTION_FIELDS:
        arguments->request.fields = value;
        return 0;
    case OPTION_FORMAT:
        if (strcmp(value, "csv") != 0 && strcmp(value, "json") != 0)
            argp_error(state, "--format: csv or json, not \"%s\"", value);
        arguments->request.format = strcmp(value, "json") == 0 ? EXPORT_JSON : EXPORT_CSV;
        return 0;
    case ARGP_KEY_ARG:
        arguments->paths[arguments->request.path_count++] = value;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "name at least one result file");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int command_export(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"fields", OPTION_FIELDS, "A,B,C", 0,
         "Columns, such as id,trial.method.name,trial.context,peak_bytes (default: all but tables within a record)",
         0},
        {"format", OPTION_FORMAT, "csv|json", 0, "csv as RFC 4180 has it (default), or an array of JSON objects",
         0},
        {0},
    };
    static const struct argp argp = {
        options,
        parse,
        "RESULTS...",
        "Writes records as a table to stdout, a row each, also where a trial has several. Columns are named as in "
        "`longbp list fields`, which tells their units.\v"
        "In csv a null is empty and an empty text \"\"; lists and objects are JSON. Texts are written as they are: "
        "a "
        "spreadsheet may take one that begins with = for a formula. Exit status: 0 fine, 2 wrong use or a bad "
        "file.",
        NULL,
        NULL,
        NULL};
    struct arguments arguments = {.paths = calloc((size_t)argc + 1, sizeof *arguments.paths)};
    CHECK(arguments.paths);
    arguments.request.paths = arguments.paths;
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    struct status status = {0};
    bool fine = export_write(&arguments.request, stdout, &status);
    if (!fine)
        fprintf(stderr, "%s: %s\n", argv[0], status.message);
    free(arguments.paths);
    return fine ? EXIT_FINE : EXIT_BAD_INPUT;
}
