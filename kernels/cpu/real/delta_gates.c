// Gated DeltaNet's gates: decay = -exp(a_log) softplus(a + dt_bias), beta = scale sigmoid(b). Backward: grad_a = s
// = -grad_decay exp(a_log) sigmoid(a + dt_bias), grad_b = grad_beta beta (1 - sigmoid(b)), grad_dt_bias += sums of
// s, grad_a_log += sums of grad_decay decay.
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/rows.h"

// log(1 + exp(x)) without overflow.
static real softplus(real x)
{
    return (x > 0 ? x : 0) + (real)log1p((double)real_exp(x > 0 ? -x : x));
}

static real sigmoid(real x)
{
    return 1 / (1 + real_exp(-x));
}

void NAME(delta_gates_forward)(struct device *device, struct tensor decay, struct tensor beta, struct tensor a,
                               struct tensor b, struct tensor a_log, struct tensor dt_bias, double scale)
{
    (void)device;
    const stored *pa = a.data, *pb = b.data, *log_rate = a_log.data, *bias = dt_bias.data;
    real *pd = decay.data, *pbeta = beta.data;
    size_t heads = a.cols, count = tensor_count(a);
#pragma omp parallel for schedule(static) if (count > PARALLEL_ELEMENTS / 8)
    for (size_t i = 0; i < count; i++) {
        size_t h = i % heads;
        pd[i] = -real_exp(load(log_rate[h])) * softplus(load(pa[i]) + load(bias[h]));
        pbeta[i] = (real)scale * sigmoid(load(pb[i]));
    }
}

void NAME(delta_gates_backward)(struct device *device, struct tensor grad_a, struct tensor grad_b,
                                struct tensor grad_a_log, struct tensor grad_dt_bias, struct tensor grad_decay,
                                struct tensor grad_beta, struct tensor a, struct tensor b, struct tensor a_log,
                                struct tensor dt_bias, double scale)
{
    (void)device;
    const stored *pa = a.data, *pb = b.data, *log_rate = a_log.data, *bias = dt_bias.data;
    const real *pgd = grad_decay.data, *pgb = grad_beta.data;
    stored *pga = grad_a.data, *pgbeta = grad_b.data;
    struct accumulator of_log = accumulator_of(grad_a_log), of_bias = accumulator_of(grad_dt_bias);
    size_t heads = a.cols;
#pragma omp parallel for schedule(static) if (tensor_count(a) > PARALLEL_ELEMENTS / 8)
    for (size_t h = 0; h < heads; h++) {
        real rate = real_exp(load(log_rate[h])), log_sum = 0, bias_sum = 0;
        for (size_t i = h; i < tensor_count(a); i += heads) {
            real x = load(pa[i]) + load(bias[h]), sigma = sigmoid(load(pb[i]));
            real slope = -rate * pgd[i] * sigmoid(x);
            log_sum -= rate * pgd[i] * softplus(x);
            bias_sum += slope;
            pga[i] = store(slope);
            pgbeta[i] = store(pgb[i] * (real)scale * sigma * (1 - sigma));
        }
        if (grad_a_log.data) {
            accumulator_set(of_log, h, accumulator_get(of_log, h) + log_sum);
            accumulator_set(of_bias, h, accumulator_get(of_bias, h) + bias_sum);
        }
    }
}
