// Quantity: what a record holds that does not depend on how fast a machine is: bytes, counts of work, losses and
// gradient errors; and how it changed from one record of a trial to another.
#pragma once
#include "harness/results/record.h"

// Quantities that two runs of one build have equal, to the last byte, but for instructions and losses; less is
// better, but for the loss of a step, which is that of the same data and weights.
enum quantity {
    QUANTITY_PEAK_BYTES,
    QUANTITY_PEAK_BY_CATEGORY, // each of them
    QUANTITY_FLOPS,
    QUANTITY_BYTES_MOVED,
    QUANTITY_LAUNCHES,
    QUANTITY_HOST_PEAK_BYTES,
    QUANTITY_LINK_OUT_BYTES,
    QUANTITY_LINK_IN_BYTES,
    QUANTITY_INSTRUCTIONS,  // those of one build are within 3 % of each other
    QUANTITY_LOSS,          // of the first step
    QUANTITY_LAST_LOSS,     // of a training run (record_last_loss)
    QUANTITY_HELD_OUT_LOSS, // likewise (record_held_out_loss)
    QUANTITY_COUNT
};

// "peak_bytes", ...
const char *quantity_name(enum quantity quantity);
// NaN: not known, or a quantity of several parts; infinity: a step's loss that is not finite. What is not kept on
// the host is 0 there.
double quantity_of(const struct record *record, enum quantity quantity);
// False for instructions that one of two records of a trial does not know, and for those of two processors, of
// other numbers of threads, or of threads that waited in another way; and for losses of other data.
bool quantity_comparable(enum quantity quantity, const struct record *base, const struct record *new);
// Whether it is another in a record than in one before of the same trial; false if one of them does not know it,
// and where the two are not comparable.
bool quantity_changed(enum quantity quantity, const struct record *base, const struct record *new);

// How much more than before is still fine: `amount` of the value before, or `amount` itself. Zeroed: nothing.
struct allowance {
    bool given, relative;
    double amount;
    char text[48]; // as it was said: "peak_bytes=1%"
};

// Reads "peak_bytes=1%,launches=2,bytes_moved=64KiB" on top of what the allowances hold.
bool quantity_allow(struct allowance allowances[QUANTITY_COUNT], const char *text, struct status *status);

struct quantity_rules {
    struct allowance allowances[QUANTITY_COUNT];
    bool exact;    // less of a byte or a count is worse, too
    bool settings; // the two are not of one trial: another setting may have another loss
};

enum change {
    CHANGE_NONE,
    CHANGE_BETTER,
    CHANGE_ALLOWED, // more, but within what --allow lets pass
    CHANGE_OTHER,   // known in the new record alone; a part of a peak that fell; or neither better nor worse
    CHANGE_WORSE,
    CHANGE_LOST, // known in the base record alone
    CHANGE_COUNT
};
// "same", "better", "allowed", "other", "worse", "lost".
const char *change_name(enum change change);

struct quantity_change {
    char name[48];
    double base, new; // NAN: not known; infinity: not finite
    enum change change;
    char allowance[48]; // of CHANGE_ALLOWED: what was said, "peak_bytes=1%"; else ""
};
// Whether a quantity of this name, a part of the peak among them, is of bytes.
bool quantity_is_bytes(const char *name);
#define QUANTITY_CHANGES_MAX (QUANTITY_COUNT + CATEGORY_COUNT + 3)

// Everything that changed between two records of one trial, both ok; returns how many.
//
// Bytes and counts: any growth beyond the allowance is worse; with `exact` so is any shrinking. Instructions: so
// where both records have them, of one processor and as many threads, and they changed. Categories are
// parts of the peak: where none is given for them, each may grow by as many bytes as the peak may, and where the
// peak itself fell, by any number. Errors (gradient.relative_l2, bias.relative_l2, bias.rms_error): more is worse
// if it is more by twice the noise floor and by 1e-12. The floor is the larger of the two records' and of what
// rounding every result once to the trial's dtype comes to (relative L2 0.4247 epsilon; 0.0017 in bf16), for a
// record's is that of a single other order of sums, which may happen to change next to nothing. That holds across
// machines, whose BLAS rounds in another order, and also for a sampled gradient, whose error is large but known to
// rounding.
//
// Losses: one that is no longer finite is worse. That of a step is of the same data and weights: more or less by
// twice the noise floor, as a share of it, is worse; of other settings it is another. What a training run ends with
// is better or worse if it is less or more by its noise (loss_noise.h); within that it is another where bits repeat
// and nothing but the program can have changed them, for then nothing else explains it. Of other data or another
// objective a loss is neither better nor worse.
//
// Where columns are drawn and those of draw 0 are not the same in both (record_other_columns), bytes, counts, the
// loss of the step and gradient.relative_l2 are another draw's: neither better nor worse. A bias is that of all
// draws, and what a training run ends with that of its steps' draws.
//
// Where one of the two is planned and the other was measured (record_one_is_planned), bytes and counts must be
// equal as with `exact`, and so must resident_bytes, model_flops and attention_glue_bytes; losses and errors, which
// a plan has none of, are left out, and what one of them does not know is neither better nor worse.
size_t quantity_changes(struct quantity_change changes[QUANTITY_CHANGES_MAX], const struct record *base,
                        const struct record *new, const struct quantity_rules *rules);
