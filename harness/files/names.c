#include "harness/files/names.h"
#include "kernels/base/status.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

// Longer names are no typing errors of ours; it also bounds the work on a hostile file.
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

static bool same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

// Edits between a and b, both at most LONGEST long; with `beginning`, between a and the nearest beginning of b.
static size_t distance(const char *a, const char *b, bool beginning)
{
    size_t rows = strlen(a), cols = strlen(b);
    size_t d[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= rows; i++)
        d[i][0] = i;
    for (size_t j = 0; j <= cols; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= rows; i++) {
        for (size_t j = 1; j <= cols; j++) {
            size_t change = d[i - 1][j - 1] + !same(a[i - 1], b[j - 1]);
            d[i][j] = least(change, least(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    size_t edits = d[rows][cols];
    for (size_t j = 0; beginning && j < cols; j++)
        edits = least(edits, d[rows][j]);
    return edits;
}

static const char *nearest_within(const struct names *names, const char *found, size_t most, bool beginning)
{
    const char *nearest = NULL;
    for (size_t i = 0; i < names->count; i++) {
        const char *name = names->items[i];
        size_t edits = strlen(name) <= LONGEST ? distance(found, name, beginning) : LONGEST;
        if (edits <= most && edits < strlen(name)) {
            most = edits - (edits > 0);
            nearest = name;
            if (edits == 0)
                break;
        }
    }
    return nearest;
}

// What others call ours.
static const char *const others[][2] = {{"gpu", "cuda"}, {"nvidia", "cuda"}};

static const char *ours_for(const struct names *names, const char *found)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcasecmp(others[i][0], found) == 0 && names_find(names, others[i][1]) < names->count)
            return others[i][1];
    return NULL;
}

const char *names_nearest(const struct names *names, const char *found)
{
    size_t length = strlen(found);
    if (ours_for(names, found))
        return ours_for(names, found);
    if (length == 0 || length > LONGEST)
        return NULL;
    // One edit in three letters: more would suggest names that have nothing in common.
    const char *nearest = nearest_within(names, found, (length + 2) / 3, false);
    // A beginning ("llama" for "llama-3-8b") is many edits away, but means one thing. Short ones fit anything.
    if (!nearest && length >= 3)
        nearest = nearest_within(names, found, length / 4, true);
    return nearest;
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
