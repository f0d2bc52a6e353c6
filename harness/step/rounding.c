#include "harness/step/rounding.h"
#include <math.h>

#define ROUNDING_RMS   0.4247
#define STREAM_RESULTS 4
#define BLOCK_RESULTS  28
#define AMPLIFICATION  4
#define LAYER_SUMS     64
#define NOISE_FACTOR   10
#define DEVIATIONS_MIN 5
#define DEVIATIONS_MAX 250
#define RELATIVE_MAX   0.25
#define TENSOR_FACTOR  3
#define SMALL_SHARE    0.1
#define TF32_EPSILON   0x1p-11

static double larger(double a, double b)
{
    return a > b ? a : b;
}

// A of the header: chunks of the context, or of the head's logits.
static double parts(const struct trial *trial)
{
    if (trial->kv_gradient_dtype != DTYPE_BF16 && trial->gradient_dtype != DTYPE_BF16)
        return 0;
    double context = (double)trial_row_tokens(trial);
    const struct option_table *options = &trial->method->options;
    double chunk = (double)options_count(options, trial->options, "chunk", trial->context);
    double head_chunk = (double)options_count(options, trial->options, "head_chunk", 0);
    double count = ceil(larger(context / chunk, head_chunk > 0 ? context / head_chunk : 1));
    return trial->kv_gradient_stochastic ? 2 * count : count;
}

// sigma of the header, for unit roundoffs of stored results and of sums.
static double deviation(const struct trial *trial, double stored, double sum, double part_count)
{
    const struct config *config = &trial->config;
    double tokens = (double)trial->context * (double)trial->batch, bf16 = dtype_epsilon(DTYPE_BF16);
    double terms =
        larger(larger((double)config->width, (double)config->ffn), larger((double)config->vocab, tokens));
    double layers = (double)config->layers;
    double results = AMPLIFICATION * (STREAM_RESULTS * layers + BLOCK_RESULTS),
           sums = LAYER_SUMS * (layers + 1) * log2(terms);
    return ROUNDING_RMS * sqrt(results * stored * stored + sums * sum * sum + bf16 * bf16 * part_count / 2);
}

struct rounding rounding_of(const struct trial *trial, double noise)
{
    double f64 = dtype_epsilon(DTYPE_F64), own = dtype_epsilon(trial->dtype),
           statistic = dtype_epsilon(dtype_statistic(trial->dtype));
    double deviations = larger(DEVIATIONS_MIN, NOISE_FACTOR * noise / deviation(trial, f64, f64, 0));
    double relative =
        deviations * deviation(trial, trial->tf32 ? larger(own, TF32_EPSILON) : own, statistic, parts(trial));
    return (struct rounding){
        .relative = relative,
        .cancelled = deviations * deviation(trial, statistic, statistic, 0),
        .decides = relative <= RELATIVE_MAX && deviations <= DEVIATIONS_MAX,
    };
}

double rounding_whole(const struct rounding *rounding, const struct gradient_error *error)
{
    return gradient_vanishes(error) ? rounding->cancelled * error->share_l2
                                    : rounding->relative * error->reference_l2;
}

double rounding_tensor(const struct rounding *rounding, const struct gradient_error *error)
{
    double relative = rounding->relative * larger(error->reference_l2, SMALL_SHARE * error->share_l2);
    return TENSOR_FACTOR * larger(relative, rounding->cancelled * error->share_l2);
}
