// Golden texts: a suite's file in tests/golden holds inputs, in lines that begin with "> ", each followed by what
// the program answers and an empty line. Suites compare what it answers now. `make golden` writes the answers anew;
// their difference is for review.
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// input: its lines joined by line breaks. answer: as many lines, with line breaks.
struct golden_entry {
    char *input, *answer;
};
struct golden {
    char path[256];
    char *head; // what stands above the first input
    struct golden_entry *entries;
    size_t count;
};

static inline char *golden_append(char *text, const char *line)
{
    size_t bytes = text ? strlen(text) : 0;
    text = realloc(text, bytes + strlen(line) + 1);
    assert_non_null(text);
    strcpy(text + bytes, line);
    return text;
}

static inline struct golden_entry *golden_add(struct golden *golden)
{
    golden->entries = realloc(golden->entries, (golden->count + 1) * sizeof *golden->entries);
    assert_non_null(golden->entries);
    struct golden_entry *entry = &golden->entries[golden->count++];
    *entry = (struct golden_entry){0};
    return entry;
}

static inline struct golden golden_read(void)
{
    struct golden golden = {.head = golden_append(NULL, "")};
    const char *suite = strrchr(__BASE_FILE__, '/') + 1;
    snprintf(golden.path, sizeof golden.path, "tests/golden/%.*s", (int)strcspn(suite, "."), suite);
    FILE *file = fopen(golden.path, "r");
    if (!file)
        fail_msg("%s cannot be opened", golden.path);
    char *line = NULL;
    size_t bytes = 0;
    bool within = false; // an input
    while (getline(&line, &bytes, file) > 0) {
        bool input = strncmp(line, "> ", 2) == 0;
        struct golden_entry *entry = input && !within ? golden_add(&golden)
                                     : golden.count   ? &golden.entries[golden.count - 1]
                                                      : NULL;
        char **part = !entry ? &golden.head : input ? &entry->input : &entry->answer;
        if (input && *part)
            *part = golden_append(*part, "\n");
        *part = golden_append(*part, input ? strtok(line + 2, "\n") : line);
        within = input;
    }
    free(line);
    fclose(file);
    return golden;
}

// With `make golden`, writes the file anew.
static inline void golden_close(struct golden *golden)
{
    FILE *file = getenv("GOLDEN") ? fopen(golden->path, "w") : NULL;
    if (file)
        fputs(golden->head, file);
    for (size_t i = 0; i < golden->count; i++) {
        struct golden_entry *entry = &golden->entries[i];
        if (file)
            fputs("> ", file);
        for (const char *c = entry->input; file && *c; c++)
            fprintf(file, *c == '\n' ? "\n> " : "%c", *c);
        if (file)
            fprintf(file, "\n%s", entry->answer);
        free(entry->input);
        free(entry->answer);
    }
    if (file)
        fclose(file);
    free(golden->entries);
    free(golden->head);
}

// Compares; with `make golden`, takes what was found. found: without a line break at its end.
static inline void golden_answered(struct golden *golden, struct golden_entry *entry, const char *found)
{
    char *answer = golden_append(golden_append(NULL, found), "\n\n");
    if (getenv("GOLDEN")) {
        free(entry->answer);
        entry->answer = answer;
        return;
    }
    if (!entry->answer || strcmp(entry->answer, answer) != 0)
        fail_msg("%s: %.300s\nexpected\n%sfound\n%s(`make golden` writes the answers anew)", golden->path,
                 entry->input, entry->answer ? entry->answer : "no such input\n", answer);
    free(answer);
}

// Answers every input of the file. answer: writes to out, without a line break at its end.
static inline void golden_hold(void (*answer)(FILE *out, const char *input))
{
    struct golden golden = golden_read();
    assert_true(golden.count > 0);
    for (size_t i = 0; i < golden.count; i++) {
        char *found = NULL;
        size_t bytes;
        FILE *out = open_memstream(&found, &bytes);
        answer(out, golden.entries[i].input);
        fclose(out);
        golden_answered(&golden, &golden.entries[i], found);
        free(found);
    }
    golden_close(&golden);
}

// One of its inputs, which was answered so.
static inline void golden_has(const char *input, const char *found)
{
    struct golden golden = golden_read();
    size_t i = 0;
    while (i < golden.count && strcmp(golden.entries[i].input, input) != 0)
        i++;
    if (i == golden.count)
        golden_add(&golden)->input = golden_append(NULL, input);
    golden_answered(&golden, &golden.entries[i], found);
    golden_close(&golden);
}
