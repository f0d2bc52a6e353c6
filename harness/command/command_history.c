// Command: `longbp history`, how figures went from commit to commit, and where they changed.
#include "harness/compare/history_report.h"
#include "harness/options/arguments.h"
#include "harness/options/command.h"
#include "harness/table/record_filter.h"
#include <stdlib.h>

enum { OPTION_FORMAT = 256, OPTION_WHERE };

struct arguments {
    struct history_report report;
    const char **paths, **conditions;
    size_t path_count, condition_count;
};

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case OPTION_FORMAT:
        arguments->report.format = table_format_find(value);
        return 0;
    case OPTION_WHERE:
        arguments->conditions[arguments->condition_count++] = value;
        return 0;
    case ARGP_KEY_ARG:
        arguments->paths[arguments->path_count++] = value;
        return 0;
    case ARGP_KEY_END:
        if (!arguments->path_count)
            argp_error(state, "name at least one result file");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static bool write_history(const struct arguments *arguments, struct status *status)
{
    struct results results = {0};
    bool fine = results_open(&results, arguments->paths, arguments->path_count, true, status) &&
                record_filter_some(&results, arguments->conditions, arguments->condition_count, status);
    if (fine && results.count == 0)
        fine = status_set(status, STATUS_BAD_INPUT,
                          "no records: there is nothing to tell of; `longbp run` writes them");
    if (fine) {
        struct histories histories;
        histories_make(&histories, results.records, results.count);
        history_report_write(&arguments->report, &histories, stdout);
        histories_free(&histories);
    }
    results_close(&results);
    return fine;
}

int command_history(int argc, char **argv)
{
    static const struct flag options[] = {
        {"format", .key = OPTION_FORMAT, .arg = "text|markdown|json",
         .doc = "Of the tables; json has every figure of every trial at every commit (default: text)"},
        {"where", .key = OPTION_WHERE, .arg = "KEY=VALUE,VALUE",
         .doc = "Only records whose field or key has one of these values; again for a further condition (default: "
                "all)"},
        {"all", SET_AT(struct arguments, report.all), .doc = "Figures that never changed, too"},
        {0},
    };
    static const struct argp argp = {
        NULL,
        parse,
        "RESULTS...",
        "Says how figures of recorded trials went from commit to commit, and at which commit they changed. Files "
        "hold "
        "records of any number of commits, in any order, for each carries the revision that made it: a file per "
        "commit, `longbp run SPEC --out COMMIT.jsonl`, or what git has of one file (tools/history).\v"
        "Commits come in git's order where longbp is started in a repository that has all of them, else in that of "
        "their first records' times. A trial, by its id, is compared with the last commit before that has it: "
        "bytes, "
        "FLOPs, launches and the bits of gradients change where they are not equal, gradient errors beyond their "
        "noise floor, losses beyond rounding and, of training runs, beyond their noise (`longbp compare --help`), "
        "and times where the rank test of `longbp compare` says slower or faster.\n\n"
        "Exit status: 0 fine, 2 wrong use or a bad file.",
        NULL,
        NULL,
        NULL};
    struct arguments arguments = {.paths = calloc((size_t)argc + 1, sizeof *arguments.paths),
                                  .conditions = calloc((size_t)argc + 1, sizeof *arguments.conditions)};
    arguments_parse(&argp, options, argc, argv, &arguments);
    struct status status = {0};
    bool fine = write_history(&arguments, &status);
    if (!fine)
        fprintf(stderr, "%s: %s\n", argv[0], status.message);
    free(arguments.paths);
    free(arguments.conditions);
    return fine ? EXIT_FINE : EXIT_BAD_INPUT;
}
