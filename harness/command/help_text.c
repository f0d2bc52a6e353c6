#include "harness/command/help_text.h"
#include "kernels/base/host_memory.h"
#include "kernels/base/status.h"
#include <argp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH       79
#define TEXT_COLUMN 29 // of what an option is for

// Characters, of which in UTF-8 the first byte counts.
static size_t columns_of(const char *text, size_t bytes)
{
    size_t columns = 0;
    for (size_t i = 0; i < bytes; i++)
        columns += ((unsigned char)text[i] & 0xc0) != 0x80;
    return columns;
}

// Words in lines that begin at the margin, the first one at `column`, where the stream is; ends the last one.
static void write_words(const char *text, size_t bytes, size_t column, size_t margin, FILE *stream)
{
    bool first = true;
    for (const char *word = text, *end = text + bytes; word < end;) {
        size_t length = strcspn(word, " \n"), columns;
        length = length < (size_t)(end - word) ? length : (size_t)(end - word);
        columns = columns_of(word, length);
        if (!first && column + 1 + columns > WIDTH) {
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

// What stands before the text of an option, maybe with aliases after it: "  -o, --out=FILE".
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
    write_words(option->doc, strlen(option->doc), TEXT_COLUMN, TEXT_COLUMN, stream);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct argp_option *const *)a)->name, (*(const struct argp_option *const *)b)->name);
}

// From one header on, or from the beginning, to the next; of the group that is last or of the others.
static const struct argp_option *write_group(const struct argp_option *option, bool last, FILE *stream)
{
    size_t most = 0, count = 0;
    while (option[most].name)
        most++;
    const struct argp_option **sorted = calloc(most + 1, sizeof *sorted);
    CHECK(sorted);
    for (; option->name; option++)
        if (option->doc && !(option->flags & (OPTION_HIDDEN | OPTION_ALIAS)) && (option->group < 0) == last)
            sorted[count++] = option;
    qsort(sorted, count, sizeof *sorted, by_name);
    if (count)
        putc('\n', stream);
    for (size_t i = 0; i < count; i++)
        write_option(sorted[i], stream);
    free(sorted);
    return option;
}

static void write_options(const struct argp_option *options, bool last, FILE *stream)
{
    const struct argp_option *option = write_group(options, last, stream);
    while (option->doc) {
        if (!last)
            fprintf(stream, "\n %s", option->doc);
        option = write_group(option + 1, last, stream);
    }
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

void help_text_write(const struct argp *argp, const char *title, const char *examples, FILE *stream)
{
    size_t before = strcspn(argp->doc, "\v");
    write_usage(title, argp->args_doc ? argp->args_doc : "", stream);
    write_words(argp->doc, before, 0, 0, stream);
    write_options(argp->options, false, stream);
    write_options(argp->options, true, stream);
    if (argp->doc[before]) {
        putc('\n', stream);
        write_words(argp->doc + before + 1, strlen(argp->doc + before + 1), 0, 0, stream);
    }
    if (examples)
        write_examples(examples, stream);
}
