// Command: `longbp history`, figures from commit to commit, and where they changed.
#include "harness/compare/history_report.h"
#include "harness/options/arguments.h"
#include "harness/options/command.h"
#include "harness/table/record_filter.h"
#include <stdlib.h>

struct arguments {
    struct history_report report;
    const char *format, *const *paths, *const *conditions;
    size_t path_count, condition_count;
};

static void write_history(const struct arguments *arguments, struct status *status)
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
}

int command_history(int argc, char **argv)
{
    static const struct flag options[] = {
        {"format", TEXT_AT(struct arguments, format), .arg = "text|markdown|json",
         .doc = "Format of the tables; json has every figure of every trial at every commit (default: text)"},
        {"where", LIST_AT(struct arguments, conditions, condition_count), .arg = "KEY=VALUE,VALUE",
         .doc = "Only records whose field or key has one of these values; again for a further condition (default: "
                "all)"},
        {"all", SET_AT(struct arguments, report.all), .doc = "Figures that never changed, too"},
        {OPERANDS, LIST_AT(struct arguments, paths, path_count), .doc = "name at least one result file"},
        {0},
    };
    static const struct argp argp = {
        NULL,
        NULL,
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
    struct arguments arguments = {.format = "text"};
    arguments_parse(&argp, options, argc, argv, &arguments);
    struct status status = {0};
    arguments.report.format = table_format_find(arguments.format);
    write_history(&arguments, &status);
    free((void *)arguments.paths);
    free((void *)arguments.conditions);
    return command_end(argv[0], &status);
}
