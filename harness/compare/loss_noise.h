// Loss noise: how far the losses that two training runs end with may be apart while both learn as well.
//
// Rounding in another order grows over steps, and what is drawn is drawn anew under another seed, so that two good
// runs end elsewhere. How far such a mean over n steps is from another one of its kind shows in how much the steps
// themselves scatter: twice the standard error of the difference,
//   2 sqrt(s^2 (1 / n_base + 1 / n_new)),  s^2 = sum of (loss_i - loss_(i-1))^2 / 2n
// over the steps of record_last_loss of BASE. s^2 is half the mean square successive difference (von Neumann, Kent,
// Bellinson and Hart 1941), which a loss that falls all the while hardly raises. BASE alone says it, or a run that
// diverges would be excused by its own scatter. A loss on held-out data, a mean over more tokens, is given as much.
#pragma once
#include "harness/record/record.h"

// In nats; 0 of runs of one step, which end before anything was learned.
double loss_noise(const struct record *base, const struct record *new);
