// Claim figure: a number computed from records in one of a few ways.
#pragma once
#include "harness/record/results.h"

enum claim_take {
    TAKE_MIN, // of the field, over the records
    TAKE_MAX,
    TAKE_MIN_RATIO, // of the field, over all pairs: the record divided by its counterpart
    TAKE_MAX_RATIO,
    TAKE_LAST_RATIO,   // for the pair with the longest context
    TAKE_RATIO_OF_MAX, // the maximum of the records over the maximum of the others, among those that agree in
                       // everything but context and batch; the minimum of these ratios
    TAKE_COUNT
};
// Names in claims.json, in the enum's order, ending in NULL: "least", ..., "ratio of greatest".
extern const char *const claim_take_names[];

// Texts, borrowed, ending in NULL.
struct claim_query {
    enum claim_take take;
    const char *field;          // of a record, or a derived column (record_columns.h)
    const char *const *of;      // conditions (record_filter.h) for the records
    const char *const *over;    // for the records that they are divided by
    const char *const *apart;   // keys in which a pair may differ, besides method and measurement
    const char *const *records; // result files
};

struct claim_figure {
    double value;     // NaN: no record
    double low, high; // its range: for a ratio of measured times the interval of 95 % over common rounds
                      // (step_time.h), 0 and infinity for one round; otherwise the value
    bool planned;     // computed from a planned record
    double context;   // of the record, or pair; NaN: none
};

// Uses ok records only. Returns false and a status if a file cannot be read, or a condition or the field is wrong.
bool claim_figure_take(struct claim_figure *figure, const struct claim_query *query, struct status *status);
// An unknown figure.
struct claim_figure claim_figure_none(void);
