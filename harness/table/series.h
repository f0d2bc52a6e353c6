// Series: the curves of a figure. Records of one method with equal options are one series, labelled with only the
// options needed to distinguish it.
#pragma once
#include "harness/record/record.h"
#include <stdbool.h>
#include <stddef.h>

struct series {
    const char *method;
    char label[160];     // "seco, chunk 128"
    size_t rank;         // among the series of its method, from 0
    size_t record_count; // at least 1
    const struct record **records;
};

struct series_table {
    size_t count;
    struct series *series; // by method in the program's order, then by options, numbers by size
};

// Groups records into series. omit: names of options that vary within a series, ending in NULL. prefixed: labels
// begin with the method's name. The records are borrowed. Release with series_free.
void series_make(struct series_table *table, const struct record *const *records, size_t count,
                 const char *const *omit, bool prefixed);
void series_free(struct series_table *table);
