// Verdict: the kind of change from BASE to NEW, ordered so that the verdict over several is the maximum.
#pragma once

enum verdict {
    VERDICT_NONE, // nothing to judge
    VERDICT_SAME,
    VERDICT_BETTER,
    VERDICT_CHANGED,   // not comparable: other data, another model, other chunks
    VERDICT_UNDECIDED, // possibly the same or worse
    VERDICT_WORSE,
    VERDICT_COUNT
};

// "not judged", "same", "better", "changed", "undecided", "worse".
static inline const char *verdict_name(enum verdict verdict)
{
    static const char *const names[VERDICT_COUNT] = {"not judged", "same",      "better",
                                                     "changed",    "undecided", "worse"};
    return names[verdict];
}

static inline enum verdict verdict_worst(enum verdict a, enum verdict b)
{
    return a > b ? a : b;
}
