#include "harness/plan/space.h"
#include "harness/spec/method_decode.h"
#include <string.h>

static bool is_tried(const struct option *option, const json_t *given)
{
    return option->nth && !json_object_get(given, option->name);
}

static bool set_value(const struct family *family, void *options, const struct option *option, size_t index)
{
    const struct trial *trial = family->trial;
    return option->nth(option, (char *)options + option->offset, index, trial->config.layers,
                       trial_row_tokens(trial));
}

static void set_ascending(const struct family *family, void *options, size_t index)
{
    if (family->ascending)
        CHECK(set_value(family, options, family->ascending, index));
    method_set_shares(family->trial->method, family->given, trial_row_tokens(family->trial), options);
}

static void add_family(struct space *space, const struct trial *trial, const void *options,
                       const struct option *ascending, const size_t *picks, const size_t *min)
{
    size_t min_family = space->count;
    while (min_family > 0 && (space->families[min_family - 1].trial != trial ||
                              memcmp(space->families[min_family - 1].picks, min, PICKS_MAX * sizeof *min)))
        min_family--;
    space->families = realloc(space->families, (space->count + 1) * sizeof *space->families);
    struct family *family = &space->families[space->count++];
    *family = (struct family){.trial = trial, .given = space->given, .ascending = ascending, .candidates = 1};
    memcpy(family->picks, picks, sizeof family->picks);
    family->min = min_family > 0 ? min_family - 1 : space->count - 1; // itself
    family->options = options_copy(&trial->method->options, options);
    if (ascending) {
        for (family->candidates = 0; set_value(family, family->options, ascending, family->candidates);)
            family->candidates++;
        CHECK(family->candidates > 0);
    }
    set_ascending(family, family->options, family->candidates - 1);
    space->candidates += family->candidates;
}

// Adds every combination of the rows from this one on, with the options set so far.
static void add_picks(struct space *space, const struct trial *trial, void *options, const struct option *row,
                      const struct option *ascending, size_t depth, size_t *picks, size_t *min)
{
    while (row->name && (row == ascending || !is_tried(row, space->given)))
        row++;
    if (!row->name) {
        add_family(space, trial, options, ascending, picks, min);
        return;
    }
    const struct family family = {.trial = trial};
    CHECK(depth < PICKS_MAX);
    for (size_t i = 0; set_value(&family, options, row, i); i++) {
        picks[depth] = i;
        min[depth] = row->ascending ? 0 : i;
        add_picks(space, trial, options, row + 1, ascending, depth + 1, picks, min);
    }
}

// For trials of one space.
static bool differ_in_offload_alone(const struct trial *a, const struct trial *b)
{
    return a->method == b->method && a->kv_gradient_dtype == b->kv_gradient_dtype &&
           a->kv_gradient_stochastic == b->kv_gradient_stochastic && a->quantisation == b->quantisation;
}

// Such trials have equally many families, in the same order.
static void find_dominating(struct space *space, const struct trial *trials, size_t count)
{
    size_t *first = calloc(count + 1, sizeof *first);
    for (size_t i = 0, f = 0; i < count; i++) {
        size_t dominating = 0;
        while (!differ_in_offload_alone(&trials[dominating], &trials[i]))
            dominating++;
        for (first[i] = f; f < space->count && space->families[f].trial == &trials[i]; f++)
            space->families[f].dominating = first[dominating] + (f - first[i]);
    }
    free(first);
}

void space_open(struct space *space, const struct trial *trials, size_t count, const json_t *given)
{
    *space = (struct space){.given = given};
    for (size_t i = 0; i < count; i++) {
        const struct option_table *table = &trials[i].method->options;
        const struct option *ascending = table->rows;
        while (ascending->name && !(ascending->ascending && is_tried(ascending, given)))
            ascending++;
        void *options = options_copy(table, trials[i].options);
        size_t picks[PICKS_MAX] = {0}, min[PICKS_MAX] = {0};
        add_picks(space, &trials[i], options, table->rows, ascending->name ? ascending : NULL, 0, picks, min);
        options_free(table, options);
    }
    find_dominating(space, trials, count);
}

void space_close(struct space *space)
{
    for (size_t i = 0; i < space->count; i++)
        options_free(&space->families[i].trial->method->options, space->families[i].options);
    free(space->families);
    *space = (struct space){0};
}

void *family_options(const struct family *family, size_t index)
{
    void *options = options_copy(&family->trial->method->options, family->options);
    set_ascending(family, options, index);
    return options;
}
