#include "harness/record/published.h"
#include "harness/files/share.h"
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_LIMIT 16
#define POINTS_LIMIT  100000

const char *published_quantity_name(enum published_quantity quantity)
{
    static const char *const names[] = {"memory", "time", "max-context", "loss", "resident"};
    return names[quantity];
}

const char *published_axis_name(enum published_axis axis)
{
    static const char *const names[] = {"context", "batch"};
    return names[axis];
}

bool published_is_of_a_step(enum published_quantity quantity)
{
    return quantity == PUBLISHED_MEMORY || quantity == PUBLISHED_TIME;
}

// A column: a text, a count, a rate, or the value in some unit.
struct column {
    const char *name;
    size_t offset, bytes; // bytes: of a text; 0: a number
    double unit;          // of a value; 0: a count or a rate
    enum published_quantity quantity;
    bool fraction;   // fractions are allowed
    bool per_sample; // of a value: per sequence
};

#define TEXT(member)                                                                                               \
    {                                                                                                              \
#member, offsetof(struct published_point, member), sizeof((struct published_point *)0)->member, 0, 0,      \
            false, false                                                                                           \
    }
#define COUNT(member)                                                                                              \
    {                                                                                                              \
#member, offsetof(struct published_point, member), 0, 0, 0, false, false                                   \
    }
#define VALUE(name, unit, quantity, per_sample)                                                                    \
    {                                                                                                              \
        name, offsetof(struct published_point, value), 0, unit, quantity, true, per_sample                         \
    }

static const struct column columns[] = {
    TEXT(series),
    TEXT(method),
    TEXT(model),
    TEXT(training),
    TEXT(profile),
    TEXT(weights),
    TEXT(optimizer),
    TEXT(host),
    TEXT(mark),
    TEXT(setting),
    COUNT(cards),
    COUNT(chunk),
    COUNT(context),
    COUNT(batch),
    {"rate", offsetof(struct published_point, rate), 0, 0, 0, true, false},
    VALUE("peak_mib", 0x1p20, PUBLISHED_MEMORY, false),
    VALUE("peak_gib", 0x1p30, PUBLISHED_MEMORY, false),
    VALUE("seconds", 1e3, PUBLISHED_TIME, false),
    VALUE("seconds_per_sample", 1e3, PUBLISHED_TIME, true),
    VALUE("kilotokens", 1e3, PUBLISHED_MAX_CONTEXT, false),
    VALUE("nats", 1, PUBLISHED_LOSS, false),
    VALUE("gigabytes", 1e9, PUBLISHED_RESIDENT, false),
};

// State of the reader: file, line and columns.
struct reader {
    struct published_file *file;
    size_t line, column_count;
    const struct column *columns[COLUMNS_LIMIT]; // NULL: an option
    const struct option *options[COLUMNS_LIMIT];
    struct status *status;
};

static bool refuse(const struct reader *reader, const char *what, const char *found)
{
    return status_set(reader->status, STATUS_BAD_INPUT, "%s:%zu: %s, found \"%.60s\"", reader->file->path,
                      reader->line, what, found);
}

static bool is_value(const struct column *column)
{
    return column && column->unit > 0;
}

static bool read_header(struct reader *reader, char *line)
{
    size_t values = 0, contexts = 0, batches = 0, methods = 0;
    for (char *word; (word = strsep(&line, ","));) {
        const struct column *column = NULL;
        for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
            if (strcmp(columns[i].name, word) == 0)
                column = &columns[i];
        const struct option *option = column ? NULL : methods_option_find(word);
        if (!column && !(option && (option->type == OPTION_COUNT || option->type == OPTION_CHOICE)))
            return refuse(reader,
                          "expected columns of series, method, model, training, profile, weights, optimizer, host, "
                          "mark, setting, cards, chunk or another number or choice among methods' options, "
                          "context, batch, rate, and one of "
                          "peak_mib, peak_gib, seconds, seconds_per_sample, kilotokens, nats, gigabytes",
                          word);
        for (size_t i = 0; i < reader->column_count; i++)
            if (reader->columns[i] == column && reader->options[i] == option)
                return refuse(reader, "a column is given twice", word);
        if (is_value(column) && column->quantity != reader->file->quantity)
            return refuse(reader, "the file's name gives another quantity", word);
        values += is_value(column);
        reader->file->per_sample |= is_value(column) && column->per_sample;
        contexts += strcmp(word, "context") == 0;
        batches += strcmp(word, "batch") == 0;
        methods += strcmp(word, "method") == 0;
        if (reader->column_count == COLUMNS_LIMIT)
            return refuse(reader, "more columns than are read", word);
        reader->options[reader->column_count] = option;
        reader->columns[reader->column_count++] = column;
    }
    reader->file->axis = batches ? PUBLISHED_BATCH : PUBLISHED_CONTEXT;
    if (values != 1 || !methods || (contexts + batches > 0) != published_is_of_a_step(reader->file->quantity))
        return refuse(reader,
                      "expected the columns method, context or batch (of memory and time) and one with values",
                      "fewer");
    return true;
}

static bool read_number(const struct reader *reader, const struct column *column, const char *word, double *number)
{
    char *end;
    errno = 0;
    *number = strtod(word, &end);
    bool whole = (column && column->fraction) || *number == floor(*number);
    if (end == word || *end || errno || !isfinite(*number) || *number <= 0 || *number > 1e12 || !whole)
        return refuse(reader,
                      column && column->fraction ? "expected a number above 0" : "expected a whole number above 0",
                      word);
    return true;
}

// Accepts choices of any method, because the method column may come later.
static bool is_choice(const char *option, const char *word)
{
    bool found = false;
    for (size_t m = 0; methods[m]; m++) {
        const struct option *of = option_find(&methods[m]->options, option);
        for (size_t i = 0; of && of->choices[i]; i++)
            found |= strcmp(of->choices[i], word) == 0;
    }
    return found;
}

static bool read_option(const struct reader *reader, const struct option *option, const char *word,
                        struct published_point *point)
{
    double number;
    if (!*word)
        return true;
    if (point->option_count == PUBLISHED_OPTIONS)
        return refuse(reader, "more options than a point may have", word);
    if (option->type == OPTION_COUNT && !read_number(reader, NULL, word, &number))
        return false;
    if (option->type == OPTION_CHOICE && !is_choice(option->name, word))
        return refuse(reader, "expected a choice of the option that the column names", word);
    char *value = point->options[point->option_count].value;
    if (option->type == OPTION_COUNT)
        snprintf(value, sizeof point->options->value, "%.0f", number);
    else
        snprintf(value, sizeof point->options->value, "%s", word);
    point->options[point->option_count++].option = option;
    return true;
}

static bool read_field(const struct reader *reader, const struct column *column, const char *word,
                       struct published_point *point)
{
    void *member = (char *)point + column->offset;
    double number;
    if (column->bytes) {
        size_t bytes = strlen(word) + 1;
        if (bytes > column->bytes)
            return refuse(reader, "the text is too long", word);
        memcpy(member, word, bytes);
        return true;
    }
    // Counts may be empty; the value and its axis may not.
    if (!*word && !is_value(column) && strcmp(column->name, published_axis_name(reader->file->axis)) != 0)
        return true;
    if (!read_number(reader, column, word, &number))
        return false;
    if (column->fraction)
        *(double *)member = number * (is_value(column) ? column->unit : 1);
    else
        *(size_t *)member = (size_t)number;
    return true;
}

static bool read_point(struct reader *reader, char *line)
{
    struct published_file *file = reader->file;
    struct published_point point = {0};
    size_t at = 0;
    char shown[64];
    snprintf(shown, sizeof shown, "%s", line);
    for (char *word; (word = strsep(&line, ",")); at++) {
        if (at == reader->column_count)
            return refuse(reader, "more fields than columns", shown);
        const struct column *column = reader->columns[at];
        if (!(column ? read_field(reader, column, word, &point)
                     : read_option(reader, reader->options[at], word, &point)))
            return false;
    }
    if (at < reader->column_count)
        return refuse(reader, "fewer fields than columns", shown);
    if (*point.host && strcmp(point.host, "yes") != 0)
        return refuse(reader, "host is yes or empty", point.host);
    if (file->count == POINTS_LIMIT)
        return refuse(reader, "too many points", shown);
    file->points = realloc(file->points, (file->count + 1) * sizeof *file->points);
    file->points[file->count++] = point;
    return true;
}

static bool read_line(struct reader *reader, char *line)
{
    line[strcspn(line, "\r\n")] = 0;
    if (reader->line == 1) {
        if (line[0] != '#' || line[1] != ' ' || !line[2])
            return refuse(reader, "expected the source, as in \"# StreamBP, arXiv 2506.03077, Figure 3\"", line);
        snprintf(reader->file->source, sizeof reader->file->source, "%s", line + 2);
        return true;
    }
    if (!*line || *line == '#')
        return true;
    return reader->column_count ? read_point(reader, line) : read_header(reader, line);
}

// EXPERIMENT-QUANTITY.csv
static bool read_name(struct published_file *file, const char *name, struct status *status)
{
    for (int q = 0; q < PUBLISHED_QUANTITIES; q++) {
        char end[32];
        snprintf(end, sizeof end, "-%s.csv", published_quantity_name((enum published_quantity)q));
        size_t length = strlen(name), tail = strlen(end);
        if (length > tail && length - tail < sizeof file->experiment && strcmp(name + length - tail, end) == 0) {
            memcpy(file->experiment, name, length - tail); // zeroed before
            file->quantity = (enum published_quantity)q;
            return true;
        }
    }
    return status_set(status, STATUS_BAD_INPUT,
                      "%s: the name is not EXPERIMENT-memory.csv, EXPERIMENT-time.csv, EXPERIMENT-max-context.csv, "
                      "EXPERIMENT-loss.csv or EXPERIMENT-resident.csv",
                      file->path);
}

static bool read_file(struct published_file *file, const char *name, struct status *status)
{
    struct reader reader = {.file = file, .status = status};
    if (!read_name(file, name, status))
        return false;
    FILE *stream = fopen(file->path, "r");
    if (!stream)
        return status_set(status, STATUS_IO, "%s: %s", file->path, strerror(errno));
    char *line = NULL;
    size_t room = 0;
    bool fine = true;
    while (fine && getline(&line, &room, stream) >= 0) {
        reader.line++;
        fine = read_line(&reader, line);
    }
    if (fine && ferror(stream))
        fine = status_set(status, STATUS_IO, "%s: %s", file->path, strerror(errno));
    if (fine && file->count == 0)
        fine = status_set(status, STATUS_BAD_INPUT, "%s: no points", file->path);
    free(line);
    fclose(stream);
    return fine;
}

static int is_csv(const struct dirent *entry)
{
    const char *end = strrchr(entry->d_name, '.');
    return end && strcmp(end, ".csv") == 0 && entry->d_name[0] != '.';
}

bool published_load(struct published *published, const char *folder, struct status *status)
{
    *published = (struct published){0};
    char found[PATH_MAX], path[2 * PATH_MAX];
    folder = folder ? folder : share_resolve("experiments/published", found);
    struct dirent **entries;
    int count = scandir(folder, &entries, is_csv, alphasort);
    if (count < 0)
        return status_set(status, STATUS_IO, "%.300s: %s", folder, strerror(errno));
    published->files = calloc((size_t)count + 1, sizeof *published->files);
    bool fine =
        count > 0 || status_set(status, STATUS_BAD_INPUT, "%.300s: holds no .csv of published points", folder);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (fine) {
            struct published_file *file = &published->files[published->count++];
            file->path = strdup(path);
            fine = read_file(file, entries[i]->d_name, status);
        }
        free(entries[i]);
    }
    free(entries);
    return fine;
}

void published_free(struct published *published)
{
    for (size_t i = 0; i < published->count; i++) {
        free(published->files[i].path);
        free(published->files[i].points);
    }
    free(published->files);
    *published = (struct published){0};
}

const struct published_file *published_find(const struct published *published, const char *experiment,
                                            enum published_quantity quantity)
{
    for (size_t i = 0; i < published->count; i++)
        if (published->files[i].quantity == quantity && strcmp(published->files[i].experiment, experiment) == 0)
            return &published->files[i];
    return NULL;
}
