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
         .doc = "Format of the tables; latex, csv and json only print the table of records (default: text)"},
        {"html", TEXT_AT(struct arguments, html), .arg = "FILE",
         .doc = "Write a self-contained page for a browser instead: claims, figures (by gnuplot), sortable tables, "
                "time by category, provenance (default: tables)"},
        {"claims", TEXT_AT(struct arguments, claims), .arg = "FILE",
         .doc = "Claims for the page, compared with these records, which replace files of the same name (default: "
                "experiments/claims.json here or near the program)"},
        {"columns", TEXT_AT(struct arguments, request.table.columns), .arg = "COLUMN,COLUMN",
         .doc =
             "Only the table of records, with these columns: fields (`longbp list fields`), trial keys and method "
             "options by their short names (context, method, chunk), or setting, time_ms, spread_ms, time_ratio, "
             "peak_ratio, and for training runs last_loss, held_out_loss (default: those in which rows differ)"},
        {"sort", TEXT_AT(struct arguments, request.table.sort), .arg = "COLUMN[:desc]",
         .doc = "Only the table of records, in this order (default: the files')"},
        {"where", LIST_AT(struct arguments, request.conditions, request.condition_count), .arg = "KEY=VALUE,VALUE",
         .doc = "Only records whose field or key has one of these values; repeatable for further conditions "
                "(default: all)"},
        {"all", SET_AT(struct arguments, request.every),
         .doc = "Show every record of a trial; by default rounds form one row, and among other builds and machines "
                "the last record counts"},
        {"summary", SET_AT(struct arguments, request.summary),
         .doc = "Show one line per series, without the table of records and single points"},
        {"published", TEXT_AT(struct arguments, request.published), .arg = "DIR",
         .doc = "Folder of the published points (default: experiments/published here or near the program)"},
        {OPERANDS, LIST_AT(struct arguments, request.paths, request.path_count)},
        {0},
    };
    static const struct argp argp = {
        NULL,
        parse,
        "[RESULTS...]",
        "Writes recorded results as a table with a row per trial and ratios to the first record's method at the "
        "same model, context and batch. If the records allow, adds published points for the same experiment "
        "(published, ours, ratio, and each series' growth per token), a step's time by category, and the errors of "
        "predictions by measured rates.\vA time is the median of the samples, or the mean over draws if chunks are "
        "drawn; +- is half the distance between the quartiles, for a mean its standard error. Times of planned "
        "trials are estimates, in a column of their own.\n\ncsv (RFC 4180) and json (an array of objects) hold "
        "plain values, by default all fields except tables within a record; a row is a trial with the samples of "
        "all its rounds, with --all a record. Rows left out are reported on stderr. In csv null is empty and an "
        "empty text \"\"; lists and objects are JSON. Texts are not escaped for spreadsheets, which may take one "
        "that begins with = for a formula.\n\nExit status: 0 fine, 2 wrong use, a bad file, or nothing to sum up.",
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
