#include "kernels/base/index_list.h"
#include "kernels/base/status.h"
#include <stdlib.h>
#include <string.h>

void index_list_resize(struct index_list *list, size_t count)
{
    if (count > list->count || !list->items) {
        list->items = realloc(list->items, (count ? count : 1) * sizeof *list->items);
        CHECK(list->items);
    }
    list->count = count;
}

struct index_list index_list_range(size_t count)
{
    struct index_list range = {0};
    index_list_resize(&range, count);
    for (size_t i = 0; i < count; i++)
        range.items[i] = (uint32_t)i;
    return range;
}

struct index_list index_list_copy(const struct index_list *list)
{
    struct index_list copy = {0};
    if (list->count) {
        index_list_resize(&copy, list->count);
        memcpy(copy.items, list->items, list->count * sizeof *copy.items);
    }
    return copy;
}

bool index_list_equal(const struct index_list *a, const struct index_list *b)
{
    return a->count == b->count && (a->count == 0 || memcmp(a->items, b->items, a->count * sizeof *a->items) == 0);
}

void index_list_free(struct index_list *list)
{
    free(list->items);
    *list = (struct index_list){0};
}
