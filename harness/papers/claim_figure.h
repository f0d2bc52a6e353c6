// Claim figure: a number that a claim is held against, taken from records by a query.
#pragma once
#include "harness/record/results.h"

enum claim_take {
    TAKE_MIN, // of the field, over the records
    TAKE_MAX,
    TAKE_MIN_RATIO, // of the field, over all pairs: the record divided by its counterpart
    TAKE_MAX_RATIO,
    TAKE_LAST_RATIO,      // for the pair with the longest context
    TAKE_RATIO_OF_MAX,    // the maximum of the records over the maximum of the others, among those that agree in
                          // everything but context and batch; the minimum of these ratios
    TAKE_MEAN_DIFFERENCE, // of the field, over all pairs: the record less its counterpart
    TAKE_PUBLISHED_OVER,  // the paper's longest context over each record's of the same model, training and
                          // card: the minimum, to the maximum
    TAKE_COUNT
};
// "min", "max", "min ratio", "max ratio", "last ratio", "ratio of max", "mean difference", "published over".
extern const char *const claim_take_names[];

#define CLAIM_APART_MAX 16
// Texts, borrowed, ending in NULL.
struct claim_query {
    enum claim_take take;
    const char *field;           // of a record, or a derived column (record_columns.h)
    const char *const *of;       // conditions (record_filter.h) for the records
    const char *const *over;     // for the records that they are divided by, or less
    const char *const *apart;    // keys in which a pair may differ, besides method and measurement
    const char *const *records;  // result files
    const char *points, *method; // of TAKE_PUBLISHED_OVER: the points' experiment, and the method of theirs
};

// A number computed from records.
struct claim_figure {
    double value;     // NaN: no record
    double low, high; // its range: for a ratio of measured times the interval of 95 % over common rounds
                      // (step_time.h), 0 and infinity for one round; of a mean difference the interval of 95 %
                      // over its pairs; of several published points that of their ratios; otherwise the value
    bool planned;     // computed from a planned record
    double context;   // of the record, or pair; NaN: none
};

struct claim_figure claim_figure_none(void);
// Returns false and a status if the query is wrong or a file cannot be read.
bool claim_figure_take(struct claim_figure *figure, const struct claim_query *query, struct status *status);
