#include "harness/report/category_report.h"
#include "harness/record/step_time.h"
#include "harness/table/series.h"
#include "harness/table/setting.h"
#include "harness/table/text_table.h"
#include "kernels/base/status.h"
#include "kernels/device/observer.h"
#include <math.h>
#include <string.h>

// A line of the table: an operation, or the sum of several.
struct line {
    enum work work;
    char name[64];
    double launches, ms, estimate_ms, flops, bytes_moved; // ms, estimate_ms: NaN if unknown
};

struct printer {
    const struct category_report *report;
    bool planned;     // ms are estimates
    double step_ms;   // sum over all lines
    double flop_unit; // 1e9 or 1e12
    FILE *stream;
};

// WORK_COUNT: an unknown category.
static struct line line_of(const struct record_row *row)
{
    const char *category = text_or(row->category, "?"), *operation = text_or(row->operation, "?");
    const double *shape = row->shape.items;
    struct line line = {.launches = row->launches,
                        .ms = row->ms,
                        .estimate_ms = row->estimate_ms,
                        .flops = row->flops,
                        .bytes_moved = row->bytes_moved};
    while (line.work < WORK_COUNT && strcmp(work_name(line.work), category) != 0)
        line.work++;
    if (row->shape.count == 3)
        snprintf(line.name, sizeof line.name, "  %.20s %.0f x %.0f x %.0f", operation, shape[0], shape[1],
                 shape[2]);
    else
        snprintf(line.name, sizeof line.name, "  %.40s", operation);
    return line;
}

static void line_add(struct line *sum, const struct line *line)
{
    sum->launches += line->launches;
    sum->ms += line->ms;
    sum->estimate_ms += line->estimate_ms;
    sum->flops += line->flops;
    sum->bytes_moved += line->bytes_moved;
}

static double time_of(const struct line *line)
{
    return isfinite(line->ms) ? line->ms : line->estimate_ms;
}

// Sorts by time, or without times by FLOPs.
static int by_time(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    double left = time_of(x), right = time_of(y);
    if (!(isfinite(left) && isfinite(right))) {
        left = x->flops;
        right = y->flops;
    }
    return (left < right) - (left > right);
}

#define ROW(table, ...) text_table_row(table, (const char *const[]){__VA_ARGS__, NULL})

static struct text_table_word percent(double share)
{
    struct text_table_word word = text_table_number(100 * share, 1);
    size_t used = strlen(word.text);
    if (isfinite(share))
        snprintf(word.text + used, sizeof word.text - used, " %%");
    return word;
}

static void add_line(const struct printer *p, struct text_table *table, const struct line *line)
{
    double ms = time_of(line), gigabytes = line->bytes_moved / 1e9, flops = line->flops / p->flop_unit;
    // Without bytes or FLOPs there is no rate.
    double bytes_of = gigabytes > 0 ? gigabytes : NAN, flops_of = flops > 0 ? flops : NAN;
    ROW(table, line->name, text_table_number(line->launches > 0 ? line->launches : NAN, 0).text,
        text_table_number(ms, 3).text, percent(ms / p->step_ms).text, text_table_number(flops_of, 3).text,
        text_table_number(bytes_of, 3).text, text_table_number(1e3 * flops_of / ms, 1).text,
        text_table_number(1e3 * bytes_of / ms, 1).text,
        percent(p->planned || !(line->estimate_ms > 0) ? NAN : line->estimate_ms / ms).text);
}

// Adds a category's sum and, if there are several or they have shapes, its operations.
static void add_category(const struct printer *p, struct text_table *table, enum work work,
                         const struct line *lines, size_t count)
{
    struct line sum = {.work = work};
    size_t operations = 0;
    for (size_t i = 0; i < count; i++) {
        if (lines[i].work == work) {
            line_add(&sum, &lines[i]);
            operations++;
        }
    }
    if (!operations)
        return;
    snprintf(sum.name, sizeof sum.name, "%s", work < WORK_COUNT ? work_name(work) : "other");
    add_line(p, table, &sum);
    for (size_t i = 0; p->report->operations && i < count; i++)
        if (lines[i].work == work && (operations > 1 || work == WORK_GEMM))
            add_line(p, table, &lines[i]);
}

static void print_table(struct printer *p, struct line *lines, size_t count)
{
    struct text_table table = {0};
    struct line total = {.name = "step"};
    for (size_t i = 0; i < count; i++)
        line_add(&total, &lines[i]);
    p->step_ms = time_of(&total);
    bool tera = total.flops > 1e13;
    p->flop_unit = tera ? 1e12 : 1e9;
    qsort(lines, count, sizeof *lines, by_time);
    ROW(&table, "", "launches", "ms", "of the step", tera ? "TFLOP" : "GFLOP", "GB", tera ? "TFLOP/s" : "GFLOP/s",
        "GB/s", "of the roofline");
    for (enum work work = 0; work <= WORK_COUNT; work++)
        add_category(p, &table, work, lines, count);
    add_line(p, &table, &total);
    fputs("\n", p->stream);
    text_table_print(&table, p->report->format, p->stream);
    text_table_free(&table);
}

// Names the step of these times, and the rates of the shares.
static void print_rates(const struct printer *p, const struct record *record)
{
    const struct record_roofline *roofline = &record->categories->roofline;
    const char *source = text_or(roofline->source, "?");
    bool drawn = step_time_is_drawn(record);
    char draw[80] = "";
    if (drawn)
        snprintf(draw, sizeof draw, " over draw 0, of %zu chunks", record->drawn_chunks.count);
    if (p->planned)
        fprintf(p->stream, "planned: ms are estimates%s%s\n", drawn ? " of a step" : "", draw);
    else
        fprintf(p->stream, "a step of %.3f ms%s, taken apart beside the samples, whose %s is %s ms\n",
                record->categories->step_ms, draw, drawn ? "mean over draws" : "median",
                text_table_number(step_time_of(record).ms, 3).text);
    if (p->report->format == TABLE_MARKDOWN)
        fputc('\n', p->stream);
    if (p->planned && record->estimate)
        fprintf(p->stream, "estimate: %s of profile %s, by operation and shape, within its power limit\n",
                record->estimate, source);
    else if (roofline->given)
        fprintf(p->stream,
                "roofline: the longer of counted FLOPs at %.4g GFLOP/s and bytes at %.4g GB/s, and %.3g us a "
                "launch; rates: "
                "%s%s\n",
                roofline->flops_per_s / 1e9, roofline->bytes_per_s / 1e9, 1e6 * roofline->launch_s,
                strcmp(source, "measured") == 0 ? "" : "profile ", source);
    else
        fputs("FLOPs are counted FLOPs; no roofline: a profile names a device's rates\n", p->stream);
}

static void print_head(const struct category_report *report, const char *label, const struct record *record,
                       FILE *stream)
{
    static const char *const nothing[] = {NULL};
    json_t *setting = setting_of_record(record, nothing);
    char described[300];
    setting_describe(setting, record->trial.context, described, sizeof described);
    json_decref(setting);
    fprintf(stream,
            report->format == TABLE_MARKDOWN ? "## %s, a step's time by category: %s\n\n%s\n\n"
                                             : "%s, a step's time by category: %s\n%s\n",
            record->experiment, label, described);
}

bool category_report_table(const struct category_report *report, const struct record *record, FILE *stream)
{
    const struct record_row *rows = record->categories->rows.items;
    struct printer printer = {
        .report = report, .planned = !isfinite(record->categories->step_ms), .stream = stream};
    size_t count = record->categories->rows.count;
    struct line *lines = calloc(count + 1, sizeof *lines);
    for (size_t i = 0; i < count; i++)
        lines[i] = line_of(&rows[i]);
    if (count) {
        print_rates(&printer, record);
        print_table(&printer, lines, count);
    }
    free(lines);
    return count > 0;
}

size_t category_report_write(const struct category_report *report, const struct results *results, FILE *stream)
{
    static const char *const nothing[] = {NULL};
    const struct record **records = calloc(results->count + 1, sizeof *records);
    size_t count = 0, written = 0;
    for (size_t i = 0; i < results->count; i++)
        if (results->records[i]->categories->rows.count > 0)
            records[count++] = results->records[i];
    struct series_table all;
    series_make(&all, records, count, nothing, true);
    for (size_t s = 0; s < all.count; s++) {
        for (size_t i = 0; i < all.series[s].record_count; i++) {
            if (written++)
                fputs("\n", stream);
            print_head(report, all.series[s].label, all.series[s].records[i], stream);
            category_report_table(report, all.series[s].records[i], stream);
        }
    }
    series_free(&all);
    free(records);
    return written;
}
