#include "harness/compare/comparison_report.h"
#include "harness/compare/comparison_rows.h"
#include "harness/results/text_table.h"
#include <string.h>

enum comparison_format comparison_format_find(const char *name)
{
    static const char *const names[COMPARISON_FORMATS] = {"text", "markdown", "junit", "json"};
    enum comparison_format format = COMPARISON_TEXT;
    while (format < COMPARISON_FORMATS && strcmp(name, names[format]) != 0)
        format++;
    return format;
}

// --- for people

static void write_row(const struct comparison_row *row, FILE *stream)
{
    if (row->trial)
        fprintf(stream, "%-11s %.8s  %s: ", row->word, (row->trial->new ? row->trial->new : row->trial->base)->id,
                row->what);
    else
        fprintf(stream, "%-11s %s: ", row->word, row->what);
    if (*row->base)
        fprintf(stream, "%s %s -> %s%s%s\n", row->subject, row->base, row->new, *row->note ? ", " : "", row->note);
    else
        fprintf(stream, "%s%s%s\n", row->subject, *row->note ? " " : "", row->note);
}

static void write_bits(const struct comparison *comparison, const char *before, FILE *stream)
{
    if (!comparison->bits_known)
        return;
    fprintf(stream, "%sgradients: bits changed in %zu of %zu trials", before, comparison->bits_changed,
            comparison->bits_known);
    const char *separator = "; not the same in both: ";
    for (size_t i = 0; i < GRADIENT_BITS_CAUSES; i++) {
        if (comparison->bits_causes >> i & 1) {
            fprintf(stream, "%s%s", separator, gradient_bits_causes[i]);
            separator = ", ";
        }
    }
    fputc('\n', stream);
}

static void write_note(const char *before, size_t count, const char *one, const char *several, FILE *stream)
{
    if (count)
        fprintf(stream, "%s%zu %s\n", before, count, count == 1 ? one : several);
}

// before: of each line.
static void write_counts(const struct comparison *comparison, const char *before, FILE *stream)
{
    const size_t *trials = comparison->by_verdict;
    const struct time_change *time = &comparison->time;
    fprintf(stream,
            "%s%zu trials in both, %zu only in BASE, %zu only in NEW: %zu worse, %zu undecided, %zu changed, %zu "
            "better, %zu same, %zu not judged\n",
            before, comparison->both, comparison->base_only, comparison->new_only, trials[VERDICT_WORSE],
            trials[VERDICT_UNDECIDED], trials[VERDICT_CHANGED], trials[VERDICT_BETTER], trials[VERDICT_SAME],
            trials[VERDICT_NONE]);
    write_note(before, comparison->let_pass, "figure changed and was let pass by --allow",
               "figures changed and were let pass by --allow", stream);
    write_note(before, comparison->news, "figure is only in NEW, and not judged",
               "figures are only in NEW, and not judged", stream);
    write_note(before, comparison->older, "record of another revision or machine than its trial's last is left out",
               "records of another revision or machine than their trial's last are left out", stream);
    write_bits(comparison, before, stream);
    write_note(before, comparison->other_columns, "pair drew other columns: its figures of one draw are not judged",
               "pairs drew other columns: their figures of one draw are not judged", stream);
    if (comparison->options.deterministic)
        fprintf(stream, "%stimes: left out\n", before);
    else if (comparison->planned)
        fprintf(stream, "%stimes: not compared: %s is planned, and a plan has none\n", before, comparison->planned);
    else
        fprintf(stream, "%stimes: %s (%zu of %zu trials judged, %zu round%s, threshold %.3g %%)\n", before,
                verdict_name(time->verdict), time->judged, time->timed, time->rounds, time->rounds == 1 ? "" : "s",
                100 * comparison->options.threshold);
    if (!comparison->planned)
        write_note(before, comparison->left_out, "timed record has no round in the other file to be held against",
                   "timed records have no round in the other file to be held against", stream);
    write_note(before, comparison->processor_times,
               "trial is judged by processor time, for other programs disturbed it: waits are not in it",
               "trials are judged by processor time, for other programs disturbed them: waits are not in it",
               stream);
    if (*comparison->note)
        fprintf(stream, "%snote: %s\n", before, comparison->note);
}

static void write_verdict(const struct comparison *comparison, FILE *stream)
{
    fprintf(stream, "verdict: %s%s%s", verdict_name(comparison->verdict), *comparison->reason ? ": " : "",
            comparison->reason);
}

static void write_text(const struct titled_comparison *item, const struct comparison_rows *rows, FILE *stream)
{
    if (item->title)
        fprintf(stream, "%s\n", item->title);
    for (size_t i = 0; i < rows->count; i++)
        write_row(&rows->rows[i], stream);
    write_counts(&item->comparison, "", stream);
    write_verdict(&item->comparison, stream);
    fputc('\n', stream);
}

static void write_markdown(const struct titled_comparison *item, const struct comparison_rows *rows, FILE *stream)
{
    struct text_table table = {0};
    text_table_row(&table, (const char *const[]){"", "trial", "", "before", "after", "", NULL});
    for (size_t i = 0; i < rows->count; i++) {
        const struct comparison_row *row = &rows->rows[i];
        text_table_row(&table, (const char *const[]){row->word, row->what, row->subject, row->base, row->new,
                                                     row->note, NULL});
    }
    if (item->title)
        fprintf(stream, "### %s\n\n", item->title);
    fputs("**", stream);
    write_verdict(&item->comparison, stream);
    fputs("**\n\n", stream);
    write_counts(&item->comparison, "- ", stream);
    if (rows->count) {
        fputc('\n', stream);
        text_table_print(&table, TABLE_MARKDOWN, stream);
    }
    text_table_free(&table);
}

// --- for test runners

static void write_escaped(const char *text, FILE *stream)
{
    for (; *text; text++) {
        if (*text == '&')
            fputs("&amp;", stream);
        else if (*text == '<')
            fputs("&lt;", stream);
        else if (*text == '>')
            fputs("&gt;", stream);
        else if (*text == '"')
            fputs("&quot;", stream);
        else
            fputc((unsigned char)*text < ' ' ? ' ' : *text, stream);
    }
}

struct test_case {
    const char *name;
    bool failure, error, open;
    const struct comparison_row *rows; // [count]: what is said of it
    size_t count;
    const char *reason; // of one without rows
};

static void write_case(const struct test_case *test, FILE *stream)
{
    const char *element = test->failure ? "failure" : test->error ? "error" : test->open ? "skipped" : "system-out";
    fputs("    <testcase classname=\"longbp.compare\" name=\"", stream);
    write_escaped(test->name, stream);
    fputs("\">\n", stream);
    if (test->count || *test->reason) {
        fprintf(stream, "      <%s>", element);
        for (size_t i = 0; i < test->count; i++) {
            const struct comparison_row *row = &test->rows[i];
            const char *const words[] = {row->word,    " ",
                                         row->subject, *row->base ? " " : "",
                                         row->base,    *row->base ? " -> " : "",
                                         row->new,     *row->note ? ", " : "",
                                         row->note};
            for (size_t w = 0; w < sizeof words / sizeof *words; w++)
                write_escaped(words[w], stream);
            fputc('\n', stream);
        }
        write_escaped(test->reason, stream);
        fprintf(stream, "</%s>\n", element);
    }
    fputs("    </testcase>\n", stream);
}

// The trial, or the group, that begins at row *next, which moves on.
static struct test_case case_of(const struct comparison_rows *rows, size_t *next)
{
    const struct comparison_row *first = &rows->rows[*next];
    struct test_case test = {.name = first->what, .rows = first, .reason = ""};
    do {
        enum verdict verdict = rows->rows[*next].verdict;
        test.failure |= verdict == VERDICT_WORSE;
        test.open |= verdict == VERDICT_UNDECIDED || verdict == VERDICT_CHANGED;
        test.count++;
        (*next)++;
    } while (first->trial && *next < rows->count && rows->rows[*next].trial == first->trial);
    return test;
}

// rows: of all trials. The verdict is a case, too, so that the suite is not passed where the command fails.
static void write_suite(const struct titled_comparison *item, const struct comparison_rows *rows, FILE *stream)
{
    const struct comparison *comparison = &item->comparison;
    struct test_case *tests = calloc(rows->count + 1, sizeof *tests);
    CHECK(tests);
    size_t count = 0, failures = 0, errors = 0, skipped = 0;
    for (size_t next = 0; next < rows->count;)
        tests[count++] = case_of(rows, &next);
    tests[count++] = (struct test_case){
        .name = "verdict",
        .failure = comparison->verdict == VERDICT_WORSE,
        .error = comparison->verdict == VERDICT_CHANGED || comparison->verdict == VERDICT_UNDECIDED,
        .reason = *comparison->reason ? comparison->reason : verdict_name(comparison->verdict)};
    for (size_t i = 0; i < count; i++) {
        failures += tests[i].failure;
        errors += tests[i].error;
        skipped += tests[i].open && !tests[i].failure;
    }
    fputs("  <testsuite name=\"", stream);
    write_escaped(item->title ? item->title : "longbp compare", stream);
    fprintf(stream, "\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\">\n", count, failures, errors,
            skipped);
    for (size_t i = 0; i < count; i++)
        write_case(&tests[i], stream);
    fputs("  </testsuite>\n", stream);
    free(tests);
}

// --- all

static void write_json(const struct titled_comparison *comparisons, size_t count, bool all, FILE *stream)
{
    bool titled = count > 0 && comparisons[0].title;
    fputs(titled ? "[\n " : "", stream);
    for (size_t i = 0; i < count; i++) {
        fputs(i ? ",\n " : "", stream);
        comparison_json_write(&comparisons[i].comparison, all, comparisons[i].title, titled, stream);
    }
    fputs(titled ? "\n]\n" : "\n", stream);
}

void comparison_write(const struct titled_comparison *comparisons, size_t count, enum comparison_format format,
                      bool all, FILE *stream)
{
    if (format == COMPARISON_JSON) {
        write_json(comparisons, count, all, stream);
        return;
    }
    if (format == COMPARISON_JUNIT)
        fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n", stream);
    for (size_t i = 0; i < count; i++) {
        struct comparison_rows rows;
        comparison_rows_make(&rows, &comparisons[i].comparison, all || format == COMPARISON_JUNIT);
        if (i && format != COMPARISON_JUNIT)
            fputc('\n', stream);
        if (format == COMPARISON_JUNIT)
            write_suite(&comparisons[i], &rows, stream);
        else if (format == COMPARISON_MARKDOWN)
            write_markdown(&comparisons[i], &rows, stream);
        else
            write_text(&comparisons[i], &rows, stream);
        comparison_rows_free(&rows);
    }
    if (format == COMPARISON_JUNIT)
        fputs("</testsuites>\n", stream);
}
