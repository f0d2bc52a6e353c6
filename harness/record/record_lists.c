#include "harness/record/record_lists.h"
#include "kernels/base/status.h"
#include <stdlib.h>
#include <string.h>

struct keyed {
    const char *key;
    size_t place;
};

static int compare_keyed(const void *a, const void *b)
{
    const struct keyed *left = a, *right = b;
    int order = strcmp(left->key, right->key);
    return order ? order : (left->place > right->place) - (left->place < right->place);
}

static int compare_firsts(const void *a, const void *b)
{
    size_t left = (*(const struct record_list *const *)a)->first,
           right = (*(const struct record_list *const *)b)->first;
    return (left > right) - (left < right);
}

void keyed_records_add(struct keyed_records *keyed, const struct record *record, const char *key)
{
    if ((keyed->count & (keyed->count - 1)) == 0) { // room for twice as many
        size_t capacity = keyed->count ? 2 * keyed->count : 1;
        keyed->records = realloc(keyed->records, capacity * sizeof *keyed->records);
        keyed->keys = realloc(keyed->keys, capacity * sizeof *keyed->keys);
    }
    keyed->records[keyed->count] = record;
    keyed->keys[keyed->count++] = key;
}

void keyed_records_free(struct keyed_records *keyed)
{
    free(keyed->records);
    free(keyed->keys);
    *keyed = (struct keyed_records){0};
}

void record_lists_make(struct record_lists *lists, const struct keyed_records *side)
{
    size_t count = side->count;
    struct keyed *keyed = calloc(count + 1, sizeof *keyed);
    *lists = (struct record_lists){.lists = calloc(count + 1, sizeof *lists->lists),
                                   .in_order = calloc(count + 1, sizeof *lists->in_order),
                                   .records = calloc(count + 1, sizeof *lists->records)};
    CHECK(keyed && lists->lists && lists->in_order && lists->records);
    for (size_t i = 0; i < count; i++)
        keyed[i] = (struct keyed){side->keys[i], i};
    qsort(keyed, count, sizeof *keyed, compare_keyed);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(keyed[i - 1].key, keyed[i].key) != 0)
            lists->lists[lists->count++] =
                (struct record_list){keyed[i].key, 0, keyed[i].place, &lists->records[i], NULL};
        lists->lists[lists->count - 1].count++;
        lists->records[i] = side->records[keyed[i].place];
    }
    for (size_t i = 0; i < lists->count; i++)
        lists->in_order[i] = &lists->lists[i];
    qsort(lists->in_order, lists->count, sizeof *lists->in_order, compare_firsts);
    free(keyed);
}

void record_lists_match(struct record_lists *a, struct record_lists *b)
{
    for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
        int order = strcmp(a->lists[i].key, b->lists[j].key);
        if (order == 0) {
            a->lists[i].match = &b->lists[j];
            b->lists[j].match = &a->lists[i];
        }
        i += order <= 0;
        j += order >= 0;
    }
}

void record_lists_free(struct record_lists *lists)
{
    free(lists->lists);
    free(lists->in_order);
    free(lists->records);
}

const struct record *record_list_last(const struct record_list *list)
{
    return list->records[list->count - 1];
}
