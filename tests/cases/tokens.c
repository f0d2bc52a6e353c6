// Embedding and cross-entropy: tokens that come up often, once and never; rows without a target; rows and
// vocabularies beyond what a block takes at once.
#include "tests/cases/cases.h"

// Rows, vocabulary, width.
static const size_t tables[][3] = {{1, 1, 1},     {9, 4, 70},    {9, 4, 72},     {5, 3, 1100},
                                   {100, 30, 65}, {700, 30, 65}, {4500, 700, 3}, {256, 50000, 64}};
#define TABLES (sizeof tables / sizeof *tables)

void embedding_forward_cases(struct cases *c)
{
    for (size_t s = 0; s < TABLES; s++) {
        size_t n = tables[s][0], vocab = tables[s][1], d = tables[s][2];
        if (case_is_too_large(c, (double)(vocab * d)))
            continue;
        struct operand *ids = case_integers(c, n, 0, (int32_t)vocab);
        c->offset = s % 3 == 1;
        struct operand *table = case_random(c, vocab, d, 1, "table"), *y = case_output(c, n, d);
        c->offset = 0;
        CASE_RUN(c, op_embedding_forward(c->device, y->tensor, table->tensor, ids->tensor));
        for (size_t i = 0; i < n * d; i++)
            y->values[i] = table->values[(size_t)ids->values[i / d] * d + i % d];
        case_check(c, y, 0, 0, "y");
        case_end(c);
    }
}

void embedding_backward_cases(struct cases *c)
{
    enum dtype dtypes[2];
    size_t kinds = case_accumulators(c, dtypes);
    for (size_t s = 0; s < TABLES * kinds; s++) {
        size_t n = tables[s / kinds][0], vocab = tables[s / kinds][1], d = tables[s / kinds][2];
        enum dtype dtype = dtypes[s % kinds];
        if (case_is_too_large(c, (double)(vocab * d)))
            continue;
        struct operand *ids = case_integers(c, n, 0, (int32_t)vocab);
        c->offset = s % 3 == 1;
        struct operand *grad_table = case_random_in(c, dtype, vocab, d, 1, "table");
        struct operand *grad_y = case_random(c, n, d, 1, "grad_y");
        c->offset = 0;
        int32_t padding = s / kinds % 2 ? (int32_t)(vocab / 2) : -1; // an id of some rows, or of all
        CASE_RUN(c, op_embedding_backward(c->device, grad_table->tensor, grad_y->tensor, ids->tensor, padding));
        for (size_t i = 0; i < n * d; i++)
            if ((int32_t)ids->values[i / d] != padding)
                grad_table->values[(size_t)ids->values[i / d] * d + i % d] += grad_y->values[i];
        // Slices of the rows are added one after another.
        double roundings = dtype == c->device->ops->dtype ? 1 + (double)(n / 4096) : 0;
        case_check(c, grad_table, roundings, case_growth(n), "grad_table");
        case_end(c);
    }
    // In any other order than the rows' the last would be lost beside the others.
    for (size_t kind = 0; kind < kinds; kind++) {
        const double rows[] = {0x1p60, -0x1p60, 1};
        struct operand *ids = case_integers(c, 3, 0, 1);
        struct operand *grad_table = case_random_in(c, dtypes[kind], 1, 9, 1, "table");
        struct operand *grad_y = case_random(c, 3, 9, 1, "grad_y");
        for (size_t i = 0; i < (size_t)3 * 9; i++) {
            grad_table->values[i % 9] = 0;
            grad_y->values[i] = rows[i / 9];
        }
        CASE_RUN(c, op_embedding_backward(c->device, grad_table->tensor, grad_y->tensor, ids->tensor, -1));
        for (size_t i = 0; i < 9; i++)
            grad_table->values[i] = 1;
        case_check(c, grad_table, 0, 0, "order of rows");
        case_end(c);
    }
}

void cross_entropy_cases(struct cases *c)
{
    static const size_t shapes[][2] = {{1, 1},     {5, 33},    {9, 4},       {5, 8200},
                                       {600, 257}, {1100, 24}, {1030, 1100}, {256, 50000}};
    const double loss_weight = 0.25, grad_weight = 3;
    const size_t count = sizeof shapes / sizeof *shapes;
    for (size_t s = 0; s < 2 * count; s++) {
        size_t n = shapes[s % count][0], vocab = shapes[s % count][1];
        double cap = s < count ? 0 : 3;
        if (case_is_too_large(c, (double)(n * vocab)))
            continue;
        struct operand *targets = case_integers(c, n, -1, (int32_t)vocab); // some rows without a target
        struct operand *loss = case_output_in(c, DTYPE_F64, 1, 1);
        c->offset = s % 3 == 1;
        struct operand *logits = case_random(c, n, vocab, 1, "logits");
        c->offset = 0;
        loss->values[0] = 2.5;
        for (size_t i = 0; i < n * vocab; i += 13)
            logits->values[i] *= 100; // far beyond what exp holds in f32, if the maximum were not taken off
        CASE_RUN(c, op_cross_entropy(c->device, logits->tensor, targets->tensor, loss->tensor, loss_weight,
                                     grad_weight, cap));
#pragma omp parallel for schedule(static) if (n * vocab > 100000)
        for (size_t r = 0; r < n; r++) {
            double *row = logits->values + r * vocab, largest = -INFINITY, sum = 0;
            double *slope = malloc(vocab * sizeof *slope);
            CHECK(slope);
            for (size_t j = 0; j < vocab; j++) {
                slope[j] = cap > 0 ? pow(cosh(row[j] / cap), -2) : 1;
                row[j] = cap > 0 ? cap * tanh(row[j] / cap) : row[j];
            }
            for (size_t j = 0; j < vocab; j++)
                largest = row[j] > largest ? row[j] : largest;
            for (size_t j = 0; j < vocab; j++)
                sum += exp(row[j] - largest);
            double target = targets->values[r];
            if (target >= 0) {
                double lost = loss_weight * (largest + log(sum) - row[(size_t)target]);
#pragma omp atomic
                loss->values[0] += lost;
            }
            for (size_t j = 0; j < vocab; j++) {
                double softmax = exp(row[j] - largest) / sum;
                row[j] = target < 0 ? 0 : grad_weight * (softmax - ((double)j == target)) * slope[j];
            }
            free(slope);
        }
        case_check(c, logits, 1, 512, "logits"); // exp(-300) has 300 epsilon
        case_check(c, loss, 0, 64, "loss");
        case_end(c);
    }
}
