#include "harness/compare/comparison_report.h"
#include "harness/compare/comparison_rows.h"
#include "harness/table/text_table.h"
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

static void write_row(const struct comparison_row *row, void *data)
{
    FILE *stream = data;
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

// ": round 3 of BASE, rounds 1, 2 of NEW", for rounds left out that have numbers.
static void write_left_rounds(const uint64_t *left, FILE *stream)
{
    const char *separator = ": ";
    for (size_t side = 0; side < 2; side++) {
        bool several = left[side] & (left[side] - 1);
        for (size_t i = 0, told = 0; i < 64; i++)
            if (left[side] >> i & 1) {
                fprintf(stream, "%s%s%zu%s", separator,
                        told++    ? ""
                        : several ? "rounds "
                                  : "round ",
                        i + 1, i == 63 ? " and later" : "");
                separator = ", ";
            }
        fputs(left[side] ? side ? " of NEW" : " of BASE" : "", stream);
    }
}

// before: start of each line.
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
    for (enum comparison_count i = 0; i < COUNT_REASONS; i++) {
        size_t count = comparison->counts[i];
        if (!count)
            continue;
        fprintf(stream, "%s%zu %s", before, count,
                count == 1 ? comparison_counts[i].one : comparison_counts[i].several);
        if (i == COUNT_LEFT_OUT)
            write_left_rounds(comparison->left_rounds, stream);
        fputc('\n', stream);
    }
    write_bits(comparison, before, stream);
    if (comparison->options.deterministic)
        fprintf(stream, "%stimes: left out\n", before);
    else if (comparison->planned)
        fprintf(stream, "%stimes: not compared: %s is planned, and a plan has none\n", before, comparison->planned);
    else
        fprintf(stream, "%stimes: %s (%zu of %zu trials judged, %zu round%s, threshold %.3g %%)\n", before,
                verdict_name(time->verdict), time->judged, time->timed, time->rounds, time->rounds == 1 ? "" : "s",
                100 * comparison->options.threshold);
    if (*comparison->note)
        fprintf(stream, "%snote: %s\n", before, comparison->note);
}

static void write_verdict(const struct comparison *comparison, FILE *stream)
{
    fprintf(stream, "verdict: %s%s%s", verdict_name(comparison->verdict), *comparison->reason ? ": " : "",
            comparison->reason);
}

static void write_text(const struct titled_comparison *item, bool all, FILE *stream)
{
    if (item->title)
        fprintf(stream, "%s\n", item->title);
    comparison_read(&item->comparison, all, &(struct comparison_reader){write_row, stream});
    write_counts(&item->comparison, "", stream);
    write_verdict(&item->comparison, stream);
    fputc('\n', stream);
}

static void add_to_table(const struct comparison_row *row, void *table)
{
    text_table_row(table,
                   (const char *const[]){row->word, row->what, row->subject, row->base, row->new, row->note, NULL});
}

static void write_markdown(const struct titled_comparison *item, bool all, FILE *stream)
{
    struct text_table table = {0};
    text_table_row(&table, (const char *const[]){"", "trial", "", "before", "after", "", NULL});
    comparison_read(&item->comparison, all, &(struct comparison_reader){add_to_table, &table});
    if (item->title)
        fprintf(stream, "### %s\n\n", item->title);
    fputs("**", stream);
    write_verdict(&item->comparison, stream);
    fputs("**\n\n", stream);
    write_counts(&item->comparison, "- ", stream);
    if (table.rows > 1) {
        fputc('\n', stream);
        text_table_print(&table, TABLE_MARKDOWN, stream);
    }
    text_table_free(&table);
}

// --- for test runners

static void write_escaped(const char *text, FILE *stream)
{
    static const char marks[] = "&<>\"", *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;"};
    for (; *text; text++) {
        const char *mark = strchr(marks, *text);
        if (mark)
            fputs(entities[mark - marks], stream);
        else
            fputc((unsigned char)*text < ' ' ? ' ' : *text, stream);
    }
}

static const char *element_of(enum verdict verdict, const char *undecided)
{
    bool open = verdict == VERDICT_UNDECIDED || verdict == VERDICT_CHANGED;
    return verdict == VERDICT_WORSE ? "failure" : open ? undecided : "system-out";
}

static void begin_case(const char *name, const char *element, FILE *stream)
{
    fputs("    <testcase classname=\"longbp.compare\" name=\"", stream);
    write_escaped(name, stream);
    fprintf(stream, "\">\n      <%s>", element);
}

static void end_case(const char *element, FILE *stream)
{
    fprintf(stream, "</%s>\n    </testcase>\n", element);
}

static void write_case_row(const struct comparison_row *row, void *data)
{
    char words[1024];
    snprintf(words, sizeof words, "%s %s%s%s%s%s%s%s", row->word, row->subject, *row->base ? " " : "", row->base,
             *row->base ? " -> " : "", row->new, *row->note ? ", " : "", row->note);
    write_escaped(words, data);
    fputc('\n', data);
}

static void write_group_case(const struct comparison_row *row, void *data)
{
    const char *element = element_of(row->verdict, "skipped");
    begin_case(row->what, element, data);
    write_case_row(row, data);
    end_case(element, data);
}

static void count_group(const struct comparison_row *row, void *data)
{
    size_t *counts = data; // [VERDICT_COUNT]
    counts[row->verdict]++;
}

// Writes all trials and groups, and the verdict, so that the suite fails when the command does.
static void write_suite(const struct titled_comparison *item, FILE *stream)
{
    const struct comparison *comparison = &item->comparison;
    enum verdict verdict = comparison->verdict;
    const char *last = element_of(verdict, "error");
    size_t counts[VERDICT_COUNT], cases = 1;
    memcpy(counts, comparison->by_verdict, sizeof counts);
    comparison_read_groups(comparison, true, &(struct comparison_reader){count_group, counts});
    for (size_t i = 0; i < VERDICT_COUNT; i++)
        cases += counts[i];
    fputs("  <testsuite name=\"", stream);
    write_escaped(item->title ? item->title : "longbp compare", stream);
    fprintf(stream, "\" tests=\"%zu\" failures=\"%zu\" errors=\"%d\" skipped=\"%zu\">\n", cases,
            counts[VERDICT_WORSE] + (verdict == VERDICT_WORSE), strcmp(last, "error") == 0,
            counts[VERDICT_CHANGED] + counts[VERDICT_UNDECIDED]);
    for (size_t i = 0; i < comparison->count; i++) {
        const struct trial_comparison *trial = &comparison->trials[i];
        const char *element = element_of(trial->verdict, "skipped");
        begin_case(comparison_name(comparison, trial).text, element, stream);
        comparison_read_trial(comparison, trial, true, &(struct comparison_reader){write_case_row, stream});
        end_case(element, stream);
    }
    comparison_read_groups(comparison, true, &(struct comparison_reader){write_group_case, stream});
    begin_case("verdict", last, stream);
    write_escaped(*comparison->reason ? comparison->reason : verdict_name(verdict), stream);
    end_case(last, stream);
    fputs("  </testsuite>\n", stream);
}

// --- all

static void write_json(const struct titled_comparison *comparisons, size_t count, bool all, FILE *stream)
{
    bool titled = count > 0 && comparisons[0].title;
    fputs(titled ? "[\n " : "", stream);
    for (size_t i = 0; i < count; i++) {
        fputs(i ? ",\n " : "", stream);
        comparison_json_write(&comparisons[i].comparison, all, comparisons[i].title, stream);
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
        if (i && format != COMPARISON_JUNIT)
            fputc('\n', stream);
        if (format == COMPARISON_JUNIT)
            write_suite(&comparisons[i], stream);
        else
            (format == COMPARISON_MARKDOWN ? write_markdown : write_text)(&comparisons[i], all, stream);
    }
    if (format == COMPARISON_JUNIT)
        fputs("</testsuites>\n", stream);
}
