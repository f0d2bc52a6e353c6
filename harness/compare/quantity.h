// Quantity: values in a record that do not depend on the machine's speed: bytes, counts of work, losses and
// gradient errors; and their changes from BASE to NEW.
#pragma once
#include "harness/compare/verdict.h"
#include "harness/record/record_fields.h"
#include "harness/record/record_lists.h"
#include <stdio.h>

struct quantity {
    const char *name;                          // "peak_bytes", "gradient.relative_l2"
    const struct record_field *field, *parent; // parent: the object that contains the field; NULL: the record
};
#define QUANTITIES_MAX 40
// Every compared field (record_fields.h), kind by kind, ending in a NULL name.
const struct quantity *quantities(void);
// NaN: unknown, or a quantity of several parts; infinity: a step's loss that is not finite. Bytes on the host are 0
// if nothing is offloaded.
double quantity_of(const struct record *record, const struct quantity *quantity);
// Returns false for instructions that a record lacks or that come from different processors, thread counts or kinds
// of waits; and for losses of other data.
bool quantity_comparable(const struct quantity *quantity, const struct record *base, const struct record *new);
// Tells whether it differs between two records of a trial; false if one lacks it or they are not comparable.
bool quantity_changed(const struct quantity *quantity, const struct record *base, const struct record *new);
bool quantity_is_bytes(const struct quantity *quantity);

// Allowed increase: a share of the earlier value, or an amount. Zeroed: none.
struct allowance {
    bool given, relative;
    double amount;
    char text[48]; // as given: "peak_bytes=1%"
};

// Writes the rules by which changes become verdicts, one line per kind of quantity.
void quantity_rules_write(FILE *stream);

// Parses an amount: "1%", "0", "250", "64 KiB".
bool allowance_read(struct allowance *allowance, const char *text);
// Parses "peak_bytes=1%,launches=2,bytes_moved=64KiB" into the allowances.
bool quantity_allow(struct allowance allowances[QUANTITIES_MAX], const char *text, struct status *status);

struct quantity_rules {
    struct allowance allowances[QUANTITIES_MAX];
    bool exact;    // less of a byte or count is also worse
    bool settings; // compares two settings, whose losses may differ
};

struct quantity_change {
    const struct quantity *quantity;
    char name[128];   // of the quantity or of its part
    double base, new; // NaN: unknown; infinity: not finite
    enum verdict verdict;
    const char *allowed; // the allowance that covers it, "peak_bytes=1%", borrowed from the rules; NULL: none
    bool news;           // only NEW has it: not judged
};

struct quantity_changes {
    size_t count;
    struct quantity_change *items; // [count], to be freed
    bool other_chunks;             // an ok round of NEW drew other chunks than BASE's last
};

// Every quantity that differs between two trials with ok rounds, by the table of `compare --help`. Maxima over
// rounds are compared with maxima, minima with minima.
//
// Tolerances depend only on BASE and the dtype. Gradient errors: twice BASE's noise floor, at least that of
// rounding every result once (0.4247 epsilon, for a relative error uniform in a unit in the last place) and 1e-12;
// for one tensor twice its error in BASE, up to 32 such floors. A step's loss: the same, relative. A training run's
// final loss: loss_noise in quantity.c. Infinite values have no tolerance: a change from a finite value is worse,
// to one changed.
//
// Between a plan and a measurement (record_one_is_planned) less is also worse; losses and errors, which plans lack,
// are ignored, as is anything that one of them lacks.
struct quantity_changes quantity_changes(const struct record_list *base, const struct record_list *new,
                                         const struct quantity_rules *rules);
