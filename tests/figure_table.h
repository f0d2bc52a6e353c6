// Figure table: what a picture is drawn from, as text, and records of training runs to draw.
#pragma once
#include "harness/plot/figure.h"
#include "tests/figure_text.h"
#include "tests/parsed_record.h"
#include "tests/sketched_record.h"

static inline const struct figure *figure_named(const char *name)
{
    for (size_t i = 0; figures[i]; i++)
        if (strcmp(figures[i]->name, name) == 0)
            return figures[i];
    fail_msg("no figure %s", name);
    return NULL;
}

// The table of a figure of these records (lines that end in NULL, freed here); NULL if there is none.
static inline char *table_of(const char *figure, char *const *lines)
{
    const struct record *records[64];
    size_t count = 0;
    for (; lines[count]; count++) {
        records[count] = &parsed_record(lines[count])->record;
        free(lines[count]);
    }
    struct figure_table table = {0};
    bool enough = figure_named(figure)->tabulate(records, count, &table);
    char *text = figure_text(&table);
    for (size_t i = 0; i < count; i++)
        parsed_record_free(records[i]);
    if (!enough) {
        free(text);
        return NULL;
    }
    return text;
}

static inline void expect_table(const char *figure, char *const *lines, const char *expected)
{
    char *table = table_of(figure, lines);
    assert_non_null(table);
    assert_string_equal(table, expected);
    free(table);
}

// A training run's curve; the trial's keys that it adds stand beside those of the sketch.
static inline char *run_of(int id, const char *method, const char *keys, const char *curve)
{
    char *line = record(id, "e", "ok", "f32", 64, method, curve), *at = strstr(line, "\"lora\": null"), *text;
    char *added = quoted(keys);
    assert_non_null(at);
    assert_true(asprintf(&text, "%.*s%s, %s", (int)(at - line), line, added, at) > 0);
    free(added);
    free(line);
    return text;
}

// The same record of another seed; takes the line over.
static inline char *seeded(char seed, char *line)
{
    static const char before[] = "\"seed\": ";
    char *at = strstr(line, before);
    assert_non_null(at);
    at[strlen(before)] = seed;
    return line;
}
