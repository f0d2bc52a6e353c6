// Claim figure: one number that is taken from records, in one of a few ways.
#pragma once
#include "harness/record/results.h"

enum claim_take {
    TAKE_MIN, // of the field, over the records
    TAKE_MAX,
    TAKE_MIN_RATIO, // of the field, of a record over the one that it is paired with, over all pairs
    TAKE_MAX_RATIO,
    TAKE_LAST_RATIO,   // of the pair with the longest context
    TAKE_RATIO_OF_MAX, // the greatest of the records over the greatest of the others, each among those that
                       // agree in all but context and batch; the least of these ratios
    TAKE_COUNT
};
// Their names in claims.json, in the enum's order, ending in NULL: "least", ..., "ratio of greatest".
extern const char *const claim_take_names[];

// Texts, borrowed, ending in NULL.
struct claim_query {
    enum claim_take take;
    const char *field;          // of a record, or a figure of a table (record_columns.h)
    const char *const *of;      // conditions (record_filter.h) of the records
    const char *const *over;    // of those that they are held against
    const char *const *apart;   // keys in which a pair may differ, besides the method and what is measured
    const char *const *records; // files: results, or what `longbp max-context --json` or `max-batch --json` printed
};

struct claim_figure {
    double value;     // NaN: no record decides it
    double low, high; // what it may be besides: of a ratio of measured times its interval of 95 % over the rounds
                      // that both sides have (step_time.h), 0 and infinity if that is one; of all else the value
    bool planned;     // a record that it is taken from is planned
    double context;   // of the record, or the pair, that it is taken from; NaN: none
};

// Records that are not ok do not count. False and a status if a file cannot be read, or a condition or the field is
// wrong.
bool claim_figure_take(struct claim_figure *figure, const struct claim_query *query, struct status *status);
// A figure that is not known.
struct claim_figure claim_figure_none(void);
