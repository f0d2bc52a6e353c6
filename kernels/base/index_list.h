// Index list: a list of whole numbers, such as the chunks of a draw, owned by the struct that holds it. Zeroed:
// empty.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct index_list {
    size_t count;
    uint32_t *items;
};

// Resizes the list; new items are uninitialised.
void index_list_resize(struct index_list *list, size_t count);
// 0, 1, .. count - 1
struct index_list index_list_range(size_t count);
struct index_list index_list_copy(const struct index_list *list);
bool index_list_equal(const struct index_list *a, const struct index_list *b);
void index_list_free(struct index_list *list);
