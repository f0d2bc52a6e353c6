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
        fine = status_set(status, STATUS_BAD_INPUT, "no records; `longbp run` writes them");
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
         .doc = "Only records whose field or key has one of these values; repeatable for further conditions "
                "(default: all)"},
        {"all", SET_AT(struct arguments, report.all), .doc = "Include figures that never changed"},
        {OPERANDS, LIST_AT(struct arguments, paths, path_count), .doc = "name at least one result file"},
        {0},
    };
    static const struct argp argp = {
        NULL,
        NULL,
        "RESULTS...",
        "Shows figures of recorded trials commit by commit, and the commits that changed them. Files may hold "
        "records of any number of commits in any order, because each record has its revision: a file per commit, "
        "`longbp run SPEC --out COMMIT.jsonl`, or the history of one file in git (tools/history).\vCommits are in "
        "git's order if the current repository has all of them, otherwise by the time of their first records. A "
        "trial, by its id, is compared with the last earlier commit that has it: bytes, FLOPs, launches and bits "
        "of gradients change if they are not equal, gradient errors beyond their noise floor, losses beyond "
        "rounding and, for training runs, beyond their noise (`longbp compare --help`), and times if `longbp "
        "compare` judges them slower or faster.\n\nExit status: 0 fine, 2 wrong use or a bad file.",
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
