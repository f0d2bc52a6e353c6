// Verdict: how something changed from BASE to NEW, ordered so that the verdict over several is the largest.
#pragma once

enum verdict {
    VERDICT_NONE, // there is nothing to judge
    VERDICT_SAME,
    VERDICT_BETTER,
    VERDICT_CHANGED,   // the two are not of one kind: other data, another model, other chunks
    VERDICT_UNDECIDED, // they may be the same or worse
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
