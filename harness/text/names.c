#include "harness/text/names.h"
#include "kernels/base/status.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

// Longer names are not typing errors; the limit also bounds the work on a hostile file.
#define LONGEST 48

void names_add(struct names *names, const char *name)
{
    CHECK(names->count < NAMES_MAX);
    names->items[names->count++] = name;
}

void names_add_all(struct names *names, const char *const *all)
{
    for (size_t i = 0; all[i]; i++)
        names_add(names, all[i]);
}

size_t names_find(const struct names *names, const char *name)
{
    size_t i = 0;
    while (i < names->count && strcmp(names->items[i], name))
        i++;
    return i;
}

static bool separates(char c)
{
    return c == '-' || c == '_' || c == '.' || c == ' ';
}

static bool same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b) || (separates(a) && separates(b));
}

// Digits are never edited: another digit names another size, version or card.
static size_t edit(char a, char b)
{
    return isdigit((unsigned char)a) || isdigit((unsigned char)b) ? LONGEST + 1 : 1;
}

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

// Edits between a and b, both at most LONGEST long; with `beginning`, between a and the nearest prefix of b that
// does not end within a number.
static size_t distance(const char *a, const char *b, bool beginning)
{
    size_t rows = strlen(a), cols = strlen(b);
    size_t d[LONGEST + 1][LONGEST + 1] = {{0}};
    for (size_t i = 1; i <= rows; i++)
        d[i][0] = d[i - 1][0] + edit(a[i - 1], a[i - 1]);
    for (size_t j = 1; j <= cols; j++)
        d[0][j] = d[0][j - 1] + edit(b[j - 1], b[j - 1]);
    for (size_t i = 1; i <= rows; i++) {
        for (size_t j = 1; j <= cols; j++) {
            char x = a[i - 1], y = b[j - 1];
            d[i][j] = min(d[i - 1][j - 1] + (same(x, y) ? 0 : edit(x, y)),
                          min(d[i - 1][j] + edit(x, x), d[i][j - 1] + edit(y, y)));
            if (i > 1 && j > 1 && same(x, b[j - 2]) && same(a[i - 2], y))
                d[i][j] = min(d[i][j], d[i - 2][j - 2] + edit(x, y));
        }
    }
    size_t edits = d[rows][cols];
    for (size_t j = 0; beginning && j < cols; j++)
        if (j == 0 || !isdigit((unsigned char)b[j - 1]) || !isdigit((unsigned char)b[j]))
            edits = min(edits, d[rows][j]);
    return edits;
}

// The name with the fewest edits, at most `max`; with `alone`, compares prefixes and returns NULL if several are as
// near.
static const char *nearest_within(const struct names *names, const char *found, size_t max, bool alone)
{
    const char *nearest = NULL;
    size_t as_near = 0;
    for (size_t i = 0; i < names->count; i++) {
        const char *name = names->items[i];
        size_t edits = strlen(name) <= LONGEST ? distance(found, name, alone) : LONGEST + 1;
        if (edits > max || edits >= strlen(name))
            continue;
        if (edits < max || !as_near) {
            nearest = name;
            as_near = 0;
        }
        as_near++;
        max = edits;
    }
    return alone && as_near > 1 ? NULL : nearest;
}

// Synonyms of our names; NULL: the name of something else, not a misspelling.
static const char *const others[][2] = {
    {"gpu", "cuda"},
    {"nvidia", "cuda"},
    {"bfloat16", "bf16"},
    {"float32", "f32"},
    {"fp32", "f32"},
    {"float64", "f64"},
    {"fp64", "f64"},
    {"double", "f64"},
    {"checkpointing", "checkpoint"},
    {"f16", NULL},
    {"gelu", NULL},
    {"adam", NULL},
    {"ppo", NULL},
    {"kto", NULL},
    {"tsv", NULL},
    // Names of earlier versions.
    {"links", "interconnect"},
    {"stages", "segments"},
    {"stage_rows", "segment_starts"},
    {"columns", "drawn_chunks"},
    {"floor", "min_lr_ratio"},
    {"walk", "backward"},
    {"asked_ms", "host_launch_ms"},
    {"sample_columns", "sample_chunks"},
    {"floor_bytes_per_token", "lower_bound_bytes_per_token"},
    {"least", "min"},
    {"greatest", "max"},
    {"least ratio", "min ratio"},
    {"greatest ratio", "max ratio"},
    {"ratio of greatest", "ratio of max"},
    {"place_weights", "offload"},
    {"place_gradients", "offload"},
    {"place_optimizer", "offload"},
    {"inputs+gradient", "input_gradients"},
    {"yardstick_s", "reference_kernel_s"},
};

static bool alike(const char *a, const char *b)
{
    while (*a && same(*a, *b))
        a++, b++;
    return !*a && !*b;
}

static bool is_other(const struct names *names, const char *found, const char **ours)
{
    *ours = NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (!alike(others[i][0], found))
            continue;
        for (size_t n = 0; others[i][1] && n < names->count && !*ours; n++)
            *ours = alike(others[i][1], names->items[n]) ? names->items[n] : NULL;
        if (*ours || !others[i][1])
            return true;
    }
    return false;
}

const char *names_nearest(const struct names *names, const char *found)
{
    size_t length = strlen(found);
    const char *nearest;
    if (is_other(names, found, &nearest))
        return nearest;
    if (length == 0 || length > LONGEST)
        return NULL;
    nearest = nearest_within(names, found, length < 6 ? 1 : 2, false);
    // A prefix ("memory" for "memory_bytes") is many edits away but unambiguous if only one name has it.
    return nearest || length < 3 ? nearest : nearest_within(names, found, length > 3, true);
}

void names_hint(const struct names *names, const char *found, const char *known, char *text, size_t bytes)
{
    const char *nearest = found ? names_nearest(names, found) : NULL;
    size_t used = 0;
    text[0] = '\0';
    if (nearest)
        used = (size_t)snprintf(text, bytes, "did you mean \"%s\"? ", nearest);
    for (size_t i = 0; i < names->count && used < bytes; i++) {
        const char *before = i ? ", " : known;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s%s", before, i ? "" : ": ", names->items[i]);
    }
}
