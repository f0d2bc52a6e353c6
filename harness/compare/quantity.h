// Quantity: what a record holds that does not depend on how fast a machine is: bytes, counts of work, losses and
// gradient errors; and how each changed from BASE to NEW.
#pragma once
#include "harness/compare/verdict.h"
#include "harness/record/record_fields.h"
#include "harness/record/record_lists.h"
#include <stdio.h>

struct quantity {
    const char *name;                          // "peak_bytes", "gradient.relative_l2"
    const struct record_field *field, *parent; // parent: the object that it is a field of; NULL: the record
};
#define QUANTITIES_MAX 40
// Every field that is compared (record_fields.h), kind by kind, ending in a NULL name.
const struct quantity *quantities(void);
// NaN: not known, or a quantity of several parts; infinity: a step's loss that is not finite. What is not kept on
// the host is 0 there.
double quantity_of(const struct record *record, const struct quantity *quantity);
// False for instructions that one of two records of a trial does not know, and for those of two processors, of
// other numbers of threads, or of threads that waited in another way; and for losses of other data.
bool quantity_comparable(const struct quantity *quantity, const struct record *base, const struct record *new);
// Whether it is another in a record than in one before of the same trial; false if one of them does not know it,
// and where the two are not comparable.
bool quantity_changed(const struct quantity *quantity, const struct record *base, const struct record *new);
bool quantity_is_bytes(const struct quantity *quantity);

// How much more than before is still fine: `amount` of the value before, or `amount` itself. Zeroed: nothing.
struct allowance {
    bool given, relative;
    double amount;
    char text[48]; // as it was said: "peak_bytes=1%"
};

// Writes which change of which quantity is which verdict, a line for each kind of quantity.
void quantity_rules_write(FILE *stream);

// Reads the amount: "1%", "0", "250", "64 KiB".
bool allowance_read(struct allowance *allowance, const char *text);
// Reads "peak_bytes=1%,launches=2,bytes_moved=64KiB" on top of what the allowances hold.
bool quantity_allow(struct allowance allowances[QUANTITIES_MAX], const char *text, struct status *status);

struct quantity_rules {
    struct allowance allowances[QUANTITIES_MAX];
    bool exact;    // less of a byte or a count is worse, too
    bool settings; // the two are not of one trial: another setting may have another loss
};

struct quantity_change {
    const struct quantity *quantity;
    char name[128];   // its own, or that of the part of it
    double base, new; // NaN: not known; infinity: not finite
    enum verdict verdict;
    const char *allowed; // the allowance that let it pass, "peak_bytes=1%", borrowed from the rules; NULL: none did
    bool news;           // NEW alone knows it: not judged
};

struct quantity_changes {
    size_t count;
    struct quantity_change *items; // [count], to be freed
    bool other_chunks;             // a round of NEW that was ok drew other chunks than BASE's last
};

// Every quantity that is not the same in two trials' rounds of which some were ok, by the table of `compare
// --help`. The largest of NEW's rounds is held against the largest of BASE's, and the least against the least.
//
// Tolerances come from BASE and the dtype alone. Of gradient errors it is twice BASE's noise floor, no less than
// that of rounding every result once (0.4247 epsilon, of a relative error uniform in a unit in the last place) and
// than 1e-12; of one tensor twice its own error in BASE, up to 32 such floors. A step's loss: as a share of it, the
// same. What a training run ends with: loss_noise in quantity.c. A value that is not finite has no tolerance: from
// a finite one it is worse, to one it is changed.
//
// If one of the two is planned and the other was measured (record_one_is_planned), less is worse, too; losses
// and errors, which a plan has none of, are left out, and so is what one of them does not know.
struct quantity_changes quantity_changes(const struct record_list *base, const struct record_list *new,
                                         const struct quantity_rules *rules);
