#include "harness/trial/pair_sums.h"
#include <math.h>

enum accumulator { EXACT, IN_F64, IN_F32, IN_BF16, IN_BF16_ONCE, ACCUMULATORS };

// Rounds as an accumulator does; `last`: no more rows follow.
static long double kept(enum accumulator in, long double value, bool last)
{
    switch (in) {
    case IN_F64:
        return (double)value;
    case IN_F32:
        return (float)value;
    case IN_BF16:
        return dtype_round((double)value, DTYPE_BF16);
    case IN_BF16_ONCE:
        return last ? dtype_round((double)value, DTYPE_BF16) : value;
    default:
        return value;
    }
}

static double row_of(enum accumulator in, double value)
{
    return in == IN_BF16 || in == IN_BF16_ONCE ? dtype_round(value, DTYPE_BF16) : value;
}

// Sums the rows with a target of each sequence.
static void add_rows(long double *sums, enum accumulator in, const struct batch *batch, const int32_t *targets,
                     const double *log_probs)
{
    for (size_t b = 0; b < batch->sequences; b++)
        sums[b] = 0;
    for (size_t row = 0; row < batch->context * batch->batch; row++) {
        size_t b = batch->of ? (size_t)batch->of[row] : row % batch->batch;
        if (targets[row] >= 0)
            sums[b] = kept(in, sums[b] + row_of(in, log_probs[row]), false);
    }
    for (size_t b = 0; b < batch->sequences; b++)
        sums[b] = kept(in, sums[b], true);
}

static long double difference(const long double *model, const long double *reference, size_t pair)
{
    return (model[2 * pair] - reference[2 * pair]) - (model[2 * pair + 1] - reference[2 * pair + 1]);
}

void pair_sums_of(struct record_pair_sums *sums, struct device *device, const struct batch *batch,
                  struct tensor log_prob)
{
    size_t rows = batch->context * batch->batch, pairs = batch->sequences / 2;
    double *own = malloc(rows * sizeof *own), *reference = calloc(rows, sizeof *reference);
    int32_t *targets = malloc(rows * sizeof *targets);
    long double *of_model = calloc(batch->sequences, sizeof *of_model),
                *of_reference = calloc(batch->sequences, sizeof *of_reference);
    long double *exact = calloc(pairs + 1, sizeof *exact);
    double errors[ACCUMULATORS] = {0}, size = 0;
    op_download(device, targets, batch->targets);
    tensor_read(device, log_prob, own);
    if (batch->reference.data)
        tensor_read(device, batch->reference, reference);
    for (enum accumulator in = EXACT; in < ACCUMULATORS; in++) {
        add_rows(of_model, in, batch, targets, own);
        add_rows(of_reference, in, batch, targets, reference);
        for (size_t pair = 0; pair < pairs; pair++) {
            long double found = difference(of_model, of_reference, pair);
            exact[pair] = in == EXACT ? found : exact[pair];
            size += in == EXACT ? (double)fabsl(found) / (double)pairs : 0;
            errors[in] += (double)fabsl(found - exact[pair]) / (double)pairs;
        }
    }
    *sums = (struct record_pair_sums){.given = true,
                                      .difference = size,
                                      .f64_error = errors[IN_F64],
                                      .f32_error = errors[IN_F32],
                                      .bf16_error = errors[IN_BF16],
                                      .bf16_once_error = errors[IN_BF16_ONCE]};
    free(exact);
    free(of_reference);
    free(of_model);
    free(targets);
    free(reference);
    free(own);
}
