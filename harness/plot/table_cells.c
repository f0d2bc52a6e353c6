#include "harness/plot/table_cells.h"
#include <math.h>
#include <string.h>

#define LEAST       1e-60
#define GREATEST    1e60
#define WHOLE_BELOW 1e15

static bool is_beyond(double value)
{
    return value != 0 && (fabs(value) < LEAST || fabs(value) > GREATEST);
}

void table_cells(FILE *table, const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool whole = values[i] == floor(values[i]) && fabs(values[i]) < WHOLE_BELOW;
        if (!isfinite(values[i]))
            fputs("\tNaN", table);
        else if (is_beyond(values[i]))
            fputs("\t" TABLE_BEYOND, table);
        else
            fprintf(table, whole ? "\t%.0f" : "\t%.9g", values[i]);
    }
}

bool table_cells_beyond(const char *table)
{
    return strstr(table, "\t" TABLE_BEYOND) != NULL;
}
