#include "harness/options/help_text.h"
#include <argp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define MIN_WIDTH   60
#define USUAL_WIDTH 80
#define MAX_WIDTH   120
#define TEXT_COLUMN 29 // of option descriptions

size_t help_text_width(void)
{
    struct winsize terminal;
    const char *columns = getenv("COLUMNS");
    size_t width = columns ? strtoul(columns, NULL, 10) : 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &terminal) == 0 && terminal.ws_col > 0)
        width = terminal.ws_col;
    width = width > 0 ? width : USUAL_WIDTH;
    return width < MIN_WIDTH ? MIN_WIDTH : width > MAX_WIDTH ? MAX_WIDTH : width;
}

// Counts characters by the first bytes of UTF-8.
static size_t chunks_of(const char *text, size_t bytes)
{
    size_t columns = 0;
    for (size_t i = 0; i < bytes; i++)
        columns += ((unsigned char)text[i] & 0xc0) != 0x80;
    return columns;
}

void help_text_words(const char *text, size_t bytes, size_t column, size_t margin, FILE *stream)
{
    bool first = true;
    size_t width = help_text_width() - 1; // the last column stays blank
    for (const char *word = text, *end = text + bytes; word < end;) {
        size_t length = strcspn(word, " \n"), columns;
        length = length < (size_t)(end - word) ? length : (size_t)(end - word);
        columns = chunks_of(word, length);
        if (!first && column + 1 + columns > width) {
            fprintf(stream, "\n%*s", (int)margin, "");
            column = margin;
            first = true;
        }
        column += (size_t)fprintf(stream, "%s%.*s", first ? "" : " ", (int)length, word) - length + columns;
        first = false;
        word += length;
        if (word < end && *word == '\n') {
            fprintf(stream, "\n%*s", word[1] == '\n' ? 0 : (int)margin, "");
            column = margin;
            first = true;
        }
        word += word < end;
    }
    putc('\n', stream);
}

// Writes an option's names, including aliases: "  -o, --out=FILE".
static size_t write_names(const struct argp_option *option, FILE *stream)
{
    size_t columns = 0;
    const struct argp_option *row = option;
    bool letter = option->key > ' ' && option->key < 0x7f;
    columns += (size_t)(letter ? fprintf(stream, "  -%c, ", option->key) : fprintf(stream, "      "));
    do {
        if (!(row->flags & OPTION_HIDDEN))
            columns += (size_t)fprintf(stream, "%s--%s%s%s", row == option ? "" : ", ", row->name,
                                       option->arg ? "=" : "", option->arg ? option->arg : "");
        row++;
    } while (row->name && row->flags & OPTION_ALIAS);
    return columns;
}

static void write_option(const struct argp_option *option, FILE *stream)
{
    size_t column = write_names(option, stream);
    if (column + 2 > TEXT_COLUMN) {
        putc('\n', stream);
        column = 0;
    }
    fprintf(stream, "%*s", (int)(TEXT_COLUMN - column), "");
    help_text_words(option->doc, strlen(option->doc), TEXT_COLUMN, TEXT_COLUMN, stream);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct argp_option *const *)a)->name, (*(const struct argp_option *const *)b)->name);
}

// Parts of the help: main options, those of every command, others.
enum part { PART_FIRST, PART_LAST, PART_OTHER };

static bool is_of(const struct argp_option *option, enum part part)
{
    enum part own = option->group < 0 ? PART_LAST : option->flags & OPTION_FIRST ? PART_FIRST : PART_OTHER;
    return option->name && !(option->flags & (OPTION_ALIAS | OPTION_HIDDEN)) && own == part;
}

// Writes a part's options between two rows, sorted by name, under a header (NULL: none), and counts them.
static size_t write_part(const struct argp_option *from, const struct argp_option *to, enum part part,
                         const char *header, FILE *stream)
{
    size_t count = 0;
    const struct argp_option **sorted = calloc((size_t)(to - from) + 1, sizeof *sorted);
    for (const struct argp_option *option = from; option < to; option++)
        if (is_of(option, part))
            sorted[count++] = option;
    if (count)
        fprintf(stream, header ? "\n %s\n" : "\n", header);
    qsort(sorted, count, sizeof *sorted, by_name);
    for (size_t i = 0; i < count; i++)
        write_option(sorted[i], stream);
    free(sorted);
    return count;
}

static void write_options(const struct argp_option *options, bool all, const char *title, FILE *stream)
{
    const struct argp_option *end = options, *next;
    while (end->name || end->doc)
        end++;
    size_t first = write_part(options, end, PART_FIRST, NULL, stream);
    const char *header = first ? "Other options:" : NULL;
    for (const struct argp_option *option = options; option < end && (all || !first);
         option = next + (next < end)) {
        for (next = option; next->name;)
            next++;
        write_part(option, next, PART_OTHER, header, stream);
        header = next->doc;
    }
    write_part(options, end, PART_LAST, NULL, stream);
    if (first && !all)
        fprintf(stream, "\n`%s --help-all` shows the other options.\n", title);
}

static void write_usage(const char *title, const char *operands, FILE *stream)
{
    const char *before = "Usage:";
    do {
        size_t bytes = strcspn(operands, "\n");
        fprintf(stream, "%s %s [OPTION...]%s%.*s\n", before, title, bytes ? " " : "", (int)bytes, operands);
        before = "  or: ";
        operands += bytes;
    } while (*operands++);
}

static void write_examples(const char *examples, FILE *stream)
{
    fputs("\nExamples:\n", stream);
    while (*examples) {
        size_t bytes = strcspn(examples, "\n");
        fprintf(stream, "  %.*s\n", (int)bytes, examples);
        examples += bytes + (examples[bytes] == '\n');
    }
}

void help_text_write(const struct argp *argp, const char *title, const char *examples, bool all, FILE *stream)
{
    size_t before = strcspn(argp->doc, "\v");
    write_usage(title, argp->args_doc ? argp->args_doc : "", stream);
    help_text_words(argp->doc, before, 0, 0, stream);
    write_options(argp->options, all, title, stream);
    if (argp->doc[before]) {
        putc('\n', stream);
        help_text_words(argp->doc + before + 1, strlen(argp->doc + before + 1), 0, 0, stream);
    }
    if (examples)
        write_examples(examples, stream);
}
