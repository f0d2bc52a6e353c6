#include "harness/plot/series_choice.h"
#include "harness/text/names.h"
#include "harness/text/text.h"
#include "harness/text/word_list.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void series_choice_open(struct series_choice *choice, const char *list, const char *panel)
{
    *choice = (struct series_choice){.panel = panel};
    for (const char *at = list, *end; at; at = *end ? end + 1 : NULL) {
        end = at + word_list_first(at);
        while (*end && end[1] == ' ') // a comma within a label
            end += 1 + word_list_first(end + 1);
        choice->names = realloc(choice->names, (choice->count + 1) * sizeof *choice->names);
        CHECK(choice->names && (choice->names[choice->count++] = strndup(at, (size_t)(end - at))));
    }
    CHECK(choice->found = calloc(choice->count + 1, sizeof *choice->found));
}

void series_choice_close(struct series_choice *choice)
{
    for (size_t i = 0; i < choice->count; i++)
        free(choice->names[i]);
    free(choice->names);
    free(choice->found);
}

static void see(char *seen, size_t bytes, const char *label)
{
    char entry[256];
    snprintf(entry, sizeof entry, " \"%.200s\"", label);
    if (!strstr(seen, entry) && strlen(seen) + strlen(entry) < bytes)
        text_append(seen, bytes, "%s", entry);
}

// Tells whether the label is the name, or begins with it up to a comma.
static bool begins(const char *label, const char *name)
{
    size_t length = strlen(name);
    return strncmp(label, name, length) == 0 && (label[length] == ',' || !label[length]);
}

bool series_choice_has_panel(struct series_choice *choice, const char *label)
{
    bool is = !choice->panel || begins(label, choice->panel);
    see(choice->panels_seen, sizeof choice->panels_seen, label);
    choice->panel_found |= is;
    return is;
}

static bool chosen(struct series_choice *choice, const char *method, const char *label)
{
    bool any = !choice->count;
    for (size_t i = 0; i < choice->count; i++) {
        bool is = strcmp(choice->names[i], method) == 0 || begins(label, choice->names[i]);
        choice->found[i] |= is;
        any |= is;
    }
    return any;
}

bool series_choice_apply(struct series_choice *choice, struct figure_table *table)
{
    if (!choice->count && !choice->panel)
        return true;
    bool *rows = calloc(table->row_count + 1, sizeof *rows), any = false;
    size_t panel = figure_table_find(table, "panel_label");
    if (panel == SIZE_MAX)
        panel = figure_table_find(table, "group_label");
    choice->panel_found |= panel == SIZE_MAX;
    for (size_t i = 0; i < table->row_count; i++) {
        const char *method = figure_table_at(table, i, COLUMN_METHOD)->word,
                   *label = figure_table_at(table, i, COLUMN_LABEL)->word;
        bool is = panel == SIZE_MAX || series_choice_has_panel(choice, figure_table_at(table, i, panel)->word);
        see(choice->seen, sizeof choice->seen, label);
        rows[i] = chosen(choice, method, label) && is;
        any |= rows[i];
    }
    figure_table_keep(table, rows);
    free(rows);
    return any;
}

// Reports an unknown name, with a suggestion and the names seen.
static bool tell(const struct series_choice *choice, const char *name, struct status *status)
{
    struct names names = {0};
    char *labels = strdup(choice->seen), *heads = strdup(choice->seen), *rest = labels, *word;
    while ((word = strsep(&rest, "\"")) && names.count + 2 < NAMES_MAX) { // the separators are blank
        char *head = heads + (word - labels);
        head[strcspn(head, ",\"")] = 0;
        if (names_find(&names, head) == names.count)
            names_add(&names, head);
        names_add(&names, word);
    }
    const char *nearest = names_nearest(&names, name);
    status_set(status, STATUS_BAD_INPUT,
               "--series: no picture has \"%.60s\"; %s%.200s%stake a method or a series, commas between, of:%s",
               name, nearest ? "did you mean \"" : "", nearest ? nearest : "", nearest ? "\"? " : "",
               *choice->seen ? choice->seen : " none");
    free(labels);
    free(heads);
    return false;
}

bool series_choice_check(const struct series_choice *choice, struct status *status)
{
    for (size_t i = 0; i < choice->count; i++)
        if (!choice->found[i])
            return tell(choice, choice->names[i], status);
    return true;
}
