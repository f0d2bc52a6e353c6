// Figure text: a figure's table as gnuplot reads it.
#pragma once
#include "harness/plot/figure_table.h"

// To be freed; the table is released.
static inline char *figure_text(struct figure_table *table)
{
    char *text = figure_table_text(table);
    figure_table_free(table);
    return text;
}
