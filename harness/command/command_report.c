// Command: `longbp report`, recorded results as tables, optionally beside published points.
#include "harness/options/arguments.h"
#include "harness/options/command.h"
#include "harness/page/page.h"
#include "harness/report/report.h"
#include <stdlib.h>

struct arguments {
    struct report_request request;
    const char *format, *html, *claims;
};

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    struct report_request *request = &arguments->request;
    (void)value;
    switch (key) {
    case ARGP_KEY_END:
        request->table.format = table_format_find(arguments->format);
        if (!request->path_count)
            argp_error(state, "name at least one result file");
        if (arguments->html && request->table.format != TABLE_TEXT)
            argp_error(state, "--html is a format of its own, without --format");
        if (arguments->claims && !arguments->html)
            argp_error(state, "--claims are those of a page: --html; `longbp claims FILE` has them alone");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int command_report(int argc, char **argv)
{
    static const struct flag options[] = {
        {"format", TEXT_AT(struct arguments, format), .arg = "text|markdown|latex|csv|json",
         .doc = "Format of the tables; latex, csv and json print the one table of records (default: text)"},
        {"html", TEXT_AT(struct arguments, html), .arg = "FILE",
         .doc = "Instead one page for a browser, which needs no network: claims, figures (by gnuplot), tables that "
                "are sorted and filtered, where the time goes, where the records come from (default: tables)"},
        {"claims", TEXT_AT(struct arguments, claims), .arg = "FILE",
         .doc = "Claims for the page, held against these records, which stand for files of the same name "
                "(default: experiments/claims.json here or near the program)"},
        {"columns", TEXT_AT(struct arguments, request.table.columns), .arg = "COLUMN,COLUMN",
         .doc = "That table alone, with these columns: fields (`longbp list fields`), keys of a trial and options "
                "of its "
                "method by their own names (context, method, chunk), or setting, time_ms, spread_ms, time_ratio, "
                "peak_ratio, and of training runs last_loss, held_out_loss (default: those in which rows differ)"},
        {"sort", TEXT_AT(struct arguments, request.table.sort), .arg = "COLUMN[:desc]",
         .doc = "That table alone, in this order (default: the files')"},
        {"where", LIST_AT(struct arguments, request.conditions, request.condition_count), .arg = "KEY=VALUE,VALUE",
         .doc = "Only records whose field or key has one of these values; again for a further condition (default: "
                "all)"},
        {"all", SET_AT(struct arguments, request.every),
         .doc = "Every record of a trial that has several; else its rounds are one row, and of other builds' and "
                "machines' the last counts"},
        {"summary", SET_AT(struct arguments, request.summary),
         .doc = "One line for each series: not the table of records, nor every point"},
        {"published", TEXT_AT(struct arguments, request.published), .arg = "DIR",
         .doc = "Folder of the published points (default: experiments/published here or near the program)"},
        {OPERANDS, LIST_AT(struct arguments, request.paths, request.path_count)},
        {0},
    };
    static const struct argp argp = {
        NULL,
        parse,
        "[RESULTS...]",
        "Writes recorded results as a table, a row for each trial, ratios over the first record's method at the "
        "same "
        "model, context and batch; and, as far as the "
        "records have it, beside the points that papers published for the same experiment: published, ours and "
        "their ratio, and what each series grows by per token; where a step's time goes; and how far predictions "
        "by "
        "measured rates are off.\v"
        "A time is the median of the samples, where chunks are drawn the mean over draws; +- is half the distance "
        "between the quartiles, of a mean its standard error. Times of planned trials are estimates, and stand in "
        "a "
        "column of that name.\n\n"
        "csv (as RFC 4180 has it) and json (an array of objects) hold values as records have them, by default all "
        "fields but tables within a record; a row is a trial, with the samples of all its rounds, and with --all a "
        "record. What rows leave out is said on stderr. In csv a null is empty and an empty text \"\"; lists and "
        "objects are "
        "JSON. Texts are written as they are: a spreadsheet may take one that begins with = for a formula.\n\n"
        "Exit status: 0 fine, 2 wrong use, a bad file, or nothing to sum up.",
        NULL,
        NULL,
        NULL};
    struct arguments arguments = {.format = "text"};
    arguments_parse(&argp, options, argc, argv, &arguments);
    const struct report_request *request = &arguments.request;
    struct status status = {0};
    if (arguments.html)
        page_write(&(struct page_request){request, arguments.claims}, arguments.html, &status);
    else
        report_write(request, stdout, &status);
    free((void *)request->conditions);
    free((void *)request->paths);
    return command_end(argv[0], &status);
}
