#include "harness/report/longest_report.h"
#include "harness/table/text_table.h"
#include <math.h>
#include <string.h>

// "1,200,000"
static struct text_table_word thousands(double value)
{
    struct text_table_word digits = text_table_number(value, 0), word = {""};
    size_t count = strlen(digits.text), used = 0;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            word.text[used++] = ',';
        word.text[used++] = digits.text[i];
    }
    return word;
}

static void add_row(struct text_table *table, const struct longest_row *row)
{
    struct text_table_word ours = thousands(row->extent), theirs = thousands(row->published);
    char label[sizeof row->label + sizeof row->chosen + 4], published[160];
    snprintf(label, sizeof label, "%s%s%s", row->label, *row->chosen ? ", " : "", row->chosen);
    snprintf(published, sizeof published, "%s%s%s", theirs.text, *row->mark ? ", " : "", row->mark);
    text_table_row(table, (const char *const[]){label, ours.text, text_table_number(row->forwards, 2).text,
                                                published, *row->method ? row->limit : row->setting, NULL});
}

static void print_group(const struct longest_contexts *contexts, size_t group, enum table_format format,
                        FILE *stream)
{
    struct text_table table = {0};
    size_t rows = 0;
    bool batches = group && contexts->groups[group - 1].batch_sequence;
    text_table_row(&table, (const char *const[]){"method", batches ? "planned, sequences" : "planned, tokens",
                                                 "FLOPs, of a forward", "published",
                                                 batches ? "one more" : "one token more; or the setting", NULL});
    for (size_t i = 0; i < contexts->row_count; i++)
        if (contexts->rows[i].group == group && ++rows)
            add_row(&table, &contexts->rows[i]);
    const char *words = group ? contexts->groups[group - 1].words : "reported of what nothing here is planned for";
    if (rows) {
        fprintf(stream, format == TABLE_MARKDOWN ? "\n**%s**\n\n" : "\n%s\n", words);
        text_table_print(&table, format, stream);
    }
    text_table_free(&table);
}

// Title for the groups' contents.
static const char *title_of(size_t contexts, size_t batches)
{
#define CONTEXTS "longest contexts, of one sequence on a card but where it says more"
    return !batches ? CONTEXTS : contexts ? CONTEXTS "; largest batches" : "largest batches";
}

void longest_report_write(const struct longest_contexts *contexts, enum table_format format, FILE *stream)
{
    bool markdown = format == TABLE_MARKDOWN, both = *contexts->sources && *contexts->other_sources;
    size_t batches = 0, groups = contexts->group_count;
    for (size_t g = 0; g < groups; g++)
        batches += contexts->groups[g].batch_sequence > 0;
    fprintf(stream, "%s%s\n%splanned at revision %s", markdown ? "## " : "", title_of(groups - batches, batches),
            markdown ? "\n" : "", *contexts->revisions ? contexts->revisions : "unknown");
    if (*contexts->sources || *contexts->other_sources)
        fprintf(stream, "; published: %s%s%s", contexts->sources, both ? "; " : "", contexts->other_sources);
    fputs("\n", stream);
    for (size_t group = 1; group <= groups; group++)
        print_group(contexts, group, format, stream);
    if (groups > batches)
        print_group(contexts, 0, format, stream);
}
