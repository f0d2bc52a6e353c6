// The objective in three: log-probs of rows, their cost by every function of it, and the gradient of the logits.
// Rows without a target; logits far beyond what exp holds in f32, if the maximum were not taken off.
#include "tests/cases/cases.h"

static const size_t shapes[][2] = {{1, 1}, {5, 33}, {5, 8200}, {600, 257}, {1100, 24}, {1030, 1100}, {256, 50000}};
#define SHAPES (sizeof shapes / sizeof *shapes)

static struct operand *random_logits(struct cases *c, size_t n, size_t vocab)
{
    struct operand *logits = case_random(c, n, vocab, 1, "logits");
    for (size_t i = 0; i < n * vocab; i += 13) {
        logits->values[i] *= 100;
    }
    for (size_t i = 0; i < n * vocab; i++) {
        logits->values[i] = dtype_round(logits->values[i], logits->tensor.dtype);
    }
    return logits;
}

static double logsumexp_of(const double *row, size_t vocab)
{
    double largest = -INFINITY, sum = 0;
    for (size_t j = 0; j < vocab; j++) {
        largest = fmax(largest, row[j]);
    }
    for (size_t j = 0; j < vocab; j++) {
        sum += exp(row[j] - largest);
    }
    return largest + log(sum);
}

void log_prob_cases(struct cases *c)
{
    for (size_t s = 0; s < SHAPES; s++) {
        size_t n = shapes[s][0], vocab = shapes[s][1];
        if (case_is_too_large(c, (double)(n * vocab))) {
            continue;
        }
        struct operand *targets = case_integers(c, n, -1, (int32_t)vocab);
        c->offset = s % 3 == 1;
        struct operand *logits = random_logits(c, n, vocab);
        c->offset = 0;
        struct operand *log_prob = case_output_in(c, case_sums(c), n, 1);
        struct operand *logsumexp = case_output_in(c, case_sums(c), n, 1);
        CASE_RUN(c, op_log_prob(c->device, log_prob->tensor, logsumexp->tensor, logits->tensor, targets->tensor));
        for (size_t r = 0; r < n; r++) {
            double target = targets->values[r], *row = logits->values + r * vocab;
            logsumexp->values[r] = target < 0 ? 0 : logsumexp_of(row, vocab);
            log_prob->values[r] = target < 0 ? 0 : row[(size_t)target] - logsumexp->values[r];
        }
        case_check(c, log_prob, 0, 16, "log_prob");
        case_check(c, logsumexp, 0, 16, "logsumexp");
        case_end(c);
    }
}

// Every objective; with weights and without; grad apart and in log_prob's place.
void objective_rows_cases(struct cases *c)
{
    static const size_t rows[] = {1, 5, 20, 600, 1100};
    const double loss_weight = 0.25, grad_weight = 3;
    for (size_t variant = 0; variant < 8 * sizeof rows / sizeof *rows; variant++) {
        size_t n = rows[variant / 8];
        bool weighted = variant & 1, in_place = variant & 2;
        enum row_objective objective = variant & 4 ? ROW_DFT : ROW_LIKELIHOOD;
        struct operand *targets = case_integers(c, n, -1, 7);
        struct operand *loss = case_output_in(c, DTYPE_F64, 1, 1);
        struct operand *log_prob = case_random_in(c, case_sums(c), n, 1, 3, "log_prob");
        struct operand *weights = case_random_in(c, case_sums(c), n, 1, 1, "weights");
        struct operand *grad = in_place ? log_prob : case_output_in(c, case_sums(c), n, 1);
        loss->values[0] = 2.5;
        for (size_t r = 0; r < n; r++) {
            log_prob->values[r] = targets->values[r] < 0 ? 0 : -fabs(log_prob->values[r]);
        }
        CASE_RUN(c, op_objective_rows(c->device, objective, grad->tensor, loss->tensor, log_prob->tensor,
                                      weighted ? weights->tensor : tensor_none(), targets->tensor, loss_weight,
                                      grad_weight));
        double terms = 1;
        for (size_t r = 0; r < n; r++) {
            double l = log_prob->values[r], weight = weighted ? weights->values[r] : 1;
            double p = objective == ROW_DFT ? exp(l) : 1;
            bool none = targets->values[r] < 0;
            loss->values[0] -= none ? 0 : loss_weight * weight * p * l;
            terms += none ? 0 : fabs(loss_weight * weight * p * l);
            grad->values[r] = none ? 0 : -grad_weight * weight * p;
        }
        case_check(c, grad, 0, 64, "grad, objective %d", objective);
        case_check(c, loss, 0, 64 * terms / fmax(1, fabs(loss->values[0])), "loss, objective %d", objective);
        case_end(c);
    }
}

void log_prob_backward_cases(struct cases *c)
{
    for (size_t s = 0; s < SHAPES; s++) {
        size_t n = shapes[s][0], vocab = shapes[s][1];
        if (case_is_too_large(c, (double)(n * vocab))) {
            continue;
        }
        struct operand *targets = case_integers(c, n, -1, (int32_t)vocab);
        c->offset = s % 3 == 1;
        struct operand *logits = random_logits(c, n, vocab);
        c->offset = 0;
        struct operand *logsumexp = case_output_in(c, case_sums(c), n, 1);
        struct operand *grad = case_random_in(c, case_sums(c), n, 1, 1, "grad");
        for (size_t r = 0; r < n; r++) {
            bool none = targets->values[r] < 0;
            logsumexp->values[r] = none ? 0 : logsumexp_of(logits->values + r * vocab, vocab);
            grad->values[r] = none ? 0 : grad->values[r];
        }
        CASE_RUN(c,
                 op_log_prob_backward(c->device, logits->tensor, logsumexp->tensor, targets->tensor, grad->tensor));
        for (size_t i = 0; i < n * vocab; i++) {
            size_t r = i / vocab;
            double target = targets->values[r], softmax = exp(logits->values[i] - logsumexp->values[r]);
            logits->values[i] = target < 0 ? 0 : grad->values[r] * (((double)(i % vocab) == target) - softmax);
        }
        // exp(-300) has 300 epsilon, and logsumexp as many.
        case_check(c, logits, 1, 1024, "logits");
        case_end(c);
    }
}
