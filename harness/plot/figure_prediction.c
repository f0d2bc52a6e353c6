// Prediction: estimated against measured step times: a row per trial, a series per method.
#include "harness/plot/figure.h"
#include "harness/report/prediction_report.h"
#include "methods/method.h"
#include <math.h>
#include <string.h>

static bool tabulate(const struct record *const *records, size_t count, struct figure_table *table)
{
    size_t series = 0, rows = 0;
    figure_table_columns(table, "measured_ms\tat_speed_ms\testimate_ms\testimate_low_ms\testimate_high_ms");
    for (size_t m = 0; methods[m]; m++) {
        const char *name = methods[m]->name;
        size_t before = rows;
        for (size_t i = 0; i < count; i++) {
            const struct record *record = records[i];
            double measured_ms = prediction_measured_ms(record, PREDICTION_AS_MEASURED);
            if (isnan(measured_ms) || strcmp(record_method(record), name) != 0)
                continue;
            series += rows++ == before;
            figure_table_row(table, series, name, 0, "%s", name);
            FIGURE_NUMBERS(table, measured_ms, prediction_measured_ms(record, PREDICTION_AT_PROFILE_SPEED),
                           record->estimate_ms, record->estimate_low_ms, record->estimate_high_ms);
        }
    }
    return rows >= 3;
}

static const char *const nothing[] = {NULL};

const struct figure figure_prediction = {
    .name = "prediction",
    .along = "measured_ms",
    .logarithmic = true,
    .panels = "times,ratio",
    .times = true,
    .needs = "three trials or more that were timed, with an estimate by a profile that has measured rates "
             "(longbp calibrate)",
    .within = nothing,
    .tabulate = tabulate,
};
