#include "harness/report/report.h"
#include "harness/papers/longest_contexts.h"
#include "harness/record/results.h"
#include "harness/report/category_report.h"
#include "harness/report/prediction_report.h"
#include "harness/table/record_filter.h"
#include "harness/table/text_table.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct line {
    size_t count;
    double x, y, xx, xy; // sums
};

static void line_add(struct line *line, double x, double y)
{
    if (!isfinite(y))
        return;
    line->count++;
    line->x += x;
    line->y += y;
    line->xx += x * x;
    line->xy += x * y;
}

static double line_slope(const struct line *line)
{
    double n = (double)line->count, spread = n * line->xx - line->x * line->x;
    return line->count < 2 || spread <= 0 ? NAN : (n * line->xy - line->x * line->y) / spread;
}

// Growth of a curve per token: least-squares slopes over all contexts with a value; NaN with fewer than two.
struct growth {
    double floor, ours, published; // floor: of the lower bounds, at our contexts
    double min, max;               // range of our contexts
};
static struct growth growth_of(const struct curve *curve)
{
    struct line floor = {0}, ours = {0}, published = {0};
    struct growth growth = {.min = NAN, .max = NAN};
    for (size_t i = 0; i < curve->count; i++) {
        const struct pair *pair = &curve->pairs[i];
        line_add(&floor, pair->at, pair->floor);
        line_add(&ours, pair->at, pair->ours);
        line_add(&published, pair->at, pair->published ? pair->published->value : NAN);
        if (isfinite(pair->ours)) {
            growth.min = fmin(growth.min, pair->at);
            growth.max = fmax(growth.max, pair->at);
        }
    }
    growth.floor = line_slope(&floor);
    growth.ours = line_slope(&ours);
    growth.published = line_slope(&published);
    return growth;
}

// Ratios of a curve, ours over published, over points with both.
struct ratios {
    size_t count, above, oom; // above: ratios above 1; oom: published, but out of memory here
    double mean;              // geometric
    double worst, worst_at;
};
static struct ratios ratios_of(const struct curve *curve)
{
    struct ratios ratios = {.mean = NAN, .worst = NAN, .worst_at = NAN};
    double logs = 0;
    for (size_t i = 0; i < curve->count; i++) {
        const struct pair *pair = &curve->pairs[i];
        if (!pair->published)
            continue;
        ratios.oom += pair->oom;
        if (!isfinite(pair->ours))
            continue;
        double ratio = pair->ours / pair->published->value;
        logs += log(ratio);
        ratios.count++;
        ratios.above += ratio > 1;
        if (!(ratio <= ratios.worst)) {
            ratios.worst = ratio;
            ratios.worst_at = pair->at;
        }
    }
    if (ratios.count)
        ratios.mean = exp(logs / (double)ratios.count);
    return ratios;
}

struct word {
    char text[200];
};

static struct word label_word(const struct curve *curve, bool models)
{
    struct word word;
    snprintf(word.text, sizeof word.text, "%.60s%s%.120s", models ? curve->model : "", models ? ", " : "",
             curve->label);
    return word;
}

#define ROW(table, ...) text_table_row(table, (const char *const[]){__VA_ARGS__, NULL})

struct printer {
    const struct report_request *request;
    const struct pairing *pairing;
    bool models;   // several: labels begin with the model
    bool markdown; // tables are markdown
    FILE *stream;
};

static void print_table(const struct printer *printer, const char *title, struct text_table *table)
{
    if (table->rows > 1) {
        fprintf(printer->stream, printer->markdown ? "\n**%s**\n\n" : "\n%s\n", title);
        text_table_print(table, printer->request->table.format, printer->stream);
    }
    text_table_free(table);
}

static bool is_memory(const struct printer *printer)
{
    return printer->pairing->file->quantity == PUBLISHED_MEMORY;
}

static const char *axis_of(const struct printer *printer)
{
    return published_axis_name(printer->pairing->file->axis);
}

static bool any_drawn(const struct printer *printer)
{
    bool drawn = false;
    for (size_t c = 0; c < printer->pairing->curve_count; c++)
        for (size_t i = 0; i < printer->pairing->curves[c].count; i++)
            drawn |= isfinite(printer->pairing->curves[c].pairs[i].drawn_chunks);
    return drawn;
}

static void print_points(const struct printer *printer)
{
    struct text_table table = {0};
    bool drawn = any_drawn(printer);
    bool memory = is_memory(printer);
    double unit = memory ? 0x1p20 : 1e3;
    int decimals = memory ? 1 : 3;
    // The last word ends the row if nothing is drawn.
    ROW(&table, "series", axis_of(printer), memory ? "published MiB" : "published s",
        memory ? "ours MiB" : "ours s", "ratio", drawn ? "chunks drawn" : NULL);
    for (size_t c = 0; c < printer->pairing->curve_count; c++) {
        const struct curve *curve = &printer->pairing->curves[c];
        for (size_t i = 0; i < curve->count; i++) {
            const struct pair *pair = &curve->pairs[i];
            if (!pair->published)
                continue;
            double published = pair->published->value;
            ROW(&table, label_word(curve, printer->models).text, text_table_number(pair->at, 0).text,
                text_table_number(published / unit, decimals).text,
                pair->oom ? "oom" : text_table_number(pair->ours / unit, decimals).text,
                text_table_number(pair->ours / published, 3).text,
                drawn ? text_table_number(pair->drawn_chunks, 2).text : NULL);
        }
    }
    print_table(printer, "Points", &table);
}

static void print_ratios(const struct printer *printer)
{
    struct text_table table = {0};
    char at[32];
    snprintf(at, sizeof at, "at %s", axis_of(printer));
    ROW(&table, "series", "points", "ratio (geometric mean)", "worst", at, "above published", "oom");
    for (size_t c = 0; c < printer->pairing->curve_count; c++) {
        const struct curve *curve = &printer->pairing->curves[c];
        struct ratios ratios = ratios_of(curve);
        if (ratios.count + ratios.oom)
            ROW(&table, label_word(curve, printer->models).text, text_table_number((double)ratios.count, 0).text,
                text_table_number(ratios.mean, 3).text, text_table_number(ratios.worst, 3).text,
                text_table_number(ratios.worst_at, 0).text, text_table_number((double)ratios.above, 0).text,
                text_table_number((double)ratios.oom, 0).text);
    }
    print_table(printer, "Ours over published", &table);
}

static void print_growth(const struct printer *printer)
{
    struct text_table table = {0};
    bool batch = printer->pairing->file->axis == PUBLISHED_BATCH;
    ROW(&table, "series", batch ? "our batches" : "our contexts", "lower bound", "ours", "ours / bound",
        "published", "ours / published");
    for (size_t c = 0; c < printer->pairing->curve_count; c++) {
        const struct curve *curve = &printer->pairing->curves[c];
        struct growth growth = growth_of(curve);
        char range[64];
        snprintf(range, sizeof range, "%.0f to %.0f", growth.min, growth.max);
        if (isfinite(growth.ours))
            ROW(&table, label_word(curve, printer->models).text, range, text_table_number(growth.floor, 0).text,
                text_table_number(growth.ours, 0).text, text_table_number(growth.ours / growth.floor, 4).text,
                text_table_number(growth.published, 0).text,
                text_table_number(growth.ours / growth.published, 3).text);
    }
    print_table(printer,
                batch ? "Growth of peak memory, bytes per sequence (least squares over all batches that fit)"
                      : "Growth of peak memory, bytes per token (least squares over all contexts that fit)",
                &table);
}

// Explains "ours" and "published".
static void print_head(const struct printer *printer)
{
    const struct pairing *pairing = printer->pairing;
    size_t estimated = 0, measured = 0;
    const char *profile = "?", *source = "roofline";
    for (size_t c = 0; c < pairing->curve_count; c++) {
        for (size_t i = 0; i < pairing->curves[c].count; i++) {
            const struct pair *pair = &pairing->curves[c].pairs[i];
            const char *name = pair->record->profile;
            estimated += pair->estimated;
            measured += !pair->estimated;
            profile = name ? name : profile;
            source = pair->record->estimate ? pair->record->estimate : source;
        }
    }
    const char *quantity = published_quantity_name(pairing->file->quantity);
    fprintf(printer->stream, printer->markdown ? "## %s, %s\n\n" : "%s, %s\n", pairing->file->experiment, quantity);
    fprintf(printer->stream, "published: %s%s\n", pairing->file->source,
            is_memory(printer) ? " (peak of PyTorch's allocator)" : " (measured)");
    if (printer->markdown)
        fputc('\n', printer->stream);
    if (is_memory(printer))
        fprintf(printer->stream, "ours: peak of the arena, every byte of the step, %s\n",
                measured ? "measured" : "planned");
    else if (estimated && measured)
        fprintf(printer->stream, "ours: measured; where not, an estimate (%s, profile %s)\n", source, profile);
    else if (estimated)
        fprintf(printer->stream, "ours: an estimate (%s, profile %s), not a measurement\n", source, profile);
    else
        fprintf(printer->stream, "ours: measured\n");
    if (pairing->file->per_sample)
        fprintf(printer->stream, "%sper sample: of ours the step's over its batch\n",
                printer->markdown ? "\n" : "");
    if (any_drawn(printer))
        fprintf(printer->stream, "%swhere chunks are drawn ours is the mean over draws\n",
                printer->markdown ? "\n" : "");
    if (pairing->missing)
        fprintf(printer->stream, "%sno record of ours for %zu of %zu published points\n",
                printer->markdown ? "\n" : "", pairing->missing, pairing->file->count);
}

static void print_pairing(const struct report_request *request, const struct pairing *pairing, FILE *stream)
{
    struct printer printer = {.request = request,
                              .pairing = pairing,
                              .markdown = request->table.format == TABLE_MARKDOWN,
                              .stream = stream};
    for (size_t c = 1; c < pairing->curve_count; c++)
        printer.models |= strcmp(pairing->curves[c].model, pairing->curves[0].model) != 0;
    print_head(&printer);
    if (!request->summary)
        print_points(&printer);
    print_ratios(&printer);
    if (is_memory(&printer))
        print_growth(&printer);
}

static bool nothing_published(const struct results *results, const struct published *published,
                              struct status *status)
{
    char known[600] = "";
    for (size_t i = 0; i < published->count; i++) {
        const char *name = published->files[i].experiment;
        size_t used = strlen(known);
        if (published_is_of_a_step(published->files[i].quantity) && used < sizeof known && !strstr(known, name))
            snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", name);
    }
    return status_set(
        status, STATUS_BAD_INPUT,
        "none of these %zu records has published points, a step's time by category (\"categories\": true) or a "
        "predicted time (a profile of `longbp calibrate`); experiments with published points: %s",
        results->count, known);
}

static size_t records_of(const struct results *results, const char *experiment, const struct record **records)
{
    size_t count = 0;
    for (size_t i = 0; i < results->count; i++)
        if (strcmp(results->records[i]->experiment, experiment) == 0)
            records[count++] = results->records[i];
    return count;
}

// --- longest contexts

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

static void add_longest_row(struct text_table *table, const struct longest_row *row)
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
            add_longest_row(&table, &contexts->rows[i]);
    const char *words = group ? contexts->groups[group - 1].words : "published without a plan here";
    if (rows) {
        fprintf(stream, format == TABLE_MARKDOWN ? "\n**%s**\n\n" : "\n%s\n", words);
        text_table_print(&table, format, stream);
    }
    text_table_free(&table);
}

// Title for the groups' contents.
static const char *title_of(size_t contexts, size_t batches)
{
#define CONTEXTS "longest contexts, with one sequence on a card unless stated"
    return !batches ? CONTEXTS : contexts ? CONTEXTS "; largest batches" : "largest batches";
}

static void write_longest(const struct longest_contexts *contexts, enum table_format format, FILE *stream)
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

size_t report_longest_write(const struct report_request *request, const struct results *results,
                            const struct published *published, bool apart, FILE *stream)
{
    struct longest_contexts contexts;
    longest_contexts_open(&contexts, results, published);
    size_t groups = contexts.group_count;
    if (groups && apart)
        fputs("\n", stream);
    if (groups)
        write_longest(&contexts, request->table.format, stream);
    longest_contexts_close(&contexts);
    return groups;
}

// Returns whether the table of longest contexts shows all records.
static bool all_longest(const struct results *results)
{
    bool all = results->count;
    for (size_t i = 0; i < results->count; i++)
        all &= isfinite(results->records[i]->search->granularity);
    return all;
}

static bool any_categories(const struct results *results)
{
    bool any = false;
    for (size_t i = 0; i < results->count; i++)
        any |= results->records[i]->categories->rows.count > 0;
    return any;
}

size_t report_published_write(const struct report_request *request, const struct results *results,
                              const struct published *published, bool apart, FILE *stream)
{
    const struct record **records = calloc(results->count + 1, sizeof *records);
    size_t written = 0;
    for (size_t i = 0; i < published->count; i++) {
        const struct published_file *file = &published->files[i];
        size_t count = records_of(results, file->experiment, records);
        if (!published_is_of_a_step(file->quantity) || count == 0)
            continue;
        struct pairing pairing;
        pairing_make(&pairing, file, records, count);
        if (apart || written)
            fputs("\n", stream);
        written++;
        print_pairing(request, &pairing, stream);
        pairing_free(&pairing);
    }
    free(records);
    return written;
}

// Writes everything but the table and counts the parts.
static void write_parts(const struct report_request *request, const struct results *results,
                        const struct published *published, size_t *written, FILE *stream)
{
    *written += report_published_write(request, results, published, *written > 0, stream);
    bool apart = any_categories(results) && *written;
    const struct category_report categories = {.format = request->table.format, .operations = !request->summary};
    if (apart)
        fputs("\n", stream);
    *written += category_report_write(&categories, results, stream);
    bool predicted = prediction_any(results);
    if (predicted && (*written)++)
        fputs("\n", stream);
    if (predicted)
        prediction_report_write(results, !request->summary, request->table.format, stream);
    *written += report_longest_write(request, results, published, *written > 0, stream);
}

bool report_is_table_alone(const struct report_request *request)
{
    const struct record_table_request *table = &request->table;
    return table->columns || table->sort || table->format > TABLE_MARKDOWN;
}

bool report_write(const struct report_request *request, FILE *stream, struct status *status)
{
    struct results results = {0};
    struct published published = {0};
    size_t written = 0;
    bool alone = report_is_table_alone(request);
    bool fine = results_open(&results, request->paths, request->path_count, request->every, status) &&
                record_filter_some(&results, request->conditions, request->condition_count, status) &&
                (alone || published_load(&published, request->published, status));
    if (fine && (alone || (!request->summary && !all_longest(&results)))) {
        fine = record_table_report(&request->table, &results, stream, status);
        written++;
    }
    if (fine && !alone)
        write_parts(request, &results, &published, &written, stream);
    if (fine && !written)
        fine = nothing_published(&results, &published, status);
    results_close(&results);
    published_free(&published);
    return fine;
}
